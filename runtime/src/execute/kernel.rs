//! One kernel of a program on one rank: its table for the engine, and the walk over its statements. Tests: `tests/it/properties.rs`.

use super::leaf::LeafPlan;
use super::leaves::Leaves;
use super::local::{LocalNest, region_at};
use crate::engine::{self, Coordinates, RegionOf, Run, values_at};
use crate::operation::Operation;
use crate::{Element, Grid, ReduceOp, Result, World, count};
use polyshard_program::{
    Brought, Direction, Expr, Iteration, Kernel, LeafAccess, LeafPart, LoopId, Nest, NestId, OperandId,
    Region as SymbolicRegion, Statement, TileId, TimeSteps, TransferId,
};
use smallvec::SmallVec;
use std::rc::Rc;

/// A kernel's leaf, made once, and its expressions on this rank.
pub(super) struct PreparedKernel<'a, T> {
    nest: &'a Nest,
    leaf: LeafPlan<T>,
    here: Rc<LocalNest>,
    counters: Vec<i64>,
}

impl<'a, T: Element> PreparedKernel<'a, T> {
    /// Returns the kernel, and its table.
    pub(super) fn new(nest: &'a Nest, world: &'a World) -> Result<(Self, engine::Kernel<'a>)> {
        let grid = Grid::new(world, &nest.mesh)?;
        let here = Rc::new(LocalNest::new(nest, grid.coords()));
        let leaf = LeafPlan::new(nest, &nest.kernel)?;
        let table = table(nest, &here);
        Ok((Self { nest, leaf, here, counters: vec![0; nest.loops.len()] }, table))
    }

    /// Runs the kernel's statements in `run`, in the first of the rounds around it or in a later one, with the scalars of `given`, if it
    /// is given, instead of those that it captured.
    pub(super) fn run(
        &mut self,
        run: Run<'_, 'a, T>,
        statements: &[Statement],
        is_first: bool,
        given: Option<&Kernel>,
        leaves: &mut Leaves<'a>,
    ) -> Result<()> {
        let mut leaf = given.map(|kernel| LeafPlan::new(self.nest, kernel)).transpose()?;
        let Self { nest, leaf: own, here, counters } = self;
        let leaf = leaf.as_mut().unwrap_or(own);
        let mut walk = Walk { nest, here, run, leaf, counters, leaves, is_first };
        walk.statements(statements)?;
        walk.run.finish()
    }
}

/// The table of a nest on the rank whose expressions are `here`.
fn table<'a>(nest: &'a Nest, here: &Rc<LocalNest>) -> engine::Kernel<'a> {
    let region = |region: &'a SymbolicRegion| -> RegionOf<'a> {
        Box::new(move |coordinates, counters| region_at(region, coordinates, counters))
    };
    let transfers = nest.transfers.iter().enumerate().map(|(number, transfer)| {
        let here = Rc::clone(here);
        // This rank's own region has its coordinates substituted.
        let of_rank: RegionOf<'a> = Box::new(move |coordinates, counters| {
            let is_own = coordinates == here.coordinates;
            region_at(if is_own { &here.regions[number] } else { &transfer.region }, coordinates, counters)
        });
        let input = (transfer.direction == Direction::In).then_some(transfer.tensor.0);
        let made = engine::Transfer::new(nest.tensor_name(transfer.tensor), input).of(of_rank);
        let find = |exprs: &'a Vec<Expr>| Coordinates::new(move |at, counters| values_at(exprs, at, counters));
        let legs: Vec<_> = transfer.route.legs.iter().map(|leg| leg.map(find)).collect();
        let made = made.by(legs).stated(transfer.tile, transfer.ahead);
        let made = transfer.route.held.iter().fold(made, |made, held| made.held(region(held)));
        let made = if transfer.interior_first { made.interior_first() } else { made };
        let made = if transfer.direction == (Direction::Out { any_order: true }) { made.in_any_order() } else { made };
        transfer.kept_by().into_iter().fold(made, |made, (NestId(nest), tile)| made.reuses(nest, tile))
    });
    let (kernel, loops) = (&nest.kernel, nest.loops.iter().map(|l| l.extent));
    let text = kernel.to_string();
    let table = engine::Kernel::new(kernel.name().as_str(), &text, &nest.mesh, kernel.assign(), &nest.shardings)
        .loops(loops.collect::<Vec<_>>())
        .transfers(transfers.collect::<Vec<_>>());
    let table = kernel.written().into_iter().fold(table, engine::Kernel::within);
    let table = if nest.leaf.overwrites { table.overwrites() } else { table };
    let table = here.sliced_along.into_iter().fold(table, |table, (along, of)| table.sliced(along, of));
    let Some(TimeSteps { counter, capacity, .. }) = nest.time_steps else { return table };
    let here = Rc::clone(here);
    let of_step: RegionOf<'a> = Box::new(move |coordinates, counters| {
        let region =
            here.of_step.as_ref().expect("a nest with time steps has their region; this is a bug in polyshard");
        region_at(region, coordinates, counters)
    });
    table.stepped(counter.0, capacity, of_step)
}

