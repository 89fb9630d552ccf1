//! Kernels that run together and pass values on: in each iteration of the loops that they share, one kernel reads what another has just
//! written, while it is still in the cache.
//!
//! ```text
//! for ip in 0..256                a pass over memory, in panels
//!     Q panel = stencil(D)
//!     dq += D panel * Q panel     reads the panel of Q that this iteration has written, on this rank
//! ```
//!
//! This is legal if the elements that an iteration reads are among those that the same iteration has written, and no later iteration
//! writes them again. It is decided here by the closed forms of both leaves, and by isl where the kernels were lowered.
//! Tests: `tests/it/passes.rs`.

use super::body::{Id, numbers};
use super::{ArrayKind, Body};
use crate::expr::{Expr, Ranges, Symbol};
use crate::ids::{ArrayId, CounterId, Depth, KernelId, TensorId};
use crate::nest::{Direction, LeafAccess, LoweredKernel, NestView, Region, Transfer};
use crate::proof::{Proof, Property};
use crate::statement::{LeafPart, Statement};
use polyshard_layout::each_once;

impl Body {
    /// Returns the kernel that writes an array, if it runs together with this one: it has the same loops around its leaf.
    #[must_use]
    pub fn writer_beside(&self, kernel: KernelId, array: ArrayId) -> Option<KernelId> {
        let loops = &self.kernels[kernel.0].loops;
        let beside = |row: &&LoweredKernel| !row.loops.is_empty() && row.loops == *loops;
        let (before, after) = (&self.kernels[..kernel.0], &self.kernels[kernel.0 + 1..]);
        let found = |row: &LoweredKernel| row.writes() == array;
        let before = before.iter().rev().take_while(beside).position(found).map(|nth| KernelId(kernel.0 - 1 - nth));
        let after = || after.iter().take_while(beside).position(found).map(|nth| KernelId(kernel.0 + 1 + nth));
        before.or_else(after)
    }

    /// Whether an array is in tiles only, panel by panel.
    pub(crate) fn is_in_panels(&self, array: ArrayId) -> bool {
        self.arrays[array.0].kind == ArrayKind::Panels
    }

    /// Returns the arrays that a kernel reads from before it runs, with their tensors: not those that others which run together with it
    /// write.
    pub fn reads_from_before(&self, kernel: KernelId) -> impl Iterator<Item = (TensorId, ArrayId)> {
        let reads = self.kernels[kernel.0].reads().iter().enumerate();
        let from_before = move |(_, array): &(TensorId, ArrayId)| self.writer_beside(kernel, *array).is_none();
        reads.map(|(nth, array)| (TensorId(nth), *array)).filter(from_before)
    }

    /// Returns the bytes of a rank's parts of arrays that kernels read and write, at most: each once if they run together, and as often as
    /// kernels touch them if they run apart.
    #[must_use]
    pub fn through_memory(&self, kernels: &[KernelId]) -> [u64; 2] {
        let bytes =
            |array: ArrayId| self.arrays[array.0].sharding.largest_shard().saturating_mul(self.dtype.size() as u64);
        let rows = || kernels.iter().map(|id| &self.kernels[id.0]);
        let touched = rows().flat_map(|row| each_once(row.arrays.iter().copied()));
        let apart = touched.clone().map(bytes).fold(0, u64::saturating_add);
        let once = each_once(touched.filter(|array| !self.is_in_panels(*array)));
        [once.into_iter().map(bytes).fold(0, u64::saturating_add), apart]
    }

