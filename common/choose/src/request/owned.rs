//! A request inside of what the caller owns already, decided once for each look: what it may claim, and how.

use std::ops::Deref;
use std::rc::Rc;

use super::granted::Granted;
use crate::causes::{ChooseCause, Room};
use crate::ownership::Cover;
use crate::pool::{Filter, Portion};
use getgpu_lock::{Level, LockFile};
use getgpu_model::{Device, Failure, Inventory, Units, quantity, share};
use getgpu_settings::{DeviceList, Policy};

/// What one call asks for, inside of what it owns.
#[derive(Clone, Debug)]
pub struct Owned {
    granted: Rc<Granted>,
    /// What it owns of the grant; none: it chooses among all users.
    pub cover: Option<Cover>,
    /// What is kept for a waiter may be taken: it is kept for this one, or that waiter is not given
    /// way to.
    takes_kept: bool,
}

impl Deref for Owned {
    type Target = Granted;

    fn deref(&self) -> &Granted {
        &self.granted
    }
}

impl Owned {
    /// Inside of `cover`.
    pub fn inside(granted: &Rc<Granted>, cover: Option<Cover>) -> Self {
        Self {
            granted: Rc::clone(granted),
            cover,
            takes_kept: false,
        }
    }

    /// The same inside of what the call owns now.
    #[must_use]
    pub fn renewed(&self, lock_file: &LockFile, known: &Inventory) -> Self {
        Self {
            cover: self.granted.owned(lock_file, Some(known)).cover(),
            ..self.clone()
        }
    }

    /// The same with what the site excludes by now.
    #[must_use]
    pub fn without(&self, excluded: DeviceList) -> Self {
        let filter = Filter {
            excluded,
            ..self.filter.clone()
        };
        self.of(Granted {
            filter,
            ..(*self.granted).clone()
        })
    }

    /// The same for a call that may take, or may not take, what is kept for a waiter.
    #[must_use]
    pub fn taking_kept(&self, takes_kept: bool) -> Self {
        Self {
            takes_kept,
            ..self.clone()
        }
    }

    /// Whether a random slot may be drawn: one whole device, any of an open pool, and
    /// nothing to count first.
    pub fn can_pick_randomly(&self) -> bool {
        let random = self.policy.is_none_or(|policy| policy == Policy::Random);
        let anywhere = random && self.nearest.is_none();
        self.filter.is_open()
            && self.most == 1
            && self.filter.preferred.is_empty()
            && anywhere
            && self.filter.share.is_none()
            && self.cap().is_none()
    }

    /// The same for just so many devices, and for those on preferred GPUs alone.
    pub(crate) fn wish(&self, count: usize, only_preferred: bool) -> Self {
        let filter = Filter {
            only_preferred,
            ..self.filter.clone()
        };
        self.of(Granted {
            count,
            most: count,
            filter,
            ..(*self.granted).clone()
        })
    }

    fn of(&self, granted: Granted) -> Self {
        Self {
            granted: Rc::new(granted),
            ..self.clone()
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

    /// What a hint adds if CUDA_VISIBLE_DEVICES leaves only some devices.
    pub fn way_around(&self) -> &'static str {
        match self.cover {
            None => self.grant.way_around(),
            Some(_) => "",
        }
    }

    /// What of a device this call may take, which is what it owns there already, else all of
    /// it; and how much of that it wants.
    pub fn portion(&self, device: &Device) -> (Units, Portion) {
        let cover = self.cover.as_ref();
        let own = cover.and_then(|cover| cover.units(&device.uuid)).cloned();
        let own = own.unwrap_or_else(Units::whole);
        let portion = self.filter.portion(&own, device.memory);
        (own, portion)
    }

    /// The failure of a share that is too large for what this call may take of a device.
    pub fn too_large(&self, device: &Device) -> Failure {
        let (uuid, share) = (&device.uuid, self.filter.share);
        let share = share.map(|share| share.to_string()).unwrap_or_default();
        let (own, _) = self.portion(device);
        let why = match device.memory {
            Some(memory) if !own.is_whole() => {
                let mebibytes = ((memory >> 20) as f64 * share::fraction(&own)) as u64;
                let memory = quantity::size_text(mebibytes << 20);
                Room::OfPart { uuid, memory }
            }
            Some(memory) => {
                let memory = quantity::size_text(memory);
                Room::OfDevice { uuid, memory }
            }
            None => Room::UnknownOf { uuid },
        };
        ChooseCause::ShareTooLarge { share, why }.into()
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
}
