use std::io::Write;
use std::time::Instant;

use super::*;

/// A short program of a caller with many children is found among the caller's processes only: a
/// look at all others, a few at a time, comes too late for it.
#[test]
fn the_callers_processes_are_read_unless_they_are_known_to_be_the_same() {
    let (first, later) = (CLOSELY - Duration::from_nanos(1), CLOSELY);
    #[rustfmt::skip]
    let cases = [
        ("a program began at once", Some(true), first, LookScope::Caller),
        ("a program began later", Some(true), later, LookScope::CallerAndNext),
        ("nothing began yet", Some(false), first, LookScope::Nothing),
        ("nothing began below the caller", Some(false), later, LookScope::Next),
        ("too many children at first", None, first, LookScope::Nothing),
        ("too many children", None, later, LookScope::CallerAndNext),
    ];
    for (name, has_more, since_printed, scope) in cases {
        assert_eq!(LookScope::of(has_more, since_printed), scope, "{name}");
    }
}

/// A reservation whose device was not printed ends.
#[test]
fn only_the_word_of_the_starter_makes_a_reservation() {
    for (word, is_printed) in [
        (None, false),
        (Some(b'x'), false),
        (Some(start::PRINTED), true),
    ] {
        let (mut starter, holder) = std::os::unix::net::UnixStream::pair().unwrap();
        if let Some(word) = word {
            starter.write_all(&[word]).unwrap();
        }
        starter.shutdown(std::net::Shutdown::Write).unwrap();
        let mut holder = File::from(std::os::fd::OwnedFd::from(holder));
        assert_eq!(was_printed(&mut holder), is_printed, "{word:?}");
        drop(holder);
        let mut heard = Vec::new();
        starter.read_to_end(&mut heard).unwrap();
        let told = [start::READY_WORD, start::PRINTED];
        assert_eq!(heard, told[..1 + usize::from(is_printed)], "{word:?}");
    }
}

/// What has the device in an argument may be about to start the next program on it. The device is
/// this run's own: a holder looks at all processes of its user.
#[test]
fn what_an_argument_kept_lingers_when_that_is_gone() {
    let own = Stat::read(std::process::id() as i32).unwrap();
    let uuid = &format!("MIG-0d1e2f30-1111-5222-8333-4444{:08x}", own.pid);
    let caller = [
        format!("caller={}(test)", own.pid),
        format!("start={}", own.start),
    ];
    let args = HolderArgs::parse([uuid.as_str(), &caller[0], &caller[1]]).unwrap();
    let file = File::open("/dev/null").unwrap();
    let lock = HeldLock::new(&args, OfdLock::new(file.into()));
    let linger = Duration::from_millis(500);
    let mut reservation = Reservation {
        caller: own.pid,
        lock: &lock,
        scanner: ProcScanner::new(&args, &lock, Duration::ZERO),
        before: None,
        began: sys::boot_time(),
        wait: Duration::ZERO,
        linger,
        deadline: None,
        process: OwnProcess::new(&lock),
    };
    let mut command = std::process::Command::new("sh");
    let command = command.args(["-c", "read line", uuid]);
    let mut keeper = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while reservation.scanner.full().keepers.is_empty() {
        assert!(Instant::now() < until, "it keeps nothing");
    }
    let ended = std::thread::spawn(move || {
        std::thread::sleep(2 * linger);
        let ended = Instant::now();
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        ended
    });
    assert!(reservation.linger().is_empty());
    assert!(ended.join().unwrap().elapsed() >= linger);
}
