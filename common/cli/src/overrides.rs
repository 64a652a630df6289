//! What was typed, or put into CUDAWRAP_* variables, of the options that choose, share
//! and wait. Each stands for a setting and is read by the table of settings, so that a
//! file, an option and a variable mean the same.

use std::ffi::OsString;

use crate::shared_flags::Said;
use getgpu_model::Failure;
use getgpu_settings::Loaded;

/// What was said: setting, texts, and the option's or the variable's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(Vec<(&'static str, Vec<String>, String)>);

impl Overrides {
    /// Takes them from what was typed. Each is tried on settings of no account, so that a
    /// bad value is reported before anything else happens.
    ///
    /// # Errors
    ///
    /// A setting cannot have the value that was typed.
    pub fn of(said: Vec<Said>, program: &str) -> Result<Self, Failure> {
        let (mut overrides, mut nowhere) = (Self::default(), Loaded::default());
        for (key, texts) in said.into_iter().filter(|(_, texts)| !texts.is_empty()) {
            let name = format!("--{}", key.replace('_', "-"));
            let put = nowhere.put(key, &texts, &name);
            put.map_err(|failure| failure.advised(format!("{program} --help")))?;
            overrides.0.push((key, texts, name));
        }
        Ok(overrides)
    }

    /// Takes the variables that stand for these settings; one that is set to nothing says
    /// nothing.
    pub fn of_variables(
        keys: impl Iterator<Item = &'static str>,
        get: impl Fn(&str) -> Option<OsString>,
    ) -> Self {
        let said = keys.filter_map(|key| {
            let name = variable(key);
            let text = get(&name)?.to_string_lossy().into_owned();
            (!text.is_empty()).then(|| (key, vec![text], name))
        });
        Self(said.collect())
    }

    /// Puts them in force.
    ///
    /// # Errors
    ///
    /// A setting cannot have the value that was typed.
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
            .find(|(key, ..)| keys.contains(key))
            .map(|(.., name)| name.as_str())
    }
}

/// The variable that stands for a setting under cudawrap.
pub fn variable(key: &str) -> String {
    format!("CUDAWRAP_{}", key.to_ascii_uppercase())
}
