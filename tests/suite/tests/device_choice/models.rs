//! `--model` leaves only the GPUs that have a text in their name, with their MIG devices. NVML
//! is asked for names only where that, or a listing, needs them.

use getgpu_tests::wrapped::wrap;
use harness::{Outcome, Sandbox};

const NAME: &str = "nvmlDeviceGetName";

#[test]
fn a_model_is_a_part_of_the_name_for_getgpu_and_cudawrap() {
    let sandbox = Sandbox::new("mixed");
    let uuids = sandbox.uuids();
    let (mig, whole, other) = (&uuids[..3], &uuids[3..4], &uuids[4..]);
    #[rustfmt::skip]
    let cases = [
        ("--model T4", other), ("--model=tesla", other), ("--model t4 --model h100", other),
        ("--model H100,T4", other), ("--model A100 --type gpu", whole), ("--model a100-sxm4", mig),
        ("--model A100 --min-memory 9G --profile 2g.10gb", &uuids[1..2]),
    ];
    for (arguments, expected) in cases {
        let got = sandbox.line(&format!("{arguments} --no-reserve"));
        assert!(expected.contains(&got), "{arguments}: {got}");
        let line = format!("cudawrap {arguments} -- printenv CUDA_VISIBLE_DEVICES");
        let ran = sandbox.words(&line).run().line();
        assert!(expected.contains(&ran), "{arguments}: {ran}");
        let count = expected.len();
        sandbox
            .ask(&format!("--count-free {arguments}"))
            .answers(&format!("{count}\n"));
    }
    let listed = sandbox.ask("--list --free --format csv --model T4");
    assert_eq!(listed.output().lines().count(), 2, "a head and one device");
    // INDEX counts all devices.
    sandbox.ask("--model T4 3").refuses(2, "exclude each other");
    sandbox.assert_clean();
}

#[test]
fn settings_and_variables_name_a_model_and_ranks_have_it() {
    let sandbox = Sandbox::with("mixed", "[program.'eddy*']\nmodel = ['H100', 'T4']\n");
    let uuids = sandbox.uuids();
    let device = |outcome: Outcome| outcome.line().split(' ').nth(1).unwrap().to_owned();
    let eddy = wrap(&sandbox, "opt", "eddy", "sim-cuda");
    let other = wrap(&sandbox, "opt", "other", "sim-cuda");
    for _ in 0..4 {
        assert_eq!(device(sandbox.command(&eddy).run()), uuids[4]);
    }
    let variable = sandbox.command(&other).env("CUDAWRAP_MODEL", "tesla t4");
    assert_eq!(device(variable.run()), uuids[4]);
    let bad = sandbox.command(&other).env("CUDAWRAP_MODEL", "H100,");
    bad.run().refuses(125, "CUDAWRAP_MODEL: an empty name");
    let rank = "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK=1";
    let rank = format!("{rank} cudawrap --model T4 -- sim-cuda");
    let ran = sandbox.words(&rank).visible(uuids.join(",")).run();
    assert_eq!(device(ran), uuids[4]);
    sandbox.set_settings("model = 'T4'\n");
    assert_eq!(sandbox.line("--no-reserve"), uuids[4]);
    sandbox.ask("--show-config").shows("model = [\"T4\"]  # /");
}

#[test]
fn a_model_that_no_gpu_has_is_refused_with_those_there_are() {
    let sandbox = Sandbox::new("mixed");
    for words in ["--model H100", "--model A10 --wait"] {
        let refused = sandbox.ask(words);
        refused.refuses(
            3,
            "no device of the request exists here: 5 not of the model asked for",
        );
        refused.mentions("hint: here: 2 x NVIDIA A100-SXM4-40GB, 1 x Tesla T4");
        let ran = sandbox.words(&format!("cudawrap {words} -- true")).run();
        ran.refuses(125, "5 not of the model asked for");
    }
    let explained = sandbox.ask("--explain --no-reserve --model T4");
    explained.exits(0);
    explained.mentions("(GPU 2): not of the model asked for");
    sandbox.set_settings("model = 'H100'\n");
    let refused = sandbox.ask("");
    refused.refuses(3, "not of the model asked for (setting `model` in ");
    sandbox.assert_clean();
}

#[test]
fn a_gpu_without_a_name_is_of_no_model() {
    let sandbox = Sandbox::new("mixed");
    sandbox.faults(&format!(
        "[[rule]]\nfunction = '{NAME}'\ngpu = 3\nreturns = 3\n"
    ));
    let refused = sandbox.ask("--model T4");
    refused.refuses(3, "4 not of the model asked for; 1 of unknown model");
    refused.mentions("hint: here: 2 x NVIDIA A100-SXM4-40GB, 1 x GPU of unknown model");
    let explained = sandbox.ask("--explain --no-reserve --model A100");
    explained.exits(0);
    explained.mentions("(GPU 3): of unknown model: NVML does not tell the name of the GPU");
}

#[test]
fn names_are_asked_for_only_where_a_model_is() {
    let sandbox = Sandbox::new("mixed");
    sandbox.log_calls();
    let mut asked = 0;
    #[rustfmt::skip]
    let cases = [
        ("--no-reserve", 0), ("--min-memory 1G --no-reserve", 0), ("-n 2 --no-reserve", 0),
        ("--count-free", 0), ("--model T4 --no-reserve", 3),
    ];
    for (arguments, more) in cases {
        sandbox.ask(arguments).exits(0);
        asked += more;
        let calls = sandbox.calls().into_iter();
        let of_gpus = calls.filter(|call| call.function == NAME && !call.args.contains("MIG"));
        let of_gpus: Vec<String> = of_gpus.map(|call| call.args).collect();
        assert_eq!(of_gpus.len(), asked, "{arguments}: {of_gpus:?}");
    }
}

/// The others where none of that model is free, also for a waiter and beside `--model`.
#[test]
fn a_preferred_model_is_taken_first() {
    let sandbox = Sandbox::new("mixed");
    let uuids = sandbox.uuids();
    let words = "--type any --prefer-model T4";
    assert_eq!(sandbox.line(words), uuids[4]);
    let second = sandbox.line(words);
    assert!(uuids[..4].contains(&second), "{second}");
    sandbox.ask("--release-all").exits(0);
    let both = sandbox.line(&format!("{words} -n 2 --no-reserve"));
    assert_eq!(both.split(',').count(), 2, "one T4 is not two");
    let none = sandbox.line("--prefer-model H100 --no-reserve");
    assert!(uuids[..3].contains(&none), "{none}");
    let narrowed = sandbox.line(&format!("{words} --model A100 --no-reserve"));
    assert!(uuids[..4].contains(&narrowed), "{narrowed}");
    sandbox
        .ask("--prefer-model T4 3")
        .refuses(2, "exclude each other");
    sandbox.set_settings("type = 'any'\nprefer_model = ['T4']\n");
    sandbox
        .ask("--show-config")
        .shows("prefer_model = [\"T4\"]  # /");
    assert_eq!(sandbox.line("--no-reserve"), uuids[4]);
}
