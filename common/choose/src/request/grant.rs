//! A grant: the devices that CUDA_VISIBLE_DEVICES leaves to a call, or that a batch system
//! gave its job, resolved against the node. One that names nothing here is a failure with a
//! remedy.

use std::cell::LazyCell;

use super::batch_grant;
use super::job_part::{self, PartOfJob};
use crate::causes::{GrantCause, VanishedRemedy};
use getgpu_ask::{Node, gpu_bus};
use getgpu_model::{BatchGpus, Detail, Diag, Failure, Inventory, Selector, Uuid, Visible, visible};
use getgpu_settings::allowed::{self, DeviceList};
use getgpu_settings::{Environment, Settings};

/// What to do where CUDA_VISIBLE_DEVICES leaves too little.
const WITHOUT_GRANT: &str =
    "unset CUDA_VISIBLE_DEVICES, or use --ignore-grant, to choose among all devices";
/// The same for a wrapped program, whose options are its own.
const WITHOUT_GRANT_OF_LINK: &str =
    "unset CUDA_VISIBLE_DEVICES, or set CUDAWRAP_IGNORE_GRANT=1, to choose among all devices";

/// What a person can do where a task may not open what is named to it, or does not see it.
pub const GIVEN_ANOTHER: &str = "in a job CUDA_VISIBLE_DEVICES is the batch system's to set: ask it for other GPUs or, if Slurm named another task's, try --gpu-bind=none";

/// What a call makes of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantUse {
    /// It chooses among these devices.
    Honor,
    /// It chooses as if nothing had been granted.
    Ignore,
}

impl GrantUse {
    /// By whether `--ignore-grant`, or the variable that stands for it, was set.
    pub fn of_option(is_ignored: bool) -> Self {
        if is_ignored {
            Self::Ignore
        } else {
            Self::Honor
        }
    }
}

/// What a call was granted, as it was found.
#[derive(Clone, Debug)]
pub struct Grant {
    /// As typed.
    pub visible: Visible,
    /// The text, for messages.
    value: String,
    /// What the batch system says of this job's GPUs, where CUDA_VISIBLE_DEVICES says
    /// nothing.
    batch_gpus: Option<BatchGpus>,
    /// The grant was found so: the variable itself is not set, or names other devices.
    is_unnamed: bool,
    /// A line about a variable that named other devices.
    correction: Option<String>,
    /// CUDA numbers GPUs by their PCI addresses.
    order_by_pci: bool,
    /// An index in it is another GPU for a program than for NVML, so that the variable has to name
    /// the devices by UUID.
    is_reordered: bool,
    /// Why it is not certain which GPU an index of it means, if it is not.
    unclear: Option<String>,
    /// Inside a batch job unsetting CUDA_VISIBLE_DEVICES is no remedy.
    batch_job: bool,
    /// The call is a wrapped program's, which has variables for options.
    of_link: bool,
    /// Devices are shared by parts here, and this job has none.
    pub(super) lacks_part: bool,
    /// The site's list, inside a batch job: which devices the batch system does not manage.
    site: Option<DeviceList>,
}

impl Grant {
    /// What the environment says.
    pub fn read(settings: &Settings, environment: &Environment, grant_use: GrantUse) -> Self {
        let is_honored = grant_use == GrantUse::Honor;
        let part = job_part::find(settings, environment);
        let value = environment.visible.as_deref().filter(|_| is_honored);
        let batch_gpus = environment
            .batch_gpus
            .clone()
            .filter(|_| environment.batch_job && value.is_none() && is_honored);
        let outside_grant =
            settings.hides_ungranted() && environment.batch_job && batch_gpus.is_none();
        let visible = match Visible::parse(value) {
            Visible::Unset if outside_grant => Visible::Nothing,
            visible => visible,
        };
        let value = value.map(|value| value.to_string_lossy().into_owned());
        let list = environment
            .batch_job
            .then(|| allowed::allowed(settings).ok());
        let mut grant = Self {
            value: value.unwrap_or_default(),
            visible,
            batch_gpus,
            is_unnamed: false,
            correction: None,
            order_by_pci: environment.order_by_pci,
            is_reordered: false,
            unclear: None,
            batch_job: environment.batch_job,
            of_link: false,
            // Without it nothing is certain, and a grant that is named needs no list.
            site: list.flatten().flatten(),
            lacks_part: part == Some(PartOfJob::Missing),
        };
        match part {
            Some(PartOfJob::Reserved(devices)) => {
                let named = grant.value.clone();
                grant.name_instead(devices);
                grant.is_unnamed = named != grant.value;
            }
            Some(PartOfJob::Missing) => grant.visible = Visible::Nothing,
            None => return grant,
        }
        (grant.batch_job, grant.batch_gpus) = (true, None);
        grant
    }

