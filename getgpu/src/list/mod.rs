//! `--list`: everything on the node with its state and holders, as a table for people or
//! as JSON. Locks are only looked at, never taken, so a listing disturbs nobody.

mod columns;
pub mod count;
mod csv;
mod json;
mod prometheus;
pub mod queue;
mod rows;
mod summary;
mod table;
mod terminal;
pub mod watch;

use std::collections::BTreeSet;
use std::time::Duration;

use getgpu_common::diag::{self, Level};
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Detail, Inventory};
use getgpu_common::lock::claimers::Claimers;
use getgpu_common::lock::holders::{self, Holdings};
use getgpu_common::lock::touched::touched;
use getgpu_common::lock::{LockFile, OfdLock, Span, host_sharing};
use getgpu_common::nvml_client::{Client, Worker};
use getgpu_common::queue::queued::{Queued, queued};
use getgpu_common::request::Request;
use getgpu_common::settings::{Settings, allowed};

use crate::options::{Form, Only};
use terminal::Look;

/// Everything that a listing shows.
pub struct Listing {
    inventory: Inventory,
    rows: Vec<rows::Row>,
    problems: Vec<String>,
    lock: String,
    lock_shared: bool,
    waiting: usize,
    queue: Vec<Queued>,
}

/// What of a listing is shown, and how.
pub struct Shown<'a> {
    pub form: Form,
    pub only: &'a [Only],
    pub level: Level,
}

/// The table for a terminal as text, or why there is none: what `--watch` draws.
pub fn drawn<W: Worker>(
    client: Result<Client<W>, Failure>,
    request: Request,
    settings: &Settings,
    lock_file: &LockFile,
    shown: &Shown<'_>,
) -> String {
    let listing = gather(client, request, settings, lock_file, shown);
    let look = Look::of_stdout(shown.level == Level::Verbose);
    match (listing, look) {
        (Ok((listing, summary)), Some(look)) => {
            let table = terminal::text(&listing.rows, &summary, &look);
            let problems = listing.problems.iter();
            table + &problems.map(|line| format!("{line}\n")).collect::<String>()
        }
        (Err(failure), _) => format!("{failure}\n"),
        (Ok(_), None) => String::new(),
    }
}

/// Shows the listing, which is empty where there is a driver and no GPU.
pub fn show<W: Worker>(
    client: Result<Client<W>, Failure>,
    request: Request,
    settings: &Settings,
    lock_file: &LockFile,
    shown: &Shown<'_>,
) -> Result<(), Failure> {
    let (mut listing, summary) = gather(client, request, settings, lock_file, shown)?;
    let uuids = shown.level == Level::Verbose;
    match shown.form {
        Form::Json => return diag::show(&json::text(&listing)),
        Form::Csv => return diag::show(&csv::text(&listing.rows)),
        Form::Prometheus => return diag::show(&prometheus::text(&listing)),
        Form::Table => match Look::of_stdout(uuids) {
            Some(look) => {
                diag::show(&terminal::text(&listing.rows, &summary, &look))?;
                // The summary says it.
                listing.waiting = 0;
            }
            None => diag::show(&table::text(&listing.rows, uuids))?,
        },
    }
    warn(&listing, shown.level);
    Ok(())
}

/// The metrics of the node as text; `empty_since`: since when a device that is held is
/// used by no program, in Unix seconds.
pub fn metrics<W: Worker>(
    client: Result<Client<W>, Failure>,
    request: Request,
    settings: &Settings,
    lock_file: &LockFile,
    shown: &Shown<'_>,
    empty_since: &dyn Fn(&Uuid) -> Option<u64>,
) -> Result<String, Failure> {
    let (mut listing, _) = gather(client, request, settings, lock_file, shown)?;
    for row in &mut listing.rows {
        row.empty_since = Uuid::parse(&row.uuid).and_then(|uuid| empty_since(&uuid));
    }
    Ok(prometheus::text(&listing))
}

/// Everything on the node, of which only what is to be shown is kept, and the summary of
/// all.
fn gather<W: Worker>(
    client: Result<Client<W>, Failure>,
    request: Request,
    settings: &Settings,
    lock_file: &LockFile,
    shown: &Shown<'_>,
) -> Result<(Listing, String), Failure> {
    let mut listing = match client
        .and_then(|client| client.ask_all(|client| collect(client, request, settings, lock_file)))
    {
        // Without a GPU there is nothing to list, which is no failure.
        Err(none) if none.kind == Kind::NoUsableGpu => Listing::empty(lock_file, none.message)?,
        other => other?,
    };
    let summary = summary::text(&listing.rows, listing.queue.len().max(listing.waiting));
    listing
        .rows
        .retain(|row| shown.only.iter().all(|only| row.is_shown(only)));
    Ok((listing, summary))
}

