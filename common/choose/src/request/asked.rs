//! What was typed and what is in force, as one value: the pool without the grant, which NVML may have to resolve.

use super::grant::{Grant, GrantUse};
use super::granted::Granted;
use crate::causes::GrantCause;
use crate::ownership::Decision;
use crate::pool::Filter;
use crate::take::kind::TakeKind;
use getgpu_ask::{Look, Node};
use getgpu_linux::procfs::namespaces;
use getgpu_lock::LockFile;
use getgpu_model::{Detail, Device, Diag, Failure, Inventory, Uuid, Visible};
use getgpu_settings::{Environment, Settings, allowed};

/// What one call asks for, before its grant is known as devices.
#[derive(Clone, Debug)]
pub struct Asked(Granted);

impl Asked {
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
        let asked = Self::listed(settings, environment, grant_use)?;
        if asked.grant().lacks_part {
            let part = settings.slurm.shares.first();
            let part = part.map_or("gpushare4", |part| part.name.as_str());
            return Err(GrantCause::NoPartOfGpu { part }.into());
        }
        let is_said = grant_use == GrantUse::Honor && environment.visible.is_some();
        if asked.grant().visible == Visible::Nothing && !is_said {
            return Err(
                if environment.allocation_shell && environment.nodes_listed {
                    GrantCause::ShellWithoutGpus.into()
                } else {
                    GrantCause::NoGpuGiven.into()
                },
            );
        }
        Ok(asked)
    }

    /// The same for a wrapped program, to whose user a hint names variables instead of options.
    #[must_use]
    pub fn of_link(mut self) -> Self {
        self.0.grant = self.0.grant.of_link();
        self.0.filter.grant_remedy = self.0.grant.without();
        self
    }

    /// The same for a user for whom root reserves.
    #[must_use]
    pub const fn for_user(mut self, user: u32) -> Self {
        self.0.user = user;
        self
    }

    /// The same for a lease of this process, and not for a reservation that its programs share: what
    /// it owns is divided among such leases, also where it wants all of it.
    #[must_use]
    pub const fn as_lease_of(mut self, pid: Option<i32>) -> Self {
        self.0.lease_of = pid;
        self
    }

    /// The same without what narrows the choice: INDEX counts all devices of the type, and takes one
    /// of them whole.
    #[must_use]
    pub fn by_index(self) -> Self {
        Self(self.0.by_index())
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
        let granted_by_batch = grant.is_by_batch();
        let counted = !granted_by_batch && !namespaces::is_host_root();
        let allowed = match granted_by_batch {
            true => None,
            false => allowed::allowed(settings)?,
        };
        Ok(Self(Granted {
            filter: Filter {
                kind: settings.kind,
                allowed,
                excluded: allowed::excluded(settings),
                granted_alone: None,
                grant: None,
                grant_remedy: grant.without(),
                profiles: settings.profile.clone(),
                models: settings.model.clone(),
                preferred: settings.prefer_model.clone(),
                only_preferred: false,
                min_memory: settings.min_memory,
                share: settings.share,
                share_by_default: settings.share_by_default,
                gpus: settings.gpu.clone(),
                places: settings.places.clone(),
            },
            count: settings.count as usize,
            most: settings.count_most as usize,
            count_all: settings.count_all,
            policy: settings.policy,
            mps: settings.mps,
            nearest: None,
            user: nix::unistd::geteuid().as_raw(),
            lease_of: None,
            kind: TakeKind::Chosen,
            granted_by_batch,
            cap: settings.max_per_user.filter(|_| counted),
            grant,
        }))
    }

    /// The request for devices that the grant names by their full UUIDs, of which nothing has to be
    /// asked.
    pub fn by_name(self) -> Granted {
        self.0
    }

    /// With the devices of the grant, which must exist. Without a grant nothing is asked.
    ///
    /// # Errors
    ///
    /// The grant names nothing here, or NVML does not list the node.
    pub fn granted(self, node: &mut Node<'_>) -> Result<Granted, Failure> {
        let mut granted = self.0;
        let devices = granted.grant.resolve(node)?;
        let granted = granted.with_devices(devices);
        if granted.filter.grant.is_some() {
            // Of other devices than those of the grant no more is asked than their names.
            node.inventory(granted.look())?;
        }
        Ok(granted)
    }

    /// The same for a listing, where a grant that names nothing is an empty pool and not a failure.
    pub fn shown(self, inventory: &Inventory) -> Granted {
        let mut granted = self.0;
        let devices = granted.grant.shown(inventory);
        granted.with_devices(devices)
    }

    /// Tells of entries of `excluded` that drain nothing, since they name no device of any
    /// node.
    pub fn warn_of_excluded(&self, diag: &Diag) {
        for entry in &self.0.filter.excluded.bad {
            diag.warn(&format!(
                "excluded list: `{entry}` is not the UUID of a device and excludes nothing"
            ));
        }
    }

    /// What this call was granted, as it was found.
    pub const fn grant(&self) -> &Grant {
        &self.0.grant
    }

    /// The pool without the grant.
    pub const fn filter(&self) -> &Filter {
        &self.0.filter
    }

    /// How many different devices.
    pub const fn count(&self) -> usize {
        self.0.count
    }

    /// For which user.
    pub const fn user(&self) -> u32 {
        self.0.user
    }

    /// How much is to be known of each device at least.
    pub fn least_detail(&self) -> Detail {
        self.0.least_detail()
    }

    /// How much of the node this call has to know.
    pub fn look(&self) -> Look<'_> {
        self.0.look()
    }

    /// The request as text, for a tag: before the grant is known, so that it is the same at each look.
    pub fn tag_text(&self) -> String {
        let more = (self.0.most > self.0.count).then(|| format!("..{}", self.0.most));
        self.0.text() + &more.unwrap_or_default()
    }

    /// What this call owns of devices that need not be known to exist (`Granted::owned_of`).
    pub fn owned_of(&self, lock_file: &LockFile, grant: &[Uuid], known: &[Device]) -> Decision {
        self.0.owned_of(lock_file, grant, known)
    }
}
