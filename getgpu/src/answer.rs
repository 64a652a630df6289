//! What a call comes to: devices that are chosen, then claimed, then confirmed and ready to
//! be printed, and for whom they are.

use std::cell::LazyCell;

use getgpu_common::choice::chooser::Guard;
use getgpu_common::detached::User;
use getgpu_common::error::Failure;
use getgpu_common::ident::Uuid;
use getgpu_common::lock::claim::confirm_all;
use getgpu_common::lock::holder_args::Tag;
use getgpu_common::lock::{Claim, LockFile, OfdLock};
use getgpu_common::procfs::Process;
use getgpu_common::request::Request;
use getgpu_common::select::Queueing;
use getgpu_common::share;

/// A choice whose claims may still have to be confirmed, which happens only when NVML has
/// let go.
pub enum Chosen {
    /// Ours already.
    Confirmed(Answer),
    /// Claimed just now.
    Claimed(Claimed),
    /// Nothing is free yet, and the caller joins the queue.
    InQueue(Queueing),
}

/// Devices that are claimed.
pub struct Claimed {
    pub uuids: Vec<Uuid>,
    /// What is printed for them.
    pub value: String,
    /// To be confirmed.
    pub claims: Vec<Claim>,
    /// Kept until the holder can be counted.
    pub guard: Guard,
}

impl Claimed {
    /// Confirms the claims.
    pub fn confirm(self, request: &Request, lock_file: &LockFile) -> Result<Answer, Failure> {
        let part = share::smallest(self.claims.iter().map(Claim::units));
        let lock = Some(confirm_all(lock_file, self.claims, request.user)?);
        request.confirm(lock_file)?;
        Ok(Answer {
            repeated: false,
            larger_grant: request.larger_grant(self.uuids.len()),
            uuids: self.uuids,
            value: self.value,
            lock,
            part,
            guard: self.guard,
        })
    }
}

/// What is to be printed, and the lock behind it.
pub struct Answer {
    /// The devices.
    pub uuids: Vec<Uuid>,
    /// What is printed for them.
    pub value: String,
    /// The confirmed reservation, if there is to be one.
    pub lock: Option<OfdLock>,
    /// The caller owned the devices before this call.
    pub repeated: bool,
    /// The grant that the devices were chosen from, if it names more devices.
    pub larger_grant: Vec<Uuid>,
    /// The smallest part of a device that it is.
    pub part: f64,
    /// Kept until the holder can be counted.
    pub guard: Guard,
}

/// For whom a device is reserved, and under which name.
pub struct Whose<'a> {
    pub caller: &'a LazyCell<Process>,
    /// The process that `--hold=PID` names.
    pub held: Option<Process>,
    pub user: Option<User>,
    pub tag: Option<Tag>,
}
