//! `--status`: one line for each path, or one JSON document for all. Pure but for looking
//! into a directory; what a line says is decided from the state alone.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use getgpu_linux::Identity;
use getgpu_model::diag;
use serde::Serialize;

use crate::directory::Directory;
use crate::executable::Form;
use crate::inspect::{self, EntryKind, Leads, PathSnapshot};
use crate::names;
use crate::state::{PathState, has_leftover, oddity, state};
use crate::wrapper;

/// The report on one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusLine {
    /// The path; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// The path byte by byte, only when it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<Vec<u8>>,
    /// plain, wrapped, upgraded over, copied, broken, foreign.
    pub state: &'static str,
    /// Whether the path needs the attention of its owner.
    pub attention: bool,
    /// What the link says.
    pub link: Option<String>,
    /// More about it.
    pub detail: Option<String>,
}

impl StatusLine {
    /// The same line with more detail.
    pub fn with(mut self, more: Option<String>) -> Self {
        let details = self.detail.take().into_iter().chain(more);
        let details: Vec<String> = details.collect();
        self.detail = (!details.is_empty()).then(|| details.join("; "));
        self
    }
}

#[derive(Serialize)]
struct StatusDocument<'a> {
    schema: u32,
    paths: &'a [StatusLine],
}

/// The line for what `seen` shows at `path`; none when nothing is there.
pub fn line(path: &Path, seen: &PathSnapshot) -> Option<StatusLine> {
    let (state, attention, mut detail) = words(seen, path.file_name().unwrap_or_default())?;
    let litter = has_leftover(seen);
    if litter && detail.is_empty() {
        "an interrupted run left .CUDAWRAP_name~ beside it: --repair removes it"
            .clone_into(&mut detail);
    }
    let text = seen.app.text.as_ref();
    let bytes = path.as_os_str().as_bytes();
    Some(StatusLine {
        path: path.to_string_lossy().into_owned(),
        path_bytes: path.to_str().is_none().then(|| bytes.to_vec()),
        state,
        attention: attention || litter,
        link: text.map(|text| text.to_string_lossy().into_owned()),
        detail: (!detail.is_empty()).then_some(detail),
    })
}

/// The line for a cudawrap that has become something else, whatever is wrapped.
pub fn wrapper_line(path: &Path) -> Option<StatusLine> {
    Some(StatusLine {
        path: path.to_string_lossy().into_owned(),
        path_bytes: None,
        state: "broken",
        attention: true,
        link: None,
        detail: Some(affected(&wrapper::fault(path)?)),
    })
}

fn affected(fault: &str) -> String {
    format!("{fault}; every program with a link to it is affected: install the package again")
}

