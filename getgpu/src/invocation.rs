//! One call that prints a device. A device that the caller has reserved already is
//! printed again, else a free one is chosen; then it is confirmed, held and printed.
//! Nothing is confirmed before NVML has let go, and nothing is printed before a holder has
//! the reservation.

use std::cell::LazyCell;
use std::time::{Duration, Instant};

use getgpu_common::choice::chooser::Guard;
use getgpu_common::diag::{Diag, print};
use getgpu_common::error::{Failure, Kind};
use getgpu_common::ident::Uuid;
use getgpu_common::inventory::Detail;
use getgpu_common::lock::claim::join;
use getgpu_common::lock::ownership_proof::{self, HolderProcess};
use getgpu_common::lock::{LockFile, OfdLock, Side, Span};
use getgpu_common::nvml_client::Client;
use getgpu_common::ownership::{Cover, Decision};
use getgpu_common::procfs::Process;
use getgpu_common::request::Request;
use getgpu_common::settings::{Environment, Settings};
use getgpu_common::share::{self, Share};
use getgpu_common::visible::Visible;
use getgpu_nvml::spawn;

use crate::answer::{Answer, Chosen, Whose};
use crate::caller;
use crate::options::{Action, Format, Keep, Options};
use crate::tag;

/// How long a grant that somebody has is looked at again, and how often.
const SIBLING: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// The session with the process that asks NVML.
pub type Asker = Client<spawn::Forked>;

/// Starts such a session.
pub fn open(settings: &Settings) -> Result<Asker, Failure> {
    Ok(Client::open(spawn::fork_worker()?, settings))
}

/// One call that prints a device.
pub struct Invocation<'a> {
    pub options: &'a Options,
    pub environment: &'a Environment,
    pub settings: &'a Settings,
    pub lock_file: LockFile,
    pub diag: &'a Diag,
    /// When it began.
    pub began: Instant,
}

/// What a call that prints a device comes to.
enum Obtained {
    /// Devices of its own, and its turn at the tag until their holder stands for it.
    Now(Answer, Option<OfdLock>),
    /// Another call has reserved devices under the tag while this one waited.
    Meanwhile(Box<HolderProcess>),
}

