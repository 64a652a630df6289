//! The end of a call that prints a device: a holder takes the reservation over, then the
//! device is printed. If printing fails, the holder is told to end.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Duration;

use getgpu_common::diag::print;
use getgpu_common::error::Failure;
use getgpu_common::frameworks;
use getgpu_common::job::Job;
use getgpu_common::lock::holder_args::{HolderArgs, Until};
use getgpu_common::poll;
use getgpu_common::procfs::{Process, Stat};
use getgpu_common::quantity;
use getgpu_common::settings::Log;
use getgpu_common::syslog::Record;
use getgpu_common::visible::Visible;
use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::SigSet;

use crate::answer::{Answer, Whose};
use crate::holder::{self, Started};
use crate::invocation::Invocation;
use crate::options::{Format, Keep};

impl Invocation<'_> {
    /// Starts the holder, prints, and tells the holder how that went.
    pub fn hand_out(&self, mut answer: Answer, whose: Whose<'_>) -> Result<(), Failure> {
        if let (true, [device]) = (answer.repeated, answer.uuids.as_slice()) {
            self.warn_of_unrelated(device);
        }
        let text = self.text(&answer.value, answer.part);
        let lock = answer.lock.take();
        let Some(lock) = lock.filter(|_| self.options.keep != Keep::No) else {
            if self.options.keep == Keep::No {
                self.diag.note(&format!("{}: not reserved", answer.value));
            }
            return print_text(&text);
        };
        let until = self.until(&whose, answer.repeated);
        self.warn_if_cut(&until);
        let note = format!("{}: {}", answer.value, kept(&until, whose.caller));
        let job = Job::own();
        let record = self.record(&answer, &whose, job.as_ref());
        let args = self.holder_args(&answer, &whose, &record, until);
        let started = holder::start(&args, lock, whose.user)?;
        record.send(self.settings);
        // The holder has signed: from now on this user's next call counts it.
        drop(answer.guard);
        self.print_reserved(&text, &note, started)
    }

    /// Prints, and tells the holder how that went.
    fn print_reserved(&self, text: &str, note: &str, started: Started) -> Result<(), Failure> {
        let signals = hold_signals(text);
        match print_text(text) {
            Ok(()) => {
                started.printed();
                drop(signals);
                self.diag.note(note);
                self.explain_reservation(text);
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
        &self,
        answer: &Answer,
        whose: &Whose<'_>,
        record: &Record,
        until: Until,
    ) -> HolderArgs {
        HolderArgs {
            devices: answer.uuids.clone(),
            granted: self.named_before(answer),
            grant: answer.larger_grant.clone(),
            value: answer.value.clone(),
            caller: (**whose.caller).clone(),
            record: (self.settings.log != Log::None).then(|| record.text()),
            job: record.job.cloned(),
            since: Stat::read(std::process::id() as i32).map_or(0, |stat| stat.start),
            until,
            tag: whose.tag.clone(),
        }
    }

    /// Whether CUDA_VISIBLE_DEVICES held one of the devices when this call began.
    fn named_before(&self, answer: &Answer) -> bool {
        let entries = match Visible::parse(self.environment.visible.as_deref()) {
            Visible::Entries(entries) => entries,
            Visible::Unset | Visible::Nothing => Vec::new(),
        };
        let names = |uuid| entries.iter().any(|entry| entry.names(uuid));
        let by_text = || {
            let own = self.environment.visible.as_deref();
            own.is_some_and(|own| own == answer.value.as_str())
        };
        answer.uuids.iter().any(names) || by_text()
    }

    /// What the site's log says.
    fn record<'a>(
        &self,
        answer: &'a Answer,
        whose: &'a Whose<'_>,
        job: Option<&'a Job>,
    ) -> Record<'a> {
        let own_uid = || nix::unistd::geteuid().as_raw();
        Record {
            by: "getgpu",
            pid: std::process::id() as i32,
            what: "reserved",
            devices: &answer.uuids,
            uid: whose.user.map_or_else(own_uid, |user| user.uid),
            program: ("for", &whose.caller.name),
            share: answer.part,
            tag: whose.tag.as_ref().map(|tag| tag.name.as_str()),
            job,
            waited: self.began.elapsed(),
        }
    }

    /// When the reservation ends.
    fn until(&self, whose: &Whose<'_>, repeated: bool) -> Until {
        let most = self.settings.max_hold;
        match self.options.keep {
            Keep::Hold(Some(0)) => Until::Released,
            Keep::Hold(_) => {
                let process = whose.held.as_ref().unwrap_or(whose.caller);
                let longest = [most, self.options.reserve_for].into_iter().flatten().min();
                Until::Over(process.clone(), longest)
            }
            Keep::No | Keep::ForProgram => {
                // What is printed again is held already when the program begins.
                let short = repeated && self.options.reserve_for.is_none();
                let wait = if short {
                    self.settings.linger
                } else {
                    self.settings.reserve_for
                };
                Until::Programs {
                    // Else --for would be a way around max_hold.
                    wait: most.map_or(wait, |most| wait.min(most)),
                    linger: self.settings.linger,
                }
            }
        }
    }

    /// Says that the site's limit cuts what was asked for.
    fn warn_if_cut(&self, until: &Until) {
        let asked = match until {
            Until::Released => Some(Duration::ZERO),
            Until::Over(..) => None,
            Until::Programs { .. } => Some(self.settings.reserve_for),
        };
        if let Some(line) = self.settings.hold_is_cut(asked) {
            self.diag.warn(&line);
        }
    }

    /// A UUID that appears on a terminal reaches no program by itself.
    fn explain_reservation(&self, text: &str) {
        let plain = self.options.keep == Keep::ForProgram && self.options.tag.is_none();
        if plain && self.options.format == Format::Uuid && std::io::stdout().is_terminal() {
            let time = quantity::brief(self.settings.reserve_for);
            self.diag.hint(&format!(
                "{} is reserved for {time}: CUDA_VISIBLE_DEVICES=$(getgpu) ./app",
                text.trim_end()
            ));
        }
    }

    /// What is printed for devices of which the smallest part is `part`.
    pub fn text(&self, value: &str, part: f64) -> String {
        match self.options.format {
            Format::Env => format!("export CUDA_VISIBLE_DEVICES={value}\n"),
            Format::Task => {
                let told = self.settings.framework_memory && part < 1.0;
                let unset = |(name, _): &(&str, String)| told && std::env::var_os(name).is_none();
                let more = frameworks::variables(part).into_iter().filter(unset);
                let more = more.map(|(name, value)| format!("export {name}={value}\n"));
                format!(
                    "export CUDA_VISIBLE_DEVICES={value}\n{}",
                    more.collect::<String>()
                )
            }
            Format::Nothing => String::new(),
            Format::Uuid | Format::Index => format!("{value}\n"),
        }
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
fn hold_signals(text: &str) -> Option<HeldSignals> {
    let output = std::io::stdout();
    let _ = poll::until(&mut [PollFd::new(output.as_fd(), PollFlags::POLLOUT)], None);
    let before = SigSet::thread_get_mask().ok()?;
    let fits = text.len() <= libc::PIPE_BUF;
    (fits && SigSet::all().thread_block().is_ok()).then_some(HeldSignals(before))
}

/// The signal mask to go back to.
struct HeldSignals(SigSet);

impl Drop for HeldSignals {
    fn drop(&mut self) {
        let _ = self.0.thread_set_mask();
    }
}

/// How long a reservation is kept, and for whom, as `--verbose` says it.
fn kept(until: &Until, caller: &Process) -> String {
    let named = |process: &Process| format!("{} (pid {})", process.name, process.pid);
    match until {
        Until::Released => "reserved until it is released".to_owned(),
        Until::Over(process, _) => format!("reserved until {} exits", named(process)),
        Until::Programs { wait, .. } => {
            let (whom, time) = (named(caller), quantity::brief(*wait));
            format!("reserved for the programs of {whom}, for {time} if none starts")
        }
    }
}
