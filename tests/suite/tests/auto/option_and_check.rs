//! `cudawrap --auto -- PROGRAM`, what `getgpu --check` says of the driver's hook, and the
//! table of `make check-gpu`.

use getgpu_tests::hooked::{VARIABLE, all_said, bytes, cuda, hook, said};
use harness::Sandbox;
use harness::skip::{self, Need};

#[test]
fn auto_starts_a_program_that_takes_a_device_at_its_first_call() {
    let sandbox = Sandbox::new("mig4");
    let auto = |words: &[&str], rest: &[&str]| {
        let program = ["cuda", "visible", "descriptors", "init", "visible", "uuid"];
        let command = sandbox.words("cudawrap --auto").args(words);
        command.args(["--"]).args(program).args(rest)
    };
    let outcome = auto(&[], &["descriptors"]).run();
    outcome.exits(0).says(&[]);
    let visible = all_said(&outcome, "visible");
    assert_eq!(
        (visible[0], bytes(visible[1])),
        ("unset", said(&outcome, "uuid").to_owned())
    );
    let lock = sandbox.lock().display().to_string();
    let counts = all_said(&outcome, "descriptors")
        .into_iter()
        .map(|text| text.matches(&lock).count());
    assert_eq!(counts.collect::<Vec<_>>(), [0, 2]);
    // Options hold at the first call.
    let memory = "env=XLA_PYTHON_CLIENT_MEM_FRACTION";
    let outcome = auto(&["--share", "1/4", "--visible=first"], &[memory]).run();
    assert_eq!(
        said(&outcome, "env"),
        "XLA_PYTHON_CLIENT_MEM_FRACTION=0.225"
    );
    assert_eq!(all_said(&outcome, "visible")[1].split(',').count(), 4);
    let gpu = auto(&["--type", "gpu"], &[]).run();
    gpu.mentions("CUDA finds no device in this program");
    assert_eq!(all_said(&gpu, "visible")[1], "empty");
    // A tool of somebody else's is not loaded, and a line says so.
    auto(&[], &[])
        .env(VARIABLE, "/opt/nsight/tool.so")
        .run()
        .mentions("not loaded");
    auto(&["--bind"], &[]).run().refuses(
        125,
        "cudawrap: --auto: --bind has no effect on a program that is already running",
    );
    sandbox.set_settings("auto = 'off'");
    let off = auto(&[], &[]).run();
    off.mentions("turned off on this node");
    assert_eq!(all_said(&off, "visible"), ["unset", "unset"]);
    std::fs::remove_file(hook(&sandbox)).unwrap();
    auto(&[], &[]).run().refuses(
        125,
        "cudawrap: --auto: libcudawrap.so was not found beside cudawrap",
    );
}

/// Drivers from 550 on have a thread when they load the library, which then sets
/// CUDA_VISIBLE_DEVICES alone.
#[test]
fn auto_sets_framework_variables_before_the_program_starts() {
    let sandbox = Sandbox::new("mig4");
    let (growth, fraction) = (
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
    );
    let [show_growth, show_fraction] = [growth, fraction].map(|name| format!("env={name}"));
    let auto = |words: &[&str]| {
        let command = sandbox.words("cudawrap --auto").args(words);
        let program = ["cuda", &show_growth, &show_fraction, "init", &show_fraction];
        let command = command.args(["--"]).args(program).args(["visible", "uuid"]);
        command.env("SIM_CUDA_THREAD", "1")
    };
    let shown = |outcome: &harness::Outcome, values: [&str; 3]| {
        assert_eq!(bytes(said(outcome, "visible")), said(outcome, "uuid"));
        let names = [growth, fraction, fraction];
        let expected: Vec<String> = names
            .iter()
            .zip(values)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(all_said(outcome, "env"), expected, "{outcome:#?}");
    };
    let not_set = "not set: this program has several threads at its first CUDA call";
    let outcome = auto(&["--share", "1/4"]).run();
    shown(&outcome, ["true", "0.225", "0.225"]);
    outcome.exits(0).says(&[]);
    // A setting, and not only an option.
    let outcome = auto(&[]).env("CUDAWRAP_SHARE", "50%").run();
    shown(&outcome, ["true", "0.45", "0.45"]);
    outcome.says(&[]);
    // What the user has set stays.
    let own = auto(&["--share", "1/4"]).env(fraction, "0.1").run();
    shown(&own, ["true", "0.1", "0.1"]);
    own.says(&[]);
    for words in [&[][..], &["--share", "1/1"]] {
        let outcome = auto(words).run();
        shown(&outcome, ["unset", "unset", "unset"]);
        outcome.says(&[]);
    }
    // Only the device tells which fraction a size is, and a daemon needs the device.
    let sized = auto(&["--share", "1G"]).run();
    shown(&sized, ["true", "unset", "unset"]);
    let [line] = sized.stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("one line: {sized:#?}");
    };
    assert!(
        line.starts_with(&format!("cudawrap: {fraction}=0.")),
        "{line}"
    );
    assert!(line.ends_with(not_set), "{line}");
    let outcome = auto(&["--share", "1/4", "--mps"]).run();
    outcome.says(&[&format!("cudawrap: the variables of MPS: {not_set}")]);
    // A program that was not started by cudawrap.
    let outcome = cuda(&sandbox, &["init", &show_growth, &show_fraction])
        .env("SIM_CUDA_THREAD", "1")
        .env("CUDAWRAP_SHARE", "1/2")
        .run();
    assert_eq!(
        all_said(&outcome, "env"),
        [format!("{growth}=unset"), format!("{fraction}=unset")]
    );
    outcome.says(&[&format!(
        "cudawrap: {growth}=true, {fraction}=0.45: {not_set}"
    )]);
    sandbox.set_settings("framework_memory = false");
    let outcome = auto(&["--share", "1/4"]).run();
    shown(&outcome, ["unset", "unset", "unset"]);
    outcome.says(&[]);
}

