//! One test's own machine: node, lock, settings, home and programs below one directory.
//! When it goes, every process that still belongs to it is killed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sim_node::Folder;
use tempfile::TempDir;

use crate::skip::{self, Need};
use crate::{Builder, Command, Outcome, copy_program};

/// One test's own machine.
#[derive(Debug)]
pub struct Sandbox {
    temporary: TempDir,
    folder: Folder,
}

impl Sandbox {
    /// A node by the name of an inventory of the simulator, or as TOML; no settings.
    pub fn new(node: &str) -> Self {
        Builder::new(node).build()
    }

    /// A node, with lines of the system's settings file.
    pub fn with(node: &str, settings: &str) -> Self {
        Builder::new(node).settings(settings).build()
    }

    /// The same where nothing of `needs` is missing; none: it has been said.
    pub fn given(needs: &[Need], node: &str, settings: &str) -> Option<Self> {
        (!skip::lacks(needs)).then(|| Self::with(node, settings))
    }

    /// To say more.
    pub fn builder(node: &str) -> Builder {
        Builder::new(node)
    }

    pub(crate) const fn put_together(temporary: TempDir, folder: Folder) -> Self {
        Self { temporary, folder }
    }

    /// The directory of everything, 0755.
    pub fn root(&self) -> &Path {
        self.temporary.path()
    }

    /// A path below [`Sandbox::root`]; `work/` is writable for every user.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// The same as text, for scripts.
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The lock. Nothing else belongs into its directory.
    pub fn lock(&self) -> PathBuf {
        self.path("run/lock")
    }

    pub const fn folder(&self) -> &Folder {
        &self.folder
    }

    /// UUIDs of all devices.
    pub fn uuids(&self) -> Vec<String> {
        self.folder.node().expect("the node").device_uuids()
    }

    /// Changes the node: an inventory's name, or TOML. Programs see it when they next
    /// start NVML.
    pub fn set_node(&self, node: &str) {
        self.folder
            .set_node(&crate::builder::own(node, self.root()))
            .expect("a valid node");
    }

    /// Changes what is wrong with the node (`faults.toml`).
    pub fn faults(&self, toml: &str) {
        self.folder.set_faults(toml).expect("valid faults");
    }

    /// The system's settings file, which GETGPU_CONFIG names.
    pub fn settings_file(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// Changes the settings. The list of allowed devices is the sandbox's `ids`, not the
    /// machine's, unless they say otherwise.
    pub fn set_settings(&self, toml: &str) {
        let list = if toml.contains("allowed_file") {
            String::new()
        } else {
            format!("allowed_file = {:?}\n", self.path("ids"))
        };
        self.file("config.toml", &format!("{list}{toml}\n"), 0o644);
    }

    /// Makes a file of this mode; one that can be executed as [`copy_program`] does.
    pub fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("the file's directory");
        if mode & 0o111 == 0 {
            fs::write(&path, text).expect("a file of the sandbox");
        } else {
            let written = tempfile::NamedTempFile::new().expect("a file for its text");
            fs::write(&written, text).expect("its text");
            copy_program(&written, &path);
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        path
    }

    /// A program: by name from the sandbox's `bin` and the machine's PATH, or by path.
    /// Its environment is the sandbox's alone.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        Command::new(self, program.as_ref())
    }

    /// getgpu with these arguments.
    pub fn getgpu<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Command {
        self.command("getgpu").args(arguments)
    }

    /// A program and its arguments, without a space in any, behind variables as in a shell.
    /// `@/` is the sandbox's directory.
    pub fn words(&self, line: &str) -> Command {
        let line = line.replace("@/", &self.text(""));
        let mut words = line.split(' ').peekable();
        let mut variables = Vec::new();
        while let Some(word) = words.next_if(|word| word.contains('=')) {
            variables.extend(word.split_once('='));
        }
        let command = self.command(words.next().expect("a program")).args(words);
        let set = |command: Command, (name, value)| command.env(name, value);
        variables.into_iter().fold(command, set)
    }

    /// Asserts that each of these lines is refused with this status and this text.
    #[track_caller]
    pub fn refuses(&self, cases: &[(&str, i32, &str)]) {
        for (line, status, text) in cases {
            self.words(line).run().refuses(*status, text);
        }
    }

    /// What getgpu with these arguments, without a space in any, ended with.
    #[track_caller]
    pub fn ask(&self, arguments: &str) -> Outcome {
        self.getgpu(arguments.split_whitespace()).run()
    }

    /// The same as another user.
    #[track_caller]
    pub fn ask_as(&self, uid: u32, arguments: &str) -> Outcome {
        self.getgpu(arguments.split_whitespace()).uid(uid).run()
    }

    /// The same in a grant.
    #[track_caller]
    pub fn ask_within(&self, grant: impl AsRef<OsStr>, arguments: &str) -> Outcome {
        let getgpu = self.getgpu(arguments.split_whitespace());
        getgpu.visible(grant).run()
    }

    /// A device that is held as long as the test runs.
    #[track_caller]
    pub fn hold_here(&self) -> String {
        self.line(&format!("--hold={}", std::process::id()))
    }

    /// A script of sh with mounts of its own (the test must be root).
    pub fn apart(&self, script: &str) -> Command {
        self.words("unshare -m sh -c").args([script])
    }

    /// One in a pid namespace of its own, too, as in a container.
    pub fn contained(&self, script: &str) -> Command {
        let script = format!("mount -t proc proc /proc; {script}");
        self.words("unshare -mpf --kill-child sh -c").args([script])
    }

    /// The line that getgpu prints.
    #[track_caller]
    pub fn line(&self, arguments: &str) -> String {
        self.ask(arguments).line()
    }

    /// A program that finds no settings, lock or record of the machine's own: where there
    /// are some, other file systems lie over them ([`crate::skip::Need::Bare`]).
    pub fn bare(&self, program: impl AsRef<OsStr>) -> Command {
        let own = OWN.into_iter().filter(|place| Path::new(place).exists());
        let cover = |place| format!("mount -t tmpfs -o mode=755 none {place} || exit 99; ");
        let script: String = own.map(cover).collect();
        if script.is_empty() {
            return self.command(program);
        }
        let is_root = nix::unistd::geteuid().is_root();
        let namespaces = if is_root { "-m" } else { "-rm" };
        let script = format!("{script}exec \"$@\"");
        self.command("unshare")
            .args([namespaces, "sh", "-c", &script, "sh"])
            .args([program])
    }

    /// A script for `bash`, `dash`, `zsh` or `tcsh`, without the startup files of any.
    pub fn shell(&self, shell: &str, script: &str) -> Command {
        let command = self.command(shell);
        let command = if matches!(shell, "zsh" | "tcsh" | "csh") {
            command.args(["-f"])
        } else {
            command
        };
        command.args(["-c", script])
    }
}

/// Where an installed getgpu has its settings, lock and records.
const OWN: [&str; 3] = ["/etc/getgpu", "/run/getgpu", "/var/lib/getgpu"];

/// Whether this machine has no getgpu of its own.
pub(crate) fn nothing_to_hide() -> bool {
    OWN.iter().all(|place| !Path::new(place).exists())
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.kill_all();
    }
}
