//! `--show-config`: every setting with its value in force and where that comes from, then
//! what files say for single programs. Each line could stand in a settings file.

use getgpu_common::settings::{Loaded, Source, keys, quoted};

/// A line per setting, as it would be written in a file.
pub fn text(loaded: &Loaded) -> String {
    let lines = keys::KEYS
        .iter()
        .zip(&loaded.sources)
        .map(|(key, (_, source))| {
            let from = match source {
                Source::BuiltIn => "built in".to_owned(),
                Source::File(path) => path.display().to_string(),
                Source::Typed(name) => name.clone(),
            };
            format!(
                "{} = {}  # {from}\n",
                key.name,
                (key.show)(&loaded.settings)
            )
        });
    let programs = loaded.programs.iter().map(|(path, pattern, key, texts)| {
        let value = if let [one] = texts.as_slice() {
            quoted(one)
        } else {
            quoted(texts)
        };
        format!(
            "program.{}.{key} = {value}  # {}\n",
            quoted(pattern),
            path.display()
        )
    });
    lines.chain(programs).collect()
}
