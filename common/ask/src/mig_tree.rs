//! The GPU instances of a node as its driver shows them in /proc, without NVML and without touching a
//! GPU: on a node of whole GPUs that saves a look at each of them.

use std::io::{
    self,
    ErrorKind::{NotADirectory, NotFound},
};
use std::path::Path;

/// Whether the driver shows that no GPU of the node has a GPU instance, and so no MIG device. False
/// also where its tree cannot be read, as in a container.
pub fn shows_none() -> bool {
    let tree = Path::new("/proc/driver/nvidia/capabilities");
    has_instances(tree).is_ok_and(|has| !has)
}

/// Whether `tree` has a folder gpuMINOR/mig/giN.
fn has_instances(tree: &Path) -> io::Result<bool> {
    for gpu in std::fs::read_dir(tree)? {
        let instances = match std::fs::read_dir(gpu?.path().join("mig")) {
            Ok(instances) => instances,
            // A GPU without MIG has no such folder, `mig` itself has files only, and what else the
            // driver tells there is a file.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => continue,
            Err(error) => return Err(error),
        };
        for instance in instances {
            if instance?.file_name().as_encoded_bytes().starts_with(b"gi") {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_any_gpu_counts_and_a_tree_that_cannot_be_read_shows_nothing() {
        let tree = tempfile::tempdir().unwrap();
        let has = || has_instances(tree.path());
        let add = |folder: &str| std::fs::create_dir_all(tree.path().join(folder)).unwrap();
        add("mig");
        std::fs::write(tree.path().join("mig/config"), "").unwrap();
        std::fs::write(tree.path().join("fabric-imex-mgmt"), "").unwrap();
        assert!(!has().unwrap());
        add("gpu0");
        add("gpu1/mig");
        assert!(!has().unwrap());
        add("gpu1/mig/gi7/ci0");
        assert!(has().unwrap());
        assert!(has_instances(&tree.path().join("none")).is_err());
        std::fs::write(tree.path().join("gpu0/mig"), "").unwrap();
        assert!(has_instances(&tree.path().join("gpu0/mig")).is_err());
    }
}
