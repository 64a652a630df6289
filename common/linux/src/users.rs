//! The login names of users, for people: looked up once each, and behind a limit for all of a process
//! together, since a directory service may take seconds. A name that is late is its number until it
//! comes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::User;

/// How long a process waits for all names together.
const LIMIT: Duration = Duration::from_millis(500);

/// The login name of `uid`, or the number itself.
pub fn name(uid: u32) -> String {
    static NAMES: Mutex<Option<KnownUsers>> = Mutex::new(None);
    name_by(&NAMES, uid, in_passwd, in_directory)
}

type Ask = fn(u32) -> Option<String>;

/// What a process knows of its node's users.
struct KnownUsers {
    /// None: there is no such name, or it is being looked up.
    known: HashMap<u32, Option<String>>,
    /// What is left of [`LIMIT`].
    left: Duration,
}

fn name_by(
    shared: &'static Mutex<Option<KnownUsers>>,
    uid: u32,
    local: Ask,
    directory: Ask,
) -> String {
    let known = |uid| locked(shared, |names| names.known.get(&uid).cloned());
    if known(uid).is_none() {
        let found = local(uid);
        let is_local = found.is_some();
        let left = locked(shared, |names| {
            names.known.insert(uid, found);
            names.left
        });
        if !is_local {
            let waited = look_up(shared, uid, directory, left);
            locked(shared, |names| {
                names.left = names.left.saturating_sub(waited);
            });
        }
    }
    known(uid).flatten().unwrap_or_else(|| uid.to_string())
}

/// Has a thread ask, waits for its answer at most for `limit`, and gives how long that took. Without a
/// thread (a limit of processes) there is no name.
fn look_up(
    shared: &'static Mutex<Option<KnownUsers>>,
    uid: u32,
    ask: Ask,
    limit: Duration,
) -> Duration {
    let (began, (told, answer)) = (Instant::now(), mpsc::channel());
    let asking = thread::Builder::new().spawn(move || {
        let found = ask(uid);
        locked(shared, |names| names.known.insert(uid, found));
        // Nothing is lost where nothing waits any more.
        let _ = told.send(());
    });
    if asking.is_ok() {
        let _ = answer.recv_timeout(limit);
    }
    began.elapsed()
}

fn locked<T>(shared: &Mutex<Option<KnownUsers>>, with: impl FnOnce(&mut KnownUsers) -> T) -> T {
    let mut guard: MutexGuard<'_, _> = shared.lock().unwrap_or_else(PoisonError::into_inner);
    with(guard.get_or_insert_with(|| KnownUsers {
        known: HashMap::new(),
        left: LIMIT,
    }))
}

/// The name in /etc/passwd (passwd(5)), which needs no service.
fn in_passwd(uid: u32) -> Option<String> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    let number = uid.to_string();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, of_line) = (fields.next()?, fields.next()?, fields.next()?);
        (of_line == number).then(|| name.to_owned())
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
    fn a_slow_directory_costs_its_limit_once_and_is_believed_when_it_answers() {
        static SHARED: Mutex<Option<KnownUsers>> = Mutex::new(None);
        let slow = |uid| {
            if uid == 2 {
                return Some("late".to_owned());
            }
            thread::sleep(LIMIT * 3);
            Some(format!("ana{uid}"))
        };
        let ask = |uid| name_by(&SHARED, uid, |uid| (uid == 0).then(|| "root".into()), slow);
        assert_eq!(ask(0), "root");
        let began = Instant::now();
        for uid in 10..20 {
            assert_eq!(ask(uid), uid.to_string());
        }
        assert!(began.elapsed() < LIMIT * 2, "{:?}", began.elapsed());
        while ask(10) == "10" {
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(ask(10), "ana10");
    }

    #[test]
    fn a_user_whom_no_directory_knows_is_asked_for_once() {
        static SHARED: Mutex<Option<KnownUsers>> = Mutex::new(None);
        static ASKED: Mutex<u32> = Mutex::new(0);
        let directory = |_| {
            *ASKED.lock().unwrap() += 1;
            None
        };
        for _ in 0..2 {
            assert_eq!(name_by(&SHARED, 4711, |_| None, directory), "4711");
        }
        assert_eq!(*ASKED.lock().unwrap(), 1);
        assert_eq!(name(0), "root");
    }
}
