//! One look at the node: free devices are claimed, or the failure says why there are
//! none, or the caller is to wait in the queue. The same for getgpu and cudawrap; what
//! each adds to it, such as `--explain`, it adds as an `Observer`.

use std::io::IsTerminal;
use std::time::Duration;

use crate::choice::cap;
use crate::choice::chooser::{Chooser, Guard, Outcome, Picked};
use crate::choice::rejection_report::{self, Rejected, RejectionReport};
use crate::diag::Diag;
use crate::error::{Failure, Kind};
use crate::ident::Uuid;
use crate::inventory::{Device, Inventory};
use crate::lock::{LockFile, OfdLock, Side};
use crate::nvml_client::{Ask, Client, Worker};
use crate::pool::Portion;
use crate::queue::lingering::{self, Prospect};
use crate::queue::{self, Patience, Progress, Search, Waiter};
use crate::request::Request;
use crate::settings::{Environment, Settings};

/// What came of one look.
pub enum Selected {
    /// Free devices, claimed. The guard is kept until they are signed.
    Picked(Vec<Picked>, Guard),
    /// There is nothing to have now, and the caller does not wait.
    Failed(Failure),
    /// There is nothing to have now, and the caller joins the queue.
    Queue(Queueing),
}

/// A request that joins the queue.
pub struct Queueing {
    /// What is known of the node.
    pub inventory: Inventory,
    /// Whether the caller asked for a wait.
    asked: bool,
    prospect: Prospect,
    /// Why there is nothing to have now.
    failure: Failure,
}

impl Queueing {
    /// Waits in the queue: as long as the caller asked for, and long enough for
    /// reservations that linger to end.
    ///
    /// # Errors
    ///
    /// The wait was in vain.
    pub fn wait<W: Worker>(
        self,
        lock_file: &LockFile,
        side: Side,
        request: Request,
        (settings, environment): (&Settings, &Environment),
        open: &mut dyn FnMut() -> Result<Client<W>, Failure>,
        diag: &Diag,
    ) -> Result<(Vec<Picked>, Guard, Request), Failure> {
        let progress = if self.asked {
            if let Some(line) = settings.wait_is_cut() {
                diag.warn(&line);
            }
            Progress::new(diag)
        } else {
            Progress::silent(diag)
        };
        let patience = self.patience(settings);
        let queue = request.queue();
        let search = Search::new(lock_file, side, request, self.inventory, environment, open);
        Waiter::new(lock_file, queue, search, progress, patience)?.wait()
    }

    fn patience(&self, settings: &Settings) -> Patience {
        let lingering = settings.linger + lingering::MARGIN;
        // Once more where reservations still linger: on a busy machine those ahead take
        // their time.
        let (least, extensions) = match self.prospect {
            Prospect::None => (Duration::ZERO, Vec::new()),
            Prospect::Possible => (lingering::NOTICE, vec![lingering; 2]),
            Prospect::Lingering => (lingering, vec![lingering]),
        };
        let asked = Patience::from(settings.longest_wait());
        Patience {
            limit: asked.limit.map(|limit| limit.max(least)),
            extensions,
            failure: (!self.asked).then(|| self.failure.clone()),
        }
    }
}

/// What came of one look, before the queue is considered.
enum Look {
    Picked(Vec<Picked>, Guard),
    NoneFree(Failure),
    /// The user holds as many devices as the site allows.
    OverLimit(Failure),
}

/// What a program adds to a selection.
pub trait Observer<A: Ask> {
    /// The whole node had to be looked at; `pool`: what of it may be chosen from.
    ///
    /// # Errors
    ///
    /// These devices are no use to the program.
    fn known(&mut self, inventory: &Inventory, pool: &[&Device]) -> Result<(), Failure>;

    /// Devices were claimed.
    ///
    /// # Errors
    ///
    /// They are no use to the program together.
    fn picked(
        &mut self,
        chooser: &mut Chooser<'_, A>,
        picked: &[Picked],
        known: Option<&Inventory>,
    ) -> Result<(), Failure>;

    /// No device was free: why, for each of the pool.
    fn rejected(&mut self, rejected: &[(Device, Rejected)], probe: &OfdLock);

    /// The program is to wait for devices of this pool.
    ///
    /// # Errors
    ///
    /// None of them would ever be of use to it.
    fn waits(&mut self, pool: &[&Device], inventory: &Inventory) -> Result<(), Failure>;

    /// What a person can do when nothing is free; with `queue`, when others wait for it.
    fn hint(&self, queue: bool) -> &'static str;
}

/// What a selection is made with.
pub struct Selection<'a, A: Ask> {
    pub client: &'a mut A,
    pub lock_file: &'a LockFile,
    pub side: Side,
    /// What is asked for.
    pub request: &'a Request,
    /// Whether the caller waits when nothing is free.
    pub waits: bool,
}

