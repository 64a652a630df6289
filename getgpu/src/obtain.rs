//! The story of a call that prints a device: the one reserved under a tag, else what the
//! caller owns of its grant, else the device of INDEX or free ones, else what the queue
//! brings. Nothing is confirmed before NVML has let go, and nothing is printed before a
//! holder has the reservation.

use getgpu_model::lease_tag;
use std::cell::LazyCell;
use std::time::{Duration, Instant};

use getgpu_ask::Node;
use getgpu_choose::{Decision, Request, Selected};
use getgpu_linux::{Process, procfs::namespaces};
use getgpu_lock::{Role, Tag};
use getgpu_model::{Failure, Kind, Visible};

use crate::answer::{self, Answer, Chosen};
use crate::call::{GetgpuCall, node};
use crate::caller;
use crate::choose::{choose, wait_in_queue};
use crate::hand_out::{Owner, hand_out};
use crate::options::{GetgpuOptions, Keep};
use crate::tag;

/// How long a grant that is taken is read again, and how often.
const SIBLING: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Prints a device.
pub fn print(call: &GetgpuCall<'_>, mut request: Request) -> Result<(), Failure> {
    let caller: LazyCell<Process> = LazyCell::new(caller::find);
    let held = held(call, &caller)?;
    if request.grant.visible == Visible::Nothing {
        return Err(request.grant.empty());
    }
    let gid = call.options.gid;
    let user = call.options.uid.map(|uid| tag::user(uid, gid));
    let user = user.transpose()?.flatten();
    request.user = user.map_or(request.user, |user| user.uid);
    let name = call.options.tag.as_deref();
    let tag = name.map(|name| tag::of(name, &request, call.options));
    // Until the holder stands for it no other call of this user may look whether the
    // tag is in use.
    if tag.is_some() {
        // Before anything is waited for, behind which the caller may have exited.
        LazyCell::force(&caller);
    }
    let turn = match enter(call, tag.as_ref(), &request)? {
        tag::TagEntry::Free(turn) => turn,
        tag::TagEntry::Same(holder) => return answer::print_again(call, &[*holder]),
    };
    let owner = Owner {
        caller: &caller,
        held,
        user,
        tag: tag.clone(),
        label: label(call.options)?,
    };
    match obtain(call, &mut request, &caller, tag.as_ref(), turn)? {
        tag::TagEntry::Free((answer, turn)) => {
            let printed = hand_out(call, answer, owner);
            drop(turn);
            printed
        }
        tag::TagEntry::Same(holder) => answer::print_again(call, &[*holder]),
    }
}

/// What the reservation is shown as: a typed tag is its name, except where it is made for
/// another program, as by the Python package.
fn label(options: &GetgpuOptions) -> Result<Option<String>, Failure> {
    let own = matches!(options.role, Role::Reservation | Role::Task);
    let is_named = options.tag.is_some() && own;
    if is_named { Ok(None) } else { lease_tag::own() }
}

/// Prints what is reserved under a tag.
pub fn print_tagged(call: &GetgpuCall<'_>, name: &str) -> Result<(), Failure> {
    let role = call.options.role;
    answer::print_again(call, &tag::find(&call.lock_file, name, role)?)
}

/// Devices for the request, at once or after waiting, with `turn`, this call's turn at its
/// tag; else the reservation that another call made under the tag meanwhile.
fn obtain(
    call: &GetgpuCall<'_>,
    request: &mut Request,
    caller: &LazyCell<Process>,
    tag: Option<&Tag>,
    turn: tag::Turn,
) -> Result<tag::TagEntry<(Answer, tag::Turn)>, Failure> {
    if let Some(answer) = answer::granted_again(call, request)? {
        return Ok(tag::TagEntry::Free((answer, turn)));
    }
    let mut node = node(call.settings);
    let (claimed, turn) = match choose_or_queue(call, &mut node, request, caller)? {
        Chosen::Ready(answer) => return Ok(tag::TagEntry::Free((answer, turn))),
        Chosen::Unconfirmed(Selected::Claimed(claimed)) => (claimed, turn),
        Chosen::Unconfirmed(Selected::Queue(queueing)) => {
            // Another call for the tag may come and go while this one waits, so
            // afterwards the tag is looked at once more.
            drop(turn);
            let claimed = wait_in_queue(call, request, &mut node, queueing)?;
            match enter(call, tag, request)? {
                tag::TagEntry::Free(turn) => (claimed, turn),
                tag::TagEntry::Same(holder) => return Ok(tag::TagEntry::Same(holder)),
            }
        }
    };
    let answer = answer::confirm(call, claimed, request, node.known().as_deref())?;
    Ok(tag::TagEntry::Free((answer, turn)))
}

/// The process that `--hold` names. Without a name it is the caller, if there is one
/// that can be waited for.
fn held(call: &GetgpuCall<'_>, caller: &LazyCell<Process>) -> Result<Option<Process>, Failure> {
    match call.options.keep {
        Keep::Hold(Some(0)) if !namespaces::is_host_root() => {
            let failure = Failure::new(
                Kind::Usage,
                "--hold=0: only root may hold a device without end",
            );
            return Err(failure.hint("getgpu --hold"));
        }
        Keep::Hold(Some(pid)) if pid > 0 => return caller::to_hold(pid).map(Some),
        Keep::Hold(None) if caller::is_adopter(caller) => {
            return Err(caller::adopted());
        }
        Keep::Hold(None) if !caller.seen() => return Err(caller::unseen()),
        _ => {}
    }
    Ok(None)
}

/// Waits for this call's turn at its tag; without one there is nothing to wait for.
fn enter(
    call: &GetgpuCall<'_>,
    tag: Option<&Tag>,
    request: &Request,
) -> Result<tag::TagEntry, Failure> {
    tag.map_or(Ok(tag::TagEntry::Free(None)), |tag| {
        tag::enter(tag, &call.lock_file, request, call.options)
    })
}

/// A choice; made once more if a sibling has reserved the grant for us all meanwhile.
fn choose_or_queue(
    call: &GetgpuCall<'_>,
    node: &mut Node<'_>,
    request: &mut Request,
    caller: &LazyCell<Process>,
) -> Result<Chosen, Failure> {
    node.nvml()?;
    if call.options.keep != Keep::No {
        // Now, while the library is being loaded.
        LazyCell::force(caller);
    }
    let chosen = node.ask(|node| choose(call, node, request));
    let none = match &chosen {
        Err(failure) => failure.kind == Kind::NoneFree,
        Ok(chosen) => matches!(chosen, Chosen::Unconfirmed(Selected::Queue(_))),
    };
    if none && reserved_by_sibling(call, request) {
        return node.ask(|node| choose(call, node, request));
    }
    chosen
}

/// Re-checks for 200 ms whether a sibling has just reserved this grant: of tasks that
/// were granted one device and ask for it at one instant, one is just reserving it.
/// NVML is not open meanwhile.
fn reserved_by_sibling(call: &GetgpuCall<'_>, request: &Request) -> bool {
    let Some(grant) = request.filter.grant.as_deref() else {
        return false;
    };
    if request.cover.is_some() || grant.len() != request.count {
        return false;
    }
    let began = Instant::now();
    while began.elapsed() < SIBLING {
        if request.owned(&call.lock_file, None) != Decision::Nothing {
            return true;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    false
}
