//! The words of a small process of ours that stands beside devices: first their UUIDs with
//! commas between, then `key=value`. Keys that this version does not know are ignored.

use crate::ident::Uuid;

/// The words, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceWords<'a> {
    pub devices: Vec<Uuid>,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> DeviceWords<'a> {
    /// Reads them; none if the first word does not name devices.
    pub fn parse(words: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut words = words.into_iter();
        let devices = words.next()?.split(',').map(Uuid::parse);
        Some(Self {
            devices: devices.collect::<Option<_>>()?,
            pairs: words.filter_map(|word| word.split_once('=')).collect(),
        })
    }

    /// The value of a key.
    pub fn find(&self, key: &str) -> Option<&'a str> {
        let found = self.pairs.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| *value)
    }
}
