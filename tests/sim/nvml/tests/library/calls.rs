//! The simulated library answers as NVIDIA's does: codes, counts, layouts, init and
//! handles.

use std::ffi::CStr;
use std::ptr::null_mut;

use sim_node::{Folder, MIB};
use sim_nvml::abi::{DeviceAttributes, MEMORY_V2, MemoryV2, ProcessDetail};

use crate::common::*;

#[test]
fn init_is_counted_and_comes_first() {
    on_node("init_is_counted_and_comes_first", "a100x1", "", |_| {
        assert_eq!(gpu(0), Err(1));
        // SAFETY: NULL is refused.
        assert_eq!(unsafe { nvmlDeviceGetCount_v2(null_mut()) }, 1);
        assert_eq!([nvmlInit_v2(), nvmlInit_v2()], [0, 0]);
        let handle = gpu(0).unwrap();
        assert_eq!(nvmlShutdown(), 0);
        assert!(uuid(handle).is_ok());
        assert_eq!(nvmlShutdown(), 0);
        assert_eq!(uuid(handle), Err(1));
        assert_eq!(nvmlInit_v2(), 0);
        assert_eq!(uuid(handle), Err(2), "a handle of an earlier session");
    });
}

#[test]
fn wrong_arguments_are_refused() {
    on_node("wrong_arguments_are_refused", "mixed", "", |_| {
        nvmlInit_v2();
        assert_eq!(gpu(4), Err(2));
        assert_eq!(uuid(null_mut()), Err(2));
        assert_eq!(uuid(0xdead_0000 as Handle), Err(2));
        let first = gpu(0).unwrap();
        assert_eq!([mig(first, 1), mig(first, 7)], [Err(6), Err(2)]);
        assert_eq!(
            [mig(gpu(1).unwrap(), 0), mig(gpu(3).unwrap(), 0)],
            [Err(6), Err(3)]
        );
        assert_eq!(mig(mig(first, 0).unwrap(), 0), Err(2));
        // SAFETY: NULL is refused, and the short buffer is not written to.
        unsafe {
            assert_eq!(nvmlDeviceGetHandleByIndex_v2(0, null_mut()), 2);
            assert_eq!(nvmlDeviceGetHandleByUUID(null_mut(), &mut null_mut()), 2);
            assert_eq!(nvmlDeviceGetName(first, null_mut(), 96), 2);
            assert_eq!(nvmlDeviceGetName(first, [0; 4].as_mut_ptr(), 4), 7);
            assert_eq!(nvmlDeviceGetMigMode(gpu(3).unwrap(), &mut 0, &mut 0), 3);
            assert_eq!(
                nvmlDeviceGetAttributes_v2(first, &mut DeviceAttributes::default()),
                3
            );
            assert_eq!(
                nvmlDeviceGetMemoryInfo_v2(first, &mut MemoryV2::default()),
                25
            );
        }
    });
}

#[test]
fn devices_are_found_by_every_name() {
    on_node("devices_are_found_by_every_name", "mixed", "", |folder| {
        nvmlInit_v2();
        let node = folder.node().unwrap();
        let (first, last) = (&node.gpus[0], &node.gpus[0].devices[2]);
        assert_eq!(by_uuid(&first.uuid), gpu(0));
        let handle = mig(gpu(0).unwrap(), 5).unwrap();
        assert_eq!(uuid(handle).as_ref(), Ok(&last.uuid));
        assert_eq!(
            [
                by_uuid(&last.uuid),
                by_uuid(&format!("MIG-{}/9/0", first.uuid))
            ],
            [Ok(handle); 2]
        );
        assert_eq!([by_uuid("MIG-x"), by_uuid("")], [Err(6); 2]);
        let mut index = 0;
        // SAFETY: the place and the text are ours.
        unsafe {
            assert_eq!((nvmlDeviceGetIndex(handle, &mut index), index), (0, 5));
            let mut third = null_mut();
            assert_eq!(
                nvmlDeviceGetHandleByPciBusId_v2(c"0000:17:00.0".as_ptr(), &mut third),
                0
            );
            assert_eq!(Ok(third), gpu(2));
        }
        assert_eq!(memory(handle).unwrap().total, 4864 * MIB);
    });
}

