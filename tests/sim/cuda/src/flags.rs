//! The flags of the simulated program, from the environment variable `SIM_CUDA` and then
//! from its arguments. With the variable set, arguments that are no flags are let pass:
//! they stand for those of the program it plays.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The flags with a value; `--shared` has none.
const FLAGS: [&str; 9] = [
    "--init",
    "--run",
    "--until-file",
    "--exit",
    "--kill",
    "--max",
    "--memory",
    "--tag",
    "--ready",
];

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
    /// Signal to end itself by.
    pub(crate) kill: Option<i32>,
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
    /// Flags from the variable, then from the arguments; later ones win.
    pub(crate) fn parse(variable: Option<&str>, arguments: Vec<OsString>) -> Result<Self, String> {
        let mut flags = Self {
            run: Some(Duration::ZERO),
            max: 1,
            memory: 256 << 20,
            ..Self::default()
        };
        let mut most = None;
        flags.take(
            variable
                .unwrap_or("")
                .split_whitespace()
                .map(OsString::from),
            false,
            &mut most,
        )?;
        flags.take(arguments.into_iter(), variable.is_some(), &mut most)?;
        flags.max = most.unwrap_or(flags.max);
        Ok(flags)
    }

    fn take(
        &mut self,
        mut words: impl Iterator<Item = OsString>,
        lenient: bool,
        most: &mut Option<u32>,
    ) -> Result<(), String> {
        while let Some(word) = words.next() {
            let flag = word.to_string_lossy().into_owned();
            if flag == "--shared" {
                self.max = u32::MAX;
                continue;
            }
            if !FLAGS.contains(&flag.as_str()) {
                if lenient {
                    continue;
                }
                return Err(format!("{flag}: unknown flag"));
            }
            let value = words
                .next()
                .ok_or_else(|| format!("{flag}: needs a value"))?;
            let text = value.to_string_lossy().into_owned();
            let bad = || format!("{flag} {text}: not understood");
            match flag.as_str() {
                "--init" => self.init = time(&text).ok_or_else(bad)?,
                "--run" if text == "forever" => self.run = None,
                "--run" => self.run = Some(time(&text).ok_or_else(bad)?),
                "--until-file" => self.until_file = Some(value.into()),
                "--exit" => self.exit = text.parse().map_err(|_| bad())?,
                "--kill" => self.kill = Some(signal(&text).ok_or_else(bad)?),
                "--max" => *most = Some(text.parse().ok().filter(|max| *max > 0).ok_or_else(bad)?),
                "--memory" => self.memory = text.parse().map_err(|_| bad())?,
                "--tag" => self.tag = text.replace(char::is_whitespace, "_"),
                _ => self.ready = Some(value.into()),
            }
        }
        Ok(())
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

/// `9`, `KILL`, `SIGKILL`.
fn signal(text: &str) -> Option<i32> {
    let name = if text.starts_with("SIG") {
        text.to_owned()
    } else {
        format!("SIG{text}")
    };
    text.parse().ok().or_else(|| {
        name.parse::<nix::sys::signal::Signal>()
            .ok()
            .map(|signal| signal as i32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_signals_as_people_write_them() {
        assert_eq!(
            ["0.2", "2s", "150ms"].map(|t| time(t).unwrap().as_millis()),
            [200, 2000, 150]
        );
        assert_eq!(
            ["9", "KILL", "SIGTERM"].map(|s| signal(s).unwrap()),
            [9, 9, 15]
        );
        assert!(time("soon").is_none() && time("-1").is_none() && signal("NONE").is_none());
    }

    #[test]
    fn the_variable_stands_for_the_arguments() {
        let words = |text: &str| {
            text.split_whitespace()
                .map(OsString::from)
                .collect::<Vec<_>>()
        };
        let flags = Flags::parse(None, words("--run forever --max 3 --tag a")).unwrap();
        assert_eq!((flags.run, flags.max, flags.tag.as_str()), (None, 3, "a"));
        let driven = Flags::parse(
            Some("--run forever --max 3 --tag a"),
            words("-i input.dat --max 4"),
        )
        .unwrap();
        assert_eq!(driven, Flags { max: 4, ..flags });
        assert!(Flags::parse(None, words("-i input.dat")).is_err());
    }
}
