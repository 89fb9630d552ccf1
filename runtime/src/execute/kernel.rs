//! One kernel of a program on one rank: the resources of its runs, and the walk over its statements. Tests: `tests/it/properties.rs`.

use super::leaf::LeafPlan;
use super::leaves::Leaves;
use super::local::{LocalNest, region_at};
use crate::comm::Work;
use crate::groups::Groups;
use crate::layout::Sharding;
use crate::leaf::{LeafBox, LeafBoxes, Ramp, Slices};
use crate::legs::{At, Ends, Input, Output, carry_out, values_at};
use crate::shared_inputs::InputTable;
use crate::{
    DistArray, Element, Grid, KeptTile, OutTile, Polled, ReduceOp, Reduction, Region, Result, SharedInputs,
    StepBuffers, Tile, Transport, World, Written, count,
};
use polyshard_program::{
    Action, Assign, Buffers, Direction, Expr, Iteration, Kernel, LeafAccess, LeafPart, Leg, Nest, OperandId,
    Region as SymbolicRegion, Source, Statement, TileId, TimeSteps, Transfer, When,
};
use smallvec::SmallVec;
use std::panic::Location;

/// A kernel's groups, tiles and leaf, made once.
pub(super) struct PreparedKernel<'a, T: Element> {
    nest: &'a Nest,
    grid: Grid<'a>,
    op: ReduceOp,
    groups: Groups,
    /// By transfer of an input; `None` where the leaf reads the shard, or the tile of another kernel.
    tiles: Vec<Option<Tile<T>>>,
    out_tile: Option<OutTile<T>>,
    /// The buffers between time steps.
    steps: Option<StepBuffers<T>>,
    /// The elements of the output that `=` clears before it sums up; `None` if it clears all.
    cleared: Option<Written>,
    leaf: LeafPlan<T>,
    here: LocalNest,
    counters: Vec<i64>,
    world: &'a World,
    transport: Transport,
    /// The locations of all ranks' inputs in the last run.
    known: InputTable,
    /// Whether the run is in the first of several rounds, or in the only one.
    is_first: bool,
}

impl<'a, T: Element> PreparedKernel<'a, T> {
    pub(super) fn new(nest: &'a Nest, world: &'a World) -> Result<Self> {
        let grid = Grid::new(world, &nest.mesh)?;
        let here = LocalNest::new(nest, grid.coords());
        let kernel = &nest.kernel;
        let leaf = LeafPlan::new(nest, kernel)?;
        let groups = Groups::new(nest.groups(), |axes, stages| match stages {
            None => grid.group(axes),
            Some(stages) => grid.world().group_in_stages(grid.mesh(), axes, stages),
        })?;
        let output = kernel.output().name;
        let buffers = |steps: &TimeSteps| StepBuffers::new(output.as_str(), steps.capacity);
        let steps = nest.time_steps.as_ref().map(buffers).transpose()?;
        let tiles = nest.inputs().iter().map(|transfer| {
            if transfer.kept_by().is_some() {
                return Ok(None);
            }
            let (name, tile) = (nest.tensor_name(transfer.tensor), transfer.tile);
            let made = match tile.buffers {
                Buffers::Shard => return Ok(None),
                Buffers::One => Tile::new(name.as_str(), tile.capacity)?,
                Buffers::Relay => Tile::relay(name.as_str(), tile.capacity)?,
                Buffers::Ahead(depth) => {
                    let group = transfer.group_ahead().map(|axes| (groups.along(axes, None), tile.passing));
                    Tile::ahead(name.as_str(), tile.capacity, depth, group)?
                }
            };
            let made = if tile.in_pieces { made.in_pieces() } else { made };
            let made = if tile.is_fixed { made.fixed() } else { made };
            let peers = nest.peers_ahead(transfer);
            peers.iter().try_fold(made, |made, reach| made.connected(&grid, reach)).map(Some)
        });
        let tiles = tiles.collect::<Result<_>>()?;
        let written = written(kernel, world, nest.output_sharding());
        let output @ Transfer { tile, direction, route, .. } = nest.output();
        let out_tile = match tile.buffers {
            Buffers::Shard => None,
            Buffers::One | Buffers::Relay | Buffers::Ahead(_) => {
                let name = kernel.output().name.as_str();
                let made = match tile.buffers {
                    Buffers::Ahead(depth) => {
                        let group = output.group_ahead().map(|axes| groups.along(axes, None));
                        OutTile::ahead(name, tile.capacity, depth, group)?
                    }
                    _ => OutTile::new(name, tile.capacity)?,
                };
                let made = if *direction == (Direction::Out { any_order: true }) { made.in_any_order() } else { made };
                let made = if tile.in_pieces { made.in_pieces() } else { made };
                let made = match route.procedure() {
                    Some(procedure) => made.reduced_by(Reduction::new(world, procedure, tile.capacity)?),
                    None => made,
                };
                let made = if tile.is_fixed { made.fixed() } else { made };
                let peers = nest.peers_ahead(output);
                let made = peers.iter().try_fold(made, |made, reach| made.connected(&grid, reach))?;
                Some(match &written {
                    Some(written) => made.within(written.clone()),
                    None => made,
                })
            }
        };
        Ok(Self {
            nest,
            grid,
            op: ReduceOp::of(nest.kernel.assign()),
            groups,
            tiles,
            out_tile,
            steps,
            cleared: written,
            leaf,
            here,
            counters: vec![0; nest.loops.len()],
            world,
            transport: world.transport(),
            known: InputTable::of(&(nest.kernel.to_string(), &nest.shardings)),
            is_first: true,
        })
    }