#[test]
fn each_gpu_is_attached_once_a_session_and_only_when_touched() {
    on_node(
        "each_gpu_is_attached_once_a_session_and_only_when_touched",
        "a100x8",
        "",
        |folder| {
            let attached = || {
                folder
                    .attaches()
                    .unwrap()
                    .iter()
                    .map(|attach| attach.gpu)
                    .collect::<Vec<_>>()
            };
            nvmlInit_v2();
            assert_eq!(attached(), []);
            gpu(5).unwrap();
            mig(gpu(5).unwrap(), 0).unwrap();
            assert_eq!(attached(), [5]);
            by_uuid(&folder.node().unwrap().gpus[1].devices[0].uuid).unwrap();
            assert_eq!(
                attached(),
                [5, 0, 1],
                "a search by UUID opens what it passes"
            );
            nvmlShutdown();
            nvmlInit_v2();
            gpu(5).unwrap();
            assert_eq!(attached(), [5, 0, 1, 5]);
        },
    );
}

const PROCESSES: &str = "
    [[process]]
    device = 'GPU-00000000-0000-0000-0000-000000000000'
    pid = 11
    memory_mib = 5
    [[process]]
    device = 'GPU-00000000-0000-0000-0000-000000000000'
    pid = 12
    no_ids = true
";
const ONE_GPU: &str = "driver = '535.86.05'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\n\
    uuid = 'GPU-00000000-0000-0000-0000-000000000000'\n";

#[test]
fn lists_follow_the_count_protocol() {
    on_node(
        "lists_follow_the_count_protocol",
        &ONE_GPU.replace("535.86.05", "550.54.15"),
        PROCESSES,
        |_| {
            nvmlInit_v2();
            let handle = gpu(0).unwrap();
            assert_eq!(processes(handle, 0), (7, 2, vec![]));
            assert_eq!(processes(handle, 1).0, 7);
            let (code, count, entries) = processes(handle, 9);
            assert_eq!((code, count), (0, 2));
            let seen: Vec<_> = entries
                .iter()
                .map(|p| (p.pid, p.used_gpu_memory, p.gpu_instance_id))
                .collect();
            assert_eq!(seen, [(11, 5 * MIB, u32::MAX), (12, u64::MAX, u32::MAX)]);
            // SAFETY: NULL with a count is refused, as is no count at all.
            unsafe {
                assert_eq!(
                    nvmlDeviceGetComputeRunningProcesses_v2(handle, &mut 3, null_mut()),
                    2
                );
                assert_eq!(
                    nvmlDeviceGetComputeRunningProcesses_v2(handle, null_mut(), null_mut()),
                    2
                );
            }
        },
    );
}

#[test]
fn an_empty_list_needs_no_room() {
    on_node("an_empty_list_needs_no_room", "a100x1", "", |_| {
        nvmlInit_v2();
        assert_eq!(
            processes(mig(gpu(0).unwrap(), 0).unwrap(), 0),
            (0, 0, vec![])
        );
    });
}

#[test]
fn drivers_535_43_to_86_write_wide_entries() {
    on_node(
        "drivers_535_43_to_86_write_wide_entries",
        ONE_GPU,
        PROCESSES,
        |_| {
            nvmlInit_v2();
            let (mut count, mut entries) = (2, [ProcessDetail::default(); 2]);
            // SAFETY: the buffer is ours and as long as said.
            let code = unsafe {
                nvmlDeviceGetComputeRunningProcesses_v3(
                    gpu(0).unwrap(),
                    &mut count,
                    entries.as_mut_ptr().cast(),
                )
            };
            assert_eq!((code, entries.map(|entry| entry.pid)), (0, [11, 12]));
        },
    );
}

