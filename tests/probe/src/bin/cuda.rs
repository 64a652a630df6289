//! A program that uses CUDA as scripts of the tests tell it: `cuda WORD...` does one thing
//! after another and prints a line for each. It loads libcuda.so.1 by itself, as programs
//! with a static CUDA runtime do, and so runs with the simulated driver and with NVIDIA's.
//!
//! `library=PATH` (before any call), `init`, `version`, `count`, `uuid`, `context`, `visible` (the variable), `env=NAME`,
//! `threads=N` (cuInit in so many at once), `hook` (the tool alone: its answer and whether errno stays), `fork` ... `join` (the words between are a
//! child's, which is waited for), `fork` ... `leave` (which is not), `wait-any`
//! (waitpid(-1)), `sigchld`, `usr1` (handled), `signals`, `subreaper`,
//! `new-pids` (a pid namespace for its children), `close=FIRST`, `nofile=N`, `memory=BYTES`,
//! `descriptors`, `mask`, `unload`, `preload=PATH`, `spawn=PROGRAM`,
//! `ready=FILE`, `until=FILE`, `sleep=MILLISECONDS`, `hold`.
#![allow(unsafe_code)]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is its result"
)]

use std::ffi::{CStr, CString, c_void};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

/// SIGCHLDs that came, and children that their handler has reaped.
static SIGNALS: AtomicI32 = AtomicI32::new(0);
static REAPED: AtomicI32 = AtomicI32::new(0);

