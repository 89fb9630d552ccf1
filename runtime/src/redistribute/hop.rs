//! Hops: every rank hands out pieces of one tile and gets those of another.
//!
//! A hop says who takes part and which [piece](Subarray) each pair of ranks moves; how it moves is a transport's
//! affair. Ranks that move nothing between them are in different groups and never wait for each other; a rank
//! that only keeps what it has is alone and talks to nobody.

use crate::comm::{Communicator, SharedMemory, exchange_words};
use crate::layout::{Mesh, Neighbours};
use crate::publish::Publisher;
use crate::subarray::{Place, Subarray, mail};
use crate::{Result, World};
use std::rc::Rc;

/// One hop, seen from one rank. Numbers of members are ranks of `comm`.
pub(super) struct Hop {
    /// The group; none for a rank that talks to nobody.
    pub(super) comm: Option<Rc<dyn Communicator>>,
    /// World ranks of the members, ascending.
    pub(super) members: Vec<usize>,
    /// This rank's number among the members.
    pub(super) me: usize,
    /// What this rank keeps.
    pub(super) own: Subarray,
    /// What this rank hands to other members, by their numbers.
    pub(super) sends: Vec<(usize, Subarray)>,
    /// What this rank gets from other members.
    pub(super) receives: Vec<(usize, Subarray)>,
    /// What it gets from members that have nothing for it.
    nothing: Subarray,
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
        let coordinates = mesh.coordinates(this);
        let mut in_reach: Vec<_> = mesh.in_reach(&coordinates, reach).map(|at| mesh.rank(&at)).collect();
        in_reach.retain(|&rank| rank != this);
        in_reach.sort_unstable();
        // A reach is the rank's own coordinate or all of them along each axis, so the ranks that this one sends to are in it as well.
        let pieces = |between: &dyn Fn(usize) -> Subarray| -> Vec<_> {
            let pieces = in_reach.iter().map(|&rank| (rank, between(rank)));
            pieces.filter(|(_, piece)| piece.len() > 0).collect()
        };
        let (mut sends, mut receives) = (pieces(&|rank| between(this, rank)), pieces(&|rank| between(rank, this)));
        let peers = sends.iter().chain(&receives).map(|(rank, _)| *rank).collect();
        let labels = components(world, peers)?;
        let members: Vec<_> = (0..world.size()).filter(|&rank| labels[rank] == labels[this]).collect();
        let number =
            |rank| members.binary_search(&rank).expect("a rank is in its own group; this is a bug in polyshard");
        sends.iter_mut().chain(&mut receives).for_each(|(rank, _)| *rank = number(*rank));
        let comm = world.part(&labels)?;
        let talks = labels.iter().enumerate().any(|(rank, &label)| label != rank);
        let (me, own) = (number(this), between(this, this));
        let (nothing, publisher) = Default::default();
        Ok(Self { comm, members, me, own, sends, receives, nothing, talks, publisher })
    }

    /// Returns what this rank gets of each member, itself included, by their numbers.
    pub(super) fn parts(&self) -> Vec<&Subarray> {
        let mut parts = vec![&self.nothing; self.members.len()];
        parts[self.me] = &self.own;
        self.receives.iter().for_each(|(member, piece)| parts[*member] = piece);
        parts
    }

    /// Returns the first member, by number in the world, that this rank shares no memory with.
    pub(super) fn apart(&self, memory: &dyn SharedMemory) -> Option<usize> {
        self.members.iter().copied().find(|&rank| !memory.reaches(rank))
    }

    /// Returns the number of elements that this rank gets, from itself too.
    pub(super) fn found(&self) -> usize {
        self.own.len() + self.received()
    }

    /// Returns the number of elements that this rank gets from others.
    pub(super) fn received(&self) -> usize {
        mail::total(&self.receives)
    }

    /// Returns the largest number of elements of a piece that is scattered where it is sent from, and where it is received.
    pub(super) fn scattered(&self) -> [usize; 2] {
        let largest = |pieces: &[(usize, Subarray)], place| {
            let scattered = pieces.iter().filter(|(_, piece)| piece.contiguous(place).is_none());
            scattered.map(|(_, piece)| piece.len()).max().unwrap_or(0)
        };
        [largest(&self.sends, Place::Block), largest(&self.receives, Place::Region)]
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
