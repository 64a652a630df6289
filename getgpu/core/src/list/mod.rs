//! `--list`: everything on the node with its state and holders, as a table for people or
//! as JSON. Locks are only looked at, never taken, so a listing disturbs no other call.

mod cells;
mod columns;
pub mod count;
mod csv;
mod drained;
mod gone;
pub mod hosts;
mod json;
mod memory_limits;
pub mod queue;
pub mod rows;
mod style;
pub mod summary;
mod table;
pub mod watch;
pub mod watched;
pub mod width;

use getgpu_linux::CommandLines;
use getgpu_model::lease_tag;
use std::time::Duration;

use getgpu_ask::Node;
use getgpu_choose::{Asked, IndexOrder, Indexed, Outside};
use getgpu_linux::Range;
use getgpu_lock::{Holdings, LockFile, OfdLock, Span, claimers, holders, host_sharing, layout};
use getgpu_model::{
    Detail, Failure, Gauge, Inventory, Kind, Uuid, Verbosity, diag, quantity::counted,
};
use getgpu_queue::{Queued, queued};
use getgpu_settings::allowed;

use crate::causes::ReserveCause;
use crate::options::{Format, GetgpuOptions};
use drained::Drained;
use style::Style;

/// Everything that a listing shows.
pub struct Listing {
    /// The version of the driver, if NVML tells it.
    pub driver: Option<String>,
    /// A row for each device.
    pub rows: Vec<rows::Row>,
    /// What is wrong with GPUs and lists.
    pub problems: Vec<String>,
    /// The path of the lock.
    pub lock: String,
    /// Whether it is the one of the host.
    pub lock_shared: bool,
    /// How many calls wait.
    pub waiting: usize,
    /// Those that can be told apart.
    pub queue: Vec<Queued>,
}

/// What standard output can show of a table.
fn style(options: &GetgpuOptions) -> Style {
    let shows_uuids = options.level == Verbosity::Verbose;
    Style::of_stdout(shows_uuids, options.color)
}

/// The table for a terminal as text, its total last, or why there is none: what `--watch`
/// draws.
pub fn drawn(
    node: &mut Node<'_>,
    asked: Asked,
    lock_file: &LockFile,
    options: &GetgpuOptions,
) -> String {
    match filtered(node, asked, lock_file, options) {
        Ok((listing, summary)) => {
            let problems = listing.problems.iter().map(|line| format!("{line}\n"));
            let problems: String = problems.collect();
            table::text(
                &listing.rows,
                &(problems + &summary),
                style(options),
                &options.columns,
            )
        }
        Err(failure) => format!("{failure}\n"),
    }
}

/// Shows the listing, which is empty where there is a driver and no GPU. `metrics`: the listing as
/// metrics.
pub fn show(
    node: &mut Node<'_>,
    asked: Asked,
    lock_file: &LockFile,
    options: &GetgpuOptions,
    metrics: fn(&Listing) -> String,
) -> Result<(), Failure> {
    let (listing, summary) = filtered(node, asked, lock_file, options)?;
    let style = style(options);
    let text = match options.format {
        Format::Json => json::text(&listing),
        Format::Csv => csv::text(&listing.rows, &options.columns),
        Format::Prometheus => metrics(&listing),
        _ => table::text(&listing.rows, &summary, style, &options.columns),
    };
    diag::show(&text)?;
    if options.format == Format::Table {
        // A terminal has it in the total.
        let waiting = listing.waiting * usize::from(style.terminal.is_none());
        warn(&listing, waiting, options.level);
    }
    Ok(())
}

/// The listing with only what is to be shown, and the summary of everything.
fn filtered(
    node: &mut Node<'_>,
    asked: Asked,
    lock_file: &LockFile,
    options: &GetgpuOptions,
) -> Result<(Listing, String), Failure> {
    let mut listing = gather(node, asked, lock_file, &options.columns)?;
    let summary = summary::text(&listing.rows, listing.waiting);
    listing.rows.retain(|row| {
        let outside = row.outside.map(Outside::settings);
        let is_other = outside.is_some_and(|typed| options.choices.first_of(typed).is_some());
        !is_other && options.only.iter().all(|only| row.is_shown(only))
    });
    Ok((listing, summary))
}

