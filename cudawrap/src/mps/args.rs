//! What a keeper is started with: the command line, which people read in ps(1), and two
//! descriptors. Its answer, whether the daemon listens, is a result in JSON.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::daemon::Control;
use super::directory::MpsDirectory;

/// The word on the command line that makes a process a keeper.
pub const OPTION: &str = "--mps-keeper";
impl Control {
    /// The words behind `cudawrap --mps-keeper`: the device, the directory, the control
    /// program, and the list of library directories if there is one.
    pub fn words(&self) -> Vec<CString> {
        let directory = self.directory.path().as_os_str();
        [
            OsStr::new(&self.device),
            directory,
            self.program.as_os_str(),
        ]
        .into_iter()
        .chain(self.libraries.as_deref())
        .map(|word| CString::new(word.as_bytes()).unwrap_or_default())
        .collect()
    }

    pub fn parse(words: &[OsString]) -> Option<Self> {
        let [device, directory, program, libraries @ ..] = words else {
            return None;
        };
        Some(Self {
            directory: MpsDirectory::at(directory.into()),
            program: program.into(),
            device: device.to_str()?.to_owned(),
            libraries: libraries.first().cloned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_keepers_command_line_says_what_it_keeps() {
        let control = Control {
            directory: MpsDirectory::at("/tmp/getgpu-mps-0/MIG-1".into()),
            program: "/usr/bin/x y".into(),
            device: "MIG-1".into(),
            libraries: Some("/a:/b".into()),
        };
        let bare = Control {
            libraries: None,
            ..control.clone()
        };
        for control in [control, bare] {
            let words: Vec<OsString> = control
                .words()
                .into_iter()
                .map(|w| OsString::from_vec(w.into_bytes()))
                .collect();
            assert_eq!(Control::parse(&words), Some(control));
        }
        assert_eq!(Control::parse(&[]), None);
        assert_eq!(Control::parse(&["MIG-1".into(), "/x".into()]), None);
    }
}
