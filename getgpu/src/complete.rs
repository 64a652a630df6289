//! What completions ask getgpu: the values that `--release` can take. What the holders know
//! is printed at once; what only the driver knows, if it answers soon.

use std::collections::BTreeSet;
use std::time::Duration;

use getgpu_common::diag::{Diag, Level, show};
use getgpu_common::error::Failure;
use getgpu_common::exit;
use getgpu_common::ident::Uuid;
use getgpu_common::node_lock::find_lock_file;
use getgpu_common::request::Request;
use getgpu_common::settings::{Environment, Loaded, Settings};

use crate::invocation::open;
use crate::{list, release};

/// The hidden first argument with which completions ask.
pub const COMPLETE: &str = "--complete";

/// A person has pressed a key: the driver may take so long, and no longer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Prints tags and UUIDs of one's own reservations, and the indices of their devices, a
/// line each; nothing where there is nothing, and less where something is wrong.
pub fn complete() -> i32 {
    // What is wrong is said by the command itself, not at a key.
    let _ = print();
    exit::OK
}

fn print() -> Result<(), Failure> {
    let (environment, diag) = (Environment::of_process(), Diag::new("getgpu", Level::Quiet));
    let mut settings = Loaded::read(&environment, None)?.settings;
    let names = release::names(&find_lock_file(&settings, &environment, &diag, false)?);
    let devices = names.devices.iter().map(Uuid::to_string);
    lines(names.tags.iter().cloned().chain(devices))?;
    if names.devices.is_empty() {
        return Ok(());
    }
    settings.nvml_timeout = settings.nvml_timeout.min(PATIENCE);
    let indices = indices(&settings, &environment, &names.devices)?;
    lines(indices.iter().map(usize::to_string))
}

/// Where the devices stand in the list of this caller.
fn indices(
    settings: &Settings,
    environment: &Environment,
    devices: &BTreeSet<Uuid>,
) -> Result<Vec<usize>, Failure> {
    let listed = Request::listed(settings, environment, false)?;
    list::indices_of(open(settings)?, listed, devices)
}

fn lines(values: impl Iterator<Item = String>) -> Result<(), Failure> {
    show(&values.map(|value| value + "\n").collect::<String>())
}
