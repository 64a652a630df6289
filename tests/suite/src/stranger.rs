//! A process of another user that takes part in the locking as it likes: it has the name of a holder,
//! words of its own choice, and locks on any bytes.

use harness::{Command, Running, Sandbox, skip};

use crate::first_line;

/// What such a process does, as another user once it has what only root may do.
const SCRIPT: &str = r#"
import ctypes, fcntl, os, signal, struct, sys, threading
lock, uid, name, locks, ways = sys.argv[1:6]
libc = ctypes.CDLL(None, use_errno=True)
if "deaf" in ways:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setgroups([])
os.setgid(int(uid))
os.setuid(int(uid))
libc.prctl(4, 0 if "unreadable" in ways else 1, 0, 0, 0)
libc.prctl(15, name.encode(), 0, 0, 0)
fd = os.open(lock, os.O_RDWR | os.O_NONBLOCK)
for one in filter(None, locks.split(",")):
    start, count = (int(number) for number in one.split("+"))
    fcntl.fcntl(fd, 37, struct.pack("hhxxxxqqixxxx", 0, 0, start, count, 0))
def hide():
    # The page where the arguments begin. The first thread, whose stack goes on there, reads from a pipe by
    # now and never runs again.
    while open(f"/proc/self/task/{os.getpid()}/syscall").read().split()[1:2] != ["0x4d"]:
        pass
    start = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[45])
    libc.munmap(ctypes.c_void_p(start & -4096), 4096)
    os.write(1, b"ready\n")
    while True:
        signal.pause()
if "hide" in ways:
    pipe = os.pipe()
    os.dup2(pipe[0], 0x4d)
    threading.Thread(target=hide).start()
    os.read(0x4d, 1)
print("ready", flush=True)
while True:
    signal.pause()
"#;

/// Such a process.
#[derive(Clone, Copy, Debug)]
pub struct Stranger<'a> {
    /// Whose it is.
    pub uid: u32,
    /// Its name in /proc.
    pub name: &'a str,
    /// What it locks for reading: start and length.
    pub locks: &'a [(i64, i64)],
    /// `hide`: its command line cannot be read; `unreadable`: its descriptors neither, but by root;
    /// `deaf`: SIGTERM does not end it.
    pub ways: &'a str,
    /// Words on its command line.
    pub words: &'a [&'a str],
}

impl Stranger<'_> {
    /// Starts it, where the test is root's and there is a Python; returns once it has its locks.
    pub fn start(&self, sandbox: &Sandbox) -> Running {
        let script = sandbox.file("work/stranger.py", SCRIPT, 0o644);
        let locks = self
            .locks
            .iter()
            .map(|(start, count)| format!("{start}+{count}"));
        let locks = locks.collect::<Vec<_>>().join(",");
        let command: Command = sandbox.command("python3").args([script]);
        let lock = sandbox.lock().display().to_string();
        let command = command.args([&lock, &self.uid.to_string(), self.name, &locks, self.ways]);
        let running = command
            .args(self.words)
            .limit(std::time::Duration::MAX)
            .spawn();
        first_line(&running);
        running
    }
}

/// Whether this machine lacks what such a process needs; then it has been said.
pub fn lacks() -> bool {
    skip::lacks(&[skip::Need::Root, skip::Need::Tool("python3")])
}
