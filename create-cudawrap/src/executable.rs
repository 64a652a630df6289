//! What a file is, by its bytes alone: a program, a script, an executable of this
//! package, or nothing that can be executed. Neither its name nor its inode says that: a
//! wrapped tree that was copied has copies of cudawrap under its programs' names.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use getgpu_linux::regular_file::{self, Links};
use getgpu_linux::{PREFIX, PackageMark, sys::contains_bytes};
use getgpu_model::reason;

use crate::names::WRAPPER;

/// More bytes of a script are not read.
const LONGEST_SCRIPT: u64 = 16 << 20;
/// More bytes of notes than any linker makes.
const LONGEST_NOTES: u64 = 64 << 10;
/// Bytes of the header of a 64-bit ELF file (elf(5)) with little-endian numbers, as all hosts of
/// NVIDIA's driver have it.
const HEADER: usize = 64;
const NOTE: u64 = 4;
/// The executables of this package, which have a mark.
const MARKED: [&str; 3] = [WRAPPER, "getgpu", "create-cudawrap"];

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A program of the kernel's.
    Program,
    /// It begins with `#!`.
    Script,
    /// A script that names `CUDAWRAP_`: it may execute the program beside it, and as that
    /// program it would execute itself for ever.
    ScriptOfWrapped,
    /// An executable of this package, of any version.
    Own(&'static str),
    Empty,
    /// A program whose end is missing.
    CutShort,
    /// None that execve(2) knows.
    Unknown,
}

impl Form {
    /// What is wrong with it, in words that follow "is"; none: it can be the program that a path
    /// stands for.
    pub fn fault(self) -> Option<&'static str> {
        match self {
            Self::Program | Self::Script => None,
            Self::ScriptOfWrapped => Some("a script that names CUDAWRAP_"),
            Self::Own(WRAPPER) => Some("a copy of cudawrap"),
            Self::Own("getgpu") => Some("a copy of getgpu"),
            Self::Own(_) => Some("a copy of create-cudawrap"),
            Self::Empty => Some("an empty file"),
            Self::CutShort => Some("a program whose end is missing"),
            Self::Unknown => Some("a file that the kernel cannot execute"),
        }
    }
}

/// The form of the regular file at `path`, or that it leads to.
///
/// # Errors
///
/// It cannot be read, or is something else by now: what is unseen may be a copy of cudawrap, and is no
/// program until it is seen.
pub fn form(path: &Path, links: Links) -> io::Result<Form> {
    let form = regular_file::open(path, links).and_then(|mut file| read(&mut file));
    form.map_err(|error| {
        let text = format!("cannot be read: {}", reason(&error));
        io::Error::new(error.kind(), text)
    })
}

fn read(file: &mut File) -> io::Result<Form> {
    let head = part(file, 0, HEADER as u64)?;
    if head.is_empty() {
        Ok(Form::Empty)
    } else if head.starts_with(b"#!") {
        let text = part(file, 0, LONGEST_SCRIPT)?;
        Ok(if contains_bytes(&text, PREFIX.as_bytes()) {
            Form::ScriptOfWrapped
        } else {
            Form::Script
        })
    } else if head.starts_with(b"\x7fELF") {
        elf(file, &head)
    } else {
        Ok(Form::Unknown)
    }
}

fn elf(file: &mut File, head: &[u8]) -> io::Result<Form> {
    // Another class or byte order is no file of this package, and the kernel decides
    // whether it runs.
    if head.get(4..6).is_some_and(|kind| kind != [2, 1]) {
        return Ok(Form::Program);
    }
    let length = file.metadata()?.len();
    let (at, size, count) = (
        number(head, 32, 8),
        number(head, 54, 2),
        number(head, 56, 2),
    );
    let segments = part(file, at, size * count)?;
    // Linkers put the sections' table at the end, so that no cut misses both.
    let sections_length = number(head, 58, 2) * number(head, 60, 2);
    let sections_end = number(head, 40, 8).saturating_add(sections_length);
    if size == 0 || (segments.len() as u64) < size * count || sections_end > length {
        return Ok(Form::CutShort);
    }
    for segment in segments.chunks(size as usize) {
        let (at, bytes) = (number(segment, 8, 8), number(segment, 32, 8));
        if at.saturating_add(bytes) > length {
            return Ok(Form::CutShort);
        }
        if number(segment, 0, 4) == NOTE {
            let notes = part(file, at, bytes.min(LONGEST_NOTES))?;
            let is_marked = |name: &&str| contains_bytes(&notes, PackageMark::of(name).bytes());
            if let Some(name) = MARKED.into_iter().find(is_marked) {
                return Ok(Form::Own(name));
            }
        }
    }
    Ok(Form::Program)
}

/// At most so many bytes of a file.
fn part(file: &mut File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at.min(i64::MAX as u64)))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The number of so many bytes at a place; 0 behind the end.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let mut number = [0; 8];
    if let Some(field) = bytes.get(at..at + length) {
        number[..length].copy_from_slice(field);
    }
    u64::from_le_bytes(number)
}

#[cfg(test)]
#[path = "executable_tests.rs"]
mod tests;
