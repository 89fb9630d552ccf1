//! Publishing: ranks that share memory announce where their blocks are, and the others read them in place, without further
//! communication.
//!
//! ```text
//! exchange of headers  |  all compare them, and map new segments  |  each reads what it needs  |  exchange of headers: all are done
//! ```
//!
//! A header states how many bytes of which type a rank publishes for which program, and in which round. All members see all
//! headers and decide in the same way: ranks that run different programs all get an error before any rank touches another's
//! memory. If one member cannot map a block, all treat it as hidden: it is sent as messages.
//!
//! What a rank has published is not its own again before all members are done. If it cannot know whether they are, as one of them has
//! failed, the memory is stranded: kept for ever.

use crate::comm::{Communicator, Header, Located, SharedMemory, Stranded, sentence};
use crate::memory::Buffer;
use crate::{DType, Element, Error, Result, Segment};
use polyshard_layout::counted;
use smallvec::SmallVec;
use std::cell::{Cell, Ref, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// The handle of a block that the others cannot see.
pub(crate) const HIDDEN: u64 = u64::MAX;

/// The handle of a block without elements.
pub(crate) const EMPTY: u64 = u64::MAX - 1;

/// Maximum number of blocks that a rank publishes in one round.
pub(crate) const BLOCKS: usize = 3;

/// The purpose of published blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Inputs,
    PartialSums,
    Redistribution,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Inputs, Self::PartialSums, Self::Redistribution];

    /// The operation that is named in reports of ranks that wait for each other.
    fn tag(self) -> &'static str {
        match self {
            Self::Inputs => "inputs that are read in place",
            Self::PartialSums => "partial sums that are read in place",
            Self::Redistribution => "arrays that are read in place",
        }
    }
}

/// The subject of a round, the same on all members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) purpose: Purpose,
    /// The type of the elements.
    pub(crate) dtype: DType,
    /// A hash of everything else that must be the same; see [`fingerprint`].
    pub(crate) program: u32,
}

/// A block that this rank publishes.
pub(crate) struct Block<'a> {
    pub(crate) address: *const u8,
    pub(crate) bytes: usize,
    /// Its segment, if it is in one, and its offset there, in bytes.
    pub(crate) place: Option<(&'a Segment, usize)>,
}

impl<'a> Block<'a> {
    /// The block of these elements, in this place of a segment if they are in one.
    pub(crate) fn of<T>((elements, place): (&[T], Option<(&'a Segment, usize)>)) -> Self {
        Self { address: elements.as_ptr().cast(), bytes: size_of_val(elements), place }
    }
}

/// The block number `nth` of a header: its handle, and its bytes.
pub(crate) fn published(header: &Header, nth: usize) -> (u64, usize) {
    (header[2 + 2 * nth], header[3 + 2 * nth] as usize)
}

/// Returns a hash of a value, the same on all ranks.
pub(crate) fn fingerprint(of: &(impl Hash + ?Sized)) -> u32 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() as u32
}

/// The ranks that publish for each other.
#[derive(Clone, Copy)]
pub(crate) struct Peers<'a> {
    pub(crate) comm: &'a dyn Communicator,
    pub(crate) memory: &'a dyn SharedMemory,
    /// The ranks of the members in the world whose memory it is, unless they are all its ranks, in order.
    pub(crate) members: Option<&'a [usize]>,
}

impl Peers<'_> {
    fn rank(&self, member: usize) -> usize {
        self.members.map_or(member, |members| members[member])
    }

    /// Returns whether this rank shares memory with a member.
    pub(crate) fn reaches(&self, member: usize) -> bool {
        self.memory.reaches(self.rank(member))
    }

    /// Returns where this rank sees the block that a member has [published], which is to have `bytes` bytes.
    ///
    /// # Errors
    /// If the block has another length, or the operating system denies this rank access to it.
    pub(crate) fn locate(&self, member: usize, (handle, theirs): (u64, usize), bytes: usize) -> Result<Located> {
        let rank = self.rank(member);
        if theirs != bytes {
            let this = self.rank(self.comm.rank());
            return Err(Error::Mismatch(format!(
                "rank {rank} publishes a block of {theirs} bytes, of which rank {this} expects {bytes}"
            )));
        }
        if handle == EMPTY {
            // It has no address, but slices of it must be aligned.
            return Ok(Located { address: NonNull::<u64>::dangling().as_ptr().cast(), mapping: None });
        }
        let failed = |why| Error::Mapping { rank, bytes, why: format!("{why}").into() };
        self.memory.locate(rank, handle, bytes).map_err(failed)
    }
}

