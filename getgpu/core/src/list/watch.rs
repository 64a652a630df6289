//! `--watch`: the list, drawn in place again and again until you press q. Each look is made
//! by a child process, so a driver that hangs never keeps a key from being answered, and
//! NVML is held no longer than one look takes.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use crossterm::terminal::{
    self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{execute, queue};
use getgpu_linux::ReaderChild;
use getgpu_model::{Failure, diag, quantity, reason};

use super::width::cut;
use crate::causes::{GetgpuUsage, ReserveCause};

/// How long a key waits while a look is made.
const TICK: Duration = Duration::from_millis(50);
/// What `?` shows in the place of the list.
const HELP: &str = "\
q quits; up, down, page up, page down, home, end scroll; r looks at once; ? goes back

free        may be handed out
leased      a program holds all of it until it exits
shared      programs hold parts of it
reserved    kept for a program that has not started, or by --hold
busy        used by a program that did not ask here
claimed     a call is about to take it
unknown     NVML does not say whether it is in use
unhealthy   CUDA cannot or should not start there: WHY says what is wrong
excluded    not handed out: the administrator excludes it; (x) marks one that is in use
not listed  not handed out: not on the site's list
not usable  not handed out: this process may not open it
";

/// Draws what `look` gives, every `interval`.
///
/// # Errors
///
/// Standard input or output is not a terminal, or it cannot be set up.
pub fn run(interval: Duration, look: impl Fn() -> Vec<u8>) -> Result<(), Failure> {
    if !stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(GetgpuUsage::NoTerminal.into());
    }
    let _restored = Screen::enter().map_err(failed)?;
    let mut view = WatchView {
        text: "looking ...\n".to_owned(),
        ..WatchView::default()
    };
    loop {
        let began = Instant::now();
        let mut child = ReaderChild::start(&look).ok();
        while began.elapsed() < interval || child.is_some() {
            if let Some(text) = child
                .as_mut()
                .and_then(|child| child.answer(Duration::ZERO))
            {
                view.text = String::from_utf8_lossy(&text).into_owned();
                child = None;
                view.draw(interval).map_err(failed)?;
            }
            let left = interval.saturating_sub(began.elapsed());
            let wait = if child.is_some() { TICK } else { left };
            if !event::poll(wait).map_err(failed)? {
                continue;
            }
            match view.act_on(&event::read().map_err(failed)?) {
                KeyAction::Quit => return Ok(()),
                KeyAction::Look => break,
                KeyAction::Draw => view.draw(interval).map_err(failed)?,
            }
        }
    }
}

/// The alternate screen in raw mode, until it is dropped.
struct Screen;

impl Screen {
    fn enter() -> std::io::Result<Self> {
        enable_raw_mode()?;
        let screen = Self;
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum KeyAction {
    Quit,
    /// A new look at once.
    Look,
    Draw,
}

#[derive(Default)]
struct WatchView {
    text: String,
    /// Lines that are scrolled away above.
    top: usize,
    help: bool,
}

impl WatchView {
    fn act_on(&mut self, event: &Event) -> KeyAction {
        let Event::Key(KeyEvent {
            code, modifiers, ..
        }) = event
        else {
            // The terminal has another size: what was drawn no longer fits.
            return KeyAction::Look;
        };
        let page = page(terminal::size().map_or(24, |(_, rows)| rows));
        let last = self.parts().1.len().saturating_sub(page);
        match code {
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => {
                return KeyAction::Quit;
            }
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::Quit,
            KeyCode::Char('r') => return KeyAction::Look,
            KeyCode::Char('?' | 'h') => (self.help, self.top) = (!self.help, 0),
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.top += page,
            KeyCode::Home => self.top = 0,
            KeyCode::End => self.top = last,
            _ => {}
        }
        self.top = self.top.min(last);
        KeyAction::Draw
    }

    /// The headings, the lines that scroll, and the total.
    fn parts(&self) -> (&str, Vec<&str>, &str) {
        let text = if self.help { HELP } else { &self.text };
        let mut lines = text.lines();
        let headings = lines.next().unwrap_or_default();
        let mut lines: Vec<&str> = lines.collect();
        let total = if self.help { None } else { lines.pop() };
        (headings, lines, total.unwrap_or_default())
    }

    /// Line by line over what is there, so that nothing flickers.
    fn draw(&self, interval: Duration) -> std::io::Result<()> {
        let (columns, rows) = terminal::size()?;
        let mut out = stdout().lock();
        let (headings, lines, total) = self.parts();
        let host = nix::unistd::gethostname().unwrap_or_default();
        let every = quantity::time_text(interval);
        let host = diag::printable(&host.to_string_lossy());
        let title = format!("{host}, every {every}; q quits, ? explains");
        let below = lines.len().saturating_sub(self.top + page(rows));
        let total = match below {
            0 => total.to_owned(),
            below => format!("{below} more below; {total}"),
        };
        let shown = lines.into_iter().skip(self.top).take(page(rows));
        let shown = [title.as_str(), headings].into_iter().chain(shown);
        let shown = shown.chain([total.as_str()]);
        queue!(out, MoveTo(0, 0))?;
        for (row, line) in shown.enumerate() {
            // Lines with colours were made for this width already.
            let line = if line.contains('\x1b') {
                line.to_owned()
            } else {
                cut(line, usize::from(columns))
            };
            queue!(out, MoveTo(0, u16::try_from(row).unwrap_or(u16::MAX)))?;
            write!(out, "{line}")?;
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()
    }
}

/// How many lines scroll on a terminal with so many rows: all but the title, the headings
/// and the total.
fn page(rows: u16) -> usize {
    usize::from(rows.max(5) - 3)
}

fn failed(error: std::io::Error) -> Failure {
    let why = reason(&error);
    ReserveCause::TerminalFailed { why }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_scroll_within_the_list_and_quit() {
        let mut view = WatchView {
            text: "line\n".repeat(200),
            ..WatchView::default()
        };
        let mut press = |code| {
            let next = view.act_on(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
            (next, view.top)
        };
        assert_eq!(press(KeyCode::Down), (KeyAction::Draw, 1));
        assert_eq!(press(KeyCode::Home), (KeyAction::Draw, 0));
        assert_eq!(press(KeyCode::Up), (KeyAction::Draw, 0));
        let (_, last) = press(KeyCode::End);
        assert!(last > 100 && press(KeyCode::Down) == (KeyAction::Draw, last));
        assert_eq!(press(KeyCode::Char('q')).0, KeyAction::Quit);
        assert_eq!(press(KeyCode::Char('r')).0, KeyAction::Look);
    }
}
