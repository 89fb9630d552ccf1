//! Kernels of a program on one rank: their tables for the engine, and the walk over their statements. Tests: `tests/it/properties.rs`.

use super::leaf::LeafPlan;
use super::local::{LocalNest, region_at};
use crate::engine::{self, Coordinates, RegionOf, Run, values_at};
use crate::leaf::op;
use crate::{Element, Grid, Result, World, count};
use polyshard_program::{
    At, Body, Direction, Expr, InPlace, Iteration, Kernel, KernelId, LeafAccess, LeafPart, NestView,
    Region as SymbolicRegion, Route, Statement, TensorId, TileId, TimeSteps, TransferId,
};
use smallvec::SmallVec;
use std::rc::Rc;

/// A kernel's leaf, made once, and its expressions on this rank.
pub(super) struct PreparedKernel<'a, T> {
    nest: NestView<'a>,
    leaf: LeafPlan<T>,
    here: Rc<LocalNest>,
    counters: Vec<i64>,
    /// Its position among the kernels that run together.
    pub(super) position: usize,
}

impl<'a, T: Element> PreparedKernel<'a, T> {
    /// Returns the kernel, and its table.
    pub(super) fn new(body: &'a Body, id: KernelId, world: &'a World) -> Result<(Self, engine::Kernel<'a>)> {
        let nest = body.nest(id);
        let grid = Grid::new(world, nest.mesh)?;
        let here = Rc::new(LocalNest::new(&nest, grid.coords()));
        let leaf = LeafPlan::new(&nest, &nest.kernel)?;
        let table = table(body, &nest, &here);
        let counters = vec![0; nest.loops.len()];
        Ok((Self { nest, leaf, here, counters, position: 0 }, table))
    }

    /// Sets the scalars of the leaf to those of `kernel`, or to those that its own kernel captured.
    pub(super) fn set_scalars(&mut self, kernel: Option<&Kernel>) -> Result<()> {
        self.leaf = LeafPlan::new(&self.nest, kernel.unwrap_or(&self.nest.row.kernel))?;
        Ok(())
    }
}

/// The table of a nest on the rank whose expressions are `here`.
fn table<'a>(body: &Body, nest: &NestView<'a>, here: &Rc<LocalNest>) -> engine::Kernel<'a> {
    let arguments: SmallVec<[_; 4]> = body.reads_from_before(nest.id).map(|(tensor, _)| tensor).collect();
    let writer = |tensor: TensorId| body.writer_beside(nest.id, *nest.row.reads().get(tensor.0)?);
    let transfers = nest.transfers.iter().enumerate().map(|(number, transfer)| {
        let (here, row) = (Rc::clone(here), transfer.row);
        let find = |exprs: &'a Vec<Expr>| Coordinates::new(move |at, counters| values_at(exprs, at, counters));
        let held = |held: &'a SymbolicRegion| -> RegionOf<'a> {
            Box::new(move |coordinates, counters| region_at(held, coordinates, counters))
        };
        engine::Transfer {
            name: nest.tensor_name(transfer.tensor),
            input: arguments.iter().position(|tensor| *tensor == transfer.tensor),
            any_order: transfer.direction == Direction::Out { any_order: true },
            // This rank's own region has its coordinates substituted.
            region: Box::new(move |coordinates, counters| {
                let is_own = coordinates == here.coordinates;
                region_at(if is_own { &here.regions[number] } else { &row.region }, coordinates, counters)
            }),
            route: Route {
                legs: row.route.legs.iter().map(|leg| leg.map(find)).collect(),
                held: row.route.held.as_ref().map(held),
            },
            tile: row.tile,
            ahead: row.ahead,
            interior_first: transfer.is_interior_first(),
            reused: transfer.reused.map(|(kernel, tile)| (kernel.0, tile)),
            writer: writer(transfer.tensor).map(|kernel| kernel.0),
        }
    });
    let time_steps = nest.time_steps.as_ref().map(|&TimeSteps { counter, capacity, .. }| {
        let here = Rc::clone(here);
        let region: RegionOf<'a> = Box::new(move |coordinates, counters| {
            let of_step = here.of_step.as_ref();
            region_at(
                of_step.expect("a nest with time steps has their region; this is a bug in polyshard"),
                coordinates,
                counters,
            )
        });
        engine::TimeSteps { counter: counter.0, capacity, region }
    });
    let kernel = &nest.row.kernel;
    engine::Kernel {
        name: kernel.name(),
        statement: kernel.to_string(),
        mesh: nest.mesh.clone(),
        assign: kernel.assign(),
        shardings: nest.shardings.iter().copied().cloned().collect(),
        loops: nest.loops.iter().map(|l| l.extent).collect(),
        transfers: transfers.collect(),
        written: kernel.written(),
        overwrites: nest.leaf.overwrites,
        in_place: body.in_place(nest.id).unwrap_or(InPlace::Threads),
        slices: here.sliced_along,
        time_steps,
    }
}

