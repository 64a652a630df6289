//! From options, settings and environment to the pool that one call chooses from.
//! The same for getgpu and cudawrap, so that both mean the same devices.

use crate::ask::{Client, Worker};
use crate::error::{Failure, Kind};
use crate::inventory::{Detail, Inventory};
use crate::lock::Origin;
use crate::lock::Place;
use crate::pick::vanished;
use crate::pool::Filter;
use crate::settings::{Environment, Settings, Unshared, WithoutGrant, allowed};
use crate::visible::{self, Visible};

/// What one call asks for.
#[derive(Debug)]
pub struct Request {
    /// The grant as typed.
    pub visible: Visible,
    /// The pool without the grant, which NVML has to resolve.
    pub filter: Filter,
    /// The grant's text, for messages.
    value: String,
}

impl Request {
    /// Reads lists and grant. `ignore_grant`: as if CUDA_VISIBLE_DEVICES were not set.
    pub fn new(settings: &Settings, environment: &Environment, ignore_grant: bool) -> Result<Self, Failure> {
        let value = environment.visible.as_deref().filter(|_| !ignore_grant);
        let visible = Visible::parse(value);
        if visible == Visible::Unset && environment.batch_job && settings.without_grant == WithoutGrant::None {
            return Err(Failure::new(Kind::NoUsableGpu, "this job was given no GPU")
                .hint("ask the batch system for one, for example: srun --gres=gpu:1"));
        }
        // What a batch system has granted is not cut by the list for interactive use.
        let granted_by_batch = environment.batch_job && matches!(visible, Visible::Entries(_));
        let allowed = if granted_by_batch { None } else { allowed::allowed(settings)? };
        Ok(Self {
            filter: Filter { kind: settings.kind, allowed, excluded: allowed::excluded(settings), grant: None },
            value: value.map(|v| v.to_string_lossy().into_owned()).unwrap_or_default(),
            visible,
        })
    }

    /// The devices that the grant names must exist; without a grant nothing is asked.
    pub fn resolve_grant<W: Worker>(&mut self, client: &mut Client<W>) -> Result<Option<Inventory>, Failure> {
        let entries = match &self.visible {
            Visible::Unset => return Ok(None),
            Visible::Nothing => return Err(self.empty_grant()),
            Visible::Entries(entries) => entries,
        };
        let inventory = client.scan(Detail::Place)?;
        let named = visible::resolve(entries, &inventory);
        if named.is_empty() {
            return Err(vanished(&self.value));
        }
        self.filter.grant = Some(named.into_iter().map(|device| device.uuid).collect());
        Ok(Some(inventory))
    }

    /// The failure of a variable that names no device.
    pub fn empty_grant(&self) -> Failure {
        let shown = if self.value.is_empty() { "empty" } else { self.value.as_str() };
        Failure::new(Kind::NoDevice, format!("CUDA_VISIBLE_DEVICES is {shown}: it names no device"))
            .hint("unset CUDA_VISIBLE_DEVICES, or use --ignore-grant")
    }

    /// The grant's text.
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Finds the lock and says, where it is not the host's, what that means. `quiet`: a wrapped program says nothing.
pub fn lock_place(
    settings: &Settings,
    environment: &Environment,
    diag: &crate::diag::Diag,
    quiet: bool,
) -> Result<Place, Failure> {
    let place = Place::find(environment.lock.clone(), settings.lock.clone())?;
    if place.origin == Origin::Private {
        use std::io::IsTerminal;
        if !quiet && std::io::stderr().is_terminal() {
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
    let directory = place.path.parent().unwrap_or(&place.path).display().to_string();
    let text = format!("{directory}: not shared with the host: devices given elsewhere are not excluded");
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
