//! Starts a program in a way, or from a state, that no shell offers: `launch [FLAGS]
//! PROGRAM [ARG...]`. It sets up the state, then becomes the program; a bare name is
//! looked for in PATH as execvp(3) does.
//!
//! How: `--as NAME` argv\[0\]; `--no-argv`; `--by-fd` fexecve(3); `--at DIR` execveat(2)
//! of a name in DIR. `--again NAME=VALUE` one more entry at the end of the environment,
//! also where the name is there already (PROGRAM by its path). From what: `--streams 101`
//! which standard streams are open, on /dev/null; `--ignore N`, `--block N`, `--pend N`
//! signals; `--nofile N`, `--umask N`, `--subreaper`, `--pdeath N`, `--timer SECONDS`,
//! `--slack NS`, `--oom N`, `--hold N` keeps N descriptors.
#![no_main]
#![allow(unsafe_code)]
#![allow(clippy::print_stderr, reason = "the one line that says what was wrong")]

use std::ffi::{CString, OsString};
use std::fs;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use nix::fcntl::{AtFlags, OFlag, open};
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{execv, execve, execveat, execvp, fexecve};

/// The C entry point (ISO C 5.1.2.2.1).
// SAFETY: this program has no other function of this name, and the C start-up code calls
// it with this signature.
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: i32, _arguments: *const *const u8) -> i32 {
    let why = launch();
    eprintln!("launch: {why}");
    2
}

#[derive(Default)]
struct How {
    name: Option<OsString>,
    no_arguments: bool,
    by_descriptor: bool,
    directory: Option<OsString>,
    streams: Option<String>,
    again: Option<OsString>,
}

/// Returns only what went wrong.
fn launch() -> String {
    let mut words = std::env::args_os().skip(1).peekable();
    let mut how = How::default();
    while let Some(flag) = words.next_if(|word| word.as_encoded_bytes().starts_with(b"--")) {
        let flag = flag.to_string_lossy().into_owned();
        match flag.as_str() {
            "--no-argv" => how.no_arguments = true,
            "--by-fd" => how.by_descriptor = true,
            // SAFETY: PR_SET_CHILD_SUBREAPER takes a number.
            "--subreaper" => drop(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }),
            _ => {
                let Some(value) = words.next() else {
                    return format!("{flag}: needs a value");
                };
                match flag.as_str() {
                    "--as" => how.name = Some(value),
                    "--at" => how.directory = Some(value),
                    "--again" => how.again = Some(value),
                    "--streams" => how.streams = value.into_string().ok(),
                    _ => match value.to_str().and_then(|text| text.parse().ok()) {
                        Some(number) => set(&flag, number),
                        None => return format!("{flag}: not a number"),
                    },
                }
            }
        }
    }
    let Some(program) = words.next() else {
        return "no program".to_owned();
    };
    become_program(how, program, words.collect())
}

fn set(flag: &str, number: i64) {
    let signal = || Signal::try_from(number as i32).unwrap_or(Signal::SIGTERM);
    let only = || SigSet::from_iter([signal()]);
    match flag {
        "--ignore" => {
            let action = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
            // SAFETY: an ignored signal runs no code.
            let _ = unsafe { sigaction(signal(), &action) };
        }
        "--block" => drop(only().thread_block()),
        "--pend" => drop(only().thread_block().and_then(|()| raise(signal()))),
        "--nofile" => {
            let hard = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard);
            let _ = setrlimit(Resource::RLIMIT_NOFILE, number as u64, hard);
        }
        "--umask" => drop(umask(Mode::from_bits_truncate(number as u32))),
        // SAFETY: PR_SET_PDEATHSIG takes a signal's number.
        "--pdeath" => drop(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, number) }),
        "--timer" => {
            let second = libc::timeval {
                tv_sec: number,
                tv_usec: 0,
            };
            let timer = libc::itimerval {
                it_interval: second,
                it_value: second,
            };
            // SAFETY: setitimer reads the value it is given.
            unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
        }
        "--slack" => drop(fs::write("/proc/self/timerslack_ns", number.to_string())),
        "--oom" => drop(fs::write("/proc/self/oom_score_adj", number.to_string())),
        "--hold" => (0..number).for_each(|_| {
            let _ = open("/dev/null", OFlag::O_RDONLY, Mode::empty()).map(OwnedFd::into_raw_fd);
        }),
        _ => {}
    }
}

fn become_program(how: How, program: OsString, arguments: Vec<OsString>) -> String {
    let c_string = |word: OsString| CString::new(word.into_vec()).unwrap_or_default();
    let mut words = vec![c_string(how.name.unwrap_or_else(|| program.clone()))];
    words.extend(arguments.into_iter().map(c_string));
    if how.no_arguments {
        words.clear();
    }
    let mut environment: Vec<CString> = std::env::vars_os()
        .map(|(name, value)| c_string([name, value].join(std::ffi::OsStr::new("="))))
        .collect();
    let program = c_string(program);
    if let Some(again) = how.again {
        environment.push(c_string(again));
        return execve(&program, &words, &environment)
            .map_or_else(|errno| errno.to_string(), |never| match never {});
    }
    if let Some(open) = how.streams {
        // SAFETY: this program uses none of its standard streams from here on, but for a
        // line that says what went wrong.
        unsafe {
            let null = libc::fcntl(
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR),
                libc::F_DUPFD_CLOEXEC,
                10,
            );
            for (stream, wanted) in (0..).zip(open.bytes()) {
                if wanted == b'1' {
                    libc::dup2(null, stream)
                } else {
                    libc::close(stream)
                };
            }
            libc::close_range(3, 9, 0);
        }
    }
    let failed = |errno: nix::Error| format!("{}: {errno}", program.to_string_lossy());
    let opened = |path: &CString, flags| open(path.as_c_str(), flags, Mode::empty());
    if how.by_descriptor {
        return match opened(&program, OFlag::O_RDONLY) {
            Ok(fd) => {
                fexecve(&fd, &words, &environment).map_or_else(failed, |never| match never {})
            }
            Err(errno) => failed(errno),
        };
    }
    if let Some(directory) = how.directory {
        return match opened(&c_string(directory), OFlag::O_DIRECTORY) {
            Ok(fd) => execveat(&fd, &program, &words, &environment, AtFlags::empty())
                .map_or_else(failed, |never| match never {}),
            Err(errno) => failed(errno),
        };
    }
    let run = if program.to_bytes().contains(&b'/') {
        execv(&program, &words)
    } else {
        execvp(&program, &words)
    };
    run.map_or_else(failed, |never| match never {})
}
