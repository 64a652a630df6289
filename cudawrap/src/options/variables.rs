//! The CUDAWRAP_* variables, which stand for options under a link, where there are none.
//! Under secure execution (setuid, file capabilities) none is believed.

use getgpu_common::error::Failure;
use getgpu_common::settings::Loaded;
use getgpu_common::sys;
use getgpu_common::typed::Typed;

use super::table::FLAGS;

/// Whether CUDAWRAP_DISABLE=1 turns the wrapper into a plain exec.
pub fn disabled() -> bool {
    !sys::secure_execution() && std::env::var_os("CUDAWRAP_DISABLE").is_some_and(|value| value == "1")
}

/// Whether CUDAWRAP_IGNORE_GRANT=1 says what --ignore-grant says.
pub fn grant_ignored() -> bool {
    !sys::secure_execution()
        && std::env::var_os("CUDAWRAP_IGNORE_GRANT").is_some_and(|value| value == "1" || value == "true")
}

/// Puts the CUDAWRAP_* variables over the settings. Under secure execution none is believed.
pub fn variables(loaded: &mut Loaded) -> Result<(), Failure> {
    if sys::secure_execution() {
        return Ok(());
    }
    for (key, name) in FLAGS.iter().map(|flag| (flag.key(), flag.variable())) {
        if let Some(text) = std::env::var_os(&name).filter(|text| !text.is_empty()) {
            loaded.put(&key, &[text.to_string_lossy().into_owned()], &name)?;
        }
    }
    Typed::of_variables(|name| std::env::var_os(name)).put(loaded)
}
