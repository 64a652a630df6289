//! Which program this library was loaded into, where its own file is, and where cudawrap
//! is from there.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use getgpu_linux::can_run;
use getgpu_settings::Settings;

/// Whether what this process starts is in another pid namespace than itself: after
/// unshare(2) or setns(2). The second link is dangling while that namespace is new.
pub fn children_elsewhere() -> bool {
    let [own, theirs] = ["pid", "pid_for_children"].map(|name| {
        let link = Path::new("/proc/self/ns").join(name);
        // Linux has the second one from 4.12 on.
        link.symlink_metadata()
            .is_ok()
            .then(|| link.read_link().ok())
    });
    matches!((own, theirs), (Some(own), Some(theirs)) if own != theirs)
}

/// This library's file, links followed.
fn library() -> Option<PathBuf> {
    // SAFETY: all-zero bytes are a valid place for the answer; the address is one of this
    // library's functions, and the name that dladdr(3) gives lives as long as the library.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(library as *const libc::c_void, &raw mut info) == 0
            || info.dli_fname.is_null()
        {
            return None;
        }
        CStr::from_ptr(info.dli_fname)
    };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

/// The cudawrap that was installed with this library: beside it, or in the bin of
/// lib/getgpu's prefix.
pub fn beside() -> Option<PathBuf> {
    let library = library()?;
    let directory = library.parent()?;
    [directory.to_owned(), directory.join("../../bin")]
        .into_iter()
        .find_map(cudawrap_in)
        .and_then(|path| path.canonicalize().ok())
}

/// Another one: beside the getgpu that is set, else where packages put it; never by PATH.
pub fn elsewhere(settings: &Settings) -> Option<PathBuf> {
    let set = settings.getgpu.as_deref().and_then(Path::parent);
    set.into_iter()
        .chain([Path::new("/usr/bin"), Path::new("/usr/local/bin")])
        .find_map(|directory| cudawrap_in(directory.to_owned()))
}

fn cudawrap_in(directory: PathBuf) -> Option<PathBuf> {
    let path = directory.join("cudawrap");
    can_run(&path).then_some(path)
}
