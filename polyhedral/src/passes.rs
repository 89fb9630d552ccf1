//! Passes over memory: consecutive statements of a block run panel by panel, so that elements are still in the cache when the next
//! statement needs them.
//!
//! ```text
//! Q[i, j] = 4 * D[i, j] - ..        for i_panel in 0..256
//! dq = D[i, j] * Q[i, j]                Q = 4 * D - ..     8 rows
//!                                       dq += D * Q        the same 8 rows
//! ```
//!
//! Kernels join a pass if they divide the same index over the same ranks, and read what earlier ones write at their own values of this
//! index only. Here it is chosen which do, and in how many panels; isl proves that each iteration reads what it has written, and
//! [`Body::run_together`](polyshard_program::Body::run_together) makes one loop of theirs. Sums are added up panel by panel whether the
//! kernels run together or `apart`, so the bits are the same. Tests: `tests/it/passes.rs`.

use crate::context::Context;
use crate::error::LowerError;
use crate::leaf::matrix_product;
use crate::nest::{Definition, Depth, NodeId};
use crate::schedule::Schedule;
use crate::state::State;
use polyshard_dsl::{Rounds, Stage, Statement, Step};
use polyshard_layout::{Name, each_once};
use polyshard_program::{Access, Affine, IndexVar, KernelId, Program, StepId};
use std::ops::Range;

/// The bytes of a panel of all arrays of a pass, unless a program says otherwise: they fit in a core's second-level cache.
pub const PANEL: usize = 1 << 20;

/// How many times as large panels are if they hold a matrix product, which packs an operand in each of them.
const OF_PRODUCTS: usize = 4;

/// The maximum number of kernels of a pass: each is compared with all others.
const MOST: usize = 64;

/// The kernels of a sequence that run together, by number.
#[derive(Debug, Default)]
pub struct Passes {
    /// Those that were cut into panels.
    chosen: Vec<Range<usize>>,
    /// Those that a step `together` names, with the number of the step among those of the first kernel.
    asked: Vec<(Range<usize>, StepId)>,
}

/// A kernel that may run together with its neighbours.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its schedule.
    pub schedule: Schedule,
    /// The values that it reads, in the order of its inputs.
    pub inputs: Vec<Name>,
    /// The value that it writes.
    pub output: Name,
    /// Its place in a block.
    pub statement: Statement,
}

/// A kernel of a file, with the steps written for it.
impl From<&Stage> for Member {
    #[track_caller]
    fn from(stage: &Stage) -> Self {
        let Stage { inputs, output, statement, .. } = stage;
        Self { schedule: stage.into(), inputs: inputs.clone(), output: *output, statement: *statement }
    }
}

/// An index of a kernel that may be divided into panels: the serial loop over it, and how its values follow from the mesh.
#[derive(Clone, Copy, PartialEq)]
struct Row {
    index: Name,
    at: Name,
    extent: i64,
    start: i64,
    /// The axis over which it is distributed, the values per rank, and where the first one begins.
    over: Option<(usize, i64, i64)>,
}

/// Rows that are cut, each with the number of its values in a panel.
type Units = Vec<(Row, i64)>;

/// A member, and what its schedule says about passes.
struct Known<'a> {
    member: &'a Member,
    /// The indices along which it may join a pass, those of its output first.
    rows: Vec<Row>,
    /// Whether it is a product of matrices.
    is_product: bool,
    /// The values that it touches.
    touched: Vec<Touched>,
}

/// Why kernels cannot run together.
#[derive(Debug)]
pub enum Refused {
    /// isl gave up.
    Isl(LowerError),
    /// It is illegal, though a step of a kernel asks for it: the kernel, the step, and why, as a sentence.
    Step {
        /// The number of the kernel.
        kernel: usize,
        /// The number of the step.
        step: StepId,
        /// Why.
        why: String,
    },
}

impl Passes {
    /// What to do if kernels cannot run together.
    pub const HELP: &str = "leave `together` out, or share a loop around all that the statement reads";

