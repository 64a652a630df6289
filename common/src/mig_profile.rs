//! Names of MIG profiles, as nvidia-smi prints them: `1g.10gb`, `1c.3g.20gb`,
//! `1g.24gb+gfx`. The memory in a name is a rounded figure of marketing and decides
//! nothing here; NVML tells the bytes.
//!
//! The grammar is that of NVIDIA's MIG User Guide ("Supported MIG Profiles"):
//! `[<n>c.]<n>g.<n>gb` and then any of `+me`, `+me.all`, `-me`, `+gfx`.

/// What the name of a profile says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigProfile {
    /// Slices of the compute instance, if it has fewer than its GPU instance.
    pub compute_slices: Option<u32>,
    /// Slices of the GPU instance.
    pub gpu_slices: u32,
    pub memory_gb: u32,
    pub media: Media,
    /// `+gfx`: programs may draw on it (OpenGL, Vulkan).
    pub graphics: bool,
}

/// Which media engines (video, JPEG, optical flow) belong to the instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// No suffix: its part of the video and JPEG engines.
    Part,
    /// `+me`: its part, and the optical flow engine.
    Extended,
    /// `+me.all`: all of the GPU.
    All,
    /// `-me`: none.
    Absent,
}

impl MigProfile {
    /// Reads a name; `None` if it has a form or a suffix that is not known.
    pub fn parse(name: &str) -> Option<Self> {
        let (sizes, suffixes) = name.split_at(name.find(['+', '-']).unwrap_or(name.len()));
        let mut profile = Self::from_sizes(sizes)?;
        let mut rest = suffixes;
        while !rest.is_empty() {
            // Each suffix begins with its sign.
            let end = rest[1..].find(['+', '-']).map_or(rest.len(), |at| at + 1);
            match &rest[..end] {
                "+me" => profile.media = Media::Extended,
                "+me.all" => profile.media = Media::All,
                "-me" => profile.media = Media::Absent,
                "+gfx" => profile.graphics = true,
                _ => return None,
            }
            rest = &rest[end..];
        }
        Some(profile)
    }

    /// Reads `1c.3g.20gb`.
    fn from_sizes(text: &str) -> Option<Self> {
        let (compute, instance) = match text.split_once("c.") {
            Some((compute, instance)) => (Some(number(compute)?), instance),
            None => (None, text),
        };
        let (slices, memory) = instance.split_once("g.")?;
        Some(Self {
            compute_slices: compute,
            gpu_slices: number(slices)?,
            memory_gb: number(memory.strip_suffix("gb")?)?,
            media: Media::Part,
            graphics: false,
        })
    }

    /// Slices of the compute instance.
    pub fn slices(&self) -> u32 {
        self.compute_slices.unwrap_or(self.gpu_slices)
    }
}

/// Whether a MIG device may have graphics contexts. One whose profile is not known may.
pub fn may_have_graphics(profile: Option<&str>) -> bool {
    profile
        .and_then(MigProfile::parse)
        .is_none_or(|profile| profile.graphics)
}

/// Digits only: `u32::from_str` takes a sign, too.
fn number(text: &str) -> Option<u32> {
    (text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> (u32, u32, u32, Media, bool) {
        let profile = MigProfile::parse(name).unwrap_or_else(|| panic!("{name}"));
        (
            profile.slices(),
            profile.gpu_slices,
            profile.memory_gb,
            profile.media,
            profile.graphics,
        )
    }

    #[test]
    fn every_known_form_is_read() {
        for (name, expected) in [
            ("1g.10gb", (1, 1, 10, Media::Part, false)),
            ("7g.141gb", (7, 7, 141, Media::Part, false)),
            ("1c.3g.20gb", (1, 3, 20, Media::Part, false)),
            ("1g.5gb+me", (1, 1, 5, Media::Extended, false)),
            ("1g.24gb+me", (1, 1, 24, Media::Extended, false)),
            ("1g.24gb+gfx", (1, 1, 24, Media::Part, true)),
            ("1g.24gb+me.all", (1, 1, 24, Media::All, false)),
            ("1g.24gb-me", (1, 1, 24, Media::Absent, false)),
            ("2g.48gb+me.all", (2, 2, 48, Media::All, false)),
            ("4g.96gb+gfx", (4, 4, 96, Media::Part, true)),
            ("1c.4g.96gb+gfx", (1, 4, 96, Media::Part, true)),
            // Jetson Thor: its memory is the host's.
            ("1g.0gb+me", (1, 1, 0, Media::Extended, false)),
            ("2g.48gb-me+gfx", (2, 2, 48, Media::Absent, true)),
        ] {
            assert_eq!(parse(name), expected, "{name}");
        }
    }

    #[test]
    fn any_other_form_is_not_known() {
        #[rustfmt::skip]
        let cases = [
            "", "+gfx", "1g", "1g.10", "g.10gb", "1g.gb", "1g.10gb+", "1g.10gb+me.", "1g.10gb+new",
            "1g.10gb gfx", "-1g.10gb", "+1g.10gb", "1c.10gb", "c.1g.10gb", "1g.99999999999gb",
        ];
        for name in cases {
            assert_eq!(MigProfile::parse(name), None, "{name}");
        }
    }

    #[test]
    fn graphics_are_possible_where_nothing_excludes_them() {
        for (profile, expected) in [
            (Some("1g.24gb"), false),
            (Some("1g.24gb+me.all"), false),
            (Some("1g.24gb-me"), false),
            (Some("1g.24gb+gfx"), true),
            (Some("1g.24gb+new"), true),
            (Some(""), true),
            (None, true),
        ] {
            assert_eq!(may_have_graphics(profile), expected, "{profile:?}");
        }
    }
}
