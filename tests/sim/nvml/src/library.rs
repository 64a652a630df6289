//! The library as a whole: init and shutdown, counted, and the way every call takes. A
//! call is logged, finds its device, meets its trouble, takes its time, and only then is
//! answered.

use crate::codes::{
    DRIVER_NOT_LOADED, FUNCTION_NOT_FOUND, NOT_SUPPORTED, Reply, UNINITIALIZED, UNKNOWN,
};
use crate::functions;
use crate::handle::Device;
use crate::session::{Session, Target};
use crate::trouble::{self, Counts, Lie};
use sim_node::Folder;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(crate) static LIBRARY: Library = Library {
    state: Mutex::new(None),
};

/// The library in one process.
pub(crate) struct Library {
    state: Mutex<Option<State>>,
}

#[derive(Default)]
struct State {
    references: u32,
    sessions: u16,
    session: Option<Session>,
    counts: Counts,
}

/// A call that may be answered.
pub(crate) struct Entered {
    pub(crate) device: Device,
    /// What shall be wrong with the answer.
    pub(crate) lie: Lie,
}

impl Library {
    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `nvmlInit_v2` and its kin.
    pub(crate) fn init(&self, function: &str, args: &str) -> Reply<()> {
        let folder = Folder::from_env().ok_or(DRIVER_NOT_LOADED)?;
        folder.log_call(function, args);
        let (fresh, trouble, time) = {
            let mut guard = self.lock();
            let state = guard.get_or_insert_default();
            let fresh = if state.session.is_none() {
                Some(open(&folder)?)
            } else {
                None
            };
            if let Some(session) = &fresh {
                state.counts.follow(&session.faults);
            }
            let trouble = state.counts.find(function, None, &[]);
            let time = fresh
                .as_ref()
                .map_or(0, |session| session.faults.latency.init_ms);
            (fresh, trouble, Duration::from_millis(time))
        };
        if let Some(banner) = fresh
            .as_ref()
            .and_then(|session| session.faults.banner.as_ref())
        {
            let _ = writeln!(std::io::stdout(), "{banner}");
        }
        trouble::sleep(time);
        trouble::act(trouble)?;
        self.begin(&folder, fresh)
    }

    /// Counts the init; the session is begun unless another thread was faster.
    fn begin(&self, folder: &Folder, fresh: Option<Session>) -> Reply<()> {
        let mut guard = self.lock();
        let state = guard.get_or_insert_default();
        if state.session.is_none() {
            state.sessions = state.sessions.wrapping_add(1).max(1);
            let mut session = fresh.map_or_else(|| open(folder), Ok)?;
            session.number = state.sessions;
            state.session = Some(session);
        }
        state.references += 1;
        Ok(())
    }

    /// `nvmlShutdown`; without an init before it does nothing and is content, as the real
    /// one was seen to be.
    pub(crate) fn shutdown(&self, function: &str) -> Reply<()> {
        let trouble = {
            let mut guard = self.lock();
            let state = guard.get_or_insert_default();
            let Some(folder) = state.session.as_ref().map(|session| session.folder.clone()) else {
                return Ok(());
            };
            folder.log_call(function, "");
            state.counts.find(function, None, &[])
        };
        trouble::act(trouble)?;
        let mut guard = self.lock();
        let state = guard.get_or_insert_default();
        state.references = state.references.saturating_sub(1);
        if state.references == 0 {
            state.session = None;
        }
        Ok(())
    }

    /// The first half of a call: all that happens before the answer.
    pub(crate) fn enter(&self, function: &str, target: &Target) -> Reply<Entered> {
        let (device, trouble, time) = {
            let mut guard = self.lock();
            let state = guard.get_or_insert_default();
            let Some(session) = state.session.as_mut() else {
                return Err(not_initialised(function));
            };
            let (device, attached) = session.resolve(target);
            session
                .folder
                .log_call(function, &args(session, target, device));
            for gpu in &attached {
                session.folder.log_call("attach", &format!("GPU {gpu}"));
            }
            if !functions::exists(session.node.version, function) {
                return Err(FUNCTION_NOT_FOUND);
            }
            if session.mps_domains && !functions::knows_mps_domains(function) {
                return Err(NOT_SUPPORTED);
            }
            let (gpu, uuids) = session.names(device.unwrap_or(Device::None));
            let trouble = state.counts.find(function, gpu, &uuids);
            (device, trouble, trouble::delay(session, attached.len()))
        };
        // Without the lock: a call that hangs or takes its time does not stop other
        // threads.
        trouble::sleep(time);
        let lie = trouble::act(trouble)?;
        Ok(Entered {
            device: device?,
            lie,
        })
    }

    /// The second half: the answer.
    pub(crate) fn answer<T>(&self, answer: impl FnOnce(&mut Session) -> Reply<T>) -> Reply<T> {
        let mut guard = self.lock();
        answer(
            guard
                .as_mut()
                .and_then(|state| state.session.as_mut())
                .ok_or(UNINITIALIZED)?,
        )
    }

    /// A whole call.
    pub(crate) fn call<T>(
        &self,
        function: &str,
        target: &Target,
        answer: impl FnOnce(&mut Session, Device) -> Reply<T>,
    ) -> Reply<T> {
        let entered = self.enter(function, target)?;
        self.answer(|session| answer(session, entered.device))
    }
}

fn open(folder: &Folder) -> Reply<Session> {
    Session::open(folder.clone()).map_err(|error| {
        // Whoever wrote the files wants to know; no test can mean to have them unreadable
        // and silent.
        let _ = writeln!(
            std::io::stderr(),
            "sim-nvml: {}: {error}",
            folder.root().display()
        );
        UNKNOWN
    })
}

fn not_initialised(function: &str) -> i32 {
    if let Some(folder) = Folder::from_env() {
        folder.log_call(function, "uninitialized");
    }
    UNINITIALIZED
}

fn args(session: &Session, target: &Target, device: Reply<Device>) -> String {
    match (target, device) {
        (Target::Index(index), _) => index.to_string(),
        (Target::Uuid(name) | Target::PciBusId(name), _) => name.clone(),
        (Target::Slot(_, slot), Ok(Device::Gpu(gpu))) => format!("GPU {gpu} {slot}"),
        (_, Ok(Device::Gpu(gpu))) => format!("GPU {gpu}"),
        (_, Ok(Device::Mig(gpu, mig))) => format!(
            "GPU {gpu} MIG {}",
            session.node.gpus[gpu].devices[mig].index
        ),
        (Target::Node, _) => String::new(),
        _ => "bad handle".to_owned(),
    }
}
