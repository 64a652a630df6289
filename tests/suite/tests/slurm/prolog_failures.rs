//! What Prolog and Epilog do when a share is not available, the driver hangs or the site's
//! file has an error: they report it and never fail the job.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use getgpu_tests::slurm;
use harness::skip::{self, Need};
use harness::{Sandbox, wait};

use crate::hook_calls::{counts, epilog, hook, job, prolog, quiet};

/// The mark of a job that got nothing.
fn mark(number: u32) -> String {
    format!("slurm-{}", job(number))
}

#[test]
fn errors_are_reported_and_never_fail_the_job() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let all = sandbox.getgpu(["--hold", "-n", "4"]).run().line();
    let refused = prolog(&sandbox, &job(0)).wait();
    refused
        .exits(0)
        .prints("")
        .mentions("nothing reserved: getgpu: no free");
    sandbox.getgpu(["--release-all"]).run().exits(0);
    assert_eq!(all.split(',').count(), 4);
    quiet(epilog(&sandbox, &job(0)));
    for name in ["prolog", "epilog"] {
        for bad in ["", "x", "1;id", "-1"] {
            let said = hook(&sandbox, name, "", bad, "gpushare4").wait();
            said.exits(0).prints("").says(&[&format!(
                "getgpu {name}: SLURM_JOB_ID={bad}: not a job's number"
            )]);
        }
        // No getgpu at all.
        hook(
            &sandbox,
            name,
            "export PATH=/usr/bin:/bin",
            &job(0),
            "gpushare4",
        )
        .wait()
        .exits(0)
        .prints("")
        .mentions("getgpu: not found");
        assert_eq!(
            sandbox.beside_lock(),
            if name == "prolog" {
                vec![mark(0)]
            } else {
                Vec::new()
            }
        );
    }
    hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_SHARES='gpushare4=many'",
        &job(0),
        "gpushare4",
    )
    .wait()
    .exits(0)
    .mentions("many");
    quiet(epilog(&sandbox, &job(0)));
    sandbox.assert_clean(Duration::ZERO);
}

#[test]
fn a_job_that_was_promised_a_part_in_vain_is_marked_until_its_epilog() {
    if skip::lacks(&[Need::Root, Need::Tool("ps")]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let holder = sandbox
        .getgpu(["--hold=0", "-n", "4", "--tag", "all"])
        .run();
    assert_eq!(holder.line().split(',').count(), 4);
    prolog(&sandbox, &job(0))
        .wait()
        .exits(0)
        .prints("")
        .mentions("nothing reserved: getgpu: no free");
    // A job that does not ask is promised nothing.
    quiet(hook(&sandbox, "prolog", "", &job(1), ""));
    assert_eq!(sandbox.beside_lock(), [mark(0)]);
    let meta = fs::metadata(sandbox.path("run").join(mark(0))).unwrap();
    assert_eq!((meta.uid(), meta.len(), meta.mode() & 0o777), (0, 0, 0o644));
    quiet(epilog(&sandbox, &job(0)));
    assert!(sandbox.beside_lock().is_empty());
    // Another prolog clears it once the job has no step here and the mark is old, not
    // before.
    for number in [0, 2] {
        prolog(&sandbox, &job(number))
            .wait()
            .exits(0)
            .mentions("nothing reserved");
    }
    quiet(hook(&sandbox, "prolog", "", &job(1), ""));
    assert_eq!(sandbox.beside_lock().len(), 2);
    let title = format!("slurmstepd: [{}.extern]", job(2));
    let step = sandbox.path("work/slurmstepd");
    fs::copy("/bin/sleep", &step).unwrap();
    let start = sandbox
        .command("bash")
        .args(["-c", "exec -a \"$0\" \"$1\" 1000", &title])
        .args([&step]);
    let running = start.limit(Duration::MAX).spawn();
    let comm = format!("/proc/{}/comm", running.pid());
    wait::until("the step runs", || {
        fs::read_to_string(&comm).unwrap_or_default() == "slurmstepd\n"
    });
    quiet(hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_OLD=0",
        &job(1),
        "",
    ));
    assert_eq!(sandbox.beside_lock(), [mark(2)]);
    // Run again with something free: the part is reserved, and the mark goes. A prolog
    // may also wait for that.
    let waiting = hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_WAIT=60",
        &job(2),
        "gpushare4",
    );
    wait::until("it waits in the queue", || {
        sandbox
            .getgpu(["--list", "--json"])
            .run()
            .stdout
            .contains("\"waiting\":1")
    });
    sandbox.getgpu(["--release", "all"]).run().exits(0);
    quiet(waiting);
    assert_eq!(
        (
            sandbox.beside_lock().len(),
            counts(&sandbox).iter().sum::<usize>()
        ),
        (0, 1)
    );
}

