//! What a person should know of a program when it is wrapped: whether it may look for its
//! other files by its own name or divide several devices, and what the settings say for it. Looks at the names beside
//! its directory; decides nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use getgpu_settings::{ArgvZero, Environment, LeaseAt, Loaded, Settings, Wait};

/// The settings for a program of this name; those that are built in where the files are wrong,
/// which has been said.
fn settings(name: &str) -> Settings {
    let loaded = Loaded::read(&Environment::of_process(), Some(name));
    loaded.map(|loaded| loaded.settings).unwrap_or_default()
}

/// What the settings change for a wrapped program, for `--status`.
pub fn set_for(name: &OsStr) -> Option<String> {
    let settings = settings(&name.to_string_lossy());
    let set = [
        (settings.argv0 == ArgvZero::File).then_some("argv0 = \"file\""),
        (settings.lease == LeaseAt::FirstCall).then_some("lease = \"first_call\""),
        settings.count_all.then_some("count = \"all\""),
    ];
    let set: Vec<&str> = set.into_iter().flatten().collect();
    (!set.is_empty()).then(|| set.join(", "))
}

/// The lines for a program of this name in `directory`, as far as the settings do not say it already.
pub fn of_program(directory: &Path, name: &OsStr) -> Vec<String> {
    let name = &name.to_string_lossy();
    let settings = settings(name);
    let lines = [
        of_argv0(directory, name, &settings),
        of_count(name, &settings),
        of_pipeline(name, &settings),
    ];
    lines.into_iter().flatten().collect()
}

/// The line for a program that may look for its other files beside the end of the links of
/// its own name, which is cudawrap's directory once it is wrapped.
fn of_argv0(directory: &Path, name: &str, settings: &Settings) -> Option<String> {
    let looks = looks_by_name(name, |sibling| {
        let found = std::fs::read_dir(directory.join("..").join(sibling));
        let names = found.into_iter().flatten().flatten();
        names.map(|entry| entry.file_name()).collect()
    });
    (looks && settings.argv0 != ArgvZero::File).then(|| {
        format!(
            "it may look for its files by its own name: if it does not find them, set argv0 = \"file\" below [program.\"{name}\"] in config.toml"
        )
    })
}

/// How names of programs begin that divide several devices themselves.
const DIVIDING: [&str; 8] = [
    "gmx",
    "relion",
    "namd",
    "torchrun",
    "accelerate",
    "deepspeed",
    "vllm",
    "ollama",
];

/// The line for a program that divides several devices itself, and would be given one of those that
/// CUDA_VISIBLE_DEVICES names.
fn of_count(name: &str, settings: &Settings) -> Option<String> {
    let divides = DIVIDING.iter().any(|known| name.starts_with(known));
    (divides && !settings.count_all).then(|| {
        format!(
            "it has one of the devices that CUDA_VISIBLE_DEVICES names: if it divides several itself, set count = \"all\" below [program.\"{name}\"] in config.toml"
        )
    })
}

/// FSL's programs that use the GPU themselves, as parts of pipelines, and those that start these.
const IN_PIPELINES: [&str; 3] = ["eddy_cuda", "xfibres_gpu", "probtrackx2_gpu"];
const STARTING: [(&str, &str); 3] = [
    ("eddy", "eddy_cuda*"),
    ("bedpostx", "xfibres_gpu"),
    ("bedpostx_gpu", "xfibres_gpu"),
];

/// The line for a part of a pipeline, which would end where it ran beside another program before,
/// and for a pipeline's script, which would hold a device between its programs.
fn of_pipeline(name: &str, settings: &Settings) -> Option<String> {
    let script = STARTING.iter().find(|(script, _)| *script == name);
    if let Some((_, part)) = script {
        return Some(format!(
            "it starts the program that uses the GPU: undo this, and wrap {part}"
        ));
    }
    let is_part = IN_PIPELINES.iter().any(|part| name.starts_with(part));
    (is_part && settings.wait == Wait::NO).then(|| {
        format!(
            "it ends with status 75 if no device is free: for pipelines, set wait = \"12h\" below [program.\"{name}\"] in config.toml"
        )
    })
}

/// Whether a program of this name looks for its files so: a Python, or one with a directory of
/// its own in `../share` or a Python's in `../lib`. `names_in`: a directory beside the program's.
fn looks_by_name(name: &str, names_in: impl Fn(&str) -> Vec<OsString>) -> bool {
    let share = if name.starts_with("gmx") {
        "gromacs"
    } else {
        name
    };
    let is_python = |other: &OsString| {
        let version = other.as_bytes().strip_prefix(b"python");
        version.is_some_and(|version| version.first().is_some_and(u8::is_ascii_digit))
    };
    name.starts_with("python")
        || names_in("share").iter().any(|other| other == share)
        || names_in("lib").iter().any(is_python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_look_by_their_name_are_told_from_others() {
        let cases = [
            ("python3.11", &[][..], true),
            ("gmx", &[("share", "gromacs")], true),
            ("gmx_mpi", &[("share", "gromacs")], true),
            ("relion", &[("share", "relion")], true),
            ("jupyter", &[("lib", "python3.12")], true),
            ("app", &[("share", "man"), ("lib", "libpython.so")], false),
            ("app", &[("lib", "app"), ("lib", "pythonic")], false),
            ("app", &[], false),
        ];
        for (name, there, expected) in cases {
            let names_in = |sibling: &str| {
                let there = there.iter().filter(|(folder, _)| *folder == sibling);
                there.map(|(_, other)| other.into()).collect()
            };
            assert_eq!(looks_by_name(name, names_in), expected, "{name} {there:?}");
        }
    }
}
