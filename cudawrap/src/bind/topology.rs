//! Cores and their hardware threads, as the kernel tells them in
//! /sys/devices/system/cpu/cpuN/topology (Documentation/admin-guide/cputopology.rst).
//! Where it does not, each CPU is a core.

use std::path::Path;

use getgpu_model::CpuSet;

/// The cores of `cpus`, each with those of its threads that are in `cpus`: package by
/// package, then by the lowest number.
///
/// `root` is /sys/devices/system/cpu. CPUs that are offline have no topology, nor have
/// all of them in some virtual machines and containers.
pub fn cores(root: &Path, cpus: &CpuSet) -> Vec<CpuSet> {
    let (mut left, mut cores) = (cpus.clone(), Vec::new());
    for cpu in cpus.iter() {
        if !left.contains(cpu) {
            continue;
        }
        let one: CpuSet = [cpu].into_iter().collect();
        let siblings = siblings(root, cpu).filter(|siblings| siblings.contains(cpu));
        let core = siblings.map_or(one, |siblings| siblings.intersection(&left));
        left = left.difference(&core);
        cores.push((package(root, cpu), core));
    }
    // Neighbours share caches and memory. Some machines number their packages in turns.
    cores.sort_by_key(|(package, _)| *package);
    cores.into_iter().map(|(_, core)| core).collect()
}

fn read(root: &Path, cpu: usize, name: &str) -> Option<String> {
    std::fs::read_to_string(root.join(format!("cpu{cpu}/topology/{name}"))).ok()
}

/// The threads of this CPU's core: by the present name of the file, then by that of
/// kernels before 5.3.
fn siblings(root: &Path, cpu: usize) -> Option<CpuSet> {
    ["core_cpus_list", "thread_siblings_list"]
        .into_iter()
        .find_map(|name| read(root, cpu, name)?.parse().ok())
}

fn package(root: &Path, cpu: usize) -> i64 {
    read(root, cpu, "physical_package_id")
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these cores, each with its package.
    fn tree(name: &str, cores: &[(&str, i64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (core, package) in cores {
            for cpu in core.parse::<CpuSet>().unwrap().iter() {
                let directory = root.path().join(format!("cpu{cpu}/topology"));
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(directory.join(name), format!("{core}\n")).unwrap();
                std::fs::write(
                    directory.join("physical_package_id"),
                    format!("{package}\n"),
                )
                .unwrap();
            }
        }
        root
    }

    fn of(root: &tempfile::TempDir, cpus: &str) -> Vec<String> {
        cores(root.path(), &cpus.parse().unwrap())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn two_sockets_with_two_threads_a_core() {
        for name in ["core_cpus_list", "thread_siblings_list"] {
            let tree = tree(
                name,
                &[
                    ("0,4", 0),
                    ("1,5", 0),
                    ("2,6", 1),
                    ("3,7", 1),
                    ("1030,2054", 1),
                ],
            );
            assert_eq!(of(&tree, "0-7"), ["0,4", "1,5", "2,6", "3,7"], "{name}");
            assert_eq!(of(&tree, "2-3,6-7"), ["2,6", "3,7"], "{name}");
            // Of a core that is there by half that half is a core.
            assert_eq!(of(&tree, "1-4"), ["1", "4", "2", "3"], "{name}");
            assert!(of(&tree, "").is_empty() && of(&tree, "1030,2054") == ["1030,2054"]);
        }
    }

    #[test]
    fn sockets_numbered_in_turns_stay_apart() {
        let tree = tree("core_cpus_list", &[("0", 0), ("1", 1), ("2", 0), ("3", 1)]);
        assert_eq!(of(&tree, "0-3"), ["0", "2", "1", "3"]);
    }

    #[test]
    fn holes_nonsense_and_nothing_at_all() {
        let tree = tree("core_cpus_list", &[("0-1", 0), ("6-7", 0), ("10-13", 0)]);
        let whole = ["0-1", "2", "3", "4", "5", "6-7", "8", "9", "10-13"];
        assert_eq!(of(&tree, "0-13"), whole);
        for (cpu, text) in [(0, "soup"), (6, "7"), (10, "10-2000000")] {
            let file = format!("cpu{cpu}/topology/core_cpus_list");
            std::fs::write(tree.path().join(file), text).unwrap();
        }
        assert_eq!(of(&tree, "0-1,6-7,10-11"), ["0", "1", "6", "7", "10", "11"]);
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(of(&nothing, "3-4,1500"), ["3", "4", "1500"]);
    }

    #[test]
    fn this_machine_has_each_of_its_cpus_in_one_core() {
        let mask = getgpu_model::cpus::mask::of_process(0).unwrap();
        let cores = cores(Path::new(super::super::CPUS), &mask);
        assert_eq!(cores.iter().map(CpuSet::count).sum::<usize>(), mask.count());
        let all = cores.iter().flat_map(CpuSet::iter).collect::<CpuSet>();
        assert_eq!(all, mask);
    }
}
