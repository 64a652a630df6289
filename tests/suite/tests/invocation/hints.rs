//! What was typed slightly wrong is answered with what was probably meant.

use harness::{Sandbox, Terminal, copy_program};

#[test]
fn verbose_says_for_whom_a_device_is_reserved() {
    let sandbox = Sandbox::new("gpus4");
    #[rustfmt::skip]
    let cases = [
        ("", "reserved for the programs of dash (pid PID), for 60 s if none starts"),
        ("--for 5", "reserved for the programs of dash (pid PID), for 5 s if none starts"),
        ("--hold", "reserved until dash (pid PID) exits"),
        ("--no-reserve", "not reserved"),
    ];
    for (words, kept) in cases {
        let line = format!("echo $$; getgpu -v {words}; exit 0");
        let outcome = sandbox.shell("dash", &line).run();
        let said: Vec<&str> = outcome.exits(0).stdout.lines().collect();
        let kept = kept.replace("PID", said[0]);
        outcome.says(&[&format!("getgpu: {}: {kept}", said[1])]);
    }
}

#[test]
fn no_hint_with_quiet_even_if_the_call_is_wrong() {
    let sandbox = Sandbox::new("mig4");
    for words in [&["-q", "--lst"][..], &["--lst", "--quiet", "true"]] {
        for program in ["getgpu", "cudawrap"] {
            let outcome = sandbox.command(program).args(words).run();
            outcome.says(&[&format!("{program}: --lst: no such option")]);
        }
    }
    // Behind `--` it is the program's.
    let outcome = sandbox.words("cudawrap --lst -- grep -q").run();
    outcome.exits(125).mentions("hint: ");
}

#[test]
fn a_program_in_the_working_directory_is_hinted_at() {
    let sandbox = Sandbox::new("mig4");
    sandbox.file("work/simulate", "#!/bin/sh\n", 0o755);
    let outcome = sandbox.words("cudawrap -- simulate").run();
    outcome.exits(127).mentions("did you mean ./simulate?");
    // A script that its interpreter runs.
    sandbox.file("work/train.py", "", 0o644);
    let outcome = sandbox.words("cudawrap train.py").run();
    outcome
        .exits(127)
        .mentions("hint: cudawrap -- python3 train.py");
}

#[test]
fn a_variable_that_nobody_reads_is_named() {
    let sandbox = Sandbox::new("mig4");
    let run = |pair: &str| {
        let outcome = sandbox.words(&format!("{pair} cudawrap -- true")).run();
        outcome.exits(0).clone()
    };
    let line = "cudawrap: CUDAWRAP_SHRAE: no such variable, ignored; did you mean CUDAWRAP_SHARE?";
    run("CUDAWRAP_SHRAE=1/2").says(&[line]);
    let line = "cudawrap: CUDAWRAP_XYZZY: no such variable, ignored";
    run("CUDAWRAP_XYZZY=1").says(&[line]);
    let all = "CUDAWRAP_SHARE=1/2 CUDAWRAP_WAIT=3 CUDAWRAP_MIN_MEMORY=1G CUDAWRAP_VISIBLE=one \
               CUDAWRAP_IGNORE_GRANT=1 CUDAWRAP_DISABLE=0";
    for pair in all.split_whitespace() {
        run(pair).says(&[]);
    }
}

#[test]
fn the_settings_are_shown_with_the_files_and_the_lock() {
    let sandbox = Sandbox::new("mig4");
    let (file, lock) = (sandbox.text("config.toml"), sandbox.text("run/lock"));
    let shown = sandbox.ask("-v --show-config");
    shown.shows(&format!("# {file}: read\n"));
    shown.shows(&format!("\n# lock: {lock}\n"));
}

