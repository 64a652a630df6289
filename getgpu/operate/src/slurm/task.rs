//! What Slurm's variables say of a task (srun(1), OUTPUT ENVIRONMENT VARIABLES): its jobs,
//! its grant, how many tasks there are beside it, and which part of the grant is its own.
//! Pure, over a function that reads a variable.

use getgpu_model::batch::{is_step, tasks_on, whole};

/// Reads a variable.
pub type TaskVariables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The part of its grant that a task has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// All of it, as Slurm has set it.
    All,
    /// One device of it.
    One,
    /// One part of so many of a device of it.
    Part(usize),
}

/// A whole number.
fn number(get: TaskVariables<'_>, name: &str) -> Option<usize> {
    whole(&get(name)?)
}

/// A variable that is not empty.
fn set(get: TaskVariables<'_>, name: &str) -> Option<String> {
    get(name).filter(|value| !value.is_empty())
}

fn in_step(get: TaskVariables<'_>) -> bool {
    is_step(get("SLURM_STEP_ID").as_deref())
}

/// The numbers under which the prolog may have reserved a part: a task of a heterogeneous
/// job gets the number of its first component, the prolog that of the one on this node.
pub fn jobs(get: TaskVariables<'_>, own: &str) -> Vec<String> {
    let others = (0..)
        .map_while(|place| {
            let names = ["SLURM_JOB_ID_HET_GROUP", "SLURM_JOB_ID_PACK_GROUP"];
            let job = names
                .iter()
                .find_map(|name| number(get, &format!("{name}_{place}")))?;
            Some(job.to_string())
        })
        .filter(|job| job != own);
    std::iter::once(own.to_owned()).chain(others).collect()
}

/// How many devices of this node Slurm has granted to the job; 0 if it does not say, none
/// without a grant.
pub fn granted(get: TaskVariables<'_>) -> Option<usize> {
    match get("CUDA_VISIBLE_DEVICES") {
        Some(list) if list.is_empty() || list.starts_with('-') || list == "NoDevFiles" => None,
        Some(list) => Some(list.split(',').count()),
        // --gpu-bind=none, and gres without variables. A step that asked for no GPUs
        // inherits what the batch script was told about its job.
        None => {
            let list = if in_step(get) {
                "SLURM_STEP_GPUS"
            } else {
                "SLURM_JOB_GPUS"
            };
            let count = number(get, "SLURM_GPUS_ON_NODE").unwrap_or(0);
            let listed = get(list).is_some_and(|list| !list.is_empty());
            (listed || count > 0).then_some(count)
        }
    }
}

/// What the job was promised: job_submit.lua says so in two variables, since `--export=NONE`
/// keeps those of Slurm's alone; else by its partition, one of `partitions`.
pub fn promised<'a>(
    get: TaskVariables<'_>,
    mut partitions: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let partition = set(get, "SLURM_JOB_PARTITION");
    set(get, "GETGPU_SLURM_PART")
        .or_else(|| set(get, "SLURM_GETGPU_PART"))
        .or_else(|| partition.filter(|own| partitions.any(|name| name == own)))
}

/// Whether this is the batch script of a job with several tasks, each of which is asked
/// for by itself.
pub fn only_starts_tasks(get: TaskVariables<'_>) -> bool {
    !in_step(get) && !["", "1"].contains(&get("SLURM_NTASKS").unwrap_or_default().as_str())
}

/// How a grant of `devices` is divided among the tasks on this node.
pub fn division(get: TaskVariables<'_>, devices: usize) -> Division {
    let tasks = tasks(get);
    let on_node = number(get, "SLURM_GPUS_ON_NODE").unwrap_or(0);
    let all = devices * tasks;
    // Slurm has divided the grant among the tasks (--gpus-per-task=2).
    let divided = all > 0 && all <= on_node;
    if tasks == 1 || (divided && devices > 1) {
        return Division::All;
    }
    if !divided && devices > 0 && tasks > devices {
        return Division::Part(tasks.div_ceil(devices));
    }
    Division::One
}