impl<A: Ask> Selection<'_, A> {
    /// Looks once. `known`: the node, where that was needed already.
    ///
    /// # Errors
    ///
    /// What waiting cannot cure: NVML, the lock, a pool that could never meet the
    /// request.
    pub fn run(
        mut self,
        known: Option<Inventory>,
        observer: &mut dyn Observer<A>,
    ) -> Result<Selected, Failure> {
        cap::possible(self.request, None)?;
        let probe = self.lock_file.open()?;
        let ahead = queue::waiting(&probe, Some(self.request.queue()))?;
        let mut known = known;
        // Of several devices it has to be known whether a program can use them together.
        if known.is_none() && (self.request.count > 1 || ahead > 0) {
            known = Some(self.scan()?);
        }
        if let Some(inventory) = &known {
            cap::possible(self.request, Some(inventory))?;
            let pool: Vec<&Device> = self.request.filter.pool(inventory).collect();
            observer.known(inventory, &pool)?;
            fits_inside(self.request, inventory)?;
        }
        let (failure, over_limit) = match self.behind(ahead, &probe, &mut known, observer)? {
            Look::Picked(picked, guard) => return Ok(Selected::Picked(picked, guard)),
            Look::NoneFree(failure) => (failure, false),
            Look::OverLimit(failure) => (failure, true),
        };
        let inventory = known.map_or_else(|| self.scan(), Ok)?;
        let prospect = if over_limit {
            lingering::prospect_within_limit(self.lock_file, &probe, &inventory)?
        } else {
            lingering::prospect(self.lock_file, &probe, self.request, &inventory)?
        };
        if !self.waits && prospect == Prospect::None {
            return Ok(Selected::Failed(failure));
        }
        self.check_pool(&inventory, observer)?;
        Ok(Selected::Queue(Queueing {
            inventory,
            asked: self.waits,
            prospect,
            failure,
        }))
    }

    /// Chooses where `ahead` programs wait for the same request: with none of them among
    /// all devices, else among those that a stopped head leaves alone.
    fn behind(
        &mut self,
        ahead: usize,
        probe: &OfdLock,
        known: &mut Option<Inventory>,
        observer: &mut dyn Observer<A>,
    ) -> Result<Look, Failure> {
        if ahead == 0 {
            return self.choose(probe, known, None, observer);
        }
        let left_alone = match known {
            Some(inventory) if !self.waits => self.left_alone(probe, inventory)?,
            _ => Vec::new(),
        };
        if left_alone.is_empty() {
            let failure = queue::taken_by(ahead).hint(observer.hint(true));
            return Ok(Look::NoneFree(failure));
        }
        self.choose(probe, known, Some(&left_alone), observer)
    }

    /// Fails if no device of the node could ever meet the request.
    fn check_pool(
        &self,
        inventory: &Inventory,
        observer: &mut dyn Observer<A>,
    ) -> Result<(), Failure> {
        let pool = rejection_report::pool(&self.request.filter, inventory, self.request.count)?;
        let pool: Vec<&Device> = pool.into_iter().map(|(_, device)| device).collect();
        observer.waits(&pool, inventory)
    }

    fn scan(&mut self) -> Result<Inventory, Failure> {
        self.client.client()?.scan(self.request.detail())
    }

    /// Devices that are free and that the head of the queue does not look at, since it is
    /// stopped: as many as are wanted, or none.
    fn left_alone(&self, probe: &OfdLock, inventory: &Inventory) -> Result<Vec<Uuid>, Failure> {
        let free = || {
            queue::availability(probe, self.request, inventory)
                .map(|availability| availability.free)
        };
        queue::stalled_head::alone(free, self.request.count, queue::stalled_head::ALONE)
    }

    /// Chooses among all devices, or among `only` these; else why there are none.
    fn choose(
        &mut self,
        probe: &OfdLock,
        known: &mut Option<Inventory>,
        only: Option<&[Uuid]>,
        observer: &mut dyn Observer<A>,
    ) -> Result<Look, Failure> {
        let skip = |device: &Device| only.is_some_and(|only| !only.contains(&device.uuid));
        let mut chooser = Chooser {
            client: &mut *self.client,
            lock_file: self.lock_file,
            side: self.side,
            request: self.request,
            skip: &skip,
        };
        let inventory = match known {
            Some(inventory) => inventory,
            None => {
                if let Some(picked) = chooser.pick_randomly(probe)? {
                    return Ok(Look::Picked(vec![picked], Guard::default()));
                }
                let scanned = chooser.client.client()?.scan(self.request.detail())?;
                known.insert(scanned)
            }
        };
        match chooser.choose(probe, inventory)? {
            Outcome::Picked(picked, guard) => {
                observer.picked(&mut chooser, &picked, Some(inventory))?;
                Ok(Look::Picked(picked, guard))
            }
            Outcome::OverCap(failure) => Ok(Look::OverLimit(failure)),
            Outcome::NoneFree(rejected) => {
                observer.rejected(&rejected, probe);
                let report = RejectionReport::take(&rejected, probe);
                // For people: what a script does with an empty answer is the other
                // hint's.
                let remedy = report.remedy().filter(|_| std::io::stderr().is_terminal());
                let hint = remedy.unwrap_or_else(|| observer.hint(false).to_owned());
                Ok(Look::NoneFree(report.failure().hint(hint)))
            }
        }
    }
}

/// Fails if the share is larger than the part that we own of every device of the grant:
/// waiting could not find room for it.
fn fits_inside(request: &Request, inventory: &Inventory) -> Result<(), Failure> {
    let Some(cover) = &request.cover else {
        return Ok(());
    };
    let mut pool = request.filter.pool(inventory).peekable();
    let too_large = |device: &Device| {
        let ours = cover.units(&device.uuid);
        ours.is_some_and(|ours| request.filter.portion(ours, device.memory) == Portion::TooLarge)
    };
    if pool.peek().is_none() || !pool.all(too_large) {
        return Ok(());
    }
    let share = request
        .filter
        .share
        .map(|share| share.to_string())
        .unwrap_or_default();
    Err(Failure::new(
        Kind::NoDevice,
        format!("--share {share}: larger than the part of the device that is reserved for you"),
    )
    .hint("a fraction, such as --share 1/2, is a fraction of that part"))
}
