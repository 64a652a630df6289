//! The CUDAWRAP_* variables, which stand for options under a link, where there are none.
//! Under secure execution (setuid, file capabilities) none is believed.

use getgpu_common::error::{Failure, Kind};
use getgpu_common::overrides::Overrides;
use getgpu_common::settings::Loaded;
use getgpu_common::sys;

use super::table::FLAGS;

/// Whether CUDAWRAP_DISABLE turns the wrapper into a plain exec.
///
/// # Errors
///
/// Its value is neither yes nor no.
pub fn disabled() -> Result<bool, Failure> {
    switch("CUDAWRAP_DISABLE")
}

/// Whether CUDAWRAP_IGNORE_GRANT says what --ignore-grant says.
///
/// # Errors
///
/// Its value is neither yes nor no.
pub fn grant_ignored() -> Result<bool, Failure> {
    switch("CUDAWRAP_IGNORE_GRANT")
}

/// A variable that is on or off; off if it is not set. Under secure execution it is not
/// believed.
fn switch(name: &str) -> Result<bool, Failure> {
    let Some(value) = std::env::var_os(name).filter(|_| !sys::secure_execution()) else {
        return Ok(false);
    };
    let value = value.to_string_lossy();
    on_or_off(&value).ok_or_else(|| {
        let shown = getgpu_common::diag::printable(&value);
        Failure::new(Kind::Usage, format!("{name}={shown}: neither on nor off"))
            .hint(format!("{name}=1, or unset it"))
    })
}

fn on_or_off(word: &str) -> Option<bool> {
    match word.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "" | "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::on_or_off;

    #[test]
    fn one_set_of_words() {
        assert!(
            ["1", "true", "yes", "on", "YES", " On "]
                .iter()
                .all(|word| on_or_off(word) == Some(true))
        );
        assert!(
            ["", "0", "false", "no", "off", "Off"]
                .iter()
                .all(|word| on_or_off(word) == Some(false))
        );
        assert!(
            ["2", "y", "enabled", "-1"]
                .iter()
                .all(|word| on_or_off(word).is_none())
        );
    }
}