/// What a rank lends to the other members.
pub(crate) trait Lent {
    /// Keeps it for ever.
    fn strand(self, memory: &dyn SharedMemory);
}

/// Second owners of the memory of arrays.
pub(crate) type Owners = SmallVec<[Stranded; 4]>;

impl Lent for Owners {
    fn strand(self, memory: &dyn SharedMemory) {
        self.into_iter().for_each(|owner| memory.strand(owner));
    }
}

impl<T: Element> Lent for &mut Buffer<T> {
    fn strand(self, memory: &dyn SharedMemory) {
        memory.strand(Arc::new(std::mem::take(self)));
    }
}

/// Memory of this rank that others may access until all have [released](Self::release) theirs; stranded if dropped before.
pub(crate) struct Published<'a, L: Lent> {
    publisher: &'a Publisher,
    peers: Peers<'a>,
    round: Round,
    /// How often the members have waited for each other.
    waits: usize,
    lent: Option<L>,
}

impl<'a, L: Lent> Published<'a, L> {
    /// Guards what is lent, before it is [published](Self::publish).
    pub(crate) fn new(publisher: &'a Publisher, peers: Peers<'a>, round: Round, lent: L) -> Self {
        Self { publisher, peers, round, waits: 0, lent: Some(lent) }
    }

    pub(crate) fn peers(&self) -> &Peers<'a> {
        &self.peers
    }

    pub(crate) fn lent(&self) -> Option<&L> {
        self.lent.as_ref()
    }

    /// Publishes blocks of what is lent, and returns the headers of all members; collective.
    ///
    /// # Errors
    /// If the members publish different things, which all of them report, or another rank failed.
    pub(crate) fn publish(&self, blocks: &[Block<'_>]) -> Result<Ref<'a, [Header]>> {
        self.publisher.publish(&self.peers, &self.round, blocks)
    }

    /// Waits until all members have called this, and sees their writes.
    pub(crate) fn wait(&mut self) -> Result<()> {
        self.waits += 1;
        self.publisher.wait(&self.peers, &self.round, self.waits)
    }

    /// Waits until all members are done; what was lent is then this rank's own again.
    pub(crate) fn release(mut self) -> Result<()> {
        self.wait()?;
        self.withdraw();
        Ok(())
    }

    /// Takes back what no member accesses, since all of them know that one cannot see another's block.
    pub(crate) fn withdraw(mut self) {
        self.lent = None;
    }
}

impl<L: Lent> Drop for Published<'_, L> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            lent.strand(self.peers.memory);
        }
    }
}

/// The published blocks of the members of a communicator, seen from one of them.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    /// The number of rounds so far, the same on all members that are in step.
    epoch: Cell<u64>,
    /// The headers of the last exchange.
    headers: RefCell<Vec<Header>>,
    /// By member, its segments that have been published, and whether all other members have mapped them.
    segments: RefCell<Vec<Segments>>,
}

/// Segments by their ids, each with whether all other members have mapped it.
type Segments = SmallVec<[(u64, bool); 2]>;

/// The first word of a header: its kind, its purpose, the element type, the number of blocks, and the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Publishes = 1,
    Maps = 2,
    IsDone = 3,
}

fn first_word(says: Says, round: &Round, count: usize) -> u64 {
    let purpose = place(&Purpose::ALL, round.purpose);
    let dtype = place(&DType::ALL, round.dtype);
    says as u64 | purpose << 8 | dtype << 16 | (count as u64) << 24 | u64::from(round.program) << 32
}

/// The index of a value among all.
fn place<T: PartialEq>(all: &[T], value: T) -> u64 {
    all.iter().take_while(|&other| *other != value).count() as u64
}

