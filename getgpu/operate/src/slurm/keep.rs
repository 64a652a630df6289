//! The grant of a job's only task on a node: all its devices are reserved, so that getgpu
//! gives them to no other, and the task keeps them all. CUDA_VISIBLE_DEVICES stays as
//! Slurm has set it; where Slurm has not, it names the grant from now on.

use getgpu_choose::{Asked, Grant, GrantUse, Outside};
use getgpu_lock::{Span, occupancy, ownership_proof};
use getgpu_model::{Failure, Job, Kind, Uuid, Visible};
use getgpu_settings::{Environment, SlurmTaken};

use super::task_prolog::{Denied, SlurmTask, show};
use super::tell::{self, Who};
use super::{Context, variable};
use crate::causes::SlurmCause;
use getgpu_core::call::node;
use getgpu_core::options::Format;

impl SlurmTask<'_> {
    /// Reserves the grant, by the job's `options`. If another job has a device of it the task
    /// sees none, unless the site wants it to run; if that is not known, since NVML or the
    /// settings fail, it keeps what Slurm has given.
    pub fn keep(&self, options: &[String]) -> Result<(), Denied> {
        let named = variable("CUDA_VISIBLE_DEVICES");
        let granted = match &self.context.wrong {
            Some(wrong) => Err(wrong.clone()),
            None => granted(self.context).map(|granted| self.without_excluded(granted)),
        };
        let lines = match &granted {
            Ok(granted) if !granted.is_named => {
                let devices = Uuid::join(&granted.devices);
                format!("export CUDA_VISIBLE_DEVICES={devices}\n")
            }
            Err(failure) if named.is_none() => return Err(failure.clone().into()),
            Ok(_) | Err(_) => String::new(),
        };
        let reserved = granted.and_then(|granted| self.reserve_all(&granted.devices, options));
        let Err(mut failure) = reserved else {
            return show(&lines);
        };
        if failure.kind != Kind::NoneFree
            && let Some(device) = held_by_others(self.context)
        {
            let (device, why) = (&device, &failure.message);
            failure = SlurmCause::InUseBesides { device, why }.into();
        }
        let hides = self.context.loaded.settings.slurm.taken == SlurmTaken::Hide;
        let is_refused = failure.kind == Kind::NoneFree && hides;
        if self.strict() || is_refused || !options.is_empty() {
            return Err(failure.into());
        }
        show(&lines)?;
        let shown = lines.strip_prefix("export CUDA_VISIBLE_DEVICES=");
        let visible = match shown {
            Some(devices) => format!("is {}", devices.trim_end()),
            None => format!("stays {}", named.unwrap_or_default()),
        };
        let why = failure.message;
        let text = format!("not reserved, CUDA_VISIBLE_DEVICES {visible}: {why}");
        tell::user(self.pid, Who::First, &text);
        Ok(())
    }

    /// What is left of a grant of several devices where the site excludes some; all of it where
    /// that cannot be told, or nothing is left.
    fn without_excluded(&self, mut granted: TaskGrant) -> TaskGrant {
        let excluded = excluded(self.context).unwrap_or_default();
        let is_left = |device: &&Uuid| !excluded.contains(device);
        let left: Vec<Uuid> = granted.devices.iter().filter(is_left).cloned().collect();
        if left.is_empty() || left.len() == granted.devices.len() {
            return granted;
        }
        let excluded = Uuid::join(&excluded);
        let text = format!("{excluded}: excluded by the administrator: not for this task");
        tell::user(self.pid, Who::First, &text);
        (granted.devices, granted.is_named) = (left, false);
        granted
    }

    /// Reserves all devices of the grant; other steps of the job may have some of them.
    fn reserve_all(&self, devices: &[Uuid], options: &[String]) -> Result<(), Failure> {
        let reserve = |environment: &Environment, count: usize| {
            let own = [format!("--count={count}"), format!("--hold={}", self.pid)];
            self.reserve(environment, options, &own, Format::Nothing)
        };
        let taken = match reserve(&self.context.environment, devices.len()) {
            Err(failure) if failure.kind == Kind::NoneFree => failure,
            other => return other,
        };
        let left = without_own(self.context, devices);
        if left.is_empty() {
            return Ok(());
        }
        if left.len() == devices.len() {
            return Err(taken);
        }
        let mut environment = self.context.environment.clone();
        environment.visible = Some(Uuid::join(&left).into());
        reserve(&environment, left.len())
    }
}

/// The devices of a task's grant.
struct TaskGrant {
    devices: Vec<Uuid>,
    /// CUDA_VISIBLE_DEVICES names them already.
    is_named: bool,
}

fn granted(context: &Context) -> Result<TaskGrant, Failure> {
    let settings = &context.loaded.settings;
    let mut grant = Grant::read(settings, &context.environment, GrantUse::Honor);
    let devices = node(settings).ask(|node| grant.resolve(node))?;
    Ok(TaskGrant {
        devices: devices.unwrap_or_default(),
        is_named: grant.is_named_by_variable(),
    })
}

/// The devices of the grant that the site excludes.
fn excluded(context: &Context) -> Result<Vec<Uuid>, Failure> {
    let settings = &context.loaded.settings;
    if settings.excluded.is_empty() {
        return Ok(Vec::new());
    }
    let asked = Asked::new(settings, &context.environment, GrantUse::Honor)?;
    let (granted, inventory) = node(settings).ask(|node| {
        let granted = asked.granted(node)?;
        let inventory = node.inventory(granted.look())?;
        Ok((granted, inventory))
    })?;
    let why = granted.filter.classify(&inventory);
    let devices = inventory.devices.iter().zip(why);
    let excluded = devices.filter(|(_, why)| *why == Some(Outside::Excluded));
    let grant = granted.filter.grant.as_deref().unwrap_or_default();
    let excluded = excluded.filter(|(device, _)| grant.contains(&device.uuid));
    Ok(excluded.map(|(device, _)| device.uuid.clone()).collect())
}

/// The first device of the grant that the lock says is another job's, where the settings or
/// NVML have failed: the devices that the variable names by UUID need neither, and settings
/// that are wrong still let NVML name the others.
fn held_by_others(context: &Context) -> Option<Uuid> {
    let by_uuid = Visible::parse(context.environment.visible.as_deref()).full_uuids();
    let devices = by_uuid.or_else(|| Some(granted(context).ok()?.devices))?;
    let probe = context.lock_file().ok()?.open().ok()?;
    let held = |device: &Uuid| matches!(occupancy::seen(&probe, Span::of(device)), Ok(Some(_)));
    without_own(context, &devices).into_iter().find(held)
}

/// Those that no other step of this job has reserved.
fn without_own(context: &Context, devices: &[Uuid]) -> Vec<Uuid> {
    let own = Job::own();
    let uid = nix::unistd::geteuid().as_raw();
    let holders = context.lock_file().map(|lock_file| {
        ownership_proof::reservations(&lock_file, Some(uid), &|args| {
            own.is_some() && args.job.as_ref().map(Job::number) == own.as_ref().map(Job::number)
        })
    });
    let holders = holders.unwrap_or_default();
    devices
        .iter()
        .filter(|device| {
            let mut all = holders.iter().flat_map(|holder| &holder.args.devices);
            all.all(|held| held != *device)
        })
        .cloned()
        .collect()
}
