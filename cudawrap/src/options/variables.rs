//! The CUDAWRAP_* variables, which stand for options under a link, where there are none.
//! Under secure execution (setuid, file capabilities) none is believed.

use getgpu_common::error::Failure;
use getgpu_common::flags::Flag;
use getgpu_common::overrides::Overrides;
use getgpu_common::resolve_program::PREFIX;
use getgpu_common::settings::{Loaded, switches};
use getgpu_common::shared_flags;
use getgpu_common::similar::similar;
use getgpu_common::sys;

use super::table::FLAGS;
use crate::bind::mask_origin::BOUND;

/// Whether CUDAWRAP_DISABLE turns the wrapper into a plain exec.
///
/// # Errors
///
/// Its value is neither yes nor no.
pub fn disabled() -> Result<bool, Failure> {
    switches::is_on("CUDAWRAP_DISABLE")
}

/// Whether CUDAWRAP_IGNORE_GRANT says what --ignore-grant says.
///
/// # Errors
///
/// Its value is neither yes nor no.
pub fn grant_ignored() -> Result<bool, Failure> {
    switches::is_on("CUDAWRAP_IGNORE_GRANT")
}

/// CUDAWRAP_* variables that no version so far has read, probably mistyped, each with the
/// one that may have been meant.
pub fn unknown_variables() -> Vec<(String, Option<String>)> {
    let options = FLAGS
        .iter()
        .chain(&shared_flags::CHOOSING)
        .map(Flag::variable);
    let others = ["CUDAWRAP_DISABLE", "CUDAWRAP_IGNORE_GRANT", BOUND].map(str::to_owned);
    let known: Vec<String> = options.chain(others).collect();
    // All begin alike, which must not count as likeness.
    let behind = |name: &str| name.strip_prefix(PREFIX).unwrap_or_default().to_owned();
    let meant = |name: &str| {
        let ends: Vec<String> = known.iter().map(|known| behind(known)).collect();
        let meant = similar(&behind(name), ends.iter().map(String::as_str))?;
        Some(format!("{PREFIX}{meant}"))
    };
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name))
        .map(|name| {
            let meant = meant(&name);
            (name, meant)
        })
        .collect()
}

/// Puts the CUDAWRAP_* variables over the settings. Under secure execution none is
/// believed.
pub fn variables(loaded: &mut Loaded) -> Result<(), Failure> {
    if sys::secure_execution() {
        return Ok(());
    }
    for (key, name) in FLAGS.iter().map(|flag| (flag.key(), flag.variable())) {
        if let Some(text) = std::env::var_os(&name).filter(|text| !text.is_empty()) {
            loaded.put(&key, &[text.to_string_lossy().into_owned()], &name)?;
        }
    }
    Overrides::of_variables(|name| std::env::var_os(name)).put(loaded)
}
