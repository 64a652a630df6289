//! What a waiter says: on a terminal one line that is written anew, otherwise one at the
//! start and one at the end. Who is served at once says nothing.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::diag::{Diag, Level};

/// Between two lines on a terminal, in which waiters ahead may have been served.
const REPAINT: Duration = Duration::from_millis(250);

/// How a waiter stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In the queue.
    Queued {
        used: usize,
        total: usize,
        ahead: usize,
    },
    /// Over the user's own limit, which this says.
    OverLimit(String),
}

/// Says how the waiting goes.
#[derive(Debug)]
pub struct Progress {
    diag: Diag,
    terminal: bool,
    began: Instant,
    /// When the line was written last.
    said: Option<Instant>,
    silent: bool,
}

impl Progress {
    /// Nothing is printed yet.
    pub fn new(diag: &Diag) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            diag: *diag,
            terminal,
            began: Instant::now(),
            said: None,
            silent: false,
        }
    }

    /// Prints nothing at all: for callers that did not ask to wait.
    pub fn silent(diag: &Diag) -> Self {
        Self {
            silent: true,
            ..Self::new(diag)
        }
    }

    /// How long it has been.
    pub fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// Says how it stands: `state` is asked for only if it is to be said.
    pub fn update(&mut self, state: impl FnOnce() -> Standing) {
        if self.silent
            || self.diag.level() < Level::Normal
            || self
                .said
                .is_some_and(|said| !self.terminal || said.elapsed() < REPAINT)
            || !self.may_paint()
        {
            return;
        }
        let text = line(&state());
        if self.terminal {
            self.write(&format!(
                "\r{}: {text}, {}\x1b[K",
                self.diag.program(),
                clock(self.waited())
            ));
        } else {
            self.diag.line("", &text);
        }
        self.said = Some(Instant::now());
    }

    /// The wait has ended: with a device, or in vain, and then another line says so.
    pub fn end(&mut self, served: bool) {
        if self.said.take().is_none() {
            return;
        }
        if self.terminal {
            if self.may_paint() {
                self.write("\r\x1b[K");
            }
        } else if served {
            self.diag
                .line("", &format!("waited {} for a device", clock(self.waited())));
        }
    }

    /// Whether the terminal is ours to paint on: in the background its last line is the
    /// shell's prompt.
    fn may_paint(&self) -> bool {
        !self.terminal
            || nix::unistd::tcgetpgrp(std::io::stderr())
                .map_or(true, |front| front == nix::unistd::getpgrp())
    }

    fn write(&self, text: &str) {
        crate::sys::write_stderr(text.as_bytes());
    }
}

fn line(standing: &Standing) -> String {
    match standing {
        Standing::Queued { used, total, ahead } => {
            format!("waiting for a device: {used} of {total} in use, {ahead} ahead of you")
        }
        Standing::OverLimit(text) => {
            format!("waiting for a device: {text}; others are served first until you hold less")
        }
    }
}

/// `00:42`, `1:00:07`
fn clock(time: Duration) -> String {
    let s = time.as_secs();
    let (h, m, s) = (s / 3600, s / 60 % 60, s % 60);
    if h > 0 {
        format!("{h}:{m:02}:{s:02}")
    } else {
        format!("{m:02}:{s:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_it_stands() {
        let queued = Standing::Queued {
            used: 7,
            total: 8,
            ahead: 2,
        };
        assert_eq!(
            line(&queued),
            "waiting for a device: 7 of 8 in use, 2 ahead of you"
        );
        assert_eq!(
            line(&Standing::OverLimit(
                "you hold 1 of at most 1: MIG-a".into()
            )),
            "waiting for a device: you hold 1 of at most 1: MIG-a; others are served first until you hold less"
        );
        assert_eq!(
            [42, 725, 3607].map(|s| clock(Duration::from_secs(s))),
            ["00:42", "12:05", "1:00:07"]
        );
    }
}
