//! The node as one call sees it: the inventory that was read last, and the session with
//! the process that asks NVML. The session opens at the first question and has to be
//! closed before anything is confirmed, since an answer counts only when the library has
//! let go.

use std::rc::Rc;

use crate::nvml_client::{Client, Look, SharedSilence, StartWorker};
use getgpu_linux::run_clock;
use getgpu_model::{Detail, Device, Failure, GpuProcess, Inventory, Uuid};
use getgpu_settings::Settings;

/// The node as one call sees it.
pub struct Node<'a> {
    settings: &'a Settings,
    start: StartWorker,
    session: Option<Client<'a>>,
    inventory: Option<Rc<Inventory>>,
    /// GPUs that did not answer, which later sessions of this call leave alone.
    silent: SharedSilence,
}

impl<'a> Node<'a> {
    /// A node of which nothing is known and nothing was asked.
    pub fn new(settings: &'a Settings, start: StartWorker) -> Self {
        Self {
            settings,
            start,
            session: None,
            inventory: None,
            silent: SharedSilence::default(),
        }
    }

    /// The session with NVML, which is opened if there is none.
    ///
    /// # Errors
    ///
    /// The process cannot be started.
    pub fn nvml(&mut self) -> Result<&mut Client<'a>, Failure> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Client::open(self.settings, self.start, self.silent.clone())?,
        };
        Ok(self.session.insert(session))
    }

    /// The settings that it is asked under.
    pub fn settings(&self) -> &'a Settings {
        self.settings
    }

    /// What is known of the node without asking.
    pub fn known(&self) -> Option<Rc<Inventory>> {
        self.inventory.clone()
    }

    /// Whether a GPU is left alone now, since it did not answer.
    pub fn is_silent(&self, gpu: u32) -> bool {
        let silent = self.silent.borrow();
        silent.reason(gpu, run_clock::now()).is_some()
    }

    /// The node as it was read before, with what that lacks for this look; else read now.
    ///
    /// # Errors
    ///
    /// NVML does not list the node.
    pub fn inventory<'f>(&mut self, look: impl Into<Look<'f>>) -> Result<Rc<Inventory>, Failure> {
        let look = look.into();
        let Some(known) = self.known() else {
            return self.relist(look);
        };
        if look.lacks(&known).is_empty() {
            return Ok(known);
        }
        let mut inventory = (*known).clone();
        self.nvml()?.complete(&mut inventory, &look)?;
        Ok(self.inventory.insert(Rc::new(inventory)).clone())
    }

    /// The node, read now. GPUs that do not answer now have the devices that they had.
    ///
    /// # Errors
    ///
    /// NVML does not list the node; what was known stays.
    pub fn relist<'f>(&mut self, look: impl Into<Look<'f>>) -> Result<Rc<Inventory>, Failure> {
        let mut inventory = self.nvml()?.scan(&look.into())?;
        if let Some(before) = &self.inventory {
            inventory.keep_silent(before);
        }
        Ok(self.inventory.insert(Rc::new(inventory)).clone())
    }

    /// Drops the inventory, so that the next question about the node lists it again.
    pub fn forget(&mut self) {
        self.inventory = None;
    }

    /// Notes of these devices of the inventory which CPUs are near them.
    ///
    /// # Errors
    ///
    /// NVML does not list the node.
    pub fn note_cpus(
        &mut self,
        look: Look<'_>,
        wanted: impl Fn(&Device) -> bool,
    ) -> Result<Rc<Inventory>, Failure> {
        let mut inventory = (*self.inventory(look)?).clone();
        let devices = inventory.devices.iter_mut();
        self.nvml()?.near(devices.filter(|device| wanted(device)))?;
        Ok(self.inventory.insert(Rc::new(inventory)).clone())
    }

    /// Asks in a session that has ended when this returns, whatever came of it.
    ///
    /// # Errors
    ///
    /// That of `ask`, or the library has not let go within the time limit.
    pub fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let asked = ask(self);
        self.settle(asked)
    }

    /// Ends the session behind what was asked in it.
    ///
    /// # Errors
    ///
    /// That of `asked`, or the library has not let go within the time limit.
    pub fn settle<T>(&mut self, asked: Result<T, Failure>) -> Result<T, Failure> {
        let session = self.session.take();
        match (asked, session) {
            (Ok(answer), Some(session)) => session.close().map(|()| answer),
            (Err(failure), Some(session)) => {
                session.abandon();
                Err(failure)
            }
            (asked, None) => asked,
        }
    }

    /// The processes that NVML shows on these devices, in a session that has ended when this
    /// returns; none from the first device on of which NVML does not tell.
    pub fn processes_on<'u>(
        &mut self,
        devices: impl IntoIterator<Item = &'u Uuid>,
    ) -> Vec<Vec<GpuProcess>> {
        let mut shown = Vec::new();
        let asked = self.ask(|node| {
            for device in devices {
                let usage = node.nvml()?.usage_by_uuid(device, Detail::Full)?;
                shown.push(usage.processes);
            }
            Ok(())
        });
        drop(asked);
        shown
    }
}
