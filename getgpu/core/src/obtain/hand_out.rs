//! The end of a call that prints a device: a holder takes the reservation over, then the
//! device is printed. If printing fails, the holder is asked to exit.

use std::cell::LazyCell;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Duration;

use getgpu_choose::Record;
use getgpu_linux::{BlockedSignals, ChildUser, Process, Stat, poll};
use getgpu_lock::{HolderArgs, Tag, Until};
use getgpu_model::{Failure, Job, Uuid, Visible, diag::print, quantity};
use getgpu_settings::Log;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::SigSet;

use crate::call::GetgpuCall;
use crate::holder::{self, Started};
use crate::obtain::answer::{self, Answer};
use crate::obtain::unrelated::warn_of_unrelated;
use crate::options::{Format, Keep};

/// For whom a device is reserved, and under which name.
pub struct Owner<'a> {
    pub caller: &'a LazyCell<Process>,
    /// The process that `--hold=PID` names.
    pub held: Option<Process>,
    pub user: Option<ChildUser>,
    pub tag: Option<Tag>,
    /// What it is shown as (CUDAWRAP_TAG), unless a name was typed.
    pub label: Option<String>,
}

/// Starts the holder, prints, and tells the holder how that went.
pub fn hand_out(
    call: &GetgpuCall<'_>,
    mut answer: Answer,
    owner: Owner<'_>,
) -> Result<(), Failure> {
    if answer.repeated {
        warn_of_unrelated(call, &answer.uuids);
    }
    let text = answer::text(call, &answer.value, answer.part);
    let lock = answer.lock.take();
    let Some(lock) = lock.filter(|_| call.options.keep != Keep::No) else {
        if call.options.keep == Keep::No {
            call.diag.note(&format!("{}: not reserved", answer.value));
        }
        return print_text(&text);
    };
    let ends = until(call, &owner, answer.repeated);
    warn_if_cut(call, &ends);
    let note = format!("{}: {}", answer.value, kept(&ends, owner.caller));
    let job = Job::own();
    let record = record(call, &answer, &owner, job.as_ref());
    let args = holder_args(call, &answer, &owner, &record, ends);
    let started = holder::start(&args, lock, owner.user)?;
    record.send(call.settings);
    // The holder has signed: from now on this user's next call counts it.
    drop(answer.guard);
    print_reserved(call, &text, &note, started)
}

/// Prints, and tells the holder how that went.
fn print_reserved(
    call: &GetgpuCall<'_>,
    text: &str,
    note: &str,
    started: Started,
) -> Result<(), Failure> {
    let signals = hold_signals(text);
    match print_text(text) {
        Ok(()) => {
            started.printed();
            drop(signals);
            call.diag.note(note);
            explain_reservation(call, text);
            Ok(())
        }
        Err(failure) => {
            started.cancel();
            Err(failure)
        }
    }
}

/// What the holder has to know.
fn holder_args(
    call: &GetgpuCall<'_>,
    answer: &Answer,
    owner: &Owner<'_>,
    record: &Record,
    until: Until,
) -> HolderArgs {
    HolderArgs {
        devices: answer.uuids.clone(),
        role: call.options.role,
        granted: named_before(call, answer),
        grant: answer.larger_grant.clone(),
        value: answer.value.clone(),
        caller: (**owner.caller).clone(),
        record: (call.settings.log != Log::None).then(|| record.text()),
        job: record.job.cloned(),
        since: Stat::read(std::process::id() as i32).map_or(0, |stat| stat.start),
        until,
        tag: owner.tag.clone(),
        label: owner.label.clone(),
        linger: call.settings.linger,
        told_before: told_before(&answer.uuids),
        background: call.settings.background_programs.clone(),
        keeper: None,
    }
}

/// The variables besides CUDA_VISIBLE_DEVICES that hold one of the devices when this call begins.
fn told_before(uuids: &[Uuid]) -> Vec<String> {
    let holds = |value: &str| uuids.iter().any(|uuid| value.contains(uuid.as_str()));
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let is_told = name != "CUDA_VISIBLE_DEVICES" && holds(&value.to_string_lossy());
        is_told.then(|| name.into_string().ok())?
    });
    variables.collect()
}

