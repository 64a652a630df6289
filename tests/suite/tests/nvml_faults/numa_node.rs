//! A GPU whose memory is a NUMA node of the host, as on Grace Hopper: the system uses that memory too,
//! so processes decide and `idle_memory` says nothing, but where the driver cannot say what it is.

use getgpu_tests::listing;
use harness::Sandbox;
use harness::skip::{self, Need};

/// One such GPU, of whose memory the system has 20,000 MiB.
fn grace(driver: &str, more: &str) -> Sandbox {
    let gpu = "[[gpu]]\nmodel = 'GH200-96GB'\nnuma_node = 1\nidle_mib = 20000\n";
    Sandbox::new(&format!("driver = '{driver}'\n{gpu}{more}"))
}

#[test]
fn the_systems_own_memory_makes_no_gpu_busy_and_idle_memory_hides_no_program() {
    let sandbox = grace("580.95.05", "");
    let uuid = sandbox.uuids()[0].clone();
    let state = || listing::states(&sandbox).concat();
    for idle in ["", "idle_memory = '1M'", "idle_memory = '90G'"] {
        sandbox.set_settings(idle);
        assert_eq!(state(), "free", "{idle}");
        assert_eq!(sandbox.line("--no-reserve"), uuid, "{idle}");
        let _program = sandbox.occupy(std::slice::from_ref(&uuid), "");
        assert_eq!(state(), "busy", "{idle}");
        let line = "1 of 1 in use (other programs 1)";
        sandbox.ask("").refuses(1, line);
    }
    sandbox.set_settings("");
    sandbox.until_running(0);
    sandbox.ask("--list").exits(0).says(&[]).shows(" 19.5/");
    sandbox.ask("--check").exits(0);
}

/// NVML reports no memory at all: a size cannot be had, and everything else can.
#[test]
fn where_its_memory_is_not_reported_either_processes_decide() {
    let sandbox = grace("580.95.05", "integrated = true\n");
    let uuid = sandbox.uuids()[0].clone();
    let listed = listing::json(&sandbox);
    let device = listing::device(&listed, &uuid);
    assert_eq!(device["state"], "free");
    assert!(device["memory_used"].is_null(), "{device}");
    assert!(device["memory_total"].is_null(), "{device}");
    sandbox.ask("--list").exits(0).says(&[]).shows(" free ");
    sandbox.set_settings("idle_memory = '90G'");
    assert_eq!(sandbox.line("--no-reserve --share 1/2"), uuid);
    let line = "1 of unknown memory: NVML does not report any";
    sandbox.ask("--min-memory 1G").refuses(3, line);
    let _program = sandbox.occupy(&[uuid], "");
    sandbox
        .ask("")
        .refuses(1, "1 of 1 in use (other programs 1)");
}

/// Drivers before 550 do not say that it is a NUMA node; docs/TROUBLESHOOTING.md has the remedy.
#[test]
fn an_older_driver_needs_idle_memory() {
    let sandbox = grace("535.104.05", "");
    let line = "20000 MiB in use and no process shown";
    sandbox.ask("--explain").exits(1).mentions(line);
    sandbox.set_settings("idle_memory = '24G'");
    let uuid = sandbox.line("--no-reserve");
    let _program = sandbox.occupy(&[uuid], "");
    sandbox
        .ask("")
        .refuses(1, "1 of 1 in use (other programs 1)");
}

/// There memory is the only witness, and it is none here.
#[test]
fn a_container_without_the_hosts_processes_gets_none() {
    for (more, line) in [
        (
            "",
            "20000 MiB in use and no process shown: processes outside this container are hidden",
        ),
        (
            "integrated = true\n",
            "unknown: DeviceGetMemoryInfo: the requested operation is not available",
        ),
    ] {
        let sandbox = grace("580.95.05", more);
        if skip::lacks(&[Need::Mounts]) {
            return;
        }
        sandbox.faults("foreign_pidns_blind = true");
        let inside = sandbox.contained("getgpu --explain --no-reserve").run();
        inside.exits(1).mentions(line);
        let other = sandbox.contained("cudawrap -- true").run();
        other.refuses(75, "1 of 1 in use (unknown to NVML 1)");
    }
}