/// The word for a state, whether it needs attention, and more about it, if there is more.
type Words = (&'static str, bool, String);

fn good(state: &'static str, detail: &str) -> Words {
    (state, false, detail.to_owned())
}

fn bad(state: &'static str, detail: &str) -> Words {
    (state, true, detail.to_owned())
}

fn words(seen: &PathSnapshot, name: &OsStr) -> Option<Words> {
    let words = match state(seen) {
        PathState::Missing => return None,
        PathState::Wrapped => wrapped(seen),
        PathState::Plain => plain(seen, name),
        PathState::Begun if seen.app.text.is_none() => {
            bad("plain", "an interrupted run: wrap it again, or --undo")
        }
        PathState::Begun if !seen.app.runs => {
            bad("broken", "its program, CUDAWRAP_name, cannot be run")
        }
        PathState::Begun => good(
            "plain",
            "unwrapped by hand: it leads to its program, CUDAWRAP_name; --undo puts that back",
        ),
        PathState::Upgraded => bad(
            "upgraded over",
            "a newer program replaced the link: --repair wraps it, and keeps the older one as CUDAWRAP_name.replaced-1",
        ),
        PathState::Copied => bad(
            "copied",
            "a copy of cudawrap is in the place of the link: --repair makes it a link again",
        ),
        PathState::Migtools => bad("foreign", "migtools"),
        PathState::Unclear => unclear(seen),
    };
    Some(words)
}

/// What create-cudawrap leaves alone.
fn unclear(seen: &PathSnapshot) -> Words {
    let alone = seen.hidden.kind == EntryKind::Absent;
    match oddity(seen) {
        None => bad(
            "foreign",
            "something else has the name CUDAWRAP_name beside it",
        ),
        Some(what) if seen.app.kind == EntryKind::Absent => {
            bad("broken", &format!("{what}; --undo puts it back"))
        }
        Some(_) if alone && seen.app.text.is_none() => good("plain", "not a program"),
        Some(what) => bad("broken", &what),
    }
}

fn plain(seen: &PathSnapshot, name: &OsStr) -> Words {
    let own = seen
        .form
        .filter(|form| matches!(form, Form::Own(_)) && !names::is_own(name));
    match (&seen.app.through, own.and_then(Form::fault)) {
        (Some(_), _) if !seen.app.runs => bad(
            "broken",
            "it leads to a link to cudawrap that runs no program",
        ),
        (Some(hop), _) => good("wrapped", &format!("through {}", hop.display())),
        (None, Some(what)) => bad(
            "copied",
            &format!("{what}, with no CUDAWRAP_name beside it"),
        ),
        (None, None) => good("plain", ""),
    }
}

fn wrapped(seen: &PathSnapshot) -> Words {
    let alone = seen.hidden.kind == EntryKind::Absent;
    if let Some(fault) = &seen.wrapper_fault {
        bad("broken", &affected(fault))
    } else if seen.app.kind == EntryKind::Link(Leads::Vanished) {
        bad("broken", "the cudawrap that it leads to is gone: --repair")
    } else if !seen.app.runs {
        bad("broken", "the cudawrap that it leads to cannot be reached")
    } else if let Some(program) = &seen.behind {
        good("wrapped", &format!("runs {} by PATH", program.display()))
    } else if alone {
        bad(
            "broken",
            "no program of its name beside it, or behind it in PATH",
        )
    } else if !seen.resolves && !seen.hidden.runs {
        bad(
            "broken",
            "its program, CUDAWRAP_name beside it, cannot be run",
        )
    } else {
        good("wrapped", "")
    }
}

/// The names in a directory that have to do with wrapping.
pub fn names_in(dir: &Directory, own: Option<Identity>) -> io::Result<BTreeSet<OsString>> {
    let mut found = BTreeSet::new();
    for item in std::fs::read_dir(&dir.path)? {
        let name = item?.file_name();
        if let Some(app) = names::original(&name) {
            // An older program stays when the newer one is undone and removed.
            if !names::is_kept(&name) || dir.stat(app).is_ok() {
                found.insert(app.to_owned());
            }
        } else if !names::is_own(&name) && is_wrap(dir, &name, own) {
            found.insert(name);
        }
    }
    Ok(found)
}

fn is_wrap(dir: &Directory, name: &OsStr, own: Option<Identity>) -> bool {
    // What vanished since the directory was read is no matter.
    let entry = inspect::entry(dir, name, own).unwrap_or_default();
    let is_migtools = entry.kind == EntryKind::Link(Leads::Migtools);
    entry.is_ours() || entry.through.is_some() || is_migtools
}

/// The bytes of a path; those of what cannot be seen, and those that a terminal may take for
/// controls, are shown as `\ooo`.
fn shown(path: &[u8]) -> Vec<u8> {
    let octal =
        |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("\\{byte:03o}")).collect() };
    let mut out = Vec::new();
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            let text = c.to_string();
            if diag::is_hidden(c) {
                out.extend(octal(text.as_bytes()).bytes());
            } else {
                out.extend(text.bytes());
            }
        }
        for byte in chunk.invalid() {
            match byte {
                0x80..=0x9f => out.extend(octal(&[*byte]).bytes()),
                _ => out.push(*byte),
            }
        }
    }
    out
}

/// The lines as text.
pub fn text(lines: &[StatusLine]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        let path = line.path_bytes.as_deref();
        let detail = line.detail.as_deref().map(diag::printable);
        let detail = detail.map_or_else(String::new, |detail| format!(" ({detail})"));
        out.extend(shown(path.unwrap_or(line.path.as_bytes())));
        out.extend(format!(": {}{detail}\n", line.state).bytes());
    }
    out
}

/// The lines as one JSON document.
pub fn json(lines: &[StatusLine]) -> Vec<u8> {
    // Strings, numbers and flags only: this cannot fail.
    let text = serde_json::to_string(&StatusDocument {
        schema: 1,
        paths: lines,
    });
    diag::json(&(text.unwrap_or_default() + "\n")).into_bytes()
}
