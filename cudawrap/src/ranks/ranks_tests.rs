use super::*;
use getgpu_model::Kind;

fn rank(variables: &str) -> Result<Option<Rank>, Failure> {
    nested(variables, None)
}

fn nested(variables: &str, nearest: Option<&str>) -> Result<Option<Rank>, Failure> {
    let pairs: Vec<(&str, &str)> = variables
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .collect();
    let get = |name: &str| {
        pairs
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    find_rank(&get, nearest)
}

fn found(local: usize, size: impl Into<Option<usize>>, first: bool) -> Option<Rank> {
    Some(Rank {
        local,
        size: size.into(),
        devices: None,
        first,
    })
}

#[test]
fn every_launcher_says_which_rank_it_is() {
    #[rustfmt::skip]
    let cases = [
        ("", None),
        ("OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_COMM_WORLD_RANK=7",
            found(3, 4, false)),
        ("MPI_LOCALRANKID=0 MPI_LOCALNRANKS=8 PMI_RANK=8", found(0, 8, false)),
        ("MPI_LOCALRANKID=0 MPI_LOCALNRANKS=8 PMI_RANK=0", found(0, 8, true)),
        ("MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2", found(1, 2, false)),
        ("PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=2", found(1, 2, false)),
        ("PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 PALS_RANKID=1", found(1, 2, false)),
        ("FLUX_TASK_LOCAL_ID=1 FLUX_TASK_RANK=5", found(1, None, false)),
        ("FLUX_TASK_LOCAL_ID=1 FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=1",
            found(1, 4, false)),
        // The size of the whole job is that of the node only where there is one.
        ("FLUX_TASK_LOCAL_ID=1 FLUX_TASK_RANK=5 FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=2",
            found(1, None, false)),
        ("FLUX_TASK_LOCAL_ID=1 FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4", found(1, 4, false)),
        ("FLUX_TASK_LOCAL_ID=1 FLUX_TASK_RANK=1 FLUX_JOB_SIZE=1", found(1, None, false)),
        ("JSM_NAMESPACE_LOCAL_RANK=1 JSM_NAMESPACE_LOCAL_SIZE=2", found(1, 2, false)),
        ("MPT_LRANK=0", found(0, None, true)),
        ("LOCAL_RANK=2 LOCAL_WORLD_SIZE=4 RANK=6", found(2, 4, false)),
        (
            "SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_PROCID=5 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4,2",
            found(1, 2, false),
        ),
        (
            "SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_PROCID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=3",
            found(0, 3, true),
        ),
        ("SLURM_STEP_ID=0 SLURM_LOCALID=2 SLURM_PROCID=6 SLURM_NODEID=1 SLURM_TASKS_PER_NODE=4(x2)",
            found(2, 4, false)),
        ("SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_NTASKS_PER_NODE=4", found(1, 4, false)),
        ("SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_PROCID=0 SLURM_NNODES=1 SLURM_NTASKS=4",
            found(0, 4, true)),
        ("SLURM_LOCALID=1 SLURM_PROCID=1 SLURM_NNODES=1 SLURM_NTASKS=4", found(1, 4, false)),
        ("SLURM_LOCALID=1 SLURM_NNODES=1 SLURM_NTASKS=4", found(1, 4, false)),
        ("SLURM_STEP_ID=0 SLURM_LOCALID=4 SLURM_STEP_TASKS_PER_NODE=4", found(4, None, false)),
        ("SLURM_LOCALID=0 SLURM_PROCID=4 SLURM_NNODES=2 SLURM_NTASKS=8", found(0, None, false)),
        ("SLURM_LOCALID=0 SLURM_PROCID=0 SLURM_STEP_TASKS_PER_NODE=2", found(0, 2, true)),
    ];
    for (variables, expected) in &cases {
        assert_eq!(&rank(variables).unwrap(), expected, "{variables}");
    }
    let has_case = |launcher: &Launcher| {
        let mut cases = cases.iter();
        cases.any(|(variables, _)| {
            let mut names = variables.split(['=', ' ']);
            names.any(|name| name == launcher.local)
        })
    };
    let missing = LAUNCHERS.iter().filter(|launcher| !has_case(launcher));
    let missing: Vec<&str> = missing.map(|launcher| launcher.local).collect();
    assert!(
        missing.is_empty(),
        "add a case to this test for {missing:?}"
    );
}

#[test]
fn a_batch_script_is_no_rank_and_the_launcher_in_it_wins() {
    let batch =
        "SLURM_JOB_ID=9 SLURM_LOCALID=0 SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_TASKS_PER_NODE=4";
    assert_eq!(rank(batch).unwrap(), None);
    let since_26_05 = format!("{batch} SLURM_STEPID=-5 SLURM_STEP_ID=-5");
    assert_eq!(rank(&since_26_05).unwrap(), None);
    let mpirun = format!(
        "{batch} OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_COMM_WORLD_RANK=2"
    );
    assert_eq!(rank(&mpirun).unwrap(), found(2, 4, false));
    // hydra starts its proxy by srun: a step of one task.
    let hydra = format!(
        "{batch} SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 MPI_LOCALRANKID=3 MPI_LOCALNRANKS=4 PMI_RANK=3"
    );
    assert_eq!(rank(&hydra).unwrap(), found(3, 4, false));
    let slurm = rank(
        "SLURM_STEP_ID=1 SLURM_LOCALID=2 SLURM_STEP_TASKS_PER_NODE=4 SLURM_GPUS_ON_NODE=4 SLURM_PROCID=2",
    );
    assert_eq!(slurm.unwrap().unwrap().devices, Some(4));
}

#[test]
fn of_nested_launchers_the_innermost_wins() {
    let torch = "TORCHELASTIC_RUN_ID=x LOCAL_RANK=2 LOCAL_WORLD_SIZE=4 RANK=2";
    let mpi = "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_RANK=0";
    let step = "SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_PROCID=1 SLURM_STEP_TASKS_PER_NODE=3";
    assert_eq!(
        rank(&format!("{torch} {mpi} {step}")).unwrap(),
        found(2, 4, false)
    );
    let both = format!("{mpi} {step}");
    for (nearest, expected) in [
        (Some("slurmstepd"), found(1, 3, false)),
        (Some("orted"), found(0, 1, true)),
        (Some("hydra_pmi_proxy"), found(0, 1, true)),
        (None, found(0, 1, true)),
    ] {
        assert_eq!(nested(&both, nearest).unwrap(), expected, "{nearest:?}");
    }
    let hydra = format!("{mpi} MPI_LOCALRANKID=3 MPI_LOCALNRANKS=4 PMI_RANK=3");
    assert_eq!(
        nested(&hydra, Some("hydra_pmi_proxy")).unwrap(),
        found(3, 4, false)
    );
}

#[test]
fn a_task_that_narrowed_its_grant_was_not_given_it_so() {
    let task = "SLURM_STEP_ID=0 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=2 SLURM_GPUS_ON_NODE=2";
    let devices = |more: &str| rank(&format!("{task} {more}")).unwrap().unwrap().devices;
    let more = ["", "SLURM_STEP_GPUS=1", "SLURM_STEP_GPUS=0,1"];
    assert_eq!(more.map(devices), [Some(2), Some(2), None]);
}

#[test]
fn what_is_no_rank_is_said_with_what_to_unset() {
    #[rustfmt::skip]
    let cases = [
        ("OMPI_COMM_WORLD_LOCAL_RANK=x", "OMPI_COMM_WORLD_LOCAL_RANK=x: not the number of a rank",
            "unset OMPI_COMM_WORLD_LOCAL_RANK to"),
        ("PMI_LOCAL_RANK=0 PMI_LOCAL_SIZE=many", "PMI_LOCAL_SIZE=many: not the number of a rank",
            "unset PMI_LOCAL_SIZE to"),
        ("LOCAL_RANK=4 LOCAL_WORLD_SIZE=4", "LOCAL_RANK=4 is not less than LOCAL_WORLD_SIZE=4",
            "unset both to"),
        ("MPI_LOCALRANKID=0 MPI_LOCALNRANKS=0", "MPI_LOCALRANKID=0 is not less than MPI_LOCALNRANKS=0",
            "unset both to"),
        ("SLURM_STEP_ID=0 SLURM_LOCALID=one", "SLURM_LOCALID=one: not the number of a rank",
            "unset SLURM_LOCALID to"),
    ];
    for (variables, text, hint) in cases {
        let failure = rank(variables).unwrap_err();
        assert_eq!((failure.kind, &*failure.message), (Kind::Usage, text));
        assert_eq!(failure.hint, Some(format!("{hint} choose without ranks")));
    }
    // Empty is not set, and -1 is not distributed.
    let step = "LOCAL_RANK=-1 SLURM_STEP_ID=0 SLURM_LOCALID=1";
    assert_eq!(
        ["LOCAL_RANK=", "LOCAL_RANK=-1"].map(|v| rank(v).unwrap()),
        [None, None]
    );
    assert_eq!(rank(step).unwrap(), found(1, None, false));
}
