//! The story of a call that prints a device: the one reserved under a tag, else what the
//! caller owns of its grant, else the device of INDEX or free ones, else what the queue
//! brings. Nothing is confirmed before NVML has let go, and nothing is printed before a
//! holder has the reservation.

mod answer;
pub mod caller;
mod choose;
pub mod explain;
mod hand_out;
mod indexed;
mod reader;
mod running;
mod tag;
mod unrelated;

use getgpu_model::lease_tag;
use std::cell::LazyCell;
use std::rc::Rc;
use std::time::Duration;

use getgpu_ask::Node;
use getgpu_choose::{Asked, Decision, Granted};
use getgpu_linux::{Process, procfs::namespaces, run_clock};
use getgpu_lock::Role;
use getgpu_model::{Failure, Kind, Visible};
use getgpu_queue::{Name, Outage, Selected, Served};

use answer::Chosen;
use choose::choose;
use hand_out::{Owner, hand_out};
use tag::Tagged;

use crate::call::{GetgpuCall, node};
use crate::causes::ReserveCause;
use crate::options::{GetgpuOptions, Keep};

/// For how long, and how often, a call that finds its grant taken looks whether a sibling has
/// reserved it.
const SIBLING: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Prints a device.
pub fn print(call: &GetgpuCall<'_>, asked: Asked) -> Result<(), Failure> {
    let caller: LazyCell<Process> = LazyCell::new(caller::find);
    if call.options.keep != Keep::No {
        // Before this call waits for anything: the caller may exit meanwhile.
        LazyCell::force(&caller);
    }
    let held = held(call, &caller)?;
    if asked.grant().visible == Visible::Nothing {
        return Err(asked.grant().empty());
    }
    let user = tag::user(call.options)?;
    let asked = match &user {
        Some(user) => asked.for_user(user.uid),
        None => asked,
    };
    // Until the holder stands for it no other call of this user may look whether the
    // tag is in use.
    let mut tagged = Tagged::new(&call.lock_file, call.options, &asked);
    let owner = Owner {
        caller: &caller,
        held,
        user,
        tag: tagged.tag().cloned(),
        label: label(call.options)?,
    };
    if let Some(holder) = tagged.enter()? {
        return answer::print_again(call, &[*holder]);
    }
    if let Some(answer) = answer::granted_again(call, &asked)? {
        return hand_out(call, answer, owner);
    }
    let mut node = node(call.settings);
    let (granted, chosen) = choose_or_queue(call, &mut node, asked)?;
    let taken = match chosen {
        Chosen::Ready(answer) => return hand_out(call, answer, owner),
        Chosen::Unconfirmed(Selected::Taken(taken)) => taken,
        Chosen::Unconfirmed(Selected::Queue(queueing)) => {
            // Another call for the tag may be served while this one waits.
            tagged.leave();
            match queueing.wait(&mut node, &mut tagged)? {
                Served::Taken(taken) => taken,
                Served::Same(holder) => return answer::print_again(call, &[*holder]),
            }
        }
    };
    let answer = answer::confirm(call, taken, &granted, node.known().as_deref())?;
    hand_out(call, answer, owner)
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

/// The process that `--hold` names. Without a name it is the caller, if there is one
/// that can be waited for.
fn held(call: &GetgpuCall<'_>, caller: &LazyCell<Process>) -> Result<Option<Process>, Failure> {
    match call.options.keep {
        Keep::Hold(Some(0)) if !namespaces::is_host_root() => Err(ReserveCause::Endless.into()),
        Keep::Hold(Some(pid)) if pid > 0 => caller::to_hold(pid).map(Some),
        Keep::Hold(None) if caller::is_adopter(caller) => Err(ReserveCause::CallerExited.into()),
        Keep::Hold(None) if !caller.seen() => Err(caller::unseen()),
        _ => Ok(None),
    }
}

/// Devices, or a place in the queue: a choice among what is granted, made again while NVML fails and
/// the call may outlast that, and once more if a sibling has reserved the grant for us all meanwhile.
fn choose_or_queue<'c>(
    call: &'c GetgpuCall<'_>,
    node: &mut Node<'_>,
    asked: Asked,
) -> Result<(Rc<Granted>, Chosen<'c>), Failure> {
    node.nvml()?;
    let mut outage = Outage::new(call.settings, call.diag);
    let (granted, chosen) = loop {
        let granted = asked.clone().granted(node).map(Rc::new);
        let chosen = match &granted {
            Ok(granted) => choose(call, node, granted),
            Err(failure) => Err(failure.clone()),
        };
        match (granted, outage.outlasted(node, chosen)) {
            (_, None) => {}
            (Ok(granted), Some(chosen)) => break (granted, chosen),
            (Err(failure), Some(Ok(_))) | (Err(_), Some(Err(failure))) => return Err(failure),
        }
    };
    granted.grant.tell_correction(call.diag);
    let none = match &chosen {
        Err(failure) => failure.kind == Kind::NoneFree,
        Ok(chosen) => matches!(chosen, Chosen::Unconfirmed(Selected::Queue(_))),
    };
    if none && reserved_by_sibling(call, &granted) {
        let chosen = choose(call, node, &granted);
        return Ok((granted, node.settle(chosen)?));
    }
    Ok((granted, chosen?))
}

/// Re-checks for 200 ms whether a sibling has just reserved this grant: of tasks that
/// were granted one device and ask for it at one instant, one is just reserving it.
/// NVML is not open meanwhile.
fn reserved_by_sibling(call: &GetgpuCall<'_>, granted: &Granted) -> bool {
    let Some(grant) = granted.filter.grant.as_deref() else {
        return false;
    };
    if !granted.is_number(grant.len()) {
        return false;
    }
    let began = run_clock::now();
    while run_clock::since(began) < SIBLING {
        if granted.owned(&call.lock_file, None) != Decision::Nothing {
            return true;
        }
        run_clock::sleep(BETWEEN_LOOKS);
    }
    false
}
