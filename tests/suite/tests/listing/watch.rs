//! `--watch` draws the list in place, answers keys whatever the driver does, and leaves the
//! terminal as it was.

use std::time::Instant;

use harness::{Running, Sandbox, Signal, Terminal, wait};

struct Watched {
    program: Running,
    terminal: Terminal,
}

impl Watched {
    fn start(sandbox: &Sandbox) -> Self {
        let terminal = Terminal::new(100, 20);
        let watch = sandbox.words("TERM=xterm getgpu --watch=0.2");
        let watch = watch.stdin(terminal.slave());
        let program = watch.stdout(terminal.slave()).spawn();
        Self { program, terminal }
    }

    /// Waits until one of these has been drawn.
    #[track_caller]
    fn until_shows(&self, what: &str, texts: &[&str]) {
        let shown = || texts.iter().any(|text| self.terminal.shows(text));
        wait::until(what, shown);
    }
}

#[test]
fn the_list_is_drawn_again_and_again_until_a_key_ends_it() {
    let sandbox = Sandbox::new("a100x8");
    let mut watched = Watched::start(&sandbox);
    watched.until_shows("the list is drawn", &["56 of 56 free", "GPU 1  "]);
    let program = "cudawrap --policy first -- sim-cuda --run forever";
    let _program = sandbox.words(program).spawn();
    watched.until_shows("the lease is drawn", &["leased"]);
    // The total stays on the screen, with what is below it.
    watched.until_shows("the total is drawn", &["more below; 55 of 56 free"]);
    watched.terminal.type_keys(b"\x1b[F");
    let ends = ["\r\n55 of 56 free", "H55 of 56 free"];
    watched.until_shows("the end is drawn", &ends);
    watched.terminal.type_keys(b"?");
    let explained = "used by a program that did not ask here";
    watched.until_shows("the states are explained", &[explained]);
    watched.terminal.type_keys(b"?");
    watched.terminal.type_keys(b"q");
    for as_before in ["\x1b[?25h", "\x1b[?1049l"] {
        watched.until_shows("the screen is as before", &[as_before]);
    }
    watched.program.wait().exits(0);
}

#[test]
fn a_driver_that_hangs_keeps_no_key_from_being_answered() {
    let sandbox = Sandbox::new("mig4");
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    for key in [&b"q"[..], b"\x03"] {
        let mut watched = Watched::start(&sandbox);
        watched.until_shows("it is on the screen", &["\x1b[?1049h"]);
        let began = Instant::now();
        watched.terminal.type_keys(key);
        watched.program.wait().exits(0);
        assert!(began.elapsed() < wait::LONG);
    }
}

#[test]
fn without_a_terminal_it_is_refused() {
    let sandbox = Sandbox::new("mig4");
    sandbox.ask("--watch").refuses(2, "not a terminal");
}

#[test]
fn a_killed_watch_leaves_no_process_behind() {
    let sandbox = Sandbox::new("mig4");
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    let watched = Watched::start(&sandbox);
    watched.until_shows("it is on the screen", &["\x1b[?1049h"]);
    watched.program.signal(Signal::SIGKILL);
    watched.program.wait();
    // Long before the time limit of NVML passes.
    wait::until("nothing is left", || sandbox.processes().is_empty());
}
