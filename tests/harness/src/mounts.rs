//! Mounts of a test's own: in a mount namespace that only one thread and its children
//! see. It goes with them, however the test ends, and loop devices that `mount -o loop`
//! made go with their mounts.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Does `work` on a thread with its own mounts; what it starts sees them too. Root only;
/// a panic of `work` is the caller's.
pub fn apart<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNS).expect("an own mount namespace");
            let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
            mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
                .expect("mounts that stay in the namespace");
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
