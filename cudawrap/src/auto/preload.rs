//! `cudawrap --auto -- PROGRAM`, or a linked program with `lease = "first_call"`: the program
//! starts without a device, and libcudawrap.so
//! gives it one at its first CUDA call. Options become the CUDAWRAP_* variables that the
//! library goes by. Variables for frameworks are set now, as far as they are known: the
//! driver has a thread of its own from 550 on when it loads the library, which then sets
//! no other variable than CUDA_VISIBLE_DEVICES, and Python has copied its environment.

use getgpu_model::lease_tag;
use std::ffi::OsStr;
use std::path::Path;

use getgpu_linux::{program_name, sys};
use getgpu_model::{Diag, Failure, frameworks, visible::hides_all};
use getgpu_settings::{Auto, Environment, LeaseAt, Loaded, Scope, Settings, matches};

use crate::causes::CudawrapUsage;
use crate::lease::handover::LaunchSpec;
use crate::options::CudawrapOptions;

/// Options that have no effect on a program that runs already: its threads have their CPUs.
const AT_START_ONLY: [&str; 1] = ["bind"];

/// What the program is started with: no lease, but the variables that have it get one.
/// `loaded`: the settings that are in force for it, options included.
pub fn prepare(
    options: &CudawrapOptions,
    loaded: &Loaded,
    program: &Path,
    diag: &Diag,
) -> Result<LaunchSpec, Failure> {
    if let Some(option) = options.choices.first_of(&AT_START_ONLY) {
        return Err(CudawrapUsage::AutoAtStart { option }.into());
    }
    let library = getgpu_auto::installed_library().ok_or(CudawrapUsage::NoLibrary)?;
    let name = program_name(program);
    if loaded.settings.auto.gives == Auto::Off {
        diag.warn("--auto: turned off on this node (auto = \"off\"): the program runs unchanged");
    } else if getgpu_auto::leaves_alone(&name, &loaded.settings) {
        diag.warn(&format!(
            "--auto: {name} is left alone on this node (auto_except): it gets no device"
        ));
    }
    let library = library.to_string_lossy().into_owned();
    if let Some(other) = std::env::var_os(getgpu_auto::VARIABLE).filter(|other| **other != *library)
    {
        diag.warn(&format!(
            "{}={}: not loaded: libcudawrap.so replaces it",
            getgpu_auto::VARIABLE,
            other.to_string_lossy()
        ));
    }
    let mut variables = vec![(getgpu_auto::VARIABLE.to_owned(), library)];
    variables.extend(options.choices.variables());
    if options.typed.choosing.ignore_grant {
        variables.push(("CUDAWRAP_IGNORE_GRANT".to_owned(), "1".to_owned()));
    }
    variables.extend(table(loaded, program));
    let tag = options.typed.running.tag.clone();
    variables.extend(tag.map(|tag| (lease_tag::VARIABLE.to_owned(), tag)));
    if loaded.settings.auto.gives != Auto::Off {
        variables.extend(for_frameworks(&loaded.settings));
    }
    Ok(LaunchSpec {
        variables,
        ..LaunchSpec::default()
    })
}

/// The same for a linked program that is to take its device so. None: it takes it now,
/// since it is to, or since nothing would give it one later.
pub fn of_linked(loaded: &Loaded, environment: &Environment, program: &Path) -> Option<LaunchSpec> {
    let settings = &loaded.settings;
    let is_alone = getgpu_auto::leaves_alone(&program_name(program), settings);
    if settings.lease == LeaseAt::Start || is_alone || sys::secure_execution() {
        return None;
    }
    let library = getgpu_auto::installed_library()?
        .to_string_lossy()
        .into_owned();
    let other = std::env::var_os(getgpu_auto::VARIABLE);
    if other.is_some_and(|other| !other.is_empty() && *other != *library) {
        // A profiler, for example, is in its place.
        return None;
    }
    let visible = environment.visible.as_deref().map(OsStr::to_string_lossy);
    if visible.is_some_and(|visible| hides_all(&visible)) {
        return Some(LaunchSpec::unchanged());
    }
    let mut variables = vec![(getgpu_auto::VARIABLE.to_owned(), library)];
    variables.extend(table(loaded, program));
    variables.extend(for_frameworks(settings));
    Some(LaunchSpec {
        variables,
        ..LaunchSpec::default()
    })
}

/// What names the program at the first call, where its table says more than that it has its
/// device only then, or where the variable names what has started it.
fn table(loaded: &Loaded, program: &Path) -> Option<(String, String)> {
    let name = program_name(program);
    let lines = loaded.scoped.iter();
    let mut lines = lines.filter(|line| line.scope == Scope::Program && line.key != "lease");
    let has_line = lines.any(|line| matches(&line.name, &name));
    let is_set = std::env::var_os(getgpu_auto::TABLE).is_some();
    (has_line || is_set).then(|| (getgpu_auto::TABLE.to_owned(), name))
}

/// The variables that a share alone decides, unless they are set.
fn for_frameworks(settings: &Settings) -> Vec<(String, String)> {
    let share = settings.share.filter(|_| settings.framework_memory);
    let known = share.map(frameworks::known_in_advance).unwrap_or_default();
    known
        .into_iter()
        .filter(|(name, _)| std::env::var_os(name).is_none())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
