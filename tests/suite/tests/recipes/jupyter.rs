//! The kernel for Jupyter, started by jupyter_client through a kernel.json as notebook
//! servers do. A kernel has one device for as long as it lives, however it ends.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use getgpu_tests::listing;
use getgpu_tests::wrapped::python;
use harness::{Running, Sandbox, skip, wait};

/// Speaks with kernels: a line of words in, a line out.
const CLIENT: &str = r#"
import json, sys
from jupyter_client.manager import KernelManager

managers, clients = {}, {}

def connect(name):
    clients[name] = managers[name].client()
    clients[name].start_channels()
    clients[name].wait_for_ready(timeout=60)

def start(name):
    managers[name] = KernelManager(kernel_name="gpu")
    managers[name].start_kernel()
    connect(name)

def run(name, code, interrupt=False):
    said = []
    def listen(message):
        if message["msg_type"] == "stream":
            said.append(message["content"]["text"].strip())
            if interrupt:
                managers[name].interrupt_kernel()
    # Behind an error a kernel drops what is asked meanwhile, unless it is told not to.
    reply = clients[name].execute_interactive(code, output_hook=listen, timeout=60, stop_on_error=False)["content"]
    return reply.get("ename") or " ".join(said)

for line in sys.stdin:
    word, name, code = json.loads(line)
    if word == "start":
        start(name)
    elif word == "restart":
        managers[name].restart_kernel(now=code == "now")
        clients[name].wait_for_ready(timeout=60)
    elif word == "shutdown":
        managers[name].shutdown_kernel()
        clients[name].stop_channels()
    answer = run(name, code, word == "interrupt") if word in ("run", "interrupt") else "done"
    print(answer, flush=True)
"#;

/// The kernel's own device.
const DEVICE: &str = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])";

/// Who speaks with the kernels.
struct Client {
    running: Running,
    to: File,
    lines: usize,
}

impl Client {
    /// Starts it in a sandbox with the README's kernel. None if there is no Jupyter here;
    /// then it has been said.
    fn start(sandbox: &Sandbox) -> Option<Self> {
        let found = |python: &String| {
            sandbox
                .command(python)
                .args(["-c", "import jupyter_client, ipykernel"])
                .run()
                .code()
                == Some(0)
        };
        let Some(python) = python().filter(found) else {
            skip::say("python3-jupyter-client or python3-ipykernel is not installed");
            return None;
        };
        // Debian has python3 only.
        std::os::unix::fs::symlink(&python, sandbox.path("bin/python")).unwrap();
        let kernel = r#"{"argv": ["cudawrap", "--", "python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": "Python on a GPU", "language": "python"}"#;
        sandbox.file("jupyter/kernels/gpu/kernel.json", kernel, 0o644);
        let (from, to) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
        let client = sandbox
            .command(&python)
            .args(["-c", CLIENT])
            .stdin(from)
            .limit(Duration::from_secs(120));
        let client = client
            .env("JUPYTER_PATH", sandbox.path("jupyter"))
            .env("IPYTHONDIR", sandbox.path("home/ipython"));
        Some(Self {
            running: client.spawn(),
            to: to.into(),
            lines: 0,
        })
    }

    /// Asks, and gives the answer.
    #[track_caller]
    fn ask(&mut self, word: &str, kernel: &str, code: &str) -> String {
        writeln!(self.to, "{}", serde_json::json!([word, kernel, code])).unwrap();
        self.lines += 1;
        let answered = wait::holds_within(Duration::from_secs(60), || {
            self.running.stdout().matches('\n').count() >= self.lines || self.running.is_over()
        });
        let said = self.running.stdout();
        let answer = said.lines().nth(self.lines - 1).filter(|_| answered);
        answer
            .unwrap_or_else(|| {
                panic!(
                    "{word} {kernel} {code}: no answer: {:#?}",
                    self.running.stderr()
                )
            })
            .to_owned()
    }

    /// Starts a kernel, and gives its device.
    #[track_caller]
    fn kernel(&mut self, sandbox: &Sandbox, name: &str) -> String {
        assert_eq!(self.ask("start", name, ""), "done");
        let device = self.ask("run", name, DEVICE);
        assert!(sandbox.uuids().contains(&device), "one device: {device}");
        device
    }
}

#[test]
fn each_kernel_has_its_own_device_until_shut_down_or_killed() {
    let sandbox = Sandbox::new("mig4");
    let Some(mut client) = Client::start(&sandbox) else {
        return;
    };
    let (one, other) = (
        client.kernel(&sandbox, "one"),
        client.kernel(&sandbox, "other"),
    );
    assert_ne!(one, other);
    assert_eq!(listing::free_devices(&sandbox), "2");
    // What is started in a notebook runs on the kernel's device.
    let cell = "import subprocess; print(subprocess.check_output(['sim-cuda'], text=True))";
    assert!(
        client
            .ask("run", "one", cell)
            .starts_with(&format!("RUN {one} "))
    );
    assert_eq!(client.ask("shutdown", "one", ""), "done");
    wait::until_within(
        Duration::from_secs(2),
        "a kernel that was shut down has given its device back",
        || listing::free_devices(&sandbox) == "3",
    );
    let pid: i32 = client
        .ask("run", "other", "import os; print(os.getpid())")
        .parse()
        .unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    sandbox.assert_clean(Duration::from_secs(2));
    assert_eq!(listing::free_devices(&sandbox), "4");
}

#[test]
fn an_interrupt_reaches_the_kernel_and_a_restart_has_a_device() {
    let sandbox = Sandbox::new("h200x1");
    let Some(mut client) = Client::start(&sandbox) else {
        return;
    };
    let device = client.kernel(&sandbox, "one");
    let cell = "import time; print('begun', flush=True); time.sleep(100)";
    assert_eq!(client.ask("interrupt", "one", cell), "KeyboardInterrupt");
    assert_eq!(
        client.ask("run", "one", DEVICE),
        device,
        "it goes on where it was"
    );
    assert_eq!(listing::free_devices(&sandbox), "0");
    // Asked to end, and killed: with one device on the node the new kernel starts only if
    // the old one has given it back.
    for how in ["", "now"] {
        assert_eq!(client.ask("run", "one", "kept = 1"), "");
        assert_eq!(client.ask("restart", "one", how), "done");
        assert_eq!(
            client.ask("run", "one", "print(kept)"),
            "NameError",
            "another process"
        );
        assert_eq!(client.ask("run", "one", DEVICE), device);
        assert_eq!(listing::free_devices(&sandbox), "0");
    }
    assert_eq!(client.ask("shutdown", "one", ""), "done");
    sandbox.assert_clean(Duration::from_secs(2));
}