    /// Makes the kernels of each list, which run one after the other, run together in the loops of the first one, as far as this is legal:
    /// each kernel either joins those before it or begins a new pass. `is_proved` says whether isl has proved that a kernel reads of an array
    /// what the same iteration of another has written.
    ///
    /// Returns the kernels that begin a new pass, and why, as a sentence.
    pub fn run_together(
        &mut self,
        lists: &[Vec<KernelId>],
        is_proved: impl Fn(KernelId, KernelId) -> bool,
    ) -> Vec<(KernelId, String)> {
        let places = Places::new(self);
        let (mut passes, mut refused) = (Vec::new(), Vec::new());
        let mut is_listed = vec![false; self.kernels.len()];
        for kernels in lists {
            let mut joined: Vec<KernelId> = Vec::new();
            for &next in kernels {
                let mut refuse = |why: &str| {
                    let written = self.arrays[self.kernels[next.0].writes().0].name;
                    refused.push((next, format!("the kernel that writes `{written}` {why}")));
                };
                if std::mem::replace(&mut is_listed[next.0], true) {
                    refuse("runs together with others already");
                    continue;
                }
                if let Err(why) = self.may_join(&joined, next, &places, &is_proved) {
                    refuse(&why);
                    passes.push(std::mem::take(&mut joined));
                }
                joined.push(next);
            }
            passes.push(joined);
        }
        passes.retain(|joined| joined.len() > 1);
        if !passes.is_empty() {
            self.join(&passes);
        }
        refused
    }

    /// Whether a kernel may run together with these, which run before it: why not, as a clause without a subject.
    fn may_join(
        &self,
        joined: &[KernelId],
        next: KernelId,
        places: &Places,
        is_proved: &impl Fn(KernelId, KernelId) -> bool,
    ) -> Result<(), String> {
        let (Some(&first), Some(&last)) = (joined.first(), joined.last()) else { return Ok(()) };
        let [own, others] = [next, first].map(|id| self.nest(id));
        let extents = |nest: &NestView<'_>| nest.loops.iter().map(|one| one.extent).collect::<Vec<_>>();
        if own.loops.is_empty() || extents(&own) != extents(&others) {
            return Err("has other loops".into());
        }
        let writer = |array: ArrayId| joined.iter().copied().find(|id| self.kernels[id.0].writes() == array);
        if let Some(array) = self.version_before(own.row).filter(|array| writer(*array).is_some()) {
            return Err(format!("begins as `{}`, all of which it needs", self.arrays[array.0].name));
        }
        for (tensor, array) in own.row.reads().iter().enumerate() {
            let Some(writer) = writer(*array) else { continue };
            passes_on(&self.nest(writer), &own, TensorId(tensor))?;
            if !is_proved(writer, next) {
                return Err("is not proved to read what the same iteration has written".into());
            }
        }
        let between = places.between(last, next).ok_or("does not run next in the same rounds")?;
        let is_free = |source: &Option<ArrayId>| source.is_some_and(|source| writer(source).is_none());
        if between.iter().all(is_free) { Ok(()) } else { Err("waits for statements in between".into()) }
    }

    /// Makes kernels that may run together share the loops of the first one; moves between them begin before.
    fn join(&mut self, passes: &[Vec<KernelId>]) {
        let mut pass_of = vec![None; self.kernels.len()];
        for (number, kernels) in passes.iter().enumerate() {
            kernels.iter().for_each(|id| pass_of[id.0] = Some(number));
            let (first, others) = (kernels[0], &kernels[1..]);
            let loops = self.kernels[first.0].loops.clone();
            for (nth, id) in loops.iter().enumerate() {
                // Steps are numbered by kernel.
                let steps = |kernel: &KernelId| &self.loops[self.kernels[kernel.0].loops[nth].0].steps;
                if others.iter().any(|other| steps(other) != steps(&first)) {
                    self.loops[id.0].steps.clear();
                }
            }
        }
        self.statements = self.joined(&self.statements, passes, &pass_of);
        for kernels in passes {
            let loops = self.kernels[kernels[0].0].loops.clone();
            kernels.iter().for_each(|id| self.kernels[id.0].loops.clone_from(&loops));
        }
        self.keep_in_tiles(passes);
        self.place();
        self.forget_loops();
        for &reader in passes.iter().flatten() {
            let row = &self.kernels[reader.0];
            let passed = row.reads().iter().zip(row.kernel.inputs());
            let passed = passed.filter(|(array, _)| self.writer_beside(reader, **array).is_some());
            let proofs = passed.map(|(_, tensor)| Proof {
                property: Property::Flow,
                tensor: Some(tensor.name),
                claim: "each iteration reads of it what the same iteration has written on the same rank".into(),
                of_route: false,
            });
            let proofs: Vec<_> = proofs.collect();
            self.kernels[reader.0].report.proofs.extend(proofs);
        }
    }

