//! A request with the devices that its grant leaves to it, if there is a grant.

use super::grant::Grant;
use crate::ownership::{self, Decision, OwnershipQuestion};
use crate::pool::{Filter, Portion};
use crate::take::kind::TakeKind;
use getgpu_ask::Look;
use getgpu_linux::Range;
use getgpu_lock::{LockFile, layout};
use getgpu_model::{Detail, Device, Health, Inventory, Nearest, Share, UNITS, Units, Uuid};
use getgpu_settings::Policy;

/// What one call asks for, among the devices that it was granted.
#[derive(Clone, Debug)]
pub struct Granted {
    /// What this call was granted, as it was found.
    pub grant: Grant,
    /// Which devices it may have.
    pub filter: Filter,
    /// How many different devices.
    pub count: usize,
    /// More, up to so many, where they are free.
    pub most: usize,
    /// As many as the grant has, where there is one: the program divides them itself.
    pub count_all: bool,
    /// Which of the free ones.
    pub policy: Option<Policy>,
    /// Which of the free devices is the best one, by where they are; none: any.
    pub nearest: Option<Nearest>,
    /// For which user: our own, or the one for whom root reserves.
    pub user: u32,
    /// The process that asks for a lease (`Asked::as_lease_of`).
    pub(super) lease_of: Option<i32>,
    /// How a device is taken that this call does not own.
    pub(super) kind: TakeKind,
    /// The program is a client of an MPS daemon, which is the one program of its device.
    pub(super) mps: bool,
    /// A batch system granted the devices.
    pub(super) granted_by_batch: bool,
    /// The most devices that this user may have at a time.
    pub(super) cap: Option<u32>,
}

impl Granted {
    /// With the devices of the grant; none: there is no grant.
    pub(super) fn with_devices(mut self, devices: Option<Vec<Uuid>>) -> Self {
        // What a batch system granted alone is used: it drains its devices itself.
        let alone = devices.as_deref().filter(|_| self.granted_by_batch);
        self.filter.granted_alone = match alone {
            Some([only]) => Some(only.clone()),
            _ => None,
        };
        if self.count_all
            && let Some(devices) = &devices
        {
            self.count = devices.len().max(1);
            self.most = self.count;
        }
        self.filter.grant = devices;
        self
    }

    /// The same for this device of the grant alone.
    #[must_use]
    pub fn only(mut self, device: Uuid) -> Self {
        self.filter.grant = Some(vec![device]);
        self
    }

    /// The same for one of several ranks, which divide what they are given, also where that is a part
    /// of a device.
    #[must_use]
    pub const fn divided(mut self, share: Option<Share>) -> Self {
        self.filter.share = share;
        self.filter.share_by_default = false;
        self
    }

    /// The same for one of several ranks, of which none takes more than the others leave room for.
    #[must_use]
    pub const fn with_least(mut self) -> Self {
        self.most = self.count;
        self
    }

    /// The same with a wish which of the free devices it is.
    #[must_use]
    pub fn near(mut self, nearest: Nearest) -> Self {
        self.nearest = Some(nearest);
        self
    }

    /// The request for just these devices, which the grant names.
    pub fn named(&self, devices: Vec<Uuid>) -> Self {
        let mut named = Self {
            kind: TakeKind::Named,
            ..self.clone()
        };
        named.filter.grant = Some(devices);
        named
    }

    /// Without what narrows the choice (`Asked::by_index`).
    #[must_use]
    pub fn by_index(self) -> Self {
        Self {
            kind: TakeKind::Index,
            count: 1,
            most: 1,
            policy: None,
            filter: Filter {
                profiles: Vec::new(),
                models: Vec::new(),
                preferred: Vec::new(),
                gpus: Vec::new(),
                min_memory: None,
                share: None,
                ..self.filter
            },
            ..self
        }
    }

    /// What of the grant's devices this call owns already; without a grant, nothing.
    pub fn owned(&self, lock_file: &LockFile, inventory: Option<&Inventory>) -> Decision {
        let Some(grant) = self.filter.grant.as_deref() else {
            return Decision::Nothing;
        };
        let known = inventory.map_or(&[][..], |inventory| &inventory.devices);
        self.owned_of(lock_file, grant, known)
    }

