//! `cargo run -p xtask -- rooms`: for each extra, how many lines of code outside its own place name
//! it. An extra is removed by removing its place and these lines.

use std::path::Path;

use crate::size;

/// Something that the products could do without.
struct Extra {
    name: &'static str,
    /// Beginnings of the paths that are its own.
    places: &'static [&'static str],
    /// What names it in a line, in any case.
    words: &'static [&'static str],
    /// What has such a word and is something else.
    others: &'static [&'static str],
}

const EXTRAS: [Extra; 10] = [
    Extra {
        name: "Slurm's hooks",
        places: &["getgpu/operate/src/slurm/", "common/settings/src/slurm.rs"],
        words: &["slurm"],
        // What is known of a rank, and of any batch job.
        others: &["cudawrap/src/ranks/", "common/model/src/batch"],
    },
    Extra {
        name: "monitor",
        places: &["getgpu/operate/src/monitor/"],
        words: &["monitor"],
        others: &[],
    },
    Extra {
        name: "watch",
        places: &["getgpu/core/src/list/watch.rs"],
        words: &["watch"],
        others: &["exit_watch", "exitwatch", "watched"],
    },
    Extra {
        name: "Prometheus",
        places: &["getgpu/operate/src/prometheus.rs"],
        words: &["prometheus", "metrics"],
        others: &[],
    },
    Extra {
        name: "MPS",
        places: &["cudawrap/src/mps/"],
        words: &["mps"],
        // NVIDIA's own processes, which NVML lists and which run without this extra too.
        others: &["common/nvml/", "nvidia-cuda-mps-server", "mps daemons"],
    },
    Extra {
        name: "bind",
        places: &["cudawrap/src/bind/"],
        words: &["bind"],
        // A socket's address, and how Slurm binds tasks.
        others: &["unixaddr", "bind(", "gpu-bind"],
    },
    Extra {
        name: "ranks",
        places: &["cudawrap/src/ranks/"],
        words: &["rank"],
        others: &[],
    },
    Extra {
        name: "auto",
        places: &[
            "cudawrap/libcudawrap/",
            "cudawrap/src/auto/",
            "common/auto/",
            "common/settings/src/first_call.rs",
            "getgpu/operate/src/check/auto.rs",
        ],
        words: &["auto", "libcudawrap"],
        // A value of the settings `type`, `share` and `slurm.tasks`, and of --color.
        others: &[
            "type::auto",
            "tasks::auto",
            "color::auto",
            "share_auto",
            "--share auto",
            "autos",
            "auto = \"auto\"",
            "\"auto\"",
            "\"auto\\\"",
        ],
    },
    Extra {
        name: "check",
        places: &["getgpu/operate/src/check/"],
        words: &["check::", "action::check", "mod check", "check {"],
        others: &[],
    },
    Extra {
        name: "link-dir",
        places: &["create-cudawrap/src/linkdir.rs"],
        words: &["linkdir", "link_dir", "link-dir"],
        others: &[],
    },
];

impl Extra {
    fn is_own(&self, file: &str) -> bool {
        self.places.iter().any(|place| file.starts_with(place))
    }

    fn is_others(&self, file: &str) -> bool {
        self.others.iter().any(|other| file.starts_with(other))
    }

    /// Whether a line of code names it.
    fn is_named(&self, line: &str) -> bool {
        let mut line = line.to_lowercase();
        for other in self.others {
            line = line.replace(other, "");
        }
        self.words.iter().any(|word| line.contains(word))
    }

    fn count(&self, text: &str) -> usize {
        size::code_lines(text)
            .filter(|line| self.is_named(line))
            .count()
    }
}

/// A table with a line for each extra; with `details`, the files below it.
///
/// # Errors
///
/// git does not list the files, or one of them cannot be read.
pub fn table(top: &Path, details: bool) -> Result<String, String> {
    let mut files = Vec::new();
    let products = size::products(top)?.into_iter();
    for name in products.filter(|name| !name.starts_with("xtask/")) {
        let text = std::fs::read_to_string(top.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        files.push((name, text));
    }
    let mut table = String::from("extra            own lines   lines outside   in files\n");
    for extra in &EXTRAS {
        let (own, outside): (Vec<_>, Vec<_>) =
            files.iter().partition(|(name, _)| extra.is_own(name));
        let own: usize = own
            .iter()
            .map(|(_, text)| size::code_lines(text).count())
            .sum();
        let doors: Vec<(&str, usize)> = outside
            .iter()
            .filter(|(name, _)| !extra.is_others(name))
            .map(|(name, text)| (name.as_str(), extra.count(text)))
            .filter(|(_, lines)| *lines > 0)
            .collect();
        let lines: usize = doors.iter().map(|(_, lines)| lines).sum();
        let (name, places) = (extra.name, doors.len());
        table += &format!("{name:16} {own:9}   {lines:13}   {places:8}\n");
        for (file, lines) in doors.iter().filter(|_| details) {
            table += &format!("    {lines:4} {file}\n");
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_an_extra_by_its_word() {
        let extra = |name: &str| EXTRAS.iter().find(|extra| extra.name == name).unwrap();
        let named = |name, line| extra(name).is_named(line);
        assert!(named("auto", "Auto::Off => {}") && !named("auto", "Type::Auto => {}"));
        assert!(named("watch", "mod watch;") && !named("watch", "use exit_watch::ExitWatch;"));
        let text = "// Slurm.\nuse slurm::a;\nlet b = 1;\n#[cfg(test)]\nmod tests {\n slurm\n}\n";
        assert_eq!(extra("Slurm's hooks").count(text), 1);
        assert!(extra("auto").is_own("cudawrap/libcudawrap/src/lib.rs"));
    }

    #[test]
    fn every_place_of_an_extra_is_there() {
        let files = size::products(crate::top()).unwrap();
        for place in EXTRAS.iter().flat_map(|extra| extra.places) {
            assert!(
                files.iter().any(|file| file.starts_with(place)),
                "{place} is not there: correct EXTRAS, or remove the entry of an extra that is gone"
            );
        }
    }
}
