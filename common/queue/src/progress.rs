//! What a waiter prints: on a terminal one line that is updated in place, otherwise one line at
//! the start and one at the end. A call that is served at once prints nothing, and so does a
//! wrapped program without a terminal.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use super::outlook::Outlook;
use getgpu_linux::run_clock;
use getgpu_lock::kept::Count;
use getgpu_model::{Diag, Verbosity};
use getgpu_settings::Settings;

/// How often the line on a terminal is updated at most.
const REPAINT: Duration = Duration::from_millis(250);

/// How a waiter stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In the queue.
    Queued {
        /// How many devices are not free, of all that it may have.
        used: usize,
        total: usize,
        /// How many waiters are ahead of it.
        ahead: usize,
        /// What is kept for it, if it is its turn.
        kept: Option<Count>,
        outlook: Outlook,
    },
    /// Over the user's own limit, which this says.
    OverLimit(String),
    /// Of a node that gives no device now, which this says.
    Trouble(String),
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
    /// Of a wait that was asked for; if the site cuts it short, that is said first.
    pub fn asked(settings: &Settings, diag: &Diag) -> Self {
        if let Some(line) = settings.wait_is_cut() {
            diag.remark(&line);
        }
        Self {
            silent: false,
            ..Self::silent(diag)
        }
    }

    /// Prints nothing at all: for callers that did not ask to wait.
    pub fn silent(diag: &Diag) -> Self {
        Self {
            diag: *diag,
            terminal: std::io::stderr().is_terminal(),
            began: run_clock::now(),
            said: None,
            silent: true,
        }
    }

    /// How long it has been.
    pub fn waited(&self) -> Duration {
        run_clock::since(self.began)
    }

    /// Whether a line is due: the first one, or on a terminal the next one.
    pub(crate) fn is_due(&self) -> bool {
        let has_said = |said: Instant| !self.terminal || said.elapsed() < REPAINT;
        !self.silent
            && self.diag.level() >= Verbosity::Normal
            && !self.said.is_some_and(has_said)
            && self.may_paint()
    }

    /// Prints how the waiter stands.
    pub(crate) fn say(&mut self, standing: &Standing) {
        if self.terminal {
            let text = painted(standing, self.diag.program(), self.waited(), columns());
            self.write(&format!("\r{text}\x1b[K"));
        } else {
            self.diag.line("", &line(standing, ""));
        }
        self.said = Some(Instant::now());
    }

    /// The wait has ended: with a device, or in vain, and then another line says so.
    pub(crate) fn end(&mut self, served: bool) {
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

    /// Whether this process may paint on the terminal: in the background its last line is
    /// the shell's prompt.
    fn may_paint(&self) -> bool {
        !self.terminal
            || nix::unistd::tcgetpgrp(std::io::stderr())
                .map_or(true, |front| front == nix::unistd::getpgrp())
    }

    fn write(&self, text: &str) {
        getgpu_linux::sys::write_stderr(text.as_bytes());
    }
}

fn line(standing: &Standing, clock: &str) -> String {
    match standing {
        Standing::Queued {
            used,
            total,
            ahead,
            kept,
            outlook,
        } => format!(
            "waiting for a device: {used} of {total} in use, {}{clock}{}",
            place(*ahead, *kept),
            outlook.text()
        ),
        Standing::Trouble(text) => format!("waiting for a device: {text}{clock}"),
        Standing::OverLimit(text) => {
            format!(
                "waiting for a device: {text}; others are served first until you hold less{clock}"
            )
        }
    }
}

/// `2 ahead of you`, or, with the turn of those who want several, `3 of 8 kept for you`.
fn place(ahead: usize, kept: Option<Count>) -> String {
    kept.map_or_else(
        || format!("{ahead} ahead of you"),
        |kept| format!("{} for you", kept.text()),
    )
}

/// The line for a terminal of so many columns: a short one where it would not fit, and no
/// wider than the terminal, which would scroll with each that is written.
fn painted(standing: &Standing, program: &str, waited: Duration, columns: usize) -> String {
    let clock = clock(waited);
    let long = format!("{program}: {}", line(standing, &format!(", {clock}")));
    if long.chars().count() < columns {
        return long;
    }
    let short = match standing {
        Standing::Queued {
            used,
            total,
            ahead,
            kept,
            ..
        } => {
            let place = kept.map_or_else(|| format!("{ahead} ahead"), Count::text);
            format!("{program}: waiting {clock}, {place}, {used} of {total} in use")
        }
        Standing::OverLimit(text) | Standing::Trouble(text) => {
            format!("{program}: waiting {clock}: {text}")
        }
    };
    short.chars().take(columns.saturating_sub(1)).collect()
}

/// The width of the terminal; of one that does not say it, none.
fn columns() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(usize::MAX, |(width, _)| usize::from(width.0))
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
            kept: None,
            outlook: Outlook::default(),
        };
        let turn = Standing::Queued {
            used: 5,
            total: 8,
            ahead: 0,
            kept: Some(Count { has: 3, wanted: 8 }),
            outlook: Outlook::default(),
        };
        let over = Standing::OverLimit("you hold 1 of at most 1: MIG-a".into());
        assert_eq!(
            line(&queued, ""),
            "waiting for a device: 7 of 8 in use, 2 ahead of you"
        );
        assert_eq!(
            line(&over, ""),
            "waiting for a device: you hold 1 of at most 1: MIG-a; others are served first until you hold less"
        );
        #[rustfmt::skip]
        let cases = [
            (&queued, 80, "getgpu: waiting for a device: 7 of 8 in use, 2 ahead of you, 00:42"),
            (&queued, 60, "getgpu: waiting 00:42, 2 ahead, 7 of 8 in use"),
            (&queued, 20, "getgpu: waiting 00:4"),
            (&turn, 80, "getgpu: waiting for a device: 5 of 8 in use, 3 of 8 kept for you, 00:42"),
            (&turn, 60, "getgpu: waiting 00:42, 3 of 8 kept, 5 of 8 in use"),
            (&over, 60, "getgpu: waiting 00:42: you hold 1 of at most 1: MIG-a"),
        ];
        for (standing, columns, painted_line) in cases {
            let painted = painted(standing, "getgpu", Duration::from_secs(42), columns);
            assert_eq!(painted, painted_line[..painted_line.len().min(columns - 1)]);
        }
        assert_eq!(
            [42, 725, 3607].map(|s| clock(Duration::from_secs(s))),
            ["00:42", "12:05", "1:00:07"]
        );
    }
}
