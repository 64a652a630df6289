//! Putting a sandbox together: which node, which settings, which library. Everything in
//! it can be read by every user, and only the runner can write where trust matters.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::stat::Mode;
use sim_node::Folder;
use sim_nvml::install::{self, Damage};

use crate::{Sandbox, binaries, signals, watcher};

/// What a sandbox is to be.
#[derive(Clone, Debug)]
pub struct Builder {
    node: String,
    settings: String,
    library: bool,
    damage: Option<Damage>,
}

impl Builder {
    /// A node: the name of an inventory of the simulator, or TOML.
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            settings: String::new(),
            library: true,
            damage: None,
        }
    }

    /// Lines of the system's settings file.
    #[must_use]
    pub fn settings(mut self, toml: &str) -> Self {
        self.settings = toml.to_owned();
        self
    }

    /// A machine without the NVIDIA library.
    #[must_use]
    pub const fn without_library(mut self) -> Self {
        self.library = false;
        self
    }

    /// A machine with something else in the place of the NVIDIA library.
    #[must_use]
    pub const fn damaged(mut self, damage: Damage) -> Self {
        self.damage = Some(damage);
        self
    }

    /// Makes it.
    pub fn build(self) -> Sandbox {
        let temporary = temporary();
        let root = temporary.path().to_owned();
        open(&root);
        for name in ["bin", "lib", "run", "home", "work"] {
            fs::create_dir(root.join(name)).expect("a directory of the sandbox");
            open(&root.join(name));
        }
        // Programs of every user may leave their files here.
        fs::set_permissions(root.join("work"), fs::Permissions::from_mode(0o1777))
            .expect("mode of the work directory");
        // The runner's own, as root's is on a real node: other users could not make it
        // here.
        nix::unistd::mkfifo(&root.join("run/lock"), Mode::S_IRWXU).expect("the lock");
        fs::set_permissions(root.join("run/lock"), fs::Permissions::from_mode(0o666))
            .expect("mode of the lock");
        binaries::link_into(&root.join("bin"), &root.join("lib"));
        let folder =
            Folder::create(root.join("node"), &own(&self.node, &root)).expect("the simulated node");
        let node = folder.node().expect("the simulated node");
        let lib = root.join("lib");
        if let Some(damage) = self.damage {
            install::install_damaged(&lib, damage).expect("a damaged library");
        } else if self.library {
            install::install(&lib, node.version).expect("the simulated library");
        }
        let sandbox = Sandbox::put_together(temporary, folder);
        sandbox.set_settings(&self.settings);
        sandbox
    }
}

/// A directory that ends with the test, in a process as a terminal starts it. Its path is
/// a word of the scripts that tests run, whatever TMPDIR is.
pub fn temporary() -> tempfile::TempDir {
    signals::as_from_a_terminal();
    let set = std::env::temp_dir();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    let fits = set.to_str().is_some_and(|path| path.chars().all(is_word));
    let base = if fits { &set } else { Path::new("/tmp") };
    tempfile::Builder::new()
        .prefix(&watcher::prefix(base))
        .tempdir_in(base)
        .expect("a temporary directory")
}

/// The inventory with a host name of the sandbox's own, and so with UUIDs that no other
/// sandbox has: reservations look at all processes of their user, and a test's programs
/// must not be taken for another's.
pub(crate) fn own(node: &str, root: &Path) -> String {
    let text = sim_node::builtin(node).unwrap_or(node);
    if text.contains("host =") {
        text.to_owned()
    } else {
        format!("host = {root:?}\n{text}")
    }
}

fn open(directory: &Path) {
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
        .expect("mode of a directory of the sandbox");
}
