//! `--check`: does the driver's cuInit load libcudawrap.so here? It is called in a
//! process of its own, with a time limit, since a driver may hang, and what it prints
//! belongs to no other check; the library does nothing there but say that it was called.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};

use getgpu_linux::ReaderChild;
use getgpu_model::reason;
use getgpu_nvml::spawn::seclude;
use getgpu_settings::{Auto, Settings};

use super::findings::Findings;

/// What the process that calls cuInit says where there is no driver for CUDA.
const NO_DRIVER: &str = "no-driver";
/// What it says before cuInit's status, by whether the library was called.
const CALLED: &str = "called";
const NOT_CALLED: &str = "not-called";

/// Asks, and notes what it found.
pub fn check(settings: &Settings, findings: &mut Findings) {
    let what = "first call";
    let set = std::env::var_os(getgpu_auto::VARIABLE).filter(|value| !value.is_empty());
    if let Some(missing) = set.map(PathBuf::from).filter(|path| !path.is_file()) {
        let (name, path) = (getgpu_auto::VARIABLE, missing.display());
        let found = format!("{name}={path}: no such file, so the driver ignores the variable");
        let remedy = "set it to the path where libcudawrap.so is installed";
        findings.wrong(what, &found, remedy);
    }
    let Some(library) = getgpu_auto::installed_library() else {
        findings.fine(
            what,
            "libcudawrap.so is not installed: programs that are not wrapped get no device",
        );
        return;
    };
    let remedy = "unset CUDA_INJECTION64_PATH here, and use cudawrap -- PROGRAM or create-cudawrap";
    let mut asked = match ReaderChild::start(|| probe(&library).into_bytes()) {
        Ok(asked) => asked,
        Err(error) => {
            let why = reason(&error);
            findings.wrong(what, &format!("cannot be tried: {why}"), "");
            return;
        }
    };
    let Some(answer) = asked.answer(settings.nvml_timeout) else {
        let limit = settings.nvml_timeout.as_secs_f64();
        let found = format!("cuInit did not return within {limit} s");
        findings.wrong(what, &found, remedy);
        return;
    };
    let answer = String::from_utf8_lossy(&answer);
    match meaning(&answer, &library, settings.auto.gives) {
        Ok(found) => findings.fine(what, &found),
        Err(found) => findings.wrong(what, &found, remedy),
    }
}

/// What the answer of [`probe`] says about this node; the failure is that something is
/// wrong.
fn meaning(answer: &str, library: &Path, auto: Auto) -> Result<String, String> {
    let path = library.display();
    let turned_off = match auto {
        Auto::Off => "; auto = \"off\": it gives out no devices here",
        _ => "",
    };
    match answer.split_once(' ') {
        Some((CALLED, status)) => Ok(format!("cuInit (status {status}) calls {path}{turned_off}")),
        Some((NOT_CALLED, status)) => Err(format!(
            "cuInit (status {status}) does not call {path}: this driver has no such hook"
        )),
        _ if answer == NO_DRIVER => Ok(format!("there is no libcuda.so.1 here to call {path}")),
        _ => Err("cuInit ended the process that called it".to_owned()),
    }
}

/// What the child does: has the driver load `library` at cuInit, and says how that went.
fn probe(library: &Path) -> String {
    seclude();
    // SAFETY: this process has one thread, so no other reads the environment meanwhile.
    unsafe {
        std::env::set_var(getgpu_auto::VARIABLE, library);
        std::env::set_var(getgpu_auto::PROBE, "1");
    }
    let Some(status) = initialize() else {
        return NO_DRIVER.to_owned();
    };
    let called = std::env::var_os(getgpu_auto::CALLED).is_some();
    format!("{} {status}", if called { CALLED } else { NOT_CALLED })
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
