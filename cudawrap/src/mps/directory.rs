//! The private directory of one user, device and batch job: `/tmp/getgpu-mps-UID/UUID`,
//! in a job `/tmp/getgpu-mps-UID/JOB.UUID`, with the daemon's pipe and log directories
//! and a lock file. A job has a daemon of its own, since its cgroup ends with it. Always
//! below /tmp: one path for all of a user's programs, short enough for a socket, whatever
//! TMPDIR and XDG_RUNTIME_DIR are.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use getgpu_linux::{Range, descriptors::above_standard, identity, procfs::namespaces, sys};
use getgpu_lock::{OfdLock, layout};
use getgpu_model::{Failure, Uuid, batch, reason};

use crate::causes::MpsCause;
use nix::libc;

/// Held while a daemon is looked for, started or ended.
pub const MUTEX: Range = Range::byte(0);
/// Read-locked by every client, for as long as any process of it has the descriptor.
pub const CLIENTS: Range = Range::byte(2);
/// Write-locked by the keeper.
pub const KEEPER: Range = Range::byte(4);

const TOP: &str = "/tmp";

/// The directory of one user and device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpsDirectory(PathBuf);

impl MpsDirectory {
    /// That of this user, `device` and batch job.
    pub fn of(device: &Uuid) -> Self {
        let job = batch::JOB_IDS
            .into_iter()
            .chain([batch::GRID_ENGINE_JOB_ID])
            .find_map(std::env::var_os)
            .filter(|_| !sys::secure_execution());
        Self::of_job(
            device,
            job.map(|job| job.to_string_lossy().into_owned()).as_deref(),
        )
    }

    fn of_job(device: &Uuid, job: Option<&str>) -> Self {
        // The old form of a MIG device's name has slashes.
        let device = device.as_str().replace('/', "_");
        let name = match job.filter(|job| !job.is_empty()) {
            None => device,
            // A socket's path is short: what is long goes by its hash.
            Some(job) => format!("{}.{}", short(job, 11), short(&device, 40)),
        };
        let uid = namespaces::host_uid(nix::unistd::geteuid().as_raw());
        Self(Path::new(TOP).join(format!("getgpu-mps-{uid}")).join(name))
    }

    /// One that is there already.
    pub const fn at(directory: PathBuf) -> Self {
        Self(directory)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of all of this user's devices.
    pub fn all(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new(TOP))
    }

    /// CUDA_MPS_PIPE_DIRECTORY
    pub fn pipe(&self) -> PathBuf {
        self.0.join("pipe")
    }

    /// CUDA_MPS_LOG_DIRECTORY
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Makes the directory, or makes sure that the one that is there is this user's
    /// alone.
    pub fn make(&self) -> Result<(), Failure> {
        let top = Path::new(TOP);
        let meta = fs::symlink_metadata(top).map_err(|error| cannot(top, &error))?;
        // Where others may rename this directory, what is under its name next time may be
        // theirs.
        if meta.mode() & 0o022 != 0 && meta.mode() & libc::S_ISVTX == 0 {
            let path = top.display();
            return Err(MpsCause::TopOpen { path }.into());
        }
        private(self.all()).and_then(|()| private(&self.0))
    }

    /// The daemon's two directories; while the mutex is held.
    pub fn make_for_daemon(&self) -> Result<(), Failure> {
        private(&self.pipe()).and_then(|()| private(&self.log()))
    }