impl Publisher {
    /// As [`Published::publish`]. After the exchange others may use the blocks, even if this fails: then they must stay valid for ever.
    fn publish(&self, peers: &Peers<'_>, round: &Round, blocks: &[Block<'_>]) -> Result<Ref<'_, [Header]>> {
        assert!(blocks.len() <= BLOCKS, "{} blocks in a round; this is a bug in polyshard", blocks.len());
        self.epoch.set(self.epoch.get() + 1);
        let mut header = Header::default();
        header[0] = first_word(Says::Publishes, round, blocks.len());
        for (nth, block) in blocks.iter().enumerate() {
            header[2 + 2 * nth] = match block.bytes {
                0 => EMPTY,
                _ => peers.memory.handle(block.address, block.place).unwrap_or(HIDDEN),
            };
            header[3 + 2 * nth] = block.bytes as u64;
        }
        self.exchange(peers, round.purpose, header)?;
        self.map(peers, round, blocks.len())?;
        Ok(Ref::map(self.headers.borrow(), Vec::as_slice))
    }

    /// Waits until all members are done with `step` of the last publication; collective.
    fn wait(&self, peers: &Peers<'_>, round: &Round, step: usize) -> Result<()> {
        let mut header = Header::default();
        header[0] = first_word(Says::IsDone, round, step);
        self.exchange(peers, round.purpose, header)
    }

    /// Exchanges headers, and compares the words that must agree.
    fn exchange(&self, peers: &Peers<'_>, purpose: Purpose, mut header: Header) -> Result<()> {
        header[1] = self.epoch.get();
        let mut headers = self.headers.borrow_mut();
        peers.memory.sync();
        let on_the_board = if peers.members.is_none() { peers.memory.gather(header, &mut headers) } else { None };
        match on_the_board {
            Some(gathered) => gathered?,
            None => peers.comm.exchange_headers(purpose.tag().into(), header, &mut headers)?,
        }
        peers.memory.sync();
        if headers.iter().all(|other| other[..2] == header[..2]) {
            return Ok(());
        }
        // All see the same headers, so their next rounds have the same number again.
        let epochs = headers.iter().filter(|header| read(header[0]).is_some()).map(|header| header[1]);
        self.epoch.set(epochs.max().unwrap_or(0));
        Err(disagreement(peers, &headers))
    }

    /// Maps the segments that are published for the first time, and hides a segment on all members if one of them cannot map it.
    fn map(&self, peers: &Peers<'_>, round: &Round, count: usize) -> Result<()> {
        let mut segments = self.segments.borrow_mut();
        let mut new: SmallVec<[(usize, u64); 4]> = SmallVec::new();
        let mut failed = None;
        {
            let headers = self.headers.borrow();
            segments.resize_with(headers.len(), Segments::new);
            for (member, header) in headers.iter().enumerate() {
                for handle in (0..count).map(|nth| published(header, nth).0) {
                    let segment = if handle < EMPTY { peers.memory.segment(handle) } else { None };
                    let Some(segment) = segment.filter(|id| segments[member].iter().all(|known| known.0 != *id)) else {
                        continue;
                    };
                    segments[member].push((segment, true));
                    new.push((member, segment));
                    let rank = peers.rank(member);
                    if member != peers.comm.rank() && peers.reaches(member) && failed.is_none() {
                        failed = peers.memory.map(rank, handle).err().map(|why| (rank, why));
                    }
                }
            }
        }
        if !new.is_empty() {
            let mut published = self.headers.replace(Vec::new());
            let mut header = Header::default();
            header[0] = first_word(Says::Maps, round, count);
            header[2] = u64::from(failed.is_some());
            self.exchange(peers, round.purpose, header)?;
            std::mem::swap(&mut published, &mut *self.headers.borrow_mut());
            // `published` now holds the replies, which show whether any member has failed.
            if published.iter().any(|header| header[2] != 0) {
                new.iter().for_each(|(member, id)| segments[*member].retain(|known| known.0 != *id));
                new.iter().for_each(|&(member, id)| segments[member].push((id, false)));
            }
            if let Some((rank, why)) = failed {
                say_not_mapped(peers.rank(peers.comm.rank()), rank, &why);
            }
        }
        if segments.iter().flatten().any(|(_, mapped)| !mapped) {
            for (member, header) in self.headers.borrow_mut().iter_mut().enumerate() {
                let is_hidden =
                    |handle| peers.memory.segment(handle).is_some_and(|id| segments[member].contains(&(id, false)));
                for nth in 0..count {
                    if header[2 + 2 * nth] < EMPTY && is_hidden(header[2 + 2 * nth]) {
                        header[2 + 2 * nth] = HIDDEN;
                    }
                }
            }
        }
        Ok(())
    }
}

fn say_not_mapped(this: usize, rank: usize, why: &io::Error) {
    eprintln!(
        "polyshard: rank {this} cannot map memory of rank {rank} ({why}); its contents are sent as messages instead"
    );
}

/// Reads the kind, the purpose, the element type and the number of blocks of a header.
fn read(word: u64) -> Option<(Says, Purpose, DType, usize)> {
    let part = |nth: u32| (word >> (8 * nth)) as usize & 0xff;
    let says = [Says::Publishes, Says::Maps, Says::IsDone].into_iter().find(|&says| says as usize == part(0))?;
    Some((says, *Purpose::ALL.get(part(1))?, *DType::ALL.get(part(2))?, part(3)))
}

