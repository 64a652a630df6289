//! docs/CLUSTER.md: several hosts, by real ssh. Each host is an sshd on a port of its own whose
//! sessions have a simulated node.

use std::net::TcpListener;
use std::time::Duration;

use harness::skip::{self, Need};
use harness::{Running, Sandbox, wait};

use crate::launchers::documented_in;

const HOSTS: [&str; 3] = ["a01", "a02", "a03"];
const JOBS: usize = 24;

/// A node, and the sshd through which it is reached.
struct Host {
    node: Sandbox,
    port: u16,
    _sshd: Running,
}

impl Host {
    /// Starts an sshd that takes the key which `key` makes.
    fn start() -> Self {
        let node = Sandbox::new("gpus4");
        let keys =
            "ssh-keygen -q -t ed25519 -N '' -f key && ssh-keygen -q -t ed25519 -N '' -f host";
        node.shell("sh", keys).run().exits(0);
        // Free until now; another program that takes it meanwhile ends the test.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let port = port.expect("a free port").port();
        let kept = [
            "PATH",
            "LD_LIBRARY_PATH",
            "SIM_NODE",
            "GETGPU_LOCK",
            "GETGPU_CONFIG",
        ];
        let environment = node.words("env").run().exits(0).stdout.clone();
        let is_kept = |line: &&str| {
            kept.iter()
                .any(|name| line.starts_with(&format!("{name}=")))
        };
        let environment: Vec<&str> = environment.lines().filter(is_kept).collect();
        let work = node.path("work").display().to_string();
        let settings = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {work}/host\nAuthorizedKeysFile {work}/key.pub\nPidFile none\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv {}\n",
            environment.join(" ")
        );
        node.file("work/sshd", &settings, 0o600);
        let sshd = node.words("/usr/sbin/sshd -D -e -f sshd");
        let sshd = sshd.limit(Duration::MAX).spawn();
        wait::until("sshd listens", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self {
            node,
            port,
            _sshd: sshd,
        }
    }
}

#[test]
fn gnu_parallel_starts_jobs_on_three_hosts_and_one_list_shows_them() {
    if skip::lacks(&[Need::Root, Need::Tool("parallel"), Need::Tool("sshd")]) {
        return;
    }
    documented_in(
        "CLUSTER.md",
        "parallel --sshlogin 4/a01,4/a02 cudawrap --wait -- ./job {} ::: $(seq 80)",
    );
    let merge = "for host in a01 a02 a03; do ssh \"$host\" getgpu --list --json & done | getgpu --list --from - --free";
    documented_in("CLUSTER.md", merge);
    std::fs::create_dir_all("/run/sshd").expect("where sshd puts itself away");
    let hosts = HOSTS.map(|_| Host::start());
    let front = Sandbox::new("none");
    let each = HOSTS.iter().zip(&hosts).map(|(name, host)| {
        let key = host.node.path("work/key").display().to_string();
        format!(
            "Host {name}\n HostName 127.0.0.1\n Port {}\n IdentityFile {key}\n",
            host.port
        )
    });
    let every = "Host *\n User root\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n";
    front.file("work/hosts", &(each.collect::<String>() + every), 0o600);
    front.file(
        "bin/ssh",
        "#!/bin/sh\nexec /usr/bin/ssh -F \"$HOSTS\" \"$@\"\n",
        0o755,
    );
    let run = |line: &str| {
        let command = front
            .shell("bash", line)
            .env("HOSTS", front.path("work/hosts"));
        command.limit(Duration::from_secs(120)).run()
    };
    let jobs = format!(
        "parallel --will-cite --sshlogin 4/a01,4/a02,4/a03 cudawrap --wait -- sim-cuda --run 0.2 --tag {{}} ::: $(seq {JOBS})"
    );
    run(&jobs).exits(0);
    let ran = hosts.each_ref().map(|host| host.node.runs().len());
    assert_eq!(ran.iter().sum::<usize>(), JOBS, "{ran:?}");
    assert!(ran.iter().all(|each| *each > 0), "{ran:?}");
    hosts.iter().for_each(|host| host.node.assert_exclusive());
    let listed = run(merge);
    listed.exits(0).shows("\n12 of 12 free");
    assert!(listed.stdout.starts_with("HOST "), "{listed:#?}");
}
