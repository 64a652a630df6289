//! Copies of a library in which some functions do not exist, for drivers that never had them.
//! Names are changed in the file's string table, so no second build is needed.

use std::fs;
use std::io;
use std::path::Path;

/// Copies `library` to `copy`, hiding `functions`: dlsym no longer finds them.
pub fn library_without(library: &Path, copy: &Path, functions: &[&str]) -> io::Result<()> {
    let mut bytes = fs::read(library)?;
    for function in functions {
        let pattern = [b"\0", function.as_bytes(), b"\0"].concat();
        let places: Vec<usize> =
            bytes.windows(pattern.len()).enumerate().filter(|(_, at)| *at == pattern).map(|(n, _)| n).collect();
        if places.is_empty() {
            return Err(io::Error::other(format!("{}: has no {function}", library.display())));
        }
        for place in places {
            // The lookup goes by a hash of the old name, then compares names: the changed one is never found.
            bytes[place + 1] = b'-';
        }
    }
    fs::write(copy, bytes)
}
