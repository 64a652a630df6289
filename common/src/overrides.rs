//! What was typed, or put into CUDAWRAP_* variables, of the options that choose, share
//! and wait. Each stands for a setting and is read by the table of settings, so that a
//! file, an option and a variable mean the same.

use crate::error::{Failure, Kind};
use crate::flags::{LETTER, Takes};
use crate::settings::{Loaded, Settings};
use crate::shared_flags::CHOOSING;

/// The choosing options that were typed: setting, texts, and the option's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(Vec<(String, Vec<String>, String)>);

impl Overrides {
    /// Takes them from what was typed. Each is tried on settings of no account, so that a
    /// bad value is told before anything else happens.
    pub fn of(typed: &clap::ArgMatches, program: &str) -> Result<Self, Failure> {
        let mut choices: Vec<(String, Vec<String>, String)> = Vec::new();
        for flag in CHOOSING.iter().filter(|flag| flag.takes != Takes::Nothing) {
            let long = typed
                .get_many::<String>(flag.long)
                .map(|texts| (texts, format!("--{}", flag.long)));
            let letter = || match (flag.takes, flag.short) {
                (Takes::Optional { .. }, [letter, ..]) => typed
                    .get_many::<String>(LETTER)
                    .map(|texts| (texts, format!("-{letter}"))),
                _ => None,
            };
            if let Some((texts, name)) = long.or_else(letter) {
                choices.push((flag.key(), texts.cloned().collect(), name));
            }
        }
        let mut nowhere = Settings::default();
        for (key, texts, name) in &choices {
            let put = crate::settings::keys::find(key)
                .map_or(Ok(()), |key| (key.put)(&mut nowhere, texts));
            put.map_err(|why| {
                Failure::new(Kind::Usage, format!("{name}: {why}"))
                    .hint(format!("{program} --help"))
            })?;
        }
        Ok(Self(choices))
    }

    /// Takes the variables that stand for the options; one that is set to nothing says
    /// nothing.
    pub fn of_variables(get: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let said = CHOOSING
            .iter()
            .filter(|flag| flag.takes != Takes::Nothing)
            .filter_map(|flag| {
                let name = flag.variable();
                let text = get(&name)?.to_string_lossy().into_owned();
                (!text.is_empty()).then(|| (flag.key(), vec![text], name))
            });
        Self(said.collect())
    }

    /// Puts them in force.
    pub fn put(&self, loaded: &mut Loaded) -> Result<(), Failure> {
        self.0
            .iter()
            .try_for_each(|(key, texts, name)| loaded.put(key, texts, name))
    }

    /// The variables that say the same to a program that is started.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.0.iter().filter_map(|(key, texts, _)| {
            let flag = CHOOSING.iter().find(|flag| flag.key() == *key)?;
            Some((flag.variable(), texts.join(",")))
        })
    }

    /// Whether nothing of the kind was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first of these options that was typed.
    pub fn first_of(&self, keys: &[&str]) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, ..)| keys.contains(&key.as_str()))
            .map(|(.., name)| name.as_str())
    }
}
