//! The variables of an MPS client: which daemon, how much of the device's processors, how
//! much of its memory. Pure. (NVIDIA Multi-Process Service, "Environment Variables".)

use getgpu_model::Uuid;

use super::directory::MpsDirectory;

/// Where the daemon's sockets are.
pub const PIPE: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Where it writes its logs.
pub const LOG: &str = "CUDA_MPS_LOG_DIRECTORY";
/// The part of the processors, in percent: above 0, at most 100.
pub const THREADS: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
/// The part of the memory, per device as the client numbers them.
pub const MEMORY: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;
/// Makes good what a product of two fractions has lost: far less than a unit of the lock
/// is.
const ROUNDING: f64 = 1e-6;

/// The variables of a client of the daemon in `directory` that has `part` of a device
/// with so many bytes of memory.
///
/// The device is named by its UUID, since a client that has an index counts among the
/// devices that the daemon sees.
pub fn of_client(
    directory: &MpsDirectory,
    device: &Uuid,
    part: f64,
    memory: Option<u64>,
) -> Vec<(String, String)> {
    let always = [
        ("CUDA_VISIBLE_DEVICES", device.to_string()),
        (PIPE, directory.pipe().display().to_string()),
        (LOG, directory.log().display().to_string()),
        (THREADS, percentage(part)),
    ];
    let limit = memory.map(|total| (MEMORY, limit(part, total)));
    always
        .into_iter()
        .chain(limit)
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Hundredths of a percent, cut off so that k programs of 1/k never have more than all.
fn percentage(part: f64) -> String {
    let hundredths = (part * 10_000.0 + ROUNDING).floor().clamp(1.0, 10_000.0);
    let text = format!("{:.2}", hundredths / 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Whole MiB of the client's only device.
fn limit(part: f64, total: u64) -> String {
    let mib = (part * total as f64 / MIB + ROUNDING).floor().max(1.0);
    format!("0={mib:.0}M")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_above_0_and_never_more_than_all_together() {
        #[rustfmt::skip]
        let parts = [
            1.0, 0.5, 0.25, 0.125, 1.0 / 3.0, 2.0 / 3.0, 0.29, 0.1, 1.0 / 848.0, 1.0 / 720_720.0,
        ];
        let texts = [
            "100", "50", "25", "12.5", "33.33", "66.66", "29", "10", "0.11", "0.01",
        ];
        assert_eq!(parts.map(percentage), texts);
        for k in 1..=848u32 {
            let percent: f64 = percentage(1.0 / f64::from(k)).parse().unwrap();
            assert!(
                percent > 0.0 && percent * f64::from(k) <= 100.0 + 1e-9,
                "{k}"
            );
        }
    }

    #[test]
    fn memory_is_the_part_in_whole_mib() {
        assert_eq!(limit(0.25, 40 << 30), "0=10240M");
        assert_eq!(limit(1.0 / 3.0, 3 << 20), "0=1M");
        assert_eq!(limit(1.0 / 848.0, 16 << 20), "0=1M");
        assert_eq!(limit(0.5, 80_994_172_928), "0=38621M");
    }

    #[test]
    fn a_client_without_known_memory_has_no_limit() {
        let device = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap();
        let client = |memory| of_client(&MpsDirectory::of(&device), &device, 0.5, memory);
        let names = |memory| {
            client(memory)
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(None), ["CUDA_VISIBLE_DEVICES", PIPE, LOG, THREADS]);
        assert_eq!(
            names(Some(1 << 30)).last().map(String::as_str),
            Some(MEMORY)
        );
    }
}
