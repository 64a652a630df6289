//! The CUDAWRAP_* variables, which stand for options under a link, where there are none.
//! Under secure execution (setuid, file capabilities) none is believed.

use getgpu_common::error::Failure;
use getgpu_common::overrides::{Overrides, known_variables, variable};
use getgpu_common::resolve_program::PREFIX;
use getgpu_common::settings::{Loaded, env_flags};
use getgpu_common::similar::similar;
use getgpu_common::sys;

use super::table::SETTINGS;
use crate::bind::mask_origin::BOUND;

/// Whether CUDAWRAP_DISABLE turns the wrapper into a plain exec.
///
/// # Errors
///
/// Its value is neither yes nor no.
pub fn disabled() -> Result<bool, Failure> {
    env_flags::is_on("CUDAWRAP_DISABLE")
}

/// Whether CUDAWRAP_IGNORE_GRANT says what --ignore-grant says.
///
/// # Errors
///
/// Its value is neither yes nor no.
pub fn grant_ignored() -> Result<bool, Failure> {
    env_flags::is_on("CUDAWRAP_IGNORE_GRANT")
}

/// CUDAWRAP_* variables that no version so far has read, probably mistyped, each with the
/// one that may have been meant.
pub fn unknown_variables() -> Vec<(String, Option<String>)> {
    let options = SETTINGS.into_iter().map(variable).chain(known_variables());
    let others = ["CUDAWRAP_DISABLE", "CUDAWRAP_IGNORE_GRANT", BOUND].map(str::to_owned);
    let known: Vec<String> = options.chain(others).collect();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name))
        .map(|name| {
            // All begin alike, which must not count as likeness.
            let ends = known.iter().map(|known| without_prefix(known));
            let meant = similar(without_prefix(&name), ends);
            let meant = meant.map(|end| format!("{PREFIX}{end}"));
            (name, meant)
        })
        .collect()
}

fn without_prefix(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or_default()
}

/// Puts the CUDAWRAP_* variables over the settings. Under secure execution none is
/// believed.
pub fn variables(loaded: &mut Loaded) -> Result<(), Failure> {
    if sys::secure_execution() {
        return Ok(());
    }
    for key in SETTINGS {
        let name = variable(key);
        if let Some(text) = std::env::var_os(&name).filter(|text| !text.is_empty()) {
            loaded.put(key, &[text.to_string_lossy().into_owned()], &name)?;
        }
    }
    Overrides::of_variables(|name| std::env::var_os(name)).put(loaded)
}
