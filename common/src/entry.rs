//! What our programs do first, since they have no Rust `main`: look whether there is memory
//! to start in. Where the address space ends here, the allocator or the standard library's
//! own start-up would abort the process.

use std::io::Write;

use crate::sys;

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
