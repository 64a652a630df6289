//! getgpu's story: options, settings, pool, choice, reservation, print. Each step is one call; what went wrong ends in one line.
//! NVML is asked by a forked process and is shut down before anything is settled or printed.

use std::ffi::OsString;

use getgpu_common::ask::{Client, spawn};
use getgpu_common::census::{self, Census};
use getgpu_common::diag::{Diag, Level};
use getgpu_common::error::{Failure, Kind};
use getgpu_common::exit;
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::{Detail, Device, Inventory};
use getgpu_common::lock::{Claim, Description, Place, Side};
use getgpu_common::nvml::serve::serve;
use getgpu_common::pick::{Chooser, Outcome, Picked};
use getgpu_common::request::{Request, lock_place};
use getgpu_common::settings::{Environment, Loaded, Settings, Source};
use getgpu_common::visible::Visible;

use crate::caller::{self, Process};
use crate::holder::{self, Line, Until};
use crate::options::{self, Action, Format, Keep, Options};
use crate::{explain, list, output, release, reuse, show_config};

type Asker = Client<spawn::Forked>;

/// Runs with the arguments behind the program's name; gives the exit status.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let options = match options::parse(arguments) {
        Ok(options) => options,
        Err(failure) => return fail(&Diag::new("getgpu", Level::Normal), &failure),
    };
    let diag = Diag::new("getgpu", options.level);
    let environment = Environment::of_process();
    match run(&options, &environment, &diag) {
        Ok(()) => exit::OK,
        Err(mut failure) => {
            if failure.kind == Kind::NoDriver && environment.allocation_shell {
                failure = failure.hint("you are in an allocation but not on its node: srun --pty bash");
            }
            fail(&diag, &failure)
        }
    }
}

fn fail(diag: &Diag, failure: &Failure) -> i32 {
    diag.error(failure);
    exit::getgpu(failure.kind)
}

/// The process that asks NVML for cudawrap: the connection is descriptor 0.
pub fn worker() -> i32 {
    let Ok(channel) = nix::fcntl::fcntl(std::io::stdin(), nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(3)) else { return 1 };
    let channel = getgpu_common::sys::own_fd(channel);
    spawn::seclude();
    serve(&std::fs::File::from(channel));
    0
}

fn run(options: &Options, environment: &Environment, diag: &Diag) -> Result<(), Failure> {
    if let Action::Text(text) = &options.action {
        return output::print(text);
    }
    let loaded = settings(options, environment)?;
    let settings = &loaded.settings;
    match &options.action {
        Action::ShowConfig => return output::print(&show_config::text(&loaded)),
        Action::Release(name) => return release::one(&lock_place(settings, environment, diag, false)?, name, diag),
        Action::ReleaseAll => return release::all(&lock_place(settings, environment, diag, false)?, diag),
        _ => {}
    }
    let request = Request::new(settings, environment, options.ignore_grant)?;
    let place = lock_place(settings, environment, diag, false)?;
    let call = Call { options, environment, settings, place, diag };
    match &options.action {
        Action::List { json } => list::show(open(settings)?, request, settings, &call.place, *json, options.level),
        Action::CountFree => list::count_free(open(settings)?, request, &call.place),
        _ => call.print(request),
    }
}

fn settings(options: &Options, environment: &Environment) -> Result<Loaded, Failure> {
    let mut loaded = Loaded::read(environment)?.strict()?;
    if let Some(kind) = options.kind {
        loaded.settings.kind = kind;
        loaded.from("type", Source::Option("--type"));
    }
    if let Some(time) = options.reserve_for {
        loaded.settings.reserve_for = time;
        loaded.from("reserve_for", Source::Option("--for"));
    }
    if environment.lock.is_some() {
        loaded.settings.lock.clone_from(&environment.lock);
        loaded.from("lock", Source::Variable("GETGPU_LOCK"));
    }
    Ok(loaded)
}

fn open(settings: &Settings) -> Result<Asker, Failure> {
    Client::open(spawn::fork_worker()?, settings)
}

/// One call that prints a device.
struct Call<'a> {
    options: &'a Options,
    environment: &'a Environment,
    settings: &'a Settings,
    place: Place,
    diag: &'a Diag,
}

/// What is to be printed, and the lock behind it.
struct Answer {
    uuid: Uuid,
    value: String,
    lock: Option<Description>,
}

