//! Functions of libcuda.so.1 (cuda.h), as far as the programs of the tests call them:
//! start, the one visible device, its UUID, a context on it. A context is what sim-cuda
//! takes, so two programs on one device are noted as a collision.
#![allow(unsafe_code, non_snake_case)]

use std::env;
use std::io;
use std::sync::Mutex;

use sim_node::{Folder, Record};

use crate::{injection, visible};

const SUCCESS: i32 = 0;
const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const NOT_INITIALIZED: i32 = 3;
const UNAVAILABLE: i32 = 46;
const NO_DEVICE: i32 = 100;
const UNKNOWN: i32 = 999;

/// Which process has started the driver, and the device that it sees.
static STARTED: Mutex<Option<(u32, String)>> = Mutex::new(None);

/// The device; a forked child of a process that has one cannot use it.
fn device() -> Result<String, i32> {
    let started = STARTED.lock().map_err(|_| UNKNOWN)?;
    match &*started {
        Some((pid, uuid)) if *pid == std::process::id() => Ok(uuid.clone()),
        _ => Err(NOT_INITIALIZED),
    }
}

fn status(result: Result<(), i32>) -> i32 {
    result.err().unwrap_or(SUCCESS)
}

/// cuInit
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: u32) -> i32 {
    status(init())
}

fn init() -> Result<(), i32> {
    if device().is_ok() {
        return Ok(());
    }
    // Threads that come at once all load the tool.
    injection::start_thread();
    injection::load();
    let mut started = STARTED.lock().map_err(|_| UNKNOWN)?;
    if started
        .as_ref()
        .is_some_and(|(pid, _)| *pid != std::process::id())
    {
        return Err(NOT_INITIALIZED);
    }
    if started.is_none() {
        *started = Some((std::process::id(), first_visible()?));
    }
    Ok(())
}

fn first_visible() -> Result<String, i32> {
    let folder = Folder::from_env().ok_or(NO_DEVICE)?;
    let list = env::var_os("CUDA_VISIBLE_DEVICES").map(|list| list.to_string_lossy().into_owned());
    let mut node = folder.node().map_err(|_| UNKNOWN)?;
    sim_node::device_nodes::retain_open(&mut node);
    visible::first_device(&node, list.as_deref(), visible::Order::of_process()).ok_or(NO_DEVICE)
}

/// cuDriverGetVersion does not load the tool.
#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: *mut i32) -> i32 {
    answer(version, 12_020)
}

/// cuDeviceGetCount
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: *mut i32) -> i32 {
    device().map_or_else(|status| status, |_| answer(count, 1))
}

/// cuDeviceGet
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(handle: *mut i32, _ordinal: i32) -> i32 {
    device().map_or_else(|status| status, |_| answer(handle, 0))
}

fn answer<T>(place: *mut T, value: T) -> i32 {
    if place.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: callers pass the address of a variable of this type, or null.
    unsafe { place.write(value) };
    SUCCESS
}

/// cuDeviceGetUuid_v2: 16 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], _device: i32) -> i32 {
    let bytes = |uuid: String| {
        let digits: Vec<char> = uuid
            .chars()
            .skip(4)
            .filter(char::is_ascii_hexdigit)
            .collect();
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap_or(0);
        }
        bytes
    };
    match device() {
        Ok(device) => answer(uuid, bytes(device)),
        Err(status) => status,
    }
}

/// cuCtxCreate_v2: the context ends with the process.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxCreate_v2(context: *mut usize, _flags: u32, _device: i32) -> i32 {
    match device().and_then(|uuid| register(uuid).map_err(|_| UNKNOWN)?) {
        Ok(()) => answer(context, 1),
        Err(status) => status,
    }
}

/// How many contexts there may be on a device at once (SIM_CUDA_MAX); else 1, so that two
/// are a collision.
fn sharers() -> u32 {
    let most = env::var("SIM_CUDA_MAX").ok();
    most.and_then(|most| most.parse().ok()).unwrap_or(1)
}

fn register(uuid: String) -> io::Result<Result<(), i32>> {
    let Some(folder) = Folder::from_env() else {
        return Ok(Err(NO_DEVICE));
    };
    let record = Record {
        uuid,
        pid: std::process::id(),
        memory: 256 << 20,
        max: sharers(),
        ..Record::default()
    };
    if !folder.leaves_memory(&record)? {
        return Ok(Err(OUT_OF_MEMORY));
    }
    Ok(match folder.register(&record)? {
        Ok(registration) => {
            std::mem::forget(registration);
            folder.note_run("start", &record)?;
            Ok(())
        }
        Err(other) => {
            folder.note_collision(&record, &other.0)?;
            Err(UNAVAILABLE)
        }
    })
}
