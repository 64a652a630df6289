//! Packages as their tests make them: the programs without what debuggers need, `make`
//! for a package of them, and its life on a machine of its own. The machine is
//! packaging/test/package.sh's; nothing of this machine's own dpkg, rpm, settings or lock
//! is touched.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::skip::say;

/// The top of the repository.
pub const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

pub const PROGRAMS: [&str; 3] = ["getgpu", "cudawrap", "create-cudawrap"];

/// What a package has in it matters here, not how fast that is: the profile as shipped takes
/// a minute of two processors for each program. `make budget` builds with it.
const QUICK_BUILD: [(&str, &str); 4] = [
    ("CARGO_PROFILE_DEV_DEBUG", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
];

/// Runs a command at the top of the repository; what it said. Panics unless it ends with
/// 0.
#[track_caller]
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(TOP)
        .envs(QUICK_BUILD)
        .output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    said
}

/// The directory of the programs that this test was built with.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let built = test.ancestors().nth(2);
    built.expect("target/debug/deps/test").to_owned()
}

/// The built programs and the library for programs that nobody wrapped, in `room`, as small
/// as those that are shipped.
pub fn stripped(room: &Path) -> PathBuf {
    let directory = room.join("programs");
    std::fs::create_dir(&directory).expect("a new directory");
    for name in PROGRAMS.into_iter().chain(["libcudawrap.so"]) {
        let [from, to] = [built(), directory.clone()].map(|at| at.join(name).display().to_string());
        run("strip", &["-o", &to, &from]);
    }
    directory
}

/// `make TARGET` of the programs that are in `programs`, with `options` for the tool that
/// makes the package.
#[track_caller]
pub fn make(target: &str, programs: &Path, options: &str) {
    let programs = format!("programs={}", programs.display());
    run("make", &["--silent", target, &programs, options]);
}

/// One test at a time builds the programs or makes packages of them in target/stage.
pub use harness::turn as alone;

/// What a script of packaging/test says in its end, or why it did nothing, which has been
/// said then.
#[track_caller]
pub fn script(arguments: &[&str], end: &str) {
    let said = run(arguments[0], &arguments[1..]);
    match said.lines().find_map(|line| line.strip_prefix("SKIPPED: ")) {
        Some(why) => say(why),
        None => assert!(said.contains(end), "{said}"),
    }
}

/// The whole life of two packages, the second the newer one.
#[track_caller]
pub fn live(first: &str, second: &str) {
    let programs = built().display().to_string();
    script(
        &["packaging/test/package.sh", first, second, &programs],
        "package: all as it should be",
    );
}

/// The same for .deb on a system of Debian's essential packages only, of this machine's
/// release or of an older one with the simulated node in `programs`. Where there is no
/// debootstrap or no mirror it says so.
#[track_caller]
pub fn live_clean(first: &str, second: &str, release: Option<&str>, programs: &Path) {
    let release = release.map(|name| format!("DEBIAN_RELEASE={name}"));
    let programs = programs.display().to_string();
    let mut words = vec!["env"];
    words.extend(release.as_deref());
    words.extend([
        "packaging/test/package.sh",
        "--clean",
        first,
        second,
        &programs,
    ]);
    script(&words, "package: all as it should be");
}

/// The highest version of glibc that a text (what objdump or rpm tell) asks for, as `(2,
/// 28)`.
pub fn glibc(text: &str) -> Option<(u32, u32)> {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let numbers = rest.split(|letter: char| !letter.is_ascii_digit());
        let mut numbers = numbers.map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max()
}
