//! The flow of elements from writers to readers: nothing is read before it is written.
//!
//! ```text
//! B = first(A)     writes [1..9] of B
//! C = second(B)    reads [0..10] of B: 0 and 9 have not been written
//! ```
//!
//! For whole arrays, this is left to the [check](super::check) of a program, which refuses statements that read an array too early. The
//! boxes of elements that a kernel reads and writes follow from closed forms, which isl confirmed when the kernel was lowered; here
//! these boxes are compared. It is not an error to read an element that no statement has written: it holds the initial value of the sums
//! of the kernel that writes the array. That is seldom meant.

use super::{ArrayKind, Body, Carried, Span};
use crate::footprint::Footprint;
use crate::hint::Hint;
use crate::ids::{ArrayId, KernelId};
use crate::kernel::{Assign, Kernel};
use crate::nest::{LoweredKernel, Transfer};
use crate::proof::{Proof, Property};
use crate::statement::Statement;
use polyshard_layout::Name;
use std::collections::HashSet;

/// The maximum number of boxes that are followed to find out whether one of them was written.
const MOST_PARTS: usize = 1 << 10;

/// Claims about the flow of elements from statement to statement, and hints where they do not hold.
#[derive(Default)]
pub(super) struct Flow {
    pub proofs: Vec<Proof>,
    pub hints: Vec<Hint>,
    known: HashSet<Proof>,
}

/// By array: the kernel that writes it, if any, and the arrays that it has its other elements from.
type Sources = Vec<(Option<KernelId>, Vec<ArrayId>)>;

impl Flow {
    fn proved(&mut self, tensor: Option<Name>, claim: impl Into<String>) {
        let proof = Proof { property: Property::Flow, tensor, claim: claim.into(), of_route: false };
        if self.known.insert(proof.clone()) {
            self.proofs.push(proof);
        }
    }
}

impl Body {
    /// Traces each element that a kernel reads to its writer, in a program that passes the check.
    pub(super) fn flow(&self) -> Flow {
        let mut flow = Flow::default();
        let is_made = |id: &ArrayId| self.arrays[id.0].kind != ArrayKind::Input;
        let sources = self.sources();
        for row in &self.kernels {
            self.follow(row, &sources, &mut flow);
        }
        let reads_made = self.kernels.iter().any(|row| row.needs().any(|id| is_made(&id)))
            || self.moves().any(|moved| is_made(&moved.source));
        if reads_made {
            flow.proved(
                None,
                match flow.hints.is_empty() {
                    true => "all that is read is of an input, or was written by an earlier statement",
                    false => "each array that is read is an input, or was written by an earlier statement",
                },
            );
        }
        if !self.rounds.is_empty() {
            flow.proved(None, "each round writes all arrays that it carries to the next");
        }
        let spans: Vec<_> = self.numbered().into_iter().map(|numbered| numbered.span).collect();
        let begins = |span: &Span<'_>| matches!(span.statements, [Statement::Begin(..)]) && span.kernel.is_none();
        if spans.windows(2).any(|pair| begins(&pair[0]) && !pair[0].is_ended_by(pair.get(1))) {
            flow.proved(None, "each move that begins is awaited once, before anything reads its target");
        }
        flow
    }

