//! `--check`: does the driver's cuInit load libcudawrap.so here? It is called in a process
//! of its own, with a time limit, since a driver may hang and its answers are nobody's
//! else; the library does nothing there but say that it was called.
#![allow(unsafe_code)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use getgpu_common::diag;
use getgpu_common::exit;
use getgpu_common::hook;
use getgpu_common::settings::{Auto, Settings};

use crate::check::Findings;

/// The hidden first argument that makes getgpu the process that calls cuInit.
pub const OPTION: &str = "--hook-probe";
/// What it prints where there is no driver for CUDA.
const NO_DRIVER: &str = "no-driver";
/// What it prints before cuInit's status, by whether the library was called.
const CALLED: &str = "called";
const NOT_CALLED: &str = "not-called";

/// Asks, and notes what it found.
pub fn look(settings: &Settings, findings: &mut Findings) {
    let what = "first call";
    let Some(library) = std::env::current_exe()
        .ok()
        .and_then(|executable| hook::library(&executable))
    else {
        findings.fine(
            what,
            "libcudawrap.so is not installed: CUDA programs are not given devices by themselves",
        );
        return;
    };
    let turned_off = if settings.auto == Auto::Off {
        "; auto = \"off\": it gives no devices here"
    } else {
        ""
    };
    let remedy = "unset CUDA_INJECTION64_PATH here, and use cudawrap -- PROGRAM or create-cudawrap";
    let asked = Command::new("/proc/self/exe")
        .arg(OPTION)
        .env(hook::VARIABLE, &library)
        .env(hook::PROBE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut asked = match asked {
        Ok(asked) => asked,
        Err(error) => {
            let why = getgpu_common::error::reason(&error);
            findings.wrong(what, &format!("cannot be tried: {why}"), "");
            return;
        }
    };
    let deadline = Instant::now() + settings.nvml_timeout;
    while matches!(asked.try_wait(), Ok(None)) {
        if Instant::now() >= deadline {
            let _ = asked.kill();
            let limit = settings.nvml_timeout.as_secs_f64();
            findings.wrong(
                what,
                &format!("cuInit did not return within {limit} s"),
                remedy,
            );
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer = asked
        .wait_with_output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let path = library.display();
    match answer.trim().split_once(' ') {
        Some((CALLED, status)) => findings.fine(
            what,
            &format!("cuInit (status {status}) calls {path}{turned_off}"),
        ),
        Some((NOT_CALLED, status)) => findings.wrong(
            what,
            &format!("cuInit (status {status}) does not call {path}: this driver has no such hook"),
            remedy,
        ),
        _ if answer.trim() == NO_DRIVER => findings.fine(
            what,
            &format!("there is no libcuda.so.1 here to call {path}"),
        ),
        _ => findings.wrong(what, "cuInit ended the process that called it", remedy),
    }
}

/// The process that calls cuInit.
pub fn probe() -> i32 {
    let text = match initialize() {
        None => NO_DRIVER.to_owned(),
        Some(status) => {
            let called = std::env::var_os(hook::CALLED).is_some();
            format!("{} {status}", if called { CALLED } else { NOT_CALLED })
        }
    };
    let printed = diag::print(&format!("{text}\n"));
    // What the driver does when a process ends may crash, and is nobody's answer.
    getgpu_common::sys::end(if printed.is_ok() { exit::OK } else { 1 })
}

/// cuInit's status; none without libcuda.so.1.
fn initialize() -> Option<i32> {
    // SAFETY: loading runs the driver's own start-up code; cuInit takes one integer and
    // gives one (cuda.h).
    unsafe {
        let driver = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        if driver.is_null() {
            return None;
        }
        let function = libc::dlsym(driver, c"cuInit".as_ptr());
        if function.is_null() {
            return None;
        }
        let initialize: extern "C" fn(u32) -> i32 = std::mem::transmute(function);
        Some(initialize(0))
    }
}