    /// Chooses the passes of kernels with these schedules, in these rounds, and adds the steps that cut them into panels of about `bytes`
    /// of all arrays of a pass.
    pub fn planned(members: &mut [Member], rounds: &[Rounds], bytes: usize) -> Self {
        let asked = asked(members);
        let known: Vec<Known<'_>> = members.iter().map(Known::new).collect();
        let around = |kernel: usize| rounds.iter().map(move |one| one.kernels.contains(&kernel));
        let mut found: Vec<(Range<usize>, Units)> = Vec::new();
        let mut first = 0;
        while first < members.len() {
            let (block, mut rows, mut end) = (members[first].statement.block, known[first].rows.clone(), first + 1);
            while end < members.len().min(first + MOST)
                && !rows.is_empty()
                && block == members[end].statement.block
                && around(first).eq(around(end))
            {
                let left = shared(&rows, &known[first..end], &known[end]);
                let left = affordable(&left, &known[first..=end], bytes);
                if left.is_empty() {
                    break;
                }
                (rows, end) = (left, end + 1);
            }
            if end > first + 1 {
                found.push((first..end, panels(&known[first..end], &rows, bytes)));
            }
            first = end;
        }
        found.retain(|(_, units)| !units.is_empty());
        for (group, units) in &found {
            let members = &mut members[group.clone()];
            let written = each_once(members.iter().map(|member| member.output.array()));
            members.iter_mut().for_each(|one| one.schedule = in_panels(one.schedule.clone(), units, &written));
        }
        Self { asked, chosen: found.into_iter().map(|(group, _)| group).collect() }
    }

    /// Returns whether no kernels run together.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty() && self.asked.is_empty()
    }

    /// Makes kernels of the program of all kernels run together, as far as isl proves that they may.
    ///
    /// # Errors
    /// If isl gives up, or a step asks for an illegal order.
    pub fn run_together(&self, members: &[Member], program: Program) -> Result<Program, Refused> {
        if self.is_empty() {
            return Ok(program);
        }
        let depth = |kernel: usize| Depth(program.body().kernels[kernel].loops.len());
        let mut pairs = Vec::new();
        for group in self.chosen.iter().chain(self.asked.iter().map(|(group, _)| group)) {
            for (reader, writer) in
                group.clone().flat_map(|reader| (group.start..reader).map(move |writer| (reader, writer)))
            {
                let [own, other] = [reader, writer].map(|kernel| &members[kernel]);
                let is_read = !reads(own, other.output).is_empty() && depth(reader) == depth(writer);
                if is_read && is_passed_on(other, own, depth(reader)).map_err(Refused::Isl)? {
                    pairs.push((KernelId(writer), KernelId(reader)));
                }
            }
        }
        let chosen = self.chosen.iter().flat_map(|group| without_apart(members, group.clone()));
        let asked = self.asked.iter().map(|(group, _)| group.clone().map(KernelId).collect());
        let together: Vec<Vec<KernelId>> = chosen.chain(asked).collect();
        let (program, refused) = program.together(&together, |writer, reader| pairs.contains(&(writer, reader)));
        let of_step = |kernel: usize| self.asked.iter().find(|(group, _)| group.contains(&kernel));
        match refused.into_iter().find_map(|(KernelId(kernel), why)| Some((of_step(kernel)?, why))) {
            Some(((group, step), why)) => Err(Refused::Step { kernel: group.start, step: *step, why }),
            None => Ok(program),
        }
    }
}

/// The kernels of a group in parts, between which are those that run apart.
fn without_apart(members: &[Member], group: Range<usize>) -> Vec<Vec<KernelId>> {
    let kernels: Vec<usize> = group.collect();
    let is_apart = |kernel: &usize| members[*kernel].statement.apart;
    let parts = kernels.chunk_by(|one, other| !is_apart(one) && !is_apart(other));
    parts.map(|part| part.iter().copied().map(KernelId).collect()).collect()
}

