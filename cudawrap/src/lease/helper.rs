//! Asking NVML without a trace: getgpu is started as a process that this one never sees as
//! a child, so that the program later finds no child, no zombie and no pending SIGCHLD.

use std::io;
use std::path::{Path, PathBuf};

use getgpu_ask::{NVML_WORKER_OPTION, Node, Worker, nvml_client::channel};
use getgpu_linux::{ChildPlan, can_run, sibling, unseen_child};
use getgpu_model::{Failure, reason};
use getgpu_settings::Settings;

use crate::causes::StartCause;

/// getgpu: beside our own executable, then as set, then where packages put it; never by
/// PATH.
fn find_getgpu(settings: &Settings) -> Result<PathBuf, Failure> {
    let packaged = ["/usr/bin/getgpu".into(), "/usr/local/bin/getgpu".into()];
    let mut elsewhere = settings.getgpu.clone().into_iter().chain(packaged);
    let found = sibling("getgpu").or_else(|| elsewhere.find(|path| can_run(path)));
    found.ok_or_else(|| StartCause::NoGetgpu.into())
}

/// This node, asked by getgpu.
pub fn node(settings: &Settings) -> Node<'_> {
    Node::new(settings, start)
}

/// Starts getgpu as the process that asks NVML.
fn start(settings: &Settings) -> Result<Worker, Failure> {
    let getgpu = find_getgpu(settings)?;
    let (ours, theirs) = channel().map_err(|e| cannot_start(&getgpu, &e))?;
    let plan = ChildPlan::new(&getgpu, &["getgpu", NVML_WORKER_OPTION], &[]);
    let child =
        unseen_child::start(&plan, &theirs, None).map_err(|e| cannot_start(&getgpu, &e.into()))?;
    Ok(Worker {
        channel: ours,
        end: Box::new(|deadline| child.end(deadline)),
    })
}

fn cannot_start(getgpu: &Path, error: &io::Error) -> Failure {
    let (getgpu, why) = (getgpu.display(), reason(error));
    StartCause::GetgpuNotStarted { getgpu, why }.into()
}
