//! How programs begin and end on MPI: under watch, and checked if one of them requests it.

use super::watched::Watched;
use super::watched::watch::Watch;
use super::watched::watchdog::{self, Address};
use super::{MpiCommunicator, process};
use crate::call::Call;
use crate::words::{Operation, deadlock};
use crate::{Broadcast, Communicator, Error, Result, checking, exchange_words};
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    /// The group that agrees on the end of this process, on the thread that MPI belongs to; kept for ever, since a process must announce
    /// its end.
    static ENDS: Cell<Option<&'static Watched>> = const { Cell::new(None) };
    static WATCH: Cell<Option<&'static Watch>> = const { Cell::new(None) };
}

/// The world of a program.
pub struct Start(World);

enum World {
    /// One rank, which waits for no others.
    Alone(Rc<MpiCommunicator>),
    Watched(Rc<Watched>, &'static Watched),
}

impl Start {
    /// Returns the world, checked if the program or the environment of any process requests it; collective.
    ///
    /// # Errors
    /// If a variable of the environment has an invalid value, or MPI cannot be used or fails.
    pub fn new(asked: bool) -> Result<Self> {
        let (asked, limit) = checking::settings(asked)?;
        let world = MpiCommunicator::world()?;
        if world.size == 1 {
            return Ok(Self(World::Alone(Rc::new(world))));
        }
        let (ends, watch) = match (ENDS.get(), WATCH.get()) {
            (Some(ends), Some(watch)) => (ends, watch),
            _ => begin(&world, limit)?,
        };
        let world = Watched::world(world, watch);
        let headers = exchange_words(&world, "the start of the program", [u64::from(asked)])?;
        let is_checked = headers.iter().any(|header| header[0] != 0);
        let world = if is_checked { world.checked() } else { world };
        Ok(Self(World::Watched(Rc::new(world), ends)))
    }

    /// Returns the communicator of all ranks.
    #[must_use]
    pub fn comm(&self) -> Rc<dyn Communicator> {
        match &self.0 {
            World::Alone(comm) => Rc::clone(comm) as _,
            World::Watched(comm, _) => Rc::clone(comm) as _,
        }
    }

    /// Waits until all ranks have reached the end of the program.
    ///
    /// # Errors
    /// If another rank does not reach it, or this one has dropped a flight.
    pub fn end(&self) -> Result<()> {
        process::check_flights()?;
        match &self.0 {
            World::Alone(_) => Ok(()),
            World::Watched(comm, _) if comm.is_checked() => comm.agree_to_end(),
            World::Watched(_, ends) => come_to_an_end(ends, &Call::End),
        }
    }
}

/// Begins to watch all processes; collective. The lowest limit of all applies.
fn begin(world: &MpiCommunicator, limit: Duration) -> Result<(&'static Watched, &'static Watch)> {
    let host = sysinfo::System::host_name().unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    host.hash(&mut hasher);
    let headers = exchange_words(world, "the longest wait", [limit.as_millis() as u64, hasher.finish()])?;
    let limit = headers.iter().fold(u64::MAX, |least, header| least.min(header[0]));
    let one_host = headers.iter().all(|header| header[1] == headers[0][1]);
    let socket = watchdog::socket(one_host);
    let port = socket.as_ref().and_then(|socket| socket.local_addr().ok()).map_or(0, |address| address.port());
    let own = Address { host, port, token: watchdog::token() };
    let address = broadcast(world, own)?;
    let watch: &'static Watch =
        Box::leak(Box::new(Watch::new(world.rank, world.size, Duration::from_millis(limit.max(1)))));
    let ends = MpiCommunicator::new(process::duplicate(world.raw())?, false, world.limit, Arc::default())?;
    let ends: &'static Watched = Box::leak(Box::new(Watched::ends(ends, watch)));
    ENDS.set(Some(ends));
    WATCH.set(Some(watch));
    process::before_the_end(leave);
    watchdog::start(watch, socket, address, one_host);
    Ok((ends, watch))
}

/// Gives all ranks the address of rank 0; collective.
fn broadcast(world: &MpiCommunicator, own: Address) -> Result<Address> {
    let host = own.host.as_bytes();
    let told = exchange_words(world, "where questions go", [host.len() as u64, u64::from(own.port), own.token])?;
    let [len, port, token] = told[0];
    let mut name = vec![0; len as usize];
    match world.rank {
        0 => world.broadcast(Broadcast::Send(host))?,
        _ => world.broadcast(Broadcast::Receive { root: 0, into: &mut name })?,
    }
    let host = if world.rank == 0 { own.host } else { String::from_utf8_lossy(&name).into_owned() };
    Ok(Address { host, port: port as u16, token })
}

/// Waits until all processes end; ends all at once if others end a program as if this process still ran it.
fn leave() {
    let Some(ends) = ENDS.get() else { return };
    if let Err(error) = come_to_an_end(ends, &Call::Exit) {
        process::fail(&error.to_string());
    }
}

/// Waits until all processes have reached an end, of the program or their own.
///
/// # Errors
/// If some have reached the end of the program and others the end of their process.
fn come_to_an_end(ends: &Watched, call: &Call<'_>) -> Result<()> {
    let others = ends.end(call)?;
    if others.is_empty() {
        return Ok(());
    }
    let (own, other) =
        if *call == Call::Exit { (Operation::Left, Operation::Ended) } else { (Operation::Ended, Operation::Left) };
    let operation = |rank| (rank, if others.contains(&rank) { other.clone() } else { own.clone() });
    let message = deadlock((0..ends.size()).map(operation));
    process::all_say(&message);
    Err(Error::Mismatch(message))
}
