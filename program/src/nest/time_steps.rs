//! Time steps: a kernel that is applied several times, each time to its previous output, with one halo that is wide enough for all.
//!
//! ```text
//! a row of a rank's block           a b c d
//! its halo for 2 steps         . .  a b c d  . .
//! step 0 computes                .  a b c d  .         the neighbours compute the rims, too
//! step 1 computes                   a b c d
//! ```
//!
//! This takes fewer messages and more computation (J. Demmel, M. Hoemmen, M. Mohiyuddin and K. Yelick, "Avoiding communication in sparse
//! matrix computations", IPDPS 2008).

use super::{Direction, LeafOp, NestView, Region, Transfer, TransferView};
use crate::bounds::LIMIT;
use crate::expr::{Expr, Symbol};
use crate::ids::{CounterId, Depth, TileId};
use crate::kernel::Assign;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Maximum number of steps between two transfers.
pub const MOST_TIME_STEPS: usize = 64;

/// The loop of a nest that applies its kernel several times. Each application writes a buffer, which the next one reads instead of the
/// input; the last one writes the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeSteps {
    /// The transfer that fetches the input of the first step.
    pub tile: TileId,
    /// The loop that counts the steps, the only one of the nest.
    pub counter: CounterId,
    /// The region that a step computes: more than the rank owns of the output, except in the last step.
    pub region: Region,
    /// Elements of each of the two buffers, which hold the results of all steps but the last.
    pub capacity: usize,
}

impl NestView<'_> {
    /// Returns how often the kernel is applied in a run.
    #[must_use]
    pub fn applications(&self) -> u64 {
        self.time_steps.as_ref().map_or(1, |steps| self.loops[steps.counter.0].extent.max(0) as u64)
    }

    /// Checks that time steps, if any, are of a nest that supports them.
    ///
    /// # Errors
    /// The mismatch, as a clause after the kernel's name.
    pub(super) fn time_steps_fit(&self) -> Result<(), String> {
        let Some(TimeSteps { tile, counter, region, capacity }) = &self.time_steps else { return Ok(()) };
        let is_alone = self.loops.len() == 1 && counter.0 == 0;
        if !is_alone || !(2..=MOST_TIME_STEPS as i64).contains(&self.loops[0].extent) {
            return Err("has time steps, but no loop that counts them".into());
        }
        self.region(region, self.output_sharding().shape(), Depth(1)).map_err(|why| format!("has time steps {why}"))?;
        let extents = region.max_extents(&self.ranges()).into_iter();
        let most = extents.fold(1i128, |all, extent| all.saturating_mul(i128::from(extent.max(0))));
        let [input, output] = &self.transfers[..] else { return Err("has time steps of several inputs".into()) };
        let is_input =
            tile.0 == 0 && input.direction == Direction::In && input.level == Depth(0) && input.route.held.is_none();
        let is_in_place = output.level == Depth(0) && output.route.is_in_place();
        let waits = |transfer: &TransferView<'_>| !transfer.is_under_way() && transfer.route.shift().is_none();
        if !is_input || !is_in_place || !self.transfers.iter().all(waits) {
            return Err("has time steps, but its transfers do not surround them".into());
        }
        if self.kernel.assign() != Assign::Set || self.leaf.op != LeafOp::Nest || !self.leaf.overwrites {
            return Err("has time steps, but does not assign all elements that it writes".into());
        }
        if self.shardings[0] != self.shardings[1] {
            return Err("has time steps, but its input and its output have different shardings".into());
        }
        let last = region.fixed(Symbol::Counter(*counter), self.loops[0].extent - 1, &self.ranges());
        let is_same = |(a, b): (&Expr, &Expr)| a.subtract(b).bounds(&self.ranges()) == (0, 0);
        let mut pairs = last.ranges.iter().zip(&output.region.ranges);
        if !pairs.all(|((low, high), (own, own_end))| is_same((low, own)) && is_same((high, own_end))) {
            return Err("has time steps, of which the last does not compute its rank's part".into());
        }
        match most <= *capacity as i128 && *capacity as i128 <= LIMIT {
            true => Ok(()),
            false => Err(format!("has time steps of {most} elements in buffers of {capacity}")),
        }
    }

    /// The region that the leaf must stay inside when it reads or writes a transfer's tensor in a step with these counters: the
    /// transfer's own, or, between time steps, the region that the previous step has written, or that this one writes.
    pub(super) fn surroundings<'a>(
        &'a self,
        transfer: &'a Transfer,
        counters: &'a [i64],
    ) -> (&'a Region, Cow<'a, [i64]>) {
        let Some(TimeSteps { counter, region, .. }) = &self.time_steps else {
            return (&transfer.region, counters.into());
        };
        let (step, last) = (counters[counter.0], self.loops[counter.0].extent - 1);
        let is_read = transfer.direction == Direction::In;
        if step == if is_read { 0 } else { last } {
            return (&transfer.region, counters.into());
        }
        let mut counters = counters.to_vec();
        counters[counter.0] -= i64::from(is_read);
        (region, counters.into())
    }
}
