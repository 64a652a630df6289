//! The process that asks NVML: reads requests, answers each with a line, and shuts the
//! library down at the end. It has no lock, no terminal and no standard output while the
//! library is loaded; a stub library may print a banner.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use super::affinity;
use super::session::{self, Session};
use super::usage;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::nvml_client::wire::{Answer, Request};

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
    let nvml = match session::open(library.as_deref()) {
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
    let fault = |fault: super::fault::Fault| {
        Answer::Failed(Failure::new(Kind::Nvml, format!("NVML {fault}")))
    };
    while let Some(request) = next() {
        let answer = match request {
            Request::Count => session.count().map_or_else(fault, Answer::Count),
            Request::Gpu { gpu } => session
                .gpu(gpu, getgpu_common::inventory::Detail::Uuid)
                .map_or_else(fault, Answer::Gpu),
            Request::Device { gpu, slot, detail } => session
                .device(gpu, slot, detail)
                .map_or_else(fault, Answer::Device),
            Request::Usage { gpu, slot, detail } => {
                usage::usage(&mut session, &rules, gpu, slot, detail)
                    .map_or_else(fault, Answer::Usage)
            }
            Request::UsageOf { uuid } => {
                usage::usage_of(&mut session, &rules, &uuid).map_or_else(fault, Answer::Usage)
            }
            Request::Cpus { gpu } => {
                affinity::cpus(&mut session, gpu).map_or_else(fault, Answer::Cpus)
            }
            Request::CpusOf { uuid } => {
                affinity::cpus_of(&session, &uuid).map_or_else(fault, Answer::Cpus)
            }
            Request::Scan { detail } => session.scan(detail).map_or_else(fault, Answer::Scan),
            Request::Quit => break,
            Request::Open { .. } => Answer::Failed(Failure::new(Kind::Nvml, "opened twice")),
        };
        if !say(&answer) {
            break;
        }
    }
    drop(session);
    // The last line comes after the shutdown: an answer counts only when the library has
    // let go of the GPUs.
    drop(nvml);
    say(&Answer::Bye);
}