#[test]
fn a_prolog_waits_for_a_hung_driver_only_so_long() {
    if skip::lacks(&[Need::Root]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    let began = Instant::now();
    let said = hook(
        &sandbox,
        "prolog",
        "export GETGPU_SLURM_TIMEOUT=1",
        &job(0),
        "gpushare4",
    )
    .wait();
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    said.exits(0)
        .mentions("nothing reserved: getgpu did not answer within 1 s");
    assert_eq!(sandbox.beside_lock(), [mark(0)]);
}

/// What a site's file may do to the shell that reads it.
const BROKEN: [&str; 9] = [
    "set -u\necho $NO_SUCH_VARIABLE",
    ". /no/such/file",
    "export 1x=2",
    "exit 0",
    "set -e\nfalse",
    "if [ x ; then",
    "echo 'no end",
    // Names that the scripts use themselves.
    "readonly PATH",
    "readonly job=5 status share",
];

#[test]
fn an_error_in_the_sites_file_reserves_nothing_and_fails_no_job() {
    if skip::lacks(&[Need::Root, Need::Mounts]) {
        return;
    }
    getgpu_tests::all_at_once(BROKEN, |broken| {
        let sandbox = Sandbox::new("mig4");
        // What the file sets before its error still says who was promised a part.
        let text = format!("export GETGPU_SLURM_SHARES='mine=1/2'\n{broken}\n");
        slurm::with_site_file(&text, || {
            let said = hook(&sandbox, "prolog", "", &job(0), "mine").wait();
            said.exits(0)
                .prints("")
                .mentions("/etc/default/getgpu-slurm has an error");
            assert!(counts(&sandbox).iter().all(|count| *count == 0), "{broken}");
            assert_eq!(sandbox.beside_lock(), [mark(0)], "{broken}");
            hook(&sandbox, "prolog", "", &job(1), "")
                .wait()
                .exits(0)
                .prints("");
            let said = hook(&sandbox, "epilog", "", &job(0), "").wait();
            said.exits(0)
                .prints("")
                .mentions("/etc/default/getgpu-slurm has an error");
        });
        sandbox.assert_clean(Duration::ZERO);
    });
    // One that only looks odd is read: a last command that fails, output, and `set`.
    let sandbox = Sandbox::new("mig4");
    let odd = "GETGPU_SLURM_SHARES='mine=1/2'\necho said; echo said >&2\nset -u\n[ -e /no/such/file ] && PATH=/no";
    slurm::with_site_file(odd, || quiet(hook(&sandbox, "prolog", "", &job(0), "mine")));
    assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1);
}

/// Beside its settings the site's file is a script like any other: what it does to the
/// shell, and to names that the hooks use, changes nothing for a job.
#[test]
fn what_the_sites_file_does_beside_its_settings_changes_nothing() {
    if skip::lacks(&[Need::Root, Need::Mounts]) {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    for odd in [
        "IFS=,".to_owned(),
        "IFS=".to_owned(),
        "job=5; wrong=yes; share=1/3".to_owned(),
        "set -euC".to_owned(),
        "trap 'exit 7' EXIT".to_owned(),
        // As the hooks say it themselves: where getgpu is.
        format!("PATH={}", sandbox.text("bin")),
    ] {
        let text = format!("GETGPU_SLURM_SHARES='more=1/2 mine=1/4'\n{odd}\n");
        slurm::with_site_file(&text, || {
            quiet(hook(&sandbox, "prolog", "", &job(0), "mine"));
            assert_eq!(counts(&sandbox).iter().sum::<usize>(), 1, "{odd}");
            let part = ["--tag", &format!("slurm-{}", job(0))];
            sandbox.getgpu(part).run().exits(0);
            assert!(sandbox.beside_lock().is_empty(), "{odd}");
            quiet(hook(&sandbox, "epilog", "", &job(0), "mine"));
            sandbox.getgpu(part).run().exits(1);
        });
    }
    // Without getgpu anywhere the job is marked, and only getgpu is missing.
    slurm::with_site_file("PATH=/nonexistent", || {
        let said = hook(&sandbox, "prolog", "", &job(0), "gpushare4").wait();
        let [line] = &said.stderr.lines().collect::<Vec<_>>()[..] else {
            panic!("{said:#?}")
        };
        assert!(
            line.contains("getgpu: not found in /nonexistent:"),
            "{line}"
        );
        said.exits(0).prints("");
        assert_eq!(sandbox.beside_lock(), [mark(0)]);
    });
    quiet(epilog(&sandbox, &job(0)));
}
