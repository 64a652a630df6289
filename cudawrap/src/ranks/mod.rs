//! Which of a node's ranks this process is: read from what the launcher set, the
//! launcher's own variables first. `distribution` is what follows from it: how many ranks share
//! a device, and which device is whose; `apply_rank` puts that into a request. `launchers`
//! finds the launcher among the processes above, which tells whose a reservation is: this
//! rank's own, or all ranks'.

pub mod apply_rank;
pub mod distribution;
pub mod launchers;
pub mod slurm;

use getgpu_common::error::{Failure, Kind};

/// One rank of a parallel program on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number on this node, from 0.
    pub local: usize,
    /// How many there are on this node, if that is known.
    pub size: Option<usize>,
    /// The devices of the whole step on this node, where the launcher may have given each
    /// rank its own already (Slurm).
    pub devices: Option<usize>,
    /// Whether it speaks for all: rank 0 of the whole program.
    pub first: bool,
}

/// A launcher's variables: rank on the node, ranks on the node, rank in the whole
/// program. Empty: it has none.
struct Launcher {
    local: &'static str,
    size: &'static str,
    global: &'static str,
}

const fn launcher(local: &'static str, size: &'static str, global: &'static str) -> Launcher {
    Launcher {
        local,
        size,
        global,
    }
}

/// In this order where the processes above do not tell which launcher is the innermost
/// one.
const LAUNCHERS: [Launcher; 8] = [
    launcher(
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "OMPI_COMM_WORLD_RANK",
    ),
    launcher("MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK"),
    launcher(
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        "MV2_COMM_WORLD_RANK",
    ),
    launcher("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_RANK"),
    launcher("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "PALS_RANKID"),
    launcher("FLUX_TASK_LOCAL_ID", "", "FLUX_TASK_RANK"),
    launcher(
        "JSM_NAMESPACE_LOCAL_RANK",
        "JSM_NAMESPACE_LOCAL_SIZE",
        "JSM_NAMESPACE_RANK",
    ),
    launcher("MPT_LRANK", "", ""),
];
const TORCHRUN: Launcher = launcher("LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK");

/// The variables by which launchers tell a rank its number on the node.
fn local_ranks() -> impl Iterator<Item = &'static str> {
    LAUNCHERS
        .iter()
        .chain([&TORCHRUN])
        .map(|launcher| launcher.local)
        .chain(["SLURM_LOCALID"])
}

/// The rank that the environment says we are, `None` outside of any launcher. A launcher
/// that is started by another one inherits the variables of the outer one: torchrun says
/// so itself, of the others `nearest` tells the innermost if the processes above are
/// visible.
///
/// # Errors
///
/// A value that is no number, since rank 0 for all would put every rank on one device.
pub fn of(
    get: &impl Fn(&str) -> Option<String>,
    nearest: Option<launchers::Family>,
) -> Result<Option<Rank>, Failure> {
    if get("TORCHELASTIC_RUN_ID").is_some()
        && let Some(rank) = by(&TORCHRUN, get)?
    {
        return Ok(Some(rank));
    }
    if nearest == Some(launchers::Family::Slurm)
        && let Some(rank) = slurm::of(get)?
    {
        return Ok(Some(rank));
    }
    let first = LAUNCHERS
        .iter()
        .filter(|launcher| nearest.is_some_and(|family| family.sets(launcher.local)));
    for launcher in first.chain(&LAUNCHERS).chain([&TORCHRUN]) {
        if let Some(rank) = by(launcher, get)? {
            return Ok(Some(rank));
        }
    }
    slurm::of(get)
}

/// The rank by the variables of one launcher.
fn by(launcher: &Launcher, get: &impl Fn(&str) -> Option<String>) -> Result<Option<Rank>, Failure> {
    // -1 stands for "not distributed" in PyTorch and Hugging Face.
    if get(launcher.local).is_some_and(|local| local.trim() == "-1") {
        return Ok(None);
    }
    let Some(local) = number(get, launcher.local)? else {
        return Ok(None);
    };
    let size = match number(get, launcher.size)? {
        // Flux tells the size of the whole job only.
        None if launcher.local.starts_with("FLUX_")
            && number(get, "FLUX_JOB_NNODES")?.is_none_or(|nodes| nodes == 1) =>
        {
            number(get, "FLUX_JOB_SIZE")?.filter(|size| *size > local)
        }
        size => size,
    };
    if let Some(size) = size.filter(|size| *size <= local) {
        let text = format!(
            "{}={local} is not less than {}={size}",
            launcher.local, launcher.size
        );
        return Err(Failure::new(Kind::Usage, text).hint("unset both to choose without ranks"));
    }
    let first = number(get, launcher.global)?.map_or(local == 0, |global| global == 0);
    Ok(Some(Rank {
        local,
        size,
        devices: None,
        first,
    }))
}

/// A variable that holds a number; `None` if it is not set or empty.
fn number(get: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<usize>, Failure> {
    let Some(text) = Some(name)
        .filter(|name| !name.is_empty())
        .and_then(get)
        .filter(|text| !text.is_empty())
    else {
        return Ok(None);
    };
    text.trim().parse().map(Some).map_err(|_| {
        let shown = getgpu_common::diag::printable(&text);
        Failure::new(
            Kind::Usage,
            format!("{name}={shown}: not the number of a rank"),
        )
        .hint(format!("unset {name} to choose without ranks"))
    })
}

#[cfg(test)]
#[path = "ranks_tests.rs"]
mod tests;
