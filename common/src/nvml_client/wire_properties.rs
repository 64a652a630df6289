//! What must hold for any question and answer between a program and its NVML process: one
//! line, read back as it was sent. Whatever the other end sends instead is an error and
//! nothing else.

use proptest::prelude::*;

use super::*;
use crate::error::Kind;
use crate::inventory::{Activity, Memory, Process};

fn uuid() -> impl Strategy<Value = Uuid> {
    "(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
        .prop_map(|text| Uuid::parse(&text).unwrap())
}

fn maybe<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    prop::option::of(value)
}

fn detail() -> impl Strategy<Value = Detail> {
    prop::sample::select(vec![
        Detail::Uuid,
        Detail::Place,
        Detail::Size,
        Detail::Full,
    ])
}

fn gpu() -> impl Strategy<Value = Gpu> {
    let texts = (maybe(any::<String>()), maybe(any::<String>()));
    (
        any::<u32>(),
        maybe(uuid()),
        texts,
        any::<bool>(),
        any::<u32>(),
        any::<bool>(),
    )
        .prop_map(
            |(index, uuid, (name, pci_bus_id), mig, slots, usable)| Gpu {
                index,
                uuid,
                name,
                pci_bus_id,
                mig,
                slots,
                usable,
            },
        )
}

fn device() -> impl Strategy<Value = Device> {
    let place = (
        any::<u32>(),
        maybe(any::<u32>()),
        maybe(uuid()),
        maybe(any::<(u32, u32)>()),
    );
    (
        uuid(),
        place,
        maybe(any::<String>()),
        maybe(any::<u64>()),
        any::<bool>(),
    )
        .prop_map(
            |(uuid, (gpu, slot, gpu_uuid, instance), profile, memory, usable)| Device {
                uuid,
                gpu,
                slot,
                gpu_uuid,
                instance,
                profile,
                memory,
                usable,
                cpus: None,
            },
        )
}

fn usage() -> impl Strategy<Value = Usage> {
    let process = (
        any::<u32>(),
        maybe(any::<u64>()),
        maybe(any::<String>()),
        any::<bool>(),
    )
        .prop_map(|(pid, memory, name, ignored)| Process {
            pid,
            memory,
            name,
            ignored,
        });
    let memory = (any::<u64>(), any::<u64>()).prop_map(|(total, used)| Memory { total, used });
    let activity = prop::sample::select(vec![Activity::Idle, Activity::Busy, Activity::Unknown]);
    (
        activity,
        maybe(any::<String>()),
        prop::collection::vec(process, 0..4),
        maybe(memory),
    )
        .prop_map(|(activity, reason, processes, memory)| Usage {
            activity,
            reason,
            processes,
            memory,
        })
}

fn request() -> impl Strategy<Value = Request> {
    let rules = (
        maybe(any::<u64>()),
        prop::collection::vec(any::<String>(), 0..3),
        any::<bool>(),
    )
        .prop_map(|(idle_memory, ignore_processes, container)| Rules {
            idle_memory,
            ignore_processes,
            container,
        });
    let at = || (any::<u32>(), maybe(any::<u32>()), detail());
    prop_oneof![
        (maybe("[^\0]{0,20}"), rules).prop_map(|(library, rules)| Request::Open {
            library: library.map(PathBuf::from),
            rules
        }),
        Just(Request::Count),
        any::<u32>().prop_map(|gpu| Request::Gpu { gpu }),
        at().prop_map(|(gpu, slot, detail)| Request::Device { gpu, slot, detail }),
        (uuid(), detail()).prop_map(|(uuid, detail)| Request::Usage { uuid, detail }),
        uuid().prop_map(|uuid| Request::Cpus { uuid }),
        (prop::collection::vec(uuid(), 0..4), detail())
            .prop_map(|(devices, detail)| Request::Usages { devices, detail }),
        detail().prop_map(|detail| Request::Scan { detail }),
        Just(Request::Quit),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    (
        prop::sample::select(vec![Kind::Nvml, Kind::NoDriver]),
        any::<String>(),
        maybe(any::<String>()),
    )
        .prop_map(|(kind, message, hint)| Failure {
            kind,
            message,
            hint,
        })
}

fn answer() -> impl Strategy<Value = Answer> {
    let lists = (
        prop::collection::vec(gpu(), 0..3),
        prop::collection::vec(device(), 0..3),
    );
    let inventory = (
        maybe(any::<String>()),
        lists,
        prop::collection::vec(any::<String>(), 0..3),
    )
        .prop_map(|(driver, (gpus, devices), problems)| Inventory {
            driver,
            gpus,
            devices,
            problems,
        });
    let told = prop_oneof![usage().prop_map(Ok), failure().prop_map(Err)];
    let usages = prop::collection::vec(told, 0..4);
    prop_oneof![
        Just(Answer::Opened),
        any::<u32>().prop_map(Answer::Count),
        gpu().prop_map(Answer::Gpu),
        maybe(device()).prop_map(Answer::Device),
        usage().prop_map(Answer::Usage),
        usages.prop_map(Answer::Usages),
        inventory.prop_map(Answer::Scan),
        failure().prop_map(Answer::Failed),
        Just(Answer::Bye),
    ]
}

proptest! {
    #[test]
    fn a_question_is_one_line_and_comes_as_it_was_sent(request in request()) {
        let line = serde_json::to_vec(&request).unwrap();
        prop_assert!(!line.contains(&b'\n'));
        prop_assert_eq!(serde_json::from_slice::<Request>(&line).unwrap(), request);
    }

    #[test]
    fn an_answer_is_one_line_and_comes_as_it_was_sent(answer in answer()) {
        let line = serde_json::to_vec(&answer).unwrap();
        prop_assert!(!line.contains(&b'\n'));
        prop_assert_eq!(serde_json::from_slice::<Answer>(&line).unwrap(), answer);
    }

    #[test]
    fn what_is_cut_short_or_damaged_is_an_error_or_another_answer(
        answer in answer(), at in any::<prop::sample::Index>(), byte in any::<u8>(), garbage in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut line = serde_json::to_vec(&answer).unwrap();
        let at = at.index(line.len());
        prop_assert!(serde_json::from_slice::<Answer>(&line[..at]).is_err());
        line[at] = byte;
        for bytes in [&line, &garbage] {
            if let Ok(read) = serde_json::from_slice::<Answer>(bytes) {
                // A name of a device from the wire is a name of a device, whatever was
                // sent.
                let names: Vec<&Uuid> = match &read {
                    Answer::Device(Some(device)) => vec![&device.uuid],
                    Answer::Scan(inventory) => inventory.devices.iter().map(|device| &device.uuid).collect(),
                    _ => vec![],
                };
                for uuid in names {
                    prop_assert_eq!(Uuid::parse(uuid.as_str()), Some(uuid.clone()));
                }
            }
        }
    }
}
