//! What a program is started with: the variables that say which device it has, and the lease on it.
//! With a share also the two that frameworks read so as not to take all the memory at once.

use getgpu_common::ident::Uuid;
use getgpu_common::settings::Settings;

use crate::lease::Lease;

/// How a program is to be run.
#[derive(Debug, Default)]
pub struct Ready {
    /// Variables to be set.
    pub variables: Vec<(String, String)>,
    /// The lease, if there is one.
    pub lease: Option<Lease>,
}

impl Ready {
    /// As it is: nothing set, nothing leased.
    pub fn as_it_is() -> Self {
        Self::default()
    }

    /// With a lease. `devices`: those to be named in CUDA_VISIBLE_DEVICES; none: that stays as it is.
    pub fn leased(devices: Option<&[Uuid]>, lease: Lease, settings: &Settings) -> Self {
        let mut variables = Vec::new();
        if let Some(devices) = devices {
            let value = devices.iter().map(Uuid::as_str).collect::<Vec<_>>().join(",");
            variables.push(("CUDA_VISIBLE_DEVICES".to_owned(), value));
        }
        let part = lease.part;
        if settings.framework_memory && part < 1.0 {
            let unset = |(name, _): &(String, String)| std::env::var_os(name).is_none();
            variables.extend(frameworks(part).into_iter().filter(unset));
        }
        Self { variables, lease: Some(lease) }
    }
}

/// TensorFlow takes memory as it needs it; JAX takes nine tenths of the share.
fn frameworks(part: f64) -> [(String, String); 2] {
    let fraction = format!("{:.4}", 0.9 * part);
    [
        ("TF_FORCE_GPU_ALLOW_GROWTH".to_owned(), "true".to_owned()),
        ("XLA_PYTHON_CLIENT_MEM_FRACTION".to_owned(), fraction.trim_end_matches('0').to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::frameworks;

    #[test]
    fn nine_tenths_of_the_share() {
        let fraction = |part| frameworks(part)[1].1.clone();
        assert_eq!([fraction(0.5), fraction(0.25), fraction(1.0 / 3.0)], ["0.45", "0.225", "0.3"]);
    }
}
