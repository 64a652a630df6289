//! Forms of files: real programs, whole, cut short and marked, and what only looks like one.

use std::fs;

use super::{Form, Links, PackageMark, form};

/// A program header table with one segment of notes, which is all that is looked at.
fn elf_with(notes: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
    bytes[54..56].copy_from_slice(&56u16.to_le_bytes());
    bytes[56..58].copy_from_slice(&1u16.to_le_bytes());
    bytes[64..68].copy_from_slice(&4u32.to_le_bytes());
    bytes[72..80].copy_from_slice(&120u64.to_le_bytes());
    bytes[96..104].copy_from_slice(&(notes.len() as u64).to_le_bytes());
    bytes.extend_from_slice(notes);
    bytes
}

#[test]
fn forms_are_told_by_content() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let form_of = |bytes: &[u8]| {
        fs::write(file.path(), bytes).unwrap();
        form(file.path(), Links::Refuse).unwrap()
    };
    let own = fs::read(std::env::current_exe().unwrap()).unwrap();
    assert_eq!(form_of(&own), Form::Program);
    for length in [1, 5, 40, 63, 64, 100, own.len() / 2] {
        let cut = form_of(&own[..length]);
        assert!(cut.fault().is_some(), "{length}: {cut:?}");
    }
    let marked = elf_with(&[&[0; 20], PackageMark::of("cudawrap").bytes()].concat());
    assert_eq!(form_of(&marked), Form::Own("cudawrap"));
    assert_eq!(form_of(&marked[..marked.len() - 1]), Form::CutShort);
    // The bytes of a mark that are no note prove nothing.
    let inside = [b"#!/bin/sh\n", &marked[..]].concat();
    assert_eq!(form_of(&inside), Form::Script);
    let behind = [elf_with(&[0; 36]), marked].concat();
    assert_eq!(form_of(&behind), Form::Program);
    assert_eq!(form_of(b""), Form::Empty);
    assert_eq!(form_of(b"echo no first line\n"), Form::Unknown);
    let caller = b"#!/bin/sh\nexec \"$d/CUDAWRAP_$n\"\n";
    assert_eq!(form_of(caller), Form::ScriptOfWrapped);
}

/// A file that cannot be read is no program that was put there anew.
#[test]
fn an_error_is_no_form() {
    let directory = tempfile::tempdir().unwrap();
    assert!(form(directory.path(), Links::Follow).is_err());
    assert!(form(&directory.path().join("nothing"), Links::Follow).is_err());
}

/// The directory's owner may exchange a file for anything after it was looked at.
#[test]
fn what_took_the_place_of_a_program_is_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("pipe", &link).unwrap();
    assert!(form(&pipe, Links::Refuse).is_err());
    assert!(form(&link, Links::Follow).is_err());
    assert!(form(&link, Links::Refuse).is_err());
}