    /// The statements with the kernels of each pass side by side, after the moves between them. Only which kernels stand there matters, as
    /// they are placed anew.
    fn joined(&self, statements: &[Statement], passes: &[Vec<KernelId>], pass_of: &[Option<usize>]) -> Vec<Statement> {
        let mut all = Vec::new();
        for span in self.spans(statements) {
            let kernels = self.kernels_of(span);
            match (kernels.last().map(|id| (*id, pass_of[id.0])), span.statements) {
                (Some((last, Some(number))), _) => {
                    let own = &passes[number];
                    if own.last() == Some(&last) {
                        all.extend(own.iter().map(|id| Statement::Compute(*id, LeafPart::Whole)));
                    }
                }
                (None, [Statement::Rounds(id, round)]) => {
                    all.push(Statement::Rounds(*id, self.joined(round, passes, pass_of)));
                }
                (_, statements) => all.extend_from_slice(statements),
            }
        }
        all
    }

    /// Keeps what kernels write in their tiles, panel by panel, if nothing but kernels that run together with them read it.
    fn keep_in_tiles(&mut self, passes: &[Vec<KernelId>]) {
        let mut is_elsewhere = vec![false; self.arrays.len()];
        let mut is_passed_on = is_elsewhere.clone();
        for (nth, row) in self.kernels.iter().enumerate() {
            row.continues.iter().for_each(|continued| is_elsewhere[continued.array.0] = true);
            for array in row.reads() {
                let beside = self.writer_beside(KernelId(nth), *array).is_some();
                is_passed_on[array.0] |= beside;
                is_elsewhere[array.0] |= !beside;
            }
        }
        let carried = self.rounds.iter().flat_map(|rounds| &rounds.carried);
        let carried = carried.flat_map(|one| [one.first, one.value, one.next]);
        let scalars = self.rounds.iter().filter_map(|rounds| Some(rounds.until?.scalar));
        let moved = self.transfers.iter().filter_map(Transfer::arrays).map(|[source, _]| source);
        carried.chain(scalars).chain(moved).for_each(|id| is_elsewhere[id.0] = true);
        for &id in passes.iter().flatten() {
            let (row, array) = (&self.kernels[id.0], self.kernels[id.0].writes());
            let is_temporary = self.arrays[array.0].kind == ArrayKind::Temporary;
            let is_whole = row.kernel.written().is_none() && row.continues.is_none();
            if is_temporary && is_whole && is_passed_on[array.0] && !is_elsewhere[array.0] {
                self.keep_in_tile(id);
            }
        }
    }

    /// Keeps what a kernel writes in its tile, if it is a box in each iteration.
    fn keep_in_tile(&mut self, id: KernelId) {
        let nest = self.nest(id);
        let ranges = nest.ranges();
        let Some(bounds) = ranges_of(&nest, &nest.leaf.target, true) else { return };
        let bounds = bounds.into_iter().map(|(low, high)| (low.clone(), Expr::max(&low, &high, &ranges))).collect();
        let region = Region::of_ranges(bounds);
        let extents = region.max_extents(&ranges);
        let capacity = extents.into_iter().fold(1, |all: usize, extent| all.saturating_mul(extent as usize));
        let (level, output, array) = (Depth(nest.row.loops.len()), nest.output().id, nest.row.writes());
        let transfer = &mut self.transfers[output.0];
        (transfer.level, transfer.region, transfer.tile.capacity) = (level, region, capacity);
        self.arrays[array.0].kind = ArrayKind::Panels;
        let proofs = self.kernels[id.0].report.proofs.clone();
        self.complete(id, proofs);
    }

