use std::io::Write;
use std::time::Instant;

use super::*;

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
        lock: &lock,
        scanner: ProcScanner::new(&args, &lock),
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