    /// Sets how inputs are transferred between ranks.
    pub(super) fn with_transport(self, transport: Transport) -> Self {
        let out_tile = match transport {
            Transport::Messages => self.out_tile.map(OutTile::by_messages),
            Transport::Auto | Transport::Shared => self.out_tile,
        };
        Self { transport, out_tile, ..self }
    }

    /// The value that each element of the output starts from; `None` if runs overwrite all of them.
    pub(super) fn identity(&self) -> Option<T> {
        let writes_all = self.nest.kernel.assign() == Assign::Set && self.cleared.is_none();
        (!writes_all).then(|| self.op.identity())
    }

    /// Initialises an output as the next version of an array: elements that runs write start from the identity, and all others are copied.
    pub(super) fn begin_version(&self, output: &mut DistArray<T>, before: &DistArray<T>) {
        let Some(written) = &self.cleared else { return };
        written.copy_others(output, before);
        // `=` clears them in the run.
        if self.nest.kernel.assign() != Assign::Set {
            written.fill(output, self.op.identity());
        }
    }

    /// Sets whether the runs that follow are in the first round.
    pub(super) fn set_first(&mut self, is_first: bool) {
        self.is_first = is_first;
    }

    /// Returns the tile of a transfer, for a kernel that reads it after a run of this one.
    pub(super) fn kept_tile(&self, TileId(number): TileId) -> KeptTile<'_, T> {
        let tile =
            self.tiles[number].as_ref().expect("a tile that is kept is its kernel's; this is a bug in polyshard");
        KeptTile::new(tile, Some(&self.known))
    }

    /// Runs the kernel's statements for the call at a line, with the scalars of `given`, if it is given, instead of those that it captured.
    pub(super) fn run(
        &mut self,
        statements: &[Statement],
        Reads { inputs, kept }: Reads<'_, '_, T>,
        output: &mut DistArray<T>,
        given: Option<&Kernel>,
        leaves: &mut Leaves<'a>,
        at: &'static Location<'static>,
    ) -> Result<()> {
        let work = Work { kernel: Some(self.nest.kernel.name()), tensor: None, at };
        self.world.comm().note(Some(work));
        if self.nest.kernel.assign() == Assign::Set && !self.nest.leaf.overwrites {
            match &self.cleared {
                Some(written) => written.fill(output, T::ZERO),
                None => output.block_mut().fill(T::ZERO),
            }
        }
        let mut leaf = given.map(|kernel| LeafPlan::new(self.nest, kernel)).transpose()?;
        let Self {
            nest,
            grid,
            op,
            groups,
            tiles,
            out_tile,
            leaf: own,
            here,
            steps,
            counters,
            world,
            transport,
            known,
            is_first,
            ..
        } = self;
        let is_first = *is_first;
        kept.iter().for_each(|(_, tile)| tile.publish_with(known));
        let leaf = leaf.as_mut().unwrap_or(own);
        tiles.iter_mut().flatten().for_each(Tile::restart);
        out_tile.iter_mut().for_each(OutTile::restart);
        let shared = match nest.reads_others() {
            true => SharedInputs::publish(world, inputs, known, *transport)?,
            false => SharedInputs::none(world, inputs),
        };
        let inputs = &shared;
        Walk {
            nest,
            here,
            grid,
            inputs,
            output,
            op: *op,
            groups,
            tiles,
            kept,
            out_tile,
            steps,
            leaf,
            counters,
            leaves,
            work,
            is_first,
        }
        .statements(statements)?;
        world.comm().note(Some(work));
        shared.release()
    }
}

