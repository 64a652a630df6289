//! The command line of the process that watches for an empty reservation: which devices,
//! whose, and since when they have been empty. Listings read it from /proc.

use std::ffi::{CStr, CString};
use std::time::Duration;

use getgpu_common::ident::Uuid;
use getgpu_common::lock::device_words::DeviceWords;

use super::spell::{Clocks, Spell, Told};

/// The option that makes a getgpu such a process.
pub const OPTION: &str = "--idle-watch";
/// The name of the process.
pub const NAME: &CStr = c"getgpu-idle";

/// Everything that the process is told.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchArgs {
    pub devices: Vec<Uuid>,
    /// The holder of the reservation, as pid and start.
    pub holder: (i32, u64),
    /// The process that it is kept for.
    pub caller: (i32, u64),
    /// What the last look found: `None` before the first one; then since when the devices
    /// have been empty, if they are.
    pub spell: Option<Option<Spell>>,
}

impl WatchArgs {
    /// argv.
    pub fn words(&self) -> Vec<CString> {
        let devices: Vec<&str> = self.devices.iter().map(Uuid::as_str).collect();
        let process = |(pid, start): (i32, u64)| format!("{pid}:{start}");
        let mut words = vec![
            NAME.to_string_lossy().into_owned(),
            OPTION.to_owned(),
            devices.join(","),
            format!("holder={}", process(self.holder)),
            format!("caller={}", process(self.caller)),
        ];
        words.extend(
            self.spell
                .map(|spell| format!("empty={}", spell.map_or_else(|| "no".into(), spell_text))),
        );
        words
            .into_iter()
            .filter_map(|word| CString::new(word).ok())
            .collect()
    }

    /// Reads the words behind [`OPTION`].
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let words = DeviceWords::parse(words)?;
        let process = |key: &str| {
            let (pid, start) = words.find(key)?.split_once(':')?;
            Some((pid.parse().ok()?, start.parse().ok()?))
        };
        Some(Self {
            holder: process("holder")?,
            caller: process("caller")?,
            spell: match words.find("empty") {
                None => None,
                Some("no") => Some(None),
                Some(text) => Some(Some(parse_spell(text)?)),
            },
            devices: words.devices,
        })
    }
}

/// `1700000000000:100000:50000:0`: the clocks in milliseconds, and how far was told.
fn spell_text(spell: Spell) -> String {
    let Clocks {
        unix,
        boot,
        running,
    } = spell.since;
    let [unix, boot, running] = [unix, boot, running].map(|time| time.as_millis());
    format!("{unix}:{boot}:{running}:{}", spell.told as u8)
}

fn parse_spell(text: &str) -> Option<Spell> {
    let numbers: Vec<u64> = text
        .split(':')
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    let [unix, boot, running, told] = numbers.as_slice() else {
        return None;
    };
    let [unix, boot, running] = [unix, boot, running].map(|ms| Duration::from_millis(*ms));
    let told = [Told::Nothing, Told::Warning, Told::Report]
        .into_iter()
        .find(|known| *known as u64 == *told)?;
    Some(Spell {
        since: Clocks {
            unix,
            boot,
            running,
        },
        told,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let spell = |told| Spell {
            since: Clocks {
                unix: Duration::from_millis(1_700_000_000_123),
                boot: Duration::from_millis(100_000),
                running: Duration::from_millis(50_000),
            },
            told,
        };
        let told = [Told::Nothing, Told::Warning, Told::Report];
        let mut spells: Vec<_> = told.map(|told| Some(Some(spell(told)))).into();
        spells.extend([None, Some(None)]);
        for spell in spells {
            let args = WatchArgs {
                devices: vec![Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap()],
                holder: (4711, 1234),
                caller: (42, 7),
                spell,
            };
            let words = args.words();
            let words = words.iter().skip(2).map(|word| word.to_str().unwrap());
            assert_eq!(WatchArgs::parse(words), Some(args));
        }
    }
}