    /// Traces the elements that one kernel reads.
    fn follow(&self, nest: &LoweredKernel, sources: &Sources, flow: &mut Flow) {
        let tensors = nest.kernel.tensors().zip(nest.reads().iter().copied());
        // To add to an array is to read it.
        let added = nest.continues.filter(|continued| continued.adds).map(|added| (nest.kernel.output(), added.array));
        for (tensor, id) in tensors.chain(added) {
            let (writers, _) = writers_of(id, sources);
            // The next version of another array has the values of that array in all other elements.
            for start in writers.into_iter().filter(|writer| self.version_before(&self.kernels[writer.0]).is_none()) {
                let writer = &self.kernels[start.0].kernel;
                let written = writer.writes_at_least();
                if written.as_ref().is_some_and(|written| written.is_whole(&tensor.shape)) {
                    continue;
                }
                let accesses = nest.kernel.accesses_of(tensor.name);
                let reads: Vec<_> = accesses.iter().map(|access| nest.kernel.reads_at_most(access)).collect();
                let is_outside = |read: &&Footprint| !written.as_ref().is_some_and(|written| written.contains(read));
                let mut outside = reads.iter().filter(is_outside).filter(|read| !read.is_empty()).peekable();
                let is_written = outside.peek().is_none();
                let (kernel, by, array) = (nest.kernel.name(), writer.name(), self.arrays[id.0].name);
                match (outside.find(|read| self.is_of_start(id, read, start, sources)), &written) {
                    (Some(read), _) => flow.hints.push(Hint::NotWritten {
                        kernel,
                        array,
                        read: read.to_string(),
                        by,
                        written: written.map(|written| written.to_string()),
                        held: held(writer),
                    }),
                    (None, Some(written)) if is_written => {
                        let claim = format!("all that `{kernel}` reads of it is in {written}, which `{by}` writes");
                        flow.proved(Some(array), claim);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Whether an element that is read of an array may be one that the kernel `start`, which starts the array's first version, does not
    /// write, and that no later version has written since.
    fn is_of_start(&self, id: ArrayId, read: &Footprint, start: KernelId, sources: &Sources) -> bool {
        let mut open = vec![(id, read.clone())];
        let mut at = 0;
        while let Some((id, read)) = open.get(at).cloned() {
            at += 1;
            let &(own, ref sources) = &sources[id.0];
            let written = own.and_then(|kernel| self.kernels[kernel.0].kernel.writes_at_least());
            let rest = written.map_or_else(|| vec![read.clone()], |written| read.without(&written));
            if at == MOST_PARTS || own == Some(start) && !rest.is_empty() {
                return true;
            }
            for part in sources.iter().flat_map(|&from| rest.iter().map(move |rest| (from, rest.clone()))) {
                if !open.contains(&part) {
                    open.push(part);
                }
            }
        }
        false
    }

    /// Returns the kernels that write elements of an array, the one that starts it first, if no other element of it has a value.
    pub(super) fn writers(&self, id: ArrayId) -> Option<Vec<KernelId>> {
        let (mut found, seen) = writers_of(id, &self.sources());
        let is_given = seen.iter().any(|id| self.arrays[id.0].kind == ArrayKind::Input);
        let is_whole = |kernel: &KernelId| self.kernels[kernel.0].kernel.written().is_none();
        found.sort_by_key(|kernel| self.version_before(&self.kernels[kernel.0]).is_some());
        (!is_given && !found.iter().any(is_whole)).then_some(found)
    }

    fn sources(&self) -> Sources {
        let mut sources: Sources = vec![(None, Vec::new()); self.arrays.len()];
        for (number, row) in self.kernels.iter().enumerate() {
            sources[row.writes().0].0 = Some(KernelId(number));
        }
        for [source, target] in self.transfers.iter().filter_map(Transfer::arrays) {
            sources[target.0].1.push(source);
        }
        for row in &self.kernels {
            sources[row.writes().0].1.extend(self.version_before(row));
        }
        for (carried, times) in
            self.rounds.iter().flat_map(|one| one.carried.iter().map(|carried| (carried, one.times)))
        {
            let &Carried { first, value, next } = carried;
            sources[value.0].1.extend([first].into_iter().chain((times > 0).then_some(next)));
        }
        sources
    }
}

/// The kernels whose outputs an array may hold, and the arrays from which it may have elements.
fn writers_of(id: ArrayId, sources: &Sources) -> (Vec<KernelId>, Vec<ArrayId>) {
    let (mut found, mut all, mut seen, mut open) = (Vec::new(), Vec::new(), HashSet::new(), vec![id]);
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let (own, from) = &sources[id.0];
            found.extend(*own);
            all.push(id);
            open.extend(from.iter().rev());
        }
    }
    (found, all)
}

/// The value, as text, of elements that a kernel does not write and that had no value before.
fn held(kernel: &Kernel) -> String {
    let dtype = kernel.dtype();
    match kernel.assign() {
        Assign::Set | Assign::Add | Assign::Running(_) => "0".into(),
        Assign::Mul => "1".into(),
        Assign::Max => format!("the least number of {dtype}"),
        Assign::Min => format!("the greatest number of {dtype}"),
    }
}
