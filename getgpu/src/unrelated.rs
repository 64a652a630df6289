//! Programs on a device that a call did not start and was not started by. A server, such
//! as a terminal multiplexer, an editor or a build daemon, passes on the
//! CUDA_VISIBLE_DEVICES of its first client, and so two unrelated programs get one device.

use std::collections::HashSet;

use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Detail;
use getgpu_common::lock::{Side, Span, holders};
use getgpu_common::procfs::{self, Stat, ancestry};

use crate::invocation::{Invocation, open};

impl Invocation<'_> {
    /// Prints a line if an unrelated program has the one device that CUDA_VISIBLE_DEVICES
    /// names. What cannot be read is no reason to fail.
    pub fn warn_of_unrelated(&self, device: &Uuid) {
        let related: HashSet<i32> = ancestry::lineage().iter().map(|(pid, _)| *pid).collect();
        let unrelated = |pid: &i32| !related.contains(pid) && !is_below(*pid, &related);
        let Some(pid) = self.programs_on(device).into_iter().find(unrelated) else {
            return;
        };
        let Some(comm) = procfs::comm(pid) else {
            return;
        };
        let user = procfs::euid(pid).map_or_else(|| "another user".to_owned(), procfs::user_name);
        let program = procfs::program_name(pid, &comm);
        self.diag.warn(&format!(
            "{device}: also used by {user} (pid {pid}, {program}), which this call is not related to"
        ));
        self.diag.hint(
            "CUDA_VISIBLE_DEVICES names it, perhaps since a server passes it on: --ignore-grant chooses among all devices",
        );
    }

    /// The programs that lease the device, and those that NVML shows there.
    fn programs_on(&self, device: &Uuid) -> Vec<i32> {
        let leases = self.lock_file.open().and_then(|probe| {
            let pids = holders::process_ids(&probe, Span::of(device), Side::Lease)?;
            Ok(pids.into_iter().collect::<Vec<i32>>())
        });
        let processes = open(self.settings).and_then(|client| {
            client.ask_all(|client| {
                let usage = client.usage(device, Detail::Full)?;
                Ok(usage
                    .processes
                    .iter()
                    .map(|one| one.pid as i32)
                    .collect::<Vec<_>>())
            })
        });
        let mut programs = leases.unwrap_or_default();
        programs.extend(processes.unwrap_or_default());
        programs
    }
}

/// Whether a process descends from this one, the nearest of the `related`.
fn is_below(pid: i32, related: &HashSet<i32>) -> bool {
    let own = std::process::id() as i32;
    let above = ancestry::ancestors(pid, 64).into_iter();
    above
        .map(|stat: Stat| stat.pid)
        .find(|pid| related.contains(pid))
        == Some(own)
}
