//! Programs that clear the environment of what they start: behind them CUDA_VISIBLE_DEVICES
//! is gone, and their program runs on the first GPU beside another user's. A line says so on
//! a terminal, with the order that works.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

use getgpu_model::Diag;

/// A program that clears the environment: its name, the arguments of which one makes it do so
/// (empty: it always does), and the order of words that works.
const CLEARING: &[(&str, &[&str], &str)] = &[
    ("tox", &[], "in tox.ini: commands = cudawrap -- pytest"),
    ("sudo", &[], "sudo -u USER cudawrap -- ./app"),
    ("su", &[], "su USER -c 'cudawrap -- ./app'"),
    (
        "env",
        &["-i", "-", "--ignore-environment"],
        "env -i PATH=\"$PATH\" cudawrap -- ./app",
    ),
    ("ssh", &[], "ssh HOST cudawrap -- ./app"),
    (
        "apptainer",
        &["--cleanenv", "-e"],
        "cudawrap -- sh -c 'exec apptainer exec --nv --cleanenv --env CUDA_VISIBLE_DEVICES=\"$CUDA_VISIBLE_DEVICES\" image app'",
    ),
    (
        "docker",
        &["run"],
        "docker run --gpus device=$(getgpu) image",
    ),
    (
        "podman",
        &["run"],
        "podman run --device nvidia.com/gpu=$(getgpu) image",
    ),
];

/// Tells a person at a terminal, if `program` with these words clears the environment.
pub fn tell(program: &Path, words: &[OsString], diag: &Diag) {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    if let Some(order) = order(&name, words.iter().map(AsRef::as_ref))
        && std::io::stderr().is_terminal()
    {
        diag.remark(&format!(
            "{name} clears the environment, so its program does not see the leased device: {order}"
        ));
    }
}

/// The order that works, if a program of this name clears the environment. A container that is
/// given the variable or the device by name has it.
fn order<'w>(name: &str, mut words: impl Iterator<Item = &'w str> + Clone) -> Option<&'static str> {
    let (_, needs, order) = CLEARING.iter().find(|(known, ..)| *known == name)?;
    let passes = ["CUDA_VISIBLE_DEVICES", "device=", "nvidia.com/gpu="];
    let is_passed = words.clone().any(|word| {
        passes.iter().any(|pass| word.contains(pass)) || (name == "sudo" && keeps_all(word))
    });
    let clears = needs.is_empty() || words.any(|word| needs.contains(&word));
    (clears && !is_passed).then_some(*order)
}

/// Whether it is the option of sudo that keeps the environment, among others in one word or not.
fn keeps_all(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    word == "--preserve-env" || letters.is_some_and(|letters| letters.contains('E'))
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn only_what_clears_the_environment_is_told() {
        #[rustfmt::skip]
        let cases = [
            ("tox -p", true), ("sudo -u ana ./app", true), ("sudo -E ./app", false),
            ("sudo -nE ./app", false), ("sudo --preserve-env ./app", false), ("sudo ./app-E", true),
            ("sudo --preserve-env=CUDA_VISIBLE_DEVICES ./app", false), ("su - ana", true),
            ("env A=1 ./app", false), ("env -i ./app", true), ("env - ./app", true),
            ("docker run image", true), ("docker ps", false), ("docker run my-Env-image", true),
            ("docker run -e CUDA_VISIBLE_DEVICES image", false),
            ("docker run --gpus device=MIG-1 image", false), ("podman run image", true),
            ("ssh host ./app", true), ("apptainer exec --nv image app", false),
            ("apptainer exec --nv --cleanenv image app", true),
            ("apptainer exec -e --env CUDA_VISIBLE_DEVICES=0 image app", false),
            ("python tox", false),
        ];
        for (line, expected) in cases {
            let (name, words) = line.split_once(' ').unwrap();
            let told = order(name, words.split(' '));
            assert_eq!(told.is_some(), expected, "{line}");
        }
    }
}