/// A share of a part that is held already is less than it looked like before the first
/// CUDA call.
#[test]
fn auto_corrects_a_fraction_inside_a_part() {
    let sandbox = Sandbox::new("mig4");
    let show = "env=XLA_PYTHON_CLIENT_MEM_FRACTION";
    let script = format!(
        "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold)\n\
         cudawrap --auto --share 1/4 -- cuda {show} init {show}"
    );
    let run = |thread: bool| {
        let shell = sandbox.shell("bash", &script);
        let shell = if thread {
            shell.env("SIM_CUDA_THREAD", "1")
        } else {
            shell
        };
        shell.run()
    };
    let name = "XLA_PYTHON_CLIENT_MEM_FRACTION";
    let outcome = run(false);
    assert_eq!(
        all_said(&outcome, "env"),
        [format!("{name}=0.225"), format!("{name}=0.1125")]
    );
    outcome.says(&[]);
    run(true).mentions(&format!("cudawrap: {name}=0.1125: not set: "));
}

#[test]
fn check_says_whether_the_driver_calls_the_library() {
    let sandbox = Sandbox::new("mig4");
    let finding = |text: &str| {
        let outcome = sandbox.ask("--check");
        let line = outcome
            .stdout
            .lines()
            .find(|line| line.contains("  first call: "));
        assert!(
            line.is_some_and(|line| line.contains(text)),
            "{text}: {outcome:#?}"
        );
        outcome
    };
    let path = hook(&sandbox).display().to_string();
    finding(&format!(
        "ok       first call: cuInit (status 0) calls {path}"
    ))
    .exits(0);
    assert!(!sandbox.locked(), "it takes nothing");
    sandbox.set_settings("auto = 'off'");
    finding("auto = \"off\"").exits(0);
    sandbox.set_settings("nvml_timeout = '2s'");
    let driver = sandbox.path("lib/libcuda.so.1");
    std::fs::remove_file(&driver).unwrap();
    if !std::path::Path::new("/usr/lib/x86_64-linux-gnu/libcuda.so.1").exists() {
        finding("there is no libcuda.so.1 here").exits(0);
    }
    if !skip::lacks(&[Need::Tool("cc")]) {
        #[rustfmt::skip]
        let cases = [
            ("return 100;", "problem  first call: cuInit (status 100) does not call"),
            ("for (;;) ;", "problem  first call: cuInit did not return within 2 s"),
            ("__builtin_trap();", "problem  first call: cuInit ended the process"),
        ];
        for (body, text) in cases {
            sandbox.file(
                "work/driver.c",
                &format!("int cuInit(unsigned flags) {{ {body} }}\n"),
                0o644,
            );
            let script = format!("cc -shared -fPIC -o {} driver.c", driver.display());
            sandbox.shell("sh", &script).run().exits(0);
            finding(text).exits(1);
        }
        std::fs::remove_file(&driver).unwrap();
    }
    std::fs::remove_file(hook(&sandbox)).unwrap();
    finding("libcudawrap.so is not installed").exits(0);
}

#[test]
fn the_table_for_a_real_gpu_is_whole_on_a_simulated_one() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/check.sh");
    for (node, marks) in [("h200x1", "ok"), ("none", "SKIPPED")] {
        let sandbox = Sandbox::new(node);
        let built = sandbox.path("bin/libcudawrap.so");
        std::fs::hard_link(hook(&sandbox), built).unwrap();
        let outcome = sandbox
            .command("bash")
            .args([script, &sandbox.text("bin")])
            .env("SIM_CUDA_MAX", "2")
            .run();
        outcome.exits(0).says(&[]);
        let rows = |mark: &str| {
            let lines = outcome.stdout.lines();
            lines
                .filter(|line| line.split_whitespace().any(|word| word == mark))
                .count()
        };
        assert!(rows(marks) >= 13, "{outcome:#?}");
        assert_eq!(rows("FAILED"), 0, "{outcome:#?}");
    }
}
