//! A run of one kernel: its statements, and the iterations of its leaf.
//!
//! Tests: `tests/it/golden.rs`.

use super::legs::{At, Input, Output};
use super::table::{Coordinates, Kernel, Transfer};
use super::{Engine, Prepared};
use crate::comm::Work;
use crate::groups::Groups;
use crate::instances::Instances;
use crate::leaf::{LeafBox, LeafBoxes, Ramp, Slices, op};
use crate::tile::{Fetching, Link, Source, Target, Tile, When, Written};
use crate::{DistArray, Element, Grid, Polled, ReduceOp, Region, Result, SharedInputs, Strided, StridedMut, View};
use polyshard_program::{Assign, LeafPart, Leg, TileId};
use smallvec::SmallVec;
use std::cell::Cell;
use std::panic::Location;

/// A run of a kernel on one rank; [`Engine::run`] begins it.
///
/// All ranks call the same operations in the same order. Counters are those of the serial loops around a statement, the outermost first.
/// If a run is dropped before it is [finished](Self::finish), the memory of its inputs stays valid for ranks that may still read it.
pub struct Run<'r, 'w, T: Element> {
    pub(super) engine: &'r mut Engine<'w, T>,
    /// The kernels that are running; more than one only where statements of several stand in one loop.
    pub(super) open: SmallVec<[Open<'r, T>; 1]>,
    /// The kernel of which the next operation is, by its position.
    pub(super) selected: usize,
    /// The line of the call.
    pub(super) at: &'static Location<'static>,
}

/// A kernel that is running.
pub(super) struct Open<'r, T: Element> {
    number: usize,
    inputs: SharedInputs<'r, T>,
    output: &'r mut DistArray<T>,
    work: Work,
}

/// A tile of the selected kernel, with all that an operation on it needs.
struct Selected<'s, 'r, 'w, T: Element> {
    kernel: &'s Kernel<'w>,
    transfer: &'s Transfer<'w>,
    grid: &'s Grid<'w>,
    groups: &'s Groups,
    /// None if the leaf works on the shard, or reads the tile of another kernel.
    link: Option<&'s mut Link<T>>,
    inputs: &'s SharedInputs<'r, T>,
    output: &'s mut DistArray<T>,
    /// The elements of the output that are written, unless all are.
    written: Option<&'s Written>,
    work: Work,
}

impl<'r, 'w, T: Element> Run<'r, 'w, T> {
    /// Opens another kernel, whose operations may stand between those of the others; collective over the world.
    ///
    /// # Errors
    /// As for [`Engine::run`].
    ///
    /// # Panics
    /// If there is no such kernel.
    pub fn open(&mut self, kernel: usize, inputs: &[&'r DistArray<T>], output: &'r mut DistArray<T>) -> Result<()> {
        T::open(self, kernel, inputs, output)
    }

    pub(crate) fn opened(
        &mut self,
        number: usize,
        inputs: &[&'r DistArray<T>],
        output: &'r mut DistArray<T>,
    ) -> Result<()> {
        let Engine { world, transport, kernels, known, .. } = &mut *self.engine;
        let (world, Prepared { kernel, written, .. }) = (*world, &kernels[number]);
        let work = Work { kernel: Some(kernel.name), tensor: None, at: self.at };
        world.comm().note(Some(work));
        // Links know where the tiles go in arrays with this sharding.
        output.expect(kernel.output().name.as_str(), kernel.output_sharding())?;
        if kernel.assign == Assign::Set && !kernel.overwrites {
            match written {
                Some(written) => written.fill(output, T::ZERO),
                None => output.block_mut().fill(T::ZERO),
            }
        }
        let inputs = match kernel.reads_others() {
            true => SharedInputs::publish(world, inputs, &mut known[number], *transport, kernel.in_place)?,
            false => SharedInputs::none(inputs),
        };
        self.open.push(Open { number, inputs, output, work });
        Ok(())
    }

    /// Makes the following operations those of the kernel at this position, in the order in which they were opened.
    pub fn select(&mut self, position: usize) {
        self.selected = position;
    }

    /// Returns this rank's coordinates, one per axis of the mesh.
    ///
    /// # Panics
    /// If the mesh does not have `N` axes.
    #[track_caller]
    #[must_use]
    pub fn coordinates<const N: usize>(&self) -> [i64; N] {
        let grid = &self.prepared().grid;
        let Ok(coordinates) = grid.coords().try_into() else {
            panic!("{N} coordinates on the mesh ({}): ask for {}, one per axis", grid.mesh(), grid.mesh().ndim())
        };
        coordinates
    }

    fn prepared(&self) -> &Prepared<'w, T> {
        &self.engine.kernels[self.open[self.selected].number]
    }

    fn tile(&mut self, tile: TileId) -> Selected<'_, 'r, 'w, T> {
        let Open { number, inputs, output, work } = &mut self.open[self.selected];
        let Engine { kernels, links, .. } = &mut *self.engine;
        let Prepared { kernel, grid, groups, output: out, written, .. } = &mut kernels[*number];
        let transfer = &kernel.transfers[tile.0];
        let link = if transfer.is_input() { &mut links[*number][tile.0] } else { out };
        let written = written.as_ref();
        Selected { kernel, transfer, grid, groups, link: link.as_mut(), inputs, output, written, work: *work }
    }

