use super::*;
use crate::lock::ownership_proof::HolderProcess;

#[test]
fn what_is_written_is_read_back() {
    let process = |pid, name: &str| Process {
        pid,
        start: 99,
        name: name.into(),
    };
    let uuid = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap();
    let line = |until| HolderArgs {
        devices: vec![uuid.clone()],
        value: "3".into(),
        caller: process(4711, "odd (name=x)"),
        since: 123,
        record: Some("MIG-1 user=ana share=1".into()),
        job: Some(Job {
            id: "7.0".into(),
            task: Some(3),
        }),
        forks: vec![(4712, 100), (4713, 101)],
        granted: true,
        until,
        tag: Some(Tag {
            name: "slurm-7".into(),
            asked: "1f".into(),
        }),
    };
    for until in [
        Until::Programs {
            wait: Duration::from_millis(1500),
            linger: Duration::from_secs(5),
        },
        Until::Over(process(5, "bash"), None),
        Until::Over(process(5, "bash"), Some(Duration::from_secs(3600))),
        Until::Released,
    ] {
        let line = line(until);
        let words = line.words();
        let words = words.iter().map(|word| word.to_str().unwrap());
        assert_eq!(HolderArgs::parse(words), Some(line.clone()));
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
    let line = read(bytes.as_bytes()).unwrap();
    let caller = (
        line.caller.pid,
        line.caller.name.as_str(),
        line.caller.start,
    );
    assert_eq!(caller, (4711, "my (odd) shell", 99));
    assert_eq!(line.held_for().unwrap().pid, 4712);
    assert_eq!(
        [
            &[(4712, 1), (4711, 1), (1, 1)][..],
            &[(5, 1), (9, 90), (4711, 1)],
            &[(5, 1), (9, 91), (4711, 1)],
            &[(5, 1)]
        ]
        .map(|lineage| line.distance(lineage)),
        [0, 1, 2, usize::MAX]
    );
    assert_eq!(line.devices[0].as_str(), uuid);
    for bad in [
        "",
        "getgpu\0--holder",
        "getgpu\0--holder\0x\0",
        "sleep\x001\0",
    ] {
        assert_eq!(read(bad.as_bytes()), None, "{bad}");
    }
}
