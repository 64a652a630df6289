//! Programs that clear the environment of what they start: behind them CUDA_VISIBLE_DEVICES
//! is gone, and their program runs on the first GPU beside another user's. So it is behind those
//! that hand a job to a server. A line says so on a terminal, with the order that works.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

use getgpu_model::Diag;

/// A program's name, the arguments of which one makes it do what its table is for (empty: it always
/// does), and the order of words that works.
type Case = (&'static str, &'static [&'static str], &'static str);

/// Programs that clear the environment.
const CLEARING: &[Case] = &[
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
    (
        "cwltool",
        &[],
        "cudawrap -- cwltool --preserve-environment CUDA_VISIBLE_DEVICES tool.cwl",
    ),
    ("lit", &[], "in a test: RUN: cudawrap --wait -- ./app"),
    ("llvm-lit", &[], "in a test: RUN: cudawrap --wait -- ./app"),
    (
        "enroot",
        &["start"],
        "cudawrap -- enroot start --env CUDA_VISIBLE_DEVICES image app",
    ),
];

/// Programs that hand a job to a server, which has neither the variable nor the lease.
const HANDING_ON: &[Case] = &[
    ("at", &[], "echo 'cudawrap -- ./app' | at now"),
    ("batch", &[], "echo 'cudawrap -- ./app' | batch"),
    ("pueue", &["add"], "pueue add -- 'cudawrap --wait -- ./app'"),
    ("systemd-run", &[], "systemd-run --user cudawrap -- ./app"),
    (
        "tmux",
        &["new-window", "neww", "split-window", "splitw"],
        "tmux new-window 'cudawrap --wait -- bash'",
    ),
];

/// Tells a person at a terminal, if `program` with these words clears the environment.
pub fn tell(program: &Path, words: &[OsString], diag: &Diag) {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let words = words.iter().map(AsRef::as_ref);
    let what = if let Some(order) = order(&name, words.clone()) {
        format!(
            "{name} clears the environment, so its program does not see the leased device: {order}"
        )
    } else if let Some(order) = order_of_handing_on(&name, words) {
        format!("{name} hands its job to a server, which does not hold the leased device: {order}")
    } else {
        return;
    };
    if std::io::stderr().is_terminal() {
        diag.remark(&what);
    }
}

/// The order that works, if a program of this name hands its job to a server. systemd-run stays in
/// the caller's own process with `--scope`.
fn order_of_handing_on<'w>(
    name: &str,
    mut words: impl Iterator<Item = &'w str> + Clone,
) -> Option<&'static str> {
    let order = order_in(HANDING_ON, name, words.clone())?;
    let stays = name == "systemd-run" && words.any(|word| word == "--scope");
    (!stays).then_some(order)
}

/// The order that works, if a program of this name clears the environment. A container that is
/// given the variable or the device by name has it.
fn order<'w>(name: &str, mut words: impl Iterator<Item = &'w str> + Clone) -> Option<&'static str> {
    let order = order_in(CLEARING, name, words.clone())?;
    let passes = ["CUDA_VISIBLE_DEVICES", "device=", "nvidia.com/gpu="];
    let is_passed = words.any(|word| {
        passes.iter().any(|pass| word.contains(pass))
            || (name == "sudo" && keeps_all(word))
            || word == "--preserve-entire-environment"
    });
    (!is_passed).then_some(order)
}

/// The order of words in a table for a program of this name.
fn order_in<'w>(
    table: &[Case],
    name: &str,
    mut words: impl Iterator<Item = &'w str>,
) -> Option<&'static str> {
    let (_, needs, order) = table.iter().find(|(known, ..)| *known == name)?;
    (needs.is_empty() || words.any(|word| needs.contains(&word))).then_some(*order)
}

/// Whether it is the option of sudo that keeps the environment, among others in one word or not.
fn keeps_all(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    word == "--preserve-env" || letters.is_some_and(|letters| letters.contains('E'))
}

#[cfg(test)]
mod tests {
    use super::{order, order_of_handing_on};

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
            ("python tox", false), ("cwltool tool.cwl", true), ("lit -sv tests", true),
            ("cwltool --preserve-environment CUDA_VISIBLE_DEVICES tool.cwl", false),
            ("cwltool --preserve-entire-environment tool.cwl", false),
            ("enroot start image", true), ("enroot list", false),
        ];
        for (line, expected) in cases {
            let (name, words) = line.split_once(' ').unwrap();
            let told = order(name, words.split(' '));
            assert_eq!(told.is_some(), expected, "{line}");
        }
    }

    #[test]
    fn only_what_hands_its_job_to_a_server_is_told() {
        #[rustfmt::skip]
        let cases = [
            ("at now", true), ("batch -", true), ("tsp ./app", false), ("pueue add ./app", true),
            ("pueue status", false), ("systemd-run --user ./app", true), ("tmux attach", false),
            ("systemd-run --user --scope ./app", false), ("tmux new-window ./app", true),
            ("tmux new-session ./app", false), ("tmux -L a splitw ./app", true),
        ];
        for (line, expected) in cases {
            let (name, words) = line.split_once(' ').unwrap();
            let told = order_of_handing_on(name, words.split(' '));
            assert_eq!(told.is_some(), expected, "{line}");
        }
    }
}
