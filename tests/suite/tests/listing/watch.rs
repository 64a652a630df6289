//! `--watch` draws the list in place, answers keys whatever the driver does, and leaves the
//! terminal as it was.

use std::time::{Duration, Instant};

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

    fn shows(&self, text: &str) -> bool {
        self.terminal.shows(text)
    }
}

#[test]
fn the_list_is_drawn_again_and_again_until_a_key_ends_it() {
    let sandbox = Sandbox::new("a100x8");
    let mut watched = Watched::start(&sandbox);
    wait::until("the list is drawn", || {
        watched.shows("56 of 56 free") || watched.shows("GPU 1  ")
    });
    let _program = sandbox
        .words("cudawrap --policy first -- sim-cuda --run forever")
        .spawn();
    wait::until("the lease is drawn", || watched.shows("leased"));
    // The total stays on the screen, with what is below it.
    wait::until("the total is drawn", || {
        watched.shows("more below; 55 of 56 free")
    });
    watched.terminal.type_keys(b"\x1b[F");
    wait::until("the end is drawn", || {
        watched.shows("\r\n55 of 56 free") || watched.shows("H55 of 56 free")
    });
    watched.terminal.type_keys(b"?");
    wait::until("the states are explained", || {
        watched.shows("used by a program that did not ask here")
    });
    watched.terminal.type_keys(b"?");
    watched.terminal.type_keys(b"q");
    wait::until("the screen is as before", || {
        watched.shows("\x1b[?25h") && watched.shows("\x1b[?1049l")
    });
    watched.program.wait().exits(0);
}

#[test]
fn a_driver_that_hangs_keeps_no_key_from_being_answered() {
    let sandbox = Sandbox::new("mig4");
    sandbox.faults("[[rule]]\nfunction = '*'\ndoes = 'hang'");
    for key in [&b"q"[..], b"\x03"] {
        let mut watched = Watched::start(&sandbox);
        wait::until("it is on the screen", || watched.shows("\x1b[?1049h"));
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
    wait::until("it is on the screen", || watched.shows("\x1b[?1049h"));
    watched.program.signal(Signal::SIGKILL);
    watched.program.wait();
    // Long before the time limit of NVML passes.
    let gone = wait::holds_within(Duration::from_secs(5), || sandbox.processes().is_empty());
    assert!(gone, "{:?}", sandbox.processes());
}