/// The kernels that have the same step `together`, from the first to the last, with its number in the first one.
fn asked(members: &[Member]) -> Vec<(Range<usize>, StepId)> {
    let step = |schedule: &Schedule| schedule.steps().position(|step| matches!(step, Step::Together { .. }));
    let of = |schedule: &Schedule| schedule.steps().nth(step(schedule)?).cloned();
    let mut found: Vec<(Step, Range<usize>, StepId)> = Vec::new();
    for (kernel, Member { schedule, .. }) in members.iter().enumerate() {
        let Some((step, number)) = of(schedule).zip(step(schedule)) else { continue };
        match found.iter_mut().find(|(other, ..)| *other == step) {
            Some((_, range, _)) => range.end = kernel + 1,
            None => found.push((step, kernel..kernel + 1, StepId(number + 1))),
        }
    }
    found.into_iter().map(|(_, range, step)| (range, step)).collect()
}

/// The indices of a kernel that may be divided into panels, those of its output first; none if steps have arranged its serial loops.
fn rows(state: &State) -> Vec<Row> {
    let State { nest, kernel, .. } = state;
    let is_arranged = !state.communications.is_empty()
        || state.tensorized.is_some()
        || state.together.is_some()
        || state.applied.is_some()
        || !state.interiors.is_empty();
    let row = |(number, var): (usize, &IndexVar)| {
        let node = nest.node(NodeId(number));
        let axis = |id: NodeId| nest.loops[..nest.distributed].iter().position(|other| *other == id);
        let (at, over) = match node.definition {
            Definition::Loop => (NodeId(number), None),
            Definition::Split { outer, inner, factor, offset } => (inner, Some((axis(outer)?, factor, offset))),
            _ => return None,
        };
        let is_serial = nest.loops[nest.distributed..].contains(&at) && nest.node(at).definition == Definition::Loop;
        let (extent, at) = (nest.node(at).extent, nest.node(at).name);
        is_serial.then_some(Row { index: var.name, at, extent, start: var.start, over })
    };
    let all: Vec<_> = kernel.vars().iter().enumerate().filter_map(row).collect();
    if is_arranged || kernel.is_empty() || all.len() != kernel.vars().len() {
        return Vec::new();
    }
    // Records stay whole.
    let all = all.into_iter().filter(|row| kernel.record_index() != Some(row.index));
    let is_written = |row: &Row| kernel.target().index.iter().any(|index| index.as_variable() == Some(row.index));
    let (written, summed): (Vec<_>, Vec<_>) = all.partition(is_written);
    [written, summed].concat()
}

impl<'a> Known<'a> {
    fn new(member: &'a Member) -> Self {
        let of_block = member.statement.block.and_then(|_| member.schedule.state().ok());
        let rows = of_block.map_or_else(Vec::new, rows);
        let touched = of_block.map_or_else(Vec::new, |state| touched(state, member, &rows));
        let counts = |state: &State| state.kernel.vars().iter().map(|var| var.extent as i64).collect();
        let is_product =
            !rows.is_empty() && of_block.is_some_and(|state| matrix_product(&state.kernel, counts(state)).is_some());
        Self { member, rows, is_product, touched }
    }
}

