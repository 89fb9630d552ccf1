//! The way of one array: the steps that change how it lies, with the tiles between them.
//!
//! Where an array stands before and after each step is settled when the chain is made: with the caller, in a tile of the
//! chain, or where it is to end. So a run allocates no tile. A sum that all ranks get stays where its terms are, and the
//! local product is written straight into the place from which the first step takes it.
//!
//! ```text
//! A * B -> C {U_XY}, AllReduce_X, ReduceScatter_Y        product -> tile 0 -> tile 0 -> C
//! A * B -> C {U_X}, AllReduce_X                          product -> C -> C
//! ```

use super::sum::{AllReduce, Scatter};
use super::tile::{Held, len};
use crate::{DistArray, Element, Redistribution, Result, World};
use polyshard_planner::product::{Op, Sharded, Step};
use std::cell::{RefCell, RefMut};

/// Steps on one array, one after the other.
pub(super) struct Chain<T> {
    motions: Vec<Motion<T>>,
    /// Where the array is before each step, and after the last.
    stations: Vec<Station>,
    tiles: Vec<RefCell<DistArray<T>>>,
}

/// One step.
enum Motion<T> {
    Redistribute(Box<Redistribution>),
    Scatter(Scatter<T>),
    AllReduce(AllReduce<T>),
}

/// Where an array is.
#[derive(Clone, Copy, PartialEq)]
enum Station {
    /// With the caller, who only lends it.
    Given,
    /// In a tile of the chain.
    Tile(usize),
    /// Where it is to end.
    Target,
}

/// Who provides what a chain starts with.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Start {
    /// The caller, in an array of theirs.
    Given,
    /// Whoever writes to [`Chain::start`].
    Written,
}

impl<T: Element> Chain<T> {
    /// Prepares `steps` on an array of this shape, which lies as `from` before them; collective over the world.
    pub(super) fn new(world: &World, from: &Held, steps: &[&Step], start: Start) -> Result<Self> {
        let held = |array: &Sharded| Held { array: array.clone(), shape: from.shape.clone() };
        let mut motions = Vec::with_capacity(steps.len());
        for step in steps {
            motions.push(Motion::new(world, step, &held)?);
        }
        // From the end: what is done in place is done where its result is wanted.
        let mut stations = vec![Station::Target; steps.len() + 1];
        let mut tiles = Vec::new();
        for (nth, step) in steps.iter().enumerate().rev() {
            let given = nth == 0 && start == Start::Given;
            stations[nth] = if given {
                Station::Given
            } else if matches!(motions[nth], Motion::AllReduce(_)) {
                stations[nth + 1]
            } else {
                let before = held(step.before().expect("a step on one array has one; this is a bug of polyshard"));
                // What ranks write into one another's memory is best in memory that they share.
                tiles.push(RefCell::new(match nth.checked_sub(1).map(|nth| &motions[nth]) {
                    Some(Motion::Redistribute(there)) => there.output(world)?,
                    _ => DistArray::filled(world, &before.sharding()?, T::ZERO)?,
                }));
                Station::Tile(tiles.len() - 1)
            };
        }
        if steps.is_empty() && start == Start::Given {
            stations[0] = Station::Given;
        }
        Ok(Self { motions, stations, tiles })
    }

    /// Returns whether there are no steps.
    pub(super) fn is_empty(&self) -> bool {
        self.motions.is_empty()
    }

    /// Calls `write` with the tile that a run starts from, where nobody gives one: in the chain, or in `target`.
    pub(super) fn start(&self, target: &mut DistArray<T>, write: impl FnOnce(&mut [T])) {
        match self.stations[0] {
            Station::Tile(nth) => write(self.tiles[nth].borrow_mut().block_mut()),
            Station::Target => write(target.block_mut()),
            Station::Given => {
                unreachable!("a chain is written to that was made to be given; this is a bug of polyshard")
            }
        }
    }

    /// Runs the steps on what is `given`, or on what was written, to `target`; collective over the steps' groups.
    pub(super) fn run(&self, given: &[T], target: &mut DistArray<T>) -> Result<()> {
        for (motion, ends) in self.motions.iter().zip(self.stations.windows(2)) {
            match ends {
                [Station::Target, Station::Target] => motion.run_in_place(target)?,
                [Station::Tile(one), Station::Tile(other)] if one == other => {
                    motion.run_in_place(&mut self.tiles[*one].borrow_mut())?;
                }
                [Station::Given, Station::Target] => motion.run(given, target)?,
                [Station::Given, Station::Tile(nth)] => motion.run(given, &mut self.tile(*nth))?,
                [Station::Tile(nth), Station::Target] => motion.run(self.tile(*nth).block(), target)?,
                [Station::Tile(from), Station::Tile(to)] => {
                    motion.run(self.tile(*from).block(), &mut self.tile(*to))?;
                }
                _ => unreachable!("a step leads back to where an array was given; this is a bug of polyshard"),
            }
        }
        Ok(())
    }

    /// Returns an array of zeros for the target, in shared memory where the last step gains from that; collective.
    pub(super) fn output(&self, world: &World, target: &Held) -> Result<DistArray<T>> {
        match self.motions.last() {
            Some(Motion::Redistribute(there)) => there.output(world),
            _ => DistArray::filled(world, &target.sharding()?, T::ZERO),
        }
    }

    /// Returns the bytes that this rank holds, or at most holds, between runs and during them.
    pub(super) fn staging_bytes(&self) -> usize {
        let tiles: usize = self.tiles.iter().map(|tile| size_of_val(tile.borrow().block())).sum();
        tiles + self.motions.iter().map(Motion::staging_bytes).sum::<usize>()
    }

    fn tile(&self, nth: usize) -> RefMut<'_, DistArray<T>> {
        self.tiles[nth].borrow_mut()
    }
}

impl<T: Element> Motion<T> {
    fn new(world: &World, step: &Step, held: &impl Fn(&Sharded) -> Held) -> Result<Self> {
        let Step::Move { op, axes, from, to, .. } = step else {
            unreachable!("a multiplication is no step on one array; this is a bug of polyshard")
        };
        let (from, to) = (held(from), held(to));
        Ok(match op {
            Op::ReduceScatter => Self::Scatter(Scatter::new(world, axes, &from, &to)?),
            Op::AllReduce => {
                let mesh = from.mesh();
                Self::AllReduce(AllReduce::new(world, mesh, axes, len(&from.tile(&mesh.coordinates(world.rank()))))?)
            }
            Op::Slice | Op::AllGather | Op::AllToAll => {
                // Of several owners, the one at the reader's own coordinates is asked: a rank of the same term.
                Self::Redistribute(Box::new(Redistribution::new(world, &from.sharding()?, &to.sharding()?)?))
            }
        })
    }

    fn run(&self, from: &[T], to: &mut DistArray<T>) -> Result<()> {
        match self {
            Self::Redistribute(there) => there.run_blocks(from, to),
            Self::Scatter(scatter) => scatter.run(from, to.block_mut()),
            Self::AllReduce(sum) => sum.run(from, to.block_mut()),
        }
    }

    fn run_in_place(&self, tile: &mut DistArray<T>) -> Result<()> {
        match self {
            Self::AllReduce(sum) => sum.run_in_place(tile.block_mut()),
            _ => unreachable!("a step that moves tiles is done in place; this is a bug of polyshard"),
        }
    }

    fn staging_bytes(&self) -> usize {
        match self {
            Self::Redistribute(there) => there.staging_bytes(size_of::<T>()),
            Self::Scatter(scatter) => scatter.staging_bytes(),
            Self::AllReduce(sum) => sum.staging_bytes(),
        }
    }
}
