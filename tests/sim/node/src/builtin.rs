//! The inventories that come with the simulator, by name.
//! They are the files in `tests/sim/nodes`, built in so that a test needs no path.

macro_rules! inventories {
    ($($name:literal),* $(,)?) => {
        const ALL: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../nodes/", $name, ".toml")))),*];
    };
}

inventories! {
    "16x7", "a100x1", "a100x8", "a30x1-4", "gpus4", "h100x1", "h200x1", "h200x1-mig", "mig4",
    "mixed", "none", "one-gpu-two-cis", "pre470", "rtx-pro-6000", "wide535",
}

/// The text of the inventory of this name.
pub fn builtin(name: &str) -> Option<&'static str> {
    ALL.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// All names.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}