/// Those of the rows of a pass along which another kernel may join its kernels.
fn shared(found: &[Row], before: &[Known<'_>], next: &Known<'_>) -> Vec<Row> {
    let mesh = |known: &Known<'_>| known.member.schedule.mesh().cloned().ok();
    let reads_from = |writer: &Known<'_>| !reads(next.member, writer.member.output).is_empty();
    if mesh(next) != mesh(&before[0]) || next.is_product && !before.iter().any(reads_from) {
        return Vec::new();
    }
    let fits = |row: &&Row| {
        next.rows.contains(row)
            && before.iter().all(|Known { member: writer, .. }| {
                let (Ok(kernel), accesses) = (writer.schedule.kernel(), reads(next.member, writer.output)) else {
                    return false;
                };
                accesses.is_empty() || {
                    let dim = kernel.target().index.iter().position(|index| index.as_variable() == Some(row.index));
                    dim.is_some_and(|dim| accesses.iter().all(|access| reads_own(access, dim, row.index)))
                }
            })
    };
    found.iter().filter(fits).copied().collect()
}

/// Those of the rows along which panels read small arrays again and again, if any: a product packs an operand that all panels share in
/// each of them. Rows before one have a single value in its panels.
fn affordable(rows_of_all: &[Row], known: &[Known<'_>], bytes: usize) -> Vec<Row> {
    let most = bytes.saturating_mul(OF_PRODUCTS) as f64;
    let is_affordable = |nth: usize| {
        let units: Units = rows_of_all[..=nth].iter().map(|row| (*row, 1)).collect();
        let again = |product: &Known<'_>| -> f64 {
            let arrays = product.touched.iter().filter(|array| !array.has(&rows_of_all[nth]));
            arrays.map(|array| array.bytes(&units)).sum()
        };
        known.iter().filter(|one| one.is_product).all(|product| again(product) <= most)
    };
    (0..rows_of_all.len()).filter(|nth| is_affordable(*nth)).map(|nth| rows_of_all[nth]).collect()
}

/// Whether an access reads elements inside of its tensor alone, along a dimension at the value of an index.
fn reads_own(access: &Access, dim: usize, index: Name) -> bool {
    let is_plain = |index: &Affine| index.modulus.is_none();
    access.outside.is_none() && access.index.iter().all(is_plain) && access.index[dim].as_variable() == Some(index)
}

/// The accesses by which a kernel reads a value.
fn reads(member: &Member, value: Name) -> Vec<&Access> {
    let Ok(kernel) = member.schedule.kernel() else { return Vec::new() };
    let tensors = kernel.inputs().iter().zip(&member.inputs).filter(|(_, read)| **read == value);
    tensors.flat_map(|(tensor, _)| kernel.accesses_of(tensor.name)).collect()
}

/// An array of a pass: by dimension, the index that runs over it and the elements on a rank; and the bytes of an element.
struct Touched {
    value: Name,
    dims: Vec<(Option<Name>, i64)>,
    size: f64,
}

impl Touched {
    fn new(state: &State, access: &Access, value: Name, rows: &[Row]) -> Self {
        let along = |(index, extent): (&Affine, &usize)| {
            let index = index.as_variable();
            let row = rows.iter().find(|row| Some(row.index) == index);
            (index, row.map_or(*extent as i64, |row| row.extent))
        };
        let tensor = state.kernel.tensors().find(|tensor| tensor.name == access.tensor);
        let shape = tensor.map_or(&[][..], |tensor| &tensor.shape);
        let dims = access.index.iter().zip(shape).map(along).collect();
        Self { value, dims, size: state.kernel.dtype().size() as f64 }
    }

    /// Its bytes in a panel of this many values of each of these indices.
    fn bytes(&self, units: &[(Row, i64)]) -> f64 {
        let along = |(index, extent): &(Option<Name>, i64)| {
            let unit = units.iter().find(|(row, _)| Some(row.index) == *index);
            unit.map_or(*extent, |(_, unit)| *unit) as f64
        };
        self.dims.iter().map(along).product::<f64>() * self.size
    }

    fn has(&self, row: &Row) -> bool {
        self.dims.iter().any(|(index, _)| *index == Some(row.index))
    }
}

/// The values that a kernel touches, each once.
fn touched(state: &State, member: &Member, rows: &[Row]) -> Vec<Touched> {
    let tensors = state.kernel.tensors().map(|tensor| tensor.name);
    let values: Vec<(Name, &Name)> = tensors.zip(member.inputs.iter().chain([&member.output])).collect();
    let mut found: Vec<Touched> = Vec::new();
    for access in state.kernel.value().accesses().into_iter().chain([state.kernel.target()]) {
        let value = values.iter().find(|(tensor, _)| *tensor == access.tensor).map(|(_, value)| **value);
        if let Some(value) = value.filter(|value| found.iter().all(|other| other.value != *value)) {
            found.push(Touched::new(state, access, value, rows));
        }
    }
    found
}

/// The rows along which kernels are cut into panels of about `bytes`; none if all fits in one.
fn panels(known: &[Known<'_>], rows_of_all: &[Row], bytes: usize) -> Units {
    let factor = if known.iter().any(|one| one.is_product) { OF_PRODUCTS } else { 1 };
    let bytes = bytes.saturating_mul(factor) as f64;
    let mut arrays: Vec<&Touched> = Vec::new();
    for array in known.iter().flat_map(|one| &one.touched) {
        if arrays.iter().all(|other| other.value != array.value) {
            arrays.push(array);
        }
    }
    let mut units = Units::new();
    for row in rows_of_all {
        let is_enough = arrays.iter().map(|array| array.bytes(&units)).sum::<f64>() <= bytes;
        if is_enough || units.last().is_some_and(|(_, unit)| *unit > 1) {
            break;
        }
        let of_one = [&units[..], &[(*row, 1)]].concat();
        let of_one: f64 = arrays.iter().filter(|array| array.has(row)).map(|array| array.bytes(&of_one)).sum();
        units.push((*row, (bytes / of_one).clamp(1.0, row.extent.max(1) as f64) as i64));
    }
    units.retain(|(row, unit)| *unit < row.extent);
    units
}

/// The schedule with these rows cut into panels, whose loops are outermost and shared with the kernels that write these arrays.
fn in_panels(mut schedule: Schedule, units: &[(Row, i64)], written: &[Name]) -> Schedule {
    let mut panels = Vec::with_capacity(units.len());
    for (row, unit) in units {
        let [outer, inner] = ["panel", "row"].map(|what| free_name(&schedule, row.at, what));
        let parts = (row.extent / unit + i64::from(row.extent % unit != 0)) as usize;
        schedule = schedule.apply_here(Step::Divide { i: row.at, outer, inner, parts });
        panels.push(outer);
    }
    let Ok(state) = schedule.state() else { return schedule };
    let serial = state.nest.names().split_off(state.nest.distributed);
    let record = state.kernel.record_index();
    let serial: Vec<Name> = serial.into_iter().filter(|name| Some(*name) != record).collect();
    let others: Vec<Name> = serial.iter().copied().filter(|name| !panels.contains(name)).collect();
    let order = [&panels[..], &others].concat();
    if order != serial {
        schedule = schedule.apply_here(Step::Reorder { order });
    }
    let at = *panels.last().expect("there are panels; this is a bug in polyshard");
    schedule.apply_here(Step::Together { tensors: written.to_vec(), at })
}

/// A name for a loop made of another one.
fn free_name(schedule: &Schedule, of: Name, what: &str) -> Name {
    let is_free = |name: &Name| {
        schedule.state().is_ok_and(|state| !state.nest.taken(*name) && state.mesh.position(*name).is_none())
    };
    let names = std::iter::once(format!("{of}_{what}")).chain((2..).map(|nth| format!("{of}_{what}_{nth}")));
    let mut names = names.map(|name| Name::new(&name));
    names.find(is_free).expect("some name is free; this is a bug in polyshard")
}

/// Whether each iteration of the loops at this depth, which two kernels share, has written all elements that it reads of a value.
fn is_passed_on(write: &Member, read: &Member, depth: Depth) -> Result<bool, LowerError> {
    let [writer, reader] = [Context::new(&write.schedule)?, Context::new(&read.schedule)?];
    let output = writer.kernel().target();
    let written = writer.relations.exact(depth, &output.index);
    let holds = || {
        let written = writer.relation(&written)?;
        for access in reads(read, write.output) {
            let index: Vec<_> = access.index.iter().map(Affine::unwrapped).collect();
            if !writer.relation(&reader.relations.exact(depth, &index))?.is_subset(&written)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    writer.decided("what the statements of a pass read of each other", holds())
}
