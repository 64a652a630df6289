//! A `docker` for a sandbox: podman, which has docker's command line, on a store of the
//! sandbox's own, and an image that has the machine's `/usr`. The program that is called
//! `docker` stays as long as the container does, or returns at once with `-d`, as
//! docker's client; GPUs are the simulated node's.

use std::fs;
use std::os::unix::fs::symlink;

use harness::skip::{self, Need};
use harness::{Command, Sandbox, mounts};
use nix::mount::{MsFlags, mount};

/// `docker`. Containers are put into no cgroups, which change the machine; podman then
/// refuses `--pid host`, and so the runtime is told.
const DOCKER: &str = r#"#!/bin/sh
for word; do
    shift
    case $word in --pid) word=--annotation ;; host) word=pids=host ;; esac
    set -- "$@" "$word"
done
exec podman "$@"
"#;

/// The runtime: crun, which leaves out the pid namespace of a container that is to have
/// the host's.
const RUNTIME: &str = r#"#!/bin/sh
for word; do
    [ "$before" != --bundle ] || ! grep -q '"pids":"host"' "$word/config.json" || sed -i 's/{"type":"pid"},//' "$word/config.json"
    before=$word
done
exec crun "$@"
"#;

/// Does `work` with a `docker` in the PATH of the bash that it is given, and an image
/// called `image`; says so and returns if that cannot be.
///
/// podman lets `--gpus` pass and does nothing about it: a program in a container sees all
/// devices of the node.
pub fn with(sandbox: &Sandbox, work: impl FnOnce(&dyn Fn(&str) -> Command) + Send) {
    if skip::lacks(&[Need::Mounts, Need::Tool("podman"), Need::Tool("crun")]) {
        return;
    }
    prepare(sandbox);
    mounts::apart(|| {
        let new = |place: &str, kind: &str| {
            let kind = Some(kind);
            mount(kind, place, kind, MsFlags::empty(), None::<&str>)
        };
        // Where podman and crun put what every store has in common.
        new("/run", "tmpfs")
            .and_then(|()| new("/dev/shm", "tmpfs"))
            .expect("a /run and a /dev/shm of one's own");
        // crun refuses machines that mount the old and the new kind of cgroups side by
        // side.
        let cgroups = new("/sys/fs/cgroup", "cgroup2");
        let shell = |script: &str| {
            let [containers, storage] =
                ["containers", "storage"].map(|name| sandbox.path(&format!("podman/{name}.conf")));
            let command = sandbox.shell("bash", script);
            let command = command.env("CONTAINERS_CONF", containers);
            command.env("CONTAINERS_STORAGE_CONF", storage)
        };
        let import = "tar -C ../podman/image -c . | docker import -q - image";
        let tried = shell(&format!("{import} && docker run --rm image true")).run();
        if tried.code() != Some(0) {
            let said = tried.stderr.trim();
            skip::say(&format!("podman cannot run here ({cgroups:?}): {said}"));
            return;
        }
        let _gone = Gone(&shell);
        work(&shell);
    });
}

/// Ends the containers, also those of a test that failed: their files could not go
/// otherwise.
struct Gone<'a>(&'a dyn Fn(&str) -> Command);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        drop((self.0)("docker rm -f -a -t 0").run());
    }
}

/// The programs, podman's settings, and the tree of which the image is made.
fn prepare(sandbox: &Sandbox) {
    let image = sandbox.path("podman/image");
    for name in ["usr", "etc", "proc", "sys", "dev", "tmp", "run"] {
        fs::create_dir_all(image.join(name)).expect("a directory of the image");
    }
    for name in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{name}"), image.join(name)).expect("a link of the image");
    }
    sandbox.file("bin/docker", DOCKER, 0o755);
    sandbox.file("podman/crun", RUNTIME, 0o755);
    let root = sandbox.root().display();
    // The programs, the simulated library and node, and nothing of the lock: that is for
    // the recipe to mount.
    let shared: String = ["bin", "lib", "node", "work", "config.toml"]
        .map(|name| format!(", '{root}/{name}:{root}/{name}'"))
        .concat();
    let settings = format!(
        "[containers]\ncgroups = 'disabled'\nnetns = 'none'\nvolumes = ['/usr:/usr:ro'{shared}]\n\
         env = ['PATH={root}/bin:/usr/bin', 'SIM_NODE={root}/node', 'LD_LIBRARY_PATH={root}/lib', 'GETGPU_CONFIG={root}/config.toml']\n\
         # Limits that this process may set, too.\ndefault_ulimits = ['nofile=1024:1024', 'nproc=4096:4096']\n\
         [engine]\ncgroup_manager = 'cgroupfs'\nevents_logger = 'none'\nruntime = 'crun'\n\
         [engine.runtimes]\ncrun = ['{root}/podman/crun']\n"
    );
    sandbox.file("podman/containers.conf", &settings, 0o644);
    let store = format!(
        "[storage]\ndriver = 'vfs'\ngraphroot = '{root}/podman/store'\nrunroot = '{root}/podman/run'\n"
    );
    sandbox.file("podman/storage.conf", &store, 0o644);
}
