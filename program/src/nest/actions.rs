//! The actions of a rank at each statement of a nest, down to the legs of its transfers: the same for the executor and for emitted
//! source.

use super::{Brought, Direction, LeafPart, Leg, Nest, Region, Shift, Transfer};
use crate::ids::{LegId, LoopId, TileId, TransferId};
use crate::statement::{Iteration, Statement};
use std::convert::Infallible;

/// An action of a rank, in one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action<'a> {
    /// Fills the output's tile with the identity of the kernel's operation.
    Reset(TileId),
    /// Takes over the sums in a neighbour's tile.
    TakeOver(TileId, Shift),
    /// Moves a region into a tile of an input by a leg of its route, or out of the output's tile.
    Carry(TileId, &'a Leg, &'a Region, Source),
    /// Waits for the transfer to or from a tile that has been in flight longest, and combines it if it is the output's.
    Arrive(TileId),
    /// Runs the leaf, or a part of it.
    Compute(LeafPart),
}

/// Where a leg takes a region from; that of an output always from tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The shards of its owners.
    Shards,
    /// Tiles: those that the previous leg filled, or a neighbour's in the previous iteration.
    Tiles,
    /// Either, without waiting: an input's transfer only begins, for another iteration or for the part of this one that is computed last;
    /// an output's begins to be sent.
    Ahead,
}

/// When an action takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Whenever its statement runs.
    Always,
    /// In the iteration in which a counter has this value.
    At(LoopId, i64),
    /// In all other iterations.
    NotAt(LoopId, i64),
    /// In the first of the rounds around the nest.
    InFirstRound,
    /// Whenever its statement runs, with the counter of another iteration, if the loop has that iteration.
    For(LoopId, Iteration),
}

impl Nest {
    /// Returns the actions of a rank at a statement other than a loop, in order.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::program::{Action, LoopId, Source, Statement, When};
    /// let mesh = Mesh::new([("x", 2)]);
    /// let [x] = mesh.axes();
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let schedule = matmul
    ///     .distribute(["m"], ["mo"], ["mi"], &mesh)
    ///     .divide("k", "ko", "ki", 2)
    ///     .reorder(["mo", "ko", "mi", "n", "ki"])
    ///     .rotate("ko", ["mo"]);
    /// let program = schedule.shard("B", [Var::new("k").at(x)]).communicate("B", "ko").lower()?;
    /// let body = program.body().statements.iter().find_map(|statement| match statement {
    ///     Statement::Loop { body, .. } => Some(body),
    ///     _ => None,
    /// });
    /// let actions: Vec<_> = body.expect("a loop").iter().flat_map(|statement| program.nest().actions(statement)).collect();
    /// let [(first, Action::Carry(_, _, _, from)), (next, Action::Carry(..)), (_, Action::Compute(_))] = actions[..] else {
    ///     panic!("{actions:?}")
    /// };
    /// // The panel that a rank owns, then those of its neighbour.
    /// assert_eq!([first, next], [When::At(LoopId(0), 0), When::NotAt(LoopId(0), 0)]);
    /// assert_eq!(from, Source::Shards);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If it is a loop, or not a statement of a nest.
    #[must_use]
    pub fn actions(&self, statement: &Statement) -> Vec<(When, Action<'_>)> {
        let mut actions = Vec::new();
        let _: Result<(), Infallible> = self.each_action(statement, |when, action| {
            actions.push((when, action));
            Ok(())
        });
        actions
    }

    /// Calls `act` for each action of a rank at a statement other than a loop: as [`actions`](Self::actions), but without a list.
    ///
    /// # Errors
    /// The first error of an action.
    ///
    /// # Panics
    /// If it is a loop, or not a statement of a nest.
    #[inline]
    pub fn each_action<'a, E>(
        &'a self,
        statement: &Statement,
        mut act: impl FnMut(When, Action<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        match *statement {
            Statement::Fill { tile, .. } => match self.transfers[tile.0].route.shift() {
                None => act(When::Always, Action::Reset(tile)),
                Some(shift) => {
                    act(When::At(shift.counter, 0), Action::Reset(tile))?;
                    act(When::NotAt(shift.counter, 0), Action::TakeOver(tile, shift))
                }
            },
            Statement::Begin(TransferId::Tile { tile, .. }) => self.each_leg(tile, act),
            Statement::BeginFor { tile, counter, iteration, .. } => {
                let Transfer { route, region, .. } = &self.transfers[tile.0];
                // Before the first iteration there is no tile to shift.
                let leg = if iteration == Iteration::At(0) { route.legs.first() } else { route.legs.last() };
                let mut begun = leg.map(|leg| Action::Carry(tile, leg, region, Source::Ahead)).into_iter();
                begun.try_for_each(|begun| act(When::For(counter, iteration), begun))
            }
            Statement::Await(TransferId::Tile { tile, .. }) if self.transfers[tile.0].ahead > 0 => {
                act(When::Always, Action::Arrive(tile))
            }
            Statement::Await(TransferId::Tile { tile, .. }) if self.transfers[tile.0].interior_first => {
                act(self.transfers[tile.0].in_rounds(), Action::Arrive(tile))
            }
            Statement::AwaitFor { tile, counter, iteration, .. } => {
                act(When::For(counter, iteration), Action::Arrive(tile))
            }
            // All other transfers are complete when the statement that begins them is.
            Statement::Await(_) => Ok(()),
            Statement::Compute(_) => act(When::Always, Action::Compute(LeafPart::Whole)),
            Statement::ComputeInterior(_) => act(When::Always, Action::Compute(LeafPart::Interior)),
            Statement::ComputeRims(_) => act(When::Always, Action::Compute(LeafPart::Rims)),
            Statement::Loop { .. }
            | Statement::Repeat { .. }
            | Statement::Begin(TransferId::Array(_))
            | Statement::Free(_) => {
                unreachable!("a loop, or no statement of a nest; this is a bug in polyshard")
            }
        }
    }

    /// The legs of a transfer.
    #[inline]
    fn each_leg<'a, E>(
        &'a self,
        tile: TileId,
        mut act: impl FnMut(When, Action<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let transfer = &self.transfers[tile.0];
        let is_input = transfer.direction == Direction::In;
        let near = transfer.route.shift().map(|Shift { counter, .. }| {
            let extent = self.loops[counter.0].extent;
            (counter, transfer.iteration_at_owners(extent))
        });
        let when = match near {
            Some((counter, value)) => When::At(counter, value),
            None => transfer.in_rounds(),
        };
        for (nth, leg, region) in transfer.at_owners() {
            let source = match nth {
                _ if !is_input && transfer.ahead > 0 => Source::Ahead,
                _ if !is_input => Source::Tiles,
                LegId(0) if transfer.interior_first => Source::Ahead,
                LegId(0) => Source::Shards,
                _ => Source::Tiles,
            };
            act(when, Action::Carry(tile, leg, region, source))?;
        }
        match (near, transfer.route.legs.last()) {
            (Some((counter, value)), Some(leg)) if is_input => {
                act(When::NotAt(counter, value), Action::Carry(tile, leg, &transfer.region, Source::Tiles))
            }
            // An output's sums were taken over when its tile was filled.
            _ => Ok(()),
        }
    }
}

impl Transfer {
    /// In which of the rounds around its nest it is fetched.
    fn in_rounds(&self) -> When {
        if self.brought == Brought::Once { When::InFirstRound } else { When::Always }
    }
}
