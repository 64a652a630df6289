//! From options, settings and environment to the pool that one call chooses from.
//! The same for getgpu and cudawrap, so that both mean the same devices.

mod batch_grant;
mod filter;
pub mod grant;

use crate::ownership::{self, Cover, Decision, OwnershipQuestion};
use crate::pool::{Filter, Portion};
use crate::take::kind::Kind as TakeKind;
use getgpu_ask::{Look, Node};
use getgpu_linux::procfs::namespaces;
use getgpu_lock::{Level, LockFile, layout};
use getgpu_model::{
    Detail, Device, Diag, Failure, Health, Inventory, Kind, Nearest, UNITS, Units, Uuid, Visible,
};
use getgpu_settings::{Environment, Policy, Settings, allowed};
use grant::{Grant, GrantUse};

use grant::WITHOUT_GRANT;

/// What one call asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What this call was granted, as it was found.
    pub grant: Grant,
    /// The pool without the grant, which NVML has to resolve.
    pub filter: Filter,
    /// How many different devices.
    pub count: usize,
    /// Which of the free ones.
    pub policy: Option<Policy>,
    /// What this call owns of the grant already, once that is known: then devices are
    /// chosen inside it.
    pub cover: Option<Cover>,
    /// Which of the free devices is the best one, by where they are; none: any.
    pub nearest: Option<Nearest>,
    /// For which user: our own, or the one for whom root reserves.
    pub user: u32,
    /// The process that asks for a lease, and not for a reservation that its programs
    /// share: what it owns is divided among such leases, also where it wants all of it.
    pub lease_of: Option<i32>,
    /// What is kept for a waiter may be taken: it is kept for this one, or that waiter is not
    /// given way to.
    pub takes_kept: bool,
    /// How a device is taken that this call does not own.
    kind: TakeKind,
    /// The program is a client of an MPS daemon, which is the one program of its device.
    mps: bool,
    /// A batch system granted the devices.
    granted_by_batch: bool,
    /// The most devices that this user may have at a time.
    cap: Option<u32>,
}

impl Request {
    /// Reads lists and grant.
    ///
    /// # Errors
    ///
    /// The job was given no GPU, or a list of devices cannot be read.
    pub fn new(
        settings: &Settings,
        environment: &Environment,
        grant_use: GrantUse,
    ) -> Result<Self, Failure> {
        let request = Self::listed(settings, environment, grant_use)?;
        let is_said = grant_use == GrantUse::Honor && environment.visible.is_some();
        if request.grant.visible == Visible::Nothing && !is_said {
            return Err(
                if environment.allocation_shell && environment.nodes_listed {
                    Failure::new(
                        Kind::NoGrant,
                        "this shell of an allocation has no GPUs: the job's tasks have them",
                    )
                    .hint("start the program as a task: srun cudawrap -- ./app")
                } else {
                    Failure::new(Kind::NoGrant, "this job was given no GPU")
                        .hint("ask the batch system for one, for example: srun --gres=gpu:1")
                },
            );
        }
        Ok(request)
    }

    /// The same for a wrapped program, to whose user a hint names variables instead of options.
    #[must_use]
    pub fn of_link(mut self) -> Self {
        self.grant.of_link = true;
        self.filter.grant_remedy = self.grant.without();
        self
    }

    /// The same for a listing: to a job that was given no GPU the pool is empty, which is
    /// no failure.
    ///
    /// # Errors
    ///
    /// A list of devices cannot be read.
    pub fn listed(
        settings: &Settings,
        environment: &Environment,
        grant_use: GrantUse,
    ) -> Result<Self, Failure> {
        let grant = Grant::read(settings, environment, grant_use);
        // What a batch system has granted is not cut by the list for interactive use, nor
        // counted.
        let granted_by_batch = environment.batch_job && grant.names_devices();
        let counted = !granted_by_batch && !namespaces::is_host_root();
        let allowed = if granted_by_batch {
            None
        } else {
            allowed::allowed(settings)?
        };
        Ok(Self {
            filter: Filter {
                grant_remedy: grant.without(),
                ..filter::of_settings(settings, allowed)
            },
            count: settings.count as usize,
            policy: settings.policy,
            cover: None,
            mps: settings.mps,
            nearest: None,
            user: nix::unistd::geteuid().as_raw(),
            lease_of: None,
            takes_kept: false,
            kind: TakeKind::Chosen,
            granted_by_batch,
            cap: settings.max_per_user.filter(|_| counted),
            grant,
        })
    }

    /// Tells of entries of `excluded` that drain nothing, since they name no device of any
    /// node.
    pub fn warn_of_excluded(&self, diag: &Diag) {
        for entry in &self.filter.excluded.bad {
            diag.warn(&format!(
                "excluded list: `{entry}` is not the UUID of a device and excludes nothing"
            ));
        }
    }

    /// Whether a random slot may be drawn: one whole device, any of an open pool, and
    /// nothing to count first.
    pub(crate) fn can_pick_randomly(&self) -> bool {
        let random = self.policy.is_none_or(|policy| policy == Policy::Random);
        let anywhere = random && self.nearest.is_none();
        self.filter.is_open()
            && self.count == 1
            && anywhere
            && self.filter.share.is_none()
            && self.cap().is_none()
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
        if self.count > 1 {
            least.max(Detail::Size)
        } else {
            least
        }
    }

