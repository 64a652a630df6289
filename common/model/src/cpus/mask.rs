//! The mask of CPUs that a process may run on: read of any process, set for this one
//! (sched_setaffinity(2)). By the system calls themselves, since the C library's
//! cpu_set_t ends at 1,024 CPUs.
#![allow(unsafe_code)]

use std::ffi::c_ulong;
use std::io;

use super::CpuSet;

/// Words at the first question: 1,024 CPUs.
const WORDS: usize = 1024 / c_ulong::BITS as usize;
/// A kernel with more CPUs than fit in so many words does not exist.
const MOST_WORDS: usize = WORDS << 10;

/// The mask of the first thread of process `pid`; 0 stands for this thread. Inherited
/// over execve(2).
///
/// # Errors
///
/// There is no such process, or this one may not ask.
pub fn of_process(pid: i32) -> io::Result<CpuSet> {
    let mut words: Vec<c_ulong> = vec![0; WORDS];
    loop {
        // SAFETY: the kernel writes at most the length given, into a buffer of that
        // length.
        let written = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity,
                pid,
                size_of_val(&*words),
                words.as_mut_ptr(),
            )
        };
        if written >= 0 {
            return Ok(CpuSet::from_words(&words));
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel can have more CPUs than there is room for.
        if error.raw_os_error() != Some(libc::EINVAL) || words.len() >= MOST_WORDS {
            return Err(error);
        }
        words = vec![0; words.len() * 2];
    }
}

/// Has this thread run on these CPUs only. EINVAL: none of them is in its cpuset; EPERM:
/// not allowed here (some containers).
///
/// # Errors
///
/// The cgroup of this process allows none of these CPUs.
pub fn set(cpus: &CpuSet) -> io::Result<()> {
    let words = cpus.words();
    // SAFETY: the kernel reads the length given; CPUs behind it are taken for not in the
    // set.
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            0,
            size_of_val(&*words),
            words.as_ptr(),
        )
    };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The CPUs that this thread may have at most: those of its cpuset, else of the machine.
/// The kernel cuts a mask of all CPUs to them, whatever files of cgroups are mounted
/// (sched_setaffinity(2)). `own` is this thread's mask, which it has again at the end.
///
/// # Errors
///
/// The mask may not be set.
pub fn widest(own: &CpuSet) -> io::Result<CpuSet> {
    set(&CpuSet::from_words(&[c_ulong::MAX; WORDS * 8]))?;
    let most = of_process(0)?;
    if most != *own {
        set(own)?;
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel tells in another way, for this thread alone.
    fn told() -> CpuSet {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap();
        line.parse().unwrap()
    }

    #[test]
    fn the_mask_of_this_thread_is_read_and_set() {
        let before = of_process(0).unwrap();
        assert_eq!(before, told());
        let last: CpuSet = before.iter().last().into_iter().collect();
        set(&last).unwrap();
        assert_eq!((of_process(0).unwrap(), told()), (last.clone(), last));
        set(&before).unwrap();
        assert_eq!(of_process(0).unwrap(), before);
    }

    #[test]
    fn the_widest_mask_is_found_without_a_change() {
        let before = of_process(0).unwrap();
        let most = widest(&before).unwrap();
        assert_eq!(
            (told(), most.intersection(&before)),
            (before.clone(), before)
        );
        let first: CpuSet = most.iter().take(1).collect();
        set(&first).unwrap();
        assert_eq!((widest(&first).unwrap(), told()), (most.clone(), first));
        set(&most).unwrap();
    }

    #[test]
    fn what_the_kernel_refuses_changes_nothing() {
        let before = of_process(0).unwrap();
        for refused in [CpuSet::default(), [MOST_WORDS].into_iter().collect()] {
            let errno = set(&refused).unwrap_err().raw_os_error();
            assert_eq!(errno, Some(libc::EINVAL));
        }
        assert_eq!(of_process(0).unwrap(), before);
        assert!(of_process(i32::MAX).is_err());
    }
}
