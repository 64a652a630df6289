//! Asking NVML from a program that must not load it: another process does, under one time
//! limit for everything and a shorter one for each GPU. A process that hangs or crashes at one
//! GPU is replaced by one that leaves this GPU alone; else a failure with a line ends it.

mod connection;
mod limits;
mod questions;
pub mod rules;
mod scan;
mod silent_gpus;
pub mod wire;

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::libc::RLIM_INFINITY;
use nix::sys::resource::{Resource, getrlimit};
use serde::de::DeserializeOwned;

use crate::causes::{AskCause, SilentFault, WorkerRemedy};
use connection::{Connection, NoAnswer};
use getgpu_linux::{procfs::namespaces, run_clock};
use getgpu_model::{Detail, Failure, quantity};
use getgpu_settings::Settings;
use limits::{GpuTimes, Limits, Purpose, Touch};
use rules::Rules;
use wire::NvmlRequest;

pub use connection::{Worker, channel};
pub use scan::{Allowing, Look};
pub use silent_gpus::SilentGpus;

/// The hidden first argument that makes getgpu the process that asks NVML, on descriptor
/// 0.
pub const NVML_WORKER_OPTION: &str = "--nvml-worker";

/// How a program starts the process that asks NVML.
pub(crate) type StartWorker = fn(&Settings) -> Result<Worker, Failure>;

/// How long a process that is no longer wanted may take to exit before it is killed.
const GIVEN_UP: Duration = Duration::from_millis(200);

/// The GPUs that did not answer, as all sessions of one node know them.
pub(crate) type SharedSilence = Rc<RefCell<SilentGpus>>;

/// A session with the process that asks NVML, and with those that replace it.
pub struct Client<'a> {
    settings: &'a Settings,
    start: StartWorker,
    /// None: it was given up, and another one is started for the next question.
    connection: Option<Connection>,
    limits: Limits,
    silent: SharedSilence,
    /// The GPUs that the present process has been asked about.
    touched: HashSet<u32>,
    seen: GpuTimes,
}

impl<'a> Client<'a> {
    /// Opens a session; the time limit of the settings runs from now on.
    ///
    /// # Errors
    ///
    /// The process cannot be started.
    pub(crate) fn open(
        settings: &'a Settings,
        start: StartWorker,
        silent: SharedSilence,
    ) -> Result<Self, Failure> {
        let mut client = Self {
            settings,
            start,
            connection: None,
            limits: Limits::from(run_clock::now(), settings.nvml_timeout),
            silent,
            touched: HashSet::new(),
            seen: GpuTimes::default(),
        };
        client.connection()?;
        Ok(client)
    }

