//! Whether the statements of kernels are in an order that is legal; see [`Statement`] for the rules.
//!
//! The statements are gone through as a rank runs them, with loops cut to as many iterations as it takes for all states of a transfer to occur: twice as
//! many as any statement looks ahead or back, and two. Those in the middle only repeat them.
//! Tests: `program/tests/it/refused/flow.rs`.

use super::{Body, Span};
use crate::ids::{Depth, KernelId, LoopId, TransferId};
use crate::matching::MOST_AHEAD;
use crate::nest::{Buffers, Direction, LoweredKernel, NestView, TransferView};
use crate::statement::{At, Iteration, LeafPart, Statement};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The values of the counters around a transfer or a leaf.
type Counters = Vec<i64>;

/// Why statements of a kernel are not legal, as a clause after its name.
type Refused = (KernelId, String);

/// A transfer while statements are gone through.
#[derive(Default)]
struct State {
    /// The iteration whose region the tile of an input holds, or to which the sums in an output's tile belong.
    held: Option<Counters>,
    /// The iterations that are in flight, in the order in which they began.
    in_flight: VecDeque<Counters>,
    /// How often the leaf has run since an output's tile was filled.
    computed: usize,
}

struct Walk<'a> {
    body: &'a Body,
    nests: Vec<NestView<'a>>,
    /// By loop, its iterations after it is cut.
    extents: BTreeMap<LoopId, i64>,
    /// By loop, how many iterations statements look ahead or back, and one.
    near: BTreeMap<LoopId, i64>,
    states: BTreeMap<TransferId, State>,
    /// The transfers whose tiles earlier kernels have filled.
    fetched: &'a BTreeSet<TransferId>,
    /// By kernel, whether the interior of the current iteration has been computed, and how often the leaf has run.
    interior: BTreeMap<KernelId, Counters>,
    computed: BTreeMap<KernelId, usize>,
    /// The loops around the current statement, with their counters.
    around: Vec<(LoopId, i64)>,
}

/// Checks the statements of a span of these kernels, whose rows fit, after kernels that left these tiles.
pub(super) fn check(
    body: &Body,
    span: Span<'_>,
    kernels: &[KernelId],
    fetched: &BTreeSet<TransferId>,
) -> Result<(), Refused> {
    let nests: Vec<_> = kernels.iter().map(|&kernel| body.nest(kernel)).collect();
    let mut near: BTreeMap<LoopId, i64> = nests.iter().flat_map(|nest| &nest.row.loops).map(|id| (*id, 1)).collect();
    let mut look = |id: TransferId, by: i64| {
        let of_nest = nests.iter().find(|nest| body.transfers[id.0].kernel() == Some(nest.id));
        let innermost = body.transfers[id.0].level.innermost();
        if let Some((nest, counter)) = of_nest.zip(innermost)
            && let Some(id) = nest.row.loops.get(counter.0)
            && let Some(near) = near.get_mut(id)
        {
            *near = (*near).max(1 + by.clamp(0, MOST_AHEAD as i64 + 1));
        }
    };
    nests.iter().flat_map(|nest| &nest.transfers).for_each(|transfer| look(transfer.id, transfer.ahead as i64));
    let mut look_at = |statement: &Statement| {
        if let Statement::Begin(id, at) | Statement::End(id, at) = statement
            && let Iteration::Later(by) | Iteration::Earlier(by) = at.iteration
        {
            look(*id, by);
        }
    };
    span.statements.iter().for_each(|statement| statement.visit(&mut look_at));
    let extents = near.iter().map(|(id, near)| (*id, body.loops[id.0].extent.min(2 * near))).collect();
    let mut walk = Walk {
        body,
        nests,
        extents,
        near,
        states: BTreeMap::new(),
        fetched,
        interior: BTreeMap::new(),
        computed: BTreeMap::new(),
        around: Vec::new(),
    };
    walk.statements(span.statements)?;
    walk.end()
}

impl<'a> Walk<'a> {
    fn statements(&mut self, statements: &[Statement]) -> Result<(), Refused> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Refused> {
        let first = self.nests[0].id;
        match *statement {
            Statement::Loop(id, ref body) => {
                let Some(&extent) = self.extents.get(&id) else {
                    return Err((
                        first,
                        format!("has loop {}, numbered from 0, which is around none of its leaves", id.0),
                    ));
                };
                for value in 0..extent {
                    self.around.push((id, value));
                    self.statements(body)?;
                    self.around.pop();
                }
                Ok(())
            }
            Statement::Fill(id) => self.fill(id),
            Statement::Begin(id, at) => self.begin(id, at),
            Statement::End(id, at) => self.end_of(id, at),
            Statement::Compute(id, part) => self.compute(id, part),
            Statement::Rounds(..) | Statement::Free(_) => Err((first, "has rounds inside its loops".into())),
        }
    }

