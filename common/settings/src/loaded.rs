//! The settings in force and where each comes from: the system's file, the prefix's, the
//! user's, variables, options; later wins. Policy is the system's alone, and what this
//! version does not know is kept for those who are strict about it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use super::causes::SettingsCause;
use super::file::{File, Scope, SettingEntry};
use super::{Environment, Settings, keys, member, trusted};
use getgpu_model::{Failure, similar};
use wildmatch::WildMatch;

/// What a table of a group or a user may set.
const LIMITS: [&str; 4] = ["max_per_user", "max_hold", "max_idle", "max_wait"];

/// A line of a table for a program, a group or a user.
#[derive(Clone, Debug)]
pub struct Scoped {
    /// The file.
    pub file: PathBuf,
    /// For whom.
    pub scope: Scope,
    /// The name of the group, the user or the program.
    pub name: String,
    /// The name of the setting.
    pub key: String,
    /// Its values, as text.
    pub texts: Vec<String>,
}

/// Settings in force, and where each comes from: what is in a file has its place in the settings.
/// By default those that are built in.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// What is in force.
    pub settings: Settings,
    /// The environment variable or the option of this call that sets a setting, as it is typed.
    pub typed: BTreeMap<&'static str, String>,
    /// Keys that this version does not know; an error for those who are strict.
    pub unknown: Vec<Failure>,
    /// What tables for programs, groups and users say, for people.
    pub scoped: Vec<Scoped>,
    /// `max_idle` as the site's files say it outside of tables for groups and users.
    max_idle: Option<Duration>,
}

/// Whose word a line of a file is, which decides whether it may set policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileOwner {
    /// The administrator's.
    Site,
    /// A user's, or a table's for one program, which may set preferences only.
    User,
}

impl Scoped {
    /// Whether this node has the group or the user; true of a program.
    pub fn has_members(&self) -> bool {
        member::exists(self.scope, &self.name)
    }
}

impl Loaded {
    /// What of the system's file and of the prefix's can be understood, each setting by
    /// itself: for a caller that has been warned of what is wrong. Nothing of a file that is
    /// no TOML.
    pub fn read_in_part(environment: &Environment) -> Self {
        let mut loaded = Self::default();
        let files = [system_file(environment), prefix_file(environment)];
        for file in files.into_iter().flatten().flatten() {
            for entry in &file.entries {
                // What is wrong stays as it is built in.
                let _ = loaded.enter(entry, FileOwner::Site);
            }
        }
        loaded.unknown.clear();
        loaded
    }

    /// Reads the system's and the user's file, with what they say for `program`. A
    /// missing file is fine, an unreadable or wrong one is not.
    ///
    /// # Errors
    ///
    /// A file cannot be read or trusted, is no TOML, or holds a value that the setting cannot
    /// have.
    pub fn read(environment: &Environment, program: Option<&str>) -> Result<Self, Failure> {
        let mut loaded = Self::default();
        loaded.settings.callers_list = environment.system_file_must_exist;
        let site = [system_file(environment)?, prefix_file(environment)?];
        let site: Vec<File> = site.into_iter().flatten().collect();
        loaded.apply(&site, FileOwner::Site, program)?;
        // Another user's home (`sudo -u` with HOME kept) has no file for this user either.
        let may_be_missing = |_| true;
        if let Some(path) = &environment.user_file
            && let Some(file) = File::read(path, may_be_missing)?
        {
            loaded.apply(&[file], FileOwner::User, program)?;
        }
        Ok(loaded)
    }

    /// A user's limits come after those of groups, whichever file has them.
    fn apply(
        &mut self,
        files: &[File],
        owner: FileOwner,
        program: Option<&str>,
    ) -> Result<(), Failure> {
        for file in files {
            for entry in &file.entries {
                self.enter(entry, owner)?;
            }
            self.apply_tables(file, Scope::Program, owner, program)?;
        }
        if owner == FileOwner::Site {
            self.max_idle = self.settings.max_idle;
        }
        for scope in [Scope::Group, Scope::User] {
            for file in files {
                self.apply_tables(file, scope, owner, program)?;
            }
        }
        Ok(())
    }

    fn apply_tables(
        &mut self,
        file: &File,
        scope: Scope,
        owner: FileOwner,
        program: Option<&str>,
    ) -> Result<(), Failure> {
        for table in file.tables.iter().filter(|table| table.scope == scope) {
            let is_meant = match scope {
                Scope::Program => program.is_some_and(|name| matches(&table.name, name)),
                Scope::Group => member::is_in_group(&table.name),
                Scope::User => member::is_user(&table.name),
            };
            for entry in &table.entries {
                // Checked for all users, in force for those it names.
                let before = (!is_meant).then(|| self.settings.clone());
                self.enter_scoped(scope, entry, owner)?;
                if let Some(before) = before {
                    self.settings = before;
                }
                self.scoped.extend(entry.texts.clone().map(|texts| Scoped {
                    file: file.path.clone(),
                    scope,
                    name: table.name.clone(),
                    key: entry.name.clone(),
                    texts,
                }));
            }
        }
        Ok(())
    }

