//! How programs begin and end on MPI: under watch, and checked if one of them requests it.

use super::watched::watch::Watch;
use super::watched::watchdog::{self, Address};
use super::watched::{ENDS, WORLD, Watching};
use super::{MpiCommunicator, process};
use crate::call::Call;
use crate::words::{Operation, deadlock};
use crate::{Communicator, Error, Result, broadcast_text, checking, exchange_words};
use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    /// The group that agrees on the end of this process, with its watch, on the thread that MPI belongs to; kept for ever, since a
    /// process must announce its end.
    static AT_THE_END: Cell<Option<(&'static MpiCommunicator, &'static Watch)>> = const { Cell::new(None) };
}

/// The world of a program.
pub struct Start {
    comm: Rc<MpiCommunicator>,
    /// The group that agrees on the end of this program; none for one rank, which waits for no others.
    ends: Option<&'static MpiCommunicator>,
}

impl Start {
    /// Returns the world, checked if the program or the environment of any process requests it; collective.
    ///
    /// # Errors
    /// If a variable of the environment has an invalid value, or MPI cannot be used or fails.
    pub fn new(asked: bool) -> Result<Self> {
        let (asked, limit) = checking::settings(asked)?;
        let mut world = MpiCommunicator::world()?;
        if world.size == 1 {
            return Ok(Self { comm: Rc::new(world), ends: None });
        }
        let (ends, watch) = match AT_THE_END.get() {
            Some(known) => known,
            None => begin(&world, limit)?,
        };
        world.watching = Some(Watching::new(watch, WORLD, &world.members));
        let headers = exchange_words(&world, "the start of the program", [u64::from(asked)])?;
        if let Some(watching) = &mut world.watching {
            watching.is_checked = headers.iter().any(|header| header[0] != 0);
        }
        Ok(Self { comm: Rc::new(world), ends: Some(ends) })
    }

    /// Returns the communicator of all ranks.
    #[must_use]
    pub fn comm(&self) -> Rc<dyn Communicator> {
        Rc::clone(&self.comm) as _
    }

    /// Waits until all ranks have reached the end of the program.
    ///
    /// # Errors
    /// If another rank does not reach it, or this one has dropped a flight.
    pub fn end(&self) -> Result<()> {
        process::check_flights()?;
        match self.ends {
            None => Ok(()),
            // Ranks that call something else meanwhile get an error.
            Some(_) if self.comm.is_checked() => self.comm.meets(Call::End).map(drop),
            Some(ends) => come_to_an_end(ends, Call::End),
        }
    }
}

/// Begins to watch all processes; collective. The lowest limit of all applies.
fn begin(world: &MpiCommunicator, limit: Duration) -> Result<(&'static MpiCommunicator, &'static Watch)> {
    let host = sysinfo::System::host_name().unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    host.hash(&mut hasher);
    let headers = exchange_words(world, "the longest wait", [limit.as_millis() as u64, hasher.finish()])?;
    let limit = headers.iter().fold(u64::MAX, |least, header| least.min(header[0]));
    let one_host = headers.iter().all(|header| header[1] == headers[0][1]);
    let socket = watchdog::socket(one_host);
    let port = socket.as_ref().and_then(|socket| socket.local_addr().ok()).map_or(0, |address| address.port());
    let told = exchange_words(world, "where questions go", [u64::from(port), watchdog::token()])?;
    let host = broadcast_text(world, 0, &host)?;
    let address = Address { host, port: told[0][0] as u16, token: told[0][1] };
    let watch: &'static Watch =
        Box::leak(Box::new(Watch::new(world.rank, world.size, Duration::from_millis(limit.max(1)))));
    let mut ends = MpiCommunicator::new(process::duplicate(world.raw())?, false, world.limit, Arc::default())?;
    ends.watching = Some(Watching::new(watch, ENDS, &ends.members));
    let ends: &'static MpiCommunicator = Box::leak(Box::new(ends));
    AT_THE_END.set(Some((ends, watch)));
    process::before_the_end(leave);
    watchdog::start(watch, socket, address, one_host);
    Ok((ends, watch))
}

/// Waits until all processes end; ends all at once if others end a program as if this process still ran it.
fn leave() {
    let Some((ends, _)) = AT_THE_END.get() else { return };
    if let Err(error) = come_to_an_end(ends, Call::Exit) {
        process::fail(&error.to_string());
    }
}

/// Waits until all processes have reached an end, of the program or their own, as `call` for this one; collective.
///
/// # Errors
/// If some have reached the end of the program and others the end of their process.
fn come_to_an_end(ends: &MpiCommunicator, call: Call) -> Result<()> {
    let is_exit = call == Call::Exit;
    let _waiting = ends.meets(call)?;
    let headers = exchange_words(ends, "the end of a program", [u64::from(is_exit)])?;
    let others: Vec<usize> = (0..ends.size).filter(|&rank| headers[rank] != headers[ends.rank]).collect();
    if others.is_empty() {
        return Ok(());
    }
    let (own, other) = if is_exit { (Operation::Left, Operation::Ended) } else { (Operation::Ended, Operation::Left) };
    let operation = |rank| (rank, if others.contains(&rank) { other.clone() } else { own.clone() });
    let message = deadlock((0..ends.size).map(operation));
    process::all_say(&message);
    Err(Error::Mismatch(message))
}
