//! `cargo install` of each program from a checkout, in a directory of its own: the programs
//! of the other tests must not change under them.

use getgpu_tests::packages::{PROGRAMS, TOP, alone, run};

/// The Rust that Cargo.toml asks for is the one that every other file promises.
#[test]
fn the_same_rust_is_promised_everywhere() {
    let text = |path: &str| std::fs::read_to_string(format!("{TOP}/{path}")).unwrap();
    let cargo = text("Cargo.toml");
    let version = cargo
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
        .unwrap();
    for (path, promise) in [
        ("README.md", format!("Rust {version} ")),
        ("packaging/spack/package.py", format!("rust@{version}:")),
        (
            "packaging/easybuild/getgpu-0.1.0.eb",
            format!("('Rust', '{version}."),
        ),
        ("packaging/rpm/getgpu.spec", format!("cargo >= {version}\n")),
        ("packaging/rpm/getgpu.spec", format!("Rust {version} ")),
    ] {
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
        run(
            "cargo",
            &[&how[..], &["--path", name, "--root", &to]].concat(),
        );
        let version = run(&format!("{to}/bin/{name}"), &["--version"]);
        assert_eq!(version, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
    let mut installed: Vec<_> = root
        .path()
        .join("bin")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    installed.sort();
    assert_eq!(installed, ["create-cudawrap", "cudawrap", "getgpu"]);
}