    /// Removes loops that are around no leaf.
    fn forget_loops(&mut self) {
        let mut stays = vec![false; self.loops.len()];
        self.kernels.iter().flat_map(|row| &row.loops).for_each(|id| stays[id.0] = true);
        let numbers = numbers(&stays);
        self.each_id(&mut |_, id| {
            if let Id::Loop(id) = id {
                id.0 = numbers[id.0];
            }
        });
        let mut stays = stays.iter();
        self.loops.retain(|_| stays.next().is_some_and(|stays| *stays));
    }

    /// Checks that a kernel of those that run together reads of each array that another one writes what the same iteration has written.
    pub(super) fn check_beside(&self, kernel: KernelId, together: &[KernelId]) -> Result<(), String> {
        let nest = self.nest(kernel);
        for (tensor, array) in nest.row.reads().iter().enumerate() {
            let Some(writer) = self.writer_beside(kernel, *array) else { continue };
            let place = |id| together.iter().position(|other| *other == id);
            if place(writer) >= place(kernel) {
                return Err(format!("reads `{}` before it is written", self.arrays[array.0].name));
            }
            passes_on(&self.nest(writer), &nest, TensorId(tensor))?;
        }
        match self.version_before(nest.row).filter(|array| self.writer_beside(kernel, *array).is_some()) {
            Some(array) => Err(format!("begins as `{}`, which is not complete", self.arrays[array.0].name)),
            None => Ok(()),
        }
    }
}

/// Where the kernels of a body stand.
struct Places {
    /// By kernel: the list of statements, and the position of its span there.
    of: Vec<Option<(usize, usize)>>,
    /// By list and span: the array that a move reads; none for other spans.
    lists: Vec<Vec<Option<ArrayId>>>,
}

impl Places {
    fn new(body: &Body) -> Self {
        let mut places = Self { of: vec![None; body.kernels.len()], lists: Vec::new() };
        places.add(body, &body.statements);
        places
    }

    fn add(&mut self, body: &Body, statements: &[Statement]) {
        let list = self.lists.len();
        self.lists.push(Vec::new());
        for span in body.spans(statements).filter(|span| !matches!(span.statements, [Statement::Free(_)])) {
            let at = self.lists[list].len();
            body.kernels_of(span).into_iter().for_each(|id| self.of[id.0] = Some((list, at)));
            let arrays = span.moved().and_then(|id| body.transfers[id.0].arrays());
            self.lists[list].push(arrays.map(|[source, _]| source));
            if let [Statement::Rounds(_, round)] = span.statements {
                self.add(body, round);
            }
        }
    }

    /// The spans between those of two kernels, if they are in one list, one after the other.
    fn between(&self, first: KernelId, next: KernelId) -> Option<&[Option<ArrayId>]> {
        let ((list, from), (other, to)) = (self.of[first.0]?, self.of[next.0]?);
        (list == other && from < to).then(|| &self.lists[list][from + 1..to])
    }
}