    /// Fills the output's tile with the value that does not change others, or takes over the sums of a neighbour by its shift.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the region does not fit the tile.
    pub fn fill(&mut self, tile: TileId, counters: &[i64]) -> Result<()> {
        T::fill(self, tile, counters)
    }

    pub(crate) fn filled(&mut self, tile: TileId, counters: &[i64]) -> Result<()> {
        let mut selected = self.tile(tile);
        let Selected { kernel, transfer, grid, groups, .. } = selected;
        let Some(link) = selected.link.take() else { return Ok(()) };
        let region = (transfer.region)(grid.coords(), counters);
        match transfer.route.shift().filter(|shift| counters[shift.counter.0] != 0) {
            None => link.reset(&region, op(kernel.assign)),
            Some(shift) => {
                selected.note();
                link.take_over(groups.along(&[shift.axis.0], None), shift.by, &region)?;
            }
        }
        Ok(())
    }

    /// Begins a transfer; unless it is ahead, or in flight while the interior of the leaf is computed, it is complete when this returns.
    ///
    /// # Errors
    /// If there is too little memory, or another rank failed.
    ///
    /// # Panics
    /// If ranks do not own what the legs say, or a region does not fit its tile.
    pub fn begin(&mut self, tile: TileId, counters: &[i64]) -> Result<()> {
        T::begin(self, tile, counters)
    }

    pub(crate) fn begun(&mut self, tile: TileId, counters: &[i64]) -> Result<()> {
        let mut selected = self.tile(tile);
        let Selected { kernel, transfer, .. } = selected;
        let (route, is_input) = (&transfer.route, transfer.is_input());
        let iteration = |shift: polyshard_program::Shift| counters[shift.counter.0];
        let (owners, shift) = (route.at_owners(), route.shift());
        if is_input && transfer.ahead > 0 {
            let is_shifted = shift.is_some_and(|shift| iteration(shift) != 0);
            let leg = if is_shifted { route.legs.last() } else { route.legs.first() };
            return leg.map_or(Ok(()), |leg| selected.carry(leg, false, Source::Shards, When::Later, counters));
        }
        // A tile that is shifted is fetched from its owners in the first iteration, and sent to them in the last one.
        let is_at_owners = shift.is_none_or(|shift| {
            let last = kernel.loops[shift.counter.0] - 1;
            iteration(shift) == if is_input { 0 } else { last }
        });
        if !is_at_owners {
            // An output's sums were taken over when its tile was filled.
            let shifted = route.legs.last().filter(|_| is_input);
            return shifted.map_or(Ok(()), |leg| selected.carry(leg, false, Source::Tiles, When::Now, counters));
        }
        for (nth, leg) in owners.iter().enumerate() {
            let source = if nth == 0 { Source::Shards } else { Source::Tiles };
            let is_later = if is_input { transfer.interior_first && nth == 0 } else { transfer.ahead > 0 };
            let when = if is_later { When::Later } else { When::Now };
            selected.carry(leg, nth == 0 && route.held.is_some(), source, when, counters)?;
        }
        Ok(())
    }

    /// Waits until a transfer that is in flight is complete; of those of several iterations, the one that began first. Does nothing if
    /// transfers of this tile are complete as soon as they have begun.
    ///
    /// # Errors
    /// If there is too little memory, or another rank failed.
    ///
    /// # Panics
    /// If none has begun.
    pub fn end(&mut self, tile: TileId) -> Result<()> {
        T::end(self, tile)
    }

