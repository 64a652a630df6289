//! What libcudawrap.so, inside a CUDA program, and the process that finds a device for it
//! say to each other: one socket with messages, the last of which carries the lease's
//! descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockType, UnixAddr, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use getgpu_linux::{
    descriptors::{above_standard, socket_pair},
    sys,
};
use getgpu_model::Failure;
use getgpu_settings::{Auto, Settings, matches};

/// What the driver reads: the path of the library that it loads at cuInit.
pub const VARIABLE: &str = "CUDA_INJECTION64_PATH";
/// Set for a program that only asks whether the driver calls the library: the library
/// then does nothing but set [`CALLED`].
pub const PROBE: &str = "CUDAWRAP_PROBE";
/// What the library sets then.
pub const CALLED: &str = "CUDAWRAP_CALLED";

/// The name whose `[program."NAME"]` table applies to what a program does: it may be a script, or
/// start another program that calls CUDA.
pub const TABLE: &str = "CUDAWRAP_TABLE";

/// Programs that are always left alone: they serve other programs, or only count GPUs.
pub const EXCEPT: [&str; 4] = ["nvidia-*", "ompi_info", "ucx_info", "lstopo*"];

/// Whether the library leaves a program alone, which is called `name`.
pub fn leaves_alone(name: &str, settings: &Settings) -> bool {
    let more = settings.auto.except.iter().map(String::as_str);
    settings.auto.gives == Auto::Off
        || EXCEPT
            .into_iter()
            .chain(more)
            .any(|pattern| matches(pattern, name))
}

/// The hidden first argument that makes cudawrap find a device for another process. Its
/// pid, its program, [`MANY`] or [`ONE`], and the locks that it holds follow; standard
/// input is the socket.
pub const LEASE_WORKER_OPTION: &str = "--lease-worker";
/// The program has one thread, so that any variable may be set in it.
pub const ONE: &str = "one-thread";
/// It has several: CUDA_VISIBLE_DEVICES alone is set.
pub const MANY: &str = "threads";

/// The longest message, in bytes: variables that name every device of a node.
const LONGEST: usize = 64 << 10;
/// The most descriptors: two of the lease, one of the MPS daemon's client, one to spare.
const MOST: usize = 4;

/// A message to the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// How long the answer may take from now on; none: any time.
    Limit(Option<Duration>),
    /// These variables are to be set and the message's descriptors kept. Of those at
    /// least `needed` must have arrived.
    Ready {
        /// Name and value.
        variables: Vec<(String, String)>,
        /// A lease is kept by one descriptor, too.
        needed: usize,
    },
    /// There is no device, or it cannot be found out.
    Failed(Failure),
}

/// The library that was installed with our executable: beside it, in lib/getgpu of its
/// prefix, else where packages put it.
pub fn installed_library() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    let directory = executable.parent()?;
    let places = [
        directory.to_owned(),
        directory.join("../lib/getgpu"),
        "/usr/lib/getgpu".into(),
        "/usr/local/lib/getgpu".into(),
    ];
    places
        .into_iter()
        .map(|place| place.join("libcudawrap.so"))
        .find(|path| path.is_file())
        .and_then(|path| path.canonicalize().ok())
}

/// The same for a task of a batch system that is given nothing: none unless the site wants that.
pub fn library_for_tasks(settings: &Settings) -> Option<PathBuf> {
    installed_library().filter(|_| settings.auto.for_tasks)
}

/// A connection: the program's end and the other process's.
///
/// # Errors
///
/// No descriptor is left.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    socket_pair(SockType::SeqPacket)
}

/// Sends a message with these descriptors.
///
/// # Errors
///
/// The other end is closed, or the message is too long.
pub fn send(socket: &OwnedFd, message: &Message, descriptors: &[RawFd]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control = if descriptors.is_empty() {
        &[][..]
    } else {
        &rights
    };
    loop {
        let sent = sendmsg::<UnixAddr>(
            socket.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
        match sent {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Receives a message and its descriptors, close-on-exec and above the standard streams;
/// none at the end of the connection.
///
/// # Errors
///
/// The connection failed, or what came is no message.
pub fn receive(socket: &OwnedFd) -> io::Result<Option<(Message, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; LONGEST];
    let mut space = nix::cmsg_space!([RawFd; MOST]);
    let (length, descriptors) = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let received = recvmsg::<UnixAddr>(
            socket.as_raw_fd(),
            &mut parts,
            Some(&mut space),
            MsgFlags::MSG_CMSG_CLOEXEC,
        );
        match received {
            Ok(received) => {
                let numbers: Vec<RawFd> = received
                    .cmsgs()
                    .into_iter()
                    .flatten()
                    .flat_map(|message| match message {
                        ControlMessageOwned::ScmRights(numbers) => numbers,
                        _ => Vec::new(),
                    })
                    .collect();
                let owned: Vec<OwnedFd> = numbers.into_iter().map(sys::own_fd).collect();
                break (received.bytes, owned);
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    if length == 0 {
        return Ok(None);
    }
    let above = descriptors
        .into_iter()
        .filter_map(|fd| above_standard(fd).ok());
    let above = above.collect();
    let message = serde_json::from_slice(bytes.get(..length).unwrap_or_default())?;
    Ok(Some((message, above)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_arrive_with_the_last_message() {
        let (ours, theirs) = channel().unwrap();
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let limit = Message::Limit(Some(Duration::from_secs(3)));
        let ready = Message::Ready {
            variables: vec![("A".into(), "b".into())],
            needed: 1,
        };
        send(&theirs, &limit, &[]).unwrap();
        send(&theirs, &ready, &[file.as_raw_fd(), file.as_raw_fd()]).unwrap();
        drop(theirs);
        assert_eq!(
            receive(&ours).unwrap().map(|(message, _)| message),
            Some(limit)
        );
        let (message, descriptors) = receive(&ours).unwrap().unwrap();
        assert_eq!((message, descriptors.len()), (ready, 2));
        assert!(receive(&ours).unwrap().is_none());
    }
}
