//! The pool: which devices one call may choose from, and for each other one the reason
//! why not. Pure. Usable, allowed, not excluded, inside the grant, of the right type.

mod shortage;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use getgpu_ask::Allowing;
use getgpu_model::{Detail, Device, Inventory, Selector, Share, Units, Uuid, is_model, share};
use getgpu_settings::{DeviceList, Type};

pub use shortage::{CONTAINER_WITHOUT_MIG, candidates, empty_pool};

/// What narrows the pool.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub(crate) kind: Type,
    /// The site's list; none: all are allowed.
    pub allowed: Option<DeviceList>,
    /// Devices that are never chosen.
    pub excluded: DeviceList,
    /// The only device that a batch system granted: it is used although it is excluded.
    pub granted_alone: Option<Uuid>,
    /// The devices of the grant; none: no grant.
    pub grant: Option<Vec<Uuid>>,
    /// What a person can do where the grant leaves too little, as a hint.
    pub(crate) grant_remedy: &'static str,
    /// MIG profiles; empty: any.
    pub(crate) profiles: Vec<String>,
    /// Parts of the names of GPUs; empty: any.
    pub(crate) models: Vec<String>,
    /// Parts of the names of GPUs whose devices are tried first, and whether these alone are.
    pub(crate) preferred: Vec<String>,
    pub(crate) only_preferred: bool,
    /// The least memory, in bytes, of a device or of the share of it.
    pub(crate) min_memory: Option<u64>,
    /// The part of each device that is wanted; none: all of it.
    pub share: Option<Share>,
    /// Whether the share comes from a settings file. Then it says how much of a whole device is
    /// wanted, and a reserved part that is no larger is used whole. A share that this call asked
    /// for is a share of the reserved part.
    pub share_by_default: bool,
    /// GPUs, or devices; empty: any.
    pub(crate) gpus: Vec<Selector>,
    /// Where files set what narrows the pool: `path:line`, by setting.
    pub places: BTreeMap<&'static str, String>,
}

/// How much a call wants of the part of a device that it owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Portion {
    /// All that this call owns.
    All,
    /// So many units, fewer than this call owns.
    Units(i64),
    /// More than this call owns, or NVML does not tell how much memory the device has.
    TooLarge,
}

/// Why a device is not in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// This process may not open its nodes.
    NotUsable,
    /// Not on the site's list.
    NotAllowed,
    /// On the list of devices that are never chosen.
    Excluded,
    /// Not named by CUDA_VISIBLE_DEVICES.
    NotGranted,
    /// A MIG device where whole GPUs are wanted, or the other way round.
    WrongType,
    /// Not on one of the GPUs asked for.
    OtherGpu,
    /// Not of one of the profiles asked for.
    OtherProfile,
    /// Not on a GPU of one of the models asked for.
    OtherModel,
    /// A model was asked for, and NVML does not tell the name of its GPU.
    UnknownModel,
    /// Less memory than asked for.
    TooSmall,
    /// Memory was asked for, and NVML does not report how much it has.
    UnknownMemory,
    /// It does not answer, so that nothing is known of it.
    Silent,
}

impl Outside {
    /// The reason as a person reads it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotUsable => "not usable: this process may not open its device nodes",
            Self::NotAllowed => "not on the site's list of allowed devices",
            Self::Excluded => "excluded by the administrator",
            Self::NotGranted => "outside CUDA_VISIBLE_DEVICES",
            Self::WrongType => "not of the type asked for",
            Self::OtherGpu => "not on the GPU asked for",
            Self::OtherProfile => "not of the profile asked for",
            Self::OtherModel => "not of the model asked for",
            Self::UnknownModel => "of unknown model: NVML does not tell the name of the GPU",
            Self::TooSmall => "smaller than asked for",
            Self::Silent => "not answering",
            Self::UnknownMemory => "of unknown memory: NVML does not report any",
        }
    }

    /// The settings that can be behind it.
    pub const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::NotAllowed => &["allowed", "allowed_file"],
            Self::Excluded => &["excluded"],
            Self::WrongType => &["type"],
            Self::OtherGpu => &["gpu"],
            Self::OtherProfile => &["profile"],
            Self::OtherModel | Self::UnknownModel => &["model"],
            Self::TooSmall | Self::UnknownMemory => &["min_memory", "share"],
            Self::NotUsable | Self::NotGranted | Self::Silent => &[],
        }
    }
}