/// Everything on the node, with these numbers of its GPUs.
pub fn gather(
    node: &mut Node<'_>,
    asked: Asked,
    lock_file: &LockFile,
    gauges: &[Gauge],
) -> Result<Listing, Failure> {
    match node.ask(|node| {
        let mut listing = collect(node, asked, lock_file)?;
        measure(node, &mut listing, gauges)?;
        Ok(listing)
    }) {
        // Without a GPU there is nothing to list, which is no failure.
        Err(none) if none.kind == Kind::NoUsableGpu => Ok(Listing {
            problems: vec![none.message],
            ..Listing::of_lock(lock_file, &lock_file.open()?)?
        }),
        other => other,
    }
}

/// Asks for the numbers of GPUs that are to be shown, but of those that the site has excluded whole.
fn measure(node: &mut Node<'_>, listing: &mut Listing, gauges: &[Gauge]) -> Result<(), Failure> {
    let asked = listing.rows.iter().filter(|row| !row.excluded);
    let mut gpus: Vec<u32> = asked.map(|row| row.gpu).collect();
    gpus.dedup();
    for gauge in gauges {
        let told = node.nvml()?.gauges(&gpus, *gauge)?;
        for row in &mut listing.rows {
            let at = gpus.iter().position(|gpu| *gpu == row.gpu);
            let number = at.and_then(|at| told.get(at).copied().flatten());
            row.gauges.push((*gauge, number));
        }
    }
    Ok(())
}

/// Says beside a table what is wrong on the node, and what the table does not show.
fn warn(listing: &Listing, waiting: usize, level: Verbosity) {
    let diag = diag::Diag::new("getgpu", level);
    if waiting > 0 {
        let programs = counted(waiting, "program");
        let wait = if waiting == 1 { "waits" } else { "wait" };
        diag.warn(&format!("{programs} {wait} for a device"));
    }
    for problem in &listing.problems {
        diag.warn(problem);
    }
    for row in listing.rows.iter().filter(|row| {
        row.state == rows::DeviceState::Claimed && row.holders.iter().all(|h| h.uid.is_none())
    }) {
        diag.warn(&format!(
            "{}: claimed by a process of another user",
            row.uuid
        ));
        diag.hint("as root, getgpu --list names the process");
    }
}

/// The device that has this index in the list. Without one nothing can be released, as
/// with an unused tag, and a tag may be a number too.
pub fn device_at(node: &mut Node<'_>, asked: Asked, index: usize) -> Result<Uuid, Failure> {
    let inventory = node.ask(|node| node.inventory(Detail::Uuid))?;
    let granted = asked.shown(&inventory).by_index();
    match IndexOrder::of(&granted.filter, &inventory)
        .places
        .get(index)
    {
        Some(Indexed::Device(device, _)) => Ok(device.uuid.clone()),
        _ => Err(ReserveCause::NoIndexNorTag { index }.into()),
    }
}

impl Listing {
    /// What the lock alone tells.
    fn of_lock(lock_file: &LockFile, probe: &OfdLock) -> Result<Self, Failure> {
        let in_line = getgpu_queue::waiting(probe, layout::all_tickets())?;
        let queue = queued(lock_file, probe)?;
        Ok(Self {
            driver: None,
            rows: Vec::new(),
            problems: Vec::new(),
            lock: lock_file.path.display().to_string(),
            lock_shared: host_sharing::with_host(lock_file),
            // A waiter that waits for a limit of its user draws no ticket, and a waiter in
            // another pid namespace is not in `queue`.
            waiting: queue.len().max(in_line),
            queue,
        })
    }
}

