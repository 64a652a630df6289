//! The recipes for Docker, by podman in docker's place: the client in the foreground, a
//! container in the background, commands inside. docker itself needs an engine, which no
//! package brings; who lives how long and names what is the same.

use std::time::Duration;

use getgpu_tests::{
    assert_devices, docker, line_of, listing, nobody_gets_one_before_the_end, until_none_is_free,
};
use harness::{Sandbox, wait};

/// The program inside names no device, so that it is the client alone for whom the device
/// is kept.
#[test]
fn a_device_is_kept_as_long_as_the_client_that_names_it() {
    let sandbox = Sandbox::new("h200x1");
    docker::with(&sandbox, |shell| {
        let inside = "while ! [ -e go ]; do sleep 0.1; done";
        let recipe = format!(
            "docker run --rm --gpus device=$(getgpu --for 2) -w $PWD image sh -c '{inside}'"
        );
        let mut client = shell(&recipe).spawn();
        wait::until("it is reserved", || !sandbox.holders().is_empty());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Longer than a reservation waits for its program.
                wait::throughout(Duration::from_secs(4), "reserved", || {
                    sandbox.holders().len() == 1
                });
                std::fs::write(sandbox.path("work/go"), "").unwrap();
            });
            assert!(nobody_gets_one_before_the_end(&sandbox, &mut client) > 1);
        });
        client.wait().exits(0);
        // The client was no use of the device, and kept it for `linger` more.
        sandbox.assert_clean();
    });
}

/// The recipe for the background, by the book.
const DETACHED: &str = r#"d=$(getgpu --for 5) && id=$(docker run -d --gpus "device=$d" image PROGRAM) &&
    CUDA_VISIBLE_DEVICES=$d getgpu --hold="$(docker inspect -f '{{or .State.Pid "over"}}' "$id")""#;

#[test]
fn a_background_container_has_its_device_until_it_is_over() {
    let sandbox = Sandbox::new("h200x1");
    docker::with(&sandbox, |shell| {
        let script = DETACHED.replace("PROGRAM", "sleep 1000");
        let mut client = shell(&format!("{script}; echo $id >id")).spawn();
        wait::until("it is reserved", || !sandbox.holders().is_empty());
        // From the first reservation to the second there is no gap.
        wait::until("the shell has exited", || {
            let over = client.is_over();
            assert!(over || sandbox.locked(), "free meanwhile");
            over
        });
        assert_eq!(client.wait().line(), sandbox.uuids()[0]);
        wait::throughout(Duration::from_secs(2), "reserved behind the shell", || {
            sandbox.locked()
        });
        sandbox
            .ask("--no-reserve")
            .refuses(1, "no free device: 1 of 1 in use (reserved 1)");
        shell("docker kill $(cat id)").run().exits(0);
        // The first reservation may not have ended yet.
        sandbox.assert_clean();
    });
}

/// docker says 0 of a container that has exited, which to root's getgpu would mean: until
/// released.
#[test]
fn of_a_container_that_is_over_already_nothing_is_kept() {
    let sandbox = Sandbox::with("h200x1", "linger = '300ms'");
    docker::with(&sandbox, |shell| {
        let script = DETACHED
            .replace("PROGRAM", "true")
            .replace("getgpu --hold", "docker wait $id; getgpu --hold");
        shell(&script).run().exits(2).mentions("--hold: `over`");
        sandbox.assert_clean();
    });
}

/// No program here has a context: it is by the lock alone that nobody gets what another
/// has.
#[test]
fn host_and_containers_exclude_each_other_by_the_hosts_lock() {
    let sandbox = Sandbox::new("mig4");
    docker::with(&sandbox, |shell| {
        let run = |name: &str, words: &str| {
            let lock = sandbox.text("run");
            shell(&format!(
                "exec docker run --rm --name {name} -v {lock}:/run/getgpu --pid host image {words}"
            ))
        };
        let program = |name: &str| {
            let seen = sandbox.path("work").join(name);
            let words = format!(
                "cudawrap -- sh -c 'echo $CUDA_VISIBLE_DEVICES >{}; exec sleep 1000'",
                seen.display()
            );
            run(name, &words)
        };
        let _containers = ["one", "other"].map(|name| program(name).spawn());
        let inside = ["one", "other"].map(|name| line_of(&sandbox, name));
        let hosts = until_none_is_free(&sandbox, &["--for=60"]);
        assert_devices(&[&hosts[..], &inside[..]].concat(), &sandbox.uuids());
        let third = program("third").run();
        third.refuses(75, "no free device: 4 of 4 in use");
        third.mentions("reserved 2");
        run("third", "getgpu").run().refuses(1, "no free device");
        let list = run("third", "getgpu --list").run();
        // Who is in a container, too.
        let shown = list.exits(0).stdout.matches(" sleep ").count();
        assert_eq!(shown, 2, "{list:#?}");
        shell("docker kill one").run().exits(0);
        let again = || listing::free_devices(&sandbox) == "1";
        let soon = Duration::from_secs(2);
        wait::until_within(soon, "a killed container's device is free", again);
    });
}
