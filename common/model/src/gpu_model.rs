//! Which GPU is meant by `--model`: part of the name that NVML has for the product, such as
//! `H100` of `NVIDIA H100 80GB HBM3`. Pure.

/// Whether a GPU of this name is of the model that `wanted` names: its name has that text in
/// it, in small or capital letters, and no number is cut short, so that `A10` is no `A100`.
pub fn is_model(name: &str, wanted: &str) -> bool {
    let (name, wanted) = (name.to_ascii_lowercase(), wanted.to_ascii_lowercase());
    let mut found = name.match_indices(&wanted);
    found.any(|(at, part)| {
        let (before, behind) = (&name[..at], &name[at + part.len()..]);
        !is_one_number(before, part) && !is_one_number(part, behind)
    })
}

/// Whether the first text ends with a digit and the second one goes on with one.
fn is_one_number(first: &str, second: &str) -> bool {
    let digit = |letter: char| letter.is_ascii_digit();
    first.ends_with(digit) && second.starts_with(digit)
}

#[cfg(test)]
mod tests {
    use super::is_model;

    #[test]
    fn a_part_of_the_name_in_any_case_and_no_part_of_a_number() {
        let (a100, l40) = ("NVIDIA A100-SXM4-40GB", "NVIDIA L40S");
        #[rustfmt::skip]
        let cases = [
            (a100, "A100", true), (a100, "a100-sxm4", true), (a100, "nvidia", true),
            (a100, "40GB", true), (a100, "A100 SXM4", false), (a100, "H100", false),
            (a100, "A10", false), (a100, "00", false), (a100, "0GB", false),
            (l40, "L40", true), (l40, "L4", false), (l40, "l40s", true), (l40, "L40S 48GB", false),
            ("NVIDIA RTX A6000", "rtx a6000", true), ("NVIDIA A10 and A100", "A100", true),
            ("", "H100", false), ("\u{c4}100", "100", true),
        ];
        for (name, wanted, is) in cases {
            assert_eq!(is_model(name, wanted), is, "{name}: {wanted}");
        }
    }
}
