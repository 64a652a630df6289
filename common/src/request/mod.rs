//! From options, settings and environment to the pool that one call chooses from.
//! The same for getgpu and cudawrap, so that both mean the same devices.

mod grant;

use crate::batch::BatchGpus;
use crate::cpus::CpuSet;
use crate::error::{Failure, Kind};
use crate::ident::Uuid;
use crate::inventory::{Detail, Inventory};
use crate::lock::{Level, LockFile, UNITS, Units, layout};
use crate::nearest::Nearest;
use crate::ownership::{self, Cover, Decision, OwnershipQuestion};
use crate::pool::{Filter, Portion};
use crate::procfs::namespaces;
use crate::settings::allowed::List;
use crate::settings::{Environment, Policy, Settings, WithoutGrant, allowed};
use crate::share::Share;
use crate::visible::Visible;

/// What to do where CUDA_VISIBLE_DEVICES leaves too little.
pub const WITHOUT_GRANT: &str =
    "unset CUDA_VISIBLE_DEVICES, or use --ignore-grant, to choose among all devices";

/// What one call asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The grant as typed.
    pub visible: Visible,
    /// The pool without the grant, which NVML has to resolve.
    pub filter: Filter,
    /// How many different devices.
    pub count: usize,
    /// Which of the free ones.
    pub policy: Option<Policy>,
    /// What of the grant is ours already, once that was found out: then devices are
    /// chosen inside it.
    pub cover: Option<Cover>,
    /// Where a rank of a parallel program is best placed; none: anywhere.
    pub nearest: Option<Nearest>,
    /// All devices that the program is to see behind its own, where it is to see more
    /// than that.
    pub others: Vec<Uuid>,
    /// The devices that programs may run on, each with the CPUs near it, where a program
    /// is to be bound: those of a grant of several, else those that are allowed.
    pub neighbours: Vec<(Uuid, CpuSet)>,
    /// For which user: our own, or the one for whom root reserves.
    pub user: u32,
    /// The process that asks for a lease, and not for a reservation that its programs
    /// share: what it owns is divided among such leases, also where it wants all of it.
    pub lease_of: Option<i32>,
    /// A device's memory is wanted although it decides nothing: an MPS client is told its
    /// part of it.
    pub memory: bool,
    /// The most devices that this user may have at a time.
    cap: Option<u32>,
    /// The grant's text, for messages.
    value: String,
    /// What the batch system says of this job's GPUs, where CUDA_VISIBLE_DEVICES says
    /// nothing.
    batch_gpus: Option<BatchGpus>,
    /// The grant was found so: the variable itself is not set.
    unnamed_grant: bool,
    /// Inside a batch job unsetting CUDA_VISIBLE_DEVICES is no remedy.
    batch_job: bool,
}

/// What the environment says of a grant.
struct Inherited {
    /// CUDA_VISIBLE_DEVICES as it is set, for messages.
    value: String,
    visible: Visible,
    /// What the batch system says where that is not set.
    batch_gpus: Option<BatchGpus>,
}

impl Inherited {
    fn read(settings: &Settings, environment: &Environment, ignore_grant: bool) -> Self {
        let value = environment.visible.as_deref().filter(|_| !ignore_grant);
        let batch_gpus = environment
            .batch_gpus
            .clone()
            .filter(|_| environment.batch_job && value.is_none() && !ignore_grant);
        let outside_grant = settings.without_grant == WithoutGrant::None
            && environment.batch_job
            && batch_gpus.is_none();
        let visible = match Visible::parse(value) {
            Visible::Unset if outside_grant => Visible::Nothing,
            visible => visible,
        };
        let value = value.map(|value| value.to_string_lossy().into_owned());
        Self {
            value: value.unwrap_or_default(),
            visible,
            batch_gpus,
        }
    }
}

