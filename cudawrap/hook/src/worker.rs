//! Asking cudawrap for a device: it is started as a process that the program never sees,
//! with no descriptor of the program's, and answers on a socket. What it says to people is
//! passed on to the program's standard error. It has a time limit, and ends with us.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use getgpu_common::error::{Failure, Kind, reason};
use getgpu_common::hook::{self, Message};
use getgpu_common::nvml_client;
use getgpu_common::poll;
use getgpu_common::procfs::fdinfo;
use getgpu_common::sys;
use getgpu_common::unseen_child::{self, Plan, UnseenChild};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{MsgFlags, recv};

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

/// What there is for the program.
pub struct Found {
    /// Variables to be set.
    pub variables: Vec<(String, String)>,
    /// The lease, and what belongs to it.
    pub descriptors: Vec<OwnedFd>,
}

impl Question<'_> {
    /// Asks. A failure is one of cudawrap's own, or that it did not answer.
    pub fn ask(&self) -> Result<Found, Failure> {
        // The helper would be process 1 of that namespace, and no fork of the program would
        // succeed after its end.
        if whereabouts::children_elsewhere() {
            return Err(self.failed(
                "children of this program are in another pid namespace (see unshare --fork)",
            ));
        }
        let (answers, theirs) = hook::channel().map_err(|e| self.failed(&reason(&e)))?;
        let (lines, errors) = nvml_client::channel().map_err(|e| self.failed(&reason(&e)))?;
        let words = self.words();
        let without: &[&str] = if self.again {
            &[hook::VARIABLE, "CUDA_VISIBLE_DEVICES"]
        } else {
            &[hook::VARIABLE]
        };
        let plan = Plan::new(self.cudawrap, &words, without);
        let child = unseen_child::start(&plan, &theirs, Some(&errors))
            .map_err(|errno| self.failed(&reason(&errno.into())))?;
        drop((theirs, errors));
        let talk = Talk {
            question: self,
            answers,
            lines,
            deadline: Some(Instant::now() + self.limit + START),
        };
        talk.answer(child)
    }

    /// How cudawrap is called.
    fn words(&self) -> [OsString; 6] {
        let threads = if thread::others() {
            hook::MANY
        } else {
            hook::ONE
        };
        [
            "cudawrap".into(),
            hook::WORKER_OPTION.into(),
            std::process::id().to_string().into(),
            self.program.into(),
            threads.into(),
            fdinfo::to_word(&fdinfo::confirmed_locks("self")).into(),
        ]
    }

    fn failed(&self, why: &str) -> Failure {
        Failure::new(
            Kind::Nvml,
            format!("{}: no device found: {why}", self.cudawrap.display()),
        )
    }
}

/// The conversation with cudawrap.
struct Talk<'a> {
    question: &'a Question<'a>,
    answers: OwnedFd,
    lines: OwnedFd,
    deadline: Option<Instant>,
}

impl Talk<'_> {
    fn answer(mut self, child: UnseenChild) -> Result<Found, Failure> {
        let answer = self.next();
        // What it has said before it answered.
        while self.pass_on() {}
        let patience = if answer.is_ok() { EXIT } else { Duration::ZERO };
        drop(self.answers);
        child.end(Instant::now() + patience);
        answer
    }

    /// Waits for the answer, and passes lines on meanwhile.
    fn next(&mut self) -> Result<Found, Failure> {
        let (mut heard, started) = (true, Instant::now());
        loop {
            if self
                .deadline
                .is_some_and(|deadline| deadline <= Instant::now())
            {
                let waited = started.elapsed().as_secs();
                let why = format!("no answer within {waited} s");
                return Err(self.question.failed(&why));
            }
            let readable = PollFlags::POLLIN;
            let mut both = [
                PollFd::new(self.answers.as_fd(), readable),
                PollFd::new(self.lines.as_fd(), readable),
            ];
            let listened = if heard { &mut both[..] } else { &mut both[..1] };
            poll::until(listened, self.deadline)
                .map_err(|errno| self.question.failed(&reason(&errno.into())))?;
            let [answered, said] = both.map(|fd| fd.any().unwrap_or(false));
            heard = heard && (!said || self.pass_on());
            if answered && let Some(answer) = self.receive() {
                return answer;
            }
        }
    }

    fn failed(&self, why: &str) -> Option<Result<Found, Failure>> {
        Some(Err(self.question.failed(why)))
    }

    /// Reads one message: the answer, or none if it only says how long to wait for that.
    fn receive(&mut self) -> Option<Result<Found, Failure>> {
        match hook::receive(&self.answers) {
            Ok(Some((Message::Limit(limit), _))) => {
                self.deadline = limit.map(|limit| Instant::now() + limit);
                None
            }
            Ok(Some((Message::Ready { needed, .. }, descriptors)))
                if descriptors.len() < needed =>
            {
                self.failed("no descriptor is left for the lease (ulimit -n)")
            }
            Ok(Some((Message::Ready { variables, .. }, descriptors))) => Some(Ok(Found {
                variables,
                descriptors,
            })),
            Ok(Some((Message::Failed(failure), _))) => Some(Err(failure)),
            Ok(None) => self.failed("it exited without an answer"),
            Err(error) => self.failed(&reason(&error)),
        }
    }

    /// Passes on what there is to read; false if there is nothing, or nothing to come.
    fn pass_on(&self) -> bool {
        let mut part = vec![0; 4096];
        loop {
            match recv(self.lines.as_raw_fd(), &mut part, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return false,
                Ok(read) => {
                    if !self.question.again {
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
