//! The first look of a call that waits, on a node whose driver does not answer yet: it is made
//! again, with growing pauses, until the driver answers or the wait reaches its limit.

use std::time::Duration;

use nix::libc::RLIM_INFINITY;
use nix::sys::resource::{Resource, getrlimit};

use crate::Progress;
use crate::progress::Standing;
use crate::tolerance::Tolerance;
use getgpu_ask::{Node, gpu_bus};
use getgpu_linux::run_clock;
use getgpu_model::{Diag, Failure, Kind};
use getgpu_settings::Wait;

/// Looks at the node in a session that has ended when this returns, and looks again while NVML
/// fails, as long as the settings say to wait.
///
/// # Errors
///
/// That of the last look.
pub fn outlast<'s, T>(
    node: &mut Node<'s>,
    diag: &Diag,
    mut look: impl FnMut(&mut Node<'s>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let settings = node.settings();
    let (wait, began) = (settings.longest_wait(), run_clock::now());
    let (mut tolerance, mut progress) = (Tolerance::default(), None);
    let result = loop {
        let failure = match node.ask(&mut look) {
            Err(failure) if wait != Wait::NO && may_pass(&failure) => failure,
            other => break other,
        };
        let waited = run_clock::since(began);
        if wait.0.is_some_and(|time| waited >= time) {
            break Err(failure.waited(waited));
        }
        let text = failure.message.clone();
        let now = run_clock::now();
        let again = match tolerance.bear(failure, wait, now) {
            Ok(again) => again,
            Err(failure) => break Err(failure),
        };
        let progress = progress.get_or_insert_with(|| Progress::asked(settings, diag));
        progress.update(|| Standing::Trouble(text));
        let left = wait
            .0
            .map_or(Duration::MAX, |time| time.saturating_sub(waited));
        run_clock::sleep((again - now).min(left));
    };
    if let Some(mut progress) = progress {
        progress.end(result.is_ok());
    }
    result
}

/// Whether the node may answer later. A limit on the memory of this process does not pass.
fn may_pass(failure: &Failure) -> bool {
    match failure.kind {
        Kind::Nvml => getrlimit(Resource::RLIMIT_AS).is_ok_and(|(soft, _)| soft == RLIM_INFINITY),
        Kind::NoDriver => gpu_bus::has_one_without_driver(),
        _ => false,
    }
}
