//! States from which a path cannot be brought to what was asked for: the message, and what
//! to do. Policy refusals, which `--force` overrides, are in `checks`.

use getgpu_common::error::{Failure, Kind};

use crate::inspect::Seen;
use crate::state::State;

pub fn hop(seen: &Seen) -> String {
    seen.app
        .through
        .as_ref()
        .map(|hop| hop.display().to_string())
        .unwrap_or_default()
}

pub fn refused(why: &str) -> Failure {
    Failure::new(Kind::Refused, why)
}

pub fn in_the_way() -> Failure {
    refused("something else has the name CUDAWRAP_name beside it")
        .hint("find out what it is, and move it away")
}

pub fn migtools() -> Failure {
    refused("is wrapped by migtools")
        .hint("create-cudawrap without --undo takes it over; or put its program back: mv -T MIGTOOLS_name name")
}

pub fn lost() -> Failure {
    refused("is a link to cudawrap, but its program does not exist")
        .hint("install the program again, then wrap it")
}

pub fn hopeless(seen: &Seen, now: State) -> Failure {
    match now {
        State::Missing => refused("no such file"),
        State::Orphan => refused("no such file; its program is CUDAWRAP_name beside it")
            .hint("--undo puts it back"),
        State::Through => refused(&format!(
            "leads to {}, a link to cudawrap that runs no program",
            hop(seen)
        ))
        .hint("create-cudawrap --status shows what is wrong there"),
        State::Migtools => migtools(),
        State::LinkOnly => refused(
            "is a link to cudawrap, with no program of its name beside it or behind it in PATH",
        )
        .hint("install the program, or remove the link with --undo"),
        State::Lost => lost(),
        _ if seen.app.kind == crate::inspect::Kind::Directory => {
            refused("is a directory").hint("name the programs in it")
        }
        _ if seen.app.text.is_some() => refused("is a link that leads to no file"),
        _ => refused("is not a program"),
    }
}
