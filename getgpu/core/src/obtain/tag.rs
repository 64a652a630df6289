//! Names for reservations: found again by the holder's command line, one of a name for
//! each user, and root may reserve for others. The same name with the same request is the
//! same reservation, so that a prolog may run twice.

use std::time::Duration;

use getgpu_choose::Asked;
use getgpu_linux::{ChildUser, CommandLines, procfs::namespaces};
use getgpu_lock::{
    HolderArgs, HolderProcess, LockFile, OfdLock, Role, Tag, layout, ownership_proof, user_locks,
};
use getgpu_model::{Failure, Uuid};
use getgpu_queue::Name;

use crate::causes::{GetgpuUsage, ReserveCause};
use crate::options::{Action, GetgpuOptions};

/// What processes of the job's user cost a prolog at most before it reserves a part, beside what they
/// cost its other searches.
const OF_PART: Duration = Duration::from_millis(400);

/// The name under which a call reserves, if one was typed, and this call's turn at it: while it has
/// the turn, no other call of this user looks whether the name is in use.
pub struct Tagged<'a> {
    tag: Option<Tag>,
    /// What is asked for where CUDA_VISIBLE_DEVICES is not set; empty without a name.
    asked_outside: String,
    /// The devices of CUDA_VISIBLE_DEVICES, where it names them by full UUIDs.
    grant: Option<Vec<Uuid>>,
    lock_file: &'a LockFile,
    /// For which user, and in which role.
    uid: u32,
    role: Role,
    turn: Option<OfdLock>,
    /// Another user holds the byte, which delays no call twice.
    is_strangers: bool,
}

impl<'a> Tagged<'a> {
    /// The name for a request, before its grant is resolved.
    pub fn new(lock_file: &'a LockFile, options: &GetgpuOptions, request: &Asked) -> Self {
        let tag = options.tag.clone().map(|name| Tag {
            name,
            asked: asked(request, options, request.grant().value()),
        });
        let outside = tag.as_ref().map(|_| asked(request, options, ""));
        Self {
            tag,
            asked_outside: outside.unwrap_or_default(),
            grant: request.grant().visible.full_uuids(),
            lock_file,
            uid: request.user(),
            role: options.role,
            turn: None,
            is_strangers: false,
        }
    }

    /// The tag, for the holder.
    pub const fn tag(&self) -> Option<&Tag> {
        self.tag.as_ref()
    }

    /// Whether a request is the one that a reservation was made for. A job's part is its part
    /// whatever is asked, since a prolog may run again with other settings. A caller that has the
    /// reservation as its grant, as a script that is sourced twice, had none when it was made.
    fn is_same(&self, tag: &Tag, args: &HolderArgs) -> bool {
        let known = args.tag.as_ref().map(|tag| tag.asked.as_str());
        let is_grant = self.grant.as_ref() == Some(&args.devices);
        args.role == Role::JobPart
            || known == Some(&tag.asked)
            || is_grant && known == Some(&self.asked_outside)
    }
}

/// What is asked for, in a word, if CUDA_VISIBLE_DEVICES has this value.
fn asked(request: &Asked, options: &GetgpuOptions, grant: &str) -> String {
    let index = match options.action {
        Action::Print(index) => index,
        _ => None,
    };
    let (text, keep) = (request.tag_text(), options.keep);
    let text = format!("{text} {index:?} {keep:?} {grant}");
    format!("{:x}", layout::fnv1a(text.as_bytes()))
}

impl Name for Tagged<'_> {
    type Same = Box<HolderProcess>;

    fn find(&mut self) -> Result<Option<Self::Same>, Failure> {
        let Some(tag) = &self.tag else {
            return Ok(None);
        };
        let name = &tag.name;
        let Some(holder) = under(self.lock_file, Some(self.uid), name, self.role).pop() else {
            return Ok(None);
        };
        if self.is_same(tag, &holder.args) {
            return Ok(Some(Box::new(holder)));
        }
        let devices = Uuid::join(&holder.args.devices);
        Err(ReserveCause::TagTaken { name, devices }.into())
    }

    fn enter(&mut self) -> Result<Option<Self::Same>, Failure> {
        let Some(tag) = self.tag.as_ref().filter(|_| self.turn.is_none()) else {
            return Ok(None);
        };
        // The prologs of a job take turns at its mark, which no other user can lock.
        if self.is_strangers || self.role == Role::JobPart {
            return self.find();
        }
        let (name, uid) = (&tag.name, self.uid);
        let byte = layout::tag(namespaces::host_uid(uid), name);
        let uids = [uid, nix::unistd::geteuid().as_raw()];
        self.turn = match user_locks::enter(self.lock_file, byte, &uids)? {
            user_locks::Entered::Ours(turn) => Some(turn),
            user_locks::Entered::Strangers => {
                self.is_strangers = true;
                None
            }
            user_locks::Entered::Late => return Err(ReserveCause::TagBusy { name }.into()),
        };
        self.find()
    }

    fn leave(&mut self) {
        self.turn = None;
    }
}

/// The reservations under a name, those of this user or of all users, the oldest first. A
/// prolog's parts are no tags, so a user who types `slurm-4711` does not meet them.
fn under(lock_file: &LockFile, uid: Option<u32>, name: &str, role: Role) -> Vec<HolderProcess> {
    let command_lines = match role {
        Role::JobPart => CommandLines::within(OF_PART),
        Role::Reservation | Role::Lease | Role::Task => CommandLines::start(),
    };
    let is_wanted = |args: &HolderArgs| {
        let is_named = args.tag.as_ref().is_some_and(|tag| tag.name == name);
        is_named && (role == Role::JobPart) == (args.role == Role::JobPart)
    };
    let found = ownership_proof::search(lock_file, uid, &command_lines, &is_wanted);
    let mut holders = found.proven;
    holders.sort_by_key(|holder| (holder.args.since, holder.pid));
    holders
}

/// What is reserved under a name by this user, or for root by any user.
pub fn find(lock_file: &LockFile, name: &str, role: Role) -> Result<Vec<HolderProcess>, Failure> {
    let uid = nix::unistd::geteuid();
    let uids = (!uid.is_root()).then_some(uid.as_raw());
    let holders = under(lock_file, uids, name, role);
    if holders.is_empty() {
        return Err(ReserveCause::TagUnused { name }.into());
    }
    Ok(holders)
}

/// The user that `--uid` names, for whom root reserves; none: our own. Without a group to
/// run as it is the one of the login; one that no database knows has a group of the same
/// number.
pub fn user(options: &GetgpuOptions) -> Result<Option<ChildUser>, Failure> {
    let own = nix::unistd::geteuid();
    let Some(uid) = options.uid.filter(|uid| own.as_raw() != *uid) else {
        return Ok(None);
    };
    if !own.is_root() {
        return Err(GetgpuUsage::NotForOthers { uid }.into());
    }
    let gid = options.gid.unwrap_or_else(|| {
        let known = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok();
        known.flatten().map_or(uid, |user| user.gid.as_raw())
    });
    Ok(Some(ChildUser { uid, gid }))
}