/// A transfer that fetches nothing, and the tile of another kernel that the leaf reads instead; several transfers may share a tile.
pub(super) type Kept<'t, T> = (TileId, KeptTile<'t, T>);

/// The data that a run reads: the arrays of the kernel's inputs, and tiles of other kernels instead of transfers.
pub(super) struct Reads<'r, 't, T: Element> {
    pub inputs: &'r [&'r DistArray<T>],
    pub kept: &'r [Kept<'t, T>],
}

/// The elements that a kernel writes of an array with this sharding, if it does not write all of them.
pub(super) fn written(kernel: &Kernel, world: &World, sharding: &Sharding) -> Option<Written> {
    let written = kernel.written()?;
    let steps: Vec<&[i64]> = written.strides.iter().map(Vec::as_slice).collect();
    Some(Written::new(world, sharding, &written.base, &steps, &written.counts))
}

/// One run of a kernel on one rank.
struct Walk<'a, 'r, 'i, T: Element> {
    nest: &'a Nest,
    here: &'r LocalNest,
    grid: &'r Grid<'a>,
    inputs: &'r SharedInputs<'i, T>,
    output: &'r mut DistArray<T>,
    op: ReduceOp,
    groups: &'r Groups,
    tiles: &'r mut [Option<Tile<T>>],
    kept: &'r [Kept<'r, T>],
    out_tile: &'r mut Option<OutTile<T>>,
    steps: &'r mut Option<StepBuffers<T>>,
    leaf: &'r mut LeafPlan<T>,
    counters: &'r mut [i64],
    leaves: &'r mut Leaves<'a>,
    work: Work,
    is_first: bool,
}

impl<'a, T: Element> Walk<'a, '_, '_, T> {
    fn statements(&mut self, statements: &[Statement]) -> Result<()> {
        for statement in statements {
            match statement {
                Statement::Loop { counter, body, .. } => {
                    for value in 0..self.nest.loops[counter.0].extent {
                        self.counters[counter.0] = value;
                        self.statements(body)?;
                    }
                }
                _ => self.nest.each_action(statement, |when, action| self.act(when, action))?,
            }
        }
        Ok(())
    }

    /// Performs the action if it is due now.
    fn act(&mut self, when: When, action: Action<'_>) -> Result<()> {
        match when {
            When::Always => self.call(action),
            When::At(counter, value) if self.counters[counter.0] == value => self.call(action),
            When::NotAt(counter, value) if self.counters[counter.0] != value => self.call(action),
            When::InFirstRound if self.is_first => self.call(action),
            When::At(..) | When::NotAt(..) | When::InFirstRound => Ok(()),
            When::For(counter, iteration) => {
                let now = self.counters[counter.0];
                let then = match iteration {
                    Iteration::At(value) => value,
                    Iteration::Later(by) => now + by,
                    Iteration::Earlier(by) => now - by,
                };
                if !(0..self.nest.loops[counter.0].extent).contains(&then) {
                    return Ok(());
                }
                self.counters[counter.0] = then;
                let done = self.call(action);
                self.counters[counter.0] = now;
                done
            }
        }
    }

