//! The options that several programs have: those that choose, share and wait, which getgpu
//! and cudawrap take alike, and those that every program has.

use crate::flags::{Flag, Takes, flag};
use crate::settings::value_types::policy_words;

/// Heading of the options that choose.
pub const CHOOSE: &str = "Which device";
/// Heading of the options that every program has.
pub const OTHER: &str = "Other";

/// Heading of the options that share and wait.
pub const SHARE: &str = "Sharing and waiting";

/// The choosing, sharing and waiting options, which getgpu and cudawrap share. Each
/// stands for the setting of its name, and under cudawrap the variable `CUDAWRAP_NAME`
/// stands for it.
pub const CHOOSING: [Flag; 9] = [
    flag(
        "type",
        &[],
        Takes::Value("TYPE"),
        CHOOSE,
        "auto (MIG devices if there are any, else whole GPUs), mig, gpu or any",
    ),
    flag(
        "count",
        &['n'],
        Takes::Value("N"),
        CHOOSE,
        "N different devices, separated by commas; all or none",
    ),
    flag(
        "profile",
        &[],
        Takes::Many("NAME"),
        CHOOSE,
        "Only MIG devices with this profile (1g.10gb), the smallest first; may be repeated",
    ),
    flag(
        "min-memory",
        &[],
        Takes::Value("SIZE"),
        CHOOSE,
        "Only devices (with --share: shares) with at least SIZE of memory (10G is 10 GiB), the smallest first",
    ),
    flag(
        "gpu",
        &[],
        Takes::Many("GPU"),
        CHOOSE,
        "Only devices on this GPU: its NVML index or UUID; may be repeated",
    ),
    flag(
        "policy",
        &[],
        Takes::Value("POLICY"),
        CHOOSE,
        policy_words!(),
    ),
    flag(
        "ignore-grant",
        &[],
        Takes::Nothing,
        CHOOSE,
        "Ignore an inherited CUDA_VISIBLE_DEVICES",
    ),
    flag(
        "share",
        &[],
        Takes::Value("F"),
        SHARE,
        "A part of a device: 1/2, 0.5, 25%, or a size (10G), on the least loaded device",
    ),
    flag(
        "wait",
        &['w'],
        Takes::Optional {
            name: "TIME",
            default: "forever",
        },
        SHARE,
        "Wait in the queue, first come, first served, for as long as it takes or for at most TIME (--wait=30, -w 1.5m, -w 2h)",
    ),
];

/// The options that every program has at the end.
pub const COMMON: [Flag; 4] = [
    flag(
        "verbose",
        &['v'],
        Takes::Nothing,
        OTHER,
        "Print what is decided and why",
    ),
    flag(
        "quiet",
        &['q'],
        Takes::Nothing,
        OTHER,
        "Print errors only, no hints",
    ),
    flag(
        "version",
        &['V'],
        Takes::Nothing,
        OTHER,
        "Print the version",
    ),
    flag(
        "help",
        &['h'],
        Takes::Nothing,
        OTHER,
        "Print help: the common options (-h) or everything (--help)",
    ),
];
