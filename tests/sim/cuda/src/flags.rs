//! The flags of the simulated program, from its arguments. Each but `--shared` has a
//! value.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What the program shall do.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Flags {
    /// Time before the context exists.
    pub(crate) init: Duration,
    /// Time for which it exists; `None`: for ever.
    pub(crate) run: Option<Duration>,
    /// Until this file exists (and `run` has ended).
    pub(crate) until_file: Option<PathBuf>,
    /// Exit status.
    pub(crate) exit: i32,
    /// How many programs may be on the device at once.
    pub(crate) max: u32,
    /// Memory of the context.
    pub(crate) memory: u64,
    /// Text for the logs.
    pub(crate) tag: String,
    /// File to make once the outcome is known.
    pub(crate) ready: Option<PathBuf>,
}

impl Flags {
    /// Later flags win; `--max` counts more than `--shared`.
    pub(crate) fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut flags = Self {
            run: Some(Duration::ZERO),
            max: 1,
            memory: 256 << 20,
            ..Self::default()
        };
        let mut most = None;
        while let Some(word) = words.next() {
            let flag = word.to_string_lossy().into_owned();
            if flag == "--shared" {
                flags.max = u32::MAX;
                continue;
            }
            let value = words
                .next()
                .ok_or_else(|| format!("{flag}: needs a value"))?;
            let text = value.to_string_lossy().into_owned();
            let bad = || format!("{flag} {text}: not understood");
            match flag.as_str() {
                "--init" => flags.init = time(&text).ok_or_else(bad)?,
                "--run" if text == "forever" => flags.run = None,
                "--run" => flags.run = Some(time(&text).ok_or_else(bad)?),
                "--until-file" => flags.until_file = Some(value.into()),
                "--exit" => flags.exit = text.parse().map_err(|_| bad())?,
                "--max" => most = Some(text.parse().ok().filter(|max| *max > 0).ok_or_else(bad)?),
                "--memory" => flags.memory = text.parse().map_err(|_| bad())?,
                "--tag" => flags.tag = text.replace(char::is_whitespace, "_"),
                "--ready" => flags.ready = Some(value.into()),
                _ => return Err(bad()),
            }
        }
        flags.max = most.unwrap_or(flags.max);
        Ok(flags)
    }
}

/// `0.2`, `2s`, `150ms`.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 0.001),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}
