//! What frameworks are told of a part of a device, so that one of them does not take all
//! of the memory at once. PyTorch has no variable for this; a call does it:
//! torch.cuda.set_per_process_memory_fraction.

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

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn nine_tenths_of_the_share() {
        let fraction = |part| variables(part)[1].1.clone();
        assert_eq!(
            [fraction(0.5), fraction(0.25), fraction(1.0 / 3.0)],
            ["0.45", "0.225", "0.3"]
        );
    }
}
