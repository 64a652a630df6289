use super::*;
use crate::ownership_proof::HolderProcess;

#[test]
fn what_is_written_is_read_back() {
    let process = |pid, name: &str| Process {
        pid,
        start: 99,
        name: name.into(),
    };
    let uuid = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap();
    let holder = |until| HolderArgs {
        devices: vec![uuid.clone()],
        role: Role::JobPart,
        value: "3".into(),
        caller: process(4711, "odd (name=x)"),
        since: 123,
        record: Some("MIG-1 user=ana share=1".into()),
        job: Some(Job {
            id: "7.0".into(),
            task: Some(3),
        }),
        grant: vec![uuid.clone(), uuid.clone()],
        granted: true,
        label: Some("night-7".into()),
        linger: if until == Until::Released {
            Duration::ZERO
        } else {
            Duration::from_secs(2)
        },
        told_before: vec!["NVIDIA_VISIBLE_DEVICES".into(), "d".into()],
        background: vec!["agentd".into()],
        keeper: Some(process(4194304, "")),
        until,
        tag: Some(Tag {
            name: "slurm-7".into(),
            asked: "1f".into(),
        }),
    };
    for until in [
        Until::Programs {
            wait: Duration::from_millis(1500),
        },
        Until::Over(process(5, "bash"), None),
        Until::Over(process(5, "bash"), Some(Duration::from_secs(3600))),
        Until::Released,
    ] {
        let holder = holder(until);
        let words = holder.words();
        let words = words.iter().map(|word| word.to_str().unwrap());
        assert_eq!(HolderArgs::parse(words), Some(holder.clone()));
    }
    assert_eq!(HolderArgs::parse(["x"]), None);
}

#[test]
fn what_an_older_holder_wrote_is_read() {
    let uuid = "MIG-0d1e2f30-1111-5222-8333-444455556666";
    let bytes = format!(
        "getgpu\0--holder\0{uuid}\0caller=4711(my (odd) shell)\0start=99\0for=60\0hold=4712(sh (2))\0forks=8:80,9:90\0"
    );
    let read = |bytes: &[u8]| HolderProcess::parse(7, 0, bytes).map(|holder| holder.args);
    let holder = read(bytes.as_bytes()).unwrap();
    let caller = &holder.caller;
    assert_eq!(
        (caller.pid, &*caller.name, caller.start),
        (4711, "my (odd) shell", 99)
    );
    assert_eq!(holder.held_for().unwrap().pid, 4712);
    for (lineage, distance) in [
        (&[(4712, 1), (4711, 1), (1, 1)][..], 0),
        (&[(5, 1), (9, 90), (4711, 1)], 2),
        (&[(5, 1)], usize::MAX),
    ] {
        assert_eq!(holder.distance(lineage), distance, "{lineage:?}");
    }
    assert_eq!(holder.devices[0].as_str(), uuid);
    for bad in [
        "",
        "getgpu\0--holder",
        "getgpu\0--holder\0x\0",
        "sleep\x001\0",
    ] {
        assert_eq!(read(bad.as_bytes()), None, "{bad}");
    }
}

/// A holder with these words behind its device.
fn holder(words: &[&str]) -> Option<HolderArgs> {
    let device = "MIG-0d1e2f30-1111-5222-8333-444455556666";
    let always = [device, "caller=7(sh)", "start=1"];
    HolderArgs::parse(always.into_iter().chain(words.iter().copied()))
}

#[test]
fn a_holder_with_a_word_that_cannot_be_meant_is_none() {
    assert!(holder(&[]).is_some());
    for bad in ["since=soon", "grant=8", "grant=", "hold=x(sh)", "hold=8(sh"] {
        assert_eq!(holder(&[bad]), None, "{bad}");
    }
}

#[test]
fn a_tag_is_only_a_name() {
    let part = |words: &[&str]| holder(words).unwrap().job_of_part().map(str::to_owned);
    assert_eq!(part(&["job=4711", "part=1"]).as_deref(), Some("4711"));
    for other in [
        &["tag=slurm-4711"][..],
        &["job=4711", "tag=slurm-4711"],
        &["tag=part=1", "job=7", "value=part=1"],
        &["lease=1", "job=7"],
    ] {
        assert_eq!(part(other), None, "{other:?}");
    }
    let job = holder(&["job=12.host", "task=x"]).unwrap().job;
    assert_eq!(job.unwrap().to_string(), "12.host");
}

#[test]
fn a_lease_of_python_is_that_of_its_process_alone() {
    let holder = |words: &str| {
        let bytes = format!(
            "getgpu\0--holder\0MIG-0d1e2f30-1111-5222-8333-444455556666\0caller=7(py)\0start=70\0{words}"
        );
        HolderProcess::parse(9, 0, bytes.as_bytes()).unwrap().args
    };
    let lease = holder("hold=8(py)\0hold-start=80\0lease=1\0tag=x\0asked=1\0");
    assert_eq!(lease.lessee().map(|process| process.pid), Some(8));
    let lineage = [(11, 110), (8, 80), (7, 70)];
    let beside = [(12, 120), (7, 70)];
    // Programs of its own are inside it, and another lease of its own is not.
    assert!(!lease.is_lease_beside(&lineage, None));
    assert!(lease.is_lease_beside(&lineage, Some(8)));
    assert!(!lease.is_lease_beside(&lineage, Some(11)));
    assert!(lease.is_lease_beside(&beside, None));
    // A later process with the same pid.
    assert!(lease.is_lease_beside(&[(8, 81)], None));
    // Only what is held for a process as a lease is one, whatever its tag.
    for words in [
        "hold=8(py)\0hold-start=80\0tag=python-8-1-ab\0asked=1\0",
        "hold=8(py)\0hold-start=80\0",
        "hold=0()\0lease=1\0",
        "for=60\0linger=2\0lease=1\0",
    ] {
        let holder = holder(words);
        assert_eq!(holder.lessee(), None, "{words}");
        assert!(!holder.is_lease_beside(&beside, Some(8)), "{words}");
    }
}
