//! Names of MIG profiles, as nvidia-smi prints them: `1g.10gb`, `1c.3g.20gb`,
//! `1g.24gb+gfx`. The memory in a name is a rounded figure of marketing and decides
//! nothing here; NVML tells the bytes.
//!
//! The grammar is that of NVIDIA's MIG User Guide ("Supported MIG Profiles"):
//! `[<n>c.]<n>g.<n>gb` and then any of `+me`, `+me.all`, `-me`, `+gfx`.

use crate::quantity::digits;

/// What the name of a profile says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigProfile {
    /// Slices of the compute instance.
    pub slices: u32,
    /// `+gfx`: programs may draw on it (OpenGL, Vulkan).
    pub(crate) graphics: bool,
}

impl MigProfile {
    /// Reads a name; `None` if it has a form or a suffix that is not known.
    pub fn parse(name: &str) -> Option<Self> {
        let (sizes, mut rest) = name.split_at(name.find(['+', '-']).unwrap_or(name.len()));
        let mut profile = Self {
            slices: compute_slices(sizes)?,
            graphics: false,
        };
        while !rest.is_empty() {
            // Each suffix begins with its sign.
            let end = rest[1..].find(['+', '-']).map_or(rest.len(), |at| at + 1);
            match &rest[..end] {
                // Media engines: more, all or none of them.
                "+me" | "+me.all" | "-me" => {}
                "+gfx" => profile.graphics = true,
                _ => return None,
            }
            rest = &rest[end..];
        }
        Some(profile)
    }
}

/// The first number of `1c.3g.20gb`, or of `3g.20gb`.
fn compute_slices(text: &str) -> Option<u32> {
    let (compute, instance) = text.split_once("c.").unwrap_or(("", text));
    let (slices, memory) = instance.split_once("g.")?;
    digits::<u32>(memory.strip_suffix("gb")?)?;
    let slices = digits(slices)?;
    if instance == text {
        Some(slices)
    } else {
        digits(compute)
    }
}

/// Whether a MIG device may have graphics contexts. One whose profile is not known may.
pub fn may_have_graphics(profile: Option<&str>) -> bool {
    profile
        .and_then(MigProfile::parse)
        .is_none_or(|profile| profile.graphics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_form_is_read() {
        for (name, slices, graphics) in [
            ("1g.10gb", 1, false),
            ("7g.141gb", 7, false),
            ("1c.3g.20gb", 1, false),
            ("1g.5gb+me", 1, false),
            ("1g.24gb+gfx", 1, true),
            ("1g.24gb+me.all", 1, false),
            ("1g.24gb-me", 1, false),
            ("4g.96gb+gfx", 4, true),
            ("1c.4g.96gb+gfx", 1, true),
            // Jetson Thor: its memory is the host's.
            ("1g.0gb+me", 1, false),
            ("2g.48gb-me+gfx", 2, true),
        ] {
            let expected = Some(MigProfile { slices, graphics });
            assert_eq!(MigProfile::parse(name), expected, "{name}");
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
