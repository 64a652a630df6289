//! One settings file: TOML, read with line and column for everything that is wrong with it.
//! A file that exists and cannot be read is an error, since it may hold the site's policy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::{RunOrFail, Settings, Type, Unshared, WithoutGrant, keys};
use crate::error::{Failure, Kind, reason};
use crate::quantity;

/// A parsed file.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    text: String,
    keys: Vec<(String, usize)>,
}

impl File {
    /// Reads `path`; `None` if there is no such file and it need not exist.
    pub fn read(path: &Path, must_exist: bool) -> Result<Option<Self>, Failure> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            // A home that is not ours (`sudo -u` with HOME kept) has no file of ours either.
            Err(_) if !must_exist && std::fs::symlink_metadata(path).is_err() => return Ok(None),
            Err(error) => {
                return Err(Failure::new(
                    Kind::Usage,
                    format!("{}: cannot be read: {}", path.display(), reason(&error)),
                ));
            }
        };
        let table = toml::de::DeTable::parse(&text).map_err(|error| wrong(path, &text, &error))?;
        let keys = table.get_ref().keys().map(|key| (key.get_ref().to_string(), key.span().start)).collect();
        Ok(Some(Self { path: path.to_owned(), keys, text }))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file sets `key`.
    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(name, _)| name == key)
    }

    /// `path:line:column` of `key`.
    pub fn place(&self, key: &str) -> String {
        let at = self.keys.iter().find(|(name, _)| name == key).map_or(0, |(_, at)| *at);
        position(&self.path, &self.text, at)
    }

    /// A line for each key that this version does not know.
    pub fn unknown(&self) -> Vec<String> {
        let unknown = self.keys.iter().filter(|(name, _)| !keys::KEYS.iter().any(|key| key.name == name));
        unknown
            .map(|(name, at)| format!("{}: unknown setting `{name}`", position(&self.path, &self.text, *at)))
            .collect()
    }

    /// The values, checked.
    pub fn into_values(self) -> Result<Values, Failure> {
        toml::from_str(&self.text).map_err(|error| wrong(&self.path, &self.text, &error))
    }
}

fn position(path: &Path, text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or("");
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    format!("{}:{line}:{column}", path.display())
}

fn wrong(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let place = position(path, text, error.span().map_or(0, |span| span.start));
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    Failure::new(Kind::Usage, format!("{place}: {message}"))
}

/// What a file may set, each only if it does.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Values {
    allowed: Option<Vec<String>>,
    allowed_file: Option<PathBuf>,
    excluded: Option<Vec<String>>,
    lock: Option<PathBuf>,
    library: Option<PathBuf>,
    getgpu: Option<PathBuf>,
    #[serde(deserialize_with = "size")]
    idle_memory: Option<u64>,
    ignore_processes: Option<Vec<String>>,
    #[serde(deserialize_with = "time")]
    nvml_timeout: Option<Duration>,
    without_grant: Option<WithoutGrant>,
    unshared: Option<Unshared>,
    #[serde(rename = "type")]
    kind: Option<Type>,
    #[serde(deserialize_with = "time")]
    reserve_for: Option<Duration>,
    #[serde(deserialize_with = "time")]
    linger: Option<Duration>,
    when_taken: Option<RunOrFail>,
    when_no_gpu: Option<RunOrFail>,
}

impl Values {
    /// Puts what is set into `settings`.
    pub fn put(self, settings: &mut Settings) {
        fn set<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        set(&mut settings.allowed, self.allowed.map(Some));
        set(&mut settings.allowed_file, self.allowed_file);
        set(&mut settings.excluded, self.excluded);
        set(&mut settings.lock, self.lock.map(Some));
        set(&mut settings.library, self.library.map(Some));
        set(&mut settings.getgpu, self.getgpu.map(Some));
        set(&mut settings.idle_memory, self.idle_memory.map(Some));
        set(&mut settings.ignore_processes, self.ignore_processes);
        set(&mut settings.nvml_timeout, self.nvml_timeout);
        set(&mut settings.without_grant, self.without_grant);
        set(&mut settings.unshared, self.unshared);
        set(&mut settings.kind, self.kind);
        set(&mut settings.reserve_for, self.reserve_for);
        set(&mut settings.linger, self.linger);
        set(&mut settings.when_taken, self.when_taken);
        set(&mut settings.when_no_gpu, self.when_no_gpu);
    }
}

/// A number or a text, as people write times and sizes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Typed {
    Whole(i64),
    Part(f64),
    Text(String),
}

impl Typed {
    fn text(self) -> String {
        match self {
            Self::Whole(n) => n.to_string(),
            Self::Part(n) => n.to_string(),
            Self::Text(text) => text,
        }
    }
}

fn time<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Duration>, D::Error> {
    quantity::time(&Typed::deserialize(input)?.text()).map(Some).map_err(D::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    quantity::size(&Typed::deserialize(input)?.text()).map(Some).map_err(D::Error::custom)
}