impl Request {
    /// Reads lists and grant. `ignore_grant`: as if CUDA_VISIBLE_DEVICES were not set.
    pub fn new(
        settings: &Settings,
        environment: &Environment,
        ignore_grant: bool,
    ) -> Result<Self, Failure> {
        let request = Self::listed(settings, environment, ignore_grant)?;
        if request.visible == Visible::Nothing && (ignore_grant || environment.visible.is_none()) {
            return Err(Failure::new(Kind::NoUsableGpu, "this job was given no GPU")
                .hint("ask the batch system for one, for example: srun --gres=gpu:1"));
        }
        Ok(request)
    }

    /// The same for a listing: to a job that was given no GPU the pool is empty, which is
    /// no failure.
    pub fn listed(
        settings: &Settings,
        environment: &Environment,
        ignore_grant: bool,
    ) -> Result<Self, Failure> {
        let Inherited {
            value,
            visible,
            batch_gpus,
        } = Inherited::read(settings, environment, ignore_grant);
        // What a batch system has granted is not cut by the list for interactive use, nor
        // counted.
        let named = matches!(visible, Visible::Entries(_)) || batch_gpus.is_some();
        let granted_by_batch = environment.batch_job && named;
        let counted = !granted_by_batch && !namespaces::is_host_root();
        let allowed = if granted_by_batch {
            None
        } else {
            allowed::allowed(settings)?
        };
        Ok(Self {
            filter: filter(settings, allowed),
            count: settings.count as usize,
            policy: settings.policy,
            cover: None,
            // What ranks share is known only when they have been counted.
            memory: settings.mps && (settings.share.is_some() || settings.share_auto),
            nearest: None,
            others: Vec::new(),
            neighbours: Vec::new(),
            user: nix::unistd::geteuid().as_raw(),
            lease_of: None,
            cap: settings.max_per_user.filter(|_| counted),
            value,
            visible,
            batch_gpus,
            unnamed_grant: false,
            batch_job: environment.batch_job,
        })
    }

    /// Whether a random slot may be drawn: one whole device, any of an open pool, and
    /// nothing to count first.
    pub fn may_draw(&self) -> bool {
        let random = self.policy.is_none_or(|policy| policy == Policy::Random);
        let anywhere = random && self.nearest.is_none();
        self.filter.is_open()
            && self.count == 1
            && anywhere
            && self.filter.share.is_none()
            && self.cap().is_none()
    }

    /// How much has to be known of the node: of several devices also whether a program
    /// can use them together.
    pub fn detail(&self) -> Detail {
        if self.count > 1 || self.memory {
            Detail::Size
        } else {
            self.filter.detail()
        }
    }

    /// Among whom devices are claimed: inside what this call owns, or everybody on the
    /// node.
    pub fn level(&self) -> Level {
        self.cover
            .as_ref()
            .map_or(Level::Outer, |cover| Level::Inner {
                reserved: cover.is_reservation(),
            })
    }

    /// The most units that the request can take of the devices of the node, all together.
    pub fn most_units(&self, inventory: &Inventory) -> i64 {
        let share = |share: Share| {
            inventory
                .devices
                .iter()
                .filter_map(|device| share.units(device.memory))
                .max()
        };
        let each = self.filter.share.and_then(share).unwrap_or(UNITS);
        each.saturating_mul(i64::try_from(self.count).unwrap_or(i64::MAX))
    }

    /// What of the grant's devices this call owns already; without a grant, nothing.
    pub fn owned(&self, lock_file: &LockFile, inventory: Option<&Inventory>) -> Decision {
        let Some(grant) = self.filter.grant.as_deref() else {
            return Decision::Nothing;
        };
        self.owned_of(lock_file, grant, inventory)
    }

