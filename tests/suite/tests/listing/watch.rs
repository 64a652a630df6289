//! `--watch` draws the list in place, answers keys whatever the driver does, and leaves the
//! terminal as it was.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use harness::{Running, Sandbox, Signal, wait};
use nix::pty::{Winsize, openpty};

struct Watched {
    program: Running,
    keys: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Watched {
    fn start(sandbox: &Sandbox) -> Self {
        let size = Winsize {
            ws_row: 20,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None).unwrap();
        let slave = File::from(pty.slave);
        let program = sandbox
            .getgpu(["--watch=0.2"])
            .env("TERM", "xterm")
            .stdin(slave.try_clone().unwrap())
            .stdout(slave)
            .spawn();
        let keys = File::from(pty.master);
        let (mut screen, seen) = (keys.try_clone().unwrap(), Arc::default());
        let theirs: Arc<Mutex<Vec<u8>>> = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut part = [0u8; 4096];
            while let Ok(read @ 1..) = screen.read(&mut part) {
                theirs.lock().unwrap().extend_from_slice(&part[..read]);
            }
        });
        Self {
            program,
            keys,
            seen,
        }
    }

    fn shows(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).contains(text)
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
        .command("cudawrap")
        .args(["--policy", "first", "--", "sim-cuda", "--run", "forever"])
        .spawn();
    wait::until("the lease is drawn", || watched.shows("leased"));
    // The last line is below the screen.
    watched.keys.write_all(b"\x1b[F").unwrap();
    wait::until("the end is drawn", || watched.shows("55 of 56 free"));
    watched.keys.write_all(b"q").unwrap();
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
        watched.keys.write_all(key).unwrap();
        watched.program.wait().exits(0);
        assert!(began.elapsed() < wait::LONG);
    }
}

#[test]
fn without_a_terminal_it_is_refused() {
    let sandbox = Sandbox::new("mig4");
    sandbox
        .getgpu(["--watch"])
        .run()
        .refuses("getgpu", 2, "not a terminal");
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
