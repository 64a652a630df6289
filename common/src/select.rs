//! One look at the node: free devices are claimed, or it is said why there are none, or
//! the caller is to wait in the queue. The same for getgpu and cudawrap; what each adds
//! to it, such as `--explain`, it adds as an `Observer`.

use crate::choice::cap;
use crate::choice::chooser::{Chooser, Guard, Outcome, Picked};
use crate::choice::rejection_report::{self, Rejected, RejectionReport};
use crate::error::{Failure, Kind};
use crate::inventory::{Device, Inventory};
use crate::lock::{LockFile, OfdLock, Side};
use crate::nvml_client::Ask;
use crate::pool::Portion;
use crate::queue;
use crate::request::Request;

/// What came of one look.
pub enum Selected {
    /// Free devices, claimed. The guard is kept until they are signed.
    Picked(Vec<Picked>, Guard),
    /// There is nothing to have now, and the caller does not wait.
    Failed(Failure),
    /// There is nothing to have now, and the caller waits; what is known of the node.
    Queue(Inventory),
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
    /// NVML.
    pub client: &'a mut A,
    /// The lock.
    pub lock_file: &'a LockFile,
    /// For whom.
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
        self,
        known: Option<Inventory>,
        observer: &mut dyn Observer<A>,
    ) -> Result<Selected, Failure> {
        let Self {
            client,
            lock_file,
            side,
            request,
            waits,
        } = self;
        cap::possible(request)?;
        let probe = lock_file.open()?;
        let ahead = queue::waiting(&probe, Some(request.line()))?;
        let mut known = known;
        // Of several devices it has to be known whether a program can use them together.
        if known.is_none() && (request.count > 1 || ahead > 0) {
            known = Some(client.client()?.scan(request.detail())?);
        }
        if let Some(inventory) = &known {
            observer.known(
                inventory,
                &request.filter.pool(inventory).collect::<Vec<_>>(),
            )?;
        }
        if let Some(inventory) = &known {
            fits_inside(request, inventory)?;
        }
        let mut alone = None;
        if let (true, false, Some(inventory)) = (ahead > 0, waits, &known) {
            let availability = || {
                queue::availability(&probe, request, inventory)
                    .map(|availability| availability.free)
            };
            let found = queue::stalled_head::alone(
                availability,
                request.count,
                queue::stalled_head::ALONE,
            )?;
            alone = Some(found).filter(|alone| !alone.is_empty());
        }
        let failure = if ahead > 0 && alone.is_none() {
            queue::taken_by(ahead).hint(observer.hint(true))
        } else {
            let skip = |device: &Device| {
                alone
                    .as_ref()
                    .is_some_and(|alone| !alone.contains(&device.uuid))
            };
            let mut chooser = Chooser {
                client: &mut *client,
                lock_file,
                side,
                request,
                skip: &skip,
            };
            match chooser.choose(known.as_ref())? {
                Outcome::Picked(picked, guard) => {
                    observer.picked(&mut chooser, &picked, known.as_ref())?;
                    return Ok(Selected::Picked(picked, guard));
                }
                Outcome::OverCap(failure) => failure,
                Outcome::NoneFree(rejected) => {
                    observer.rejected(&rejected, &probe);
                    RejectionReport::take(&rejected, &probe)
                        .failure()
                        .hint(observer.hint(false))
                }
            }
        };
        if !waits {
            return Ok(Selected::Failed(failure));
        }
        let inventory = match known {
            Some(inventory) => inventory,
            None => client.client()?.scan(request.detail())?,
        };
        // What no device of the node could ever meet is said at once.
        let pool: Vec<&Device> =
            rejection_report::pool(&request.filter, &inventory, request.count)?
                .into_iter()
                .map(|(_, device)| device)
                .collect();
        observer.waits(&pool, &inventory)?;
        Ok(Selected::Queue(inventory))
    }
}

/// A share that is larger than what is ours of every device of the grant is none that
/// waiting could find room for.
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
    .hint("a fraction, such as --share 1/2, is one of that part"))
}