impl Call<'_> {
    fn print(&self, mut request: Request) -> Result<(), Failure> {
        let caller = caller::find();
        let held = match self.options.keep {
            Keep::Hold(Some(pid)) if pid > 0 => Some(caller::to_hold(pid)?),
            Keep::Hold(Some(_)) if !nix::unistd::geteuid().is_root() => {
                return Err(Failure::new(Kind::Usage, "--hold=0: only root may hold without end").hint("getgpu --hold"));
            }
            _ => None,
        };
        if request.visible == Visible::Nothing {
            return Err(request.empty_grant());
        }
        if let Some(answer) = self.granted_again(&request)? {
            return self.hand_out(answer, &caller, held);
        }
        let mut client = open(self.settings)?;
        let answer = match self.answer(&mut client, &mut request, &caller) {
            Ok(answer) => answer,
            Err(failure) => {
                client.abandon();
                return Err(failure);
            }
        };
        client.close()?;
        let settled = answer.settle()?;
        self.hand_out(settled, &caller, held)
    }

    /// A grant of one device, given by its full UUID, that is ours already: nothing is chosen and NVML is not asked.
    fn granted_again(&self, request: &Request) -> Result<Option<Answer>, Failure> {
        let plain = self.options.action == Action::Print(None) && self.options.format != Format::Index;
        match request.visible.single_uuid() {
            Some(uuid) if plain && reuse::covered(&self.place, std::slice::from_ref(uuid)) => {
                let value = uuid.to_string();
                Ok(Some(self.again(uuid.clone(), value)?))
            }
            _ => Ok(None),
        }
    }

    /// A device that is ours is printed again; its reservation goes on, and with --hold a second holder joins it.
    fn again(&self, uuid: Uuid, value: String) -> Result<Answer, Failure> {
        self.diag.note(&format!("{uuid}: yours already"));
        let span = getgpu_common::lock::Span::of(&uuid);
        let join = matches!(self.options.keep, Keep::Hold(_));
        let lock = if join { getgpu_common::lock::claim::join_reservation(&self.place, span)? } else { None };
        Ok(Answer { uuid, value, lock })
    }

    fn answer(&self, client: &mut Asker, request: &mut Request, caller: &Process) -> Result<Chosen, Failure> {
        let mut known = request.resolve_grant(client)?;
        let index_wanted = matches!(self.options.action, Action::Print(Some(_)));
        if known.is_none() && (index_wanted || self.options.explain || self.options.format == Format::Index) {
            known = Some(client.scan(Detail::Place)?);
        }
        if let Some([only]) = request.filter.grant.as_deref() {
            if !index_wanted && reuse::covered(&self.place, std::slice::from_ref(only)) {
                let value = self.value(only, known.as_ref());
                return Ok(Chosen::Settled(self.again(only.clone(), value)?));
            }
        }
        if let Action::Print(Some(index)) = self.options.action {
            return self.indexed(client, request, known.unwrap_or_default(), index);
        }
        if request.visible == Visible::Unset && self.options.keep != Keep::No {
            if let Some(answer) = self.taken_over(client, request, caller, known.as_ref())? {
                return Ok(Chosen::Settled(answer));
            }
        }
        self.random(client, request, known)
    }

    /// This caller's reservation whose programs are over, if it fits the request and nobody else uses the device.
    fn taken_over(
        &self,
        client: &mut Asker,
        request: &Request,
        caller: &Process,
        known: Option<&Inventory>,
    ) -> Result<Option<Answer>, Failure> {
        let Some(line) = reuse::lingering(&self.place, caller)? else { return Ok(None) };
        let [uuid] = line.devices.as_slice() else { return Ok(None) };
        let scanned;
        let inventory = match known {
            Some(known) => Some(known),
            None if request.filter.is_open() => None,
            None => {
                scanned = client.scan(Detail::Place)?;
                Some(&scanned)
            }
        };
        let fits = match inventory {
            Some(inventory) => {
                let sorted = request.filter.sort(inventory);
                inventory.devices.iter().zip(sorted).any(|(device, out)| device.uuid == *uuid && out.is_none())
            }
            None => request.filter.fits_uuid(uuid),
        };
        let idle = fits
            && client.usage_of(uuid)?.is_ok_and(|usage| usage.activity == getgpu_common::inventory::Activity::Idle);
        if !idle {
            return Ok(None);
        }
        let Some(lock) = reuse::take_over(&self.place, &line)? else { return Ok(None) };
        self.diag.note(&format!("{uuid}: taken over from this caller's last reservation"));
        Ok(Some(Answer { uuid: uuid.clone(), value: self.value(uuid, inventory), lock: Some(lock) }))
    }

    /// The device of this index, in use or not; claimed if it is free.
    fn indexed(
        &self,
        client: &mut Asker,
        request: &Request,
        inventory: Inventory,
        index: usize,
    ) -> Result<Chosen, Failure> {
        let sorted = request.filter.sort(&inventory);
        let pool: Vec<&Device> =
            inventory.devices.iter().zip(&sorted).filter(|(_, out)| out.is_none()).map(|(d, _)| d).collect();
        if pool.is_empty() {
            return Err(census::empty_pool(&inventory, &sorted));
        }
        let Some(device) = pool.get(index).copied() else {
            let there = if pool.len() == 1 {
                "there is 1 device, 0".to_owned()
            } else {
                format!("there are {} devices, 0 to {}", pool.len(), pool.len() - 1)
            };
            return Err(Failure::new(Kind::Usage, format!("no device {index}: {there}"))
                .hint("getgpu --list; to wait for a free device: getgpu --help"));
        };
        let value = self.value(&device.uuid, Some(&inventory));
        let probe = self.place.open()?;
        let mut chooser = Chooser { client, place: &self.place, side: Side::Reservation, filter: &request.filter };
        match chooser.try_device(&probe, device)? {
            Ok(claim) => Ok(Chosen::Claimed { uuid: device.uuid.clone(), value, claim }),
            Err(why) => {
                self.diag.note(&format!("{}: not reserved: {why:?}", device.uuid));
                Ok(Chosen::Settled(Answer { uuid: device.uuid.clone(), value, lock: None }))
            }
        }
    }

    fn random(&self, client: &mut Asker, request: &Request, known: Option<Inventory>) -> Result<Chosen, Failure> {
        if let (true, Some(inventory)) = (self.options.explain, &known) {
            let sorted = request.filter.sort(inventory);
            self.lines(&explain::outside(&request.filter, inventory, &sorted));
        }
        let format_inventory = known.clone();
        let mut chooser = Chooser { client, place: &self.place, side: Side::Reservation, filter: &request.filter };
        match chooser.choose(known)? {
            Outcome::Picked(Picked { device, claim, rejected }) => {
                if self.options.explain {
                    self.lines(&explain::rejected(&rejected, &self.place, &self.place.open()?));
                }
                let value = self.value(&device.uuid, format_inventory.as_ref());
                Ok(Chosen::Claimed { uuid: device.uuid, value, claim })
            }
            Outcome::NoneFree(rejected) => {
                let probe = self.place.open()?;
                if self.options.explain {
                    self.lines(&explain::rejected(&rejected, &self.place, &probe));
                }
                Err(Census::take(&rejected, &probe).failure().hint(
                    "an empty CUDA_VISIBLE_DEVICES hides all GPUs and many programs go on on the CPU: use cudawrap -- PROGRAM",
                ))
            }
        }
    }

    fn lines(&self, lines: &[String]) {
        for line in lines {
            self.diag.line("", line);
        }
    }

    /// What is printed for a device: its UUID, or its CUDA index among the GPUs that this process can open.
    fn value(&self, uuid: &Uuid, inventory: Option<&Inventory>) -> String {
        if self.options.format != Format::Index {
            return uuid.to_string();
        }
        let gpus = inventory.map(|inventory| inventory.gpus.as_slice()).unwrap_or_default();
        let place = gpus.iter().filter(|gpu| gpu.usable).position(|gpu| gpu.uuid.as_ref() == Some(uuid));
        place.map_or_else(|| uuid.to_string(), |place| place.to_string())
    }

    /// Starts the holder, prints, and tells the holder how that went.
    fn hand_out(&self, answer: Answer, caller: &Process, held: Option<Process>) -> Result<(), Failure> {
        let text = match self.options.format {
            Format::Env => format!("export CUDA_VISIBLE_DEVICES={}\n", answer.value),
            Format::Uuid | Format::Index => format!("{}\n", answer.value),
        };
        let Some(lock) = answer.lock.filter(|_| self.options.keep != Keep::No) else { return output::print(&text) };
        let until = match (self.options.keep, held) {
            (Keep::Hold(Some(0)), _) => Until::Released,
            (Keep::Hold(_), held) => Until::Over(held.unwrap_or_else(|| caller.clone())),
            _ => Until::Programs { wait: self.settings.reserve_for, linger: self.settings.linger },
        };
        let line = Line {
            devices: vec![answer.uuid],
            granted: self.environment.visible.as_deref().is_some_and(|own| own == answer.value.as_str()),
            value: answer.value,
            caller: caller.clone(),
            since: getgpu_common::procfs::Stat::read(std::process::id() as i32).map_or(0, |stat| stat.start),
            until,
        };
        let started = holder::start(&line, lock)?;
        match output::print(&text) {
            Ok(()) => {
                started.printed();
                Ok(())
            }
            Err(failure) => {
                started.cancel();
                Err(failure)
            }
        }
    }
}

/// A choice whose claim may still have to be settled, which happens only when NVML has let go.
enum Chosen {
    Settled(Answer),
    Claimed { uuid: Uuid, value: String, claim: Claim },
}

impl Chosen {
    fn settle(self) -> Result<Answer, Failure> {
        match self {
            Self::Settled(answer) => Ok(answer),
            Self::Claimed { uuid, value, claim } => Ok(Answer { uuid, value, lock: Some(claim.settle()?) }),
        }
    }
}