#[test]
fn a_setting_that_leaves_nothing_is_named_by_file_and_line() {
    let sandbox = Sandbox::new("mig4");
    let file = sandbox.settings_file();
    let place = |setting: &str| {
        let text = std::fs::read_to_string(&file).unwrap();
        let sets = |line: &str| line.split(' ').next() == Some(setting);
        let line = text.lines().position(sets).unwrap() + 1;
        format!("(setting `{setting}` in {}:{line})", file.display())
    };
    let unknown = "allowed = ['MIG-00000000-0000-0000-0000-000000000000']";
    #[rustfmt::skip]
    let lines = [
        "profile = ['9g.9gb']", "type = 'gpu'", "gpu = [7]", "min_memory = '900G'", "count = 9",
        unknown,
    ];
    for line in lines {
        let setting = line.split(' ').next().unwrap();
        sandbox.set_settings(&format!("# a site's file\n{line}\n"));
        let outcome = sandbox.ask("--for 0");
        outcome.exits(3).mentions(&place(setting));
        sandbox.refuses(&[("cudawrap -- true", 125, &place(setting))]);
    }
    // What was typed needs no place.
    sandbox.set_settings("# a site's file\nprofile = ['1g.5gb']\n");
    let outcome = sandbox.ask("--profile 9g.9gb");
    outcome.refuses(3, "4 not of the profile asked for");
    assert!(!outcome.stderr.contains("setting"), "{outcome:#?}");
    sandbox.set_settings("wiat = 3");
    let outcome = sandbox.ask("--for 0");
    outcome.refuses(2, "unknown setting `wiat`: did you mean `wait`?");
}

#[test]
fn an_index_where_mig_devices_are_is_explained() {
    let sandbox = Sandbox::new("mig4");
    let getgpu = sandbox.ask_within("3", "--for 0");
    getgpu.exits(3).mentions("MIG devices go by UUID");
    getgpu.mentions("hint: CUDA_VISIBLE_DEVICES=$(getgpu --ignore-grant 3) ./app");
    // There are four devices here.
    let getgpu = sandbox.ask_within("4", "--for 0");
    getgpu.exits(3).mentions("MIG devices go by UUID");
    getgpu.mentions("hint: CUDA_VISIBLE_DEVICES=$(getgpu --ignore-grant) ./app");
    // Inside a job it is the batch system's affair.
    let job = sandbox.words("getgpu --for 0").visible("3");
    let job = job.env("SLURM_JOB_ID", "7").run();
    job.exits(3).mentions("ask it for other GPUs");
}

#[test]
fn on_a_terminal_ones_own_reservations_come_with_their_remedy() {
    let sandbox = Sandbox::new("mig4");
    sandbox.ask("--count 4 --for=600").exits(0);
    let call = || sandbox.words("getgpu --for 0");
    let remedy = "4 of them are reserved for you: getgpu --list --mine shows which, getgpu --release-all gives them back";
    let terminal = Terminal::new(200, 24);
    let outcome = call().stderr(terminal.slave()).run();
    outcome.exits(1);
    let text = terminal.rest();
    assert!(text.contains(remedy), "{text}");
    let piped = call().run();
    assert!(!piped.exits(1).stderr.contains("reserved for you"));
    // In a shell that Slurm has adopted (pam_slurm_adopt) a step of the job may have the device.
    copy_program("/bin/sh", sandbox.path("work/slurmstepd"));
    let adopted = "exec -a 'slurmstepd: [7.extern]' ./slurmstepd -c 'getgpu --for 0; exit $?'";
    let shell = sandbox.command("bash").args(["-c", adopted]);
    let terminal = Terminal::new(200, 24);
    shell.stderr(terminal.slave()).run().exits(1);
    let text = terminal.rest();
    let remedy =
        "shows for which step of a job, srun --jobid=7 --overlap starts a program in this one";
    assert!(text.replace("\r\n", "").contains(remedy), "{text}");
}

#[test]
fn h_is_short_and_help_is_everything() {
    let sandbox = Sandbox::new("mig4");
    for program in ["getgpu", "cudawrap"] {
        let shown = |option: &str| {
            let outcome = sandbox.command(program).args([option]).run();
            outcome.says(&[]).output()
        };
        let (short, long) = (shown("-h"), shown("--help"));
        assert!(short.lines().count() < 40, "{short}");
        assert!(short.contains(&format!("{program} --help")), "{short}");
        assert!(long.contains("Exit status:") && !short.contains("Exit status:"));
        for option in ["--ignore-grant", "--profile"] {
            assert!(long.contains(option) && !short.contains(option), "{option}");
        }
        let terminal = Terminal::new(60, 24);
        let command = sandbox.command(program).args(["--help"]);
        command.stdout(terminal.slave()).run().exits(0);
        let lists = terminal.rest();
        let lists = lists.split("Exit status:").nth(1).unwrap();
        let widest = lists.lines().map(|line| line.trim_end().chars().count());
        assert!(widest.max() <= Some(60), "{lists}");
    }
}
