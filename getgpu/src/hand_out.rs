//! The end of a call that prints a device: a holder takes the reservation over, then the
//! device is printed. If printing fails, the holder is told to end.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Duration;

use getgpu_common::deadline;
use getgpu_common::diag::print;
use getgpu_common::error::Failure;
use getgpu_common::frameworks;
use getgpu_common::job::Job;
use getgpu_common::lock::holder_args::{HolderArgs, Until};
use getgpu_common::procfs::Stat;
use getgpu_common::settings::Log;
use getgpu_common::syslog::Record;

use crate::answer::{Answer, Whose};
use crate::caller;
use crate::holder;
use crate::invocation::Invocation;
use crate::options::{Format, Keep};

impl Invocation<'_> {
    /// Starts the holder, prints, and tells the holder how that went.
    pub fn hand_out(&self, answer: Answer, whose: Whose) -> Result<(), Failure> {
        let Whose {
            caller,
            held,
            user,
            tag,
        } = whose;
        let text = self.text(&answer.value, answer.part);
        let Some(lock) = answer.lock.filter(|_| self.options.keep != Keep::No) else {
            return print(&text);
        };
        let until = match (self.options.keep, held) {
            (Keep::Hold(Some(0)), _) => Until::Released,
            (Keep::Hold(_), held) => Until::Over(
                held.unwrap_or_else(|| caller.clone()),
                self.settings.max_hold,
            ),
            _ => {
                // Else --for would be a way around it.
                let wait = self
                    .settings
                    .max_hold
                    .map_or(self.settings.reserve_for, |most| {
                        self.settings.reserve_for.min(most)
                    });
                Until::Programs {
                    wait,
                    linger: self.settings.linger,
                }
            }
        };
        let asked = match &until {
            Until::Released => Some(Duration::ZERO),
            Until::Over(..) => None,
            Until::Programs { .. } => Some(self.settings.reserve_for),
        };
        if let Some(line) = self.settings.hold_is_cut(asked) {
            self.diag.warn(&line);
        }
        let job = Job::own();
        let record = Record {
            by: "getgpu",
            pid: std::process::id() as i32,
            what: "reserved",
            devices: &answer.uuids,
            uid: user.map_or_else(|| nix::unistd::geteuid().as_raw(), |user| user.uid),
            program: ("for", &caller.name),
            share: answer.part,
            job: job.as_ref(),
            waited: self.began.elapsed(),
        };
        let line = HolderArgs {
            devices: answer.uuids.clone(),
            granted: self
                .environment
                .visible
                .as_deref()
                .is_some_and(|own| own == answer.value.as_str()),
            value: answer.value,
            caller: caller.clone(),
            record: (self.settings.log != Log::None).then(|| record.text()),
            job: job.clone(),
            forks: caller::forks(),
            since: Stat::read(std::process::id() as i32).map_or(0, |stat| stat.start),
            until,
            tag,
        };
        let started = holder::start(&line, lock, user)?;
        record.send(self.settings);
        // The holder has signed: from now on this user's next call counts it.
        drop(answer.guard);
        deadline::lift(std::io::stdout().as_fd());
        match print(&text) {
            Ok(()) => {
                started.printed();
                self.explain_reservation(&text);
                Ok(())
            }
            Err(failure) => {
                started.cancel();
                Err(failure)
            }
        }
    }

    /// A UUID that appears on a terminal reaches no program by itself.
    fn explain_reservation(&self, text: &str) {
        let plain = self.options.keep == Keep::ForProgram && self.options.tag.is_none();
        if plain && self.options.format == Format::Uuid && std::io::stdout().is_terminal() {
            let time = getgpu_common::quantity::brief(self.settings.reserve_for);
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
            Format::Uuid | Format::Index => format!("{value}\n"),
        }
    }
}
