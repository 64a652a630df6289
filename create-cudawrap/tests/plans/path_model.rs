//! The model: which program a path runs, read from a snapshot of the directory by the
//! documented rule alone.

use std::collections::BTreeMap;

use crate::layouts::HIDDEN;

/// What is found under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    File {
        inode: u64,
        content: char,
        runs: bool,
    },
    Link {
        inode: u64,
        text: String,
    },
    /// A copy of cudawrap.
    Copy,
}

pub(crate) type Snapshot = BTreeMap<String, Found>;

/// What a path comes to, by the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    Program(char),
    /// Something is found, and cannot be executed.
    Broken,
    Nothing,
}

/// The rule, as the contract has it: `CUDAWRAP_name` beside the link; if that is a link,
/// its chain; a hop that is wrapped leads on to its own.
pub(crate) fn runs(all: &Snapshot, name: &str) -> Runs {
    match follow(all, name, &mut Vec::new(), true) {
        Runs::Program(content) => Runs::Program(content),
        _ => Runs::Nothing,
    }
}

fn follow(all: &Snapshot, name: &str, visited: &mut Vec<String>, by_kernel: bool) -> Runs {
    if visited.iter().any(|seen| seen == name) {
        return Runs::Nothing;
    }
    visited.push(name.to_owned());
    let mut chain = vec![name.to_owned()];
    for _ in 0..10 {
        match all.get(chain.last().unwrap()) {
            None => return Runs::Broken,
            Some(Found::File {
                content,
                runs: true,
                ..
            }) => return Runs::Program(*content),
            Some(Found::File { .. }) => return Runs::Broken,
            Some(Found::Link { text, .. }) if text.ends_with("/cudawrap") => {
                if by_kernel && text.starts_with("/nowhere") {
                    return Runs::Broken;
                }
                return beside(all, &chain, visited);
            }
            Some(Found::Copy) => return beside(all, &chain, visited),
            Some(Found::Link { text, .. }) if text == "../e/loop-to-hidden" => {
                chain.push(HIDDEN.to_owned());
            }
            Some(Found::Link { text, .. }) => chain.push(text.clone()),
        }
    }
    Runs::Broken
}

/// What a cudawrap at the end of these links executes.
fn beside(all: &Snapshot, chain: &[String], visited: &mut Vec<String>) -> Runs {
    let siblings = chain
        .iter()
        .rev()
        .map(|hop| format!("CUDAWRAP_{hop}"))
        .filter(|sibling| all.contains_key(sibling));
    let mut found = siblings.map(|sibling| follow(all, &sibling, visited, false));
    found
        .find(|found| *found != Runs::Nothing)
        .unwrap_or(Runs::Nothing)
}

pub(crate) fn contents(all: &Snapshot) -> Vec<char> {
    let programs = all.values().filter_map(|found| match found {
        Found::File { content, .. } => Some(*content),
        Found::Link { .. } | Found::Copy => None,
    });
    programs.collect()
}
