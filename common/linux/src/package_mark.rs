//! The mark by which an executable of this package is known, whatever its name, its
//! version or its inode: an ELF note (elf(5)), which strip(1) keeps. A text that any
//! program could have inside a file would not do, since a file with the mark may be
//! replaced.

/// Bytes of a note's header, its owner `getgpu` and the program's name, each padded to 4 bytes.
const LENGTH: usize = 12 + 8 + NAME;
/// Room in bytes for the longest name, `create-cudawrap`.
const NAME: usize = 16;
/// Which kind of note it is; the owner alone decides what that means.
const KIND: u32 = 1;

/// The note of one program.
#[repr(C, align(4))]
pub struct PackageMark([u8; LENGTH]);

impl PackageMark {
    /// The mark of `program`, whose name must fit.
    pub const fn of(program: &str) -> Self {
        let mut note = [0; LENGTH];
        put(&mut note, 0, &7u32.to_ne_bytes());
        put(&mut note, 4, &(NAME as u32).to_ne_bytes());
        put(&mut note, 8, &KIND.to_ne_bytes());
        put(&mut note, 12, b"getgpu");
        put(&mut note, 20, program.as_bytes());
        Self(note)
    }

    /// The note as it lies in the executable.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Copies bytes; slices cannot be copied in a constant.
const fn put(note: &mut [u8; LENGTH], at: usize, bytes: &[u8]) {
    let mut next = 0;
    while next < bytes.len() {
        note[at + next] = bytes[next];
        next += 1;
    }
}

/// Puts the mark of a program into its executable. Linkers keep notes that nothing refers to.
#[macro_export]
macro_rules! package_mark {
    ($program:literal) => {
        #[allow(unsafe_code)]
        // SAFETY: a section of this name holds ELF notes, and this is one.
        #[unsafe(link_section = ".note.getgpu")]
        #[used]
        static PACKAGE_MARK: $crate::PackageMark = $crate::PackageMark::of($program);
    };
}
