//! SIGKILL and errors at each system call of getgpu, its holder, its NVML process and
//! cudawrap: what the table of `rules` says of each error, never a program without its lease,
//! nothing left. An ordinary run tries one fate for each call, and all for those about the
//! lock and the words between processes; the full one tries all.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use getgpu_tests::wrapped::{Facts, wrap};
use harness::{Command, Sandbox, full, size, wait, written};
use inject::{At, Blow, Call, Story, calls};
use nix::libc;

use super::rules::Role::{self, Holder, Keeper, Main, Nvml, Starter};
use super::rules::{self, Outcome};
use super::{is_one_of, lacks_tracer};

/// A blow, and what may come of it where a row says so.
struct Work {
    call: Call,
    blow: Blow,
    outcomes: Option<&'static [Outcome]>,
}

/// How long a reservation of these tests waits for its program.
const FOR: Duration = Duration::from_millis(600);

/// How much later than it should be the device may be free again, on a machine with more
/// to do than it can.
const LEFT: Duration = Duration::from_secs(10);

/// What is wrong with a run, if anything.
type Judge = fn(&Sandbox, &Run) -> Result<(), String>;

/// One run under one blow.
struct Run {
    story: Story,
    out: String,
    err: String,
    /// Whether anything was locked when the command ended.
    locked: bool,
    /// How long the command ran.
    took: Duration,
    /// How long after its beginning until nothing was any more.
    lasted: Duration,
    /// The call that was struck, and how; none in the plain run.
    struck: Option<(Call, Blow)>,
}

impl Run {
    fn of_main(&self) -> bool {
        self.struck
            .as_ref()
            .is_some_and(|(call, _)| call.point.process == 0)
    }

    fn killed(&self) -> bool {
        self.struck
            .as_ref()
            .is_some_and(|(_, blow)| *blow == Blow::Kill)
    }

    fn is(&self, numbers: &[i64]) -> bool {
        let struck = self.struck.as_ref();
        struck.is_some_and(|(call, _)| numbers.contains(&call.number))
    }

    /// One line of the program, with hints at most; none only where writing it was what
    /// failed.
    fn one_line(&self, program: &str) -> Result<(), String> {
        let hint = format!("{program}: hint: ");
        let lines = self.err.lines();
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with(&hint)).collect();
        let unwritten = self.is(&[libc::SYS_write, libc::SYS_writev]) && self.of_main();
        match lines.as_slice() {
            [line] if line.starts_with(&format!("{program}: ")) => Ok(()),
            [] if unwritten => Ok(()),
            _ => Err("not one line".to_owned()),
        }
    }

    fn is_as_its_row_says(&self, name: &str, work: &Work) -> Result<(), String> {
        let (Some(outcomes), Some((_, Blow::Fail(error)))) = (work.outcomes, &self.struck) else {
            return Ok(());
        };
        let came = rules::came(outcomes, *error, name, self.story.status, &self.err);
        unless(!came, "its row says otherwise")
    }

    /// The refusal of the dynamic loader or of the standard library's start-up, before
    /// there is any code of ours.
    fn is_before_ours(&self) -> bool {
        let words = [
            "error while loading shared libraries",
            "cannot set up thread-local storage",
        ];
        let loader = self.story.status == 127 && words.iter().any(|words| self.err.contains(words));
        let start = self.story.status == -6
            && self.is(&[calls::POLL, libc::SYS_rt_sigaction])
            && self.out.is_empty();
        self.of_main() && (loader || start)
    }
}

fn facts(sandbox: &Sandbox) -> PathBuf {
    sandbox.path("work/facts")
}

fn is_program(pid: i32) -> bool {
    is_one_of(pid, &["probe", "CUDAWRAP_app"])
}

fn run(command: Command, sandbox: &Sandbox, blow: Option<(At, Blow)>) -> Run {
    let _ = std::fs::remove_file(facts(sandbox));
    let (mut command, out, err) = command.parts();
    let (mut locked, mut took, began) = (false, Duration::ZERO, Instant::now());
    let story = inject::follow(&mut command, blow.clone(), is_program, |_| {
        took = began.elapsed();
        locked = sandbox.locked();
    });
    wait::holds_within(FOR + LEFT, || !sandbox.locked());
    let lasted = began.elapsed();
    let struck = story
        .struck
        .clone()
        .zip(blow)
        .map(|(call, (_, blow))| (call, blow));
    Run {
        story,
        out: written(&out),
        err: written(&err),
        locked,
        took,
        lasted,
        struck,
    }
}