    fn call(&mut self, action: Action<'_>) -> Result<()> {
        match action {
            Action::Reset(number) => {
                let region = self.region(number);
                self.out_tile.iter_mut().for_each(|tile| tile.reset(&region, self.op));
                Ok(())
            }
            Action::TakeOver(number, shift) => {
                self.note(number);
                let region = self.region(number);
                let Some(tile) = &mut self.out_tile else { return Ok(()) };
                tile.shift(self.groups.along(&[shift.axis.0], None), shift.by, &region)
            }
            Action::Carry(number, leg, region, from) => self.carry(number, leg, region, from),
            Action::Arrive(number) => {
                self.note(number);
                if self.nest.transfers[number.0].direction != Direction::In {
                    let Some(tile) = &mut self.out_tile else { return Ok(()) };
                    return tile.arrive(self.grid.world(), self.output, self.op);
                }
                let source = self.inputs.array(self.nest.transfers[number.0].tensor.0);
                let Some(tile) = &mut self.tiles[number.0] else { return Ok(()) };
                tile.arrive(self.grid.world(), source)
            }
            Action::Compute(part) => {
                self.compute(part)?;
                if part != LeafPart::Interior {
                    self.leaves.next();
                }
                Ok(())
            }
        }
    }

    /// Polls the transfers in flight; returns whether the leaf is to be sliced so that they are polled again.
    fn poll(&mut self) -> Result<bool> {
        let mut is_coming = false;
        for tile in self.tiles.iter_mut().flatten() {
            is_coming |= tile.poll(self.grid.world())?;
        }
        if let Some(tile) = &mut self.out_tile {
            is_coming |= tile.poll(self.grid.world())?;
        }
        Ok(is_coming)
    }

    /// Makes the progress thread, if any, poll while the leaf computes.
    fn poll_meanwhile(&self) -> Polled {
        let inputs = self.tiles.iter().flatten().map(Tile::under_way);
        self.grid.world().poll_meanwhile(inputs.chain(self.out_tile.as_ref().map(OutTile::under_way)))
    }

    /// Runs this part of the leaf, in slices while transfers are in flight that no progress thread polls.
    fn compute(&mut self, part: LeafPart) -> Result<()> {
        if part != LeafPart::Whole {
            return self.compute_boxes(part);
        }
        let Some((along, of)) = self.here.sliced_along else {
            let _polled = self.poll_meanwhile();
            self.run_leaf(None);
            return Ok(());
        };
        let counts: SmallVec<[usize; 6]> = self.values(&self.here.counts).into_iter().map(count).collect();
        let mut slices = Slices::new(&counts, along, of);
        while let Some(slice) = slices.next(self.poll()?) {
            let _polled = self.poll_meanwhile();
            self.run_leaf(Some(&LeafBox::slice(&counts, along, slice)));
        }
        Ok(())
    }

    /// Runs the interior of the leaf, or the rest.
    fn compute_boxes(&mut self, part: LeafPart) -> Result<()> {
        let counts: SmallVec<[usize; 6]> = self.values(&self.here.counts).into_iter().map(count).collect();
        let value = |expr: &Expr| expr.eval(self.grid.coords(), self.counters);
        let interior: SmallVec<[(i64, i64); 6]> =
            self.here.interior.iter().map(|(low, high)| (value(low), value(high))).collect();
        let mut boxes = match part {
            LeafPart::Interior => {
                LeafBoxes::interior(&counts, &interior, self.here.sliced_along.map_or(0, |(along, _)| along))
            }
            LeafPart::Whole | LeafPart::Rims => LeafBoxes::rims(&counts, &interior),
        };
        while let Some(next) = boxes.next(part == LeafPart::Interior && self.poll()?) {
            let _polled = (part == LeafPart::Interior).then(|| self.poll_meanwhile());
            self.run_leaf(Some(&next));
        }
        Ok(())
    }

    /// Notes which tensor moves between ranks, in case this takes long.
    fn note(&self, tile: TileId) {
        if self.nest.transfers[tile.0].route.is_local() {
            return;
        }
        let tensor = self.nest.tensor_name(self.nest.transfers[tile.0].tensor);
        self.grid.world().comm().note(Some(Work { tensor: Some(tensor), ..self.work }));
    }

    /// The current region of a transfer on this rank.
    fn region(&self, number: TileId) -> Region {
        region_at(&self.here.regions[number.0], self.grid.coords(), self.counters)
    }

    fn values(&self, exprs: &[Expr]) -> SmallVec<[i64; 6]> {
        values_at(exprs, self.grid.coords(), self.counters)
    }