    /// The same for a wrapped program, whose user a hint names variables to.
    pub(super) const fn of_link(mut self) -> Self {
        self.of_link = true;
        self
    }

    /// The devices; none where there is no grant, and then nothing is asked.
    ///
    /// # Errors
    ///
    /// None of them exists, or NVML does not list the node.
    pub fn resolve(&mut self, node: &mut Node<'_>) -> Result<Option<Vec<Uuid>>, Failure> {
        match &self.visible {
            Visible::Unset if self.batch_gpus.is_none() => return Ok(None),
            Visible::Nothing => return Err(self.empty()),
            _ => {}
        }
        let inventory = node.inventory(Detail::Place)?;
        let of_batch = self.batch_gpus.is_some();
        let is_index = |entry: &Selector| matches!(entry, Selector::Index(_));
        if let Visible::Entries(entries) = &self.visible
            && !self.order_by_pci
            && inventory.gpus.len() > 1
            && entries.iter().any(is_index)
        {
            let named = node.inventory(Detail::Name)?;
            self.is_reordered = visible::counts_in_another_order(entries, &named.gpus);
        }
        let granted = self.shown(&inventory);
        if let Some(unclear) = self.unclear_index() {
            return Err(unclear);
        }
        if granted.as_ref().is_some_and(|granted| !granted.is_empty()) {
            return Ok(granted);
        }
        if of_batch {
            return Err(GrantCause::UnknownGpusOfJob.into());
        }
        let index = match &self.visible {
            Visible::Entries(entries) => {
                self.without_instances(entries, &inventory).or_else(|| {
                    let elsewhere = !self.batch_job;
                    elsewhere.then(|| index_of_mig(entries, &inventory))?
                })
            }
            _ => None,
        };
        Err(index.unwrap_or_else(|| self.vanished(&inventory)))
    }

    /// The devices, as far as they exist. Those of a job that has GPUs and no
    /// CUDA_VISIBLE_DEVICES (`batch_grant::granted`) are from now on as if
    /// CUDA_VISIBLE_DEVICES named them.
    pub(crate) fn shown(&mut self, inventory: &Inventory) -> Option<Vec<Uuid>> {
        if let (Visible::Unset, Some(gpus)) = (&self.visible, self.batch_gpus.take()) {
            let granted = batch_grant::granted(&gpus, inventory, self.site.as_ref());
            let granted = granted.unwrap_or_default();
            return Some(self.name_instead(granted));
        }
        match &self.visible {
            Visible::Unset => None,
            Visible::Nothing => Some(Vec::new()),
            Visible::Entries(entries) => {
                // Looked at only where a GPU is silent.
                let certain =
                    LazyCell::new(|| self.order_by_pci && gpu_bus::has_all(inventory.gpus.len()));
                let named = visible::resolve(entries, inventory, &|| *certain);
                self.unclear = named.unclear;
                // Then it says only how many there are.
                let says_how_many = self.batch_job && named.is_closed;
                let open = says_how_many.then(|| {
                    batch_grant::open_instead(entries.len(), inventory, self.site.as_ref())
                });
                if let Some(open) = open.flatten() {
                    self.correction = Some(format!(
                        "CUDA_VISIBLE_DEVICES={}: this task may not open that; it was given {}",
                        self.value,
                        Uuid::join(&open)
                    ));
                    return Some(self.name_instead(open));
                }
                Some(named.devices.into_iter().map(|d| d.uuid).collect())
            }
        }
    }

    /// From now on the grant is as if CUDA_VISIBLE_DEVICES named these devices.
    fn name_instead(&mut self, devices: Vec<Uuid>) -> Vec<Uuid> {
        self.value = Uuid::join(&devices);
        self.visible = Visible::Entries(devices.iter().cloned().map(Selector::Full).collect());
        self.is_unnamed = true;
        devices
    }

    /// Whether this call runs in a batch job, whose tasks may each be given other devices
    /// than the variable names.
    pub const fn is_in_batch_job(&self) -> bool {
        self.batch_job
    }

    /// Says that the variable named what the job was not given.
    pub fn tell_correction(&self, diag: &Diag) {
        if let Some(line) = &self.correction {
            diag.warn(line);
        }
    }

    /// The failure of an index of which it is not certain which GPU it means, once the grant
    /// was resolved.
    pub fn unclear_index(&self) -> Option<Failure> {
        let (value, why) = (&self.value, self.unclear.as_ref()?);
        let remedy = self
            .remedy("a UUID is certain: CUDA_VISIBLE_DEVICES=UUID, with a UUID of getgpu --list");
        Some(GrantCause::UnclearIndex { value, why, remedy }.into())
    }

    /// Whether there is a grant, of whatever origin.
    pub fn exists(&self) -> bool {
        self.visible != Visible::Unset || self.batch_gpus.is_some()
    }

