//! Names of devices: GPU UUIDs, MIG UUIDs in both forms, and what CUDA_VISIBLE_DEVICES
//! may hold. Pure text: parsing, the one canonical spelling that the lock is derived
//! from, and matching of abbreviations.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quantity::digits;

/// The UUID of a device or GPU in canonical spelling: prefix in capitals, hex digits in
/// lower case.
///
/// Forms: `GPU-<uuid>`, `MIG-<uuid>` (drivers from 470.42.01 on),
/// `MIG-GPU-<uuid>/<gi>/<ci>` (older drivers).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Uuid(String);

/// Also what another process sends is a UUID in canonical spelling, or no answer.
impl TryFrom<String> for Uuid {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not a UUID"))
    }
}

impl Uuid {
    /// Reads a full UUID in any of the three forms; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        match Selector::parse(text)? {
            Selector::Full(uuid) => Some(uuid),
            Selector::OldMig { gpu, gi, ci } => Some(Self(format!("MIG-{gpu}/{gi}/{ci}"))),
            Selector::Index(_) | Selector::Prefix(_) => None,
        }
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Several with commas between, as CUDA_VISIBLE_DEVICES has them.
    pub fn join(uuids: &[Self]) -> String {
        let texts: Vec<&str> = uuids.iter().map(Self::as_str).collect();
        texts.join(",")
    }

    /// Whether it names a MIG device.
    pub fn is_mig(&self) -> bool {
        self.0.starts_with("MIG-")
    }
}

/// What is said of a GPU whose UUID CUDA_VISIBLE_DEVICES cannot take, and what to do.
pub const WITHOUT_PREFIX: &str = "a UUID without GPU-, as on a Jetson Orin";
/// What to do about that failure.
pub const WITHOUT_PREFIX_HINT: &str =
    "a Jetson has one GPU: run programs there without getgpu and cudawrap (CUDAWRAP_DISABLE=1)";

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One entry of CUDA_VISIBLE_DEVICES or of a list of devices, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A CUDA index: among the GPUs that this process can open, in PCI order.
    Index(u32),
    /// The beginning of the UUID of a GPU, or of a MIG device in the present form; at
    /// least one digit.
    Prefix(String),
    /// A full UUID of the present form.
    Full(Uuid),
    /// `MIG-GPU-<uuid>/<gi>/<ci>`, accepted by every driver.
    OldMig {
        /// The GPU.
        gpu: Uuid,
        /// GPU instance id.
        gi: u32,
        /// Compute instance id.
        ci: u32,
    },
}

impl Selector {
    /// Reads one entry; `None` if it can name nothing. An abbreviated MIG UUID is one,
    /// since what is found is named in full.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(index) = digits(text) {
            return Some(Self::Index(index));
        }
        let lower = text.to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("mig-gpu-") {
            let mut parts = rest.split('/');
            let hex = parts.next().filter(|hex| full_hex(hex))?;
            let gpu = Uuid(format!("GPU-{hex}"));
            let (gi, ci) = (small(parts.next()?)?, small(parts.next()?)?);
            return parts
                .next()
                .is_none()
                .then_some(Self::OldMig { gpu, gi, ci });
        }
        let (kind, rest) = match lower.strip_prefix("mig-") {
            Some(rest) => ("MIG", rest),
            None => ("GPU", lower.strip_prefix("gpu-")?),
        };
        if full_hex(rest) {
            return Some(Self::Full(Uuid(format!("{kind}-{rest}"))));
        }
        let partial = !rest.is_empty()
            && rest.len() < 36
            && rest.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        partial.then(|| Self::Prefix(format!("{kind}-{rest}")))
    }

    /// Reads one entry of CUDA_VISIBLE_DEVICES as CUDA does: of a number the leading digits count,
    /// a `+` before them is none, and what follows does not matter (`0:1`, `0 1` and `0.5` are 0).
    pub(crate) fn of_variable(text: &str) -> Option<Self> {
        let number = text.trim_start();
        let number = number.strip_prefix('+').unwrap_or(number);
        let end = number.find(|c: char| !c.is_ascii_digit());
        match &number[..end.unwrap_or(number.len())] {
            "" => Self::parse(text),
            digits => digits.parse().ok().map(Self::Index),
        }
    }

    /// Whether this entry names the MIG device or whole GPU `uuid` by its text alone.
    pub fn names(&self, uuid: &Uuid) -> bool {
        match self {
            Self::Index(_) => false,
            Self::Prefix(prefix) => uuid.as_str().starts_with(prefix.as_str()),
            Self::Full(own) => own == uuid,
            Self::OldMig { gpu, gi, ci } => uuid.as_str() == format!("MIG-{gpu}/{gi}/{ci}"),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "{index}"),
            Self::Prefix(prefix) => f.write_str(prefix),
            Self::Full(uuid) => uuid.fmt(f),
            Self::OldMig { gpu, gi, ci } => write!(f, "MIG-{gpu}/{gi}/{ci}"),
        }
    }
}

/// `8-4-4-4-12` lower-case hex digits.
fn full_hex(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// A GI or CI id: digits only, small.
fn small(text: &str) -> Option<u32> {
    digits(text).filter(|_| text.len() <= 3)
}

#[cfg(test)]
#[path = "ident_properties.rs"]
pub(crate) mod properties;

#[cfg(test)]
#[path = "ident_tests.rs"]
mod tests;