/// Checks that each element of a tensor that a leaf reads in an iteration was written by another leaf in the same one, in its rank's shard.
fn passes_on(writer: &NestView<'_>, reader: &NestView<'_>, tensor: TensorId) -> Result<(), String> {
    let name = reader.tensor_name(tensor);
    let refused =
        |why: &str| Err(format!("reads `{name}` in the loops that it shares with the kernel that writes it, {why}"));
    let mut fetched = reader.inputs().iter().filter(|transfer| transfer.tensor == tensor);
    let is_here = fetched.all(|transfer| transfer.direction == Direction::In && transfer.route.is_in_place());
    if !is_here || !writer.output().route.is_in_place() {
        return refused("but not from its rank's shard");
    }
    if writer.time_steps.is_some() || reader.time_steps.is_some() {
        return refused("but one of them has time steps");
    }
    let ranges = reader.ranges();
    let Some(written) = ranges_of(writer, &writer.leaf.target, true) else {
        return refused("but that one does not write a box in each iteration");
    };
    for access in reader.leaf.operands.iter().filter(|access| access.tensor == tensor) {
        let read = ranges_of(reader, access, false).unwrap_or_default();
        let is_inside = |((low, high), (first, end)): (&(Expr, Expr), &(Expr, Expr))| {
            is_at_most(first, low, &ranges) && is_at_most(high, end, &ranges)
        };
        if read.len() != written.len() || !read.iter().zip(&written).all(is_inside) {
            return refused("but other elements than the iteration has written");
        }
    }
    // Where an element is written again, it is not complete. As every instance runs once, an iteration that runs all terms of an element
    // leaves none to others.
    let has_all_terms = writer.leaf.loops.iter().zip(writer.kernel.vars()).enumerate().all(|(number, (inner, var))| {
        let is_whole = inner.low.as_constant() == Some(0) && inner.count.as_constant() == Some(var.extent as i64);
        is_whole && inner.stride == 1 || writer.kernel.target().mentions(var.name) && moves(&writer.leaf.target, number)
    });
    if has_all_terms {
        return Ok(());
    }
    let counters = (0..reader.loops.len()).map(CounterId);
    let is_final = |counter: CounterId| {
        let next = Expr::symbol(Symbol::Counter(counter)).offset_by(1);
        let moves = |(low, end): &(Expr, Expr)| {
            let later = low.replace(Symbol::Counter(counter), &next, &ranges);
            is_at_most(end, &later, &ranges)
        };
        reader.loops[counter.0].extent <= 1 || written.iter().any(moves)
    };
    if counters.into_iter().all(is_final) { Ok(()) } else { refused("where it is not complete") }
}

/// Whether a loop of the leaf moves an access.
fn moves(access: &LeafAccess, number: usize) -> bool {
    access.strides.iter().any(|strides| strides[number] != 0)
}

/// The first element and the one after the last, along each dimension, that an access of a leaf touches in an iteration; none if they may
/// be fewer and the access has to touch `all`.
fn ranges_of(nest: &NestView<'_>, access: &LeafAccess, all: bool) -> Option<Vec<(Expr, Expr)>> {
    let loops = &nest.leaf.loops;
    let mut used = vec![0; loops.len()];
    let along = |(base, strides): (&Expr, &Vec<i64>)| {
        let (mut low, mut high, mut moves) = (base.clone(), base.offset_by(1), 0);
        for (number, (stride, one)) in strides.iter().zip(loops).enumerate().filter(|(_, (stride, _))| **stride != 0) {
            let last = one.count.offset_by(-1).multiply(*stride);
            if *stride > 0 {
                high = high.add(&last)
            } else {
                low = low.add(&last)
            }
            used[number] += 1;
            moves += 1;
            if all && (stride.abs() != 1 || moves > 1 || used[number] > 1) {
                return None;
            }
        }
        Some((low, high))
    };
    access.base.iter().zip(&access.strides).map(along).collect()
}

/// Whether `a <= b` follows from bounds, for each operand of a maximum `a` and of a minimum `b`.
fn is_at_most(a: &Expr, b: &Expr, ranges: &Ranges) -> bool {
    let is_below = |a: &Expr, b: &Expr| a.subtract(b).bounds(ranges).1 <= 0;
    let holds = |a: &Expr, b: &Expr| is_below(a, b) || a.operands(false).iter().any(|a| is_below(a, b));
    let is_at_most_all = |a: &Expr| b.operands(false).iter().all(|b| b.operands(true).iter().any(|b| holds(a, b)));
    is_below(a, b) || a.operands(true).iter().all(is_at_most_all)
}
