//! `cargo install` of each program from a checkout, in a directory of its own: the programs
//! of the other tests must not change under them.

use getgpu_tests::packages::{PROGRAMS, TOP, alone, run};

/// The Rust that Cargo.toml asks for is the one that every other file promises.
#[test]
fn the_same_rust_is_promised_everywhere() {
    let text = |path: &str| std::fs::read_to_string(format!("{TOP}/{path}")).unwrap();
    let cargo = text("Cargo.toml");
    let promised = |line: &str| {
        let version = line.strip_prefix("rust-version = \"")?;
        Some(version.strip_suffix('"')?.to_owned())
    };
    let version = cargo.lines().find_map(promised).unwrap();
    #[rustfmt::skip]
    let promises = [
        ("README.md", "Rust VERSION "), ("packaging/spack/package.py", "rust@VERSION:"),
        ("packaging/easybuild/getgpu-0.1.0.eb", "('Rust', 'VERSION."),
        ("packaging/rpm/getgpu.spec", "cargo >= VERSION\n"),
        ("packaging/rpm/getgpu.spec", "Rust VERSION "),
    ];
    for (path, promise) in promises {
        let promise = promise.replace("VERSION", &version);
        assert!(text(path).contains(&promise), "{path}: {promise}");
    }
}

#[test]
fn cargo_installs_each_program_from_a_checkout() {
    let _builder = alone();
    let root = tempfile::tempdir().unwrap();
    let to = root.path().display().to_string();
    let target = format!("{TOP}/target/checkout");
    for name in PROGRAMS {
        // What the tests are built of is here, so that no registry is asked.
        #[rustfmt::skip]
        let how = [
            "install", "--quiet", "--debug", "--locked", "--offline", "--target-dir", &target,
        ];
        let what = ["--path", name, "--root", &to];
        run("cargo", &[&how[..], &what].concat());
        let version = run(&format!("{to}/bin/{name}"), &["--version"]);
        assert_eq!(version, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
    let installed = root.path().join("bin").read_dir().unwrap();
    assert_eq!(installed.count(), PROGRAMS.len());
}