/// The tasks on this node, by the step or, where that does not say, by the job; 0 if
/// neither does. A batch script is one task, and its variables are inherited by its steps.
/// If only the sum over several nodes is known, it is the sum.
fn tasks(get: TaskVariables<'_>) -> usize {
    if !in_step(get) && set(get, "SLURM_TASKS_PER_NODE").is_some() {
        return 1;
    }
    let node = get("SLURM_NODEID").map_or(Some(0), |node| whole(&node));
    let on_node = |name: &str| tasks_on(&set(get, name)?, node?);
    on_node("SLURM_STEP_TASKS_PER_NODE")
        .or_else(|| on_node("SLURM_TASKS_PER_NODE"))
        .or_else(|| match get("SLURM_STEP_NUM_TASKS") {
            Some(all) if !all.is_empty() => whole(&all),
            _ => number(get, "SLURM_NTASKS"),
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<R>(pairs: &[(&str, &str)], ask: impl Fn(TaskVariables<'_>) -> R) -> R {
        ask(&|name| {
            let pair = pairs.iter().find(|(known, _)| *known == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    #[rustfmt::skip]
    fn a_grant_is_divided_among_the_tasks_of_the_node() {
        let step = ("SLURM_STEP_ID", "0");
        let on_node = |count| ("SLURM_GPUS_ON_NODE", count);
        let listed = |list| ("SLURM_STEP_TASKS_PER_NODE", list);
        for (devices, pairs, expected) in [
            (4, &[step, listed("1")][..], Division::All),
            (1, &[step, listed("1")], Division::All),
            (4, &[step, listed("4")], Division::One),
            (4, &[step, listed("8")], Division::Part(2)),
            (2, &[step, listed("5(x2),3"), ("SLURM_NODEID", "2")], Division::Part(2)),
            (2, &[step, listed("5(x2),3"), ("SLURM_NODEID", "3")], Division::One),
            (2, &[step, listed("2"), on_node("4")], Division::All),
            (1, &[step, listed("2"), on_node("4")], Division::One),
            (2, &[step, listed("4"), on_node("4")], Division::Part(2)),
            (0, &[step, listed("4")], Division::One),
            (0, &[step, listed("1")], Division::All),
            (4, &[("SLURM_TASKS_PER_NODE", "4")], Division::All),
            (4, &[("SLURM_STEP_ID", "-5"), ("SLURM_TASKS_PER_NODE", "4")], Division::All),
            (4, &[step, ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_NTASKS", "4")], Division::All),
            (4, &[step, ("SLURM_NTASKS", "6")], Division::Part(2)),
            (4, &[step, ("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_NTASKS", "1")], Division::One),
            (4, &[step, ("SLURM_TASKS_PER_NODE", "1"), ("SLURM_NTASKS", "4")], Division::All),
            (4, &[step, listed("4"), ("SLURM_TASKS_PER_NODE", "1")], Division::One),
            (4, &[step, listed("1,2(x3),1"), ("SLURM_NODEID", "3")], Division::One),
            (4, &[step, listed("4(x2),1,3(x2)"), ("SLURM_NODEID", "2")], Division::All),
            (4, &[step, listed("4(x08)")], Division::One), (4, &[step, listed("x")], Division::One),
            (4, &[step, listed("4(xx)")], Division::One), (4, &[step, listed("-1")], Division::One),
            (4, &[step, listed("1"), ("SLURM_NODEID", "x")], Division::One),
            (4, &[step], Division::One),
        ] {
            assert_eq!(with(pairs, |get| division(get, devices)), expected, "{devices} {pairs:?}");
        }
    }

    #[test]
    fn a_grant_is_what_the_variable_or_slurm_names() {
        let step = ("SLURM_STEP_ID", "0");
        #[rustfmt::skip]
        let cases = [
            (&[][..], None),
            (&[("CUDA_VISIBLE_DEVICES", "0,1")], Some(2)),
            (&[("CUDA_VISIBLE_DEVICES", "")], None),
            (&[("CUDA_VISIBLE_DEVICES", "-1")], None),
            (&[("SLURM_JOB_GPUS", "2")], Some(0)),
            (&[step, ("SLURM_JOB_GPUS", "2")], None),
            (&[("SLURM_STEP_ID", "-5"), ("SLURM_JOB_GPUS", "2")], Some(0)),
            (&[step, ("SLURM_GPUS_ON_NODE", "2")], Some(2)),
            (&[step, ("SLURM_GPUS_ON_NODE", "0")], None),
            (&[step, ("SLURM_STEP_GPUS", "2,3"), ("SLURM_GPUS_ON_NODE", "2")], Some(2)),
        ];
        for (pairs, expected) in cases {
            assert_eq!(with(pairs, granted), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_batch_script_of_several_tasks_only_starts_them() {
        let several = ("SLURM_NTASKS", "2");
        for (pairs, expected) in [
            (&[several][..], true),
            (&[several, ("SLURM_STEP_ID", "-5")], true),
            (&[several, ("SLURM_STEP_ID", "0")], false),
            (&[("SLURM_NTASKS", "1"), ("SLURM_STEP_ID", "-5")], false),
        ] {
            assert_eq!(with(pairs, only_starts_tasks), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_job_is_promised_a_part_by_a_variable_or_its_partition() {
        let partition = ("SLURM_JOB_PARTITION", "parts");
        for (pairs, expected) in [
            (&[][..], None),
            (&[partition], Some("parts")),
            (&[("SLURM_JOB_PARTITION", "main")], None),
            (
                &[partition, ("SLURM_GETGPU_PART", "gpushare4")],
                Some("gpushare4"),
            ),
            (&[("GETGPU_SLURM_PART", "")], None),
        ] {
            let promised = with(pairs, |get| promised(get, ["parts"].into_iter()));
            assert_eq!(promised.as_deref(), expected, "{pairs:?}");
        }
    }

    #[test]
    fn a_heterogeneous_job_has_a_number_for_each_component() {
        let pairs = [
            ("SLURM_JOB_ID_HET_GROUP_0", "6"),
            ("SLURM_JOB_ID_HET_GROUP_1", "7"),
        ];
        assert_eq!(with(&pairs, |get| jobs(get, "6")), ["6", "7"]);
        assert_eq!(with(&[], |get| jobs(get, "6")), ["6"]);
    }
}
