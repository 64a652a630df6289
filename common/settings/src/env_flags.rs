//! Variables that are on or off, such as CUDAWRAP_DISABLE. Under secure execution (setuid,
//! file capabilities) none is believed.

use getgpu_linux::sys;
use getgpu_model::{Failure, diag::printable};

use super::causes::SettingsCause;

/// Whether a variable is on; off if it is not set.
///
/// # Errors
///
/// Its value is neither yes nor no.
pub fn is_on(name: &str) -> Result<bool, Failure> {
    let Some(value) = std::env::var_os(name).filter(|_| !sys::secure_execution()) else {
        return Ok(false);
    };
    let value = value.to_string_lossy();
    on_or_off(&value).ok_or_else(|| {
        let shown = printable(&value);
        SettingsCause::NeitherOnNorOff { name, shown }.into()
    })
}

fn on_or_off(word: &str) -> Option<bool> {
    match word.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "" | "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::on_or_off;

    #[test]
    fn one_set_of_words() {
        let cases = [
            ("1 true yes on YES On", Some(true)),
            ("0 false no off Off", Some(false)),
            ("2 y enabled -1", None),
        ];
        for (words, meant) in cases {
            for word in words.split(' ') {
                assert_eq!(on_or_off(&format!(" {word} ")), meant, "{word}");
            }
        }
        assert_eq!(on_or_off(""), Some(false));
    }
}
