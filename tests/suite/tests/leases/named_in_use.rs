//! A named device that somebody else has or uses: cudawrap says who it is, and warns or refuses as
//! the site has set it.

use getgpu_tests::wrapped::wrap;
use getgpu_tests::{OTHER, first_line, somebody};
use harness::Sandbox;
use harness::skip::{self, Need};

#[test]
fn a_named_device_that_is_in_use_gives_a_warning_or_a_refusal() {
    let sandbox = Sandbox::new("mig4");
    wrap(&sandbox, "opt", "app", "sim-cuda");
    let reserved = somebody(&sandbox, &["--for=60"]).run().line();
    let on = |device: &str, line: &str| sandbox.words(line).visible(device).run();
    let in_use = format!("cudawrap: {reserved}: in use by ");
    let root = nix::unistd::geteuid().is_root();
    if root {
        let outcome = on(&reserved, "@/opt/app");
        outcome.exits(0).mentions(&in_use);
        outcome.mentions("running there because CUDA_VISIBLE_DEVICES names it");
        sandbox.set_settings("when_taken = 'fail'");
        let refused = on(&reserved, "@/opt/app");
        refused.exits(75).prints("");
        refused.mentions("hint: unset CUDA_VISIBLE_DEVICES, or set CUDAWRAP_IGNORE_GRANT=1, ");
        sandbox.set_settings("");
    }
    // Under its own name another user's reservation is as good as a lease; one of our own
    // is used.
    let outcome = on(&reserved, "cudawrap -- sim-cuda");
    if root {
        outcome.refuses(75, &in_use);
    } else {
        outcome.exits(0).says(&[]);
    }
    let lessee = "cudawrap -- sim-cuda --shared --run forever";
    let lessee = sandbox.words(lessee).spawn();
    sandbox.until_running(1);
    let leased = first_line(&lessee).split(' ').nth(1).unwrap().to_owned();
    let line = format!("(pid {}, sim-cuda): running there because", lessee.pid());
    on(&leased, "@/opt/app --shared").exits(0).mentions(&line);
    let line = format!("cudawrap: {leased}: in use by ");
    on(&leased, "cudawrap -- true").refuses(75, &line);
    // The variable names it, although cudawrap rewrites the variable.
    sandbox.set_settings("names = 'index'");
    let outcome = on(&leased, "@/opt/app --shared");
    outcome.mentions("running there because CUDA_VISIBLE_DEVICES names it");
}

/// `cudawrap -- app` uses the device that it is given, and says who else is there.
#[test]
fn a_program_of_somebody_else_on_a_named_device_is_said() {
    let sandbox = Sandbox::new("a100x8");
    // On the second GPU, which is found by the name of the device alone.
    let uuids = &sandbox.uuids()[7..14];
    let foreign = sandbox.occupy(&uuids[1..2], "--shared");
    let run = |line: &str, uid: u32| {
        let command = sandbox.words(line).visible(&uuids[1]);
        match skip::lacks(&[Need::Root]) {
            true => None,
            false => Some(command.uid(uid).run()),
        }
    };
    let Some(outcome) = run("cudawrap -- sim-cuda --shared", OTHER) else {
        return;
    };
    let who = format!(
        "also used by root (pid {}, sim-cuda), without a lease",
        foreign[0].pid()
    );
    outcome
        .exits(0)
        .says(&[&format!("cudawrap: {}: {who}", uuids[1])]);
    // It is not on the other devices of that GPU.
    let beside = sandbox.words("cudawrap -- sim-cuda").visible(&uuids[2]);
    beside.uid(OTHER).run().exits(0).says(&[]);
    // One's own programs share what one names, and what a reservation gave was idle.
    let own = run("cudawrap -- sim-cuda --shared", 0).unwrap();
    own.exits(0).says(&[]);
    let reserved = "d=$(getgpu) && CUDA_VISIBLE_DEVICES=$d cudawrap -- sim-cuda";
    sandbox.log_calls();
    sandbox
        .shell("bash", reserved)
        .uid(OTHER)
        .run()
        .exits(0)
        .says(&[]);
    drop(foreign);
    // Where NVML cannot be asked there is nothing to say.
    std::fs::remove_file(sandbox.path("lib/libnvidia-ml.so.1")).unwrap();
    run("cudawrap -- true", OTHER).unwrap().exits(0).says(&[]);
}

/// A device that is known by its name alone is looked for in each slot of the GPU.
#[test]
fn a_program_of_somebody_else_is_found_behind_a_sick_device_and_in_the_last_slot() {
    let Some(sandbox) = Sandbox::given(&[Need::Root], "a100x1", "") else {
        return;
    };
    let uuids = sandbox.uuids();
    let sick = &uuids[0];
    sandbox.faults(&format!(
        "[[rule]]\nfunction = 'nvmlDeviceGetUUID'\ndevice = '{sick}'\nreturns = 999\n"
    ));
    for uuid in [&uuids[1], &uuids[6]] {
        let _foreign = sandbox.occupy(std::slice::from_ref(uuid), "--shared");
        let command = sandbox.words("cudawrap -- sim-cuda --shared").visible(uuid);
        let outcome = command.uid(OTHER).run();
        outcome.exits(0).mentions("also used by root (pid ");
    }
}
