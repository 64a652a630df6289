//! The environment variables that getgpu and cudawrap read, taken in once at the start.
//! Under secure execution (setuid, file capabilities) none of them is believed.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use getgpu_model::BatchGpus;
use getgpu_model::batch::PlaceInJob;

/// What the environment says.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The system's settings: /etc/getgpu/config.toml or GETGPU_CONFIG.
    pub system_file: PathBuf,
    /// GETGPU_CONFIG was given, so the file has to be there.
    pub system_file_must_exist: bool,
    /// The settings of the prefix that this program is installed in, such as conda's or
    /// Spack's: etc/getgpu/config.toml beside its bin.
    pub prefix_file: Option<PathBuf>,
    /// The user's settings, if there is a home to look in.
    pub user_file: Option<PathBuf>,
    /// GETGPU_LOCK.
    pub lock: Option<PathBuf>,
    /// CUDA_VISIBLE_DEVICES.
    pub visible: Option<OsString>,
    /// CUDA numbers GPUs by their PCI addresses (CUDA_DEVICE_ORDER), and not the fastest first.
    pub order_by_pci: bool,
    /// SLURM_JOB_ID, PBS_JOBID or LSB_JOBID is set, or SGE lists GPUs.
    pub batch_job: bool,
    /// The GPUs that the batch system says this job has.
    pub batch_gpus: Option<BatchGpus>,
    /// In a Slurm allocation but not in one of its tasks: the shell of salloc(1), or a
    /// batch system's hook.
    pub allocation_shell: bool,
    /// Slurm lists the nodes of the allocation, as it does for salloc's shell.
    pub nodes_listed: bool,
}

impl Environment {
    /// Takes the environment of this process.
    pub fn of_process() -> Self {
        Self::of_program(std::env::current_exe().ok().as_deref())
    }

    /// The same with the settings of the prefix that `program` is installed in, which need
    /// not be the one that runs.
    pub fn of_program(program: Option<&Path>) -> Self {
        Self::with(|name| std::env::var_os(name), program)
    }

    /// The same for a hook of a batch system, which may run in a job's environment: a
    /// file that GETGPU_CONFIG or GETGPU_LOCK names there counts only if it is root's.
    pub fn of_hook() -> Self {
        let get = |name: &str| {
            let of_file = ["GETGPU_CONFIG", "GETGPU_LOCK"].contains(&name);
            std::env::var_os(name).filter(|value| !of_file || is_roots(Path::new(value)))
        };
        Self::with(get, std::env::current_exe().ok().as_deref())
    }

    fn with(get: impl Fn(&str) -> Option<OsString>, program: Option<&Path>) -> Self {
        let environment = Self::from(
            get,
            std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()),
            getgpu_linux::sys::secure_execution(),
        );
        // GETGPU_CONFIG stands for all of the system's settings.
        let program = program.filter(|_| !environment.system_file_must_exist);
        Self {
            prefix_file: program.and_then(prefix_file),
            ..environment
        }
    }

    /// Takes the environment that `get` knows, with Grid Engine's variables of these
    /// names; with `secure`, only what cannot do harm.
    pub fn from(
        get: impl Fn(&str) -> Option<OsString>,
        names: impl IntoIterator<Item = String>,
        secure: bool,
    ) -> Self {
        let own = |name: &str| get(name).filter(|value| !secure && !value.is_empty());
        // The XDG rules: a relative path is to be ignored.
        let absolute = |name: &str| {
            own(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let config = absolute("XDG_CONFIG_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".config")));
        let place = PlaceInJob::of(&get);
        let batch_gpus = BatchGpus::from(&get, names);
        let chosen = own("GETGPU_CONFIG").map(PathBuf::from);
        Self {
            system_file_must_exist: chosen.is_some(),
            system_file: chosen.unwrap_or_else(|| "/etc/getgpu/config.toml".into()),
            prefix_file: None,
            user_file: config.map(|dir| dir.join("getgpu/config.toml")),
            lock: own("GETGPU_LOCK").map(PathBuf::from),
            visible: get("CUDA_VISIBLE_DEVICES"),
            order_by_pci: get("CUDA_DEVICE_ORDER").is_some_and(|order| order == "PCI_BUS_ID"),
            batch_job: place.in_job || batch_gpus.as_ref().is_some_and(|gpus| gpus.listed),
            batch_gpus,
            allocation_shell: place.allocation_shell,
            nodes_listed: place.nodes_listed,
        }
    }
}

/// Whether a file is root's to make and to replace. One that is missing is, if its directory
/// is: the first call makes the lock.
fn is_roots(path: &Path) -> bool {
    let own = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta.uid() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    let directory = path.parent().map(std::fs::symlink_metadata);
    own && matches!(directory, Some(Ok(meta)) if meta.uid() == 0 && meta.mode() & 0o022 == 0)
}

/// The settings beside the `bin` of an executable. The system's own directories have
/// /etc.
fn prefix_file(executable: &Path) -> Option<PathBuf> {
    let bin = executable.parent().filter(|bin| bin.ends_with("bin"))?;
    let prefix = bin
        .parent()
        .filter(|prefix| ![Path::new("/"), Path::new("/usr")].contains(prefix))?;
    Some(prefix.join("etc/getgpu/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_its_settings_beside_its_programs() {
        let file = |executable: &str| prefix_file(Path::new(executable));
        for prefix in ["/opt/conda", "/usr/local"] {
            let expected = format!("{prefix}/etc/getgpu/config.toml");
            assert_eq!(file(&format!("{prefix}/bin/getgpu")), Some(expected.into()));
        }
        for none in [
            "/usr/bin/getgpu",
            "/bin/getgpu",
            "/home/u/target/release/getgpu",
            "getgpu",
        ] {
            assert_eq!(file(none), None, "{none}");
        }
    }
}
