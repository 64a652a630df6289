//! Driver versions such as `535.104.05`, compared number by number.
//! Which NVML functions and UUID forms exist depends on them.

use std::str::FromStr;

/// A driver version; missing parts count as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = [0; 3];
        for (n, part) in text.split('.').enumerate() {
            let slot = parts
                .get_mut(n)
                .ok_or_else(|| format!("driver {text}: more than three numbers"))?;
            *slot = part
                .parse()
                .map_err(|_| format!("driver {text}: {part:?} is not a number"))?;
        }
        Ok(Self(parts[0], parts[1], parts[2]))
    }
}

impl Version {
    /// MIG devices have UUIDs of their own since 470.42.01; before, the GPU's UUID and
    /// the two instance ids.
    pub fn has_mig_uuids(self) -> bool {
        self >= Self(470, 42, 1)
    }

    /// 535.43 to 535.86 wrote process entries of 32 bytes where all others write 24.
    pub fn has_wide_processes(self) -> bool {
        self >= Self(535, 43, 0) && self < Self(535, 98, 0)
    }

    /// The process lists `_v3` came with 510, were taken out in 535.98 and put back in
    /// 535.104.05.
    pub fn has_processes_v3(self) -> bool {
        self >= Self(510, 0, 0) && !(self >= Self(535, 98, 0) && self < Self(535, 104, 5))
    }

    /// The lists of MPS clients with instance ids came with 470.
    pub fn has_mps_clients_v2(self) -> bool {
        self.0 >= 470
    }

    /// `nvmlDeviceGetMemoryInfo_v2` came with 510, and with it memory reserved by the
    /// driver as a figure of its own.
    pub fn has_memory_v2(self) -> bool {
        self >= Self(510, 0, 0)
    }

    /// `nvmlDeviceGetRunningProcessDetailList` came with 535.98.
    pub fn has_process_details(self) -> bool {
        self >= Self(535, 98, 0)
    }

    /// Since 470 GPU names begin with the maker's.
    pub fn has_long_names(self) -> bool {
        self.0 >= 470
    }
}
