//! The name that people give to what a program holds (`--tag`, CUDAWRAP_TAG), for listings,
//! metrics and the log. A program has it in its environment, which its own user and root can
//! read; nothing is decided by it.

use crate::causes::ModelCause;
use crate::diag::printable;
use crate::error::Failure;
use getgpu_linux::{CommandLines, procfs::process_memory};

/// The variable that has it.
pub const VARIABLE: &str = "CUDAWRAP_TAG";

/// A word that can stand in a command line, a file name and a unit's name.
///
/// # Errors
///
/// It is not, with what is expected.
pub fn parse(name: &str) -> Result<String, String> {
    if is_harmless(name) {
        return Ok(name.to_owned());
    }
    let name = printable(name);
    Err(format!(
        "`{name}`: expected 1 to 64 characters of A-Z a-z 0-9 . _ -"
    ))
}

fn is_harmless(name: &str) -> bool {
    let mut bytes = name.bytes();
    let harmless = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    harmless && (1..=64).contains(&name.len())
}

/// That of this process; an empty variable is none.
///
/// # Errors
///
/// The variable is no such word.
pub fn own() -> Result<Option<String>, Failure> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let parsed = parse(&value.to_string_lossy());
    let parsed = parsed.map_err(|why| ModelCause::NoTag { why });
    Ok(Some(parsed?))
}

/// That of another process of `uid`, where its environment may be read.
pub fn of(environments: &CommandLines, pid: i32, uid: u32) -> Option<String> {
    let block = environments.environment(pid, uid);
    let value = process_memory::value(&block, VARIABLE)?;
    let value = String::from_utf8_lossy(value).into_owned();
    Some(value).filter(|value| is_harmless(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_one_harmless_word() {
        for name in ["a", "run-7_b.c", &"x".repeat(64)] {
            assert_eq!(parse(name), Ok(name.to_owned()));
        }
        for name in ["", "a b", "a=b", "é", "a\nb", &"x".repeat(65)] {
            assert!(parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_tag_of_a_process_is_in_its_environment() {
        let own = CommandLines::start();
        let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
        for (value, expected) in [("night-7", Some("night-7")), ("not a word", None)] {
            let mut child = std::process::Command::new("sleep")
                .arg("100")
                .env(VARIABLE, value)
                .spawn()
                .unwrap();
            let found = of(&own, child.id() as i32, uid);
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(found.as_deref(), expected);
        }
    }
}
