//! The names beside a wrapped path: `CUDAWRAP_app` is the program, `.CUDAWRAP_app~` what
//! a crash may leave behind, `CUDAWRAP_app.replaced-1` an older program. They are fixed, so that the next run finds what an
//! interrupted one began.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub use getgpu_linux::PREFIX;
use getgpu_linux::{KEPT, without_number};

/// What migtools calls a program that it wrapped.
const FORMER: &str = "MIGTOOLS_";
/// The program that the links lead to.
pub const WRAPPER: &str = "cudawrap";
/// How many bytes longer than the program's name the longest name beside it is: that of an older
/// program, with two digits.
pub const ADDED: usize = PREFIX.len() + KEPT.len() + 2;
/// Our own programs, which are never wrapped.
pub const OWN: [&str; 4] = [WRAPPER, "getgpu", "create-cudawrap", "create_cudawrap"];

/// One of the names that a wrap has to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The path that users run.
    App,
    /// `CUDAWRAP_app`: the program.
    Hidden,
    /// `.CUDAWRAP_app~`: on the way.
    Tmp,
    /// `MIGTOOLS_app`: the program, where migtools wrapped it.
    Former,
}

/// The names of one path, in the order of [`Place`].
#[derive(Clone, Debug)]
pub struct Names([OsString; 4]);

impl Names {
    /// The names that belong to `app`.
    pub fn of(app: &OsStr) -> Self {
        let hidden = joined(&[PREFIX.as_bytes(), app.as_bytes()]);
        let tmp = joined(&[b".", hidden.as_bytes(), b"~"]);
        let former = joined(&[FORMER.as_bytes(), app.as_bytes()]);
        Self([app.to_owned(), hidden, tmp, former])
    }

    /// The name at `place`.
    pub fn at(&self, place: Place) -> &OsStr {
        &self.0[place as usize]
    }

    /// The name that an older program gets when a newer one takes its place. Like every name
    /// beside a path it does not begin with the program's: searches for the newest program
    /// whose name begins so would find it.
    pub fn replaced(&self, number: u32) -> OsString {
        let number = format!("{KEPT}{number}");
        joined(&[self.at(Place::Hidden).as_bytes(), number.as_bytes()])
    }

    /// The name at `place` for a message.
    pub fn shown(&self, place: Place) -> String {
        self.at(place).to_string_lossy().into_owned()
    }
}

/// The path's name that `name` belongs to, when create-cudawrap makes such a name beside
/// it.
pub fn original(name: &OsStr) -> Option<&OsStr> {
    let bytes = name.as_bytes();
    let bytes = match bytes.strip_prefix(b".") {
        Some(rest) => rest.strip_suffix(b"~")?,
        None => bytes,
    };
    let app = bytes
        .strip_prefix(PREFIX.as_bytes())
        .filter(|app| !app.is_empty())
        .map(OsStr::from_bytes)?;
    Some(without_number(app).unwrap_or(app))
}

/// Whether `name` is that of an older program, which --repair keeps.
pub fn is_kept(name: &OsStr) -> bool {
    let app = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    app.is_some_and(|app| without_number(OsStr::from_bytes(app)).is_some())
}

/// Whether `name` is one of our programs'.
pub fn is_own(name: &OsStr) -> bool {
    OWN.iter().any(|own| name == *own)
}

fn joined(parts: &[&[u8]]) -> OsString {
    OsString::from_vec(parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_a_path_lead_back_to_it() {
        let names = Names::of(OsStr::from_bytes(b"a\xffb"));
        assert_eq!(names.at(Place::Hidden).as_bytes(), b"CUDAWRAP_a\xffb");
        assert_eq!(names.at(Place::Tmp).as_bytes(), b".CUDAWRAP_a\xffb~");
        assert!(names.at(Place::Tmp).len() - 3 < ADDED);
        for place in [Place::Hidden, Place::Tmp] {
            assert_eq!(original(names.at(place)), Some(names.at(Place::App)));
        }
        let replaced = names.replaced(12);
        assert_eq!(replaced.as_bytes(), b"CUDAWRAP_a\xffb.replaced-12");
        assert_eq!(replaced.len() - 3, ADDED);
        assert_eq!(original(&replaced), Some(names.at(Place::App)));
        assert!(is_kept(&replaced) && !is_kept(names.at(Place::Hidden)));
        for other in ["CUDAWRAP_", "app", ".CUDAWRAP_app", ".app~"] {
            assert_eq!(original(OsStr::new(other)), None, "{other}");
        }
    }
}