    /// Whether a batch system has granted devices.
    pub(super) fn is_by_batch(&self) -> bool {
        let names_devices = matches!(self.visible, Visible::Entries(_));
        self.batch_job && (names_devices || self.batch_gpus.is_some())
    }

    /// Whether a program that is left alone sees just the devices of the grant, since
    /// CUDA_VISIBLE_DEVICES names them.
    pub fn is_named_by_variable(&self) -> bool {
        self.visible != Visible::Unset && !self.is_unnamed && !self.is_reordered
    }

    /// Whether a GPU in MIG mode is among what is named: then it is one of the GPU's MIG
    /// devices that a program is given, and the variable has to say which.
    pub fn names_gpu_in_mig_mode(&self, inventory: &Inventory) -> bool {
        let Visible::Entries(entries) = &self.visible else {
            return false;
        };
        visible::names_gpu_in_mig_mode(entries, inventory)
    }

    /// Its text.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The failure of a variable that names no device: on purpose, or since CUDA does not
    /// know its first entry.
    pub fn empty(&self) -> Failure {
        if !visible::hides_all(&self.value) {
            return self.vanished(&Inventory::default());
        }
        let shown = match self.value.as_str() {
            "" => "empty",
            value => value,
        };
        let remedy = self.without();
        GrantCause::NamesNothing { shown, remedy }.into()
    }

    /// A grant that no longer names anything here.
    fn vanished(&self, inventory: &Inventory) -> Failure {
        let value = &self.value;
        if let Some(silent) = inventory.nameless().next() {
            return GrantCause::NoSuchAnswers { value, silent }.into();
        }
        if value.starts_with("$(") || value.starts_with('`') {
            return GrantCause::NotExpanded { value }.into();
        }
        let mut shown: String = value.chars().take(60).collect();
        if shown.len() < value.len() {
            shown += "..";
        }
        let remedy = match value.as_str() {
            _ if self.batch_job => VanishedRemedy::InJob,
            "getgpu" => VanishedRemedy::NoCall,
            _ => VanishedRemedy::AskAgain,
        };
        GrantCause::NoSuchDevice { shown, remedy }.into()
    }

    /// The failure of a name of a GPU that is in MIG mode and has no MIG device.
    fn without_instances(&self, entries: &[Selector], inventory: &Inventory) -> Option<Failure> {
        let mut gpus = inventory.gpus.iter();
        let gpu = match entries.first()? {
            Selector::Index(index) => gpus
                .filter(|gpu| gpu.usable)
                .nth(usize::try_from(*index).ok()?),
            name => gpus.find(|gpu| gpu.uuid.as_ref().is_some_and(|uuid| name.names(uuid))),
        }?;
        let mut devices = inventory.devices.iter();
        if !gpu.mig || devices.any(|device| device.gpu == gpu.index) {
            return None;
        }
        let (value, gpu) = (&self.value, gpu.index);
        let remedy = self.remedy("unset CUDA_VISIBLE_DEVICES, or have an admin make MIG devices there (nvidia-smi mig -cgi ... -C)");
        Some(GrantCause::NoInstances { value, gpu, remedy }.into())
    }

    /// What a hint adds where the variable leaves only some devices, and no batch system set it:
    /// a pipeline may have set an index without asking anything.
    pub(super) fn way_around(&self) -> &'static str {
        match self.is_named_by_variable() && !self.batch_job {
            true if self.of_link => {
                "; CUDAWRAP_IGNORE_GRANT=1 chooses among all devices, and not only those of CUDA_VISIBLE_DEVICES"
            }
            true => {
                "; --ignore-grant chooses among all devices, and not only those of CUDA_VISIBLE_DEVICES"
            }
            false => "",
        }
    }

    /// How to choose among all devices, as far as a person can.
    pub fn without(&self) -> &'static str {
        self.remedy(if self.of_link {
            WITHOUT_GRANT_OF_LINK
        } else {
            WITHOUT_GRANT
        })
    }

    /// What a person can do about the grant: inside a job it is the batch system's, and
    /// to unset it takes what others were granted.
    pub fn remedy(&self, elsewhere: &'static str) -> &'static str {
        if self.batch_job {
            "in a job CUDA_VISIBLE_DEVICES is the batch system's to set: ask it for other GPUs"
        } else {
            elsewhere
        }
    }
}

/// The failure for an index where MIG devices are: CUDA knows no index of them.
fn index_of_mig(entries: &[Selector], inventory: &Inventory) -> Option<Failure> {
    let any_mig = inventory.gpus.iter().any(|gpu| gpu.mig);
    let Some(Selector::Index(index)) = entries.first().filter(|_| any_mig) else {
        return None;
    };
    let meant = match usize::try_from(*index) {
        Ok(at) if at < inventory.devices.len() => format!(" {index}"),
        _ => String::new(),
    };
    let index = *index;
    Some(GrantCause::IndexOfGpu { index, meant }.into())
}
