//! From options, settings and environment to the pool that one call chooses from.
//! The same for getgpu and cudawrap, so that both mean the same devices.

use crate::batch::BatchGpus;
use crate::cpus::CpuSet;
use crate::error::{Failure, Kind};
use crate::ident::{Selector, Uuid};
use crate::inventory::{Detail, Device, Inventory};
use crate::lock::{Level, LockFile, UNITS, Units, layout};
use crate::nearest::Nearest;
use crate::nvml_client::{Client, Worker};
use crate::ownership::{self, Cover, Decision, OwnershipQuestion};
use crate::pool::{Filter, Portion};
use crate::procfs::namespaces;
use crate::settings::allowed::List;
use crate::settings::{Environment, Policy, Settings, ShareUsers, WithoutGrant, allowed};
use crate::share::Share;
use crate::visible::{self, Visible};

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
    /// A device is shared by one user's programs only.
    pub same_user: bool,
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
    /// Inside a batch job unsetting CUDA_VISIBLE_DEVICES is no remedy.
    batch_job: bool,
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
            same_user: settings.share_users == ShareUsers::Same,
            nearest: None,
            others: Vec::new(),
            neighbours: Vec::new(),
            user: nix::unistd::geteuid().as_raw(),
            cap: settings.max_per_user.filter(|_| counted),
            value: value
                .map(|v| v.to_string_lossy().into_owned())
                .unwrap_or_default(),
            visible,
            batch_gpus,
            batch_job: environment.batch_job,
        })
    }

    /// The devices that the grant names must exist; without a grant nothing is asked.
    pub fn resolve_grant<W: Worker>(
        &mut self,
        client: &mut Client<W>,
    ) -> Result<Option<Inventory>, Failure> {
        if let (Visible::Unset, Some(gpus)) = (&self.visible, self.batch_gpus.take()) {
            return self.resolve_batch_gpus(client, &gpus).map(Some);
        }
        let entries = match &self.visible {
            Visible::Unset => return Ok(None),
            Visible::Nothing => return Err(self.empty_grant()),
            Visible::Entries(entries) => entries,
        };
        let inventory = client.scan(self.detail())?;
        let named = visible::resolve(entries, &inventory);
        if named.is_empty() {
            let any_mig = !self.batch_job && inventory.gpus.iter().any(|gpu| gpu.mig);
            return Err(index_of_mig(entries, any_mig).unwrap_or_else(|| self.vanished()));
        }
        self.filter.grant = Some(named.into_iter().map(|device| device.uuid).collect());
        Ok(Some(inventory))
    }

    /// The devices of a job that has GPUs and no CUDA_VISIBLE_DEVICES: what its cgroup
    /// leaves, else those that the batch system names.
    fn resolve_batch_gpus<W: Worker>(
        &mut self,
        client: &mut Client<W>,
        gpus: &BatchGpus,
    ) -> Result<Inventory, Failure> {
        let inventory = client.scan(self.detail())?;
        let usable = inventory.gpus.iter().filter(|gpu| gpu.usable).count();
        let all = usable < inventory.gpus.len() || gpus.count == Some(usable);
        let named = |device: &&Device| device.usable && (all || gpus.numbers.contains(&device.gpu));
        let granted: Vec<Uuid> = inventory
            .devices
            .iter()
            .filter(named)
            .map(|device| device.uuid.clone())
            .collect();
        if granted.is_empty() {
            let text = "this job has GPUs, but CUDA_VISIBLE_DEVICES is not set and the batch system does not name them";
            return Err(Failure::new(Kind::NoDevice, text).hint(
                "run the program by srun without --gpu-bind=none, or set CUDA_VISIBLE_DEVICES to the job's GPUs",
            ));
        }
        self.value = granted
            .iter()
            .map(Uuid::as_str)
            .collect::<Vec<_>>()
            .join(",");
        self.visible = Visible::Entries(granted.iter().cloned().map(Selector::Full).collect());
        self.filter.grant = Some(granted);
        Ok(inventory)
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

    /// Among whom devices are claimed: inside what is ours, or everybody on the node.
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

    /// What of the grant's devices is ours already. Without a grant that is a question of
    /// reuse, which getgpu alone asks.
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
        let wish = OwnershipQuestion {
            grant: Some(grant),
            by_uuid,
            count: self.count,
            wants_all: &wants_all,
            reusable: &|_, _| false,
        };
        ownership::of_grant(lock_file, &wish)
    }

    /// The most devices that this user may have at a time; of what is ours already
    /// nothing is counted again.
    pub fn cap(&self) -> Option<u32> {
        self.cap.filter(|_| self.cover.is_none())
    }

    /// Confirms, after something was settled inside what is ours, that the enclosing
    /// reservation or lease survived.
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
        (layout::fnv1a(self.text().as_bytes()) % u64::from(layout::LINES)) as u32
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

    /// The failure of a variable that names no device: on purpose, or since CUDA does not
    /// know its first entry.
    pub fn empty_grant(&self) -> Failure {
        let first = self.value.split(',').next().unwrap_or_default().trim();
        if !(first.is_empty() || first.starts_with('-') || first.eq_ignore_ascii_case("NoDevFiles"))
        {
            return self.vanished();
        }
        let shown = if self.value.is_empty() {
            "empty"
        } else {
            self.value.as_str()
        };
        Failure::new(
            Kind::NoDevice,
            format!("CUDA_VISIBLE_DEVICES is {shown}: it names no device"),
        )
        .hint(self.remedy(WITHOUT_GRANT))
    }

    /// A grant that no longer names anything here.
    fn vanished(&self) -> Failure {
        let shown: String = self.value.chars().take(60).collect();
        let dots = if shown.len() < self.value.len() {
            ".."
        } else {
            ""
        };
        Failure::new(
            Kind::NoDevice,
            format!("CUDA_VISIBLE_DEVICES={shown}{dots}: no such device on this node"),
        )
        .hint(self.remedy("re-partitioned? unset CUDA_VISIBLE_DEVICES and ask again"))
    }

    /// What a person can do about the grant: inside a job it is the batch system's, and
    /// to unset it takes what others were granted.
    pub fn remedy(&self, elsewhere: &'static str) -> &'static str {
        if self.batch_job {
            "the batch system set CUDA_VISIBLE_DEVICES for this job: ask it for other GPUs"
        } else {
            elsewhere
        }
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

/// The failure for an index where MIG devices are: CUDA knows no index of them.
fn index_of_mig(entries: &[Selector], any_mig: bool) -> Option<Failure> {
    let Some(Selector::Index(index)) = entries.first().filter(|_| any_mig) else {
        return None;
    };
    let text = format!(
        "CUDA_VISIBLE_DEVICES={index}: no such device on this node: {index} is a GPU index, and MIG devices go by UUID"
    );
    let hint = format!("CUDA_VISIBLE_DEVICES=$(getgpu --ignore-grant {index}) ./app");
    Some(Failure::new(Kind::NoDevice, text).hint(hint))
}