    /// What a statement of a transfer is about, which `does` something to it: the row of its kernel, the transfer, the counters of the
    /// iteration, none if there is no such iteration, and the refusal of the statement for a reason.
    #[expect(clippy::type_complexity, reason = "each caller takes it apart")]
    fn at(
        &self,
        id: TransferId,
        at: At,
        does: &'static str,
    ) -> Result<(&'a LoweredKernel, TransferView<'a>, Option<Counters>, impl Fn(&str) -> Refused + use<>), Refused>
    {
        let found = self.nests.iter().find_map(|nest| {
            let is_it = |transfer: &TransferView<'_>| transfer.id == id && transfer.reused.is_none();
            Some((nest, nest.transfers.iter().position(is_it)?))
        });
        let (nest, position) = found
            .ok_or_else(|| (self.nests[0].id, format!("has statements of transfer {}, which it does not use", id.0)))?;
        let (kernel, transfer) = (nest.id, nest.transfers[position]);
        let refusal = move |why: &str| (kernel, format!("{does} its transfer, number {position}, {why}"));
        let counters = self.counters(nest.row, transfer.level, at).map_err(|why| refusal(&why))?;
        Ok((nest.row, transfer, counters, refusal))
    }

    /// The counters of the iteration for which a transfer begins or ends; none if there is no such iteration.
    fn counters(&self, row: &LoweredKernel, level: Depth, at: At) -> Result<Option<Counters>, String> {
        let outer = if matches!(at.iteration, Iteration::At(_)) { level.0.saturating_sub(1) } else { level.0 };
        let loops = self.around.iter().map(|(id, _)| id);
        if !loops.eq(&row.loops[..outer]) || level.0 == 0 && at.iteration != Iteration::Now {
            return Err("inside other loops than its own".into());
        }
        let mut counters: Counters = self.around.iter().map(|(_, value)| *value).collect();
        let Some(innermost) = level.innermost() else { return Ok(Some(counters)) };
        let id = row.loops[innermost.0];
        let (extent, cut, near) = (self.body.loops[id.0].extent, self.extents[&id], self.near[&id]);
        let now = counters.get(innermost.0).copied().unwrap_or(0);
        let then = match at.iteration {
            Iteration::At(value) if !(0..extent).contains(&value) => return Ok(None),
            // Iterations at either end keep their distance from it.
            Iteration::At(value) if extent > cut && value >= extent - near => value - (extent - cut),
            Iteration::At(value) if extent > cut && value >= near => {
                return Err(format!("for iteration {value} of {extent}, in the middle of its loop"));
            }
            iteration => iteration.counter(now),
        };
        counters.truncate(innermost.0);
        counters.push(then);
        Ok((0..cut).contains(&then).then_some(counters))
    }

    fn fill(&mut self, id: TransferId) -> Result<(), Refused> {
        let (_, transfer, counters, refusal) = self.at(id, At::NOW, "fills the tile of")?;
        let refused = |why: &str| Err(refusal(why));
        let in_panels = self.in_panels(id);
        if transfer.direction == Direction::In || transfer.route.is_in_place() && !in_panels {
            return refused("which is not written");
        }
        let state = self.states.entry(id).or_default();
        if state.held.is_some() && !in_panels {
            return refused("whose sums have not been sent");
        }
        if state.in_flight.len() as u64 >= transfer.tile.buffers.count() {
            return refused("all of whose buffers are in flight");
        }
        (state.held, state.computed) = (counters, 0);
        Ok(())
    }

    fn begin(&mut self, id: TransferId, at: At) -> Result<(), Refused> {
        let (row, transfer, counters, refusal) = self.at(id, at, "begins")?;
        let refused = |why: &str| Err(refusal(why));
        let Some(counters) = counters else { return Ok(()) };
        let is_ahead = transfer.ahead > 0;
        let inside = self.instances(&row.loops[transfer.level.0..]);
        let state = self.states.entry(id).or_default();
        if transfer.direction == Direction::In {
            if !is_ahead && at.iteration != Iteration::Now {
                return refused("for another iteration, but has one buffer");
            }
            if state.in_flight.len() >= transfer.ahead.max(1) {
                return refused("again before it has ended");
            }
            if transfer.route.shift().is_some() && counters.last().is_some_and(|&value| value > 0) {
                let before = state.held.as_ref().and_then(|held| Some((held.split_last()?, counters.split_last()?)));
                let is_next =
                    before.is_some_and(|((held, outer), (next, others))| held + 1 == *next && outer == others);
                if !is_next {
                    return refused("which passes on a tile that has not arrived");
                }
            }
            if !is_ahead && transfer.tile.buffers != Buffers::Shard {
                state.held = None;
            }
        } else {
            if transfer.route.is_in_place() {
                return refused("but its leaf writes the array");
            }
            if at.iteration != Iteration::Now || state.held.as_ref() != Some(&counters) || state.computed != inside {
                return refused("before all of its tile has been computed");
            }
            if state.in_flight.len() > transfer.ahead {
                return refused("again before it has ended");
            }
            state.held = None;
        }
        state.in_flight.push_back(counters);
        Ok(())
    }

