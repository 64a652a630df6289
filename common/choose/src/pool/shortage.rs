//! The pool of every choice (`candidates`); if it has fewer devices than are wanted, what the node has
//! instead. Asking again cannot help. Pure, but for the question whether this is a container.

use std::fmt::Display;

use getgpu_linux::procfs::namespaces;
use getgpu_model::{
    Detail, Device, Failure, Inventory, NodeCause, Silent, WITHOUT_PREFIX, quantity,
};

use getgpu_settings::Type;

use super::{Filter, Outside};
use crate::causes::PoolCause;

impl Filter {
    /// How many whole GPUs are left out only since there are MIG devices.
    pub fn whole_gpus_beside(&self, inventory: &Inventory) -> usize {
        if self.kind != Type::Auto {
            return 0;
        }
        let outside = self.classify(inventory);
        let devices = inventory.devices.iter().zip(outside);
        let is_other = |(device, outside): &(&Device, Option<Outside>)| {
            device.slot.is_none() && *outside == Some(Outside::WrongType)
        };
        devices.filter(is_other).count()
    }
}

/// The devices to choose from, in the order of the node. Fewer than `count` is a failure that waiting
/// cannot cure.
///
/// # Errors
///
/// There are fewer than `count`.
pub fn candidates<'i>(
    filter: &Filter,
    inventory: &'i Inventory,
    count: usize,
) -> Result<Vec<&'i Device>, Failure> {
    let pool: Vec<&Device> = filter.pool(inventory).collect();
    let there = match pool.len() {
        0 => return Err(empty_pool(filter, inventory)),
        there if there >= count => return Ok(pool),
        there => there,
    };
    let there = match there {
        1 => "1 such device exists".to_owned(),
        _ => format!("{there} such devices exist"),
    };
    let place = filter.place("count");
    let by = place.map_or_else(String::new, |place| format!(" ({place})"));
    let (within, remedy) = match filter.grant {
        Some(_) => (" within CUDA_VISIBLE_DEVICES", filter.grant_remedy),
        None => ("", "getgpu --list shows what there is"),
    };
    let silent = inventory.nameless().next();
    let silent = silent.map_or_else(String::new, |silent| format!("; {silent}"));
    Err(PoolCause::TooFewHere {
        count,
        by,
        there,
        within,
        silent,
        remedy,
    }
    .into())
}

/// What to do in a container that was given a GPU in MIG mode and none of its devices.
pub const CONTAINER_WITHOUT_MIG: &str = "if the host's GPU has MIG devices, this container was not given one: name it when the container is started, such as docker run --gpus device=MIG-UUID";

/// Nothing in the pool: what there is instead. Asking again cannot help.
pub fn empty_pool(filter: &Filter, inventory: &Inventory) -> Failure {
    if inventory.devices.is_empty() {
        return match inventory.troubles().first() {
            Some(problem) if problem.contains(WITHOUT_PREFIX) => {
                PoolCause::UuidsWithoutPrefix { problem }.into()
            }
            Some(problem) => PoolCause::NoDeviceAnswers { problem }.into(),
            None if inventory.gpus.is_empty() => NodeCause::NoGpuHere.into(),
            None => {
                let remedy = match namespaces::in_container() {
                    true => CONTAINER_WITHOUT_MIG,
                    false => "an administrator can create them: nvidia-smi mig -cgi ... -C",
                };
                PoolCause::NoMigDevices { remedy }.into()
            }
        };
    }
    let outside = filter.classify(inventory);
    if outside.iter().all(|out| *out == Some(Outside::NotUsable)) {
        return NodeCause::NoGpuOpens.into();
    }
    let is_model = |out: &Outside| matches!(out, Outside::OtherModel | Outside::UnknownModel);
    let by_model = outside.iter().flatten().any(is_model);
    let counts = counted(outside.iter().flatten().copied());
    let parts = counts.iter();
    let parts = parts.map(|(out, n)| format!("{n} {}", filter.reason(*out)));
    let parts = parts.collect::<Vec<_>>().join("; ");
    let outside = parts + &unread_lines(filter, &outside);
    // What does not answer may be what is asked for.
    let mut silent = inventory.nameless();
    if let Some(silent) = silent.find(|silent| may_be_on(filter, silent)) {
        return PoolCause::NoneOfRequestAnswers { outside, silent }.into();
    }
    let there = if by_model {
        models(inventory)
    } else {
        there_is(inventory)
    };
    let there = there.unwrap_or_else(|| "getgpu --list shows what there is".into());
    PoolCause::NoneOfRequestExists { outside, there }.into()
}

/// Whether what does not answer may be on a GPU that is asked for.
fn may_be_on(filter: &Filter, silent: &Silent) -> bool {
    let gpus = filter.gpu_indices();
    gpus.is_none_or(|gpus| gpus.is_empty() || gpus.contains(&silent.gpu))
}

/// How many lines of a list of allowed devices could not be read, where the list keeps devices
/// out.
fn unread_lines(filter: &Filter, outside: &[Option<Outside>]) -> String {
    let bad = filter.allowed.as_ref().map_or(0, |list| list.bad.len());
    if bad == 0 || !outside.contains(&Some(Outside::NotAllowed)) {
        return String::new();
    }
    let lines = quantity::counted(bad, "line");
    format!("; {lines} of that list could not be read as a UUID (getgpu --explain shows them)")
}

/// Each with how often it comes, in the order in which they first come.
fn counted<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<(T, usize)> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for one in all {
        match counts.iter_mut().find(|(known, _)| *known == one) {
            Some((_, n)) => *n += 1,
            None => counts.push((one, 1)),
        }
    }
    counts
}

/// `here: 4 x 1g.5gb (4.75 GiB), 1 x whole GPU (39.4 GiB)`, where sizes were asked for.
fn there_is(inventory: &Inventory) -> Option<String> {
    let kinds = inventory.devices.iter().map(|device| {
        let name = match device.slot {
            Some(_) => device.profile.as_deref().unwrap_or("MIG device"),
            None => device.profile.as_deref().unwrap_or("whole GPU"),
        };
        let size = device.memory? as f64 / f64::from(1 << 30);
        Some(format!("{name} ({size:.2} GiB)"))
    });
    here(kinds.collect::<Option<Vec<_>>>()?)
}

/// `here: 8 x NVIDIA A100-SXM4-40GB`, of the GPUs that were asked for their names.
fn models(inventory: &Inventory) -> Option<String> {
    let gpus = inventory.gpus.iter();
    let asked = gpus.filter(|gpu| gpu.detail >= Some(Detail::Name));
    let names = asked.map(|gpu| gpu.name.as_deref().unwrap_or("GPU of unknown model"));
    here(names.collect())
}

fn here<T: PartialEq + Display>(kinds: Vec<T>) -> Option<String> {
    let parts = counted(kinds).into_iter();
    let parts: Vec<String> = parts.map(|(kind, n)| format!("{n} x {kind}")).collect();
    (!parts.is_empty()).then(|| format!("here: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use getgpu_model::Kind;

    #[test]
    fn what_there_is_instead() {
        let sick = Inventory {
            problems: vec!["GPU 0: lost".into()],
            ..Inventory::default()
        };
        assert_eq!(empty_pool(&Filter::default(), &sick).kind, Kind::Nvml);
        assert_eq!(
            empty_pool(&Filter::default(), &Inventory::default()).kind,
            Kind::NoUsableGpu
        );
    }
}
