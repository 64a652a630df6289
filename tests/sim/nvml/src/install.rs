//! Puts the built library where a test wants it, under the name that programs look for.
//! Functions can be hidden on the way, for drivers that never had them, without a second build.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What drivers before 510 do not have.
pub const BEFORE_510: &[&str] = &[
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetRunningProcessDetailList",
    "nvmlDeviceGetConfComputeMemSizeInfo",
];

/// What drivers 535.43 to 535.86 do not have; with such a driver in `node.toml` the `_v3` lists have wide entries.
pub const WIDE_PROCESSES: &[&str] = &["nvmlDeviceGetRunningProcessDetailList"];

/// The library that cargo built beside the running test program.
///
/// Cargo puts it there for every package that has this one as a (dev-)dependency.
pub fn built() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let near = program.ancestors().skip(1).take(2).flat_map(|dir| [dir.join("deps"), dir.to_owned()]);
    let found = near.map(|dir| dir.join("libsim_nvml.so")).find(|library| library.exists());
    found.ok_or_else(|| io::Error::other(format!("no libsim_nvml.so near {}", program.display())))
}

/// Installs the library as `libnvidia-ml.so.1` in `dir`, which goes into LD_LIBRARY_PATH. `hidden` functions cannot
/// be found in it.
pub fn install(dir: &Path, hidden: &[&str]) -> io::Result<PathBuf> {
    let (library, copy) = (built()?, dir.join("libnvidia-ml.so.1"));
    if hidden.is_empty() {
        let _ = fs::remove_file(&copy);
        // A link is quick, and what cargo builds later gets a new inode.
        fs::hard_link(&library, &copy).or_else(|_| fs::copy(&library, &copy).map(drop))?;
    } else {
        fs::write(&copy, without(fs::read(library)?, hidden)?)?;
    }
    Ok(copy)
}

/// Changes the names in the string table. A lookup goes by a hash of the name asked for and then compares names, so
/// the changed ones are never found.
fn without(mut library: Vec<u8>, hidden: &[&str]) -> io::Result<Vec<u8>> {
    for function in hidden {
        let name = [b"\0", function.as_bytes(), b"\0"].concat();
        let at = library.windows(name.len()).position(|bytes| bytes == name);
        let at = at.ok_or_else(|| io::Error::other(format!("the library has no {function}")))?;
        library[at + 1] = b'-';
    }
    Ok(library)
}
