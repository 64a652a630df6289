//! Finding the lock for one call, and saying what it means where it is not the host's.
//! Without a lock place nothing is handed out.

use crate::error::{Failure, Kind};
use crate::lock::{Origin, Place};
use crate::settings::{Environment, Settings, Unshared};

/// Finds the lock and says, where it is not the host's, what that means. `quiet`: a
/// wrapped program says nothing.
pub fn lock_place(
    settings: &Settings,
    environment: &Environment,
    diag: &crate::diag::Diag,
    quiet: bool,
) -> Result<Place, Failure> {
    let place = Place::find(environment.lock.clone(), settings.lock.clone())?;
    if place.origin == Origin::Private {
        if !quiet && settings.unshared != Unshared::Quiet {
            diag.warn(&format!(
                "no /run/getgpu on this node: {} excludes only your own programs",
                place.path.display()
            ));
        }
        return Ok(place);
    }
    if settings.unshared == Unshared::Quiet || crate::lock::shared::with_host(&place) {
        return Ok(place);
    }
    let directory = place
        .path
        .parent()
        .unwrap_or(&place.path)
        .display()
        .to_string();
    let text =
        format!("{directory}: not shared with the host: devices given elsewhere are not excluded");
    let hint = format!("mount {directory}");
    if settings.unshared == Unshared::Fail {
        return Err(Failure::new(Kind::LockPlace, text).hint(hint));
    }
    if !quiet {
        diag.warn(&text);
        diag.hint(&hint);
    }
    Ok(place)
}
