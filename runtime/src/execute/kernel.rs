//! Kernels of a program on one rank: their tables for the engine, and the walk over their statements. Tests: `tests/it/properties.rs`.

use super::leaf::LeafPlan;
use super::leaves::Leaves;
use super::local::{LocalNest, region_at};
use crate::engine::{self, Coordinates, RegionOf, Run, values_at};
use crate::operation::Operation;
use crate::{Element, Grid, ReduceOp, Result, World, count};
use polyshard_program::{
    At, Body, Direction, Expr, Iteration, KernelId, LeafAccess, LeafPart, NestView, OperandId,
    Region as SymbolicRegion, Statement, TileId, TimeSteps, TransferId,
};
use smallvec::SmallVec;
use std::rc::Rc;

/// A kernel's leaf, made once, and its expressions on this rank.
pub(super) struct PreparedKernel<'a, T> {
    nest: NestView<'a>,
    leaf: LeafPlan<T>,
    here: Rc<LocalNest>,
    counters: Vec<i64>,
}

impl<'a, T: Element> PreparedKernel<'a, T> {
    /// Returns the kernel, and its table.
    pub(super) fn new(nest: NestView<'a>, world: &'a World) -> Result<(Self, engine::Kernel<'a>)> {
        let grid = Grid::new(world, nest.mesh)?;
        let here = Rc::new(LocalNest::new(&nest, grid.coords()));
        let leaf = LeafPlan::new(&nest, &nest.kernel)?;
        let table = table(&nest, &here);
        let counters = vec![0; nest.loops.len()];
        Ok((Self { nest, leaf, here, counters }, table))
    }
}

/// The table of a nest on the rank whose expressions are `here`.
fn table<'a>(nest: &NestView<'a>, here: &Rc<LocalNest>) -> engine::Kernel<'a> {
    let region = |region: &'a SymbolicRegion| -> RegionOf<'a> {
        Box::new(move |coordinates, counters| region_at(region, coordinates, counters))
    };
    let transfers = nest.transfers.iter().enumerate().map(|(number, transfer)| {
        let (here, row) = (Rc::clone(here), transfer.row);
        // This rank's own region has its coordinates substituted.
        let of_rank: RegionOf<'a> = Box::new(move |coordinates, counters| {
            let is_own = coordinates == here.coordinates;
            region_at(if is_own { &here.regions[number] } else { &row.region }, coordinates, counters)
        });
        let input = (transfer.direction == Direction::In).then_some(transfer.tensor.0);
        let made = engine::Transfer::new(nest.tensor_name(transfer.tensor), input).of(of_rank);
        let find = |exprs: &'a Vec<Expr>| Coordinates::new(move |at, counters| values_at(exprs, at, counters));
        let legs: Vec<_> = row.route.legs.iter().map(|leg| leg.map(find)).collect();
        let made = made.by(legs).stated(row.tile, row.ahead);
        let made = row.route.held.iter().fold(made, |made, held| made.held(region(held)));
        let made = if transfer.is_interior_first() { made.interior_first() } else { made };
        let made = if transfer.direction == (Direction::Out { any_order: true }) { made.in_any_order() } else { made };
        transfer.reused.into_iter().fold(made, |made, (KernelId(kernel), tile)| made.reuses(kernel, tile))
    });
    let (kernel, loops) = (&nest.kernel, nest.loops.iter().map(|l| l.extent));
    let text = kernel.to_string();
    let table =
        engine::Kernel::new(kernel.name().as_str(), &text, nest.mesh, kernel.assign(), nest.shardings.iter().copied())
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

/// A walk over the statements of kernels that run together, on one rank.
pub(super) struct Walk<'a, 'r, 'e, T: Element> {
    pub(super) body: &'a Body,
    /// The kernels of the program.
    pub(super) kernels: &'r mut [PreparedKernel<'a, T>],
    /// Their numbers, in the order in which the run has them.
    pub(super) together: &'r [KernelId],
    /// For each of these, its leaf with the scalars of the call, if it is not the one that was prepared.
    pub(super) given: SmallVec<[Option<LeafPlan<T>>; 1]>,
    pub(super) run: Run<'e, 'a, T>,
    pub(super) leaves: &'r mut Leaves<'a>,
    /// Whether it is the first of the rounds around them.
    pub(super) is_first: bool,
}

impl<T: Element> Walk<'_, '_, '_, T> {
    /// Runs the statements, and finishes the run.
    pub(super) fn finish(mut self, statements: &[Statement]) -> Result<()> {
        self.statements(statements)?;
        self.run.finish()
    }

    fn statements(&mut self, statements: &[Statement]) -> Result<()> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<()> {
        match *statement {
            Statement::Loop(id, ref body) => {
                for value in 0..self.body.loops[id.0].extent {
                    for kernel in self.together {
                        let PreparedKernel { nest, counters, .. } = &mut self.kernels[kernel.0];
                        let own = nest.row.loops.iter().zip(counters).find(|(number, _)| **number == id);
                        own.into_iter().for_each(|(_, counter)| *counter = value);
                    }
                    self.statements(body)?;
                }
                Ok(())
            }
            Statement::Fill(id) => self.at(id, At::NOW, |run, tile, counters| run.fill(tile, counters)),
            Statement::Begin(id, at) => self.at(id, at, |run, tile, counters| run.begin(tile, counters)),
            Statement::End(id, at) => self.at(id, at, |run, tile, _| run.end(tile)),
            Statement::Compute(id, part) => self.compute(id, part),
            Statement::Rounds(..) | Statement::Free(_) => {
                unreachable!("no statement of a kernel; this is a bug in polyshard")
            }
        }
    }

    /// Acts on a transfer in an iteration, if its loop has that iteration, and in the rounds in which it is due.
    fn at(
        &mut self,
        id: TransferId,
        at: At,
        act: impl FnOnce(&mut Run<'_, '_, T>, TileId, &[i64]) -> Result<()>,
    ) -> Result<()> {
        if at.first_round && !self.is_first {
            return Ok(());
        }
        let transfer = &self.body.transfers[id.0];
        let kernel = transfer.kernel().expect("a move is outside of kernels; this is a bug in polyshard");
        let PreparedKernel { nest, counters, .. } = &mut self.kernels[kernel.0];
        let tile = nest.row.uses.iter().position(|used| used.transfer == id);
        let tile = TileId(tile.expect("a kernel uses its transfers; this is a bug in polyshard"));
        self.run.select(self.together.iter().position(|other| *other == kernel).unwrap_or(0));
        let Some(counter) = transfer.level.innermost().filter(|_| at.iteration != Iteration::Now) else {
            return act(&mut self.run, tile, counters);
        };
        let now = counters[counter.0];
        let then = at.iteration.counter(now);
        if !(0..nest.loops[counter.0].extent).contains(&then) {
            return Ok(());
        }
        counters[counter.0] = then;
        let done = act(&mut self.run, tile, counters);
        counters[counter.0] = now;
        done
    }

    /// Runs this part of the leaf.
    fn compute(&mut self, id: KernelId, part: LeafPart) -> Result<()> {
        let position = self.together.iter().position(|other| *other == id).unwrap_or(0);
        let Self { kernels, given, run, leaves, .. } = self;
        let PreparedKernel { nest, here, leaf, counters } = &mut kernels[id.0];
        let leaf = given[position].as_mut().unwrap_or(leaf);
        let (here, counters) = (&**here, &counters[..]);
        run.select(position);
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
    nest: &NestView<'_>,
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