/// Whether CUDA_VISIBLE_DEVICES held one of the devices when this call began.
fn named_before(call: &GetgpuCall<'_>, answer: &Answer) -> bool {
    let value = call.environment.visible.as_deref();
    let entries = match Visible::parse(value) {
        Visible::Entries(entries) => entries,
        Visible::Unset | Visible::Nothing => Vec::new(),
    };
    let names = |uuid| entries.iter().any(|entry| entry.names(uuid));
    answer.uuids.iter().any(names) || value.is_some_and(|value| value == answer.value.as_str())
}

/// What the site's log says.
fn record<'a>(
    call: &GetgpuCall<'_>,
    answer: &'a Answer,
    owner: &'a Owner<'_>,
    job: Option<&'a Job>,
) -> Record<'a> {
    let tag = owner.tag.as_ref().map(|tag| tag.name.as_str());
    let user = owner.user.map(|user| user.uid);
    Record {
        by: "getgpu",
        pid: std::process::id() as i32,
        what: "reserved",
        devices: &answer.uuids,
        uid: user.unwrap_or_else(|| nix::unistd::geteuid().as_raw()),
        program: ("for", &owner.caller.name),
        share: answer.part,
        tag: owner.label.as_deref().or(tag),
        job,
        waited: call.began.elapsed(),
    }
}

/// When the reservation ends.
fn until(call: &GetgpuCall<'_>, owner: &Owner<'_>, repeated: bool) -> Until {
    let most = call.settings.max_hold;
    match call.options.keep {
        Keep::Hold(Some(0)) => Until::Released,
        Keep::Hold(_) => {
            let process = owner.held.as_ref().unwrap_or(owner.caller);
            let longest = [most, call.options.reserve_for].into_iter().flatten().min();
            Until::Over(process.clone(), longest)
        }
        Keep::No | Keep::ForProgram => {
            // What is printed again is held already when the program begins.
            let short = repeated && call.options.reserve_for.is_none();
            let wait = if short {
                call.settings.linger
            } else {
                call.settings.reserve_for
            };
            Until::Programs {
                // Else --for would be a way around max_hold.
                wait: most.map_or(wait, |most| wait.min(most)),
            }
        }
    }
}

/// Says that the site's limit cuts what was asked for.
fn warn_if_cut(call: &GetgpuCall<'_>, until: &Until) {
    let asked = match until {
        Until::Released => Some(Duration::ZERO),
        Until::Over(..) => None,
        Until::Programs { .. } => Some(call.settings.reserve_for),
    };
    if let Some(line) = call.settings.hold_is_cut(asked) {
        call.diag.warn(&line);
    }
}

/// A UUID that appears on a terminal reaches no program by itself.
fn explain_reservation(call: &GetgpuCall<'_>, text: &str) {
    let plain = call.options.keep == Keep::ForProgram && call.options.tag.is_none();
    if plain && call.options.format == Format::Uuid && std::io::stdout().is_terminal() {
        let time = quantity::brief(call.settings.reserve_for);
        call.diag.hint(&format!(
            "{} is reserved for {time}: CUDA_VISIBLE_DEVICES=$(getgpu) ./app",
            text.trim_end()
        ));
    }
}

/// Prints; where there is nothing to print no output is needed.
fn print_text(text: &str) -> Result<(), Failure> {
    if text.is_empty() { Ok(()) } else { print(text) }
}

/// Holds signals back from this thread until the result is dropped, so that none of them
/// comes between an answer and the word to the holder that it was printed. First waits,
/// interruptibly, until the output takes the answer at once (POLLOUT of a pipe: PIPE_BUF
/// bytes, pipe(7)).
fn hold_signals(text: &str) -> Option<BlockedSignals> {
    let output = std::io::stdout();
    let _ = poll::until(&mut [PollFd::new(output.as_fd(), PollFlags::POLLOUT)], None);
    let fits = text.len() <= libc::PIPE_BUF;
    fits.then(|| BlockedSignals::of(&SigSet::all())).flatten()
}

/// How long a reservation is kept, and for whom, as `--verbose` says it.
fn kept(until: &Until, caller: &Process) -> String {
    match until {
        Until::Released => "reserved until it is released".to_owned(),
        Until::Over(process, _) => format!("reserved until {} exits", name_and_pid(process)),
        Until::Programs { wait } => {
            let (whom, time) = (name_and_pid(caller), quantity::brief(*wait));
            format!("reserved for the programs of {whom}, for {time} if none starts")
        }
    }
}

fn name_and_pid(process: &Process) -> String {
    format!("{} (pid {})", process.name, process.pid)
}
