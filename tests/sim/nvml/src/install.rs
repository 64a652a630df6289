//! Puts the built library where a test wants it, under the name that programs look for.
//! Functions that a driver does not have are hidden on the way, without a second build.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sim_node::Version;

use crate::functions::exists;

/// The functions that some of the simulated drivers do not have, as far as a program asks for
/// them.
#[rustfmt::skip]
const CHANGED: [&str; 17] = [
    "nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetRunningProcessDetailList",
    "nvmlDeviceGetConfComputeMemSizeInfo", "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetGpuFabricInfoV", "nvmlSystemGetConfComputeGpusReadyState",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1", "nvmlDeviceSetMemoryLimits_v1",
    "nvmlDeviceGetMemoryLimits_v1", "nvmlGpmSampleAlloc", "nvmlGpmSampleFree",
    "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet",
];

/// What may lie at the library's path without being the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// 0 bytes, as in container images that were built with NVIDIA's runtime.
    Empty,
    /// A text.
    Text,
    /// A library for 32-bit programs.
    Elf32,
    /// A library without a single function of NVML.
    Stub,
}

/// Puts what is not the library in its place.
pub fn install_damaged(dir: &Path, damage: Damage) -> io::Result<PathBuf> {
    let place = dir.join("libnvidia-ml.so.1");
    let _ = fs::remove_file(&place);
    match damage {
        Damage::Empty => fs::write(&place, b"")?,
        Damage::Text => fs::write(
            &place,
            b"version https://git-lfs.github.com/spec/v1\nsize 1839616\n",
        )?,
        Damage::Elf32 => {
            // ELFCLASS32, ET_DYN, EM_386: the loader looks no further.
            let mut header = [0; 64];
            header[..20].copy_from_slice(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x03\0");
            fs::write(&place, header)?;
        }
        Damage::Stub => {
            let mut library = fs::read(built()?)?;
            for at in 0..library.len().saturating_sub(5) {
                if &library[at..at + 5] == b"\0nvml" {
                    library[at + 1] = b'-';
                }
            }
            fs::write(&place, library)?;
        }
    }
    Ok(place)
}

/// The library that cargo built beside the running test program.
///
/// Cargo puts it there for every package that has this one as a (dev-)dependency.
pub fn built() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let near = program
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|dir| [dir.join("deps"), dir.to_owned()]);
    let found = near
        .map(|dir| dir.join("libsim_nvml.so"))
        .find(|library| library.exists());
    found.ok_or_else(|| io::Error::other(format!("no libsim_nvml.so near {}", program.display())))
}

/// Installs the library as `libnvidia-ml.so.1` in `dir`, which goes into LD_LIBRARY_PATH.
/// What a driver of this version does not have cannot be found in it.
pub fn install(dir: &Path, version: Version) -> io::Result<PathBuf> {
    let (library, copy) = (built()?, dir.join("libnvidia-ml.so.1"));
    let missing = CHANGED.map(|name| (!exists(version, name)).then_some(name));
    let missing: Vec<&str> = missing.into_iter().flatten().collect();
    if missing.is_empty() {
        let _ = fs::remove_file(&copy);
        // A link is quick, and what cargo builds later gets a new inode.
        fs::hard_link(&library, &copy).or_else(|_| fs::copy(&library, &copy).map(drop))?;
    } else {
        fs::write(&copy, without(fs::read(library)?, &missing)?)?;
    }
    Ok(copy)
}

/// Changes the names in the string table. A lookup goes by a hash of the name asked for
/// and then compares names, so the changed ones are never found.
fn without(mut library: Vec<u8>, hidden: &[&str]) -> io::Result<Vec<u8>> {
    for function in hidden {
        let name = [b"\0", function.as_bytes(), b"\0"].concat();
        let at = library.windows(name.len()).position(|bytes| bytes == name);
        let at = at.ok_or_else(|| io::Error::other(format!("the library has no {function}")))?;
        library[at + 1] = b'-';
    }
    Ok(library)
}