/// Returns the error that lists the publications of all members.
fn disagreement(peers: &Peers<'_>, headers: &[Header]) -> Error {
    let differ = |part: &dyn Fn(&Header) -> u64| headers.iter().any(|header| part(header) != part(&headers[0]));
    let epochs = differ(&|header| header[1]);
    let programs = headers.iter().all(is_of_inputs) && differ(&|header| header[0] >> 32);
    let clauses = headers.iter().enumerate().map(|(member, header)| {
        let [one, several, what] = said(header);
        let program = if programs { format!(" for program {:08x}", header[0] >> 32) } else { String::new() };
        let epoch = if epochs { format!(" in round {}", header[1]) } else { String::new() };
        (peers.rank(member), [one, several].map(|verb| format!("{verb} {what}{program}{epoch}")))
    });
    Error::Mismatch(format!("{}: all ranks must run the same programs, in the same order", sentence(clauses, ", ")))
}

fn is_of_inputs(header: &Header) -> bool {
    read(header[0]).is_some_and(|(says, purpose, ..)| says == Says::Publishes && purpose == Purpose::Inputs)
}

/// Returns the verb for one and for several members, and the object.
fn said(header: &Header) -> [String; 3] {
    let Some((says, purpose, dtype, count)) = read(header[0]) else {
        return ["calls", "call", "something else"].map(String::from);
    };
    if says != Says::Publishes {
        return ["is in", "are in", purpose.tag()].map(String::from);
    }
    let bytes: Vec<_> = (0..count.min(BLOCKS)).map(|nth| counted(published(header, nth).1, "byte")).collect();
    let what = match purpose {
        Purpose::Inputs => format!("{} of {dtype} of {}", counted(count, "input"), bytes.join(" and ")),
        Purpose::PartialSums => format!("partial sums of {dtype} of {}", bytes.join(" and ")),
        Purpose::Redistribution => {
            format!("a tile of redistribution {} of {dtype} of {}", header[0] >> 32, bytes.join(" and "))
        }
    };
    ["publishes".into(), "publish".into(), what]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spmd;
    use std::rc::Rc;

    /// Memory in segments, of which rank 1 cannot map those of rank 0.
    struct Unmappable {
        memory: Rc<dyn SharedMemory>,
        this: usize,
    }

    impl SharedMemory for Unmappable {
        fn reaches(&self, rank: usize) -> bool {
            self.memory.reaches(rank)
        }

        fn is_shared(&self) -> bool {
            true
        }

        fn handle(&self, address: *const u8, place: Option<(&Segment, usize)>) -> Option<u64> {
            self.memory.handle(address, place)
        }

        fn segment(&self, _handle: u64) -> Option<u64> {
            Some(7)
        }

        fn map(&self, rank: usize, _handle: u64) -> io::Result<()> {
            if (self.this, rank) == (1, 0) { Err(io::Error::other("it may map no more")) } else { Ok(()) }
        }

        fn locate(&self, rank: usize, handle: u64, bytes: usize) -> io::Result<Located> {
            self.memory.locate(rank, handle, bytes)
        }

        fn strand(&self, memory: Stranded) {
            self.memory.strand(memory);
        }
    }

    #[test]
    fn what_one_rank_cannot_map_is_hidden_on_all() {
        let seen = spmd(3, |world| {
            let memory = Unmappable { memory: Rc::clone(world.memory()?), this: world.rank() };
            let peers = Peers { comm: world.comm(), memory: &memory, members: None };
            let round = Round { purpose: Purpose::Inputs, dtype: DType::F64, program: 1 };
            let (publisher, data) = (Publisher::default(), [1.0_f64; 4]);
            let mut seen = Vec::new();
            for _ in 0..2 {
                let block = Block { address: data.as_ptr().cast(), bytes: 32, place: None };
                let headers = publisher.publish(&peers, &round, &[block])?;
                seen.extend(headers.iter().map(|header| published(header, 0) == (HIDDEN, 32)));
                drop(headers);
                publisher.wait(&peers, &round, 0)?;
            }
            Ok::<_, Error>(seen)
        });
        assert_eq!(seen.expect("all go on"), vec![vec![true; 6]; 3]);
    }

    #[test]
    fn a_first_word_is_read_as_it_was_written() {
        for purpose in Purpose::ALL {
            for dtype in DType::ALL {
                let round = Round { purpose, dtype, program: u32::MAX };
                let read = read(first_word(Says::IsDone, &round, 2)).expect("it says something");
                assert!(read.0 == Says::IsDone && (read.1, read.2, read.3) == (purpose, dtype, 2));
            }
        }
        assert!(read(0).is_none() && read(u64::MAX).is_none());
    }
}
