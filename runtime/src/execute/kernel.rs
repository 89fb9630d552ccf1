//! One kernel of a program on one rank: what its runs need, and the walk over its statements.

use super::leaf::LeafPlan;
use crate::comm::Work;
use crate::layout::Name;
use crate::leaf::Ramp;
use crate::shared_inputs::InputTable;
use crate::{
    DistArray, Element, Grid, Group, OutTile, ReduceOp, Region, Result, SharedInputs, Tile, Transport, World, Written,
    count,
};
use polyshard_program::{
    Assign, Expr, Kernel, LeafAccess, Nest, NestStatement, OutputRoute, Region as SymbolicRegion, Route, Symbol,
    TransferId,
};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::panic::Location;
use std::rc::Rc;

/// A kernel's groups, tiles and leaf, made once.
pub(super) struct PreparedKernel<'a, T: Element> {
    nest: &'a Nest,
    grid: Grid<'a>,
    op: ReduceOp,
    groups: BTreeMap<Vec<usize>, Rc<Group>>,
    /// By transfer; `None` where the leaf reads the shard.
    tiles: Vec<Option<Tile<T>>>,
    out_tile: Option<OutTile<T>>,
    /// The elements of the output that `=` clears before it sums up, if it does not clear all.
    cleared: Option<Written>,
    leaf: LeafPlan<T>,
    here: LocalNest,
    counters: Vec<i64>,
    world: &'a World,
    transport: Transport,
    /// Where the inputs of all ranks were in the last run.
    known: InputTable,
}

/// The expressions of a nest on this rank: its coordinates are substituted, and what depends on nothing else is evaluated.
struct LocalNest {
    /// By transfer, what it brings.
    regions: Vec<SymbolicRegion>,
    output: SymbolicRegion,
    /// By loop of the leaf, its iterations.
    counts: Vec<Expr>,
    /// Where the first iteration of the leaf reads, by operand, and where it writes.
    operands: Vec<Vec<Expr>>,
    target: Vec<Expr>,
    /// What the indices that are numbers are in the first iteration.
    numbers: Vec<Expr>,
}

impl LocalNest {
    fn new(nest: &Nest, coordinates: &[i64]) -> Self {
        let ranges = nest.ranges();
        let own = |symbol: Symbol| match symbol {
            Symbol::Coordinate(axis) => Some(Expr::constant(coordinates[axis])),
            Symbol::Counter(_) => None,
        };
        let fixed = |expr: &Expr| expr.replace_all(&own, &ranges);
        let base = |access: &LeafAccess| access.base.iter().map(fixed).collect();
        Self {
            regions: nest.transfers.iter().map(|transfer| transfer.region.map(fixed)).collect(),
            output: nest.output.region.map(fixed),
            counts: nest.leaf.loops.iter().map(|l| fixed(&l.count)).collect(),
            operands: nest.leaf.operands.iter().map(base).collect(),
            target: base(&nest.leaf.target),
            numbers: nest.leaf.numbers.iter().map(|number| fixed(&number.base)).collect(),
        }
    }
}

impl<'a, T: Element> PreparedKernel<'a, T> {
    pub(super) fn new(nest: &'a Nest, world: &'a World) -> Result<Self> {
        let grid = Grid::new(world, &nest.mesh)?;
        let here = LocalNest::new(nest, grid.coords());
        let kernel = &nest.kernel;
        let leaf = LeafPlan::new(nest, kernel)?;
        let mut tiles = Vec::with_capacity(nest.transfers.len());
        for (number, transfer) in nest.transfers.iter().enumerate() {
            let name = kernel.inputs()[transfer.tensor].name.as_str();
            let tile = match transfer.buffers {
                0 => None,
                1 => Some(Tile::new(name, transfer.capacity)?),
                _ => Some(Tile::relay(name, transfer.capacity)?),
            };
            tiles.push(if nest.is_fixed(TransferId(number)) { tile.map(Tile::fixed) } else { tile });
        }
        let mut groups = BTreeMap::new();
        for axes in nest.groups() {
            let group = grid.group(&axes)?;
            groups.insert(axes, group);
        }
        let out = &nest.output;
        let written = kernel.written().map(|written| {
            let sharding = nest.shardings.last().expect("a kernel has an output; this is a bug of polyshard");
            let steps: Vec<&[i64]> = written.strides.iter().map(Vec::as_slice).collect();
            let array = DistArray::<T>::empty(world, sharding);
            array.map(|array| Written::new(&array, &written.base, &steps, &written.counts))
        });
        let written = written.transpose()?;
        let out_tile = match &out.route {
            OutputRoute::InPlace => None,
            _ => {
                let tile = OutTile::new(kernel.output().name.as_str(), out.capacity)?;
                let tile = if out.any_order { tile.in_any_order() } else { tile };
                let tile = if nest.is_output_fixed() { tile.fixed() } else { tile };
                Some(match &written {
                    Some(written) => tile.within(written.clone()),
                    None => tile,
                })
            }
        };
        Ok(Self {
            nest,
            grid,
            op: super::reduce_op(nest.kernel.assign()),
            groups,
            tiles,
            out_tile,
            cleared: written,
            leaf,
            here,
            counters: vec![0; nest.loops.len()],
            world,
            transport: world.transport(),
            known: InputTable::of(&(nest.kernel.to_string(), &nest.shardings)),
        })
    }

