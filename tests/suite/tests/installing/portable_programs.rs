//! `make portable`: programs for glibc 2.28 and newer (RHEL 8), and packages of them. Needs
//! cargo-zigbuild and zig, and builds for release: about 90 s on 2 processors. These are the
//! only optimized programs of the tests, so what an optimizer could take out is tried here.

use std::path::Path;
use std::process::Command;

use getgpu_tests::packages::{PROGRAMS, TOP, alone, glibc, live, live_clean, make, run};
use harness::skip::{Need, lacks};

/// The oldest glibc that is served.
const FLOOR: (u32, u32) = (2, 28);

/// Whether there is zig, in either of the two forms that cargo-zigbuild knows.
fn lacks_zig() -> bool {
    let module = Command::new("python3")
        .args(["-m", "ziglang", "version"])
        .output();
    let module = module.is_ok_and(|output| output.status.success());
    lacks(&[Need::Tool("cargo-zigbuild"), Need::Tool("make")])
        || (!module && lacks(&[Need::Tool("zig")]))
}

/// With whatever address space, in KiB, `program` works, or says that it is too little; only the
/// kernel and the loader give up in their own way.
fn says_where_memory_ends(program: &str) {
    if lacks(&[Need::Tool("prlimit")]) {
        return;
    }
    let said = (1 << 10..32 << 10).step_by(64).filter(|kib| {
        let limit = format!("--as={}", kib << 10);
        let mut prlimit = Command::new("prlimit");
        let outcome = prlimit.args([&limit, program, "--version"]).output();
        let outcome = outcome.expect("prlimit runs");
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(!said.contains("memory allocation"), "{kib} KiB: {said}");
        said.contains("not enough memory to start in")
    });
    assert!(said.count() > 0, "{program} never has too little memory");
}

/// A .deb asks for that glibc and no newer one.
fn deb(programs: &Path, room: &Path) {
    if lacks(&[
        Need::Mounts,
        Need::Tool("cargo-deb"),
        Need::Tool("dpkg-deb"),
    ]) {
        return;
    }
    let [first, second] = ["0.1.0-1", "9.9.9-1"].map(|version| {
        let file = room.join(format!("{version}.deb")).display().to_string();
        let options = "--fast -q --variant portable --deb-version";
        make(
            "deb-only",
            programs,
            &format!("DEB={options} {version} -o {file}"),
        );
        file
    });
    let asked = run("dpkg-deb", &["-f", &first, "Package", "Depends"]);
    assert!(
        asked.contains("getgpu\n") && asked.contains("Depends: libc6 (>= 2.28)\n"),
        "{asked}"
    );
    live(&first, &second);
    // On Debian 11, which has glibc 2.31: there the programs of the simulated node have
    // to be as portable.
    let simulated = "shipped=-p sim-nvml -p sim-cuda";
    run("make", &["--silent", "portable", simulated]);
    live_clean(&first, &second, Some("bullseye"), programs);
}

/// And so does an .rpm.
fn rpm(programs: &Path, room: &Path) {
    if lacks(&[
        Need::Mounts,
        Need::Tool("cargo-generate-rpm"),
        Need::Tool("rpm"),
    ]) {
        return;
    }
    let [first, second] = ["0.1.0", "9.9.9"].map(|version| {
        let file = room.join(format!("{version}.rpm")).display().to_string();
        let options = format!("RPM=-o {file} -s 'version = \"{version}\"'");
        make("rpm-only", programs, &options);
        file
    });
    let asked = run("rpm", &["-qp", "--requires", &first]);
    assert_eq!(glibc(&asked), Some(FLOOR), "{asked}");
    live(&first, &second);
}

#[test]
fn portable_programs_and_packages_ask_for_glibc_2_28_at_most() {
    if lacks_zig() || lacks(&[Need::Tool("objdump")]) {
        return;
    }
    let _stage = alone();
    run("make", &["--silent", "portable"]);
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| format!("{TOP}/target"));
    let folder = format!("{}-unknown-linux-gnu/release", std::env::consts::ARCH);
    let programs = Path::new(&target).join(folder);
    for name in PROGRAMS {
        let program = programs.join(name).display().to_string();
        let symbols = run("objdump", &["-T", &program]);
        let asked = glibc(&symbols);
        assert!(
            asked.is_some_and(|version| version <= FLOOR),
            "{name}: {symbols}"
        );
        let version = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(run(&program, &["--version"]), version);
        says_where_memory_ends(&program);
    }
    let room = tempfile::tempdir().unwrap();
    deb(&programs, room.path());
    rpm(&programs, room.path());
}
