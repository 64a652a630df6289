//! The node as one call sees it: the inventory that was read last, and the session with
//! the process that asks NVML. The session opens at the first question and has to be
//! closed before anything is confirmed, since an answer counts only when the library has
//! let go.

use std::rc::Rc;

use crate::error::Failure;
use crate::inventory::{Detail, Device, Inventory};
use crate::nvml_client::{Client, Worker};
use crate::settings::Settings;

/// How a program starts the process that asks NVML.
pub type StartWorker = fn(&Settings) -> Result<Worker, Failure>;

/// The node as one call sees it.
pub struct Node<'a> {
    settings: &'a Settings,
    start: StartWorker,
    session: Option<Client>,
    inventory: Option<Rc<Inventory>>,
}

impl<'a> Node<'a> {
    /// A node of which nothing is known and nothing was asked.
    pub fn new(settings: &'a Settings, start: StartWorker) -> Self {
        Self {
            settings,
            start,
            session: None,
            inventory: None,
        }
    }

    /// The session with NVML, which is opened if there is none.
    ///
    /// # Errors
    ///
    /// The process cannot be started.
    pub fn nvml(&mut self) -> Result<&mut Client, Failure> {
        let session = match self.session.take() {
            Some(session) => session,
            None => Client::open((self.start)(self.settings)?, self.settings),
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

    /// Everything on the node, as it was read before, else read now.
    ///
    /// # Errors
    ///
    /// NVML does not list the node.
    pub fn inventory(&mut self, detail: Detail) -> Result<Rc<Inventory>, Failure> {
        match self.known() {
            Some(known) => Ok(known),
            None => self.relist(detail),
        }
    }

    /// Everything on the node, read now.
    ///
    /// # Errors
    ///
    /// NVML does not list the node; what was known stays.
    pub fn relist(&mut self, detail: Detail) -> Result<Rc<Inventory>, Failure> {
        let inventory = Rc::new(self.nvml()?.scan(detail)?);
        Ok(self.inventory.insert(inventory).clone())
    }

    /// Notes of these devices of the inventory which CPUs are near them.
    ///
    /// # Errors
    ///
    /// NVML does not list the node.
    pub fn note_cpus(
        &mut self,
        detail: Detail,
        wanted: impl Fn(&Device) -> bool,
    ) -> Result<Rc<Inventory>, Failure> {
        let mut inventory = (*self.inventory(detail)?).clone();
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
        match ask(self) {
            Ok(answer) => self.close().map(|()| answer),
            Err(failure) => {
                self.abandon();
                Err(failure)
            }
        }
    }

    /// Ends the session, if one is open; only then do its answers count.
    fn close(&mut self) -> Result<(), Failure> {
        self.session.take().map_or(Ok(()), Client::close)
    }

    fn abandon(&mut self) {
        if let Some(session) = self.session.take() {
            session.abandon();
        }
    }
}
