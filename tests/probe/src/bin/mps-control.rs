//! A stand-in for nvidia-cuda-mps-control as far as it can be seen without a driver: `-d`
//! starts a daemon that listens on `control` in CUDA_MPS_PIPE_DIRECTORY and allows no
//! second one there; without arguments it sends the lines of its standard input to that
//! daemon.
#![allow(unsafe_code)]
#![allow(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "what the real one says"
)]

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept, bind, listen, socket,
};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

fn main() {
    let directory = |name: &str, usual: &str| {
        std::env::var_os(name).map_or_else(|| PathBuf::from(usual), PathBuf::from)
    };
    let pipe = directory("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
    let log = directory("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps");
    let status = match std::env::args_os().nth(1) {
        Some(word) if word == "-d" => daemon(&pipe, &log).unwrap_or_else(|error| {
            eprintln!("{error}");
            1
        }),
        Some(_) => 1,
        None => commands(&pipe),
    };
    std::process::exit(status);
}

/// It listens when its starter has exited, since all is made before the fork.
fn daemon(directory: &Path, log: &Path) -> io::Result<i32> {
    if !directory.is_dir() {
        fs::create_dir(directory)?;
    }
    if directory.as_os_str().len() >= 90 {
        return Ok(1);
    }
    let lock = File::create(directory.join("control_lock"))?;
    let Ok(_lock) = Flock::lock(lock, FlockArg::LockExclusiveNonblock) else {
        println!("An instance of this daemon is already running");
        return Ok(1);
    };
    let mut append = OpenOptions::new();
    let mut log = append
        .append(true)
        .create(true)
        .open(log.join("control.log"))?;
    let [control, privileged] = ["control", "control_privileged"].map(|name| directory.join(name));
    let socket_name = control.display();
    writeln!(log, "Starting control daemon using socket {socket_name}")?;
    let _ = mkfifo(&directory.join("log"), Mode::from_bits_truncate(0o777));
    for left in [&control, &privileged] {
        let _ = fs::remove_file(left);
    }
    let front_ends = UnixListener::bind(privileged)?;
    let flags = SockFlag::SOCK_CLOEXEC;
    let programs = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?;
    bind(programs.as_raw_fd(), &UnixAddr::new(&control)?)?;
    listen(&programs, Backlog::new(64)?)?;
    fs::set_permissions(&control, Permissions::from_mode(0o666))?;
    nix::unistd::daemon(true, false)?;
    std::thread::spawn(move || {
        while let Ok(client) = accept(programs.as_raw_fd()) {
            // SAFETY: accept(2) has returned it just now.
            drop(unsafe { OwnedFd::from_raw_fd(client) });
        }
    });
    loop {
        let (client, _) = front_ends.accept()?;
        for command in BufReader::new(&client).lines().map_while(Result::ok) {
            writeln!(log, "Cmd:{command}")?;
            if command == "quit" {
                writeln!(log, "Exit with status 0")?;
                return Ok(0);
            }
            let _ = writeln!(&client);
        }
    }
}

fn commands(directory: &Path) -> i32 {
    let Ok(mut server) = UnixStream::connect(directory.join("control_privileged")) else {
        eprintln!("Cannot find MPS control daemon process");
        return 1;
    };
    let answers = server.try_clone().map(BufReader::new);
    let Ok(mut answers) = answers else { return 1 };
    for line in io::stdin().lines().map_while(Result::ok) {
        let _ = writeln!(server, "{line}");
        // Synchronous: a daemon that quits answers by its end.
        let _ = answers.read_line(&mut String::new());
    }
    0
}
