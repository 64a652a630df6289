//! Names for reservations: found again by the holder's command line, one of a name for
//! each user, and root may reserve for others. The same name with the same request is the
//! same reservation, so that a prolog may run twice.

use std::time::Duration;

use getgpu_choose::Request;
use getgpu_linux::{ChildUser, CommandLines, procfs::namespaces};
use getgpu_lock::{
    HolderArgs, HolderProcess, LockFile, OfdLock, Role, Tag, layout, ownership_proof, user_locks,
};
use getgpu_model::{Failure, Kind, Uuid};

use crate::options::{Action, GetgpuOptions};

/// What processes of the job's user cost a prolog at most before it reserves a part, beside what they
/// cost its other searches.
const OF_PART: Duration = Duration::from_millis(400);

/// This call's turn at a tag: while it is kept, no other call of this user looks whether the tag
/// is in use. `None`: there is no tag, or another user holds the byte, which delays no call.
pub type Turn = Option<OfdLock>;

/// Whether this call may reserve under a tag.
pub enum TagEntry<T = Turn> {
    /// Nothing is reserved under it.
    Free(T),
    /// The same request's reservation.
    Same(Box<HolderProcess>),
}

/// The name for a request, with what is asked for under it.
pub fn of(name: &str, request: &Request, options: &GetgpuOptions) -> Tag {
    let asked = asked(request, options, request.grant.value());
    Tag {
        name: name.to_owned(),
        asked,
    }
}

/// What is asked for, in a word, if CUDA_VISIBLE_DEVICES has this value.
fn asked(request: &Request, options: &GetgpuOptions, grant: &str) -> String {
    let index = match options.action {
        Action::Print(index) => index,
        _ => None,
    };
    let (text, keep) = (request.text(), options.keep);
    let text = format!("{text} {index:?} {keep:?} {grant}");
    format!("{:x}", layout::fnv1a(text.as_bytes()))
}

/// Whether a request is the one that a reservation was made for. A job's part is its part
/// whatever is asked, since a prolog may run again with other settings. A caller that has the
/// reservation as its grant, as a script that is sourced twice, had none when it was made.
fn is_same(tag: &Tag, request: &Request, options: &GetgpuOptions, args: &HolderArgs) -> bool {
    let known = args.tag.as_ref().map(|tag| tag.asked.as_str());
    let grant = request.grant.visible.full_uuids();
    let is_grant = grant.is_some_and(|grant| grant == args.devices);
    args.role == Role::JobPart
        || known == Some(&tag.asked)
        || is_grant && known == Some(&asked(request, options, ""))
}

/// Keeps other calls for this user's name away, and looks whether it is in use.
pub fn enter(
    tag: &Tag,
    lock_file: &LockFile,
    request: &Request,
    options: &GetgpuOptions,
) -> Result<TagEntry, Failure> {
    let (name, uid) = (&tag.name, request.user);
    // The prologs of a job take turns at its mark, which no other user can lock.
    let guard = match options.role {
        Role::JobPart => None,
        Role::Reservation | Role::Lease | Role::Task => turn(lock_file, uid, name)?,
    };
    let Some(holder) = under(lock_file, Some(uid), name, options.role).pop() else {
        return Ok(TagEntry::Free(guard));
    };
    if is_same(tag, request, options, &holder.args) {
        return Ok(TagEntry::Same(Box::new(holder)));
    }
    let text = format!(
        "--tag {name}: in use for {}: the tag already belongs to a different request",
        Uuid::join(&holder.args.devices)
    );
    let hint = format!("getgpu --release {name} gives it up");
    Err(Failure::new(Kind::Usage, text).hint(hint))
}

/// Waits for the user's turn at a name.
fn turn(lock_file: &LockFile, uid: u32, name: &str) -> Result<Turn, Failure> {
    let byte = layout::tag(namespaces::host_uid(uid), name);
    match user_locks::enter(lock_file, byte, &[uid, nix::unistd::geteuid().as_raw()])? {
        user_locks::Entered::Ours(guard) => Ok(Some(guard)),
        user_locks::Entered::Strangers => Ok(None),
        user_locks::Entered::Late => {
            let text =
                format!("--tag {name}: another call with this tag has been choosing for a minute");
            Err(Failure::new(Kind::NoneFree, text))
        }
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
        return Err(Failure::new(
            Kind::NoneFree,
            format!("--tag {name}: nothing is reserved under it"),
        )
        .hint(format!(
            "getgpu --hold --tag {name} reserves a device under it"
        )));
    }
    Ok(holders)
}

/// The user that `--uid` names, for whom root reserves; none: our own. Without a group to
/// run as it is the one of the login; one that no database knows has a group of the same
/// number.
pub fn user(uid: u32, gid: Option<u32>) -> Result<Option<ChildUser>, Failure> {
    let own = nix::unistd::geteuid();
    if own.as_raw() == uid {
        return Ok(None);
    }
    if !own.is_root() {
        return Err(Failure::new(
            Kind::Usage,
            format!("--uid {uid}: only root may reserve for another user"),
        ));
    }
    Ok(Some(ChildUser {
        uid,
        gid: gid.unwrap_or_else(|| {
            let known = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok();
            known.flatten().map_or(uid, |user| user.gid.as_raw())
        }),
    }))
}
