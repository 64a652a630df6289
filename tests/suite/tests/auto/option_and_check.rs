//! `cudawrap --auto -- PROGRAM`, what `getgpu --check` says of the driver's hook, and the
//! table of `make check-gpu`.

use getgpu_tests::hooked::{VARIABLE, all_said, bytes, cuda, holder, hook, said};
use harness::Sandbox;
use harness::skip::{self, Need};

/// What JAX may take of a device's memory.
const FRACTION: &str = "XLA_PYTHON_CLIENT_MEM_FRACTION";

#[test]
fn auto_starts_a_program_that_takes_a_device_at_its_first_call() {
    let sandbox = Sandbox::new("mig4");
    let auto = |options: &str, rest: &str| {
        let program = format!("cuda visible descriptors init visible uuid{rest}");
        sandbox.words(&format!("cudawrap --auto{options} -- {program}"))
    };
    let outcome = auto("", " descriptors").run();
    outcome.exits(0).says(&[]);
    let visible = all_said(&outcome, "visible");
    assert_eq!(visible[0], "unset");
    assert_eq!(bytes(visible[1]), said(&outcome, "uuid"));
    let lock = sandbox.text("run/lock");
    let descriptors = all_said(&outcome, "descriptors").into_iter();
    let counts = descriptors.map(|text| text.matches(&lock).count());
    assert!(counts.eq([0, 2]));
    // Options hold at the first call.
    let memory = format!(" env={FRACTION}");
    let outcome = auto(" --share 1/4 --visible=first", &memory).run();
    assert_eq!(said(&outcome, "env"), format!("{FRACTION}=0.225"));
    assert_eq!(all_said(&outcome, "visible")[1].split(',').count(), 4);
    let gpu = auto(" --type gpu", "").run();
    gpu.mentions("CUDA finds no device in this program");
    assert_eq!(all_said(&gpu, "visible")[1], "empty");
    // A tool of somebody else's is not loaded, and a line says so.
    let tool = auto("", "").env(VARIABLE, "/opt/nsight/tool.so");
    tool.run().mentions("not loaded");
    let line = "--auto: --bind has no effect on a program that is already running";
    auto(" --bind", "").run().refuses(125, line);
    sandbox.set_settings("auto = 'off'");
    let off = auto("", "").run();
    off.mentions("turned off on this node");
    assert_eq!(all_said(&off, "visible"), ["unset", "unset"]);
    std::fs::remove_file(hook(&sandbox)).unwrap();
    let line = "--auto: libcudawrap.so was not found beside cudawrap";
    auto("", "").run().refuses(125, line);
}

/// Drivers from 550 on have a thread when they load the library, which then sets
/// CUDA_VISIBLE_DEVICES alone.
#[test]
fn auto_sets_framework_variables_before_the_program_starts() {
    let sandbox = Sandbox::new("mig4");
    let (growth, fraction) = ("TF_FORCE_GPU_ALLOW_GROWTH", FRACTION);
    let [show_growth, show_fraction] = [growth, fraction].map(|name| format!("env={name}"));
    let auto = |options: &str| {
        let program =
            format!("cuda {show_growth} {show_fraction} init {show_fraction} visible uuid");
        let line = format!("SIM_CUDA_THREAD=1 cudawrap --auto{options} -- {program}");
        sandbox.words(&line)
    };
    let shown = |outcome: &harness::Outcome, values: [&str; 3]| {
        assert_eq!(bytes(said(outcome, "visible")), said(outcome, "uuid"));
        let [grows, first, second] = values;
        let expected = [(growth, grows), (fraction, first), (fraction, second)];
        let expected = expected.map(|(name, value)| format!("{name}={value}"));
        assert_eq!(all_said(outcome, "env"), expected, "{outcome:#?}");
    };
    let not_set = "not set: this program has several threads at its first CUDA call";
    let outcome = auto(" --share 1/4").run();
    shown(&outcome, ["true", "0.225", "0.225"]);
    outcome.exits(0).says(&[]);
    // A setting, and not only an option.
    let outcome = auto("").env("CUDAWRAP_SHARE", "50%").run();
    shown(&outcome, ["true", "0.45", "0.45"]);
    outcome.says(&[]);
    // What the user has set stays.
    let own = auto(" --share 1/4").env(fraction, "0.1").run();
    shown(&own, ["true", "0.1", "0.1"]);
    own.says(&[]);
    for options in ["", " --share 1/1"] {
        let outcome = auto(options).run();
        shown(&outcome, ["unset", "unset", "unset"]);
        outcome.says(&[]);
    }
    // Only the device tells which fraction a size is, and a daemon needs the device.
    let sized = auto(" --share 1G").run();
    shown(&sized, ["true", "unset", "unset"]);
    let line = sized.stderr.trim_end();
    let begins = line.starts_with(&format!("cudawrap: {fraction}=0."));
    assert!(
        begins && line.ends_with(not_set) && !line.contains('\n'),
        "{line}"
    );
    let outcome = auto(" --share 1/4 --mps").run();
    outcome.says(&[&format!("cudawrap: the variables of MPS: {not_set}")]);
    // A program that was not started by cudawrap.
    let command = cuda(&sandbox, &format!("init {show_growth} {show_fraction}"));
    let command = command.env("SIM_CUDA_THREAD", "1");
    let outcome = command.env("CUDAWRAP_SHARE", "1/2").run();
    let unset = [growth, fraction].map(|name| format!("{name}=unset"));
    assert_eq!(all_said(&outcome, "env"), unset);
    let line = format!("cudawrap: {growth}=true, {fraction}=0.45: {not_set}");
    outcome.says(&[&line]);
    sandbox.set_settings("framework_memory = false");
    let outcome = auto(" --share 1/4").run();
    shown(&outcome, ["unset", "unset", "unset"]);
    outcome.says(&[]);
}

