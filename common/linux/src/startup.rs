//! What our programs do first, since they have no Rust `main`: look whether there is memory
//! to start in, and put right what the caller may have left closed or ignored. Where the
//! address space ends here, the allocator or the standard library's own start-up would abort.

use std::io::Write;

use nix::sys::signal::{SigSet, Signal};

use crate::sys;

/// For a program that never becomes another one: its standard streams are open, and a
/// pipe without a reader, a file over the limit of sizes (setrlimit(2)) and a child are
/// errors and an exit status, whatever the caller has done with the signals.
pub fn prepare() {
    sys::open_standard_streams();
    sys::ignore_sigpipe();
    sys::keep_exited_children();
    let _ = SigSet::from(Signal::SIGXFSZ).thread_block();
}

/// Whether `least` bytes are there for `program`. If not, it says so, without an allocation.
pub fn has_memory(program: &str, least: usize) -> bool {
    let enough = sys::memory_is_left(least);
    if !enough {
        let mut text = [0; 256];
        let mut rest = text.as_mut_slice();
        let _ = write!(
            rest,
            "{program}: not enough memory to start in\n{program}: hint: ulimit -v limits it\n"
        );
        let left = rest.len();
        let written = text.len() - left;
        sys::write_stderr(text.get(..written).unwrap_or_default());
    }
    enough
}