    /// How much of the node this call has to know. Where the number of devices that a user may
    /// have is limited, those on other GPUs count too, and a grant may name any GPU.
    pub fn look(&self) -> Look<'_> {
        let is_anywhere = self.cap.is_none() && !self.grant.exists();
        Look {
            detail: self.detail(),
            gpus: self
                .filter
                .gpu_indices()
                .filter(|_| is_anywhere)
                .unwrap_or_default(),
            filter: Some(&self.filter),
        }
    }

    /// Among whom devices are claimed: inside what this call owns, or all users on the
    /// node.
    pub fn level(&self) -> Level {
        self.cover
            .as_ref()
            .map_or(Level::Outer, |cover| Level::Inner {
                reserved: cover.is_reservation(),
            })
    }

    /// Whether the program can start on a device in this state on which another program runs: in
    /// compute mode Exclusive_Process only as a client of the same MPS daemon.
    pub fn can_start_beside(&self, health: &Health) -> bool {
        self.mps || !health.is_exclusive()
    }

    /// What of a device this call may take, which is what it owns there already, else all of
    /// it; and how much of that it wants.
    pub fn portion(&self, device: &Device) -> (Units, Portion) {
        let cover = self.cover.as_ref();
        let ours = cover.and_then(|cover| cover.units(&device.uuid)).cloned();
        let ours = ours.unwrap_or_else(Units::whole);
        let portion = self.filter.portion(&ours, device.memory);
        (ours, portion)
    }

    /// The most units that the request can take of the devices of the node, all together.
    pub fn most_units(&self, inventory: &Inventory) -> i64 {
        let devices = inventory.devices.iter();
        let share = self.filter.share;
        let each = devices
            .filter_map(|device| share?.units(device.memory))
            .max();
        let each = each.unwrap_or(UNITS);
        each.saturating_mul(i64::try_from(self.count).unwrap_or(i64::MAX))
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
            |uuid: &Uuid, ours: &Units| self.filter.portion(ours, memory(uuid)) == Portion::All;
        let by_uuid = self.grant.visible.full_uuids().is_some();
        let question = OwnershipQuestion {
            grant,
            by_uuid,
            count: self.count,
            share: self.filter.share.is_some(),
            wants_all: &wants_all,
        };
        match ownership::of_grant(lock_file, &question, self.lease_of) {
            Decision::All(cover) if self.lease_of.is_some() => Decision::Inside(cover),
            decision => decision,
        }
    }

    /// The most devices that this user may have at a time; what this call owns
    /// already is not counted again.
    pub(crate) fn cap(&self) -> Option<u32> {
        let is_counted = self.cover.is_none() && self.kind.rules().is_counted;
        self.cap.filter(|_| is_counted)
    }

    /// Whether what is kept for a waiter is left alone.
    pub(crate) fn leaves_kept(&self) -> bool {
        self.kind.rules().leaves_kept && !self.takes_kept
    }

    /// The request for just these devices, which the grant names, inside of `cover`.
    pub fn named(&self, devices: Vec<Uuid>, cover: Option<Cover>) -> Self {
        let mut named = Self {
            kind: TakeKind::Named,
            cover,
            ..self.clone()
        };
        named.filter.grant = Some(devices);
        named
    }

    /// The request without what narrows the choice: INDEX counts all devices of the type,
    /// and takes one of them whole.
    #[must_use]
    pub fn by_index(mut self) -> Self {
        self.kind = TakeKind::Index;
        self.filter.profiles.clear();
        self.filter.models.clear();
        self.filter.gpus.clear();
        (
            self.filter.min_memory,
            self.filter.share,
            self.count,
            self.policy,
        ) = (None, None, 1, None);
        self
    }

    /// The queue of waiters with this request: the same for all calls that could take the
    /// same devices.
    pub fn queue(&self) -> u32 {
        (layout::fnv1a(self.text().as_bytes()) % u64::from(layout::QUEUES)) as u32
    }

    /// The request as text: equal for requests that ask for the same.
    pub fn text(&self) -> String {
        let filter = &self.filter;
        let grant = filter
            .grant
            .as_ref()
            .map(|grant| sorted(grant.iter().map(ToString::to_string).collect()));
        let models = lowercase(&filter.models);
        format!(
            "{:?} {} {} {} {} {} {}{}",
            filter.kind,
            lowercase(&filter.profiles),
            filter.min_memory.unwrap_or(0),
            filter
                .share
                .map_or_else(|| "1/1".into(), |share| share.to_string()),
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

    /// The devices of the grant, if they are more than the `chosen` ones.
    pub fn larger_grant(&self, chosen: usize) -> Vec<Uuid> {
        let grant = self.filter.grant.as_ref();
        let larger = grant.filter(|grant| grant.len() > chosen);
        larger.cloned().unwrap_or_default()
    }

    /// Puts the devices of the grant into the filter; they must exist. Without a grant
    /// nothing is asked.
    ///
    /// # Errors
    ///
    /// The grant names nothing here, or NVML does not list the node.
    pub fn resolve_grant(&mut self, node: &mut Node<'_>) -> Result<(), Failure> {
        self.filter.grant = self.grant.resolve(node)?;
        self.note_granted_alone();
        if self.filter.grant.is_some() {
            // Of other devices than those of the grant no more is asked than their names.
            node.inventory(self.look())?;
        }
        Ok(())
    }

    /// What a batch system granted alone is used: it drains its devices itself.
    fn note_granted_alone(&mut self) {
        let grant = self
            .filter
            .grant
            .as_deref()
            .filter(|_| self.granted_by_batch);
        self.filter.granted_alone = match grant {
            Some([only]) => Some(only.clone()),
            _ => None,
        };
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

    /// The same for a listing, where a grant that names nothing is an empty pool and not
    /// a failure.
    pub fn show_grant(&mut self, inventory: &Inventory) {
        self.filter.grant = self.grant.shown(inventory);
        self.note_granted_alone();
    }
}

fn lowercase(names: &[String]) -> String {
    sorted(names.iter().map(|name| name.to_ascii_lowercase()).collect())
}

fn sorted(mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.join(",")
}
