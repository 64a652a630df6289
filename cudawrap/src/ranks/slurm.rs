//! Slurm's variables of a task (srun(1), OUTPUT ENVIRONMENT VARIABLES). They count only
//! inside a step: a batch script, and whatever it starts by other means than srun, has
//! SLURM_LOCALID=0 without being a rank.

use getgpu_model::{
    Failure,
    batch::{is_step, tasks_on},
};

use super::rank::{Rank, RankVariables, number};

/// The task of a step that this process is.
pub fn find_rank(get: RankVariables<'_>) -> Result<Option<Rank>, Failure> {
    let Some(local) = number(get, "SLURM_LOCALID")? else {
        return Ok(None);
    };
    // A batch script is told that it is the first of all, and nothing of a step.
    let stepped = ["SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"];
    let in_step =
        is_step(get("SLURM_STEP_ID").as_deref()) || stepped.iter().any(|name| get(name).is_some());
    let later = local > 0 || number(get, "SLURM_PROCID")?.is_some_and(|global| global > 0);
    if !later && !in_step {
        return Ok(None);
    }
    let size = size(get)?;
    let first = number(get, "SLURM_PROCID")?.map_or(local == 0, |global| global == 0);
    // A step whose list names all GPUs of the node was not divided: a task that sees
    // fewer has narrowed them by itself.
    let on_node = number(get, "SLURM_GPUS_ON_NODE").unwrap_or(None);
    let listed =
        get("SLURM_STEP_GPUS").map(|list| list.split(',').filter(|gpu| !gpu.is_empty()).count());
    let devices = on_node.filter(|on_node| listed.is_none_or(|listed| listed < *on_node));
    // A step inside a step hands its own on; what does not fit together is not believed.
    Ok(Some(Rank {
        local,
        size: size.filter(|size| *size > local),
        devices,
        first,
    }))
}

/// The tasks of the step on this node: as the step says, or, where it does not, the job.
fn size(get: RankVariables<'_>) -> Result<Option<usize>, Failure> {
    let node = number(get, "SLURM_NODEID")?.unwrap_or(0);
    let listed = |name: &str| get(name).and_then(|list| tasks_on(&list, node));
    let on_one = |nodes: &str, tasks: &str| match number(get, nodes)? {
        Some(1) => number(get, tasks),
        _ => Ok(None),
    };
    if let Some(size) = listed("SLURM_STEP_TASKS_PER_NODE") {
        return Ok(Some(size));
    }
    if let Some(size) = on_one("SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS")? {
        return Ok(Some(size));
    }
    let size = listed("SLURM_TASKS_PER_NODE").or(number(get, "SLURM_NTASKS_PER_NODE")?);
    Ok(size.or(on_one("SLURM_NNODES", "SLURM_NTASKS")?))
}