    /// Carries out a leg into the tile of an input, or out of the output's tile.
    fn carry(&mut self, number: TileId, leg: &Leg, region: &SymbolicRegion, from: Source) -> Result<()> {
        self.note(number);
        let Transfer { direction, route, tile: stated, tensor, .. } = &self.nest.transfers[number.0];
        let here = if route.held.is_some() { region } else { &self.here.regions[number.0] };
        let (grid, counters) = (self.grid, &*self.counters);
        let region_of = &|at: &[i64]| region_at(region, at, counters);
        let at = At { groups: self.groups, coordinates: grid.coords(), counters };
        let ends = match direction {
            Direction::In => {
                let Some(tile) = &mut self.tiles[number.0] else { return Ok(()) };
                let (source, is_around) = (self.inputs.array(tensor.0), stated.own_in_place);
                let here = region_at(here, grid.coords(), counters);
                Ends::Input(Input { grid, tile, source, from, is_around, here, region_of })
            }
            Direction::Out { .. } => {
                let Some(tile) = self.out_tile else { return Ok(()) };
                let (target, is_ahead) = (&mut *self.output, from == Source::Ahead);
                Ends::Output(Output { grid, tile, target, op: self.op, is_ahead, region_of })
            }
        };
        carry_out(leg, &at, ends)
    }

    /// Runs the leaf, or only these iterations of its loops if they are given.
    fn run_leaf(&mut self, part: Option<&LeafBox>) {
        let Self { nest, here, grid, inputs, output, op, tiles, kept, out_tile, steps, leaf, counters, .. } = self;
        let (mut before, mut into) = (None, None);
        if let (Some(left), Some(region), Some(of)) = (steps, &here.of_step, &nest.time_steps) {
            let (step, last) = (counters[of.counter.0], nest.loops[of.counter.0].extent - 1);
            left.begin(&region_at(region, grid.coords(), counters));
            let (read, write) = left.turn();
            before = Some(read).filter(|_| step > 0);
            into = Some(write).filter(|_| step < last);
        }
        let values = |exprs: &[Expr]| values_at(exprs, grid.coords(), counters);
        let steps = |access: &'a LeafAccess| -> SmallVec<[&'a [i64]; 6]> {
            access.strides.iter().map(|steps| &steps[..]).collect()
        };
        // The offset of a part from the very first iteration.
        let first = |strides: &[i64]| part.map_or(0, |part| part.moved(strides));
        // The first index of an access.
        let bases = |base: &[Expr], strides: &[Vec<i64>]| {
            let mut at = values(base);
            at.iter_mut().zip(strides).for_each(|(at, strides)| *at += first(strides));
            at
        };
        let mut counts: SmallVec<[usize; 6]> = values(&here.counts).into_iter().map(count).collect();
        if let Some(part) = part {
            counts.iter_mut().enumerate().for_each(|(number, count)| *count = part.count(number));
        }
        let accesses = nest.leaf.operands.iter().zip(&here.operands).enumerate();
        let operands: SmallVec<[_; 10]> = accesses
            .map(|(operand, (access, base))| {
                let source = inputs.array(access.tensor.0);
                let number = nest.transfer_of(OperandId(operand));
                let kept = || kept.iter().find(|(reads, _)| *reads == number);
                let view = match (&before, &tiles[number.0]) {
                    (Some(before), _) => before.clone(),
                    (None, Some(tile)) => tile.view(source),
                    (None, None) => kept().map_or_else(|| source.array().view(), |(_, tile)| tile.view(source)),
                };
                let view = match leaf.outside(operand) {
                    Some((value, extents)) => view.outside(*value, extents),
                    None => view,
                };
                view.strided(&bases(base, &access.strides), &steps(access))
            })
            .collect();
        let numbers = nest.leaf.numbers.iter().zip(values(&here.numbers));
        let numbers: SmallVec<[_; 2]> = numbers
            .map(|(number, base)| Ramp::along(base + first(&number.strides), number.strides[..].into()))
            .collect();
        let target = match (into, out_tile) {
            (Some(into), _) => into,
            (None, Some(tile)) => tile.view_mut(),
            (None, None) if nest.leaf.overwrites => output.view_mut().overwritten(),
            (None, None) => output.view_mut(),
        };
        let target = target.strided(&bases(&here.target, &nest.leaf.target.strides), &steps(&nest.leaf.target));
        leaf.run(&counts, &operands, &numbers, target, *op);
    }
}
