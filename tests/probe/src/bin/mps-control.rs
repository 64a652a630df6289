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

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept, bind, connect, listen,
    recv, send, socket,
};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, fork, mkfifo, pipe, setsid};

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

/// The parent has exited when the child listens; the lock is the child's, since fcntl(2)
/// locks are not inherited.
fn daemon(directory: &Path, log: &Path) -> io::Result<i32> {
    if !directory.is_dir() {
        fs::create_dir(directory)?;
    }
    if directory.as_os_str().len() >= 90 {
        return Ok(1);
    }
    let (reader, writer) = pipe()?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }? {
        ForkResult::Parent { .. } => {
            drop(writer);
            let mut word = [0u8; 1];
            if matches!(File::from(reader).read(&mut word), Ok(1)) {
                return Ok(0);
            }
            println!("An instance of this daemon is already running");
            Ok(1)
        }
        ForkResult::Child => {
            drop(reader);
            setsid()?;
            serve(directory, log, writer)?;
            Ok(0)
        }
    }
}

fn serve(directory: &Path, log: &Path, ready: OwnedFd) -> io::Result<()> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(directory.join("control_lock"))?;
    let whole = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: 0,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    if fcntl(&lock, FcntlArg::F_SETLK(&whole)).is_err() {
        return Ok(());
    }
    let null = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    let mut log = OpenOptions::new()
        .append(true)
        .create(true)
        .open(log.join("control.log"))?;
    writeln!(
        log,
        "Starting control daemon using socket {}",
        directory.join("control").display()
    )?;
    let _ = mkfifo(&directory.join("log"), Mode::from_bits_truncate(0o777));
    let (control, privileged) = (
        listener(directory, "control")?,
        listener(directory, "control_privileged")?,
    );
    fs::set_permissions(directory.join("control"), Permissions::from_mode(0o666))?;
    File::from(ready).write_all(b"r")?;
    loop {
        let mut waiting = [control.as_raw_fd(), privileged.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: two valid entries.
        unsafe { libc::poll(waiting.as_mut_ptr(), 2, -1) };
        for ready in waiting.iter().filter(|entry| entry.revents != 0) {
            // SAFETY: accept(2) has returned it just now.
            let client = unsafe { OwnedFd::from_raw_fd(accept(ready.fd)?) };
            let mut text = [0u8; 256];
            while let Ok(length @ 1..) = recv(client.as_raw_fd(), &mut text, MsgFlags::empty()) {
                let command = String::from_utf8_lossy(&text[..length]).trim().to_owned();
                writeln!(log, "Cmd:{command}")?;
                if command == "quit" {
                    writeln!(log, "Exit with status 0")?;
                    return Ok(());
                }
                let _ = send(client.as_raw_fd(), b"\n", MsgFlags::MSG_NOSIGNAL);
            }
        }
    }
}

fn listener(directory: &Path, name: impl AsRef<OsStr>) -> io::Result<OwnedFd> {
    let path = directory.join(name.as_ref());
    let _ = fs::remove_file(&path);
    let listener = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    bind(listener.as_raw_fd(), &UnixAddr::new(&path)?)?;
    listen(&listener, Backlog::new(64).map_err(|_| Errno::EINVAL)?)?;
    Ok(listener)
}

fn commands(directory: &Path) -> i32 {
    let Ok(server) = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC,
        None,
    ) else {
        return 1;
    };
    let connected = UnixAddr::new(&directory.join("control_privileged"))
        .and_then(|address| connect(server.as_raw_fd(), &address));
    if connected.is_err() {
        eprintln!("Cannot find MPS control daemon process");
        return 1;
    }
    for line in io::stdin().lines().map_while(Result::ok) {
        let mut answer = [0u8; 256];
        let _ = send(server.as_raw_fd(), line.as_bytes(), MsgFlags::MSG_NOSIGNAL);
        // Synchronous: a daemon that quits answers by its end.
        let _ = recv(server.as_raw_fd(), &mut answer, MsgFlags::empty());
    }
    0
}
