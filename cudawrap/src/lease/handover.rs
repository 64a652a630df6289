//! The last step: this process becomes the program. The environment is passed on byte by
//! byte but for what the lease sets, the lease's descriptors lose close-on-exec, and
//! execve(2) either does not return or is a failure with the right kind.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use getgpu_linux::regular_file::{self, Links};
use getgpu_linux::{descriptors, sys};
use getgpu_model::{Failure, reason};
use getgpu_settings::ArgvZero;
use nix::errno::Errno;
use nix::libc;

use crate::causes::{PathRemedy, StartCause};
use crate::lease::Lease;

/// What a program is started with. MPS and the binding to CPUs add to it.
#[derive(Debug, Default)]
pub struct LaunchSpec {
    /// Variables to be set.
    pub variables: Vec<(String, String)>,
    /// The lease that it inherits, if there is one.
    pub lease: Option<Lease>,
    /// What it finds as its own name.
    pub argv0: ArgvZero,
}

impl LaunchSpec {
    /// As it is: nothing set, nothing leased.
    pub fn unchanged() -> Self {
        Self::default()
    }

    /// With no GPU to be seen (CUDA Programming Guide, CUDA environment variables).
    pub fn without_gpu() -> Self {
        let none = ("CUDA_VISIBLE_DEVICES".to_owned(), String::new());
        Self {
            variables: vec![none],
            ..Self::default()
        }
    }
}

unsafe extern "C" {
    /// The environment as the process was started with (environ(7)).
    static environ: *const *const libc::c_char;
}

/// Becomes `program`. Returns only what went wrong.
pub fn exec(program: &Path, arguments: &[OsString], spec: &LaunchSpec) -> Failure {
    let path = sys::c_string(program.as_os_str().as_bytes());
    let words = arguments.iter().map(|word| sys::c_string(word.as_bytes()));
    let mut words: Vec<CString> = words.collect();
    if let (ArgvZero::File, Some(name)) = (spec.argv0, words.first_mut()) {
        // As it is, links and all; absolute, so that it outlives a change of directory.
        let file = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        *name = sys::c_string(file.as_os_str().as_bytes());
    }
    let changed = spec.variables.iter().map(|(name, value)| {
        let entry = sys::c_string(format!("{name}={value}").as_bytes());
        (name.as_str(), entry)
    });
    let changed: Vec<(&str, CString)> = changed.collect();
    let environment = environment(&changed);
    for fd in spec.lease.iter().flat_map(Lease::descriptors) {
        descriptors::inherit(fd);
    }
    let errno = execve(&path, &words, &environment);
    if errno != Errno::ENOEXEC || !is_text(program) {
        return failure(program, errno);
    }
    // A text file without `#!`: execvp(3) and every shell give it to the shell.
    let mut script = vec![words.first().cloned().unwrap_or_default(), path];
    script.extend(words.into_iter().skip(1));
    match execve(c"/bin/sh", &script, &environment) {
        Errno::ENOENT => failure(program, Errno::ENOEXEC),
        errno => failure(program, errno),
    }
}

/// Whether a file may be a script: no NUL in its first line, as bash decides it.
fn is_text(path: &Path) -> bool {
    use std::io::Read;
    let mut start = Vec::new();
    let file = regular_file::open(path, Links::Follow);
    let read = file.and_then(|file| file.take(128).read_to_end(&mut start));
    if read.is_err() {
        return false;
    }
    let first_line = start.split(|b| *b == b'\n').next().unwrap_or(&[]);
    !first_line.contains(&0)
}

/// Variables that are passed on once at most. If the environment sets one twice, the lease goes
/// by the first, as getenv(3) does, but some interpreters read the last.
const ONCE: &str = "CUDA_VISIBLE_DEVICES";

/// The inherited environment with some variables replaced in their places, or added at
/// the end.
fn environment<'e>(changed: &'e [(&str, CString)]) -> Vec<&'e CStr> {
    let mut entries: Vec<&CStr> = Vec::new();
    // SAFETY: environ is a NULL-terminated array of NUL-terminated strings; nothing in
    // this single thread changes it meanwhile.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            entries.push(CStr::from_ptr(*next));
            next = next.add(1);
        }
    }
    for name in changed.iter().map(|(name, _)| *name).chain([ONCE]) {
        let mut seen = false;
        entries.retain(|entry| !sets(entry, name) || !std::mem::replace(&mut seen, true));
    }
    for (name, entry) in changed {
        match entries.iter().position(|known| sets(known, name)) {
            Some(place) => entries[place] = entry,
            None => entries.push(entry),
        }
    }
    entries
}

/// Whether an entry of the environment sets the variable of this name.
fn sets(entry: &CStr, name: &str) -> bool {
    let rest = entry.to_bytes().strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.first() == Some(&b'='))
}

fn execve(path: &CStr, words: &[CString], environment: &[&CStr]) -> Errno {
    let Err(errno) = nix::unistd::execve(path, words, environment);
    errno
}

fn failure(program: &Path, errno: Errno) -> Failure {
    let shown = &program.display().to_string();
    // execve(2): that of a `#!` line, or the loader of a program, such as of another system.
    if errno == Errno::ENOENT && program.exists() {
        return StartCause::NoInterpreter { shown }.into();
    }
    let why = reason(&errno.into());
    let remedy = match errno {
        Errno::ENOENT | Errno::ENOTDIR if shown.contains(' ') => PathRemedy::Unquote { shown },
        Errno::ENOENT | Errno::ENOTDIR => PathRemedy::Unknown,
        _ => return StartCause::NotExecuted { shown, why }.into(),
    };
    StartCause::NoFile { shown, why, remedy }.into()
}
