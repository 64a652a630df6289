//! Copies answers to where the caller wants them, with the checks that NVML makes.
//! Only these functions follow the caller's pointers.
#![allow(unsafe_code)]

use crate::abi::{ProcessDetail, ProcessInfo, ProcessInfoV1};
use crate::codes::{INSUFFICIENT_SIZE, INVALID_ARGUMENT, Reply};
use crate::noise::Noise;
use crate::processes::Process;
use crate::trouble::Lie;
use std::ffi::{CStr, c_char};

/// Writes a value.
///
/// # Safety
/// `to` is NULL or may be written to.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Reply<()> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not NULL, so the caller vouches for it; C callers may well pass it
    // unaligned.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Reads a value.
///
/// # Safety
/// `from` is NULL or may be read.
pub(crate) unsafe fn get<T: Copy>(from: *const T) -> Reply<T> {
    if from.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not NULL, so the caller vouches for it.
    Ok(unsafe { from.read_unaligned() })
}

/// Writes noise in place of a value.
///
/// # Safety
/// `to` is NULL or may be written to.
pub(crate) unsafe fn put_noise<T>(to: *mut T, noise: &mut Noise) -> Reply<()> {
    // SAFETY: as this function's.
    unsafe { put_noises(to, 1, noise) }
}

/// Writes noise in place of `count` values.
///
/// # Safety
/// `to` is NULL or may be written to, for as many of them.
pub(crate) unsafe fn put_noises<T>(to: *mut T, count: usize, noise: &mut Noise) -> Reply<()> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not NULL, so the caller vouches for it; bytes need no alignment.
    noise.fill(unsafe { std::slice::from_raw_parts_mut(to.cast::<u8>(), count * size_of::<T>()) });
    Ok(())
}

/// Writes a text and its NUL, or what `lie` wants there. Garbage is no UTF-8, but it ends
/// with a NUL.
///
/// # Safety
/// `to` is NULL or has room for `length` bytes.
pub(crate) unsafe fn put_text(to: *mut c_char, length: u32, text: &str, lie: Lie) -> Reply<()> {
    let bytes = match lie {
        Lie::None => text.as_bytes(),
        Lie::Garbage => b"\xff\xfe\x1b[31m\xc3(\n\x80",
        Lie::Unterminated => {
            let mut full = text.as_bytes().to_vec();
            full.resize(length as usize, b'G');
            // SAFETY: as this function's.
            return unsafe { put_bytes(to, &full) };
        }
        Lie::Noise(mut noise) => {
            // SAFETY: as this function's.
            return unsafe { put_noises(to, length as usize, &mut noise) };
        }
    };
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if (length as usize) <= bytes.len() {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: text and NUL fit into `length` bytes, for which the caller vouches.
    unsafe { put_bytes(to, &[bytes, b"\0"].concat()) }
}

/// # Safety
/// `to` is NULL or has room for these bytes.
unsafe fn put_bytes(to: *mut c_char, bytes: &[u8]) -> Reply<()> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not NULL, so the caller vouches for it.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len()) };
    Ok(())
}

/// Reads a text; `None` for NULL.
///
/// # Safety
/// `from` is NULL or ends with a NUL.
pub(crate) unsafe fn text(from: *const c_char) -> Option<String> {
    if from.is_null() {
        return None;
    }
    // SAFETY: not NULL, so the caller vouches for it.
    Some(
        unsafe { CStr::from_ptr(from) }
            .to_string_lossy()
            .into_owned(),
    )
}

/// Gives out a list by NVML's protocol: the needed count always, the entries if all of
/// them fit.
///
/// # Safety
/// `count` is NULL or points to a number, and `entries` is NULL or has room for so many
/// entries.
pub(crate) unsafe fn put_list<T: From<Process>>(
    processes: &[Process],
    count: *mut u32,
    entries: *mut T,
) -> Reply<()> {
    // SAFETY: as this function's.
    let room = unsafe { get(count) }? as usize;
    if room > 0 && entries.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: as this function's.
    unsafe { put(count, u32::try_from(processes.len()).unwrap_or(u32::MAX)) }?;
    if room < processes.len() {
        return Err(INSUFFICIENT_SIZE);
    }
    for (n, process) in processes.iter().enumerate() {
        // SAFETY: n is below the room for which the caller vouches.
        unsafe { entries.add(n).write_unaligned(T::from(*process)) };
    }
    Ok(())
}

/// Noise in place of a list: entries as far as there is room, and any count.
///
/// # Safety
/// As for [`put_list`].
pub(crate) unsafe fn put_noisy_list<T>(
    count: *mut u32,
    entries: *mut T,
    noise: &mut Noise,
) -> Reply<()> {
    // SAFETY: as this function's.
    let room = unsafe { get(count) }?;
    // SAFETY: as this function's.
    unsafe {
        put_noises(entries, room as usize, noise)?;
        put(count, noise.count(room))?;
    }
    if noise.number().is_multiple_of(3) {
        Err(INSUFFICIENT_SIZE)
    } else {
        Ok(())
    }
}

impl From<Process> for ProcessInfoV1 {
    fn from(process: Process) -> Self {
        Self {
            pid: process.pid,
            used_gpu_memory: process.memory,
        }
    }
}

impl From<Process> for ProcessInfo {
    fn from(process: Process) -> Self {
        Self {
            pid: process.pid,
            used_gpu_memory: process.memory,
            gpu_instance_id: process.gi,
            compute_instance_id: process.ci,
        }
    }
}

/// A detail has the members of an info, and the memory that is protected.
impl From<Process> for ProcessDetail {
    fn from(process: Process) -> Self {
        let info = ProcessInfo::from(process);
        Self {
            pid: info.pid,
            used_gpu_memory: info.used_gpu_memory,
            gpu_instance_id: info.gpu_instance_id,
            compute_instance_id: info.compute_instance_id,
            used_gpu_cc_protected_memory: 0,
        }
    }
}
