//! `--report`: what the lines of `log = "syslog"` come to, as a table by user, tag or
//! program. They come from the journal, or from standard input where that is no terminal.

mod lines;
mod tally;

use std::io::{IsTerminal, Read};
use std::process::{Command, Stdio};

use getgpu_model::{Failure, diag::show, reason};

use crate::causes::OperateCause;

use getgpu_core::options::ReportBy;

/// Prints the report. `since`: as journalctl(1) has it, and then the journal is asked.
///
/// # Errors
///
/// Standard input or the journal cannot be read, or no line of it is one of these commands'.
pub fn run(by: ReportBy, since: Option<&str>, json: bool) -> Result<(), Failure> {
    let text = if since.is_some() || std::io::stdin().is_terminal() {
        of_journal(since)?
    } else {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        read.map_err(|error| {
            let why = reason(&error);
            OperateCause::InputUnread { why }
        })?;
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let events: Vec<lines::Event> = text.lines().filter_map(lines::Event::parse).collect();
    if events.is_empty() {
        return Err(OperateCause::NothingLogged.into());
    }
    let tally = tally::Tally::of(by, &events);
    show(&if json { tally.json() } else { tally.table() })
}

fn of_journal(since: Option<&str>) -> Result<String, Failure> {
    let mut journal = Command::new("journalctl");
    journal.args(["--no-pager", "-q", "-o", "cat"]);
    journal.args(["-t", "cudawrap", "-t", "getgpu"]);
    if let Some(since) = since {
        journal.arg(format!("--since={since}"));
    }
    let said = journal.stdin(Stdio::null()).output().map_err(|error| {
        let why = reason(&error);
        OperateCause::JournalUnread { why }
    })?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        let why = why.lines().next().unwrap_or("failed").to_owned();
        return Err(OperateCause::JournalUnread { why }.into());
    }
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}
