//! `--visible`: what a program sees of the devices that it could choose from: its own, its own
//! before the others, or all of them as they are listed.

use getgpu_choose::Granted;
use getgpu_model::{Failure, Uuid};
use getgpu_settings::{Settings, Shown};

use crate::causes::CudawrapUsage;

/// Whether the program is to see more than its own device, so that the others have to be known
/// before one is chosen.
pub fn shows_others(settings: &Settings) -> bool {
    settings.visible != Shown::One
}

/// # Errors
///
/// More than one device is wanted by a program that is to see others too.
pub fn check(settings: &Settings, request: &Granted) -> Result<(), Failure> {
    if shows_others(settings) && request.count > 1 {
        let count = request.count;
        let remedy = settings
            .places
            .get("visible")
            .map_or_else(String::new, |place| {
                format!("{place} sets it; --visible one goes before that")
            });
        return Err(CudawrapUsage::ManyShown { count, remedy }.into());
    }
    Ok(())
}

/// The devices that the program is to see behind its own, of those `listed`. A program that
/// sees all as they are listed uses the one at its own number `local`, so only that is chosen.
pub fn others(
    settings: &Settings,
    granted: Granted,
    listed: Vec<Uuid>,
    local: usize,
) -> (Granted, Vec<Uuid>) {
    let own = listed.get(local % listed.len().max(1));
    match (settings.visible, own) {
        (Shown::One, _) => (granted, Vec::new()),
        (Shown::All, Some(own)) => (granted.only(own.clone()), listed),
        (Shown::First | Shown::All, _) => (granted, listed),
    }
}

/// What CUDA_VISIBLE_DEVICES is to name for a program that has `own`; none: it stays as
/// it is.
pub fn shown(
    own: Vec<Uuid>,
    others: &[Uuid],
    request: &Granted,
    settings: &Settings,
) -> Option<Vec<Uuid>> {
    match settings.visible {
        Shown::One => Some(own),
        Shown::First => {
            let others = others.iter().filter(|other| !own.contains(other)).cloned();
            let others: Vec<Uuid> = others.collect();
            Some(own.into_iter().chain(others).collect())
        }
        Shown::All if request.grant.is_named_by_variable() => None,
        Shown::All => Some(others.to_vec()),
    }
}
