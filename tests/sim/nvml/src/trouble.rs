//! Finds the rule of `faults.toml` that acts on a call, and acts.
//! Calls are counted per rule in this process.

use crate::noise::Noise;
use crate::session::Session;
use sim_node::{Action, Faults, Rule};
use std::thread;
use std::time::Duration;

/// What shall happen to a call instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    Returns(i32),
    Does(Action),
    Lies(Lie),
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Nothing.
    None,
    /// Texts are no UTF-8.
    Garbage,
    /// Texts have no NUL.
    Unterminated,
    /// All of it is noise.
    Noise(Noise),
}

/// How many calls each rule was about in this process.
#[derive(Default)]
pub(crate) struct Counts {
    rules: Vec<Rule>,
    calls: Vec<u64>,
}

impl Counts {
    /// Starts again when the rules are no longer the same.
    pub(crate) fn follow(&mut self, faults: &Faults) {
        if self.rules != faults.rule {
            self.rules.clone_from(&faults.rule);
            self.calls = vec![0; self.rules.len()];
        }
    }

    /// The trouble with this call. All rules that are about it count it, the first that
    /// acts decides.
    pub(crate) fn find(&mut self, function: &str, gpu: Option<u32>, uuids: &[&str]) -> Trouble {
        let mut trouble = Trouble::None;
        for (number, rule) in self.rules.iter().enumerate() {
            if !rule.is_about(function, gpu, uuids) {
                continue;
            }
            self.calls[number] += 1;
            let call = self.calls[number];
            if trouble == Trouble::None && rule.acts_on(call) {
                trouble = match (rule.returns, rule.does) {
                    (Some(code), _) => Trouble::Returns(code),
                    (None, Some(Action::Garbage)) => Trouble::Lies(Lie::Garbage),
                    (None, Some(Action::Unterminated)) => Trouble::Lies(Lie::Unterminated),
                    (None, Some(Action::Noise)) => {
                        Trouble::Lies(Lie::Noise(Noise::new(rule.seed, call)))
                    }
                    (None, Some(action)) => Trouble::Does(action),
                    (None, None) => Trouble::None,
                };
            }
        }
        trouble
    }
}

/// Acts. Comes back with what is wrong with the answer, if at all.
pub(crate) fn act(trouble: Trouble) -> Result<Lie, i32> {
    match trouble {
        Trouble::None | Trouble::Returns(0) => Ok(Lie::None),
        Trouble::Returns(code) => Err(code),
        Trouble::Lies(lie) => Ok(lie),
        Trouble::Does(Action::Abort) => std::process::abort(),
        Trouble::Does(Action::Hang) => loop {
            nix::unistd::pause();
        },
        Trouble::Does(Action::Stop) => {
            let _ = nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
            Ok(Lie::None)
        }
        Trouble::Does(Action::Garbage | Action::Unterminated | Action::Noise) => Ok(Lie::None),
    }
}

/// The time a call takes.
pub(crate) fn delay(session: &Session, attached: usize) -> Duration {
    let latency = session.faults.latency;
    let attach =
        Duration::from_millis(latency.attach_ms) * u32::try_from(attached).unwrap_or(u32::MAX);
    Duration::from_micros(latency.call_us) + attach
}

/// Sleeps, if there is anything to sleep.
pub(crate) fn sleep(time: Duration) {
    if !time.is_zero() {
        thread::sleep(time);
    }
}