    /// `max_idle` as it is for the user `uid`, who need not be the one of this process; none:
    /// for a user who is not known.
    pub fn max_idle_of(&self, uid: Option<u32>) -> Option<Duration> {
        let mut settings = Settings {
            max_idle: self.max_idle,
            ..Settings::default()
        };
        let is_meant =
            |line: &&Scoped| uid.is_some_and(|uid| member::is_for(uid, line.scope, &line.name));
        let lines = self.scoped.iter().filter(|line| line.key == "max_idle");
        for line in lines.filter(is_meant) {
            // They were checked when they were read.
            let _ = keys::find(&line.key).map(|key| (key.put)(&mut settings, &line.texts));
        }
        settings.max_idle
    }

    /// Whether `max_idle` is set for anybody.
    pub fn limits_idleness(&self) -> bool {
        self.max_idle.is_some() || self.scoped.iter().any(|line| line.key == "max_idle")
    }

    /// A line of a table: programs have preferences, groups and users have limits.
    fn enter_scoped(
        &mut self,
        scope: Scope,
        entry: &SettingEntry,
        owner: FileOwner,
    ) -> Result<(), Failure> {
        if scope == Scope::Program {
            return self.enter(entry, FileOwner::User);
        }
        if keys::find(&entry.name).is_some() && !LIMITS.contains(&entry.name.as_str()) {
            let (at, name, scope) = (&entry.place, &entry.name, scope.word());
            let limits = LIMITS.join(", ");
            return Err(SettingsCause::NoLimit {
                at,
                name,
                scope,
                limits,
            }
            .into());
        }
        self.enter(entry, owner)
    }

    fn enter(&mut self, entry: &SettingEntry, owner: FileOwner) -> Result<(), Failure> {
        let SettingEntry {
            name,
            texts,
            place,
            value_place: at,
        } = entry;
        let Some(key) = keys::find(name) else {
            let meant = similar(name, keys::all().map(|key| key.name));
            let meant =
                meant.map_or_else(String::new, |meant| format!(": did you mean `{meant}`?"));
            let unknown = SettingsCause::UnknownSetting { place, name, meant };
            self.unknown.push(unknown.into());
            return Ok(());
        };
        if key.policy && owner == FileOwner::User {
            return Err(SettingsCause::PolicyOfSite { place, name }.into());
        }
        texts
            .as_ref()
            .ok_or_else(|| "not a value that a setting can have".to_owned())
            .and_then(|texts| (key.put)(&mut self.settings, texts))
            .map_err(|why| SettingsCause::NoValue { at, name, why })?;
        // Without the column, which says nothing of a whole setting.
        let line = place
            .rsplit_once(':')
            .map_or(place.as_str(), |(line, _)| line);
        self.settings.places.insert(key.name, line.to_owned());
        Ok(())
    }

    /// Puts what an option or a variable says in force; `typed` is its name as the user
    /// knows it.
    ///
    /// # Errors
    ///
    /// The setting cannot have this value.
    pub fn put(&mut self, key: &str, texts: &[String], typed: &str) -> Result<(), Failure> {
        let Some(known) = keys::find(key) else {
            return Ok(());
        };
        (known.put)(&mut self.settings, texts)
            .map_err(|why| SettingsCause::NoValueTyped { typed, why })?;
        self.settings.share_by_default &= known.name != "share";
        self.settings.places.remove(known.name);
        self.typed.insert(known.name, typed.to_owned());
        Ok(())
    }

    /// The same, for a program whose user can mend the files.
    ///
    /// # Errors
    ///
    /// A file holds keys that this version does not know.
    pub fn strict(self) -> Result<Self, Failure> {
        self.unknown.first().cloned().map_or(Ok(self), Err)
    }
}

/// The system's file, if there is one and it may be believed.
fn system_file(environment: &Environment) -> Result<Option<File>, Failure> {
    let (path, callers) = (&environment.system_file, environment.system_file_must_exist);
    trusted::check(path, "", callers)?;
    File::read(path, |error| !callers && is_gone(error))
}

/// Whether there is no file for sure: one that cannot be looked at may hold the site's policy.
fn is_gone(error: ErrorKind) -> bool {
    error == ErrorKind::NotFound
}

/// The prefix's file. One that sets nothing, as it is installed, needs no trust.
fn prefix_file(environment: &Environment) -> Result<Option<File>, Failure> {
    let Some(path) = &environment.prefix_file else {
        return Ok(None);
    };
    let file = File::read(path, is_gone)?.filter(File::sets_something);
    if file.is_some() {
        trusted::check_prefix(path)?;
    }
    Ok(file)
}

/// Whether a pattern with `*` (any text) and `?` (any one character) fits all of `name`.
pub fn matches(pattern: &str, name: &str) -> bool {
    WildMatch::new(pattern).matches(name)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_of_names() {
        for (pattern, name, fits) in [
            ("eddy_cuda*", "eddy_cuda10.2", true),
            ("eddy_cuda*", "eddy_cuda", true),
            ("eddy_cuda*", "xeddy_cuda", false),
            ("*.py", "a.py.py", true),
            ("a?c*e", "abcde", true),
            ("a?c", "ac", false),
            ("", "", true),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("[ab]", "a", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        // Ways to fit it are as many as there are ways to choose 20 of 60 letters.
        assert!(!matches(&"*a".repeat(20), &("a".repeat(60) + "b")));
    }
}
