//! The CUDAWRAP_* variables, which stand for options under a link, where there are none.
//! Under secure execution (setuid, file capabilities) none is believed.

use getgpu_cli::{Choosing, Overrides, variable};
use getgpu_linux::{PREFIX, sys};
use getgpu_model::lease_tag;
use getgpu_model::{Failure, similar};
use getgpu_settings::{DeviceNames, Loaded, Type, env_flags};

use super::table::Running;
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

/// A line for each CUDAWRAP_* variable that means nothing, probably mistyped, with the one
/// that may have been meant.
pub fn unknown_variables() -> Vec<String> {
    let others = [
        "CUDAWRAP_DISABLE",
        "CUDAWRAP_IGNORE_GRANT",
        lease_tag::VARIABLE,
        getgpu_auto::TABLE,
        BOUND,
    ]
    .map(str::to_owned);
    let known: Vec<String> = settings().map(variable).chain(others).collect();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names
        .filter(|name| name.starts_with(PREFIX) && !known.contains(name))
        .map(|name| {
            // All begin alike, which must not count as likeness.
            let ends = known.iter().map(|known| without_prefix(known));
            let meant = similar(without_prefix(&name), ends);
            let meant =
                meant.map_or_else(String::new, |end| format!("; did you mean {PREFIX}{end}?"));
            format!("{name}: no such variable, ignored{meant}")
        })
        .collect()
}

fn without_prefix(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or_default()
}

/// The settings that variables stand for.
fn settings() -> impl Iterator<Item = &'static str> {
    let said = Choosing::default().said().into_iter();
    said.chain(Running::default().said()).map(|(key, _)| key)
}

/// Puts the CUDAWRAP_* variables over the settings. Under secure execution none is
/// believed.
pub fn variables(loaded: &mut Loaded) -> Result<(), Failure> {
    let get = |name: &str| std::env::var_os(name).filter(|_| !sys::secure_execution());
    Overrides::of_variables(settings(), get).put(loaded)
}

/// Only whole GPUs have an index: where a program is to have indices, these alone are chosen from.
///
/// # Errors
///
/// The setting cannot have this value.
pub fn whole_gpus_for_indices(loaded: &mut Loaded) -> Result<(), Failure> {
    if loaded.settings.names == DeviceNames::Index && loaded.settings.kind == Type::Auto {
        loaded.put("type", &["gpu".into()], "names = index")?;
    }
    Ok(())
}