fn collect(node: &mut Node<'_>, asked: Asked, lock_file: &LockFile) -> Result<Listing, Failure> {
    // Read now, also by --watch.
    let drained = Drained::of(node.settings());
    let inventory = node.relist(drained.look())?;
    let granted = asked.shown(&inventory);
    // The list is shown as the site has it, also to a job whose grant goes beyond it.
    let list = allowed::allowed(node.settings())?;
    let probe = lock_file.open()?;
    let sorted = granted.filter.classify(&inventory);
    let by_index = granted.clone().by_index();
    let order = IndexOrder::of(&by_index.filter, &inventory);
    let mut rows = Vec::new();
    let (held, is_held_elsewhere) = holdings(lock_file, &probe, &inventory)?;
    let usages = drained.usages(node, &inventory)?;
    let mut watched = watched::read(lock_file);
    let devices = inventory.devices.iter().zip(&sorted);
    for ((device, outside), (held, usage)) in devices.zip(held.into_iter().zip(usages)) {
        let mut row = rows::Row {
            index: order.of_device(&device.uuid),
            allowed: list.as_ref().is_none_or(|list| list.names(device)),
            excluded: granted.filter.excluded.names(device),
            outside: *outside,
            ..rows::Row::new(device, &inventory, usage, held)
        };
        row.add(watched.remove(&device.uuid).unwrap_or_default());
        memory_limits::add(node, device, &mut row)?;
        rows.push(row);
    }
    tag_leases(&mut rows);
    rows.extend(
        inventory
            .nameless()
            .map(|silent| rows::Row::of_silent(silent, &inventory, &order)),
    );
    rows.sort_by_key(|row| (row.gpu, row.mig_index));
    let mut problems = crate::obtain::explain::problems(&granted.filter, &inventory);
    // A device of a sick GPU is not gone.
    if is_held_elsewhere && inventory.troubles().is_empty() {
        problems.extend(gone::lines(lock_file, &inventory));
    }
    Ok(Listing {
        driver: inventory.driver.clone(),
        rows,
        problems,
        ..Listing::of_lock(lock_file, &probe)?
    })
}

/// Adds the names of leases, which their programs have in their environments.
fn tag_leases(rows: &mut [rows::Row]) {
    let environments = CommandLines::start();
    let holders = rows.iter_mut().flat_map(|row| &mut row.holders);
    for holder in holders.filter(|holder| holder.tag.is_none() && holder.kind != "reservation") {
        if let (Some(pid), Some(uid)) = (holder.pid, holder.uid) {
            holder.tag = lease_tag::of(&environments, pid, uid);
        }
    }
}

/// How long a device has to be claimed to be shown so: most claims last for microseconds.
const CLAIMED: Duration = Duration::from_millis(100);

/// What is held of each device, and whether anything else is. Devices that others only claim are looked at twice, and
/// shown with who does.
fn holdings(
    lock_file: &LockFile,
    probe: &OfdLock,
    inventory: &Inventory,
) -> Result<(Vec<Holdings>, bool), Failure> {
    let devices = inventory.devices.iter();
    let spans: Vec<Span> = devices.map(|device| Span::of(&device.uuid)).collect();
    // On most nodes most devices are free, and any user can fill the lock, of which the kernel
    // walks past everything at each question.
    if probe.conflict(layout::all_devices())?.is_none() {
        return Ok((vec![Holdings::default(); spans.len()], false));
    }
    let elsewhere = is_held_beside(probe, spans.clone())?;
    let held = spans
        .iter()
        .map(|span| holders::holdings(lock_file, probe, *span));
    let mut all = held.collect::<Result<Vec<_>, _>>()?;
    if all.iter().any(|held| held.kept) {
        let keeper = holders::keeper(lock_file, probe)?;
        for held in all.iter_mut().filter(|held| held.kept) {
            held.holders = vec![keeper.clone()];
        }
    }
    if !all.iter().any(Holdings::claimed) {
        return Ok((all, elsewhere));
    }
    std::thread::sleep(CLAIMED);
    for (held, span) in all.iter_mut().zip(spans).filter(|(held, _)| held.claimed()) {
        *held = holders::holdings(lock_file, probe, span)?;
        if held.claimed() {
            held.holders = claimers::holders(lock_file, span);
        }
    }
    Ok((all, elsewhere))
}

/// Whether anything is locked before, between or behind these spans of devices.
fn is_held_beside(probe: &OfdLock, mut spans: Vec<Span>) -> Result<bool, Failure> {
    spans.sort_by_key(|span| span.all().start());
    let ends = spans.iter().map(|span| span.all().end());
    let starts = spans.iter().map(|span| span.all().start());
    let all = layout::all_devices();
    let gaps = [all.start()].into_iter().chain(ends);
    for (start, end) in gaps.zip(starts.chain([all.end()])) {
        if let Some(gap) = Range::between(start, end)
            && probe.conflict(gap)?.is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}