    /// The same for devices that are not yet known to exist.
    pub fn owned_of(
        &self,
        lock_file: &LockFile,
        grant: &[Uuid],
        inventory: Option<&Inventory>,
    ) -> Decision {
        let memory = |uuid: &Uuid| {
            inventory?
                .devices
                .iter()
                .find(|device| device.uuid == *uuid)?
                .memory
        };
        let wants_all =
            |uuid: &Uuid, ours: &Units| self.filter.portion(ours, memory(uuid)) == Portion::All;
        let by_uuid = self.visible.full_uuids().is_some();
        let question = OwnershipQuestion {
            grant,
            by_uuid,
            count: self.count,
            wants_all: &wants_all,
        };
        match ownership::of_grant(lock_file, &question, self.lease_of) {
            Decision::All(cover) if self.lease_of.is_some() => Decision::Inside(cover),
            decision => decision,
        }
    }

    /// The most devices that this user may have at a time; what this call owns
    /// already is not counted again.
    pub fn cap(&self) -> Option<u32> {
        self.cap.filter(|_| self.cover.is_none())
    }

    /// Confirms that the enclosing reservation or lease survived while something was
    /// confirmed inside it.
    ///
    /// # Errors
    ///
    /// It has ended.
    pub fn confirm(&self, lock_file: &LockFile) -> Result<(), Failure> {
        self.cover
            .as_ref()
            .map_or(Ok(()), |cover| cover.confirm(lock_file))
    }

    /// The request without what narrows the choice: INDEX counts all devices of the type,
    /// and takes one of them whole.
    #[must_use]
    pub fn by_index(mut self) -> Self {
        self.filter.profiles.clear();
        self.filter.gpus.clear();
        (
            self.filter.min_memory,
            self.filter.share,
            self.count,
            self.policy,
        ) = (None, None, 1, None);
        self
    }

    /// The queue of waiters with this request: the same for everybody who could
    /// take the same devices.
    pub fn queue(&self) -> u32 {
        (layout::fnv1a(self.text().as_bytes()) % u64::from(layout::QUEUES)) as u32
    }

    /// The request as text: equal for requests that ask for the same.
    pub fn text(&self) -> String {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names.join(",")
        };
        let filter = &self.filter;
        let grant = filter
            .grant
            .as_ref()
            .map(|grant| sorted(grant.iter().map(ToString::to_string).collect()));
        format!(
            "{:?} {} {} {} {} {} {}",
            filter.kind,
            sorted(
                filter
                    .profiles
                    .iter()
                    .map(|profile| profile.to_ascii_lowercase())
                    .collect()
            ),
            filter.min_memory.unwrap_or(0),
            filter
                .share
                .map_or_else(|| "1/1".into(), |share| share.to_string()),
            sorted(filter.gpus.iter().map(ToString::to_string).collect()),
            grant.as_deref().unwrap_or("all"),
            self.count,
        )
    }

    /// The devices of the grant, if they are more than the `chosen` ones.
    pub fn larger_grant(&self, chosen: usize) -> Vec<Uuid> {
        let grant = self.filter.grant.as_ref();
        let larger = grant.filter(|grant| grant.len() > chosen);
        larger.cloned().unwrap_or_default()
    }

    /// Whether there is a grant, of whatever origin.
    pub fn is_granted(&self) -> bool {
        self.visible != Visible::Unset || self.batch_gpus.is_some()
    }

    /// Whether a program that is left alone sees just the devices of the grant, since
    /// CUDA_VISIBLE_DEVICES names them.
    pub fn is_named_by_variable(&self) -> bool {
        self.visible != Visible::Unset && !self.unnamed_grant
    }

    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Which devices the settings leave, of those that are `allowed`.
fn filter(settings: &Settings, allowed: Option<List>) -> Filter {
    Filter {
        kind: settings.kind,
        allowed,
        excluded: allowed::excluded(settings),
        grant: None,
        profiles: settings.profile.clone(),
        min_memory: settings.min_memory,
        share: settings.share,
        share_by_default: settings.share_by_default,
        gpus: settings.gpu.clone(),
        places: settings.places.clone(),
    }
}
