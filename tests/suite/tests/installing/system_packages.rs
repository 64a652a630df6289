//! The .deb, the .rpm and the rpm of the .spec, each through its whole life on a machine of
//! its own (packaging/test/package.sh). lintian and rpmlint report no error.

use std::path::Path;

use getgpu_tests::links;
use getgpu_tests::packages::{alone, built, live, live_clean, make, run, stripped};
use harness::skip::{Need, lacks};

/// What is upgraded to what.
const VERSIONS: [&str; 2] = ["0.1.0", "9.9.9"];

fn lacks_tools(tools: &[&'static str]) -> bool {
    let needs: Vec<Need> = tools.iter().map(|name| Need::Tool(name)).collect();
    lacks(&[Need::Mounts]) || lacks(&needs)
}

/// Two packages, by `make TARGET` with what `options` says for a version and a file.
fn packages(
    target: &str,
    room: &Path,
    ending: &str,
    options: impl Fn(&str, &str) -> String,
) -> [String; 2] {
    let programs = stripped(room);
    let _stage = alone();
    VERSIONS.map(|version| {
        let file = room.join(format!("{version}.{ending}"));
        let file = file.display().to_string();
        make(target, &programs, &options(version, &file));
        file
    })
}

/// A package lists its files by itself: all of Slurm's hooks are in this list of its contents.
fn assert_has_hooks(contents: &str) {
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/slurm");
    for hook in std::fs::read_dir(hooks).unwrap() {
        let name = hook.unwrap().file_name().into_string().unwrap();
        let installed = format!("/usr/share/getgpu/slurm/{name}\n");
        assert!(
            contents.contains(&installed),
            "{name} is not in:\n{contents}"
        );
    }
}

/// rpmlint without errors, by the settings of packaging/rpm.
fn rpmlint(more: &[&str]) {
    if lacks(&[Need::Tool("rpmlint")]) {
        return;
    }
    let settings = ["-c", "packaging/rpm/rpmlint.toml"];
    let said = run("rpmlint", &[&settings, more].concat());
    let fine = said.contains(" 0 errors,") && !said.contains(": E: ");
    assert!(fine, "{said}");
}

#[test]
fn a_deb_is_installed_used_upgraded_removed_and_purged() {
    if lacks_tools(&["make", "strip", "dpkg", "dpkg-deb", "setpriv", "cargo-deb"]) {
        return;
    }
    let room = tempfile::tempdir().unwrap();
    let [first, second] = packages("deb-only", room.path(), "deb", |version, file| {
        format!("DEB=--fast -q --deb-version {version}-1 -o {file}")
    });
    assert_has_hooks(&run("dpkg-deb", &["--contents", &first]));
    let unpacked = room.path().join("unpacked").display().to_string();
    run("dpkg-deb", &["--extract", &first, &unpacked]);
    let (broken, followed) = links::broken(Path::new(&unpacked));
    assert!(broken.is_empty() && followed >= 40, "{broken:#?}");
    live(&first, &second);
    live_clean(&first, &second, None, &built());
    if !lacks(&[Need::Tool("lintian")]) {
        let complaints = run("lintian", &["--allow-root", "--fail-on", "error", &first]);
        assert!(!complaints.contains("E: "), "{complaints}");
    }
}

#[test]
fn an_rpm_is_installed_used_upgraded_and_removed() {
    #[rustfmt::skip]
    let tools = ["make", "strip", "rpm", "setpriv", "gzip", "cargo-generate-rpm"];
    if lacks_tools(&tools) {
        return;
    }
    let room = tempfile::tempdir().unwrap();
    let [first, second] = packages("rpm-only", room.path(), "rpm", |version, file| {
        format!("RPM=-o {file} -s 'version = \"{version}\"'")
    });
    assert_has_hooks(&run("rpm", &["-qpl", &first]));
    live(&first, &second);
    rpmlint(&["-r", "packaging/rpm/rpmlint-generated", &first]);
}

#[test]
fn the_rpm_of_the_spec_is_installed_used_upgraded_and_removed() {
    if lacks_tools(&["make", "strip", "rpm", "rpmbuild", "setpriv"]) {
        return;
    }
    let room = tempfile::tempdir().unwrap();
    let output = room.path().display().to_string();
    let programs = built().display().to_string();
    run("packaging/test/spec.sh", &[&programs, &output]);
    let [first, second] = VERSIONS.map(|version| format!("{output}/{version}.rpm"));
    assert_has_hooks(&run("rpm", &["-qpl", &first]));
    live(&first, &second);
    rpmlint(&[&first]);
    rpmlint(&["packaging/rpm/getgpu.spec"]);
}