    /// The connection to the process that is asked now, which is started if there is none.
    fn connection(&mut self) -> Result<&mut Connection, Failure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.touched.clear();
                Connection::open((self.start)(self.settings)?, &self.opening())
            }
        };
        Ok(self.connection.insert(connection))
    }

    fn opening(&self) -> NvmlRequest {
        let settings = self.settings;
        NvmlRequest::Open {
            library: settings.library.clone(),
            rules: Rules {
                idle_memory: settings.idle_memory,
                ignore_processes: settings.ignore_processes.clone(),
                memory_decides: settings.memory_decides,
                container: !namespaces::host_pids(),
            },
        }
    }

    /// Shuts the library down and waits for the process to be over. Only then do the
    /// answers count.
    ///
    /// # Errors
    ///
    /// The library does not let go within the time limit.
    pub(crate) fn close(mut self) -> Result<(), Failure> {
        // Of a process that was given up nothing is left to close.
        if self.connection.is_none() {
            return Ok(());
        }
        if let Err(failure) = self
            .ask(&NvmlRequest::Quit)
            .and_then(|bye: Result<(), _>| bye)
        {
            // A caller that continues after the failure must not keep the worker as a child.
            self.abandon();
            return Err(failure);
        }
        let deadline = self.limits.deadline();
        let connection = self.connection.take();
        if connection.is_none_or(|connection| connection.end(deadline)) {
            Ok(())
        } else {
            Err(self.late())
        }
    }

    /// Ends a session whose answers no longer matter, after a failure.
    pub(crate) fn abandon(mut self) {
        let soon = run_clock::now() + GIVEN_UP;
        if let Some(connection) = self.connection.take() {
            connection.end(soon.min(self.limits.deadline()));
        }
    }

    /// The answer to a question about the node, or the failure that is the answer; a session
    /// that failed gives none.
    fn ask<T: DeserializeOwned>(
        &mut self,
        request: &NvmlRequest,
    ) -> Result<Result<T, Failure>, Failure> {
        let deadline = self.limits.deadline();
        self.exchange(request, deadline)
            .map_err(|none| self.failure(none))
    }

    /// The same for a question about one GPU. A GPU at which the process hangs or dies is left
    /// alone from now on, and the failure that says why is the answer.
    fn ask_gpu<T: DeserializeOwned>(
        &mut self,
        gpu: u32,
        request: &NvmlRequest,
    ) -> Result<Result<T, Failure>, Failure> {
        if let Some(reason) = self.silent.borrow().reason(gpu, run_clock::now()) {
            let why = reason.to_owned();
            return Ok(Err(AskCause::OneSilent { why }.into()));
        }
        self.wait_until_open()?;
        let touch = if self.touched.contains(&gpu) {
            Touch::Again
        } else {
            Touch::First
        };
        let purpose = match request {
            NvmlRequest::List { detail, .. } if *detail <= Detail::Place => Purpose::List,
            _ => Purpose::Choose,
        };
        let began = run_clock::now();
        let Some(limit) = self.limits.of_question(purpose, touch, self.seen, began) else {
            let all = seconds(self.limits.all);
            let why = SilentFault::NotAsked { all }.to_string();
            return Ok(Err(AskCause::OneSilent { why }.into()));
        };
        let why = match self.exchange(request, began + limit) {
            Ok(answer) => {
                self.touched.insert(gpu);
                self.seen.longest = self.seen.longest.max(run_clock::since(began));
                self.silent.borrow_mut().forget(gpu);
                return Ok(answer);
            }
            Err(NoAnswer::Late) => {
                self.seen.hung += 1;
                let within = seconds(limit);
                SilentFault::Late { within }.to_string()
            }
            Err(NoAnswer::Broken(why)) => SilentFault::WorkerFailed { why: &why }.to_string(),
            Err(NoAnswer::Closed(failure)) => return Err(failure),
        };
        self.leave_alone(gpu, &why);
        Ok(Err(AskCause::OneSilent { why }.into()))
    }

    /// Gives up the process that hangs or died at a GPU. The next question starts another one.
    fn leave_alone(&mut self, gpu: u32, reason: &str) {
        if let Some(connection) = self.connection.take() {
            connection.end(run_clock::now());
        }
        let mut silent = self.silent.borrow_mut();
        silent.note(gpu, reason.to_owned(), run_clock::now());
    }

    /// Waits for a library that is being loaded, which is no GPU's doing.
    fn wait_until_open(&mut self) -> Result<(), Failure> {
        let deadline = self.limits.deadline();
        let opened = self.connection()?.wait_until_open(deadline);
        opened.map_err(|none| self.failure(none))
    }

    fn exchange<T: DeserializeOwned>(
        &mut self,
        request: &NvmlRequest,
        deadline: Instant,
    ) -> Result<Result<T, Failure>, NoAnswer> {
        let connection = self.connection().map_err(NoAnswer::Closed)?;
        let sent = connection.send(request);
        connection.wait_until_open(deadline).and(sent)?;
        connection.receive(deadline)
    }

    fn failure(&self, none: NoAnswer) -> Failure {
        match none {
            NoAnswer::Late => self.late(),
            NoAnswer::Broken(why) => broken(&why),
            NoAnswer::Closed(failure) => failure,
        }
    }

    fn late(&self) -> Failure {
        let within = seconds(self.limits.all);
        AskCause::Late { within }.into()
    }
}

fn seconds(limit: Duration) -> String {
    // Whole milliseconds: a part of a limit may have any number of digits.
    let text = quantity::time_text(Duration::from_millis(limit.as_millis() as u64));
    text.replace('s', " s")
}

fn broken(why: &str) -> Failure {
    let remedy = match has_memory_limit() {
        true => WorkerRemedy::RaiseLimit,
        false => WorkerRemedy::TryDriver,
    };
    AskCause::WorkerFailed { why, remedy }.into()
}

/// Whether a limit of this process, and of those that it starts, may keep a library from being
/// loaded.
fn has_memory_limit() -> bool {
    getrlimit(Resource::RLIMIT_AS).is_ok_and(|(soft, _)| soft != RLIM_INFINITY)
}
