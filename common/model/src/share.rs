//! A part of a device, as people type it: `1/2`, `0.5`, `25%`, or a size such as `10G`.
//! Pure. A fraction is kept as two whole numbers, so that 1/3 is a third and exactly
//! three fit.

use std::fmt;
use std::str::FromStr;

use crate::quantity;
use crate::units::{UNITS, Units};

/// A part of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So many of so many equal parts; never more than all.
    Fraction {
        /// Parts wanted.
        of: u64,
        /// Parts of the whole.
        parts: u64,
    },
    /// So many bytes of each device's memory.
    Bytes(u64),
}

impl Share {
    /// How many units that is of a device with `total` bytes of memory: none if it has
    /// less, or is not known to have as much.
    pub fn units(self, total: Option<u64>) -> Option<i64> {
        let (of, parts) = match self {
            Self::Fraction { of, parts } => (of, parts),
            Self::Bytes(bytes) => (bytes, total.filter(|total| *total >= bytes)?),
        };
        Some(fraction_of(UNITS, of, parts))
    }

    /// The part of a device that a fraction is; of a size only a device tells.
    pub(crate) fn part(self) -> Option<f64> {
        self.units(None).map(|units| units as f64 / UNITS as f64)
    }

    /// The part of `total` bytes that it gives.
    pub fn memory(self, total: u64) -> u64 {
        match self {
            Self::Fraction { of, parts } => {
                u64::try_from(u128::from(total) * u128::from(of) / u128::from(parts.max(1)))
                    .unwrap_or(total)
            }
            Self::Bytes(bytes) => bytes.min(total),
        }
    }

    /// Whether a device's memory has to be known to tell how much of it this is.
    pub const fn needs_memory(self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let bad = || format!("`{text}` is not a share; write 1/2, 0.5, 25% or a size such as 10G");
        let (of, parts) = if let Some((of, parts)) = text.split_once('/') {
            (whole(of).ok_or_else(bad)?, whole(parts).ok_or_else(bad)?)
        } else if let Some(percent) = text.strip_suffix('%') {
            decimal(percent)
                .and_then(|(of, parts)| Some((of, parts.checked_mul(100)?)))
                .ok_or_else(bad)?
        } else if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            // A bare number is never a size: `1.0` and `2` are devices.
            decimal(text).ok_or_else(bad)?
        } else {
            let bytes = quantity::size(text).map_err(|_| bad())?;
            return if bytes > 0 {
                Ok(Self::Bytes(bytes))
            } else {
                Err(format!("`{text}` is no part of a device"))
            };
        };
        match (of, parts) {
            (_, 0) => Err(bad()),
            (0, _) => Err(format!("`{text}` is no part of a device")),
            (of, parts) if of > parts => Err(format!("`{text}` is more than a whole device")),
            (of, parts) => {
                let common = greatest_common_divisor(of, parts);
                Ok(Self::Fraction {
                    of: of / common,
                    parts: parts / common,
                })
            }
        }
    }
}

/// So that `1/2`, `0.5` and `50%` are one and the same.
const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Digits behind the point that are read: more say nothing about a device's units.
const DIGITS: usize = 15;
/// Digits of a whole number: as many as 15 behind the point of a percentage give, so that
/// a printed share is read back.
const WHOLE: usize = DIGITS + 3;

fn whole(text: &str) -> Option<u64> {
    let text = text.trim();
    quantity::digits(text).filter(|_| text.len() <= WHOLE)
}

/// `0.25` as 25 of 100.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (before, behind) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = behind.len().min(DIGITS);
    if !behind.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let of = whole(&format!("{before}{}", &behind[..digits]))?;
    Some((of, 10u64.pow(digits as u32)))
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction { of, parts } => write!(f, "{of}/{parts}"),
            // A bare number would be read as so many devices.
            Self::Bytes(bytes) => match quantity::size_text(*bytes) {
                text if text.ends_with(|c: char| c.is_ascii_digit()) => write!(f, "{text}B"),
                text => f.write_str(&text),
            },
        }
    }
}

/// `of` of `parts` equal parts of so many units, rounded down: at least one unit, and
/// never more than there are.
pub fn fraction_of(units: i64, of: u64, parts: u64) -> i64 {
    let exact = i128::from(units) * i128::from(of) / i128::from(parts.max(1));
    i64::try_from(exact).unwrap_or(units).clamp(1, units.max(1))
}

/// The part that so many units are.
pub fn fraction(units: &Units) -> f64 {
    units.count() as f64 / UNITS as f64
}

/// The smallest part that some of these are; a whole device if there is none.
pub fn smallest<'u>(parts: impl IntoIterator<Item = &'u Units>) -> f64 {
    parts.into_iter().map(fraction).fold(1.0, f64::min)
}

#[cfg(test)]
#[path = "share_properties.rs"]
mod properties;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_as_people_write_them() {
        #[rustfmt::skip]
        let cases = [
            ("1/2", UNITS / 2), ("0.5", UNITS / 2), (".25", UNITS / 4), ("25%", UNITS / 4),
            ("1/3", UNITS / 3), ("1.0000000000000000000", UNITS),
            ("0.3333333333333333", UNITS / 3 - 1), ("33.333333%", UNITS / 3 - 1),
            ("1", UNITS), ("100%", UNITS), ("12.5%", UNITS / 8), ("2/3", UNITS / 3 * 2),
        ];
        for (text, units) in cases {
            let share: Share = text.parse().unwrap();
            assert_eq!(share.units(None), Some(units), "{text}");
        }
        assert_eq!("50%".parse::<Share>(), "1/2".parse());
        assert_eq!("0.50".parse::<Share>(), "2/4".parse());
        for text in ["0.333333333333333", "33.333333333333333%", "10.3G"] {
            let share: Share = text.parse().unwrap();
            assert_eq!(share.to_string().parse(), Ok(share), "{text}");
        }
        // The last is longer than any that is printed.
        #[rustfmt::skip]
        let wrong = [
            "", "0", "0%", "3/2", "1.5", "101%", "-1/2", "1/0", "a", "1/2/3", "0.5x", "1e-1", "/",
            ".", "0G", "2.0", "10", "1..0", "+1/2", "1/+2", "1/1000000000000000000",
        ];
        for text in wrong {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn units_are_a_part_of_a_device() {
        let part = |of: i64| Units::whole().first(UNITS / of).unwrap();
        assert_eq!([&part(4), &part(2)].map(fraction), [0.25, 0.5]);
        assert_eq!(smallest([&part(2), &part(8), &part(4)]), 0.125);
        assert_eq!(smallest([]), 1.0, "nothing shared is whole");
    }

    #[test]
    fn a_size_is_a_part_of_each_device() {
        let share: Share = "10G".parse().unwrap();
        assert_eq!(share, Share::Bytes(10 << 30));
        assert_eq!(share.units(Some(40 << 30)), Some(UNITS / 4));
        assert_eq!(
            (share.units(Some(5 << 30)), share.units(None)),
            (None, None)
        );
        assert_eq!(share.memory(40 << 30), 10 << 30);
        assert_eq!("1/4".parse::<Share>().unwrap().memory(40 << 30), 10 << 30);
        assert_eq!("2/5".parse::<Share>().unwrap().memory(50 << 30), 20 << 30);
        assert_eq!(
            (
                share.to_string(),
                "0.5".parse::<Share>().unwrap().to_string()
            ),
            ("10G".into(), "1/2".into())
        );
    }
}