    pub(crate) fn ended(&mut self, tile: TileId) -> Result<()> {
        let selected = self.tile(tile);
        if !selected.transfer.is_in_flight() {
            return Ok(());
        }
        selected.note();
        let Selected { kernel, transfer, grid, link, inputs, output: array, written, .. } = selected;
        let Some(link) = link else { return Ok(()) };
        match transfer.input {
            None => link.combine_next(grid.world().comm(), &mut Target { array, op: op(kernel.assign), written }),
            Some(input) => link.arrive(grid.world(), inputs.array(input)),
        }
    }

    /// As [`begin`](Self::begin) and [`end`](Self::end).
    ///
    /// # Errors
    /// As for [`begin`](Self::begin).
    ///
    /// # Panics
    /// As for [`begin`](Self::begin).
    pub fn transfer(&mut self, tile: TileId, counters: &[i64]) -> Result<()> {
        self.begin(tile, counters)?;
        self.end(tile)
    }

    /// Runs the leaf, whose loops have these numbers of iterations: `leaf` is called once, or for one slice after the other
    /// while transfers are in flight.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn compute(&mut self, counters: &[i64], counts: &[usize], leaf: impl FnMut(&Leaf<'_, 'r, T>)) -> Result<()> {
        self.compute_part(LeafPart::Whole, counters, counts, &[], leaf)
    }

    /// As [`compute`](Self::compute), but only a part of the leaf: its interior, from the first to below the second number of each loop, or
    /// the rest.
    ///
    /// # Errors
    /// If another rank failed.
    ///
    /// # Panics
    /// If the interior exceeds the leaf.
    pub fn compute_part(
        &mut self,
        part: LeafPart,
        counters: &[i64],
        counts: &[usize],
        interior: &[(i64, i64)],
        mut leaf: impl FnMut(&Leaf<'_, 'r, T>),
    ) -> Result<()> {
        let slices = self.prepared().kernel.slices;
        let mut boxes = match (part, slices) {
            (LeafPart::Whole, None) => {
                let _polled = self.poll_meanwhile();
                self.leaf(&LeafBox::whole(counts), counters, &mut leaf);
                return Ok(());
            }
            (LeafPart::Whole, Some((along, of))) => {
                let mut slices = Slices::new(counts, along, of);
                while let Some(slice) = slices.next(self.poll()?) {
                    let _polled = self.poll_meanwhile();
                    self.leaf(&LeafBox::slice(counts, along, slice), counters, &mut leaf);
                }
                return Ok(());
            }
            (LeafPart::Interior, _) => LeafBoxes::interior(counts, interior, slices.map_or(0, |(along, _)| along)),
            (LeafPart::Rims, _) => LeafBoxes::rims(counts, interior),
        };
        while let Some(next) = boxes.next(part == LeafPart::Interior && self.poll()?) {
            let _polled = (part == LeafPart::Interior).then(|| self.poll_meanwhile());
            self.leaf(&next, counters, &mut leaf);
        }
        Ok(())
    }

    /// Waits until all ranks are done with the inputs; they may then be written and dropped. Collective over the world.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn finish(mut self) -> Result<()> {
        T::finish(&mut self)
    }

    /// As [`finish`](Self::finish), in a run of a program, which may go on.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.open.iter_mut().try_for_each(|open| {
            self.engine.world.comm().note(Some(open.work));
            open.inputs.release()
        })
    }

    pub(crate) fn finished(&mut self) -> Result<()> {
        self.close()?;
        self.engine.end();
        Ok(())
    }

    /// Drives the transfers in flight, without waiting; returns whether some need to be polled again, which is not necessary with a
    /// [progress thread](crate::Progress::Thread). [`compute`](Self::compute) does it between slices of the leaf.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn poll(&mut self) -> Result<bool> {
        T::poll(self)
    }

    pub(crate) fn polled(&mut self) -> Result<bool> {
        let Engine { world, kernels, links, moves, .. } = &mut *self.engine;
        let mut is_in_flight = false;
        for open in &self.open {
            for link in links[open.number].iter_mut().flatten().chain(&mut kernels[open.number].output) {
                is_in_flight |= link.poll(world)?;
            }
        }
        moves.iter().try_fold(is_in_flight, |is_in_flight, one| Ok(one.flights.poll(world)? | is_in_flight))
    }

    /// Makes the progress thread, if any, poll while the leaf computes.
    fn poll_meanwhile(&self) -> Polled {
        let Engine { world, kernels, links, moves, .. } = &*self.engine;
        let numbers = self.open.iter().map(|open| open.number);
        let links = numbers.flat_map(|number| links[number].iter().flatten().chain(&kernels[number].output));
        let handles = links.map(Link::poll_handle).chain(moves.iter().map(|one| one.flights.handle()));
        world.poll_meanwhile(handles)
    }

    /// Runs the leaf for these iterations.
    fn leaf(&mut self, part: &LeafBox, counters: &[i64], leaf: &mut impl FnMut(&Leaf<'_, 'r, T>)) {
        let Engine { kernels, links, .. } = &mut *self.engine;
        let (earlier, rest) = self.open.split_at_mut(self.selected);
        let [Open { number, inputs, output, .. }, later @ ..] = rest else {
            unreachable!("a kernel that runs is open; this is a bug in polyshard")
        };
        let (first, rest) = kernels.split_at_mut(*number);
        let [Prepared { kernel, grid, output: out, steps, .. }, last @ ..] = rest else {
            unreachable!("a kernel that runs exists; this is a bug in polyshard")
        };
        let written = |of: usize| {
            let mut others = earlier.iter().chain(&*later);
            let open = others.find(|open| open.number == of);
            let prepared = if of < *number { &first[of] } else { &last[of - *number - 1] };
            match &prepared.output {
                // What kernels that run together pass on may be in tiles alone.
                Some(link) if prepared.kernel.keeps_in_tile() => link.own_view(),
                _ => open.expect("a kernel of the same run has written it; this is a bug in polyshard").output.view(),
            }
        };
        let written = kernel.transfers.iter().filter_map(|transfer| transfer.writer).map(|of| (of, written(of)));
        let written: SmallVec<[_; 2]> = written.collect();
        let (mut before, mut into) = (None, None);
        if let (Some(steps), Some(of)) = (steps, &kernel.time_steps) {
            let (step, last) = (counters[of.counter], kernel.loops[of.counter] - 1);
            steps.swap(0, 1);
            let [read, write] = steps;
            write.clear(&(of.region)(grid.coords(), counters));
            before = (step > 0).then(|| read.own_view());
            into = (step < last).then_some(write);
        }
        let write = match (into, out) {
            (Some(into), _) => Writes::Tile(into, true),
            (None, Some(out)) => Writes::Tile(out.tile(), false),
            (None, None) => Writes::Shard(output, kernel.overwrites),
        };
        leaf(&Leaf { part, number: *number, kernel, links, inputs, written, before, write: Cell::new(Some(write)) });
    }
}

