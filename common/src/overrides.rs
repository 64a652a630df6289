//! What was typed, or put into CUDAWRAP_* variables, of the options that choose, share
//! and wait. Each stands for a setting and is read by the table of settings, so that a
//! file, an option and a variable mean the same.

use crate::error::{Failure, Kind};
use crate::settings::{Loaded, Settings};
use crate::shared_flags::{CHOICES, Choosing};

/// The choosing options that were typed: setting, texts, and the option's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(Vec<(String, Vec<String>, String)>);

impl Overrides {
    /// Takes them from what was typed. Each is tried on settings of no account, so that a
    /// bad value is reported before anything else happens.
    pub fn of(typed: &Choosing, program: &str) -> Result<Self, Failure> {
        let said = CHOICES.iter().map(|(key, texts)| {
            let name = match &typed.wait_letter {
                Some(_) if *key == "wait" => "-w".to_owned(),
                _ => format!("--{}", key.replace('_', "-")),
            };
            ((*key).to_owned(), texts(typed), name)
        });
        let choices: Vec<_> = said.filter(|(_, texts, _)| !texts.is_empty()).collect();
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
        let said = CHOICES.iter().filter_map(|(key, _)| {
            let name = variable(key);
            let text = get(&name)?.to_string_lossy().into_owned();
            (!text.is_empty()).then(|| ((*key).to_owned(), vec![text], name))
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
        let said = self.0.iter();
        said.map(|(key, texts, _)| (variable(key), texts.join(",")))
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

/// The variable that stands for a setting under cudawrap.
pub fn variable(key: &str) -> String {
    format!("CUDAWRAP_{}", key.to_ascii_uppercase())
}

/// The variables of the choosing options.
pub fn known_variables() -> impl Iterator<Item = String> {
    CHOICES.iter().map(|(key, _)| variable(key))
}