    /// Sets how inputs get from rank to rank.
    pub(super) fn with_transport(self, transport: Transport) -> Self {
        let out_tile = match transport {
            Transport::Messages => self.out_tile.map(OutTile::by_messages),
            Transport::Auto | Transport::Shared => self.out_tile,
        };
        Self { transport, out_tile, ..self }
    }

    /// What each element of the output counts as before anything is written to it.
    pub(super) fn identity(&self) -> T {
        self.op.identity()
    }

    /// Runs the kernel for the call at a line, with the scalars of `given` if there are others than it captured.
    pub(super) fn run(
        &mut self,
        inputs: &[&DistArray<T>],
        output: &mut DistArray<T>,
        given: Option<&Kernel>,
        at: &'static Location<'static>,
    ) -> Result<()> {
        let work = Work { kernel: Some(self.nest.kernel.name()), tensor: None, at };
        self.world.comm().note(Some(work));
        let overwrites = self.nest.overwrites();
        if self.nest.kernel.assign() == Assign::Set && !overwrites {
            match &self.cleared {
                Some(written) => written.fill(output, T::ZERO),
                None => output.block_mut().fill(T::ZERO),
            }
        }
        let mut leaf = given.map(|kernel| LeafPlan::new(self.nest, kernel)).transpose()?;
        let Self {
            nest, grid, op, groups, tiles, out_tile, leaf: own, here, counters, world, transport, known, ..
        } = self;
        let leaf = leaf.as_mut().unwrap_or(own);
        let shares = *transport != Transport::Messages && nest.reads_others();
        let shared = match shares {
            true => SharedInputs::publish(world, inputs, std::mem::take(known), *transport)?,
            false => SharedInputs::none(world, inputs),
        };
        let inputs = &shared;
        Walk { nest, here, grid, inputs, output, op: *op, overwrites, groups, tiles, out_tile, leaf, counters, work }
            .statements(&nest.body)?;
        world.comm().note(Some(work));
        *known = shared.release_and_keep()?;
        Ok(())
    }
}

/// One run of a kernel on one rank.
struct Walk<'a, 'r, 'i, T: Element> {
    nest: &'a Nest,
    here: &'r LocalNest,
    grid: &'r Grid<'a>,
    inputs: &'r SharedInputs<'i, T>,
    output: &'r mut DistArray<T>,
    op: ReduceOp,
    /// Whether the leaf overwrites the output, see [`Nest::overwrites`].
    overwrites: bool,
    groups: &'r BTreeMap<Vec<usize>, Rc<Group>>,
    tiles: &'r mut [Option<Tile<T>>],
    out_tile: &'r mut Option<OutTile<T>>,
    leaf: &'r mut LeafPlan<T>,
    counters: &'r mut [i64],
    work: Work,
}