extern "C" fn child_ended(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: waitpid is async-signal-safe; a null status is allowed.
    unsafe {
        while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) > 0 {
            REAPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The driver, loaded.
struct Driver(*mut c_void);

impl Driver {
    fn load(path: &str) -> Option<Self> {
        let path = CString::new(path).ok()?;
        // SAFETY: loading runs the library's own start-up code.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        (!library.is_null()).then_some(Self(library))
    }

    /// Calls a function of the driver (cuda.h); none if it has none of this name.
    fn call(&self, name: &CStr, words: [usize; 3]) -> Option<i32> {
        // SAFETY: every function called here takes up to three integers or pointers, which
        // the calling conventions of 64-bit Linux pass alike.
        unsafe {
            let function = libc::dlsym(self.0, name.as_ptr());
            if function.is_null() {
                return None;
            }
            let function: extern "C" fn(usize, usize, usize) -> i32 = std::mem::transmute(function);
            Some(function(words[0], words[1], words[2]))
        }
    }

    fn init(&self) -> i32 {
        self.call(c"cuInit", [0; 3]).unwrap_or(-1)
    }

    fn uuid(&self) -> Option<String> {
        let mut bytes = [0u8; 16];
        let place = &raw mut bytes as usize;
        let status = self
            .call(c"cuDeviceGetUuid_v2", [place, 0, 0])
            .or_else(|| self.call(c"cuDeviceGetUuid", [place, 0, 0]))?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        (status == 0).then_some(text)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut driver = None;
    let mut library = "libcuda.so.1".to_owned();
    let (mut next, mut child) = (0, None);
    while let Some(word) = words.get(next) {
        next += 1;
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "library" => library = value.to_owned(),
            "fork" => {
                // SAFETY: the child goes on as this program, which starts no thread that
                // it does not wait for.
                match unsafe { libc::fork() } {
                    0 => {}
                    pid => {
                        let ends = |word: &String| word == "join" || word == "leave";
                        next += words[next..].iter().position(ends).unwrap_or(0);
                        if words.get(next).is_some_and(|word| word == "join") {
                            let _ = waitpid(nix::unistd::Pid::from_raw(pid), None);
                        }
                        next += 1;
                        child = Some(pid);
                    }
                }
            }
            "join" | "leave" => return ExitCode::SUCCESS,
            _ if needs_driver(name) => {
                if driver.is_none() {
                    driver = Driver::load(&library);
                }
                match &driver {
                    Some(driver) => say(name, &cuda(driver, name, value)),
                    None => {
                        eprintln!("cuda: {library}: cannot be loaded");
                        return ExitCode::from(2);
                    }
                }
            }
            _ => {
                let Some(answer) = system(name, value, child) else {
                    eprintln!("cuda: {word}: unknown word");
                    return ExitCode::from(2);
                };
                if !answer.is_empty() {
                    say(name, &answer);
                }
            }
        }
    }
    ExitCode::SUCCESS
}

fn say(name: &str, answer: &str) {
    // A closed standard output is the test's business.
    let _ = writeln!(std::io::stdout(), "{name} {answer}");
}

fn needs_driver(name: &str) -> bool {
    ["init", "version", "count", "uuid", "context", "threads"].contains(&name)
}

/// What the driver answers.
fn cuda(driver: &Driver, name: &str, value: &str) -> String {
    let mut answer = 0i64;
    let place = &raw mut answer as usize;
    let status = |status: Option<i32>| status.map_or("missing".into(), |status| status.to_string());
    match name {
        "init" => driver.init().to_string(),
        "version" => {
            let code = driver.call(c"cuDriverGetVersion", [place, 0, 0]);
            format!("{} {answer}", status(code))
        }
        "count" => {
            let code = driver.call(c"cuDeviceGetCount", [place, 0, 0]);
            format!("{} {answer}", status(code))
        }
        "uuid" => driver.uuid().unwrap_or_else(|| "none".into()),
        "context" => status(driver.call(c"cuCtxCreate_v2", [place, 0, 0])),
        _ => at_once(driver, value.parse().unwrap_or(1)),
    }
}

/// cuInit in `many` threads at once: their different results.
fn at_once(driver: &Driver, many: usize) -> String {
    let (barrier, library) = (Barrier::new(many), driver.0 as usize);
    let mut results: Vec<String> = std::thread::scope(|scope| {
        let start = |_| {
            scope.spawn(|| {
                barrier.wait();
                Driver(library as *mut c_void).init().to_string()
            })
        };
        let threads: Vec<_> = (0..many).map(start).collect();
        let ends = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        ends.map(|end| end.unwrap_or_else(|_| "panic".into()))
            .collect()
    });
    results.dedup();
    results.join(",")
}

/// What has nothing to do with CUDA; none for a word that is not known.
fn system(name: &str, value: &str, child: Option<i32>) -> Option<String> {
    let number = || value.parse::<u64>().unwrap_or(0);
    let limit = |resource| match setrlimit(resource, number(), number()) {
        Ok(()) => "0".to_owned(),
        Err(errno) => errno.to_string(),
    };
    Some(match name {
        "visible" => match std::env::var("CUDA_VISIBLE_DEVICES") {
            Ok(value) if value.is_empty() => "empty".into(),
            Ok(value) => value,
            Err(_) => "unset".into(),
        },
        "hook" => hook(),
        "env" => {
            let found = std::env::var(value).unwrap_or_else(|_| "unset".into());
            format!("{value}={found}")
        }
        "wait-any" => match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(errno) => errno.to_string(),
            Ok(WaitStatus::StillAlive) => "alive".into(),
            Ok(status) => format!("{status:?}"),
        },
        "sigchld" | "usr1" => {
            let signal = if name == "usr1" {
                libc::SIGUSR1
            } else {
                libc::SIGCHLD
            };
            // SAFETY: the handler makes async-signal-safe calls alone.
            unsafe { libc::signal(signal, child_ended as *const () as usize) };
            String::new()
        }
        "subreaper" => {
            // SAFETY: a flag of this process.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
            String::new()
        }
        // SAFETY: it has no preconditions.
        "new-pids" => unsafe { libc::unshare(libc::CLONE_NEWPID) }.to_string(),
        "signals" => format!(
            "{} reaped {}",
            SIGNALS.load(Ordering::Relaxed),
            REAPED.load(Ordering::Relaxed)
        ),
        "close" => {
            // SAFETY: this program uses none of them again but for output, which may fail.
            unsafe { libc::syscall(libc::SYS_close_range, number(), u32::MAX, 0) };
            String::new()
        }
        "nofile" => limit(Resource::RLIMIT_NOFILE),
        "memory" => limit(Resource::RLIMIT_AS),
        "descriptors" => descriptors(),
        "mask" => status_lines(),
        "unload" => {
            let path = std::env::var("CUDA_INJECTION64_PATH").unwrap_or_default();
            let path = CString::new(path).unwrap_or_default();
            // SAFETY: closed once more than it was opened here, as a driver would.
            unsafe {
                let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
                libc::dlclose(library);
                libc::dlclose(library);
            }
            String::new()
        }
        "spawn" => std::process::Command::new(value).output().map_or_else(
            |error| error.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        ),
        "child" => child.unwrap_or(0).to_string(),
        "ready" => {
            let _ = std::fs::write(value, "");
            String::new()
        }
        "until" => {
            while !Path::new(value).exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            String::new()
        }
        "sleep" => {
            std::thread::sleep(Duration::from_millis(value.parse().ok()?));
            String::new()
        }
        "hold" => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
        _ => return None,
    })
}

/// What the driver does with a tool's library, without the driver.
fn hook() -> String {
    let path = std::env::var("CUDA_INJECTION64_PATH").unwrap_or_default();
    let path = CString::new(path).unwrap_or_default();
    // SAFETY: a function of this name has this type (CUPTI, "Injection Library").
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return "missing".into();
        }
        let function = libc::dlsym(library, c"InitializeInjection".as_ptr());
        let function: extern "C" fn() -> i32 = std::mem::transmute(function);
        Errno::ENOTTY.set();
        match (function(), Errno::last()) {
            (answer, Errno::ENOTTY) => format!("{answer} errno kept"),
            (answer, _) => format!("{answer} errno changed"),
        }
    }
}

/// The targets of this process's descriptors, and which of them programs inherit.
fn descriptors() -> String {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return String::new();
    };
    let mut list: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let number: i32 = entry.file_name().to_str()?.parse().ok()?;
            let target = std::fs::read_link(entry.path()).ok()?;
            // SAFETY: F_GETFD has no preconditions.
            let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
            let inherited = if flags == 0 { "" } else { " (close-on-exec)" };
            Some(format!("{number}:{}{inherited}", target.display()))
        })
        .filter(|line| !line.contains("/proc/"))
        .collect();
    list.sort();
    list.join(" ")
}

/// Signals and threads as the kernel has them.
fn status_lines() -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let wanted = ["SigBlk", "SigIgn", "SigCgt", "Threads", "SigPnd", "ShdPnd"];
    let lines = text
        .lines()
        .filter(|line| wanted.iter().any(|name| line.starts_with(name)));
    lines.collect::<Vec<_>>().join(" ").replace('\t', "")
}
