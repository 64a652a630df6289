//! Programs that read numbers in CUDA_VISIBLE_DEVICES: what they lease is named by its CUDA index, in the order of PCI
//! addresses, however it was named before.

use getgpu_tests::wrapped::wrap;
use harness::Sandbox;

/// What a program finds in the two variables.
fn shown(sandbox: &Sandbox, line: &str, grant: Option<&str>) -> String {
    let command = sandbox.words(line);
    let command = match grant {
        Some(grant) => command.visible(grant),
        None => command,
    };
    command.run().line()
}

#[test]
fn devices_are_named_by_their_indices() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let script = sandbox.file(
        "work/show",
        "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER\n",
        0o755,
    );
    let program = script.display();
    let own = |options: &str| format!("cudawrap --names index{options} -- {program}");
    let first = shown(&sandbox, &own(" --policy first"), None);
    assert_eq!(first, "0 PCI_BUS_ID");
    assert_eq!(shown(&sandbox, &own(" --gpu 2"), None), "2 PCI_BUS_ID");
    let two = format!("{},{}", uuids[3], uuids[1]);
    assert_eq!(shown(&sandbox, &own(" -n 2"), Some(&two)), "3,1 PCI_BUS_ID");
    assert_eq!(shown(&sandbox, &own(""), Some(&uuids[3])), "3 PCI_BUS_ID");
    // What was reserved, and by the table of a wrapped program.
    sandbox.set_settings("[program.app]\nnames = 'index'");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let reserved = sandbox.line("--for=600");
    let index = uuids.iter().position(|uuid| *uuid == reserved).unwrap();
    let outcome = sandbox.words("@/opt/app").visible(&reserved).run();
    assert!(
        outcome
            .exits(0)
            .stdout
            .starts_with(&format!("RUN {reserved}")),
        "{outcome:?}"
    );
    assert_eq!(
        shown(&sandbox, &own(""), Some(&reserved)),
        format!("{index} PCI_BUS_ID")
    );
    sandbox.assert_exclusive();
}

#[test]
fn a_mig_device_has_no_index() {
    let sandbox = Sandbox::new("mig4");
    let run = sandbox.words("cudawrap --names index -- true").run();
    run.exits(125).mentions("4 not of the type asked for");
    let named = sandbox
        .words("cudawrap --names index -- true")
        .visible(&sandbox.uuids()[0]);
    named.run().refuses(125, "names = index: ");
    assert!(!sandbox.locked());
}