impl<'a, T: Element> Walk<'a, '_, '_, T> {
    fn statements(&mut self, statements: &'a [NestStatement]) -> Result<()> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'a NestStatement) -> Result<()> {
        match statement {
            NestStatement::Loop { counter, body } => {
                for value in 0..self.nest.loops[*counter].extent {
                    self.counters[*counter] = value;
                    self.statements(body)?;
                }
                Ok(())
            }
            NestStatement::Fetch(number) => {
                let transfer = &self.nest.transfers[number.0];
                let here = self.region_here(&self.here.regions[number.0]);
                if !matches!(transfer.route, Route::Hold | Route::Copy) {
                    self.note(self.nest.kernel.inputs()[transfer.tensor].name);
                }
                self.fetch(*number, &transfer.route, &transfer.region, &here)
            }
            NestStatement::Start => {
                let output = &self.nest.output;
                let region = self.region_here(&self.here.output);
                let Some(tile) = &mut self.out_tile else { return Ok(()) };
                match &output.route {
                    OutputRoute::Shift { axis, by, counter, .. } if self.counters[*counter] > 0 => {
                        let work = Work { tensor: Some(self.nest.kernel.output().name), ..self.work };
                        self.grid.world().comm().note(Some(work));
                        tile.shift(&self.groups[&[*axis][..]], *by, &region)
                    }
                    _ => {
                        tile.reset(&region, self.op);
                        Ok(())
                    }
                }
            }
            NestStatement::Leaf => {
                self.run_leaf();
                Ok(())
            }
            NestStatement::Finish => {
                let output = &self.nest.output;
                if !matches!(output.route, OutputRoute::InPlace | OutputRoute::Combine) {
                    self.note(self.nest.kernel.output().name);
                }
                self.finish(&output.route, &output.region)
            }
        }
    }

    /// Notes which tensor moves, for the case that this takes long.
    fn note(&self, tensor: Name) {
        self.grid.world().comm().note(Some(Work { tensor: Some(tensor), ..self.work }));
    }

    fn region_here(&self, region: &SymbolicRegion) -> Region {
        region_at(region, self.grid.coords(), self.counters)
    }

    fn values(&self, exprs: &[Expr]) -> SmallVec<[i64; 6]> {
        values_at(exprs, self.grid.coords(), self.counters)
    }

    /// Brings a region by this route, that of this rank being `here`.
    fn fetch(&mut self, number: TransferId, route: &Route, region: &SymbolicRegion, here: &Region) -> Result<()> {
        let source = self.inputs.array(self.nest.transfers[number.0].tensor);
        let Some(mut tile) = self.tiles[number.0].take() else { return Ok(()) };
        let counters = &*self.counters;
        let region_of = |at: &[i64]| region_at(region, at, counters);
        let done = match route {
            Route::Hold => {
                tile.hold(here);
                Ok(())
            }
            Route::Copy => {
                tile.copy(source, here);
                Ok(())
            }
            Route::Broadcast { axes, root } => tile.broadcast(&self.groups[axes], &self.values(root), source, here),
            Route::AllGather { axes } => tile.all_gather(&self.groups[axes], source, here),
            Route::Shift { axis, by, counter, first } => {
                if self.counters[*counter] == 0 {
                    self.tiles[number.0] = Some(tile);
                    return self.fetch(number, first, region, here);
                }
                tile.shift(&self.groups[&[*axis][..]], *by, source, here)
            }
            Route::Permute { from, to } => {
                let (from, to) = self.permutation(from, to, region_of);
                tile.permute(self.grid, from, to, source, here)
            }
            Route::Sequence { first, held, next } => {
                self.tiles[number.0] = Some(tile);
                let held_here = self.region_here(held);
                self.fetch(number, first, held, &held_here)?;
                return self.pass_on(number, next, region, here);
            }
            Route::Halo { reach } if self.nest.reads_in_place(number) => tile.halo(self.grid, reach, source, region_of),
            Route::Halo { reach } | Route::Exchange { reach } => tile.exchange(self.grid, reach, source, region_of),
        };
        self.tiles[number.0] = Some(tile);
        done
    }

    /// The second of two steps: out of tiles, not of shards.
    fn pass_on(&mut self, number: TransferId, route: &Route, region: &SymbolicRegion, here: &Region) -> Result<()> {
        let source = self.inputs.array(self.nest.transfers[number.0].tensor);
        let Some(mut tile) = self.tiles[number.0].take() else { return Ok(()) };
        let counters = &*self.counters;
        let done = match route {
            Route::Broadcast { axes, root } => {
                tile.broadcast_held(&self.groups[axes], &self.values(root), source, here)
            }
            Route::Permute { from, to } => {
                let (from, to) = self.permutation(from, to, |at: &[i64]| region_at(region, at, counters));
                tile.permute_held(self.grid, from, to, source, here)
            }
            _ => unreachable!("tiles are broadcast or permuted; this is a bug of polyshard"),
        };
        self.tiles[number.0] = Some(tile);
        done
    }

    fn permutation(
        &self,
        from: &[Expr],
        to: &[Expr],
        region_of: impl Fn(&[i64]) -> Region,
    ) -> (usize, Option<(usize, Region)>) {
        let (counters, to) = (&*self.counters, self.values(to));
        self.grid.permutation(|at: &[i64]| values_at(from, at, counters), &to, region_of)
    }

