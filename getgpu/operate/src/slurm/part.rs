//! One call of getgpu inside a hook: the words that would be typed, read by the same
//! parser and answered by the same choice.

use getgpu_choose::GrantUse;
use getgpu_lock::Role;
use getgpu_model::{Failure, Kind};
use getgpu_settings::Environment;

use super::{Context, DIAG};
use crate::causes::SlurmCause;
use crate::prometheus::text;
use getgpu_core::carry_out;
use getgpu_core::options::{self, Action, Format, GetgpuOptions};

/// Reads words of the site or of a job that choose devices, and the hook's `own`.
///
/// # Errors
///
/// They are wrong, or leave the grant, or do something else than choose.
pub fn choosing(words: &[String], own: &[String]) -> Result<GetgpuOptions, Failure> {
    let typed = quietly(words.iter())?;
    match typed.action {
        Action::Print(_) if typed.grant_use == GrantUse::Ignore => {
            Err(SlurmCause::LeavesGrant.into())
        }
        Action::Print(_) => quietly(words.iter().chain(own)),
        _ => Err(SlurmCause::ChoosesNothing.into()),
    }
}

/// Whether words of a job say how many devices it wants, how much of each, or which one.
///
/// # Errors
///
/// As `choosing`.
pub fn says_how_much(words: &[String]) -> Result<bool, Failure> {
    let typed = choosing(words, &[])?;
    let amount = typed.choices.first_of(&["count", "share"]);
    Ok(amount.is_some() || typed.action != Action::Print(None))
}

fn quietly<'w>(words: impl Iterator<Item = &'w String>) -> Result<GetgpuOptions, Failure> {
    options::parse(std::iter::once("-q".into()).chain(words.map(Into::into)))
}

/// Reserves devices, or finds those under a tag, and prints them in this form.
pub fn reserve(
    context: &Context,
    environment: &Environment,
    mut options: GetgpuOptions,
    format: Format,
) -> Result<(), Failure> {
    options.format = format;
    let mut loaded = context.loaded.clone();
    // While a part is reserved or printed, the job does not have it yet.
    if options.role == Role::JobPart {
        loaded.settings.slurm.shares.clear();
    }
    carry_out(&options, loaded, environment, &DIAG, text)
}

/// Prints the lines for the part that a prolog has reserved under a tag; whether there is
/// one.
pub fn print_reserved(context: &Context, tag: &str) -> Result<bool, Failure> {
    let words = ["-q", "--tag", tag].map(Into::into);
    let mut options = options::parse(words.into_iter())?;
    options.role = Role::JobPart;
    match reserve(context, &context.environment, options, Format::Task) {
        Ok(()) => Ok(true),
        Err(failure) if failure.kind == Kind::NoneFree => Ok(false),
        Err(failure) => Err(failure),
    }
}
