//! What a process leaves behind that a device was held for: programs that name the device keep it
//! as an ordinary reservation does, agents and servers do not, and the list names what keeps it.

use std::time::Duration;

use getgpu_tests::{all_at_once, free_again, listing, mps, somebody};
use harness::{Sandbox, skip, wait};

/// A program that goes on beside nothing, in a script of a shell.
const TRAIN: &str = "nohup sim-cuda --until-file end >/dev/null 2>&1 &";

/// What starts a program, or stays to start one, and exits.
fn launchers() -> Vec<(&'static str, String)> {
    let python = |launch: &str| {
        format!(
            "import os, subprocess\n\
             os.environ['CUDA_VISIBLE_DEVICES'] = subprocess.check_output(['getgpu', '--hold'], text=True).strip()\n\
             {launch}"
        )
    };
    let read = "read line <fifo";
    vec![
        (
            "bash",
            format!("export CUDA_VISIBLE_DEVICES=$(getgpu --hold); {TRAIN}"),
        ),
        (
            "bash",
            format!("export CUDA_VISIBLE_DEVICES=$(getgpu --hold=$$); {TRAIN}"),
        ),
        (
            "bash",
            format!(
                "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=$(getgpu --hold --format index); {TRAIN}"
            ),
        ),
        (
            "dash",
            "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); setsid -f sim-cuda --until-file end"
                .into(),
        ),
        // A fork that has executed nothing does not show what it was told.
        (
            "bash",
            format!("export CUDA_VISIBLE_DEVICES=$(getgpu --hold); ({read}) & exit"),
        ),
        (
            "python3",
            python("subprocess.Popen(['sim-cuda', '--until-file', 'end'], start_new_session=True)"),
        ),
        (
            "python3",
            python("if not os.fork():\n  os.setsid()\n  open('fifo').readline()"),
        ),
    ]
}

