//! The settings of libcudawrap.so, which gives a program its device at its first CUDA call: which
//! programs, how long they wait, and what happens where none can be given.

use super::key::keys;
use super::value_codec::{names, quoted, read, show_or};
use super::value_types::{Wait, words};

words! {
    /// Whether programs that load libcudawrap.so get a device.
    Auto {
        /// They do.
        #[default]
        On = "on",
        /// They run as they are.
        Off = "off",
    }
}

words! {
    /// What becomes of such a program where no device can be given to it.
    AutoNone {
        /// It sees no device.
        #[default]
        Hide = "hide",
        /// It ends.
        Exit = "exit",
        /// The program runs, on a device that another user may have.
        Run = "run",
    }
}

/// What is set for programs that load libcudawrap.so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoSettings {
    /// Whether they get a device.
    pub gives: Auto,
    /// DeviceNames of programs that are left alone, beside those that are built in.
    pub except: Vec<String>,
    /// What becomes of a program that no device can be given to.
    pub none: AutoNone,
    /// How long a first CUDA call waits in the queue; none: as the setting `wait` says.
    pub wait: Option<Wait>,
    /// Whether a batch system's tasks that are given nothing load the library.
    pub for_tasks: bool,
}

keys! {
    /// Their rows in the table of settings.
    KEYS:
    policy "auto", "programs that load libcudawrap.so get a device at their first CUDA call: \"on\" or \"off\"",
        |s| quoted(&s.auto.gives), |s, t| s.auto.gives = read(t)?;
    policy "auto_except", "programs that libcudawrap.so leaves alone (* and ? as in file names), in addition to MPS daemons, nvidia-*, ompi_info, ucx_info and lstopo",
        |s| quoted(&s.auto.except), |s, t| s.auto.except = names(t)?;
    policy "auto_none", "what happens if libcudawrap.so can give no device: \"hide\" all of them, \"exit\" with status 75, or \"run\" the program unchanged",
        |s| quoted(&s.auto.none), |s, t| s.auto.none = read(t)?;
    policy "auto_wait", "how long a first CUDA call waits for a device: \"0\", a time, or \"forever\"; unset: the value of wait",
        |s| show_or(s.auto.wait, Wait::text), |s, t| s.auto.wait = Some(read(t)?);
}