impl<T: Element> Selected<'_, '_, '_, T> {
    /// Notes which tensor moves between ranks, in case this takes long.
    fn note(&self) {
        if !self.transfer.route.is_local() {
            self.grid.world().comm().note(Some(Work { tensor: Some(self.transfer.name), ..self.work }));
        }
    }

    /// Carries out a leg into the tile of an input, or out of the output's tile; of the region that the first of two legs leaves in
    /// tiles if `is_held`.
    fn carry(
        &mut self,
        leg: &Leg<Coordinates<'_>>,
        is_held: bool,
        from: Source,
        when: When,
        counters: &[i64],
    ) -> Result<()> {
        self.note();
        let Self { kernel, transfer, grid, groups, link, inputs, output: array, written, .. } = self;
        let region = transfer.route.held.as_ref().filter(|_| is_held).unwrap_or(&transfer.region);
        let region_of: &dyn Fn(&[i64]) -> Region = &|at| region(at, counters);
        let at = At { groups, coordinates: grid.coords(), counters };
        let Some(link) = link else { return Ok(()) };
        match transfer.input {
            Some(input) => {
                let of = Fetching { source: inputs.array(input), here: &region_of(grid.coords()), from, when };
                Input { grid, link, of, is_around: transfer.tile.own_in_place, region_of }.carry_out(leg, &at)
            }
            None => {
                let target = &mut Target { array, op: op(kernel.assign), written: *written };
                Output { grid, link, target, when, region_of }.carry_out(leg, &at)
            }
        }
    }
}

