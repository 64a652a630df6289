//! What a keeper and its starter say to each other: the command line, the two
//! descriptors, and the word whether the daemon listens. People read the command line in
//! ps(1).

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use getgpu_common::process_reset;

use super::daemon::Control;
use super::directory::MpsDirectory;

/// Where the keeper finds the mutex.
pub const MUTEX_FD: RawFd = process_reset::FIRST;
/// Where the keeper finds its starter.
pub const STARTER_FD: RawFd = process_reset::SECOND;
/// The word on the command line that makes a process a keeper.
pub const OPTION: &str = "--mps-keeper";
/// The word to the starter that the daemon listens.
pub const READY: u8 = b'r';
/// The word to the starter that it does not; message and hint follow, a line each.
pub const FAILED: u8 = b'f';
/// Everything a keeper is told; people read it in ps(1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupervisorArgs {
    pub directory: MpsDirectory,
    /// How to speak to the daemon.
    pub control: Control,
}

impl SupervisorArgs {
    /// The words behind `cudawrap --mps-keeper`.
    pub fn words(&self) -> Vec<CString> {
        let Control {
            program,
            device,
            libraries,
        } = &self.control;
        let directory = self.directory.path().as_os_str();
        let mut words = vec![
            device.clone().into_bytes(),
            [b"directory=", directory.as_bytes()].concat(),
            [b"control=", program.as_os_str().as_bytes()].concat(),
        ];
        words.extend(
            libraries
                .as_ref()
                .map(|list| [b"libraries=", list.as_bytes()].concat()),
        );
        words
            .into_iter()
            .map(|word| CString::new(word).unwrap_or_default())
            .collect()
    }

    pub fn parse(words: &[OsString]) -> Option<Self> {
        let value = |name: &str| {
            let found = words
                .iter()
                .find_map(|word| word.as_bytes().strip_prefix(name.as_bytes()))?;
            Some(OsStr::from_bytes(found).to_owned())
        };
        Some(Self {
            directory: MpsDirectory::at(PathBuf::from(value("directory=")?)),
            control: Control {
                program: PathBuf::from(value("control=")?),
                device: String::from_utf8(words.first()?.clone().into_vec()).ok()?,
                libraries: value("libraries="),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keepers_command_line_says_what_it_keeps() {
        let control = Control {
            program: "/usr/bin/x y".into(),
            device: "MIG-1".into(),
            libraries: Some("/a:/b".into()),
        };
        let bare = Control {
            libraries: None,
            ..control.clone()
        };
        for control in [control, bare] {
            let line = SupervisorArgs {
                directory: MpsDirectory::at("/tmp/getgpu-mps-0/MIG-1".into()),
                control,
            };
            let words: Vec<OsString> = line
                .words()
                .into_iter()
                .map(|w| OsString::from_vec(w.into_bytes()))
                .collect();
            assert_eq!(SupervisorArgs::parse(&words), Some(line));
        }
        assert_eq!(SupervisorArgs::parse(&[]), None);
        assert_eq!(
            SupervisorArgs::parse(&["MIG-1".into(), "control=/x".into()]),
            None
        );
    }
}