/// A share of a part that is held already is less than it looked like before the first
/// CUDA call.
#[test]
fn auto_corrects_a_fraction_inside_a_part() {
    let sandbox = Sandbox::new("mig4");
    let script = format!(
        "export CUDA_VISIBLE_DEVICES=$(getgpu --share 1/2 --hold)\n\
         cudawrap --auto --share 1/4 -- cuda env={FRACTION} init env={FRACTION}"
    );
    let outcome = sandbox.shell("bash", &script).run();
    let both = ["0.225", "0.1125"].map(|part| format!("{FRACTION}={part}"));
    assert_eq!(all_said(&outcome, "env"), both);
    outcome.says(&[]);
    let threads = sandbox.shell("bash", &script).env("SIM_CUDA_THREAD", "1");
    let line = format!("cudawrap: {FRACTION}=0.1125: not set: ");
    threads.run().mentions(&line);
}

#[test]
fn check_says_whether_the_driver_calls_the_library() {
    let sandbox = Sandbox::new("mig4");
    let finding = |text: &str| {
        let outcome = sandbox.ask("--check");
        let mut lines = outcome.stdout.lines();
        let line = lines.find(|line| line.contains("  first call: "));
        let has = line.is_some_and(|line| line.contains(text));
        assert!(has, "{text}: {outcome:#?}");
        outcome
    };
    let path = hook(&sandbox).display().to_string();
    let calls = format!("ok       first call: cuInit (status 0) calls {path}");
    finding(&calls).exits(0);
    assert!(!sandbox.locked(), "it takes nothing");
    let missing = sandbox
        .words("getgpu --check")
        .env(VARIABLE, "/opt/gone/libcudawrap.so");
    let line = format!("{VARIABLE}=/opt/gone/libcudawrap.so: no such file");
    missing.run().exits(1).shows(&line);
    let set = sandbox.words("getgpu --check").env(VARIABLE, &path);
    set.run().exits(0);
    sandbox.set_settings("auto = 'off'");
    finding("auto = \"off\"").exits(0);
    sandbox.set_settings("nvml_timeout = '2s'");
    let driver = sandbox.path("lib/libcuda.so.1");
    std::fs::remove_file(&driver).unwrap();
    let debian = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    if !std::path::Path::new(&debian).join("libcuda.so.1").exists() {
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
            let source = format!("int cuInit(unsigned flags) {{ {body} }}\n");
            sandbox.file("work/driver.c", &source, 0o644);
            let build = "cc -shared -fPIC -o @/lib/libcuda.so.1 driver.c";
            sandbox.words(build).run().exits(0);
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
    for (node, marks, is_held) in [
        ("h200x1", "ok", false),
        ("none", "SKIPPED", false),
        ("h200x1", "SKIPPED", true), // another program's lease
    ] {
        let sandbox = Sandbox::new(node);
        let built = sandbox.path("bin/libcudawrap.so");
        std::fs::hard_link(hook(&sandbox), built).unwrap();
        let other = is_held.then(|| holder(&sandbox));
        // Where users have groups of their own, files are made for the group, too.
        let line = format!("umask 002; exec bash {script} ../bin");
        let command = sandbox.shell("sh", &line);
        let outcome = command.env("SIM_CUDA_MAX", "2").run();
        outcome.exits(0).says(&[]);
        let sent = outcome.stdout.lines().last().unwrap_or_default();
        assert!(sent.contains("as an issue of"), "{outcome:#?}");
        let rows = |mark: &str| {
            let has = |line: &&str| line.split_whitespace().any(|word| word == mark);
            outcome.stdout.lines().filter(has).count()
        };
        assert!(rows(marks) >= 13, "{outcome:#?}");
        assert_eq!(rows("FAILED"), 0, "{outcome:#?}");
        drop(other);
    }
}
