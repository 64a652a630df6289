//! Which of a node's ranks this process is: read from what the launcher set, the launcher's own variables first.
//! `spread` is what follows from it: how many ranks share a device, and which device is whose; `placed` puts that into a request.

pub mod placed;
pub mod slurm;
pub mod spread;

use getgpu_common::error::{Failure, Kind};

/// One rank of a parallel program on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Its number on this node, from 0.
    pub local: usize,
    /// How many there are on this node, if that is known.
    pub size: Option<usize>,
    /// The devices of the whole step on this node, where the launcher may have given each rank its own already (Slurm).
    pub devices: Option<usize>,
    /// Whether it speaks for all: rank 0 of the whole program.
    pub first: bool,
}

/// A launcher's variables: rank on the node, ranks on the node, rank in the whole program. Empty: it has none.
struct Launcher {
    local: &'static str,
    size: &'static str,
    global: &'static str,
}

const fn launcher(local: &'static str, size: &'static str, global: &'static str) -> Launcher {
    Launcher { local, size, global }
}

/// In this order, since a launcher that is started by another inherits the outer one's: an sbatch script hands all its ranks
/// SLURM_LOCALID=0, and torchrun is started by any of them.
const LAUNCHERS: [Launcher; 9] = [
    launcher("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"),
    launcher("MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_RANK"),
    launcher("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_RANK"),
    launcher("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", "PMI_RANK"),
    launcher("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE", "PALS_RANKID"),
    launcher("FLUX_TASK_LOCAL_ID", "", "FLUX_TASK_RANK"),
    launcher("JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE", "JSM_NAMESPACE_RANK"),
    launcher("MPT_LRANK", "", ""),
    launcher("LOCAL_RANK", "LOCAL_WORLD_SIZE", "RANK"),
];

/// The rank that the environment says we are; none outside of any launcher. A value that is no number is told, since rank 0 for all
/// would put everybody on one device.
pub fn of(get: &impl Fn(&str) -> Option<String>) -> Result<Option<Rank>, Failure> {
    for launcher in &LAUNCHERS {
        let Some(local) = number(get, launcher.local)? else { continue };
        let size = number(get, launcher.size)?;
        if let Some(size) = size.filter(|size| *size <= local) {
            let text = format!("{}={local} is not below {}={size}", launcher.local, launcher.size);
            return Err(Failure::new(Kind::Usage, text).hint("unset both to choose without ranks"));
        }
        let first = number(get, launcher.global)?.map_or(local == 0, |global| global == 0);
        return Ok(Some(Rank { local, size, devices: None, first }));
    }
    slurm::of(get)
}

/// A variable that holds a number; none if it is not set or empty.
fn number(get: &impl Fn(&str) -> Option<String>, name: &str) -> Result<Option<usize>, Failure> {
    let Some(text) = Some(name).filter(|name| !name.is_empty()).and_then(get).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    text.trim().parse().map(Some).map_err(|_| {
        let shown = getgpu_common::diag::printable(&text);
        Failure::new(Kind::Usage, format!("{name}={shown}: not the number of a rank"))
            .hint(format!("unset {name} to choose without ranks"))
    })
}

#[cfg(test)]
#[path = "ranks_tests.rs"]
mod tests;