    /// A new description of the lock file, which is made if it is missing.
    pub fn open(&self) -> io::Result<OfdLock> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW);
        let file = options.open(self.lock())?;
        if file.metadata()?.mode() & 0o777 != 0o600 {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        above_standard(file.into()).map(OfdLock::new)
    }

    /// A new description that a program may inherit: it can be read-locked only.
    pub fn open_read_only(&self) -> io::Result<OfdLock> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW)
            .open(self.lock())?;
        above_standard(OwnedFd::from(file)).map(OfdLock::new)
    }

    /// Whether the lock file is still the one of `description`, and was not removed or
    /// replaced meanwhile.
    pub fn is_of(&self, description: &OfdLock) -> bool {
        let link = format!("/proc/self/fd/{}", description.number());
        let ours = identity(Path::new(&link));
        ours.is_some() && ours == identity(&self.lock())
    }

    /// Removes everything, the lock file last: a process that waits for the lock file finds
    /// it gone and starts from the beginning. The caller holds the mutex.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(self.pipe());
        let _ = fs::remove_dir_all(self.log());
        let _ = fs::remove_file(self.lock());
        let _ = fs::remove_dir(&self.0);
        let _ = fs::remove_dir(self.all());
    }

    /// Descriptors that keep cleaners of /tmp away while they are open: those leave alone
    /// what is locked (tmpfiles.d(5)).
    pub fn keep_from_cleaners(&self) -> Vec<nix::fcntl::Flock<File>> {
        let shared = nix::fcntl::FlockArg::LockSharedNonblock;
        let open = [self.all(), &self.0]
            .into_iter()
            .filter_map(|path| File::open(path).ok());
        open.filter_map(|directory| nix::fcntl::Flock::lock(directory, shared).ok())
            .collect()
    }
}

/// A name of a file, as it is if it has at most `most` harmless characters.
fn short(name: &str, most: usize) -> String {
    let harmless = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if harmless && name.len() <= most {
        name.to_owned()
    } else {
        format!("{:x}", layout::fnv1a(name.as_bytes()) >> 24)
    }
}

/// A directory of this user that no other can enter; made if it is missing.
fn private(path: &Path) -> Result<(), Failure> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // Removed behind the last client in this very moment: the caller tries again.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot(path, &error)),
    }
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot(path, &error)),
    };
    let shown = path.display();
    if !meta.is_dir() {
        return Err(MpsCause::NotDirectory { path: shown }.into());
    }
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        let (path, uid) = (shown, meta.uid());
        return Err(MpsCause::Foreign { path, uid }.into());
    }
    if meta.mode() & 0o077 != 0 {
        return Err(MpsCause::Open { path: shown }.into());
    }
    if meta.mode() & 0o700 != 0o700 {
        // An unusual umask.
        return fs::set_permissions(path, Permissions::from_mode(0o700))
            .map_err(|error| cannot(path, &error));
    }
    Ok(())
}

/// A directory or file of the place that cannot be made, opened or locked.
pub fn cannot(path: &Path, error: &io::Error) -> Failure {
    let (path, why) = (path.display(), reason(error));
    MpsCause::Unusable { path, why }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_fits_into_a_sockets_address() {
        let hex = "0d1e2f30-1111-5222-8333-444455556666";
        let server = "1234[99].a-very-long-name-of-a-server.example.org";
        for name in [format!("MIG-{hex}"), format!("MIG-GPU-{hex}/113/107")] {
            for job in [None, Some("4294967295"), Some(server), Some("../x")] {
                let directory = MpsDirectory::of_job(&Uuid::parse(&name).unwrap(), job);
                let path = directory.path();
                assert_eq!(path.components().count(), 4, "{}", path.display());
                let last = Path::new(path.file_name().unwrap()).join("pipe");
                let longest = Path::new(TOP).join("getgpu-mps-4294967295").join(last);
                assert!(longest.as_os_str().len() < 90, "{}", longest.display());
            }
        }
    }

    #[test]
    fn only_a_directory_of_our_own_is_private() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("d");
        let refused = || private(&path).unwrap_err().message;
        let mode = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let is_private =
            || private(&path).is_ok() && fs::metadata(&path).unwrap().mode() & 0o777 == 0o700;
        assert!(is_private());
        mode(0o500);
        assert!(is_private());
        mode(0o710);
        assert!(refused().ends_with("others can enter it"));
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink(temporary.path(), &path).unwrap();
        assert!(refused().ends_with("it is not a directory"));
    }
}
