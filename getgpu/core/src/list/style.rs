//! What the output of a listing is like: how wide, and whether it shows colours, block
//! characters and UUIDs. A pipe and a file are neither wide nor coloured.

use std::io::IsTerminal;

use super::rows::DeviceState;
use crate::options::Color;

/// What standard output can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The columns of a terminal; none: a pipe or a file.
    pub terminal: Option<usize>,
    colour: bool,
    /// Bars of block characters, which a terminal without UTF-8 cannot show.
    blocks: bool,
    /// UUIDs, although they do not fit.
    pub uuids: bool,
}

impl Style {
    /// That of standard output. NO_COLOR (no-color.org) and TERM=dumb turn colours off,
    /// unless `--color` says otherwise.
    pub fn of_stdout(uuids: bool, color: Color) -> Self {
        let terminal = std::io::stdout().is_terminal().then(|| {
            let size = terminal_size::terminal_size_of(std::io::stdout());
            size.map_or(80, |(width, _)| usize::from(width.0)).max(40)
        });
        let dumb = variable("TERM").is_none_or(|term| term == "dumb");
        let plain = terminal.is_none() || dumb;
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(variable);
        let utf8 = locale.is_some_and(|name| {
            let name = name.to_ascii_uppercase();
            name.ends_with("UTF-8") || name.ends_with("UTF8")
        });
        Self {
            terminal,
            colour: match color {
                Color::Auto => !plain && variable("NO_COLOR").is_none(),
                Color::Always => true,
                Color::Never => false,
            },
            blocks: utf8 && !plain,
            uuids,
        }
    }

    /// A bar of six cells of which `filled` are full.
    pub fn bar(self, filled: usize) -> String {
        let (full, empty) = if self.blocks {
            ("▮", "▯")
        } else {
            ("#", ".")
        };
        full.repeat(filled) + &empty.repeat(6 - filled)
    }

    /// The text of a device that is in no pool.
    pub fn dimmed(self, text: &str) -> String {
        self.paint(text, "2")
    }

    /// A heading.
    pub fn bold(self, text: &str) -> String {
        self.paint(text, "1")
    }

    /// A state, by SGR codes (ECMA-48 8.3.117).
    pub fn coloured(self, text: &str, state: DeviceState) -> String {
        let code = match state {
            DeviceState::Free => "32",
            DeviceState::Leased | DeviceState::Shared => "33",
            DeviceState::Reserved | DeviceState::Claimed | DeviceState::Kept => "36",
            DeviceState::Busy => "31",
            DeviceState::Unknown | DeviceState::Unhealthy => "35",
        };
        self.paint(text, code)
    }

    fn paint(self, text: &str, code: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A variable that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
