//! Texts to values and back, for the table of settings: one reader and one writer for
//! each kind of value. A reader gets what a file, an option or a variable says, as one
//! text or several, and returns what is wrong with it.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use getgpu_model::{Selector, quantity};

pub(super) fn one(texts: &[String]) -> Result<&str, String> {
    match texts {
        [text] => Ok(text),
        _ => Err("expected one value, not a list".into()),
    }
}

/// A value of a type that reads itself.
pub(super) fn read<T: FromStr<Err = String>>(texts: &[String]) -> Result<T, String> {
    one(texts)?.parse()
}

pub(super) fn time(texts: &[String]) -> Result<Duration, String> {
    quantity::time(one(texts)?)
}

/// A time that is more than none.
pub(super) fn some_time(texts: &[String]) -> Result<Duration, String> {
    let time = time(texts)?;
    if time.is_zero() {
        return Err(format!(
            "`{}` is no time: write 15 (seconds), or 1m",
            one(texts)?
        ));
    }
    Ok(time)
}

/// A list of values that read themselves.
pub(super) fn each<T: FromStr<Err = String>>(texts: &[String]) -> Result<Vec<T>, String> {
    texts.iter().map(|text| text.parse()).collect()
}

/// The words of one text, split at blanks.
pub(super) fn words(texts: &[String]) -> Result<Vec<String>, String> {
    Ok(one(texts)?.split_whitespace().map(str::to_owned).collect())
}

/// A size in bytes.
pub(super) fn size(texts: &[String]) -> Result<u64, String> {
    quantity::size(one(texts)?)
}

/// A size of device memory. A bare number is bytes. A small one is refused, since it was
/// meant otherwise: Slurm takes it as MiB.
pub(super) fn memory(texts: &[String]) -> Result<u64, String> {
    let bytes = size(texts)?;
    let text = one(texts)?.trim();
    let bare = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if bare && (1..1 << 20).contains(&bytes) {
        return Err(format!(
            "`{text}` is less than 1 MiB, in bytes: did you mean {text}M?"
        ));
    }
    Ok(bytes)
}

pub(super) fn path(texts: &[String]) -> Result<PathBuf, String> {
    Ok(one(texts)?.into())
}

/// A path that is the same file for every program, wherever it was started.
pub(super) fn absolute_path(texts: &[String]) -> Result<PathBuf, String> {
    let path = path(texts)?;
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(format!("`{}` is not an absolute path", path.display()))
    }
}

/// `true` or `false`.
pub(super) fn truth(texts: &[String]) -> Result<bool, String> {
    match one(texts)? {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        other => Err(format!("`{other}` is neither true nor false")),
    }
}

/// A whole number of 1 or more.
pub(super) fn count(texts: &[String]) -> Result<u32, String> {
    let text = one(texts)?;
    text.parse()
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("`{text}` is not a whole number of 1 or more"))
}

/// `2..4`: at least and at most so many.
pub(super) fn counts(text: &str) -> Result<(u32, u32), String> {
    let ends = text.split_once("..").and_then(|(least, most)| {
        let end = |text: &str| count(&[text.trim().to_owned()]).ok();
        Some((end(least)?, end(most)?))
    });
    let ends = ends.filter(|(least, most)| least <= most);
    ends.ok_or_else(|| {
        format!("`{text}` is not a range of whole numbers of 1 or more, such as 2..4")
    })
}

/// DeviceNames, each on its own or separated by commas; none may be empty.
pub(super) fn names(texts: &[String]) -> Result<Vec<String>, String> {
    let names: Vec<String> = texts
        .iter()
        .flat_map(|text| text.split(','))
        .map(|name| name.trim().to_owned())
        .collect();
    if names.iter().any(String::is_empty) {
        Err("an empty name".into())
    } else {
        Ok(names)
    }
}

/// GPUs by NVML index or UUID, or devices by UUID.
pub(super) fn selectors(texts: &[String]) -> Result<Vec<Selector>, String> {
    let each = names(texts)?.into_iter().map(|name| {
        Selector::parse(&name)
            .ok_or_else(|| format!("`{name}` is neither the index of a GPU nor a UUID"))
    });
    each.collect()
}

pub(super) fn show_text(value: &dyn Display) -> String {
    quoted(&value.to_string())
}

/// A text, or a list of texts, as it is written in a file: JSON has the same escapes as
/// TOML, but for DEL, which TOML wants escaped.
pub fn quoted(value: &(impl serde::Serialize + ?Sized)) -> String {
    serde_json::to_string(value)
        .unwrap_or_default()
        .replace('\u{7f}', "\\u007f")
}

pub(super) fn show_path(value: Option<&PathBuf>) -> String {
    value.map_or_else(unset, |p| show_text(&p.display()))
}

pub(super) fn show_time(value: Duration) -> String {
    show_text(&quantity::time_text(value))
}

/// A size in bytes; a small one with its unit, without which `memory` refuses it.
pub(super) fn show_size(value: Option<u64>) -> String {
    match value {
        None => unset(),
        Some(bytes) if (1..1 << 20).contains(&bytes) => show_text(&format!("{bytes}B")),
        Some(bytes) => bytes.to_string(),
    }
}

pub(super) fn show_or<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(unset, show)
}

fn unset() -> String {
    "unset".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_text_and_nothing_is_shown_as_unset() {
        let texts = |text: &str| vec![text.to_owned()];
        assert_eq!(path(&texts("/run/x")), Ok("/run/x".into()));
        assert_eq!(show_size(None), "unset");
        assert_eq!(show_or(None::<u64>, |_| "some".into()), "unset");
    }

    #[test]
    fn a_small_number_without_a_unit_is_refused_as_memory() {
        let read = |text: &str| memory(&[text.to_owned()]);
        for (text, bytes) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("512k", 512 << 10),
            ("10G", 10 << 30),
        ] {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
        assert_eq!(show_size(Some(512 << 10)), "\"524288B\"");
        for text in ["1", "512", "1048575"] {
            let refused = read(text).unwrap_err();
            assert!(
                refused.contains(&format!("did you mean {text}M?")),
                "{refused}"
            );
        }
    }
}
