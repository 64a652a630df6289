//! One line in the system's log for each lease and reservation, its end and each refusal, where the
//! site asks for it (`log = "syslog"`), and what a monitor has to say. Sent to /dev/log as syslog(3)
//! does, without waiting: a log that is full or absent never keeps a program from running.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use getgpu_linux::users;
use getgpu_model::{
    Job, Uuid,
    diag::{printable, word},
};
use getgpu_settings::{Log, Settings};

/// LOG_DAEMON and LOG_INFO (syslog.h).
const PRIORITY: u8 = 3 << 3 | 6;

/// What is written down.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Who says so: getgpu or cudawrap.
    pub by: &'a str,
    /// The process that has it.
    pub pid: i32,
    /// `leased` or `reserved`.
    pub what: &'a str,
    /// The devices.
    pub devices: &'a [Uuid],
    /// The user's id.
    pub uid: u32,
    /// Key and value: the program that leases, or the caller it is reserved for.
    pub program: (&'a str, &'a str),
    /// The part of each device.
    pub share: f64,
    /// The name that people gave to it.
    pub tag: Option<&'a str>,
    /// The batch job that it belongs to.
    pub job: Option<&'a Job>,
    /// From the call to the device.
    pub waited: Duration,
}

impl Record<'_> {
    /// Sends it, if the site wants that.
    pub fn send(&self, settings: &Settings) {
        if settings.log == Log::None {
            return;
        }
        send(&format!(
            "{}[{}]: {} {} waited={}s",
            self.by,
            self.pid,
            self.what,
            self.text(),
            self.waited.as_secs()
        ));
    }

    /// User, program, share and job: the part that the lines at the beginning and at the
    /// end have in common.
    pub fn text(&self) -> String {
        let devices = Uuid::join(self.devices);
        let user = word(&users::name(self.uid));
        let (key, program) = (self.program.0, word(self.program.1));
        let share = format!("{:.4}", self.share);
        let job = self.job.map(|job| {
            let task = job
                .task
                .map(|task| format!(" task={task}"))
                .unwrap_or_default();
            format!(" job={}{task}", word(&job.id))
        });
        let tag = self.tag.map(|tag| format!(" tag={}", word(tag)));
        format!(
            "{devices} user={user} {key}={program} share={}{}{}",
            share.trim_end_matches('0').trim_end_matches('.'),
            tag.unwrap_or_default(),
            job.unwrap_or_default(),
        )
    }
}

/// Writes down the end of what process `pid` had for so long; `text` is [`Record::text`].
pub fn released(by: &str, pid: i32, text: &str, held: Duration) {
    let held = held.as_secs_f64();
    send(&format!("{by}[{pid}]: released {text} held={held:.1}s"));
}

/// Logs that a call got no device, if the site logs.
pub fn refused(settings: &Settings, by: &str, program: &str, tag: Option<&str>, why: &str) {
    if settings.log == Log::None {
        return;
    }
    let (pid, uid) = (std::process::id(), nix::unistd::geteuid().as_raw());
    let user = word(&users::name(uid));
    let program = word(program);
    let job = Job::own().map(|job| format!(" job={}", word(&job.id)));
    let tag = tag.map(|tag| format!(" tag={}", word(tag)));
    let tag = tag.unwrap_or_default();
    let (job, why) = (job.unwrap_or_default(), printable(why));
    send(&format!(
        "{by}[{pid}]: refused user={user} program={program}{tag}{job}: {why}"
    ));
}

/// Sends a text to the system's log, as one line.
pub fn send(line: &str) {
    let Ok(socket) = UnixDatagram::unbound() else {
        return;
    };
    if socket.set_nonblocking(true).is_ok() {
        let line = format!("<{PRIORITY}>{}", printable(line));
        let _ = socket.send_to(line.as_bytes(), "/dev/log");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_fields_and_no_other_line() {
        let devices = [Uuid::parse("MIG-0d1e2f30-1111-5222-8333-444455556666").unwrap()];
        let record = Record {
            by: "cudawrap",
            pid: 7,
            what: "leased",
            devices: &devices,
            uid: 4_000_000_000,
            program: ("program", "my\napp x"),
            share: 0.25,
            tag: None,
            job: None,
            waited: Duration::from_millis(3900),
        };
        let text = "MIG-0d1e2f30-1111-5222-8333-444455556666 user=4000000000 program=my\\napp_x share=0.25";
        assert_eq!(record.text(), text);
        let share = 1.0;
        assert!(Record { share, ..record }.text().ends_with(" share=1"));
        let job = Job {
            id: "7.0".into(),
            task: Some(2),
        };
        let job = Some(&job);
        assert!(
            Record { job, ..record }
                .text()
                .ends_with(" share=0.25 job=7.0 task=2")
        );
    }
}