impl Filter {
    /// Why a device is outside, with the setting and its place where a file says so.
    pub fn reason(&self, outside: Outside) -> String {
        let settings = outside.settings().iter();
        match settings.filter_map(|name| self.place(name)).next() {
            Some(place) => format!("{} ({place})", outside.text()),
            None => outside.text().to_owned(),
        }
    }

    /// ``setting `count` in /etc/getgpu/config.toml:3``, if a file sets it.
    pub(crate) fn place(&self, setting: &str) -> Option<String> {
        let place = self.places.get(setting)?;
        Some(format!("setting `{setting}` in {place}"))
    }

    /// Whether a random slot may be drawn: nothing narrows the pool but what a device's
    /// UUID alone can tell.
    pub(crate) fn is_open(&self) -> bool {
        let lists = self.allowed.is_none() && self.grant.is_none() && !self.excluded.needs_place();
        lists && self.gpus.is_empty() && self.models.is_empty() && !self.by_size()
    }

    /// The NVML indices of the GPUs asked for, if all of them go by their index.
    pub(crate) fn gpu_indices(&self) -> Option<Vec<u32>> {
        let index = |gpu: &Selector| match gpu {
            Selector::Index(index) => Some(*index),
            _ => None,
        };
        self.gpus.iter().map(index).collect()
    }

    /// Whether sizes of devices decide, so that the smallest that fits goes first.
    pub(crate) fn by_size(&self) -> bool {
        !self.profiles.is_empty() || self.min_memory.is_some()
    }

    /// How much has to be known of each device.
    pub(crate) fn detail(&self) -> Detail {
        let sizes = self.by_size() || self.share.is_some_and(Share::needs_memory);
        match (self.models.is_empty() && self.preferred.is_empty(), sizes) {
            (false, _) => Detail::Name,
            (true, true) => Detail::Size,
            (true, false) => Detail::Place,
        }
    }

    /// Why the device's GPU is not of a model that the request asks for, if it is not.
    fn outside_models(&self, device: &Device, inventory: &Inventory) -> Option<Outside> {
        let preferred = Some(&self.preferred).filter(|_| self.only_preferred);
        let asked = Some(&self.models).filter(|models| !models.is_empty());
        let name = inventory.gpu_name(device);
        asked
            .into_iter()
            .chain(preferred)
            .find_map(|models| match name {
                None => Some(Outside::UnknownModel),
                Some(name) if models.iter().any(|model| is_model(name, model)) => None,
                Some(_) => Some(Outside::OtherModel),
            })
    }

    /// Whether the device has what the request asks for.
    fn outside_request(&self, device: &Device, inventory: &Inventory) -> Option<Outside> {
        let profile = device.profile.as_deref().unwrap_or("");
        if !self.gpus.is_empty() && !self.gpus.iter().any(|gpu| on(gpu, device)) {
            return Some(Outside::OtherGpu);
        }
        if let Some(outside) = self.outside_models(device, inventory) {
            return Some(outside);
        }
        let is_wanted = |wanted: &String| wanted.eq_ignore_ascii_case(profile);
        if !self.profiles.is_empty() && !self.profiles.iter().any(is_wanted) {
            return Some(Outside::OtherProfile);
        }
        let by_size = self.min_memory.is_some() || self.share.is_some_and(Share::needs_memory);
        if device.memory.is_none() && by_size {
            return Some(Outside::UnknownMemory);
        }
        let part = |total| self.share.map_or(total, |share| share.memory(total));
        let memory = device.memory.map(part);
        let is_too_small = |least| memory.is_none_or(|memory| memory < least);
        // A share by size that is more than the device.
        let is_too_large = |share: Share| share.units(device.memory).is_none();
        let is_outside =
            self.share.is_some_and(is_too_large) || self.min_memory.is_some_and(is_too_small);
        is_outside.then_some(Outside::TooSmall)
    }

    /// The site's lists, each with what it is.
    pub fn lists(&self) -> impl Iterator<Item = (&DeviceList, &'static str)> {
        let allowed = self.allowed.iter().map(|list| (list, "allowed"));
        allowed.chain([(&self.excluded, "excluded")])
    }

    /// The entries of the site's lists that cannot name a device on any node.
    pub fn bad_entries(&self) -> Vec<String> {
        let entries = |(list, what): (&DeviceList, &str)| {
            let bad = list.bad.iter();
            bad.map(|bad| format!("{what} list: `{bad}` is not the UUID of a device"))
                .collect::<Vec<_>>()
        };
        self.lists().flat_map(entries).collect()
    }

