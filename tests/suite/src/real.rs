//! NVIDIA's own libraries, one of each driver branch, as `.ci/run` fetches them. They run
//! without a driver as far as their first error, and show which functions they have.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::skip::{self, Need};

use crate::on_target;

/// The libraries of one driver.
#[derive(Clone, Debug)]
pub struct Driver {
    /// As `535.274.02`.
    pub version: String,
    /// Where libnvidia-ml.so.1 and libcuda.so.1 are.
    pub directory: PathBuf,
}

/// Those that are at hand, the oldest first. None where that makes no sense, or there is
/// none: then it has been said.
pub fn drivers() -> Vec<Driver> {
    if Path::new("/proc/driver/nvidia/version").exists() {
        skip::say("this machine has a driver: make check-gpu tries the programs with it");
        return Vec::new();
    }
    let folder = on_target("tools/nvidia");
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut drivers: Vec<Driver> = entries
        .filter(|entry| entry.path().join("libnvidia-ml.so.1").exists())
        .map(|entry| Driver {
            version: entry.file_name().to_string_lossy().into_owned(),
            directory: entry.path(),
        })
        .collect();
    drivers.sort_by_key(Driver::number);
    if drivers.is_empty() {
        skip::say(
            "NVIDIA's own libraries are not below target/tools/nvidia \
             (tests/sim/outsiders/real-libraries.sh fetches them, .ci/run does that)",
        );
    }
    drivers
}

impl Driver {
    /// The version in numbers.
    fn number(&self) -> Vec<u32> {
        let parts = self.version.split('.');
        parts.filter_map(|part| part.parse().ok()).collect()
    }

    /// A library of this driver.
    pub fn library(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The functions of NVML that the library has; none if that cannot be found out here:
    /// then it has been said.
    pub fn functions(&self) -> Option<BTreeSet<String>> {
        functions(&self.library("libnvidia-ml.so.1"))
    }
}

/// The functions of NVML that a library exports.
///
/// # Panics
///
/// If it is no library.
pub fn functions(library: &Path) -> Option<BTreeSet<String>> {
    if skip::lacks(&[Need::Tool("nm")]) {
        return None;
    }
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--without-symbol-versions"])
        .arg(library)
        .output()
        .expect("nm");
    assert!(output.status.success(), "{}: {output:?}", library.display());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split(' ').nth(2));
    let names = names.filter(|name| name.starts_with("nvml"));
    Some(names.map(str::to_owned).collect())
}

/// The functions of NVML that a program looks up: the names in it that end with a NUL, as
/// dlsym(3) takes them.
///
/// # Panics
///
/// If the program cannot be read.
pub fn looked_up(program: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(program).expect("the program");
    let mut names = BTreeSet::new();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(4).position(|part| part == b"nvml") {
        let start = at + found;
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let length = bytes[start..].iter().take_while(|byte| word(byte)).count();
        let (name, end) = (&bytes[start..start + length], bytes.get(start + length));
        let name = String::from_utf8_lossy(name).into_owned();
        let method = name[4..].starts_with(|first: char| first.is_ascii_uppercase());
        // Texts of the code lie one behind the other, without a NUL between them.
        let one = !name[4..].contains("nvml");
        if method && one && end == Some(&0) && !is_mangled(&name) {
            names.insert(name);
        }
        at = start + length;
    }
    names
}

/// Whether this is the end of a symbol of Rust's: a hash of sixteen digits and an `E`.
fn is_mangled(name: &str) -> bool {
    let hash = name.strip_suffix('E');
    let hash = hash.and_then(|rest| rest.rsplit_once("17h"));
    hash.is_some_and(|(_, digits)| digits.len() == 16)
}