/// Says beside a table what is wrong on the node, and what the table does not show.
fn warn(listing: &Listing, level: Level) {
    let diag = diag::Diag::new("getgpu", level);
    if listing.waiting > 0 {
        diag.warn(&match listing.waiting {
            1 => "1 program waits for a device".to_owned(),
            many => format!("{many} programs wait for a device"),
        });
    }
    for problem in &listing.problems {
        diag.warn(problem);
    }
    let unknown = |row: &&rows::Row| {
        row.state == rows::State::Claimed && row.holders.iter().all(|h| h.uid.is_none())
    };
    for row in listing.rows.iter().filter(unknown) {
        diag.warn(&format!(
            "{}: claimed by a process of another user",
            row.uuid
        ));
        diag.hint("as root, getgpu --list names the process");
    }
}

/// The device that has this index in the list. Without one nothing can be released, as
/// with a tag that nobody uses, and a tag may be a number too.
pub fn device_at<W: Worker>(
    client: Client<W>,
    request: Request,
    index: usize,
) -> Result<Uuid, Failure> {
    in_order(client, request)?
        .into_iter()
        .nth(index)
        .ok_or_else(|| {
            Failure::new(
                Kind::NoneFree,
                format!("no device {index}, and no tag of yours is called so"),
            )
            .hint("getgpu --list")
        })
}

/// The indices that these devices have in the list.
pub fn indices_of<W: Worker>(
    client: Client<W>,
    request: Request,
    devices: &BTreeSet<Uuid>,
) -> Result<Vec<usize>, Failure> {
    let all = in_order(client, request)?.into_iter().enumerate();
    Ok(all
        .filter(|(_, uuid)| devices.contains(uuid))
        .map(|(index, _)| index)
        .collect())
}

/// The devices that have an index in the list.
fn in_order<W: Worker>(client: Client<W>, mut request: Request) -> Result<Vec<Uuid>, Failure> {
    let inventory = client.ask_all(|client| client.scan(Detail::Uuid))?;
    request.show_grant(&inventory);
    let indexed = request.by_index().filter.indexed(&inventory);
    let uuids = indexed.into_iter().map(|(device, _)| device.uuid.clone());
    Ok(uuids.collect())
}

impl Listing {
    fn empty(lock_file: &LockFile, problem: String) -> Result<Self, Failure> {
        Ok(Self {
            inventory: Inventory::default(),
            rows: Vec::new(),
            problems: vec![problem],
            lock: lock_file.path.display().to_string(),
            lock_shared: host_sharing::with_host(lock_file),
            waiting: getgpu_common::queue::waiting(&lock_file.open()?, None)?,
            queue: queued(&lock_file.open()?)?,
        })
    }
}

fn collect<W: Worker>(
    client: &mut Client<W>,
    mut request: Request,
    settings: &Settings,
    lock_file: &LockFile,
) -> Result<Listing, Failure> {
    let inventory = client.scan(Detail::Full)?;
    request.show_grant(&inventory);
    // The list is shown as the site has it, also to a job whose grant goes beyond it.
    let list = allowed::allowed(settings)?;
    let probe = lock_file.open()?;
    let sorted = request.filter.sort(&inventory);
    let mut rows = Vec::new();
    let held = holdings(lock_file, &probe, &inventory)?;
    let usages = client.usages(&inventory.devices, Detail::Full)?;
    let devices = inventory.devices.iter().zip(&sorted);
    for ((device, outside), (held, usage)) in devices.zip(held.into_iter().zip(usages)) {
        let membership = rows::Membership {
            allowed: list.as_ref().is_none_or(|list| list.names(device.names())),
            excluded: request.filter.excluded.names(device.names()),
            outside: *outside,
        };
        rows.push(rows::Row::new(device, &inventory, usage, held, membership));
    }
    let by_index = request.clone().by_index();
    rows::number(&mut rows, &by_index.filter.indexed(&inventory));
    let problems = crate::explain::problems(&request.filter, &inventory);
    Ok(Listing {
        inventory,
        rows,
        problems,
        lock: lock_file.path.display().to_string(),
        lock_shared: host_sharing::with_host(lock_file),
        waiting: getgpu_common::queue::waiting(&probe, None)?,
        queue: queued(&probe)?,
    })
}

/// How long a device has to be claimed to be shown so: most claims last for microseconds.
const CLAIMED: Duration = Duration::from_millis(100);

/// What is held of each device. Devices that others only claim are looked at twice, and
/// shown with who does.
fn holdings(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
) -> Result<Vec<Holdings>, Failure> {
    let spans = || {
        inventory
            .devices
            .iter()
            .map(|device| Span::of(&device.uuid))
    };
    let touched = touched(probe, spans())?;
    let of = |span| {
        if touched.contains(&span) {
            holders::of(lock_file, probe, span)
        } else {
            Ok(Holdings::default())
        }
    };
    let mut all = spans().map(of).collect::<Result<Vec<_>, _>>()?;
    if !all.iter().any(Holdings::claimed) {
        return Ok(all);
    }
    std::thread::sleep(CLAIMED);
    let mut claimers = None;
    for (held, span) in all
        .iter_mut()
        .zip(spans())
        .filter(|(held, _)| held.claimed())
    {
        *held = holders::of(lock_file, probe, span)?;
        if held.claimed() {
            held.holders = claimers
                .get_or_insert_with(Claimers::read)
                .of(lock_file, probe, span)?;
        }
    }
    Ok(all)
}
