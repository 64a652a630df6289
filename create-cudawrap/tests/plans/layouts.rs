//! The generated layouts: what may lie at a path, beside it and behind its links.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(crate) const X: &str = "x";

pub(crate) const HIDDEN: &str = "CUDAWRAP_x";

pub(crate) const TMP: &str = ".CUDAWRAP_x~";

/// What links may say.
#[rustfmt::skip]
const TEXTS: [&str; 9] = [
    X, HIDDEN, TMP, "y", "CUDAWRAP_y", "p", "../cudawrap", "/nowhere/cudawrap",
    "../e/loop-to-hidden",
];

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    Nothing,
    /// A program by its content; two of one content are copies.
    Program(char),
    /// A file that nobody can execute.
    Data,
    /// An executable file without anything in it.
    Empty,
    /// A script that executes the program at `CUDAWRAP_x`, by its content.
    Caller,
    /// A copy of cudawrap.
    Copy,
    /// Another name of what an earlier name has.
    SameAs(&'static str),
    Link(&'static str),
}

/// What may be at one of the three names.
fn things(name: &'static str) -> Vec<Thing> {
    use Thing::{Caller, Copy, Data, Empty, Nothing, Program};
    let mut all = vec![Nothing, Program('A'), Program('B'), Data];
    if name != TMP {
        all.extend([Empty, Caller, Copy]);
    }
    let earlier = [X, HIDDEN]
        .into_iter()
        .take_while(|earlier| *earlier != name);
    all.extend(earlier.map(Thing::SameAs));
    let texts = TEXTS.into_iter().filter(|text| *text != name);
    all.extend(texts.map(Thing::Link));
    all
}

/// What else is there: another path, wrapped or not, and what it has to do with ours.
#[rustfmt::skip]
const OTHERS: [&[(&str, Thing)]; 7] = [
    &[],
    &[("y", Thing::Link(X))],
    &[("y", Thing::Link(HIDDEN))],
    &[("y", Thing::Link("../cudawrap")), ("CUDAWRAP_y", Thing::Link(X))],
    &[("y", Thing::Link("../cudawrap")), ("CUDAWRAP_y", Thing::Link(HIDDEN))],
    &[("y", Thing::Link("../cudawrap")), ("CUDAWRAP_y", Thing::Program('C'))],
    &[("y", Thing::Link("p"))],
];

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) entries: Vec<(&'static str, Thing)>,
}

pub(crate) fn layouts() -> impl Iterator<Item = Layout> {
    let three = things(X).into_iter().flat_map(|x| {
        things(HIDDEN)
            .into_iter()
            .flat_map(move |hidden| things(TMP).into_iter().map(move |tmp| [x, hidden, tmp]))
    });
    three.flat_map(|[x, hidden, tmp]| {
        OTHERS.iter().map(move |others| {
            let program = ("p", Thing::Program('P'));
            let mut entries = vec![(X, x), (HIDDEN, hidden), (TMP, tmp), program];
            entries.extend(others.iter().copied());
            Layout { entries }
        })
    })
}

/// A new file.
pub(crate) fn file(path: &Path, text: &str, mode: u32) {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut file = options.open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// A file of its own that has the mark of a cudawrap: this test program.
pub(crate) fn put_cudawrap(path: &Path) {
    let this = std::env::current_exe().unwrap();
    let words = [this.as_path(), path];
    let status = std::process::Command::new("cp").args(words).status();
    assert!(status.unwrap().success());
}
