//! The short form of a MIG layout, `"3g.20gb, 2g.10gb, 2x1g.5gb"`, turned into GPU
//! instances with NVIDIA's ids. Ids go by size (whole 0, halves 1-2, quarters 3-6,
//! eighths 7-14), so they say what is left of the GPU.

use crate::inventory::DeviceSpec;
use crate::models::Model;

/// The devices of a short form on this model, one compute instance in each GPU instance.
pub(crate) fn devices(model: &Model, layout: &str) -> Result<Vec<DeviceSpec>, String> {
    let mut devices: Vec<DeviceSpec> = Vec::new();
    for item in layout
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
    {
        let (count, profile) = match item.split_once('x') {
            Some((count, profile)) if count.bytes().all(|b| b.is_ascii_digit()) => (
                count
                    .parse()
                    .map_err(|_| format!("layout {item:?}: bad count"))?,
                profile,
            ),
            _ => (1, item),
        };
        for _ in 0..count {
            let (facts, _) = model.profile(profile)?;
            let gi = (facts.part - 1..=2 * facts.part - 2)
                .find(|gi| devices.iter().all(|other| other.gi != *gi));
            let gi = gi.ok_or_else(|| format!("layout {layout:?}: too many of {profile}"))?;
            devices.push(DeviceSpec {
                gi,
                profile: profile.to_owned(),
                ..DeviceSpec::default()
            });
        }
    }
    Ok(devices)
}
