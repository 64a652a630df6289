//! A line of the system's log as these commands write it (`syslog` in the crate choose),
//! with or without what a log writes in front of it. Pure.

use std::time::Duration;

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Logged {
    /// A device was leased or reserved, after so long.
    Began { waited: Duration },
    /// So many devices times their part were given back, after so long.
    Ended {
        held: Duration,
        /// How long of it the programs computed nothing, as a monitor saw it.
        idle: Duration,
        devices: f64,
        is_lease: bool,
    },
    /// None could be had.
    Refused,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) what: Logged,
    pub(super) user: String,
    /// The program that leases, or what a reservation is for.
    pub(super) program: String,
    pub(super) tag: Option<String>,
}

impl Event {
    /// None for a line of another program's.
    pub(super) fn parse(line: &str) -> Option<Self> {
        const VERBS: [&str; 4] = ["leased", "reserved", "released", "refused"];
        let mut words = line.split_whitespace();
        let verb = words.find(|word| VERBS.contains(word))?;
        let words: Vec<&str> = words.collect();
        let value = |key: &str| {
            let mut values = words.iter().filter_map(|word| word.split_once('='));
            values
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        let user = value("user")?;
        // The reason of a refusal follows its last value behind a colon.
        let plain = |text: &str| text.trim_end_matches(':').to_owned();
        let program = value("program").or_else(|| value("for"))?;
        let what = match verb {
            "refused" => Logged::Refused,
            "released" => Logged::Ended {
                held: seconds(value("held")?)?,
                idle: value("idle")
                    .and_then(seconds)
                    .unwrap_or_default()
                    .min(seconds(value("held")?)?),
                devices: words.first()?.split(',').count() as f64 * part(value("share")?)?,
                is_lease: value("program").is_some(),
            },
            _ => Logged::Began {
                waited: seconds(value("waited")?)?,
            },
        };
        Some(Self {
            what,
            user: plain(user),
            program: plain(program),
            tag: value("tag").map(plain),
        })
    }
}

/// `61.2s`
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}

/// A part of a device, more than nothing and not more than all.
fn part(text: &str) -> Option<f64> {
    text.parse().ok().filter(|part| *part > 0.0 && *part <= 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: &str = "MIG-0d1e2f30-1111-5222-8333-444455556666";

    #[test]
    fn lines_of_these_commands_are_read_and_no_others() {
        let event = |what, program: &str, tag: Option<&str>| {
            Some(Event {
                what,
                user: "ana".into(),
                program: program.into(),
                tag: tag.map(str::to_owned),
            })
        };
        let began = |seconds| Logged::Began {
            waited: Duration::from_secs(seconds),
        };
        let ended = |devices, is_lease| Logged::Ended {
            held: Duration::from_millis(61_200),
            idle: Duration::from_secs(if is_lease { 30 } else { 0 }),
            devices,
            is_lease,
        };
        let two = format!("{DEVICE},{DEVICE}");
        #[rustfmt::skip]
        let cases = [
            (format!("leased {DEVICE} user=ana program=app share=1 waited=3s"), event(began(3), "app", None)),
            (format!("Nov 25 17:00:01 n1 cudawrap[7]: leased {DEVICE} user=ana program=app share=1 tag=exp job=7.0 waited=0s"),
                event(began(0), "app", Some("exp"))),
            (format!("getgpu[8]: released {two} user=ana for=bash share=0.25 held=61.2s"), event(ended(0.5, false), "bash", None)),
            (format!("released {DEVICE} user=ana program=app share=1 idle=30.0s held=61.2s"), event(ended(1.0, true), "app", None)),
            ("cudawrap[9]: refused user=ana program=app: no free device: 4 of 4 in use".into(), event(Logged::Refused, "app", None)),
            ("released the lock user=x".into(), None),
            (format!("released {DEVICE} user=ana program=app share=2 held=61.2s"), None),
            (format!("released {DEVICE} user=ana program=app share=1 held=-1s"), None),
            ("systemd[1]: Started a unit.".into(), None),
            (String::new(), None),
        ];
        for (line, expected) in cases {
            assert_eq!(Event::parse(&line), expected, "{line}");
        }
    }
}
