//! The site's lists of devices: which are allowed, which are excluded. A GPU's UUID
//! stands for the GPU and all its MIG devices; `MIG-GPU-uuid/gi/ci` matches on every
//! driver.

use std::path::Path;

use super::causes::SettingsCause;
use super::{Settings, bounded_read, trusted};
use getgpu_model::{Device, Failure, Selector, reason};

/// A list of devices, and the lines that were no device.
#[derive(Clone, Debug, Default)]
pub struct DeviceList {
    entries: Vec<(Selector, String)>,
    /// Lines that name no device, for --explain and --list.
    pub bad: Vec<String>,
}

impl DeviceList {
    /// Takes the entries of a setting or the lines of a file.
    pub fn from<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut list = Self::default();
        for line in lines {
            let entry = line.split('#').next().unwrap_or("").trim();
            if entry.is_empty() {
                continue;
            }
            match Selector::parse(entry) {
                Some(selector @ (Selector::Full(_) | Selector::OldMig { .. })) => {
                    list.entries.push((selector, entry.to_owned()));
                }
                _ => list.bad.push(entry.to_owned()),
            }
        }
        list
    }

    /// Whether some entry names the device.
    pub fn names(&self, device: &Device) -> bool {
        self.entries
            .iter()
            .any(|(selector, _)| matches(selector, device))
    }

    /// Whether an entry can only be matched with the GPU's UUID or the instance ids at
    /// hand.
    pub fn needs_place(&self) -> bool {
        self.entries.iter().any(|(selector, _)| match selector {
            Selector::Full(uuid) => !uuid.is_mig(),
            _ => true,
        })
    }

    /// Entries that name none of `devices`.
    pub fn without(&self, devices: &[Device]) -> Vec<&str> {
        let missing = self
            .entries
            .iter()
            .filter(|(selector, _)| !devices.iter().any(|device| matches(selector, device)));
        missing.map(|(_, text)| text.as_str()).collect()
    }
}

fn matches(selector: &Selector, device: &Device) -> bool {
    match selector {
        Selector::Full(uuid) => *uuid == device.uuid || Some(uuid) == device.gpu_uuid.as_ref(),
        Selector::OldMig { gpu, gi, ci } => {
            let there = (Some(gpu), Some((*gi, *ci)));
            selector.names(&device.uuid) || (device.gpu_uuid.as_ref(), device.instance) == there
        }
        Selector::Index(_) | Selector::Prefix(_) => false,
    }
}

/// The allowed list in force: the setting, else the file; `None` if there is neither, and
/// then all are allowed.
///
/// # Errors
///
/// The file cannot be read, or others than its owner can write to it.
pub fn allowed(settings: &Settings) -> Result<Option<DeviceList>, Failure> {
    if let Some(entries) = &settings.allowed {
        return Ok(Some(DeviceList::from(entries.iter().map(String::as_str))));
    }
    trusted::check(
        &settings.allowed_file,
        "list of allowed devices ",
        settings.callers_list,
    )?;
    from_file(&settings.allowed_file)
}

/// The devices that are never chosen.
pub fn excluded(settings: &Settings) -> DeviceList {
    DeviceList::from(settings.excluded.iter().map(String::as_str))
}

fn from_file(path: &Path) -> Result<Option<DeviceList>, Failure> {
    match bounded_read::read(path) {
        // A stray byte spoils its line, not the list. Editors that write CRLF put a byte
        // order mark in front, too.
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            Ok(Some(DeviceList::from(
                text.strip_prefix('\u{feff}').unwrap_or(&text).lines(),
            )))
        }
        // A link whose target is away, as on a file system that is not mounted, is a list
        // that cannot be read.
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) && path.symlink_metadata().is_err() =>
        {
            Ok(None)
        }
        Err(error) => {
            let (path, why) = (path.display(), reason(&error));
            Err(SettingsCause::ListUnreadable { path, why }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceList;

    #[test]
    fn a_mig_uuid_alone_needs_nothing_but_the_uuid() {
        let uuid = "0a1b2c3d-1111-5222-8333-444455556666";
        for (entry, needs) in [
            (format!("MIG-{uuid}"), false),
            (format!("GPU-{uuid}"), true),
            (format!("MIG-GPU-{uuid}/3/0"), true),
            ("# none".to_owned(), false),
        ] {
            let list = DeviceList::from([entry.as_str()].into_iter());
            assert_eq!(list.needs_place(), needs, "{entry}");
        }
    }
}
