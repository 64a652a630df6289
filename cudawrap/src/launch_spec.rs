//! What a program is started with: variables to be set, and the lease that it inherits.
//! MPS and the binding to CPUs add to it.

use getgpu_common::frameworks;
use getgpu_common::ident::Uuid;
use getgpu_common::settings::Settings;

use crate::lease::Lease;

/// How a program is to be run.
#[derive(Debug, Default)]
pub struct LaunchSpec {
    /// Variables to be set.
    pub variables: Vec<(String, String)>,
    /// The lease, if there is one.
    pub lease: Option<Lease>,
}

impl LaunchSpec {
    /// As it is: nothing set, nothing leased.
    pub fn unchanged() -> Self {
        Self::default()
    }

    /// Without a lease, on devices that were named for it. `devices`: as for a lease.
    pub fn without_lease(devices: Option<&[Uuid]>) -> Self {
        Self {
            variables: devices.map(visible).into_iter().collect(),
            lease: None,
        }
    }

    /// With a lease. `devices`: those to be named in CUDA_VISIBLE_DEVICES; none: that
    /// stays as it is.
    pub fn leased(devices: Option<&[Uuid]>, lease: Lease, settings: &Settings) -> Self {
        let mut variables: Vec<(String, String)> = devices.map(visible).into_iter().collect();
        if settings.framework_memory && lease.part < 1.0 {
            // What the enclosing part set is of that part, and no wish of the user's.
            // `cudawrap --auto` has set what the share alone says, before there was a lease.
            let above = lease.enclosing_part().map(frameworks::variables);
            let in_advance = settings.share.map(frameworks::known_in_advance);
            let own = frameworks::variables(lease.part).into_iter();
            let own = own.filter(|(name, _)| {
                std::env::var_os(name).is_none_or(|value| {
                    let above = above.iter().flatten();
                    let mut by_cudawrap = above.chain(in_advance.iter().flatten());
                    by_cudawrap.any(|(known, set)| known == name && value == **set)
                })
            });
            variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        }
        Self {
            variables,
            lease: Some(lease),
        }
    }
}

/// CUDA_VISIBLE_DEVICES for these devices.
fn visible(devices: &[Uuid]) -> (String, String) {
    ("CUDA_VISIBLE_DEVICES".to_owned(), Uuid::join(devices))
}