/// Whether a call is about the lock, or a word between two processes: an error there that is
/// taken for another is what nothing else would show.
fn decides(call: &Call) -> bool {
    call.subject.ends_with("/run/lock") || call.subject.starts_with("socket:")
}

/// A holder looks at all processes again and again: of these calls, which are all alike,
/// every so manieth.
fn is_tried(call: &Call) -> bool {
    let (every, at) = (size(500, 40), call.point);
    at.process < 3 || at.call < 150 || at.call.is_multiple_of(every) || decides(call)
}

fn torture(name: &str, command: fn(&Sandbox) -> Command, judge: Judge, roles: &[Role]) {
    if lacks_tracer() {
        return;
    }
    let new = || {
        let sandbox = Sandbox::new("mig4");
        // By its path: a search that cannot look at a directory finds no library there,
        // and that is what a node without a driver looks like.
        let library = sandbox.text("lib/libnvidia-ml.so.1");
        sandbox.set_settings(&format!(
            "linger = '50ms'\nnvml_timeout = 10\nlibrary = {library:?}"
        ));
        wrap(&sandbox, "opt", "app", "probe");
        sandbox
    };
    let sandbox = new();
    let plain = run(command(&sandbox), &sandbox, None);
    judge(&sandbox, &plain).unwrap_or_else(|why| panic!("{}: plain: {why}: {}", name, plain.err));
    assert_eq!(plain.story.status, 0, "{}: {}", name, plain.err);
    let mut work: Vec<Work> = Vec::new();
    let mut unknown = Vec::new();
    let calls = &plain.story.calls;
    for (number, call) in calls.iter().filter(|call| is_tried(call)).enumerate() {
        let role = roles.get(call.point.process).copied();
        let errors = role.map_or_else(
            || Err(format!("no role for process {}", call.point.process)),
            |role| rules::of(role, call, &sandbox),
        );
        let errors = errors.unwrap_or_else(|why| {
            unknown.push(why);
            Vec::new()
        });
        let errors = errors.into_iter();
        let errors = errors.map(|(error, outcomes)| (Blow::Fail(error), Some(outcomes)));
        let fates: Vec<_> = errors.chain([(Blow::Kill, None)]).collect();
        let chosen = number % fates.len();
        let fates = fates.into_iter().enumerate();
        let fates = fates.filter(|(fate, _)| full() || decides(call) || *fate == chosen);
        work.extend(fates.map(|(_, (blow, outcomes))| Work {
            call: call.clone(),
            blow,
            outcomes,
        }));
    }
    assert_eq!(unknown, Vec::<String>::new(), "{name}");
    let (next, hits) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let sandbox = new();
                while let Some(work) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (point, blow) = (work.call.point, work.blow);
                    let at = At::Alike(work.call.alike.clone());
                    let run = run(command(&sandbox), &sandbox, Some((at, blow)));
                    hits.fetch_add(usize::from(run.struck.is_some()), Ordering::Relaxed);
                    let verdict = verdict(judge, &sandbox, &run);
                    if let Err(why) = verdict.and_then(|()| run.is_as_its_row_says(name, work)) {
                        let line = format!(
                            "{point:?} call {} {:?} {blow:?}: {why}: status {} out {:?} err {:?}",
                            work.call.number, work.call.subject, run.story.status, run.out, run.err
                        );
                        wrong.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    let hits = hits.into_inner();
    println!("{name}: {} calls, {hits} blows struck", calls.len());
    let (count, lines) = (wrong.len(), wrong.join("\n"));
    assert_eq!(count, 0, "{name}: wrong:\n{lines}");
    assert!(hits * 10 > work.len() * 9, "the points moved away");
}

fn verdict(judge: Judge, sandbox: &Sandbox, run: &Run) -> Result<(), String> {
    if run.story.hung {
        return Err("hung".to_owned());
    }
    // The standard library takes it that these fail as clock_nanosleep(2) and
    // getrandom(2) have it: by EINTR alone, and never. A sleep that was interrupted by
    // the tracer is gone on with by restart_syscall(2).
    let sleeps = [
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_restart_syscall,
    ];
    if (run.is(&sleeps) || run.is(&[libc::SYS_getrandom])) && !run.killed() {
        return Ok(());
    }
    if run.err.contains("panicked") || run.err.contains("RUST_BACKTRACE") {
        return Err("panic".to_owned());
    }
    if sandbox.locked() {
        return Err("still locked".to_owned());
    }
    if run.is_before_ours() {
        return Ok(());
    }
    judge(sandbox, run)
}

fn unless(wrong: bool, why: &str) -> Result<(), String> {
    if wrong { Err(why.to_owned()) } else { Ok(()) }
}

/// getgpu: either a device that stays reserved, or a line and nothing.
fn getgpu(sandbox: &Sandbox, run: &Run) -> Result<(), String> {
    let status = run.story.status;
    if run.killed() && run.of_main() {
        return unless(status != -9, "not killed");
    }
    if status == 0 {
        let uuid = run.out.strip_suffix('\n').unwrap_or("");
        if !sandbox.uuids().iter().any(|known| known == uuid) {
            return Err("status 0 without a device".to_owned());
        }
        // A holder that is killed gives its device back: what it cannot do is fail by
        // itself. The time of the reservation begins before getgpu ends. On a busy machine
        // it can also be over before getgpu ends.
        let is_kept = run.took >= FOR || (run.locked && run.lasted >= FOR);
        if !(run.killed() || is_kept) {
            return Err(format!("not kept: {}, {:?}", run.locked, run.lasted));
        }
        return Ok(());
    }
    if !run.out.is_empty() && !run.is(&[libc::SYS_write]) {
        return Err("a device and a failure".to_owned());
    }
    if !matches!(status, 2..=4) {
        return Err("a status that says nothing".to_owned());
    }
    run.one_line("getgpu")
}

/// cudawrap: the program with its lease on its device, or a line and no program.
fn cudawrap(sandbox: &Sandbox, run: &Run) -> Result<(), String> {
    let status = run.story.status;
    if facts(sandbox).exists() {
        let facts = Facts::read(&facts(sandbox));
        let device = facts.visible().unwrap_or("");
        if !sandbox.uuids().iter().any(|known| known == device) {
            return Err("a program without a device".to_owned());
        }
        // One descriptor may be all that there was room for; none may be without the lock.
        let leased = facts.leases(sandbox, device).len();
        if leased == 0 || leased != facts.descriptors_of(&sandbox.lock()).len() {
            return Err("a program without its lease".to_owned());
        }
        return unless(status != 0, "not the program's status");
    }
    if run.killed() && run.of_main() {
        return unless(status != -9, "not killed");
    }
    if !matches!(status, 75 | 125 | 126 | 127) {
        return Err("a status that says nothing".to_owned());
    }
    run.one_line("cudawrap")
}

fn link(sandbox: &Sandbox) -> Command {
    let command = sandbox.command(sandbox.path("opt/app"));
    command.args(["--out"]).args([facts(sandbox)])
}

#[test]
fn getgpu_and_its_holder() {
    torture(
        "getgpu",
        |s| s.words("getgpu --for 600ms"),
        getgpu,
        &[Main, Nvml, Starter, Holder],
    );
}

#[test]
fn cudawrap_under_its_own_name() {
    let command = |s: &Sandbox| s.words("cudawrap -- probe --out").args([facts(s)]);
    torture("cudawrap --", command, cudawrap, &[Main, Keeper, Nvml]);
}

#[test]
fn cudawrap_under_a_link() {
    torture("link", link, cudawrap, &[Main, Keeper, Nvml]);
}

#[test]
fn cudawrap_under_a_link_with_a_named_device() {
    let command = |s: &Sandbox| link(s).visible(&s.uuids()[1]);
    torture(
        "link, device named",
        command,
        cudawrap,
        &[Main, Keeper, Nvml],
    );
}
