//! What frameworks are told of a part of a device, so that one of them does not take all
//! of the memory at once. PyTorch has no variable for this; a call does it:
//! torch.cuda.set_per_process_memory_fraction.

use crate::share::Share;

/// The variables for a program with this part of a device, 1.0 being a whole one.
/// TensorFlow takes memory as it needs it; JAX takes nine tenths of the part.
pub fn variables(part: f64) -> [(&'static str, String); 2] {
    let fraction = format!("{:.4}", 0.9 * part);
    [
        ("TF_FORCE_GPU_ALLOW_GROWTH", "true".to_owned()),
        (
            "XLA_PYTHON_CLIENT_MEM_FRACTION",
            fraction.trim_end_matches('0').to_owned(),
        ),
    ]
}

/// What of it is known of a share before a device has been chosen. The fraction that a
/// size is depends on the device.
pub fn known_in_advance(share: Share) -> Vec<(&'static str, String)> {
    match share.part() {
        Some(part) if part < 1.0 => variables(part).into(),
        Some(_) => Vec::new(),
        None => variables(1.0).into_iter().take(1).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_known_in_advance_and_a_size_is_not() {
        let known = |share: &str| known_in_advance(share.parse().unwrap());
        assert_eq!(known("1/4"), variables(0.25));
        assert_eq!(known("10G"), variables(0.25)[..1]);
        assert_eq!(known("1/1"), []);
    }

    #[test]
    fn nine_tenths_of_the_share() {
        let fractions = [0.5, 0.25, 1.0 / 3.0].map(|part| variables(part)[1].1.clone());
        assert_eq!(fractions, ["0.45", "0.225", "0.3"]);
    }
}
