//! Keys, stops, background jobs and their messages, typed into an interactive shell on a
//! terminal, give the same transcript with the program and with the wrapped program.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use getgpu_tests::listing;
use harness::skip::{self, Need};
use harness::{Running, Sandbox, Terminal, wait};

/// A shell on a terminal of its own.
struct ShellTerminal {
    shell: Running,
    terminal: Terminal,
}

impl ShellTerminal {
    /// `shell -i` with `directory` first in its PATH.
    fn new(sandbox: &Sandbox, directory: &str) -> Self {
        let terminal = Terminal::new(0, 0);
        let path = format!("{}:/usr/bin:/bin", sandbox.text(directory));
        // setsid(1) makes the terminal the controlling one of the new session.
        let words = ["-c", "-w", "bash", "--norc", "--noediting", "-i"];
        let command = sandbox.command("setsid").args(words).env("PATH", path);
        let command = command.env("PS1", "> ").env("TERM", "dumb");
        let shell = terminal.all_streams(command).limit(Duration::from_secs(60));
        let shell = shell.spawn();
        Self { shell, terminal }
    }

    fn text(&self) -> String {
        self.terminal.text().replace('\r', "")
    }

    /// Waits for the shell's first prompt.
    fn prompt(&self) {
        wait::until("there is a prompt", || self.text().contains("> "));
    }

    /// Types, and waits until the screen shows `until` once more than before.
    fn type_until(&mut self, keys: &str, until: &str) {
        let before = self.text().matches(until).count();
        self.terminal.type_keys(keys.as_bytes());
        let text = || self.text();
        assert!(
            wait::holds_within(wait::LONG, || text().matches(until).count() > before),
            "{keys:?}: no {until:?} in {}",
            text()
        );
    }

    /// Presses a key that stops or ends the program, and waits until the shell reads again:
    /// what is typed before that is echoed by the terminal.
    fn press(&mut self, key: &str, until: &str) {
        self.type_until(key, until);
        wait::until("the shell prompts", || self.text().ends_with("> "));
    }
}

/// What was typed and seen, without process ids.
fn transcript(sandbox: &Sandbox, directory: &str) -> Vec<String> {
    let mut terminal = ShellTerminal::new(sandbox, directory);
    terminal.prompt();
    terminal.type_until("cat\n", "cat\n");
    // cat reads, so the line comes twice: echoed and printed.
    terminal.type_until("hello\n", "hello\nhello\n");
    terminal.press("\x1a", "Stopped");
    terminal.type_until("jobs\n", "Stopped");
    terminal.type_until("fg\n", "fg\ncat\n");
    terminal.type_until("again\n", "again\nagain\n");
    terminal.type_until("\x03", "^C\n> ");
    terminal.type_until("echo status=$?\n", "status=130\n> ");
    // In the background, reading the terminal stops it.
    terminal.type_until("cat & wait %1; echo waited=$?\n", "waited=149\n> ");
    terminal.type_until(
        "kill %1; while kill -0 %1 2>&-; do :; done; echo gone\n",
        "  cat\n> ",
    );
    terminal.type_until(
        "sleep 100 & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!; wait $!; echo stopped=$?\n",
        "stopped=147\n> ",
    );
    terminal.type_until("bg %1\n", "sleep 100 &\n> ");
    terminal.type_until(
        "kill -INT %1; while kill -0 %1 2>&-; do :; done; echo gone\n",
        "  sleep 100\n> ",
    );
    terminal.type_until("(echo go; sleep 100) | cat\n", "go\n");
    terminal.press("\x1a", "Stopped");
    terminal.type_until("fg\n", "| cat\n");
    terminal.type_until("\x03", "^C\n> ");
    terminal.type_until("cat\n", "cat\n");
    terminal.type_until("quit\n", "quit\nquit\n");
    terminal.press("\x1c", "Quit");
    terminal.type_until("cat\n", "cat\n");
    terminal.type_until("end\n", "end\nend\n");
    terminal.type_until("\x04", "> ");
    let text = terminal.text();
    terminal.terminal.type_keys(b"exit 7\n");
    assert_eq!(terminal.shell.wait().code(), Some(7), "{text}");
    // `[1] 4711` says a process id; the warning comes when the shell is slower than the
    // stop.
    let job = |line: &str| {
        let (number, pid) = line.split_once(' ').unwrap_or_default();
        number.starts_with('[') && pid.trim_end().parse::<u32>().is_ok()
    };
    text.lines()
        .filter(|line| !job(line) && !line.contains("wait_for_job"))
        .map(|line| line.trim_end().to_owned())
        .collect()
}

#[test]
fn keys_and_jobs_are_the_same_wrapped_and_not() {
    if skip::lacks(&["bash", "setsid", "cat", "sleep"].map(Need::Tool)) {
        return;
    }
    let sandbox = Sandbox::new("a100x1");
    for name in ["cat", "sleep"] {
        let program = skip::tool(name).unwrap().canonicalize().unwrap();
        let link = |to: &Path, at: &str| {
            let at = sandbox.path(at);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(to, at).unwrap();
        };
        link(&program, &format!("direct/{name}"));
        link(&program, &format!("wrapped/CUDAWRAP_{name}"));
        link(&sandbox.path("bin/cudawrap"), &format!("wrapped/{name}"));
    }
    let [direct, wrapped] = ["direct", "wrapped"].map(|name| transcript(&sandbox, name));
    assert_eq!(wrapped, direct);
    assert!(direct.len() > 25, "{direct:#?}");
    sandbox.assert_clean();
}

/// An orphaned group: its parent has exited, so the kernel sends HUP and CONT to a
/// stopped one.
#[test]
fn a_stopped_program_ends_with_its_shell_and_frees_its_device() {
    let sandbox = Sandbox::new("mig4");
    let mut terminal = ShellTerminal::new(&sandbox, "bin");
    terminal.prompt();
    terminal.type_until("cudawrap -- sim-cuda --run forever\n", "RUN ");
    terminal.type_until("\x1a", "Stopped");
    assert!(sandbox.locked(), "a stopped program keeps its device");
    terminal.terminal.type_keys(b"exit\nexit\n");
    terminal.shell.wait();
    wait::until("the device is free", || !sandbox.locked());
}

/// In the background the terminal's last line is the shell's prompt.
#[test]
fn a_waiter_in_the_background_leaves_the_prompt_alone() {
    let sandbox = Sandbox::new("h200x1");
    let _held = sandbox.leased().spawn();
    sandbox.until_running(1);
    let waiting = || listing::waiting(&sandbox) == 1;
    let mut terminal = ShellTerminal::new(&sandbox, "bin");
    terminal.prompt();
    let quiet = |terminal: &ShellTerminal, what: &str| {
        wait::until("it waits", waiting);
        let before = terminal.text().matches("waiting for a device").count();
        wait::throughout(Duration::from_millis(2500), what, || {
            terminal.text().matches("waiting for a device").count() == before
        });
    };
    terminal.type_until("cudawrap --wait -- sim-cuda &\n", "> ");
    quiet(&terminal, "nothing is painted from the background");
    terminal.type_until("fg\n", "waiting for a device: 1 of 1 in use");
    terminal.type_until("\x1a", "Stopped");
    terminal.type_until("bg\n", "sim-cuda &");
    quiet(&terminal, "nor after bg");
    terminal.type_until("kill %1\n", "> ");
    wait::until("it has exited", || !waiting());
}