    /// How much the share is of the units that we own of a device with `memory` bytes
    /// (`None` if NVML does not report it). A fraction is one of these units, a size is
    /// one of the device's memory.
    pub fn portion(&self, own: &Units, memory: Option<u64>) -> Portion {
        let Some(share) = self.share else {
            return Portion::All;
        };
        let Some(of_device) = share.units(memory) else {
            return Portion::TooLarge;
        };
        let wanted = match share {
            Share::Fraction { of, parts } if !self.share_by_default => {
                share::fraction_of(own.count(), of, parts)
            }
            _ => of_device,
        };
        match wanted.cmp(&own.count()) {
            Ordering::Less => Portion::Units(wanted),
            Ordering::Equal => Portion::All,
            Ordering::Greater if self.share_by_default => Portion::All,
            Ordering::Greater => Portion::TooLarge,
        }
    }

    /// Why the device is outside whatever its type, if it is.
    fn outside_lists(&self, device: &Device) -> Option<Outside> {
        let (uuid, names) = (&device.uuid, |list: &DeviceList| list.names(device));
        if !device.usable {
            Some(Outside::NotUsable)
        } else if !self.allowed.as_ref().is_none_or(names) {
            Some(Outside::NotAllowed)
        } else if !self.grant.as_ref().is_none_or(|all| all.contains(uuid)) {
            Some(Outside::NotGranted)
        } else if names(&self.excluded) && self.granted_alone.as_ref() != Some(uuid) {
            Some(Outside::Excluded)
        } else {
            None
        }
    }

    /// Whether programs may run on the device: usable, allowed, inside the grant.
    pub fn allows(&self, device: &Device) -> bool {
        self.outside_lists(device).is_none()
    }

    /// Whether a device is in the pool of devices of `kind`, of which no other is known. With type
    /// `auto` a whole GPU is not, since there may be MIG devices.
    pub(crate) fn takes(&self, kind: Type, device: &Device) -> bool {
        let kind = match kind {
            Type::Auto | Type::Mig => device.slot.is_some(),
            Type::Gpu => device.slot.is_none(),
            Type::Any => true,
        };
        kind && self.outside_lists(device).is_none()
    }

    /// Where a device stands in the grant.
    pub fn place_in_grant(&self, device: &Uuid) -> Option<usize> {
        let mut granted = self.grant.as_ref()?.iter();
        granted.position(|uuid| uuid == device)
    }

    /// The devices of the pool, in the order of the inventory.
    pub fn pool<'a>(
        &self,
        inventory: &'a Inventory,
    ) -> impl Iterator<Item = &'a Device> + Clone + use<'a> {
        let sorted = inventory.devices.iter().zip(self.classify(inventory));
        let inside = sorted.filter(|(_, out)| out.is_none());
        inside.map(|(device, _)| device)
    }

    /// Every device with the reason why it is not in the pool, in the order of the
    /// inventory.
    pub fn classify(&self, inventory: &Inventory) -> Vec<Option<Outside>> {
        let devices = inventory.devices.iter();
        let outside = |device| {
            let outside = self.outside_lists(device);
            outside.or_else(|| self.outside_request(device, inventory))
        };
        let mut outside: Vec<_> = devices.clone().map(outside).collect();
        let mut sorted = devices.clone().zip(&outside);
        let any_mig = sorted.any(|(device, out)| counts_for_type(*out) && device.slot.is_some());
        let mig_wanted = match self.kind {
            Type::Any => return outside,
            Type::Auto => any_mig,
            Type::Mig => true,
            Type::Gpu => false,
        };
        for (device, out) in devices.zip(&mut outside) {
            if counts_for_type(*out) && device.slot.is_some() != mig_wanted {
                *out = Some(Outside::WrongType);
            }
        }
        outside
    }
}

impl Allowing for Filter {
    fn allows(&self, device: &Device) -> bool {
        Self::allows(self, device)
    }
}

/// Whether a device counts when type `auto` decides between MIG devices and whole GPUs. An excluded
/// device counts, so that draining one changes nothing for the others.
const fn counts_for_type(outside: Option<Outside>) -> bool {
    matches!(outside, None | Some(Outside::Excluded))
}

/// Whether a device is, or is on, what `--gpu` names.
fn on(gpu: &Selector, device: &Device) -> bool {
    match gpu {
        Selector::Index(index) => *index == device.gpu,
        Selector::OldMig { gpu, gi, ci } if device.gpu_uuid.as_ref() == Some(gpu) => {
            device.instance == Some((*gi, *ci))
        }
        named => {
            let uuids = [Some(&device.uuid), device.gpu_uuid.as_ref()].into_iter();
            uuids.flatten().any(|uuid| named.names(uuid))
        }
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
