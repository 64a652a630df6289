//! Asking cudawrap for a device: it is started as a process that the program never sees,
//! with no descriptor of the program's, and answers on a socket. What it says to people is
//! passed on to the program's standard error. It has a time limit, and ends with us.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use getgpu_auto::Message;
use getgpu_linux::{
    ChildPlan, descriptors::socket_pair, poll, procfs::fdinfo, run_clock, sys, unseen_child,
};
use getgpu_model::{Failure, reason};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{MsgFlags, SockType, recv};

use crate::causes::{LibraryCause, WorkerFault};
use crate::{thread, whereabouts};

/// What the start takes beside what cudawrap itself asks for.
const START: Duration = Duration::from_secs(5);
/// How long cudawrap may take to exit once it has answered.
const EXIT: Duration = Duration::from_secs(1);

/// What the program is asked for.
pub struct Question<'a> {
    /// The program that finds a device.
    pub cudawrap: &'a Path,
    /// The program that it is for.
    pub program: &'a Path,
    /// CUDA_VISIBLE_DEVICES is empty by our own doing.
    pub again: bool,
    /// NVML's time.
    pub limit: Duration,
}

/// What there is for the program: variables to be set, and the descriptors of the lease and of what
/// belongs to it.
pub type FoundDevice = (Vec<(String, String)>, Vec<OwnedFd>);

impl Question<'_> {
    /// Asks. A failure is one of cudawrap's own, or that it did not answer.
    pub fn ask(&self) -> Result<FoundDevice, Failure> {
        // The helper would be process 1 of that namespace, and no fork of the program would
        // succeed after its end.
        if whereabouts::children_elsewhere() {
            return Err(self.failed(WorkerFault::ChildrenElsewhere));
        }
        let (answers, theirs) = getgpu_auto::channel().map_err(|error| self.broken(&error))?;
        let (lines, errors) = socket_pair(SockType::Stream).map_err(|error| self.broken(&error))?;
        let words = self.words();
        let without: &[&str] = if self.again {
            &[getgpu_auto::VARIABLE, "CUDA_VISIBLE_DEVICES"]
        } else {
            &[getgpu_auto::VARIABLE]
        };
        let plan = ChildPlan::new(self.cudawrap, &words, without);
        let child = unseen_child::start(&plan, &theirs, Some(&errors))
            .map_err(|errno| self.broken(&errno.into()))?;
        drop((theirs, errors));
        let answer = self.next(&answers, &lines);
        // What it has said before it answered.
        while self.pass_on(&lines) {}
        let patience = if answer.is_ok() { EXIT } else { Duration::ZERO };
        drop(answers);
        child.end(run_clock::now() + patience);
        answer
    }

    /// How cudawrap is called.
    fn words(&self) -> [OsString; 6] {
        let threads = if thread::others() {
            getgpu_auto::MANY
        } else {
            getgpu_auto::ONE
        };
        [
            "cudawrap".into(),
            getgpu_auto::LEASE_WORKER_OPTION.into(),
            std::process::id().to_string().into(),
            self.program.into(),
            threads.into(),
            fdinfo::to_word(&fdinfo::confirmed_locks("self")).into(),
        ]
    }

    fn failed(&self, why: WorkerFault) -> Failure {
        let cudawrap = self.cudawrap.display();
        LibraryCause::NoDeviceFound { cudawrap, why }.into()
    }

    fn broken(&self, error: &io::Error) -> Failure {
        let why = reason(error);
        self.failed(WorkerFault::Os { why })
    }

    /// Waits for the answer, and passes lines on meanwhile.
    fn next(&self, answers: &OwnedFd, lines: &OwnedFd) -> Result<FoundDevice, Failure> {
        let (mut heard, started) = (true, run_clock::now());
        let mut deadline = Some(started + self.limit + START);
        loop {
            if deadline.is_some_and(|deadline| deadline <= run_clock::now()) {
                let seconds = run_clock::since(started).as_secs();
                return Err(self.failed(WorkerFault::Late { seconds }));
            }
            let readable = PollFlags::POLLIN;
            let mut both = [
                PollFd::new(answers.as_fd(), readable),
                PollFd::new(lines.as_fd(), readable),
            ];
            let listened = if heard { &mut both[..] } else { &mut both[..1] };
            poll::until_in_run_time(listened, deadline)
                .map_err(|errno| self.broken(&errno.into()))?;
            let [answered, said] = both.map(|fd| fd.any().unwrap_or(false));
            heard = heard && (!said || self.pass_on(lines));
            if !answered {
                continue;
            }
            let failure = match getgpu_auto::receive(answers) {
                Ok(Some((Message::Limit(limit), _))) => {
                    deadline = limit.map(|limit| run_clock::now() + limit);
                    continue;
                }
                Ok(Some((Message::Ready { variables, needed }, descriptors))) => {
                    if descriptors.len() >= needed {
                        return Ok((variables, descriptors));
                    }
                    self.failed(WorkerFault::NoDescriptorLeft)
                }
                Ok(Some((Message::Failed(failure), _))) => failure,
                Ok(None) => self.failed(WorkerFault::Exited),
                Err(error) => self.broken(&error),
            };
            return Err(failure);
        }
    }

    /// Passes on what there is to read; false if there is nothing, or nothing to come.
    fn pass_on(&self, lines: &OwnedFd) -> bool {
        let mut part = vec![0; 4096];
        loop {
            match recv(lines.as_raw_fd(), &mut part, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return false,
                Ok(read) => {
                    if !self.again {
                        sys::write_stderr(part.get(..read).unwrap_or_default());
                    }
                    return true;
                }
                Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }
}
