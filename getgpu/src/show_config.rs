//! `--show-config`: every setting with its value in force and where that comes from.

use getgpu_common::settings::{Loaded, Source, keys};

/// A line per setting, as it would be written in a file.
pub fn text(loaded: &Loaded) -> String {
    let lines = keys::KEYS.iter().zip(&loaded.sources).map(|(key, (_, source))| {
        let from = match source {
            Source::BuiltIn => "built in".to_owned(),
            Source::File(path) => path.display().to_string(),
            Source::Variable(name) | Source::Option(name) => (*name).to_owned(),
        };
        format!("{} = {}  # {from}\n", key.name, (key.show)(&loaded.settings))
    });
    lines.collect()
}