impl Invocation<'_> {
    /// Prints a device: the one reserved under a tag, else what the caller owns of its
    /// grant, else the device of INDEX or free ones, else what the queue brings.
    pub fn print(&self, mut request: Request) -> Result<(), Failure> {
        let caller: LazyCell<Process> = LazyCell::new(caller::find);
        let held = self.held(&caller)?;
        if request.visible == Visible::Nothing {
            return Err(request.empty_grant());
        }
        let user = self.options.uid.map(tag::user).transpose()?.flatten();
        request.user = user.map_or(request.user, |user| user.uid);
        let name = self.options.tag.as_deref();
        let tag = name.map(|name| tag::Named::new(name, &request, self.options));
        // Until the holder stands for it no other call of this user may look whether the
        // tag is in use.
        if tag.is_some() {
            // Before anything is waited for, behind which the caller may have exited.
            LazyCell::force(&caller);
        }
        let turn = match self.enter(tag.as_ref(), &request)? {
            tag::Entered::Free(turn) => turn,
            tag::Entered::Same(holder) => return self.print_again(std::slice::from_ref(&*holder)),
        };
        let whose = Whose {
            caller: &caller,
            held,
            user,
            tag: tag.as_ref().map(tag::Named::tag),
        };
        match self.obtain(request, &caller, tag.as_ref(), turn)? {
            Obtained::Now(answer, turn) => {
                let printed = self.hand_out(answer, whose);
                drop(turn);
                printed
            }
            Obtained::Meanwhile(holder) => self.print_again(std::slice::from_ref(&*holder)),
        }
    }

    /// Devices for the request, at once or after waiting; `turn` is this call's turn at
    /// its tag.
    fn obtain(
        &self,
        mut request: Request,
        caller: &LazyCell<Process>,
        tag: Option<&tag::Named>,
        turn: Option<OfdLock>,
    ) -> Result<Obtained, Failure> {
        if let Some(answer) = self.granted_again(&request)? {
            return Ok(Obtained::Now(answer, turn));
        }
        match self.choose_or_queue(&mut request, caller)? {
            Chosen::Confirmed(answer) => Ok(Obtained::Now(answer, turn)),
            Chosen::Claimed(claimed) => {
                let answer = claimed.confirm(&request, &self.lock_file)?;
                Ok(Obtained::Now(answer, turn))
            }
            Chosen::InQueue(queueing) => {
                // Another call for the tag may come and go while this one waits, so
                // afterwards the tag is looked at once more.
                drop(turn);
                let (claimed, request) = self.wait_in_queue(request, queueing)?;
                match self.enter(tag, &request)? {
                    tag::Entered::Free(turn) => {
                        let answer = claimed.confirm(&request, &self.lock_file)?;
                        Ok(Obtained::Now(answer, turn))
                    }
                    tag::Entered::Same(holder) => Ok(Obtained::Meanwhile(holder)),
                }
            }
        }
    }

    /// The process that `--hold` names. Without a name it is the caller, if there is one
    /// that can be waited for.
    fn held(&self, caller: &LazyCell<Process>) -> Result<Option<Process>, Failure> {
        match self.options.keep {
            Keep::Hold(Some(0)) if !root() => {
                let failure = Failure::new(
                    Kind::Usage,
                    "--hold=0: only root may hold a device without end",
                );
                return Err(failure.hint("getgpu --hold"));
            }
            Keep::Hold(Some(pid)) if pid > 0 => return caller::to_hold(pid).map(Some),
            Keep::Hold(None) if caller::is_adopter(caller) => {
                return Err(caller::adopted());
            }
            Keep::Hold(None) if !caller.seen() => return Err(caller::unseen()),
            _ => {}
        }
        Ok(None)
    }

    /// Waits for this call's turn at its tag; without one there is nothing to wait for.
    fn enter(&self, tag: Option<&tag::Named>, request: &Request) -> Result<tag::Entered, Failure> {
        tag.map_or(Ok(tag::Entered::Free(None)), |tag| {
            tag.enter(&self.lock_file, request.user)
        })
    }

    /// A choice; made once more if a sibling has reserved the grant for us all meanwhile.
    fn choose_or_queue(
        &self,
        request: &mut Request,
        caller: &LazyCell<Process>,
    ) -> Result<Chosen, Failure> {
        let choose = |request: &mut Request| {
            let asker = open(self.settings)?;
            if self.options.keep != Keep::No {
                // Now, while the library is being loaded.
                LazyCell::force(caller);
            }
            asker.ask_all(|client| self.choose(client, request))
        };
        let chosen = choose(request);
        let none = match &chosen {
            Err(failure) => failure.kind == Kind::NoneFree,
            Ok(chosen) => matches!(chosen, Chosen::InQueue(_)),
        };
        if none && self.reserved_by_sibling(request) {
            return choose(request);
        }
        chosen
    }

    /// Prints what is reserved under a tag.
    pub fn print_tagged(&self, name: &str) -> Result<(), Failure> {
        self.print_again(&tag::find(&self.lock_file, name)?)
    }

    /// Prints the devices of reservations that there are.
    fn print_again(&self, lines: &[HolderProcess]) -> Result<(), Failure> {
        let uuids = || lines.iter().flat_map(|line| &line.args.devices);
        let inventory = match self.options.format {
            Format::Index => {
                Some(open(self.settings)?.ask_all(|client| client.scan(Detail::Place))?)
            }
            _ => None,
        };
        let units: Vec<_> = lines
            .iter()
            .flat_map(|line| {
                line.args
                    .devices
                    .iter()
                    .map(|uuid| ownership_proof::reserved_units(&self.lock_file, line, uuid))
            })
            .collect();
        print(&self.text(
            &self.value(uuids(), inventory.as_ref())?,
            share::smallest(&units),
        ))
    }

    /// A grant, given by full UUIDs, that is ours already and all of which is wanted:
    /// nothing is chosen and NVML is not asked.
    fn granted_again(&self, request: &Request) -> Result<Option<Answer>, Failure> {
        let plain =
            self.options.action == Action::Print(None) && self.options.format != Format::Index;
        let plain = plain && !request.filter.share.is_some_and(Share::needs_memory);
        let Some(uuids) = request.visible.full_uuids().filter(|_| plain) else {
            return Ok(None);
        };
        let Decision::All(cover) = request.owned_of(&self.lock_file, &uuids, None) else {
            return Ok(None);
        };
        let value = uuids.iter().map(Uuid::as_str).collect::<Vec<_>>().join(",");
        self.again(&cover, value).map(Some)
    }

    /// Re-checks for 200 ms whether a sibling has just reserved this grant: of tasks that
    /// were granted one device and ask for it at one instant, one is just reserving it.
    /// NVML is not open meanwhile.
    fn reserved_by_sibling(&self, request: &Request) -> bool {
        let Some(grant) = request.filter.grant.as_deref() else {
            return false;
        };
        if request.cover.is_some() || grant.len() != request.count {
            return false;
        }
        let began = Instant::now();
        while began.elapsed() < SIBLING {
            if request.owned(&self.lock_file, None) != Decision::Nothing {
                return true;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        false
    }

    /// Prints devices that this call owns once more; their reservation goes on. With
    /// --hold, --for or --tag a second holder joins it.
    pub fn again(&self, cover: &Cover, value: String) -> Result<Answer, Failure> {
        self.diag.note(&format!("{value}: yours already"));
        let mut lock = None;
        let held_longer = matches!(self.options.keep, Keep::Hold(_))
            || self.options.reserve_for.is_some()
            || self.options.tag.is_some();
        if held_longer {
            let joined = self.lock_file.open()?;
            let mut all = cover
                .devices
                .iter()
                .map(|(uuid, units)| join(&joined, Side::Reservation, Span::of(uuid), units));
            if all.try_fold(true, |joined, next| next.map(|next| joined && next))? {
                lock = Some(joined);
            }
        }
        let uuids = cover.devices.iter().map(|(uuid, _)| uuid.clone()).collect();
        let part = share::smallest(cover.devices.iter().map(|(_, units)| units));
        Ok(Answer {
            repeated: true,
            larger_grant: Vec::new(),
            uuids,
            value,
            lock,
            part,
            guard: Guard::default(),
        })
    }
}

fn root() -> bool {
    getgpu_common::procfs::namespaces::is_host_root()
}
