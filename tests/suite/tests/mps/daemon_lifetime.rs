//! The daemon ends with its last client, however that ended, and every program that
//! starts finds one, whatever was killed before.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use getgpu_tests::bytes;
use getgpu_tests::mps::{CONTROL, Node, end, starts_in_log};
use harness::{Running, Signal, wait};
use nix::libc;

#[test]
fn nothing_is_left_when_every_client_is_killed() {
    Node::each(|node| {
        let (mut clients, _) = node.clients(4, |_, command| command);
        for client in &clients[1..] {
            client.running.signal(Signal::SIGKILL);
        }
        wait::until("three are over", || {
            let mut killed = clients[1..].iter_mut();
            killed.all(|client| client.running.is_over())
        });
        assert_eq!(node.daemons().len(), 1, "one client is left");
        clients[0].running.signal(Signal::SIGKILL);
        node.until_gone();
    });
}

#[test]
fn a_program_is_a_client_as_long_as_any_of_its_processes_lives() {
    Node::each(|node| {
        let (out, go) = (node.sandbox.text("work/out"), node.sandbox.text("work/go"));
        let script = format!("probe --out {out} --until {go} & exit 7");
        node.share("1/2", &["bash", "-c", &script]).run().exits(7);
        wait::until("the child runs", || Path::new(&out).exists());
        assert_eq!((node.daemons().len(), node.keepers().len()), (1, 1));
        node.go();
        node.until_gone();
    });
}

#[test]
fn killed_keepers_and_daemons_are_replaced_by_the_next_program() {
    Node::each(|node| {
        let _first = node.started("first");
        let daemons = node.daemons();
        end(node.keepers()[0]);
        let _second = node.started("second");
        let starts = starts_in_log(&node.place());
        assert_eq!(
            (node.daemons(), node.keepers().len(), starts),
            (daemons.clone(), 1, 1)
        );
        let keepers = node.keepers();
        end(daemons[0]);
        let _third = node.started("third");
        // The one that has started the daemon goes, since another watches.
        wait::until("one keeper", || node.keepers() == keepers);
        assert_eq!(node.daemons().len(), 1);
        assert_ne!(node.daemons(), daemons);
        // Both at once, and then nobody but the keeper sees that the last client has
        // exited.
        end(node.daemons()[0]);
        end(node.keepers()[0]);
        let _fourth = node.started("fourth");
        assert_eq!((node.daemons().len(), node.keepers().len()), (1, 1));
        end(node.daemons()[0]);
        node.go();
        node.until_gone();
    });
}

#[test]
fn every_program_finds_a_daemon_though_others_end_it_just_then() {
    Node::each(|node| {
        // One after the other, from several sides: each ends the daemon that the next one
        // wants, or nearly so. The daemon takes one front end at a time: one that is
        // turned away, with a line or without a word, has found a daemon. Where there is
        // none, NVIDIA's says so.
        let busy =
            "case $said in '' | *'Cannot send command'*) ;; *) echo \"$said\" >&2; exit 1;; esac";
        let ask = format!("until said=$(echo get_server_list | {CONTROL} 2>&1); do {busy}; done");
        let one = "cudawrap --share 1/8 --mps --wait -- bash -c \"$0\" || exit";
        let side = || {
            let script = format!("for i in 1 2 3 4 5 6 7 8; do {one}; done");
            node.sandbox.shell("bash", &script).args([&ask]).spawn()
        };
        let sides: Vec<Running> = (0..4).map(|_| side()).collect();
        for side in sides {
            side.wait().exits(0).says(&[""; 0]);
        }
        node.until_gone();
    });
}

#[test]
fn a_front_end_that_is_open_only_delays_the_end() {
    Node::each(|node| {
        let client = node.started("client");
        let (place, fifo) = (node.place(), node.sandbox.text("work/fifo"));
        let text = |name: &str| place.join(name).display().to_string();
        let script = format!("mkfifo {fifo}; exec {CONTROL} < {fifo}");
        let command = node.sandbox.shell("bash", &script);
        let front = command
            .env("CUDA_MPS_PIPE_DIRECTORY", text("pipe"))
            .env("CUDA_MPS_LOG_DIRECTORY", text("log"))
            .spawn();
        wait::until("it reads", || Path::new(&fifo).exists());
        let mut say = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        say.write_all(b"get_server_list\n").unwrap();
        let log = place.join("log/control.log");
        wait::until("it speaks to the daemon", || {
            let said = fs::read_to_string(&log).unwrap();
            said.contains("Cmd:get_server_list")
        });
        client.running.signal(Signal::SIGKILL);
        client.running.wait();
        wait::throughout(Duration::from_millis(500), "the daemon stays", || {
            node.daemons().len() == 1
        });
        drop(say);
        front.wait();
        node.until_gone();
    });
}

#[test]
fn a_client_that_comes_while_the_keeper_waits_keeps_the_daemon() {
    Node::each(|node| {
        let first = node.started("first");
        let place = node.place();
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).write(true);
        let [mutex, client] = [(); 2].map(|()| options.open(place.join("lock")).unwrap());
        // The keeper lets go of the mutex a moment after it has said that the daemon listens.
        let lock = |file: &fs::File, kind: i32, byte: i64| {
            wait::until("it can be locked", || {
                bytes::lock(file, kind, byte, 1).is_ok()
            });
        };
        // As a program does that starts: it has the mutex when the last client ends, and
        // becomes a client before it lets go.
        lock(&mutex, libc::F_WRLCK, 0);
        first.running.signal(Signal::SIGKILL);
        let inode = fs::metadata(place.join("lock")).unwrap().ino();
        let waits = |line: &str| line.contains("->") && line.ends_with(&format!(":{inode} 0 0"));
        wait::until("the keeper waits", || {
            let locks = fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(waits)
        });
        lock(&client, libc::F_RDLCK, 2);
        drop(mutex);
        wait::throughout(Duration::from_millis(300), "the daemon stays", || {
            node.daemons().len() == 1
        });
        drop(client);
        node.until_gone();
    });
}

#[test]
fn nothing_is_left_of_programs_that_are_killed_while_they_start() {
    Node::each(|node| {
        for round in 0..12 {
            let client = node.client(&format!("client{round}"), |c| c);
            // Killed at another moment of its start each time.
            let made = ["", "lock", "pipe", "log", "log/start.log", "pipe/control"][round % 6];
            let made = node.place().join(made);
            wait::until("it has come so far", || made.exists());
            client.running.signal(Signal::SIGKILL);
            client.running.wait();
            if round % 2 == 0 {
                let next = node.started(&format!("next{round}"));
                wait::until("one of each", || {
                    (node.daemons().len(), node.keepers().len()) == (1, 1)
                });
                next.running.signal(Signal::SIGKILL);
            }
            wait::until("nothing is left", || {
                node.daemons().is_empty() && node.keepers().is_empty()
            });
        }
    });
}