#[test]
fn what_a_hold_leaves_behind_keeps_its_device() {
    all_at_once(launchers(), |(program, script)| {
        if skip::lacks(&[skip::Need::Tool(program)]) {
            return;
        }
        let sandbox = Sandbox::with("gpus4", "linger = '100ms'\nmax_per_user = 4");
        sandbox.line("-q -n 3 --hold");
        let fifo = sandbox.path("work/fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
        // What was left behind has the standard streams of what it left, and none is waited for.
        let out = std::fs::File::create(sandbox.path("out")).unwrap();
        let command = sandbox.command(program).args(["-c", &script]);
        let command = command.stdout(out.try_clone().unwrap()).stderr(out);
        command.spawn().wait().exits(0);
        let held = || sandbox.holders().len() == 2;
        wait::throughout(Duration::from_millis(700), &format!("held: {script}"), held);
        somebody(&sandbox, &[]).run().exits(1);
        sandbox.file("work/end", "", 0o644);
        if script.contains("fifo") {
            std::fs::write(&fifo, "\n").unwrap();
        }
        wait::until("it is free", || sandbox.holders().len() == 1);
    });
}

/// `max_hold` counts from the beginning, whatever was left behind.
#[test]
fn what_is_left_behind_ends_with_the_longest_hold() {
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'\nmax_hold = '2s'");
    let script = format!("export CUDA_VISIBLE_DEVICES=$(getgpu --hold); {TRAIN}");
    sandbox.shell("bash", &script).run().exits(0);
    sandbox.until_running(1);
    assert_eq!(sandbox.holders().len(), 1);
    wait::until("it has ended", || sandbox.holders().is_empty());
    assert_eq!(sandbox.running(), 1);
    sandbox.file("work/end", "", 0o644);
}

/// Where the caller has exited, the list says what to end.
#[test]
fn the_list_names_what_keeps_a_reservation() {
    for call in ["getgpu --hold", "getgpu"] {
        let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
        let script = format!("export CUDA_VISIBLE_DEVICES=$({call}); {TRAIN}");
        sandbox.shell("bash", &script).run().exits(0);
        sandbox.until_running(1);
        let uuid = sandbox.uuids()[0].clone();
        wait::until("the program is listed", || {
            let listed = listing::json(&sandbox);
            let holder = &listing::device(&listed, &uuid)["holders"][0];
            holder["program"] == "sim-cuda"
        });
        sandbox.file("work/end", "", 0o644);
        free_again(&sandbox);
    }
}

/// An argument keeps a reservation too, and a list shows whose it is.
#[test]
fn the_list_names_what_keeps_a_reservation_by_a_variable() {
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
    let script =
        "NVIDIA_VISIBLE_DEVICES=$(getgpu --for 0.3) nohup probe --until go >/dev/null 2>&1 &";
    sandbox.shell("bash", script).run().exits(0);
    let uuid = sandbox.uuids()[0].clone();
    wait::until("the program is listed", || {
        let listed = listing::json(&sandbox);
        let holder = &listing::device(&listed, &uuid)["holders"][0];
        holder["program"] == "probe"
    });
    let held = || sandbox.holders().len() == 1;
    wait::throughout(Duration::from_secs(1), "kept by a variable", held);
    sandbox.file("work/go", "", 0o644);
    free_again(&sandbox);
}

/// A variable that held the UUID before the call tells nothing of the reservation.
#[test]
fn a_variable_of_before_keeps_nothing() {
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
    let script = "d=$(getgpu --for 0.3); echo $d >printed; probe --until go";
    let shell = sandbox.shell("bash", script);
    let shell = shell.env("NVIDIA_VISIBLE_DEVICES", &sandbox.uuids()[0]);
    let shell = shell.spawn();
    sandbox.until_file("work/printed");
    free_again(&sandbox);
    sandbox.file("work/go", "", 0o644);
    shell.wait().exits(0);
}

/// Agents and servers inherit the variable and never use CUDA; what they start counts.
#[test]
fn an_agent_keeps_no_device_and_what_it_starts_does() {
    let agents = [
        ("ssh-agent", "ssh-agent -a $PWD/agent >/dev/null"),
        (
            "gpg-agent",
            "mkdir -m 700 gpg && gpg-agent --homedir $PWD/gpg --daemon >/dev/null 2>&1",
        ),
        (
            "dbus-daemon",
            "dbus-daemon --session --address=unix:path=$PWD/bus --fork --nopidfile >/dev/null",
        ),
    ];
    let calls = ["getgpu --hold", "getgpu --for 0.5"];
    let cases = agents
        .iter()
        .flat_map(|agent| calls.map(|call| (agent, call)));
    all_at_once(cases, |((tool, agent), call)| {
        if skip::lacks(&[skip::Need::Tool(tool)]) {
            return;
        }
        let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
        let script = format!(
            "export CUDA_VISIBLE_DEVICES=$({call}); {agent} || exit 99; sim-cuda --run 0.3"
        );
        let outcome = sandbox.shell("bash", &script).run();
        if outcome.code() == Some(99) {
            let why = outcome.stderr.lines().next().unwrap_or_default();
            skip::say(&format!("{tool} does not start: {why}"));
            return;
        }
        outcome.exits(0);
        wait::until("the device is free", || sandbox.holders().is_empty());
        // Its user may not read its environment, but its command line.
        let here = sandbox.root().display().to_string();
        let is_here = |pid| {
            mps::words(pid, "cmdline")
                .iter()
                .any(|word| word.contains(&here))
        };
        let agents = mps::processes(tool, is_here);
        assert!(!agents.is_empty(), "{tool} has exited, and shows nothing");
        agents.into_iter().for_each(mps::end);
    });
    if skip::lacks(&[skip::Need::Tool("tmux")]) {
        return;
    }
    let sandbox = Sandbox::with("h200x1", "linger = '100ms'");
    let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); \
        tmux -S $PWD/socket -f /dev/null start-server \\; set -g exit-empty off \\; \
        new-session -d 'sim-cuda --until-file end'";
    sandbox.shell("bash", script).run().exits(0);
    sandbox.until_running(1);
    let held = || sandbox.holders().len() == 1;
    wait::throughout(Duration::from_millis(500), "its program runs", held);
    sandbox.file("work/end", "", 0o644);
    sandbox.until_running(0);
    wait::until("the device is free", || sandbox.holders().is_empty());
    let server = sandbox.words("tmux -S @/work/socket kill-server");
    server.run().exits(0);
}

/// A site adds its own by a setting.
#[test]
fn a_site_names_programs_that_keep_no_device() {
    for (settings, keeps) in [("", true), ("background_programs = ['agentd']", false)] {
        let sandbox = Sandbox::with("h200x1", &format!("linger = '100ms'\n{settings}"));
        let copy = "cp $(readlink -f $(command -v sleep)) agentd";
        sandbox.shell("bash", copy).run().exits(0);
        let script = "export CUDA_VISIBLE_DEVICES=$(getgpu --hold); setsid -f ./agentd 600 >/dev/null 2>&1; sim-cuda --run 0.2";
        sandbox.shell("bash", script).run().exits(0);
        if keeps {
            let held = || sandbox.holders().len() == 1;
            wait::throughout(Duration::from_millis(500), "kept", held);
        } else {
            free_again(&sandbox);
        }
    }
}