/// One run of a kernel on one rank.
struct Walk<'a, 'r, 'e, T: Element> {
    nest: &'a Nest,
    here: &'r LocalNest,
    run: Run<'e, 'a, T>,
    leaf: &'r mut LeafPlan<T>,
    counters: &'r mut [i64],
    leaves: &'r mut Leaves<'a>,
    is_first: bool,
}

impl<T: Element> Walk<'_, '_, '_, T> {
    fn statements(&mut self, statements: &[Statement]) -> Result<()> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<()> {
        match *statement {
            Statement::Loop { counter, ref body, .. } => {
                for value in 0..self.nest.loops[counter.0].extent {
                    self.counters[counter.0] = value;
                    self.statements(body)?;
                }
                Ok(())
            }
            Statement::Fill { tile, .. } => self.run.fill(tile, self.counters),
            Statement::Begin(TransferId::Tile { tile, .. }) if self.is_due(tile) => self.run.begin(tile, self.counters),
            Statement::Await(TransferId::Tile { tile, .. }) if self.is_due(tile) => self.run.end(tile),
            Statement::Begin(TransferId::Tile { .. }) | Statement::Await(TransferId::Tile { .. }) => Ok(()),
            Statement::BeginFor { tile, counter, iteration, .. } => {
                self.in_iteration(counter, iteration, |run, counters| run.begin(tile, counters))
            }
            Statement::AwaitFor { tile, counter, iteration, .. } => {
                self.in_iteration(counter, iteration, |run, _| run.end(tile))
            }
            Statement::Compute(_) => self.compute(LeafPart::Whole),
            Statement::ComputeInterior(_) => self.compute(LeafPart::Interior),
            Statement::ComputeRims(_) => self.compute(LeafPart::Rims),
            Statement::Repeat { .. } | Statement::Begin(_) | Statement::Await(_) | Statement::Free(_) => {
                unreachable!("no statement of a nest; this is a bug in polyshard")
            }
        }
    }

    /// Whether the region of a transfer is fetched in this round.
    fn is_due(&self, tile: TileId) -> bool {
        self.is_first || self.nest.transfers[tile.0].brought != Brought::Once
    }

    /// Acts with the counter of another iteration, if the loop has that iteration.
    fn in_iteration(
        &mut self,
        counter: LoopId,
        iteration: Iteration,
        act: impl FnOnce(&mut Run<'_, '_, T>, &[i64]) -> Result<()>,
    ) -> Result<()> {
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
        let done = act(&mut self.run, self.counters);
        self.counters[counter.0] = now;
        done
    }

    /// Runs this part of the leaf.
    fn compute(&mut self, part: LeafPart) -> Result<()> {
        let Self { nest, here, run, leaf, counters, leaves, .. } = self;
        let counters = &**counters;
        let values = |exprs: &[Expr]| values_at(exprs, &here.coordinates, counters);
        let counts: SmallVec<[usize; 6]> = values(&here.counts).into_iter().map(count).collect();
        let value = |expr: &Expr| expr.eval(&here.coordinates, counters);
        let interior = here.interior.iter().filter(|_| part != LeafPart::Whole);
        let interior: SmallVec<[(i64, i64); 6]> = interior.map(|(low, high)| (value(low), value(high))).collect();
        run.compute_part(part, counters, &counts, &interior, |due| run_leaf(nest, here, leaf, counters, due))?;
        if part != LeafPart::Interior {
            leaves.next();
        }
        Ok(())
    }
}

/// Runs the iterations of the leaf that are due.
fn run_leaf<T: Element>(
    nest: &Nest,
    here: &LocalNest,
    plan: &mut LeafPlan<T>,
    counters: &[i64],
    leaf: &engine::Leaf<'_, '_, T>,
) {
    fn steps(access: &LeafAccess) -> SmallVec<[&[i64]; 6]> {
        access.strides.iter().map(|steps| &steps[..]).collect()
    }
    let values = |exprs: &[Expr]| values_at(exprs, &here.coordinates, counters);
    let accesses = nest.leaf.operands.iter().zip(&here.operands).enumerate();
    let operands: SmallVec<[_; 10]> = accesses
        .map(|(operand, (access, base))| {
            let (tile, base, steps) = (nest.transfer_of(OperandId(operand)), values(base), steps(access));
            match plan.outside(operand) {
                Some((value, extents)) => leaf.read_or(tile, *value, extents, &base, &steps),
                None => leaf.read(tile, &base, &steps),
            }
        })
        .collect();
    let numbers = nest.leaf.numbers.iter().zip(values(&here.numbers));
    let numbers: SmallVec<[_; 2]> = numbers.map(|(number, base)| leaf.ramp(base, &number.strides)).collect();
    let target = leaf.write(&values(&here.target), &steps(&nest.leaf.target));
    plan.run(&leaf.counts(), &operands, &numbers, target, ReduceOp::of(nest.kernel.assign()));
}
