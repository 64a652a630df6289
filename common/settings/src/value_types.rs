//! The values that settings and options may have where they are words of this package:
//! types of devices, policies, times to wait. Each has one spelling, which the file, the
//! options and the CUDAWRAP_* variables share.

use std::str::FromStr;
use std::time::Duration;

use getgpu_model::quantity;

/// Makes an enumeration whose names in files and options are its variants in lower case.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$each])* $variant,)* }

        impl $name {
            /// Every spelling, for help and completions.
            pub const WORDS: &[&str] = &[$($word),*];
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    other => Err(format!("{other}: not one of {}", Self::WORDS.join(", "))),
                }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// What sort of device is wanted.
    Type {
        /// MIG devices if the pool has any, else whole GPUs.
        #[default]
        Auto = "auto",
        /// MIG devices only.
        Mig = "mig",
        /// Whole GPUs only.
        Gpu = "gpu",
        /// Both.
        Any = "any",
    }
}

/// The policies as the help, the pages and the completions name them.
#[macro_export]
macro_rules! policy_words {
    () => {
        "random, first, last, spread (over many GPUs) or pack (onto few GPUs)"
    };
}

words! {
    /// Which of the free devices is taken.
    Policy {
        /// Any, each equally likely.
        #[default]
        Random = "random",
        /// The first of the order.
        First = "first",
        /// The last of the order.
        Last = "last",
        /// One on the GPU with the least in use.
        Spread = "spread",
        /// One on the GPU with the most in use.
        Pack = "pack",
    }
}

words! {
    /// What becomes of a reservation that is unused for `max_idle`.
    IdleAction {
        /// The user and the system's log are told.
        #[default]
        Log = "log",
        /// It ends.
        End = "end",
    }
}

words! {
    /// A batch job without a grant: all devices, or none.
    WithoutGrant {
        /// As outside a job.
        #[default]
        All = "all",
        /// The job was given no GPU, so it gets none.
        None = "none",
    }
}

words! {
    /// What to do where the lock is not the host's.
    Unshared {
        /// Say so and go on.
        #[default]
        Warn = "warn",
        /// Go on.
        Quiet = "quiet",
        /// Hand out nothing.
        Fail = "fail",
    }
}

words! {
    /// A wrapped program that cannot have the device it is to run on, or any.
    RunOrFail {
        /// Run it all the same.
        #[default]
        Run = "run",
        /// Refuse.
        Fail = "fail",
    }
}

words! {
    /// What a wrapped program finds as its own name.
    ArgvZero {
        /// The name that it was started by.
        #[default]
        Name = "name",
        /// The path of its own file, for one that looks for its other files from there.
        File = "file",
    }
}

words! {
    /// When a wrapped program takes its device.
    LeaseAt {
        /// Before it runs.
        #[default]
        Start = "start",
        /// At its first CUDA call, by libcudawrap.so.
        #[serde(rename = "first_call")]
        FirstCall = "first_call",
    }
}

words! {
    /// Where leases are written down.
    Log {
        /// Nowhere.
        #[default]
        None = "none",
        /// A line each in the system's log.
        Syslog = "syslog",
    }
}

words! {
    /// How CUDA_VISIBLE_DEVICES names a program's devices.
    DeviceNames {
        /// By their UUIDs.
        #[default]
        Uuid = "uuid",
        /// By their CUDA indices, which only whole GPUs have: for programs that read numbers.
        Index = "index",
    }
}

words! {
    /// What a program sees of the devices that it could have had.
    Shown {
        /// Only those that it has.
        #[default]
        One = "one",
        /// Its own first, the others behind it.
        First = "first",
        /// The list as it is; it leases the one at its rank's place.
        All = "all",
    }
}

/// How long to wait in the queue for a device: so long at most; none: until one is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait(pub Option<Duration>);

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "forever" => Ok(Self(None)),
            text => Ok(Self(Some(quantity::time(text)?))),
        }
    }
}

impl Wait {
    /// Not at all.
    pub const NO: Self = Self(Some(Duration::ZERO));

    /// At most `longest`.
    #[must_use]
    pub(crate) fn capped(self, longest: Option<Duration>) -> Self {
        Self(self.0.into_iter().chain(longest).min())
    }

    /// As it would be written in a file.
    pub(crate) fn text(self) -> String {
        match self.0 {
            None => "\"forever\"".into(),
            Some(Duration::ZERO) => "\"0\"".into(),
            Some(time) => format!("\"{}\"", quantity::time_text(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_policy() {
        for word in Policy::WORDS {
            assert!(policy_words!().contains(word), "{word}");
        }
    }

    #[test]
    fn times_to_wait() {
        let wait = |secs| Wait(Some(Duration::from_secs(secs)));
        #[rustfmt::skip]
        let cases = [
            ("0", Some(Wait::NO)), ("30", Some(wait(30))), ("1.5m", Some(wait(90))),
            ("forever", Some(Wait(None))), ("abc", None), ("", None), ("-1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
        let most = Some(Duration::from_secs(60));
        let capped = [Wait(None), wait(30), Wait::NO].map(|wait| wait.capped(most));
        assert_eq!(capped, [wait(60), wait(30), Wait::NO]);
    }

    #[test]
    fn words_have_one_spelling() {
        assert_eq!("spread".parse(), Ok(Policy::Spread));
        let expected = format!("Spread: not one of {}", Policy::WORDS.join(", "));
        assert_eq!("Spread".parse::<Policy>(), Err(expected));
    }
}
