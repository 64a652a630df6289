//! The settings as a list for getgpu.toml(5): name, what it is for, the built-in value.
//! All of it is the table of settings that files, options and variables are read by.

use getgpu_common::settings::Settings;
use getgpu_common::settings::keys::KEYS;

use crate::roff;

/// The settings that are policy, or those that are preferences.
pub fn items(policy: bool) -> String {
    let built_in = Settings::default();
    KEYS.iter()
        .filter(|key| key.policy == policy)
        .map(|key| {
            let value = (key.show)(&built_in);
            // A list can be broken between its items.
            let value = value.replace("\",\"", "\", \"");
            format!(
                ".TP\n\\fB{}\\fR\n{}.br\n{}",
                roff::literal(key.name),
                roff::prose(&format!("{}.", capital(key.help))),
                roff::prose(&format!("Built in: {value}"))
            )
        })
        .collect()
}

/// The first letter of a sentence, unless the word is a name.
fn capital(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or("");
    if first.contains("getgpu") || first.starts_with('"') {
        return text.to_owned();
    }
    roff::capital(text)
}
