//! The process that asks NVML: reads requests, answers each with a line, and shuts the
//! library down at the end. It has no lock, no terminal and no standard output while the
//! library is loaded; a stub library may print a banner.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use getgpu_common::error::{Failure, Kind};
use getgpu_common::inventory::Detail;
use getgpu_common::nvml_client::rules::Rules;
use getgpu_common::nvml_client::wire::{Answer, Request};

use super::fault::Fault;
use super::library;
use super::session::Session;
use super::{affinity, usage};

/// Serves until `Quit` or the end of the requests.
pub fn serve(channel: &File) {
    let mut lines = BufReader::new(channel).lines();
    let mut answers = channel;
    let mut next = || -> Option<Request> { serde_json::from_str(&lines.next()?.ok()?).ok() };
    let mut say = |answer: &Answer| -> bool {
        let Ok(mut line) = serde_json::to_vec(answer) else {
            return false;
        };
        line.push(b'\n');
        answers.write_all(&line).is_ok()
    };
    let Some(Request::Open { library, rules }) = next() else {
        return;
    };
    let nvml = match library::open(library.as_deref()) {
        Ok(nvml) => nvml,
        Err(failure) => {
            say(&Answer::Failed(failure));
            return;
        }
    };
    let mut session = Session::new(&nvml);
    if !say(&Answer::Opened) {
        return;
    }
    while let Some(request) = next() {
        match answer(&mut session, &rules, request) {
            Some(answer) if say(&answer) => {}
            _ => break,
        }
    }
    drop(session);
    // The last line comes after the shutdown: an answer counts only when the library has
    // let go of the GPUs.
    drop(nvml);
    say(&Answer::Bye);
}

/// The answer to a request; none to the last one.
fn answer(session: &mut Session<'_>, rules: &Rules, request: Request) -> Option<Answer> {
    if request == Request::Quit {
        return None;
    }
    let answer = asked(session, rules, request);
    Some(answer.unwrap_or_else(|fault| Answer::Failed(failure(fault))))
}

fn asked(session: &mut Session<'_>, rules: &Rules, request: Request) -> Result<Answer, Fault> {
    Ok(match request {
        Request::Count => Answer::Count(session.count()?),
        Request::Gpu { gpu } => Answer::Gpu(session.gpu(gpu, Detail::Uuid)?),
        Request::Device { gpu, slot, detail } => Answer::Device(session.device(gpu, slot, detail)?),
        Request::Usage { uuid, detail } => {
            Answer::Usage(usage::usage(session, rules, &uuid, detail)?)
        }
        Request::Usages { devices, detail } => {
            let usage = |uuid| usage::usage(session, rules, uuid, detail).map_err(failure);
            Answer::Usages(devices.iter().map(usage).collect())
        }
        Request::Cpus { uuid } => Answer::Cpus(affinity::cpus(session, &uuid)?),
        Request::Scan { detail } => Answer::Scan(session.scan(detail)?),
        // `serve` ends there, and says so when the library has let go.
        Request::Quit => Answer::Bye,
        Request::Open { .. } => Answer::Failed(Failure::new(Kind::Nvml, "opened twice")),
    })
}

fn failure(fault: Fault) -> Failure {
    Failure::new(Kind::Nvml, format!("NVML {fault}"))
}
