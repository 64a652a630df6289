//! What the settings alone say of the devices that a call may have. What it was granted, and
//! what it asks for by options of its own, the request adds to it.

use getgpu_settings::{DeviceList, Settings, allowed};

use super::grant::WITHOUT_GRANT;
use crate::pool::Filter;

/// Which devices the settings leave, of those that are `allowed`.
pub(super) fn of_settings(settings: &Settings, allowed: Option<DeviceList>) -> Filter {
    Filter {
        kind: settings.kind,
        allowed,
        excluded: allowed::excluded(settings),
        granted_alone: None,
        grant: None,
        grant_remedy: WITHOUT_GRANT,
        profiles: settings.profile.clone(),
        models: settings.model.clone(),
        preferred: settings.prefer_model.clone(),
        only_preferred: false,
        min_memory: settings.min_memory,
        share: settings.share,
        share_by_default: settings.share_by_default,
        gpus: settings.gpu.clone(),
        places: settings.places.clone(),
    }
}
