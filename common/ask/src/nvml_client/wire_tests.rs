//! An answer of the process that asks NVML is one line that is read back as it was sent.
//! Whatever comes instead is an error, or an answer whose devices have names of devices.

use super::*;
use clap::ValueEnum;
use getgpu_model::{
    Activity, Ailment, ComputeMode, Failure, Gpu, GpuListing, GpuProcess, Health, Kind, Memory,
    Silent, Usage,
};

/// An answer with everything that answers have.
type Answer = Result<
    (
        Option<GpuListing>,
        Option<Device>,
        Vec<Result<Usage, Failure>>,
    ),
    Failure,
>;

/// What a driver may say and what ends lines, texts and numbers.
const TEXT: &str = "a \"text\"\r\n\\u0041 \u{0}\u{fffd}\u{2028}\u{e4}";

fn failure() -> Failure {
    Failure {
        kind: Kind::Nvml,
        message: TEXT.into(),
        hint: Some(TEXT.into()),
    }
}

fn full() -> Answer {
    let uuid = Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666");
    let gpu = Gpu {
        index: u32::MAX,
        uuid: uuid.clone(),
        name: Some(TEXT.into()),
        pci_bus_id: Some(TEXT.into()),
        mig: true,
        slots: 7,
        usable: false,
        detail: Some(Detail::Full),
    };
    let device = Device {
        gpu: 3,
        slot: Some(6),
        gpu_uuid: uuid.clone(),
        instance: Some((7, u32::MAX)),
        profile: Some(TEXT.into()),
        memory: Some(u64::MAX),
        usable: false,
        ..Device::by_uuid(uuid.unwrap())
    };
    let process = GpuProcess {
        pid: u32::MAX,
        memory: Some(u64::MAX),
        name: Some(TEXT.into()),
        ignored: true,
    };
    let usage = Usage {
        activity: Activity::Unknown,
        reason: Some(TEXT.into()),
        processes: vec![process],
        memory: Some(Memory {
            total: u64::MAX,
            used: 1,
        }),
        health: Health {
            compute_mode: Some(ComputeMode::Prohibited),
            ailments: Ailment::value_variants().to_vec(),
        },
    };
    let silent = Silent {
        gpu: u32::MAX,
        slot: Some(6),
        reason: TEXT.into(),
    };
    let listing = GpuListing {
        gpu,
        devices: vec![device.clone()],
        silent: vec![silent],
    };
    Ok((Some(listing), Some(device), vec![Ok(usage), Err(failure())]))
}

#[test]
fn an_answer_is_one_line_and_comes_as_it_was_sent() {
    for answer in [full(), Err(failure()), Ok(Default::default())] {
        let line = serde_json::to_vec(&answer).unwrap();
        assert!(!line.contains(&b'\n'));
        assert_eq!(serde_json::from_slice::<Answer>(&line).unwrap(), answer);
    }
}

#[test]
fn what_is_cut_short_or_damaged_is_an_error_or_another_answer() {
    let whole = serde_json::to_vec(&full()).unwrap();
    for at in 0..whole.len() {
        assert!(serde_json::from_slice::<Answer>(&whole[..at]).is_err());
        for byte in *b"\0 \"0a,{}[]\\\xff" {
            let mut line = whole.clone();
            line[at] = byte;
            let read = serde_json::from_slice::<Answer>(&line);
            let read = read.into_iter().flatten();
            // A name of a device from the wire is a name of a device, whatever was sent.
            for device in read
                .flat_map(|(listing, ..)| listing)
                .flat_map(|listing| listing.devices)
            {
                assert_eq!(Uuid::parse(device.uuid.as_str()), Some(device.uuid));
            }
        }
    }
}