/// A walk over the statements of kernels that run together, on one rank.
pub(super) struct Walk<'a, 'r, 'e, T: Element> {
    pub(super) body: &'a Body,
    /// The kernels of the program.
    pub(super) kernels: &'r mut [PreparedKernel<'a, T>],
    /// Those that run together.
    pub(super) together: &'r [KernelId],
    /// By transfer between an array and a tile: the tile.
    pub(super) tiles: &'r [TileId],
    pub(super) run: &'r mut Run<'e, 'a, T>,
    /// The number of leaves that runs have computed, and who is told.
    pub(super) leaves: &'r mut u64,
    pub(super) tell: Option<&'r (dyn Fn(u64) + 'a)>,
    /// Whether it is the first of the rounds around them.
    pub(super) is_first: bool,
}

impl<T: Element> Walk<'_, '_, '_, T> {
    /// Runs the statements.
    pub(super) fn statements(&mut self, statements: &[Statement]) -> Result<()> {
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
            Statement::Fill(id) => self.at(id, At::NOW, |run, tile, counters| run.filled(tile, counters)),
            Statement::Begin(id, at) => self.at(id, at, |run, tile, counters| run.begun(tile, counters)),
            Statement::End(id, at) => self.at(id, at, |run, tile, _| run.ended(tile)),
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
        let PreparedKernel { nest, counters, position, .. } = &mut self.kernels[kernel.0];
        let (run, tile) = (&mut *self.run, self.tiles[id.0]);
        run.select(*position);
        let Some(counter) = transfer.level.innermost().filter(|_| at.iteration != Iteration::Now) else {
            return act(run, tile, counters);
        };
        let now = counters[counter.0];
        let then = at.iteration.counter(now);
        if !(0..nest.loops[counter.0].extent).contains(&then) {
            return Ok(());
        }
        counters[counter.0] = then;
        let done = act(run, tile, counters);
        counters[counter.0] = now;
        done
    }

    /// Runs this part of the leaf.
    fn compute(&mut self, id: KernelId, part: LeafPart) -> Result<()> {
        let Self { kernels, run, leaves, tell, .. } = self;
        let PreparedKernel { nest, here, leaf, counters, position } = &mut kernels[id.0];
        let (here, counters) = (&**here, &counters[..]);
        run.select(*position);
        let values = |exprs: &[Expr]| values_at(exprs, &here.coordinates, counters);
        let counts: SmallVec<[usize; 6]> = values(&here.counts).into_iter().map(count).collect();
        let value = |expr: &Expr| expr.eval(&here.coordinates, counters);
        let interior = here.interior.iter().filter(|_| part != LeafPart::Whole);
        let interior: SmallVec<[(i64, i64); 6]> = interior.map(|(low, high)| (value(low), value(high))).collect();
        run.compute_part(part, counters, &counts, &interior, |due| run_leaf(nest, here, leaf, counters, due))?;
        if part != LeafPart::Interior {
            **leaves += 1;
            tell.iter().for_each(|tell| tell(**leaves));
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
    // They are large: collecting them would move them.
    let mut operands = SmallVec::<[_; 10]>::new();
    operands.extend(accesses.map(|(operand, (access, (tile, base)))| {
        let (tile, base, steps) = (*tile, values(base), steps(access));
        match plan.outside(operand) {
            Some((value, extents)) => leaf.read_or(tile, *value, extents, &base, &steps),
            None => leaf.read(tile, &base, &steps),
        }
    }));
    let numbers = nest.leaf.numbers.iter().zip(values(&here.numbers));
    let numbers: SmallVec<[_; 2]> = numbers.map(|(number, base)| leaf.ramp(base, &number.strides)).collect();
    let target = leaf.write(&values(&here.target), &steps(&nest.leaf.target));
    plan.run(&leaf.counts(), &operands, &numbers, target, op(nest.kernel.assign()));
}