    /// The same for devices that need not be known to exist. `known`: what is known of them, since
    /// a share by size is all of a part or not by the device's memory.
    pub fn owned_of(&self, lock_file: &LockFile, grant: &[Uuid], known: &[Device]) -> Decision {
        let memory = |uuid: &Uuid| known.iter().find(|device| device.uuid == *uuid)?.memory;
        let wants_all =
            |uuid: &Uuid, own: &Units| self.filter.portion(own, memory(uuid)) == Portion::All;
        let by_uuid = self.grant.visible.full_uuids().is_some();
        let question = OwnershipQuestion {
            grant,
            by_uuid,
            counts: self.count..=self.most,
            share: self.filter.share.is_some(),
            wants_all: &wants_all,
        };
        match ownership::of_grant(lock_file, &question, self.lease_of) {
            Decision::All(cover) if self.lease_of.is_some() => Decision::Inside(cover),
            decision => decision,
        }
    }

    /// How much is to be known of each device at least, although it decides nothing: an MPS
    /// client is told its part of the memory.
    pub fn least_detail(&self) -> Detail {
        if self.mps && self.filter.share.is_some() {
            Detail::Size
        } else {
            Detail::Place
        }
    }

    /// How much has to be known of the node: of several devices also whether a program
    /// can use them together.
    pub(crate) fn detail(&self) -> Detail {
        let least = self.filter.detail().max(self.least_detail());
        if self.most > 1 {
            least.max(Detail::Size)
        } else {
            least
        }
    }

    /// How much of the node this call has to know. Where the number of devices that a user may
    /// have is limited, those on other GPUs count too, and a grant may name any GPU.
    pub fn look(&self) -> Look<'_> {
        let is_anywhere = self.cap.is_none() && !self.grant.exists();
        let gpus = self.filter.gpu_indices().filter(|_| is_anywhere);
        Look {
            detail: self.detail(),
            gpus: gpus.unwrap_or_default(),
            filter: Some(&self.filter),
        }
    }

    /// Whether the program can start on a device in this state on which another program runs: in
    /// compute mode Exclusive_Process only as a client of the same MPS daemon.
    pub fn can_start_beside(&self, health: &Health) -> bool {
        self.mps || !health.is_exclusive()
    }

    /// The most units that the request can take of the devices of the node, all together.
    pub fn most_units(&self, inventory: &Inventory) -> i64 {
        let (devices, share) = (inventory.devices.iter(), self.filter.share);
        let units = devices.filter_map(|device| share?.units(device.memory));
        let each = units.max().unwrap_or(UNITS);
        each.saturating_mul(i64::try_from(self.count).unwrap_or(i64::MAX))
    }

    /// The queue of waiters with this request, by its numbers: the same for all calls that could take
    /// the same devices.
    pub fn queue(&self) -> Range {
        let hash = layout::fnv1a(self.text().as_bytes());
        layout::ticket_range((hash % u64::from(layout::QUEUES)) as u32)
    }

    /// The request as text: equal for requests that ask for the same.
    pub fn text(&self) -> String {
        let filter = &self.filter;
        let grant = filter.grant.iter().flatten().map(ToString::to_string);
        let grant = filter.grant.as_ref().map(|_| sorted(grant.collect()));
        let share = filter.share.map(|share| share.to_string());
        let models = lowercase(&filter.models);
        format!(
            "{:?} {} {} {} {} {} {}{}",
            filter.kind,
            lowercase(&filter.profiles),
            filter.min_memory.unwrap_or(0),
            share.as_deref().unwrap_or("1/1"),
            sorted(filter.gpus.iter().map(ToString::to_string).collect()),
            grant.as_deref().unwrap_or("all"),
            self.count,
            if models.is_empty() {
                models
            } else {
                format!(" {models}")
            },
        )
    }

    /// Whether just so many devices are asked for.
    pub const fn is_number(&self, devices: usize) -> bool {
        self.most == self.count && self.count == devices
    }

    /// The devices of the grant, if they are more than the `chosen` ones.
    pub fn larger_grant(&self, chosen: usize) -> Vec<Uuid> {
        let grant = self.filter.grant.as_ref();
        let larger = grant.filter(|grant| grant.len() > chosen);
        larger.cloned().unwrap_or_default()
    }

    /// The line for a device that is used although it is excluded.
    pub fn excluded_grant(&self, device: &Device) -> Option<String> {
        let is_used = self.granted_by_batch && self.filter.excluded.names(device);
        is_used.then(|| {
            let uuid = &device.uuid;
            format!(
                "{uuid}: excluded on this node, and used since the batch system granted it alone"
            )
        })
    }
}

fn lowercase(names: &[String]) -> String {
    sorted(names.iter().map(|name| name.to_ascii_lowercase()).collect())
}

fn sorted(mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.join(",")
}