/// What a leaf writes, and whether it gives each element that it accesses one value.
enum Writes<'o, T: Element> {
    Tile(&'o mut Tile<T>, bool),
    Shard(&'o mut DistArray<T>, bool),
}

/// Iterations of a leaf to compute, with the data that they read and write.
///
/// An operand is given by its tile, the index `base` that the leaf's first iteration reads, and how far each iteration of loop `l` moves
/// the index along dimension `d`: by `steps[d][l]`.
pub struct Leaf<'o, 'r, T: Element> {
    part: &'o LeafBox,
    number: usize,
    kernel: &'o Kernel<'r>,
    links: &'o [Vec<Option<Link<T>>>],
    inputs: &'o SharedInputs<'r, T>,
    /// What other kernels of the run have written, by their numbers.
    written: SmallVec<[(usize, View<'o, T>); 2]>,
    /// What the previous time step wrote.
    before: Option<View<'o, T>>,
    write: Cell<Option<Writes<'o, T>>>,
}

impl<'o, T: Element> Leaf<'o, '_, T> {
    /// Returns the number of iterations of each loop.
    #[must_use]
    pub fn counts(&self) -> SmallVec<[usize; 6]> {
        self.part.counts()
    }

    /// Returns an operand in the region that a transfer has fetched: in its tile, in a shard, or in the tile of an earlier kernel; or, in
    /// a later time step, in what the previous one wrote.
    ///
    /// # Panics
    /// If there is no such transfer of an input, or `base` or `steps` do not fit its dimensions.
    #[track_caller]
    #[must_use]
    #[inline]
    pub fn read(&self, tile: TileId, base: &[i64], steps: &[&[i64]]) -> Strided<'_, T> {
        let at = self.part.moved_all(base, steps);
        self.view(tile).strided(&at, steps)
    }

    /// As [`read`](Self::read), but `value` where an index is outside of the array, whose extents are given for the dimensions where that
    /// may be.
    ///
    /// # Panics
    /// As for [`read`](Self::read).
    #[track_caller]
    #[must_use]
    #[inline]
    pub fn read_or(
        &self,
        tile: TileId,
        value: T,
        extents: &[Option<i64>],
        base: &[i64],
        steps: &[&[i64]],
    ) -> Strided<'_, T> {
        let at = self.part.moved_all(base, steps);
        self.view(tile).outside(value, extents).strided(&at, steps)
    }

    /// Returns the numbers that start from `base` in the leaf's first iteration, and grow by `strides[l]` along loop `l`.
    #[must_use]
    pub fn ramp(&self, base: i64, strides: &[i64]) -> Ramp {
        Ramp::new(base + self.part.moved(strides), strides)
    }

    /// Returns the operation that combines values into the output.
    #[must_use]
    pub fn op(&self) -> ReduceOp {
        op(self.kernel.assign)
    }

    /// Returns the operand that the leaf writes.
    ///
    /// # Panics
    /// If it has been returned before, or `base` or `steps` do not fit its dimensions.
    #[track_caller]
    #[must_use]
    #[inline]
    pub fn write(&self, base: &[i64], steps: &[&[i64]]) -> StridedMut<'o, T> {
        let at = self.part.moved_all(base, steps);
        let (view, overwrites) = match self.write.take().expect("a leaf takes its output once") {
            Writes::Tile(tile, overwrites) => (tile.view_mut(), overwrites),
            Writes::Shard(array, overwrites) => (array.view_mut(), overwrites),
        };
        if overwrites { view.overwritten().strided(&at, steps) } else { view.strided(&at, steps) }
    }

    #[inline]
    fn view(&self, tile: TileId) -> View<'_, T> {
        if let Some(before) = &self.before {
            return before.clone();
        }
        let transfer = &self.kernel.transfers[tile.0];
        if let Some(writer) = transfer.writer {
            let found = self.written.iter().find(|(of, _)| *of == writer);
            return found.expect("it was looked up; this is a bug in polyshard").1.clone();
        }
        let source = self.inputs.array(transfer.input.expect("a leaf reads inputs"));
        let (kernel, TileId(number)) = transfer.reused.unwrap_or((self.number, tile));
        match &self.links[kernel][number] {
            Some(link) => link.view(source),
            None => source.array().view(),
        }
    }
}