    fn end_of(&mut self, id: TransferId, at: At) -> Result<(), Refused> {
        let (_, transfer, counters, refusal) = self.at(id, at, "ends")?;
        let refused = |why: &str| Err(refusal(why));
        let Some(counters) = counters else { return Ok(()) };
        let state = self.states.entry(id).or_default();
        if state.in_flight.front() != Some(&counters) {
            return refused("which is not the first in flight there");
        }
        state.in_flight.pop_front();
        if transfer.direction == Direction::In {
            state.held = Some(counters);
        }
        Ok(())
    }

    fn compute(&mut self, id: KernelId, part: LeafPart) -> Result<(), Refused> {
        let Some(nest) = self.nests.iter().find(|nest| nest.id == id) else {
            return Err((self.nests[0].id, format!("runs the leaf of kernel {}", id.0)));
        };
        if !self.around.iter().map(|(id, _)| id).eq(&nest.row.loops) {
            return Err((id, "runs its leaf inside other loops than its own".into()));
        }
        let counters: Counters = self.around.iter().map(|(_, value)| *value).collect();
        for (position, transfer) in nest.transfers.iter().enumerate() {
            let here = &counters[..transfer.level.0];
            let state = self.states.get(&transfer.id);
            let held = state.and_then(|state| state.held.as_deref());
            let is_there = match transfer.direction {
                _ if transfer.reused.is_some() && self.fetched.contains(&transfer.id) => true,
                Direction::In if part == LeafPart::Interior && transfer.is_interior_first() => {
                    state.is_some_and(|state| state.in_flight.iter().any(|begun| begun[..] == *here))
                        || held == Some(here)
                }
                Direction::In => held == Some(here),
                Direction::Out { .. } => transfer.route.is_in_place() && !nest.in_panels || held == Some(here),
            };
            if !is_there {
                let why = match transfer.direction {
                    Direction::In => "has ended",
                    Direction::Out { .. } => "has a tile to write",
                };
                return Err((id, format!("runs its leaf before its transfer, number {position}, {why}")));
            }
        }
        let count = |id: &KernelId| self.computed.get(id).copied().unwrap_or(0);
        for array in nest.row.reads() {
            if let Some(writer) = self.body.writer_beside(id, *array)
                && (count(&writer) <= count(&id) || self.interior.contains_key(&writer))
            {
                let name = self.body.arrays[array.0].name;
                return Err((id, format!("reads `{name}` in an iteration that has not yet written it")));
            }
        }
        let is_done = self.interior.get(&id) == Some(&counters);
        match part {
            LeafPart::Interior if nest.leaf.interior.is_some() => {
                return match self.interior.insert(id, counters.clone()) == Some(counters) {
                    true => Err((id, "computes its interior twice".into())),
                    false => Ok(()),
                };
            }
            LeafPart::Rims if is_done => _ = self.interior.remove(&id),
            LeafPart::Whole if !is_done => {}
            _ => return Err((id, "does not compute its interior and then its rims".into())),
        }
        if let Some(state) = self.states.get_mut(&nest.output().id) {
            state.computed += 1;
        }
        *self.computed.entry(id).or_default() += 1;
        Ok(())
    }

    /// Whether a transfer is of an output that is in its tile only.
    fn in_panels(&self, id: TransferId) -> bool {
        self.nests.iter().any(|nest| nest.in_panels && nest.output().id == id)
    }

    /// How often statements inside these loops run.
    fn instances(&self, loops: &[LoopId]) -> usize {
        loops.iter().map(|id| self.extents[id].max(0) as usize).product()
    }

    /// Checks that nothing is left over.
    fn end(self) -> Result<(), Refused> {
        for nest in &self.nests {
            if self.computed.get(&nest.id).copied().unwrap_or(0) != self.instances(&nest.row.loops)
                || self.interior.contains_key(&nest.id)
            {
                return Err((nest.id, "does not run its leaf once in each iteration".into()));
            }
            for (position, transfer) in nest.transfers.iter().enumerate() {
                let Some(state) = self.states.get(&transfer.id) else { continue };
                if !state.in_flight.is_empty() {
                    return Err((nest.id, format!("does not end its transfer, number {position}")));
                }
                if transfer.direction != Direction::In && state.held.is_some() && !nest.in_panels {
                    return Err((nest.id, format!("does not send the tile of its transfer, number {position}")));
                }
            }
        }
        Ok(())
    }
}