#[test]
fn functions_newer_than_the_driver_are_not_found() {
    on_node(
        "functions_newer_than_the_driver_are_not_found",
        "pre470",
        "",
        |_| {
            nvmlInit_v2();
            let handle = mig(gpu(0).unwrap(), 0).unwrap();
            // SAFETY: the places are ours.
            unsafe {
                assert_eq!(
                    nvmlDeviceGetComputeRunningProcesses_v3(handle, &mut 0, null_mut()),
                    13
                );
                assert_eq!(
                    nvmlDeviceGetMemoryInfo_v2(handle, &mut MemoryV2::default()),
                    13
                );
            }
            assert_eq!(processes(handle, 0).0, 0);
        },
    );
}

#[test]
fn memory_adds_up() {
    let two = "one-gpu-two-cis";
    on_node("memory_adds_up", two, "", |folder: &Folder| {
        let node = folder.node().unwrap();
        let device = |n: usize| node.gpus[0].devices[n].uuid.clone();
        folder
            .set_faults(&format!(
                "process = [{{ device = '{}', pid = 1, memory_mib = 100 }}]",
                device(0)
            ))
            .unwrap();
        nvmlInit_v2();
        let used = |n| memory(by_uuid(&device(n)).unwrap()).unwrap().used;
        let idle = node.gpus[0].devices[0].idle;
        assert_eq!(
            [used(0), used(1)],
            [idle + 100 * MIB; 2],
            "compute instances share their GPU instance's memory"
        );
        assert_eq!(processes(by_uuid(&device(1)).unwrap(), 0).1, 0);
        assert_eq!(processes(gpu(0).unwrap(), 4).2.len(), 1);
        let mut v2 = MemoryV2 {
            version: MEMORY_V2,
            ..MemoryV2::default()
        };
        // SAFETY: the place is ours.
        let code = unsafe { nvmlDeviceGetMemoryInfo_v2(gpu(0).unwrap(), &mut v2) };
        assert_eq!(code, 0);
        assert_eq!(v2.total, v2.used + v2.free + v2.reserved);
        assert_eq!(v2.used + v2.reserved, memory(gpu(0).unwrap()).unwrap().used);
    });
}

#[test]
fn codes_have_nvidias_texts() {
    let text = |code| {
        // SAFETY: the texts are static.
        let text = unsafe { CStr::from_ptr(nvmlErrorString(code)) };
        text.to_str().unwrap()
    };
    assert_eq!(
        [0, 9, 15, 26, 999, 12345].map(text),
        [
            "Success",
            "Driver Not Loaded",
            "GPU is lost",
            "Requested functionality has been deprecated",
            "Unknown Error",
            "Unknown Error"
        ]
    );
}

#[test]
fn without_a_node_there_is_no_driver() {
    let test = "without_a_node_there_is_no_driver";
    if std::env::var_os("SIM_TEST_CHILD").is_some() {
        assert_eq!([nvmlInit_v2(), nvmlShutdown()], [9, 0]);
        assert_eq!(gpu(0), Err(1));
        return;
    }
    let (_dir, folder) = folder("none", "");
    let status = again(test, &folder)
        .env_remove("SIM_NODE")
        .env("SIM_TEST_CHILD", "1")
        .status()
        .unwrap();
    assert!(status.success());
    let status = again(test, &folder)
        .env("SIM_NODE", "")
        .env("SIM_TEST_CHILD", "1")
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn threads_do_not_disturb_each_other() {
    on_node(
        "threads_do_not_disturb_each_other",
        "a100x8",
        "",
        |folder| {
            let uuids = folder.node().unwrap().device_uuids();
            nvmlInit_v2();
            std::thread::scope(|scope| {
                for number in 0..8 {
                    let uuids = &uuids;
                    scope.spawn(move || {
                        for _ in 0..20 {
                            assert_eq!(nvmlInit_v2(), 0);
                            let device = mig(gpu(number).unwrap(), 3).unwrap();
                            assert_eq!(uuid(device).unwrap(), uuids[number as usize * 7 + 3]);
                            assert_eq!(processes(device, 0).0, 0);
                            assert_eq!(nvmlShutdown(), 0);
                        }
                    });
                }
            });
            assert!(gpu(0).is_ok());
            nvmlShutdown();
            assert_eq!(gpu(0), Err(1));
        },
    );
}
