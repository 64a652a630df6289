//! A profile or a memory size selects the smallest device that fits. A request that no
//! device of the node can ever meet is refused at once.

use getgpu_tests::{assert_devices, until_none_is_free};
use harness::Sandbox;

/// With type auto whole GPUs are left out beside MIG devices.
#[test]
fn where_all_mig_devices_are_in_use_whole_gpus_are_named() {
    let sandbox = Sandbox::new("mixed");
    for _ in 0..3 {
        sandbox.line("--for=600");
    }
    let named = "--type any also takes the 2 that are not in MIG mode";
    sandbox.ask("").exits(1).mentions(named);
    sandbox
        .words("cudawrap -- true")
        .run()
        .exits(75)
        .mentions(named);
    let mig = sandbox.ask("--type mig");
    assert!(!mig.exits(1).stderr.contains("--type any"), "{mig:#?}");
    sandbox.ask("--type any").exits(0);
}

#[test]
fn the_smallest_that_fits_is_taken_and_a_profile_is_no_other() {
    let sandbox = Sandbox::new("mixed");
    let uuids = sandbox.uuids();
    let (three, two, one, large) = (&uuids[0], &uuids[1], &uuids[2], &uuids[3]);
    let by_uuid = format!("--gpu {one}");
    #[rustfmt::skip]
    let cases = [
        ("--min-memory 1G", one), ("--min-memory 9G", two), ("--min-memory 10G", three),
        ("--min-memory=19.5G", three), ("--min-memory 20G", large), ("--profile 1g.5gb", one),
        ("--profile 3G.20GB --profile 2g.10gb", two), ("--profile 3g.20gb,7g.40gb", three),
        ("--share 1/2 --min-memory 9G", three), ("--share 10G", three),
        ("--gpu 3", &uuids[4]), (&by_uuid, one),
    ];
    for (arguments, expected) in cases {
        let got = sandbox.line(&format!("{arguments} --no-reserve"));
        assert_eq!(got, *expected, "{arguments}");
        let line = format!("cudawrap {arguments} -- printenv CUDA_VISIBLE_DEVICES");
        let ran = sandbox.words(&line).run().line();
        assert_eq!(ran, *expected, "{arguments}");
    }
    let ones = until_none_is_free(&sandbox, &["--profile", "1g.5gb"]);
    assert_devices(&ones, std::slice::from_ref(one));
    let others = until_none_is_free(&sandbox, &["--gpu=0"]);
    assert_devices(&others, &[two.clone(), three.clone()]);
}

/// A grant that is too small is the caller's own variable, and there is a way around it.
#[test]
fn a_grant_that_is_too_small_is_named() {
    let sandbox = Sandbox::new("gpus4");
    let uuids = sandbox.uuids();
    let hint = "hint: unset CUDA_VISIBLE_DEVICES, or use --ignore-grant";
    for (count, exist) in [(1, "1 such device exists"), (2, "2 such devices exist")] {
        let grant = uuids[..count].join(",");
        let line = format!("3 devices wanted: only {exist} here within CUDA_VISIBLE_DEVICES");
        let asked = sandbox.ask_within(&grant, "-n 3");
        asked.refuses(3, &line).mentions(hint);
        let ran = sandbox.words("cudawrap -n 3 -- true").visible(&grant).run();
        ran.refuses(125, &line).mentions(hint);
    }
    let line = "5 devices wanted: only 4 such devices exist here";
    sandbox.ask("-n 5").refuses(3, line);
}

#[test]
fn a_profile_is_not_its_name_in_gigabytes() {
    let sandbox = Sandbox::new("h200x1-mig");
    for arguments in ["--profile 1g.18gb", "--min-memory 16G"] {
        sandbox.line(&format!("{arguments} --no-reserve"));
    }
    let larger = sandbox.ask("--min-memory 18G");
    larger.refuses(3, "7 smaller than asked for");
}

#[test]
fn an_unmeetable_request_is_refused_at_once_even_with_wait() {
    let sandbox = Sandbox::new("mixed");
    #[rustfmt::skip]
    let cases = [
        ("--min-memory 300G", "5 smaller than asked for"),
        ("--profile 1g.10gb", "5 not of the profile asked for"),
        ("--gpu 9", "5 not on the GPU asked for"),
        ("--share 1/4 --min-memory 20G", "5 smaller than asked for"),
        ("--share 90G", "5 smaller than asked for"),
        ("--count 4", "4 devices wanted: only 3 such devices exist here"),
        ("-n 2 --profile 1g.5gb", "2 devices wanted: only 1 such device exists here"),
    ];
    for (arguments, line) in cases {
        for words in [arguments.to_owned(), format!("{arguments} --wait")] {
            sandbox.ask(&words).refuses(3, line).mentions("hint: ");
            let ran = sandbox.words(&format!("cudawrap {words} -- true")).run();
            ran.refuses(125, line);
        }
    }
    let larger = sandbox.ask("--min-memory=300G");
    larger.mentions("1 x 3g.20gb (19.62 GiB), 1 x 2g.10gb");
    sandbox.assert_clean();
}
