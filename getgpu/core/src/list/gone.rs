//! Devices that are held and that NVML no longer lists, as after a re-partitioning under a
//! running program: the holder is named as long as it keeps the device, since it has to end
//! before the GPU is in order again. Only processes that may be read are found: one's own,
//! and to root all.

use getgpu_linux::{
    CommandLines, Stat,
    procfs::{self, process_memory},
    users,
};
use getgpu_lock::{
    HOLDER_NAME, HolderProcess, LockFile, Span,
    ownership_proof::{locks_of, shown_in},
};
use getgpu_model::{Inventory, Uuid, Visible};

/// A line for each holder of a device that is not in the inventory.
pub fn lines(lock_file: &LockFile, inventory: &Inventory) -> Vec<String> {
    let known: Vec<Span> = inventory
        .devices
        .iter()
        .map(|d| Span::of(&d.uuid))
        .collect();
    let command_lines = CommandLines::start();
    let pids = procfs::pids().into_iter();
    pids.filter_map(|pid| {
        let locks = locks_of(pid);
        let has_lock = locks.iter().any(|lock| lock.inode == lock_file.identity.1);
        let stat = Stat::read(pid).filter(|_| has_lock)?;
        let uid = procfs::euid(pid)?;
        let held = named_by(&stat, uid, &command_lines)
            .into_iter()
            .filter(|uuid| {
                let span = Span::of(uuid);
                let held = span.lease_and_reservation();
                !known.contains(&span) && !shown_in(&locks, lock_file, held).is_empty()
            });
        let (user, program) = (users::name(uid), procfs::program_name(pid, &stat.comm));
        let lines = held.map(|uuid| {
            format!("{uuid}: gone or hidden here, and held by {user} (pid {pid}, {program})")
        });
        Some(lines.collect::<Vec<_>>())
    })
    .flatten()
    .collect()
}

/// The devices that a reservation names, or the environment of a program with a lease.
fn named_by(stat: &Stat, uid: u32, command_lines: &CommandLines) -> Vec<Uuid> {
    if stat.comm == HOLDER_NAME {
        let words = command_lines.command_line(stat.pid, uid);
        let holder = HolderProcess::parse(stat.pid, stat.start, &words);
        return holder.map(|holder| holder.args.devices).unwrap_or_default();
    }
    let environment = command_lines.environment(stat.pid, uid);
    let visible = process_memory::value(&environment, "CUDA_VISIBLE_DEVICES");
    let visible = visible.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Visible::parse(visible.as_deref().map(AsRef::as_ref))
        .full_uuids()
        .unwrap_or_default()
}
