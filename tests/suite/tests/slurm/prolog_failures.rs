//! What Prolog and Epilog do when a share is not available, the driver hangs or the site's
//! file has an error: they report it and never fail the job.

use std::fs;
use std::os::unix::fs::MetadataExt;

use getgpu_tests::{listing, slurm};
use harness::{Sandbox, wait};

use crate::hook_calls::{counts, epilog, hook, is_called, job, mig4, prolog, quiet, sleeper};
use crate::task_prolog_call::{hidden, told};

/// The mark of a job that got nothing.
fn mark(number: u32) -> String {
    format!("slurm-{}", job(number))
}

#[test]
fn errors_are_reported_and_never_fail_the_job() {
    let Some(sandbox) = mig4() else { return };
    for name in ["prolog", "epilog"] {
        for bad in ["", "x", "1;id", "-1"] {
            let said = hook(&sandbox, name, "", bad, "gpushare4").wait();
            let line = format!("getgpu {name}: SLURM_JOB_ID={bad}: not a job's number");
            said.exits(0).prints("").says(&[&line]);
        }
        // No getgpu at all.
        let path = "export PATH=/nonexistent";
        let said = hook(&sandbox, name, path, &job(0), "gpushare4").wait();
        said.exits(0).prints("").mentions("getgpu: not found");
    }
    quiet(epilog(&sandbox, &job(0)));
    sandbox.assert_clean();
}

#[test]
fn a_job_promised_a_part_in_vain_is_marked_until_its_epilog() {
    let Some(sandbox) = mig4() else { return };
    let holder = sandbox.ask("--hold=0 -n 4 --tag all");
    assert_eq!(holder.line().split(',').count(), 4);
    let vain = prolog(&sandbox, &job(0)).wait();
    vain.exits(0)
        .prints("")
        .mentions("nothing reserved: no free");
    // A job that does not ask is promised nothing.
    quiet(hook(&sandbox, "prolog", "", &job(1), ""));
    assert_eq!(sandbox.beside_lock(), [mark(0)]);
    let meta = fs::metadata(sandbox.path("run").join(mark(0))).unwrap();
    assert_eq!((meta.uid(), meta.len(), meta.mode() & 0o777), (0, 0, 0o600));
    quiet(epilog(&sandbox, &job(0)));
    assert!(sandbox.beside_lock().is_empty());
    // Another prolog clears it once the job has no step here and the mark is old, not
    // before.
    for number in [0, 2] {
        let vain = prolog(&sandbox, &job(number)).wait();
        vain.exits(0).mentions("nothing reserved");
    }
    quiet(hook(&sandbox, "prolog", "", &job(1), ""));
    assert_eq!(sandbox.beside_lock().len(), 2);
    let title = format!("slurmstepd: [{}.extern]", job(2));
    let running = sleeper(&sandbox, "slurmstepd", &title).spawn();
    let pid = running.pid().try_into().unwrap();
    wait::until("the step runs", || is_called(pid, "slurmstepd"));
    quiet(hook(&sandbox, "prolog", "old = 0", &job(1), ""));
    assert_eq!(sandbox.beside_lock(), [mark(2)]);
    drop(running);
    // Run again with something free: the part is reserved, and the mark goes. A prolog
    // may also wait for that.
    let waiting = hook(&sandbox, "prolog", "wait = 60", &job(2), "gpushare4");
    wait::until("it waits in the queue", || listing::waiting(&sandbox) == 1);
    // No other prolog removes the mark of one that runs, however long.
    quiet(hook(&sandbox, "prolog", "old = 0", &job(1), ""));
    assert_eq!(sandbox.beside_lock(), [mark(2)]);
    sandbox.ask("--release all").exits(0);
    quiet(waiting);
    assert!(sandbox.beside_lock().is_empty());
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
}

#[test]
fn a_prolog_waits_for_a_hung_driver_only_so_long() {
    let Some(sandbox) = mig4() else { return };
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    let said = hook(&sandbox, "prolog", "timeout = 1", &job(0), "gpushare4").wait();
    said.exits(0)
        .mentions("nothing reserved: NVML did not answer within 1 s");
    assert_eq!(sandbox.beside_lock(), [mark(0)]);
    // And the job's user is told that it was the driver.
    let step = format!("SLURM_JOB_ID={} SLURM_STEP_ID=0", job(0));
    hidden(
        &told(&sandbox, &step),
        "the NVIDIA driver of this node did not answer",
    );
}

#[test]
fn wrong_settings_reserve_nothing_and_fail_no_job() {
    let Some(sandbox) = mig4() else { return };
    // What can be understood of the file still says who was promised a part.
    let own = "shares = ['small=1/4']\ntasks = 'some'";
    hook(&sandbox, "prolog", own, &job(2), "small")
        .wait()
        .exits(0);
    assert_eq!(sandbox.beside_lock(), [mark(2)]);
    hook(&sandbox, "epilog", own, &job(2), "").wait().exits(0);
    #[rustfmt::skip]
    let settings = [
        "shares = ['gpushare4=']", "timeout = 0", "tasks = 'some'", "nonsense = 1", "options = ",
    ];
    for wrong in settings {
        let said = hook(&sandbox, "prolog", wrong, &job(0), "gpushare4").wait();
        let line = "nothing is reserved until it is corrected: ";
        said.exits(0).prints("").mentions(line);
        assert!(counts(&sandbox).iter().all(|count| *count == 0), "{wrong}");
        assert_eq!(sandbox.beside_lock(), [mark(0)], "{wrong}");
        hook(&sandbox, "prolog", wrong, &job(1), "").wait().exits(0);
        let epilog = hook(&sandbox, "epilog", wrong, &job(0), "");
        epilog.wait().exits(0).prints("");
        sandbox.assert_clean();
    }
}

/// The settings that the page shows are settings, and the hooks that it names are installed.
#[test]
fn the_page_shows_settings_and_hooks_that_there_are() {
    let page = fs::read_to_string(slurm::script("README.md")).unwrap();
    let blocks: Vec<&str> = page.split("\n```\n").collect();
    let settings = blocks
        .iter()
        .filter(|block| block.starts_with("# /etc/getgpu/config.toml"));
    let settings: Vec<&&str> = settings.collect();
    assert!(settings.len() >= 2, "{settings:?}");
    let sandbox = Sandbox::new("gpus4");
    for text in settings {
        sandbox.set_settings(text);
        sandbox.ask("--check").exits(0);
    }
    let conf = blocks
        .iter()
        .find(|block| block.starts_with("# /etc/slurm/slurm.conf"));
    let hooks = conf
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once("/share/getgpu/slurm/"));
    let hooks: Vec<&str> = hooks.map(|(_, name)| name).collect();
    assert_eq!(hooks.len(), 5, "{hooks:?}");
    for hook in hooks {
        assert!(slurm::script(hook).is_file(), "{hook}");
    }
}
