//! A linked program whose variable names several devices gets what `cudawrap -- PROGRAM` gets there:
//! one of them, leased, unless it is set to take all of them, since it divides them itself.

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{first_line, listing};
use harness::{Sandbox, wait};

#[test]
fn linked_programs_have_one_each_of_the_devices_that_are_named() {
    for node in ["mig4", "gpus4"] {
        let sandbox = Sandbox::new(node);
        wrap(&sandbox, "opt", "app", "sim-cuda");
        let uuids = sandbox.uuids();
        let both = match node {
            "mig4" => uuids[1..3].join(","),
            _ => "2,1".to_owned(),
        };
        let start = || sandbox.words("@/opt/app --run forever").visible(&both);
        let programs = [start().spawn(), start().spawn()];
        sandbox.until_running(2);
        let mut used: Vec<String> = programs.iter().map(first_line).collect();
        used.sort_by_key(|line| uuids.iter().position(|uuid| line.contains(uuid.as_str())));
        for (line, uuid) in used.iter().zip(&uuids[1..3]) {
            assert!(line.starts_with(&format!("RUN {uuid}")), "{used:?}");
        }
        assert!(programs.iter().all(|program| program.stderr().is_empty()));
        assert_eq!(listing::free_devices(&sandbox), "2");
        start().run().refuses(75, "no free device: 2 of 2 in use");
        assert!(sandbox.collisions().is_empty());
    }
}

#[test]
fn a_program_that_divides_its_devices_itself_leases_all_of_them() {
    let sandbox = Sandbox::with("gpus4", "[program.app]\ncount = 'all'");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    wrap(&sandbox, "opt", "other", "sim-cuda");
    let program = sandbox.words("@/opt/app --run forever").visible("2,0");
    let program = program.spawn();
    sandbox.until_running(1);
    let states = listing::states(&sandbox);
    assert_eq!(states, ["leased", "free", "leased", "free"]);
    // It uses the first one of its list.
    assert!(first_line(&program).starts_with(&format!("RUN {}", sandbox.uuids()[2])));
    let other = sandbox.words("@/opt/other").visible("2,0").run();
    other.refuses(75, "no free device: 2 of 2 in use");
    drop(program);
    wait::until("it has exited", || sandbox.running() == 0);
    // Nothing is named: one device. By cudawrap's own name: the same.
    for (line, named, leased) in [
        ("@/opt/app --run forever", None, 1),
        ("cudawrap -- @/opt/app --run forever", Some("3,1,2"), 3),
        ("cudawrap -n all -- sim-cuda --run forever", Some("3,1"), 2),
    ] {
        let command = sandbox.words(line);
        let command = named.map_or_else(|| sandbox.words(line), |named| command.visible(named));
        let program = command.spawn();
        sandbox.until_running(1);
        let free = (4 - leased).to_string();
        assert_eq!(listing::free_devices(&sandbox), free, "{line}");
        drop(program);
        wait::until("it has exited", || sandbox.running() == 0);
    }
}
