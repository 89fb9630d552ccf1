//! Hops: one step of a redistribution, in which every rank hands out pieces of one tile and gets those of
//! another.
//!
//! A hop says who takes part and which [piece](Subarray) each pair of ranks moves; how it moves is a transport's
//! affair. Ranks that move nothing between them are in different groups and never wait for each other; a rank
//! that only keeps what it has is alone and talks to nobody.

use crate::comm::{Communicator, SharedMemory, exchange_words};
use crate::layout::{Mesh, Neighbours};
use crate::publish::Publisher;
use crate::subarray::Subarray;
use crate::{Result, World};
use std::rc::Rc;

/// One step of a redistribution, seen from one rank. Numbers of members are ranks of `comm`.
pub(super) struct Hop {
    /// The group; none for a rank that talks to nobody.
    pub(super) comm: Option<Rc<dyn Communicator>>,
    /// World ranks of the members, ascending.
    pub(super) members: Vec<usize>,
    /// This rank's number among the members.
    pub(super) me: usize,
    /// What this rank hands to each member, itself included.
    pub(super) sends: Vec<Subarray>,
    /// What this rank gets from each member, itself included.
    pub(super) receives: Vec<Subarray>,
    /// Whether any rank of the world talks to another.
    pub(super) talks: bool,
    /// What the members publish for each other.
    pub(super) publisher: Publisher,
}

impl Hop {
    /// Returns the hop in which `between(a, b)` is what rank `a` of the world hands to rank `b`; collective. `reach` says where
    /// those are that have something for a rank, in `mesh`.
    ///
    /// Takes time in proportion to the number of ranks.
    ///
    /// # Errors
    /// If another rank failed.
    pub(super) fn new(
        world: &World,
        mesh: &Mesh,
        reach: &Neighbours,
        between: impl Fn(usize, usize) -> Subarray,
    ) -> Result<Self> {
        let this = world.rank();
        let mut pieces: Vec<[Subarray; 2]> = (0..world.size()).map(|_| Default::default()).collect();
        let own = mesh.coordinates(this);
        // Along each axis they are at its own coordinate or at any, so whoever has something for a rank is as near as whom it has something for.
        for rank in mesh.in_reach(&own, reach).map(|at| mesh.rank(&at)) {
            pieces[rank] = [between(this, rank), between(rank, this)];
        }
        let peers = (0..world.size()).filter(|&rank| pieces[rank].iter().any(|piece| piece.len() > 0)).collect();
        let labels = components(world, peers)?;
        let members: Vec<_> = (0..world.size()).filter(|&rank| labels[rank] == labels[this]).collect();
        let me = members.iter().position(|&rank| rank == this).expect("a rank is in its own group");
        let comm = world.part(&labels)?;
        let (sends, receives) = members.iter().map(|&rank| std::mem::take(&mut pieces[rank]).into()).unzip();
        let talks = labels.iter().enumerate().any(|(rank, &label)| label != rank);
        Ok(Self { comm, members, me, sends, receives, talks, publisher: Publisher::default() })
    }

    /// Returns the first member, by number in the world, that this rank shares no memory with.
    pub(super) fn apart(&self, memory: &dyn SharedMemory) -> Option<usize> {
        self.members.iter().copied().find(|&rank| !memory.reaches(rank))
    }

    /// Returns the number of elements that this rank gets, from itself too.
    pub(super) fn found(&self) -> usize {
        self.receives.iter().map(Subarray::len).sum()
    }

    /// Returns the number of elements that this rank gets from others.
    pub(super) fn received(&self) -> usize {
        self.receives.iter().enumerate().filter(|(member, _)| *member != self.me).map(|(_, piece)| piece.len()).sum()
    }
}

/// Returns for each rank of the world the least rank that it is connected with, where each rank knows its own
/// `peers` and is known to them; collective.
fn components(world: &World, peers: Vec<usize>) -> Result<Vec<usize>> {
    let mut labels: Vec<usize> = (0..world.size()).collect();
    loop {
        let least = peers.iter().map(|&peer| labels[peer]).fold(labels[world.rank()], usize::min);
        let told = exchange_words(world.comm(), "the groups of a redistribution", [least as u64])?;
        let told: Vec<_> = told.into_iter().map(|header| header[0] as usize).collect();
        // A label is a rank of the same component, so its own label is one too, and may be less. That makes
        // long chains short: each round at least halves them.
        let next: Vec<_> = told.iter().map(|&label| told[label]).collect();
        // All ranks see the same labels, so all stop together.
        if next == labels {
            return Ok(labels);
        }
        labels = next;
    }
}