    fn finish(&mut self, route: &OutputRoute, region: &SymbolicRegion) -> Result<()> {
        if let OutputRoute::Shift { counter, last, .. } = route {
            // On the way, sums stay in the tile.
            let end = self.counters[*counter] + 1 == self.nest.loops[*counter].extent;
            return if end { self.finish(last, region) } else { Ok(()) };
        }
        let Some(mut tile) = self.out_tile.take() else { return Ok(()) };
        let counters = &*self.counters;
        let region_of = |at: &[i64]| region_at(region, at, counters);
        let done = match route {
            OutputRoute::InPlace | OutputRoute::Shift { .. } => Ok(()),
            OutputRoute::Combine => {
                tile.combine_local(self.output, self.op);
                Ok(())
            }
            OutputRoute::Reduce { axes, root } => {
                tile.reduce(&self.groups[axes], &self.values(root), self.output, self.op)
            }
            OutputRoute::AllReduce { axes } => tile.all_reduce(&self.groups[axes], self.output, self.op),
            OutputRoute::ReduceScatter { axes } => tile.reduce_scatter(&self.groups[axes], self.output, self.op),
            OutputRoute::Permute { to, from } => {
                // The roles are those of an input, reversed: the owner of my tile receives it.
                let (to, from) = self.permutation(to, from, region_of);
                tile.permute_back(self.grid, to, from, self.output, self.op)
            }
            OutputRoute::Halo { reach } | OutputRoute::Exchange { reach } => {
                tile.write_back(self.grid, reach, self.output, region_of, self.op)
            }
        };
        *self.out_tile = Some(tile);
        done
    }

    fn run_leaf(&mut self) {
        let Self { nest, here, grid, inputs, output, op, overwrites, tiles, out_tile, leaf, counters, .. } = self;
        let values = |exprs: &[Expr]| values_at(exprs, grid.coords(), counters);
        let steps = |access: &'a LeafAccess| -> SmallVec<[&'a [i64]; 6]> {
            access.strides.iter().map(|steps| &steps[..]).collect()
        };
        let counts: SmallVec<[usize; 6]> = values(&here.counts).into_iter().map(count).collect();
        let accesses = nest.leaf.operands.iter().zip(&here.operands).enumerate();
        let operands: SmallVec<[_; 10]> = accesses
            .map(|(operand, (access, base))| {
                let source = inputs.array(access.tensor);
                let view = match &tiles[nest.transfer_of(operand).0] {
                    Some(tile) => tile.view(source),
                    None => source.array().view(),
                };
                let view = match leaf.outside(operand) {
                    Some((value, extents)) => view.outside(*value, extents),
                    None => view,
                };
                view.strided(&values(base), &steps(access))
            })
            .collect();
        let numbers = nest.leaf.numbers.iter().zip(values(&here.numbers));
        let numbers: SmallVec<[_; 2]> =
            numbers.map(|(number, base)| Ramp::along(base, number.strides[..].into())).collect();
        let target = match out_tile {
            Some(tile) => tile.view_mut(),
            None if *overwrites => output.view_mut().overwritten(),
            None => output.view_mut(),
        };
        let target = target.strided(&values(&here.target), &steps(&nest.leaf.target));
        leaf.run(&counts, &operands, &numbers, target, *op);
    }
}

fn values_at(exprs: &[Expr], coordinates: &[i64], counters: &[i64]) -> SmallVec<[i64; 6]> {
    exprs.iter().map(|expr| expr.eval(coordinates, counters)).collect()
}

fn region_at(symbolic: &SymbolicRegion, coordinates: &[i64], counters: &[i64]) -> Region {
    let value = |expr: &Expr| expr.eval(coordinates, counters);
    if symbolic.when.iter().any(|(a, b)| value(a) >= value(b)) {
        return Region::empty(symbolic.ranges.len());
    }
    let ranges = Region::new(symbolic.ranges.iter().map(|(low, high)| value(low)..value(high)));
    let periods = symbolic.periods.iter().enumerate().filter_map(|(dim, period)| Some((dim, (*period)?)));
    let region = periods.fold(ranges, |region, (dim, period)| region.periodic(dim, period));
    let blocks = symbolic.blocks.iter().enumerate().filter_map(|(dim, blocks)| Some((dim, blocks.as_ref()?)));
    blocks.fold(region, |region, (dim, blocks)| region.in_blocks(dim, value(&blocks.size), blocks.stride))
}
