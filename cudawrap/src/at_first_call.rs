//! `cudawrap --auto -- PROGRAM`: the program starts without a device, and libcudawrap.so
//! gives it one at its first CUDA call. Options become the CUDAWRAP_* variables that the
//! library goes by.

use getgpu_common::diag::Diag;
use getgpu_common::error::{Failure, Kind};
use getgpu_common::hook;
use getgpu_common::settings::{Auto, Environment, Loaded};

use crate::launch_spec::LaunchSpec;
use crate::options::{self, Options};

/// What the program is started with: no lease, but the variables that have it get one.
pub fn prepare(options: &Options, diag: &Diag) -> Result<LaunchSpec, Failure> {
    if options.bind {
        let text = "--auto: --bind has no effect on a program that is already running";
        return Err(Failure::new(Kind::Usage, text).hint("use --auto or --bind, not both"));
    }
    let library = std::env::current_exe()
        .ok()
        .and_then(|executable| hook::library(&executable))
        .ok_or_else(|| {
            Failure::new(
                Kind::Refused,
                "--auto: libcudawrap.so was not found beside cudawrap",
            )
            .hint("install it as lib/getgpu/libcudawrap.so beside cudawrap's bin")
        })?;
    let mut loaded = Loaded::read(&Environment::of_process(), None)?.strict()?;
    options::variables(&mut loaded)?;
    if loaded.settings.auto == Auto::Off {
        diag.warn("--auto: turned off on this node (auto = \"off\"): the program runs unchanged");
    }
    let library = library.to_string_lossy().into_owned();
    if let Some(other) = std::env::var_os(hook::VARIABLE).filter(|other| **other != *library) {
        diag.warn(&format!(
            "{}={}: not loaded: libcudawrap.so replaces it",
            hook::VARIABLE,
            other.to_string_lossy()
        ));
    }
    let mut variables = vec![(hook::VARIABLE.to_owned(), library)];
    variables.extend(options.choices.variables());
    variables.extend(options.switches());
    Ok(LaunchSpec {
        variables,
        lease: None,
    })
}
