//! `--status`: one line for each path, or one JSON document for all. Pure but for looking
//! into a directory; what a line says is decided from the state alone.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use crate::directory::Directory;
use crate::identity::Id;
use crate::inspect::{self, Kind, Leads, Seen};
use crate::names;
use crate::state::{Leftover, State, leftover, state};

/// The report on one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusLine {
    /// The path; bytes that are no UTF-8 are replaced.
    pub path: String,
    /// The path byte by byte, only when it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<Vec<u8>>,
    /// plain, wrapped, upgraded over, broken, foreign.
    pub state: &'static str,
    /// Whether somebody should do something.
    pub attention: bool,
    /// What the link says.
    pub link: Option<String>,
    /// More about it.
    pub detail: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    paths: &'a [StatusLine],
}

/// The line for what `seen` shows at `path`; none when nothing is there.
pub fn line(path: &Path, seen: &Seen) -> Option<StatusLine> {
    let Words {
        state,
        attention,
        detail,
    } = words(seen)?;
    let litter = leftover(seen) == Leftover::Ours;
    let left =
        || "an interrupted run left .CUDAWRAP_name~ beside it: --repair removes it".to_owned();
    let link = seen
        .app
        .text
        .as_ref()
        .map(|text| text.to_string_lossy().into_owned());
    let bytes = path.as_os_str().as_bytes();
    Some(StatusLine {
        path: path.to_string_lossy().into_owned(),
        path_bytes: path.to_str().is_none().then(|| bytes.to_vec()),
        state,
        attention: attention || litter,
        link,
        detail: detail.or_else(|| litter.then(left)),
    })
}

/// The words for a state.
struct Words {
    state: &'static str,
    attention: bool,
    detail: Option<String>,
}

fn good(state: &'static str, detail: Option<String>) -> Words {
    Words {
        state,
        attention: false,
        detail,
    }
}

fn bad(state: &'static str, detail: &str) -> Words {
    Words {
        state,
        attention: true,
        detail: Some(detail.to_owned()),
    }
}

fn words(seen: &Seen) -> Option<Words> {
    let words = match state(seen) {
        State::Missing => return None,
        State::Wrapped => wrapped(seen),
        State::Through => through(seen),
        State::LinkOnly => link_only(seen),
        State::Bypassed => bypassed(seen),
        State::Plain if seen.diverted.is_some() => bad(
            "plain",
            "dpkg diverts it to CUDAWRAP_name, which no link runs: --undo or --repair ends the diversion",
        ),
        State::Plain => good("plain", None),
        State::Superseded => bad(
            "upgraded over",
            "dpkg has put a newer program at CUDAWRAP_name, where it is diverted: --repair",
        ),
        State::Interrupted | State::SameFile => {
            bad("plain", "an interrupted run: wrap it again, or --undo")
        }
        State::Vanished => bad("broken", "the cudawrap that it leads to is gone: --repair"),
        State::Upgraded => bad(
            "upgraded over",
            "a newer program replaced the link: --repair",
        ),
        State::Orphan => bad(
            "broken",
            "nothing is at the path; its program is CUDAWRAP_name beside it: --undo puts it back",
        ),
        State::Lost => bad(
            "broken",
            "a link to cudawrap whose program does not exist: install it again",
        ),
        State::Migtools => bad("foreign", "migtools"),
        State::InTheWay => bad(
            "foreign",
            "something else has the name CUDAWRAP_name beside it",
        ),
        State::NotAProgram if seen.app.kind == Kind::Link(Leads::Elsewhere) => {
            bad("broken", "a link that leads to no file")
        }
        State::NotAProgram => good("plain", Some("not a program".to_owned())),
    };
    Some(words)
}

fn wrapped(seen: &Seen) -> Words {
    if !seen.app.runs {
        bad("broken", "the cudawrap that it leads to cannot be reached")
    } else if seen.reach.is_none() && !seen.hidden.runs {
        bad(
            "broken",
            "its program, CUDAWRAP_name beside it, cannot be run",
        )
    } else {
        good("wrapped", None)
    }
}

fn through(seen: &Seen) -> Words {
    if !seen.app.runs {
        return bad(
            "broken",
            "it leads to a link to cudawrap that runs no program",
        );
    }
    let hop = seen.app.through.as_ref();
    good(
        "wrapped",
        hop.map(|hop| format!("through {}", hop.display())),
    )
}

fn link_only(seen: &Seen) -> Words {
    if !seen.app.runs {
        return bad("broken", "the cudawrap that it leads to is gone: --repair");
    }
    match &seen.behind {
        Some(program) => {
            let detail = format!("runs {} by PATH", program.display());
            good("wrapped", Some(detail))
        }
        None => bad(
            "broken",
            "no program of its name beside it, or behind it in PATH",
        ),
    }
}

fn bypassed(seen: &Seen) -> Words {
    if !seen.app.runs {
        return bad(
            "broken",
            "it leads to CUDAWRAP_name beside it, which cannot be run",
        );
    }
    let detail = "unwrapped by hand: it leads to its program, CUDAWRAP_name; --undo puts that back";
    good("plain", Some(detail.to_owned()))
}

/// The names in a directory that have to do with wrapping.
pub fn names_in(dir: &Directory, own: Option<Id>) -> io::Result<BTreeSet<OsString>> {
    let mut found = BTreeSet::new();
    for item in std::fs::read_dir(dir.path())? {
        let name = item?.file_name();
        if let Some(app) = names::original(&name) {
            found.insert(app.to_owned());
        } else if !names::is_own(&name) && is_wrap(dir, &name, own) {
            found.insert(name);
        }
    }
    Ok(found)
}

fn is_wrap(dir: &Directory, name: &OsStr, own: Option<Id>) -> bool {
    // What vanished since the directory was read is no matter.
    let entry = inspect::entry(dir, name, own).unwrap_or(inspect::Entry::ABSENT);
    entry.is_ours() || matches!(entry.kind, Kind::Link(Leads::Migtools | Leads::Through))
}

/// The lines as text; control characters in names are shown as `\ooo`.
pub fn text(lines: &[StatusLine]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        for &byte in line.path_bytes.as_deref().unwrap_or(line.path.as_bytes()) {
            if byte < b' ' || byte == 0x7f {
                out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            } else {
                out.push(byte);
            }
        }
        let detail = line
            .detail
            .as_ref()
            .map(|detail| format!(" ({})", getgpu_common::diag::printable(detail)));
        out.extend_from_slice(
            format!(": {}{}\n", line.state, detail.unwrap_or_default()).as_bytes(),
        );
    }
    out
}

/// The lines as one JSON document.
pub fn json(lines: &[StatusLine]) -> Vec<u8> {
    // Strings, numbers and flags only: this cannot fail.
    let mut text = serde_json::to_vec(&Document {
        schema: 1,
        paths: lines,
    })
    .unwrap_or_default();
    text.push(b'\n');
    text
}
