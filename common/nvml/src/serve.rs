//! The process that asks NVML: reads requests, answers each with a line, and shuts the
//! library down at the end. It has no lock, no terminal and no standard output while the
//! library is loaded; a stub library may print a banner.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::rc::Rc;

use getgpu_ask::{NvmlRequest, Rules};
use getgpu_model::{Detail, Failure};
use serde::Serialize;

use super::causes::{InitRemedy, NvmlCause};
use super::fault::Fault;
use super::library;
use super::session::Session;
use super::{affinity, gauges, health, links, raw, usage};

/// Serves until `Quit` or the end of the requests.
pub fn serve(channel: &File) {
    let mut requests = BufReader::new(channel)
        .lines()
        .map_while(|line| serde_json::from_str::<NvmlRequest>(&line.ok()?).ok());
    let Some(NvmlRequest::Open { library, rules }) = requests.next() else {
        return;
    };
    let nvml = match library::open(library.as_deref()) {
        Ok(nvml) => nvml,
        Err(failure) => {
            send(channel, &Err::<(), _>(failure));
            return;
        }
    };
    let mut session = Session::new(&nvml);
    if !send(channel, &Ok(())) {
        return;
    }
    for request in requests {
        if !answer(channel, &mut session, &rules, request) {
            break;
        }
    }
    drop(session);
    // The last line comes after the shutdown: an answer counts only when the library has
    // let go of the GPUs.
    drop(nvml);
    send(channel, &Ok(()));
}

/// Writes an answer as one line; false if nothing reads it any more.
fn send<T: Serialize>(mut channel: &File, answer: &Result<T, Failure>) -> bool {
    let Ok(mut line) = serde_json::to_vec(answer) else {
        return false;
    };
    line.push(b'\n');
    channel.write_all(&line).is_ok()
}

/// Answers a request; false if it was the last one.
fn answer(channel: &File, session: &mut Session<'_>, rules: &Rules, request: NvmlRequest) -> bool {
    match request {
        NvmlRequest::Count => tell(channel, session.count()),
        NvmlRequest::Gpu { gpu } => tell(channel, session.gpu(gpu, Detail::Uuid)),
        NvmlRequest::Device { gpu, slot, detail } => {
            tell(channel, session.device(gpu, slot, detail))
        }
        NvmlRequest::Driver => tell(channel, Ok(session.driver_version())),
        NvmlRequest::List { gpu, detail } => tell(channel, Ok(session.list(gpu, detail))),
        NvmlRequest::Usages { devices, detail } => {
            let usages = devices.iter().map(|asked| {
                let told = usage::usage(session, rules, asked, detail);
                told.map_err(Failure::from)
            });
            tell(channel, Ok(usages.collect::<Vec<_>>()))
        }
        NvmlRequest::Cpus { device } => tell(channel, affinity::cpus(session, &device)),
        NvmlRequest::Health { device } => {
            let place = session.place(&device);
            let health = place.map(|place| health::health(session, place, Detail::Full));
            tell(channel, health)
        }
        NvmlRequest::Persistence { gpu } => tell(channel, Ok(health::persistence(session, gpu))),
        NvmlRequest::Gauge { gpu, gauge } => tell(channel, Ok(gauges::gauge(session, gpu, gauge))),
        NvmlRequest::Utilizations { devices } => {
            tell(channel, Ok(gauges::utilizations(session, &devices)))
        }
        NvmlRequest::Links { gpu, others } => tell(channel, links::links(session, gpu, &others)),
        NvmlRequest::LimitMemory {
            device,
            cgroup,
            bytes,
        } => {
            let gpu = session.handle_of(&device);
            let limit = |gpu: Rc<_>| raw::limit_memory(session.nvml, &gpu, &cgroup, bytes);
            tell(channel, gpu.and_then(limit))
        }
        NvmlRequest::MemoryLimit { device, cgroup } => {
            let gpu = session.handle_of(&device);
            let limit = |gpu: Rc<_>| raw::memory_limit(session.nvml, &gpu, &cgroup);
            tell(channel, gpu.and_then(limit))
        }
        NvmlRequest::Quit | NvmlRequest::Open { .. } => false,
    }
}

fn tell<T: Serialize>(channel: &File, answer: Result<T, Fault>) -> bool {
    send(channel, &answer.map_err(Failure::from))
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let remedy = InitRemedy::Started;
        NvmlCause::CallFailed { fault, remedy }.into()
    }
}
