//! `--show-config`: every setting with its value in force and where that comes from, then
//! what files say for single programs. Each line could stand in a settings file.

use std::path::PathBuf;

use getgpu_common::settings::{Environment, Loaded, Source, keys, quoted};

/// The files that were looked for and the lock in use, as comments for people.
pub fn head(environment: &Environment, lock: &str) -> String {
    let files = [
        Some(&environment.system_file),
        environment.prefix_file.as_ref(),
        environment.user_file.as_ref(),
    ];
    let file = |path: &PathBuf| {
        let state = if path.exists() { "read" } else { "not there" };
        format!("# {}: {state}\n", path.display())
    };
    let head: String = files.into_iter().flatten().map(file).collect();
    format!("{head}# lock: {lock}\n")
}

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
