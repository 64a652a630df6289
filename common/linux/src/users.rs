//! The login names of users, for people: looked up once each, and behind a limit for all of a process
//! together, since a directory service may take seconds. A name that is late is its number.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use nix::unistd::User;

use crate::procfs::{self, run_time::Stopwatch};
use crate::reader_child::ReaderChild;

/// How long a process waits for all names together.
const LIMIT: Duration = Duration::from_millis(500);

/// The login name of `uid`, or the number itself. For programs of one thread.
pub fn name(uid: u32) -> String {
    thread_local! {
        static NAMES: RefCell<KnownUsers> = RefCell::default();
    }
    NAMES.with_borrow_mut(|names| names.name(uid, in_passwd, in_directory))
}

/// A process with its user, as far as /proc shows them: `ben (pid 77, python3)`.
pub fn name_process(pid: i32) -> String {
    let user = procfs::euid(pid).map_or_else(|| "another user".to_owned(), name);
    let comm = procfs::comm(pid);
    let program = comm.map(|comm| format!(", {}", procfs::program_name(pid, &comm)));
    format!("{user} (pid {pid}{})", program.unwrap_or_default())
}

type Ask = fn(u32) -> Option<String>;

/// What a process knows of its node's users.
#[derive(Default)]
struct KnownUsers {
    /// None: there is no such name, or it was late.
    known: HashMap<u32, Option<String>>,
    /// How long names were waited for.
    waited: Duration,
}

impl KnownUsers {
    fn name(&mut self, uid: u32, local: Ask, directory: Ask) -> String {
        if !self.known.contains_key(&uid) {
            let found = local(uid).or_else(|| self.look_up(uid, directory));
            self.known.insert(uid, found);
        }
        let known = self.known.get(&uid).cloned().flatten();
        known.unwrap_or_else(|| uid.to_string())
    }

    /// Has a child ask, as long as the limit allows.
    fn look_up(&mut self, uid: u32, ask: Ask) -> Option<String> {
        let left = LIMIT.checked_sub(self.waited)?;
        let watch = Stopwatch::start();
        let child = ReaderChild::start(|| ask(uid).unwrap_or_default().into_bytes());
        let told = child.ok().and_then(|mut child| child.answer(left));
        self.waited += watch.elapsed();
        let told = told.filter(|name| !name.is_empty())?;
        Some(String::from_utf8_lossy(&told).into_owned())
    }
}

/// The name in /etc/passwd (passwd(5)), which needs no service.
fn in_passwd(uid: u32) -> Option<String> {
    let text = std::fs::read("/etc/passwd").ok()?;
    name_in(&String::from_utf8_lossy(&text), uid)
}

fn name_in(text: &str, uid: u32) -> Option<String> {
    let number = uid.to_string();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, of_line) = (fields.next()?, fields.next()?, fields.next()?);
        (of_line == number && !name.is_empty()).then(|| name.to_owned())
    })
}

/// The name wherever the node has its users from (getpwuid(3), nsswitch.conf(5)).
fn in_directory(uid: u32) -> Option<String> {
    let user = User::from_uid(uid.into()).ok().flatten();
    user.map(|user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_directory_costs_its_limit_once() {
        let slow = |uid| {
            std::thread::sleep(LIMIT * 100);
            Some(format!("ana{uid}"))
        };
        let mut users = KnownUsers::default();
        let mut ask = |uid| users.name(uid, |uid| (uid == 0).then(|| "root".into()), slow);
        assert_eq!(ask(0), "root");
        for uid in 10..20 {
            assert_eq!(ask(uid), uid.to_string());
        }
        assert!(users.waited >= LIMIT && users.waited < LIMIT * 10);
    }

    #[test]
    fn a_line_without_a_name_is_passed_over() {
        let text = "# users\n+::::::\n:x:7:7::/:\nana:x:7:7:Ana:/:/bin/sh\nben:x:8\n";
        assert_eq!(name_in(text, 7).as_deref(), Some("ana"));
        assert_eq!(name_in(text, 8).as_deref(), Some("ben"));
        assert_eq!(name_in(text, 9), None);
    }

    #[test]
    fn a_name_is_asked_for_once() {
        let mut users = KnownUsers::default();
        let known = |uid| (uid == 7).then(|| "ana".to_owned());
        assert_eq!(users.name(7, |_| None, known), "ana");
        assert_eq!(users.name(8, |_| None, known), "8");
        for (uid, shown) in [(7, "ana"), (8, "8")] {
            assert_eq!(users.name(uid, |_| None, |_| Some("other".into())), shown);
        }
        assert_eq!(name(0), "root");
    }
}
