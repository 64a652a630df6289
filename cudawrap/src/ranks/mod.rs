//! Which of a node's ranks this process is: read from what the launcher set, the
//! launcher's own variables first. `distribution` is what follows from it: how many ranks share
//! a device, and which device is whose; `apply_rank` puts that into a request; `waiting` says
//! why a rank does not wait. `launchers` finds the launcher among the processes above, which
//! tells whose a reservation is: this rank's own, or that of all ranks.

pub mod apply_rank;
pub mod distribution;
pub mod launchers;
pub mod rank;
pub mod slurm;
pub mod waiting;

use getgpu_model::{Diag, Failure};

use crate::causes::CudawrapUsage;
use getgpu_settings::Settings;

pub use rank::Rank;

use rank::{RankVariables, number};

/// Which rank this process is, and the settings that are in force for it.
///
/// # Errors
///
/// A variable of a launcher has a value that is no rank.
pub fn of_process(
    settings: &Settings,
    wait_is_typed: bool,
) -> Result<(Option<Rank>, Settings), Failure> {
    let rank = apply_rank::of_process()?;
    let settings = waiting::settings(settings, rank.as_ref(), wait_is_typed);
    Ok((rank, settings))
}

/// The same for a linked program, whose user may not know of any of this: invalid values
/// warn and are ignored.
pub fn of_linked(settings: &Settings, diag: &Diag) -> (Option<Rank>, Settings) {
    of_process(settings, false).unwrap_or_else(|failure| {
        diag.warn(&format!("{}: ignored", failure.message));
        (None, settings.clone())
    })
}

/// Whether this process is a rank with others beside it, as far as its environment tells.
pub fn is_one_of_several() -> bool {
    let rank = apply_rank::of_process().unwrap_or_default();
    rank.is_some_and(|rank| rank.has_siblings())
}

/// One way to start ranks: how it is known and typed, and the variables that it sets. An
/// empty name stands for a variable that it does not set.
struct Launcher {
    /// The processes that start its ranks, as `stat` has their names: at most 15 bytes. Empty:
    /// it is never found as the innermost launcher.
    processes: &'static [&'static str],
    /// How it is typed, up to the number of ranks, for hints.
    command: &'static str,
    /// The rank on the node.
    local: &'static str,
    /// The ranks on the node.
    size: &'static str,
    /// The rank in the whole program.
    global: &'static str,
    /// Where `size` is empty: how many nodes, and ranks on all; used on one node only.
    of_all_nodes: [&'static str; 2],
}

const OPEN_MPI: [&str; 6] = [
    "orted",
    "prted",
    "prterun",
    "mpirun",
    "orterun",
    "mpirun.openmpi",
];
/// MPICH, Intel MPI, MVAPICH.
const HYDRA: [&str; 2] = ["hydra_pmi_proxy", "pmi_proxy"];

/// How several launchers are typed.
const MPIRUN: &str = "mpirun -n";

const fn launcher(
    processes: &'static [&'static str],
    command: &'static str,
    variables: [&'static str; 3],
) -> Launcher {
    let [local, size, global] = variables;
    Launcher {
        processes,
        command,
        local,
        size,
        global,
        of_all_nodes: ["", ""],
    }
}

const TORCHRUN: Launcher = launcher(
    &["torchrun"],
    "torchrun --no_python --nproc_per_node",
    ["LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK"],
);
/// Its other variables are in `slurm`.
const SLURM: Launcher = launcher(
    &["slurmstepd"],
    "srun -n",
    ["SLURM_LOCALID", "", "SLURM_PROCID"],
);

/// In this order where the processes above do not tell which launcher is the innermost
/// one. Slurm is the last, since a batch script hands its own rank on to all that it
/// starts.
const LAUNCHERS: &[Launcher] = &[
    launcher(
        &OPEN_MPI,
        MPIRUN,
        [
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
            "OMPI_COMM_WORLD_RANK",
        ],
    ),
    launcher(
        &HYDRA,
        MPIRUN,
        ["MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK"],
    ),
    launcher(
        &HYDRA,
        MPIRUN,
        [
            "MV2_COMM_WORLD_LOCAL_RANK",
            "MV2_COMM_WORLD_LOCAL_SIZE",
            "MV2_COMM_WORLD_RANK",
        ],
    ),
    launcher(
        &HYDRA,
        MPIRUN,
        ["PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_RANK"],
    ),
    launcher(
        &["palsd"],
        "mpiexec -n",
        ["PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "PALS_RANKID"],
    ),
    // Flux tells the size of the whole job only.
    Launcher {
        of_all_nodes: ["FLUX_JOB_NNODES", "FLUX_JOB_SIZE"],
        ..launcher(
            &["flux-shell"],
            "flux run -n",
            ["FLUX_TASK_LOCAL_ID", "", "FLUX_TASK_RANK"],
        )
    },
    launcher(
        &["jsrund"],
        "jsrun -n",
        [
            "JSM_NAMESPACE_LOCAL_RANK",
            "JSM_NAMESPACE_LOCAL_SIZE",
            "JSM_NAMESPACE_RANK",
        ],
    ),
    launcher(&[], MPIRUN, ["MPT_LRANK", "", ""]),
    TORCHRUN,
    SLURM,
];

/// The rank that the environment tells. Where one launcher starts another, the inner one
/// inherits the variables of the outer one, so the innermost has to be known: torchrun sets a
/// variable that says it is there; for the others, `nearest` is the name of the nearest
/// launcher among the processes above.
///
/// # Errors
///
/// A value that is no number, since rank 0 for all would put every rank on one device.
pub fn find_rank(get: RankVariables<'_>, nearest: Option<&str>) -> Result<Option<Rank>, Failure> {
    let torchrun = get("TORCHELASTIC_RUN_ID").map(|_| &TORCHRUN);
    let is_nearest =
        |launcher: &&Launcher| nearest.is_some_and(|name| launcher.processes.contains(&name));
    let innermost = torchrun
        .into_iter()
        .chain(LAUNCHERS.iter().filter(is_nearest));
    for launcher in innermost.chain(LAUNCHERS) {
        if let Some(rank) = launcher.rank(get)? {
            return Ok(Some(rank));
        }
    }
    Ok(None)
}

impl Launcher {
    /// The rank by this launcher's variables.
    fn rank(&self, get: RankVariables<'_>) -> Result<Option<Rank>, Failure> {
        if self.local == SLURM.local {
            return slurm::find_rank(get);
        }
        // -1 stands for "not distributed" in PyTorch and Hugging Face.
        if get(self.local).is_some_and(|local| local.trim() == "-1") {
            return Ok(None);
        }
        let Some(local) = number(get, self.local)? else {
            return Ok(None);
        };
        let size = number(get, self.size)?;
        if let Some(size) = size.filter(|size| *size <= local) {
            let (rank, of) = (self.local, self.size);
            return Err(CudawrapUsage::RankOutside {
                rank,
                local,
                of,
                size,
            }
            .into());
        }
        let size = size.or(self.size_on_one_node(get)?.filter(|size| *size > local));
        let first = number(get, self.global)?.map_or(local == 0, |global| global == 0);
        Ok(Some(Rank {
            local,
            size,
            devices: None,
            first,
        }))
    }

    /// The ranks of the whole program, if it has one node.
    fn size_on_one_node(&self, get: RankVariables<'_>) -> Result<Option<usize>, Failure> {
        let [nodes, ranks] = self.of_all_nodes;
        match number(get, nodes)? {
            None | Some(1) => number(get, ranks),
            Some(_) => Ok(None),
        }
    }
}

#[cfg(test)]
#[path = "ranks_tests.rs"]
mod tests;
