//! Whether a launch ended as it may under a disturbance, and whether the contexts on the
//! node's devices were ever two where one may be. Pure.

use std::collections::BTreeMap;

use harness::Outcome;
use sim_node::Run;

use super::kind::Kind;
use super::way::Way;

/// How a launch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// With status 0.
    Done,
    /// No device was free.
    None,
    /// Refused, with a line, as the disturbance may cause.
    Refused,
    /// By a signal of the disturbance.
    Killed,
}

/// The end of a launch, or what is wrong with it.
pub(crate) fn judge(kind: Kind, way: Way, outcome: &Outcome) -> Result<End, String> {
    let wrong = |what: &str| Err(format!("{what}: {kind:?} {way:?} {outcome:?}"));
    if outcome.stderr.contains("panicked") || outcome.stderr.contains("RUST_BACKTRACE") {
        return wrong("a panic");
    }
    let said = ours(&outcome.stderr);
    if said > 2 {
        return wrong("more than one line");
    }
    if !kind.others_speak() && foreign(&outcome.stderr) {
        return wrong("a line of nobody's");
    }
    match (outcome.code(), outcome.signal()) {
        (Some(0), _) => Ok(End::Done),
        (Some(code), _) if code == way.none() && none_is_free(&outcome.stderr) => Ok(End::None),
        (Some(code), _) if kind.statuses().contains(&code) => {
            if said == 0 && !kind.others_speak() {
                return wrong("refused without a line");
            }
            Ok(End::Refused)
        }
        (None, Some(signal)) if kind.signals().contains(&signal) => Ok(End::Killed),
        _ => wrong("an end that is not foreseen"),
    }
}

/// Devices may be free that are those of others in the queue.
fn none_is_free(stderr: &str) -> bool {
    let words = ["no free device: ", "too few free devices: "];
    words.iter().any(|words| stderr.contains(words))
}

fn ours(stderr: &str) -> usize {
    stderr.lines().filter(|line| is_refusal(line)).count()
}

/// A line of the commands themselves that is no hint, nor what a waiter says of its
/// waiting.
pub(crate) fn is_refusal(line: &str) -> bool {
    let text = line
        .strip_prefix("getgpu: ")
        .or_else(|| line.strip_prefix("cudawrap: "));
    let only_says = ["hint: ", "waiting for ", "waited "];
    text.is_some_and(|text| !only_says.iter().any(|start| text.starts_with(start)))
}

/// A line without its numbers and names of devices, so that equal ones can be counted.
pub(crate) fn without_numbers(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        if word.contains("MIG-") {
            return "MIG-..".to_owned();
        }
        let mut text = String::new();
        for letter in word.chars() {
            let letter = if letter.is_ascii_digit() { '#' } else { letter };
            if letter != '#' || !text.ends_with('#') {
                text.push(letter);
            }
        }
        text
    });
    words
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(120)
        .collect()
}

fn foreign(stderr: &str) -> bool {
    stderr
        .lines()
        .any(|line| !line.starts_with("getgpu: ") && !line.starts_with("cudawrap: "))
}

/// Two runs on one device that may not share it, by the simulated programs' own log. A
/// run without an end was killed, or goes on: of such the simulator itself says whether
/// another met it.
pub(crate) fn overlaps(runs: &[Run]) -> Vec<String> {
    let mut devices: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        devices.entry(&run.uuid).or_default().push(run);
    }
    let quarter = |run: &Run| run.tag.starts_with('q');
    let mut found = Vec::new();
    for runs in devices.values() {
        for run in runs {
            let there = |other: &&&Run| {
                other.start <= run.start && other.end.is_some_and(|end| end > run.start)
            };
            let with: Vec<&&Run> = runs
                .iter()
                .filter(|other| !std::ptr::eq(**other, *run))
                .filter(there)
                .collect();
            let shared = quarter(run) && with.len() < 4 && with.iter().all(|other| quarter(other));
            if !with.is_empty() && !shared {
                found.push(format!("{run:?} met {with:?}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tag: &str, start: u64, end: Option<u64>) -> Run {
        let (uuid, tag) = ("MIG-a".to_owned(), tag.to_owned());
        Run {
            uuid,
            pid: 1,
            tag,
            start,
            end,
        }
    }

    #[test]
    fn quarters_share_a_device_and_nothing_else_does() {
        let after = [
            run("x1", 0, Some(5)),
            run("x2", 5, Some(9)),
            run("x3", 9, None),
        ];
        assert!(overlaps(&after).is_empty());
        assert_eq!(
            overlaps(&[run("x1", 0, Some(5)), run("x2", 4, Some(9))]).len(),
            1
        );
        assert_eq!(
            overlaps(&[run("q1", 0, Some(5)), run("x2", 4, None)]).len(),
            1
        );
        let quarters: Vec<Run> = (0..4).map(|n| run("q", n, Some(9))).collect();
        assert!(overlaps(&quarters).is_empty());
        let five: Vec<Run> = (0..5).map(|n| run("q", n, Some(9))).collect();
        assert_eq!(overlaps(&five).len(), 1);
        // Of a run that was killed nobody knows the end.
        assert!(overlaps(&[run("x1", 0, None), run("x2", 4, Some(9))]).is_empty());
    }

    #[test]
    fn lines_that_count_are_the_commands_own_but_for_hints() {
        assert_eq!(
            ours("getgpu: a: b\ngetgpu: hint: c\nbash: d\ncudawrap: e\n"),
            2
        );
        let line = "getgpu: no free device: 56 of 56 in use (ana 3)";
        assert_eq!(
            without_numbers(line),
            "getgpu: no free device: # of # in use (ana #)"
        );
        assert!(foreign("bash: line 1\n") && !foreign("getgpu: a\ncudawrap: b\n"));
    }
}
