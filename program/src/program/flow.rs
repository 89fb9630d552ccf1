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

/// The maximum number of boxes that are followed to find out whether one of them was written.
const MOST_PARTS: usize = 1 << 10;

/// Claims about the flow of elements from statement to statement, and hints where they do not hold.
#[derive(Default)]
pub(super) struct Flow {
    pub proofs: Vec<Proof>,
    pub hints: Vec<Hint>,
}

impl Flow {
    fn proved(&mut self, tensor: Option<Name>, claim: impl Into<String>) {
        let proof = Proof { property: Property::Flow, tensor, claim: claim.into(), of_route: false };
        if !self.proofs.contains(&proof) {
            self.proofs.push(proof);
        }
    }
}

impl Body {
    /// Traces each element that a kernel reads to its writer, in a program that passes the check.
    pub(super) fn flow(&self) -> Flow {
        let mut flow = Flow::default();
        let is_made = |id: &ArrayId| self.arrays[id.0].kind != ArrayKind::Input;
        for row in &self.kernels {
            self.follow(row, &mut flow);
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
    fn follow(&self, nest: &LoweredKernel, flow: &mut Flow) {
        let tensors = nest.kernel.tensors().zip(nest.reads().iter().copied());
        // To add to an array is to read it.
        let added = nest.continues.filter(|continued| continued.adds).map(|added| (nest.kernel.output(), added.array));
        for (tensor, id) in tensors.chain(added) {
            let mut writers = Vec::new();
            self.find_writers(id, &mut Vec::new(), &mut writers);
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
                match (outside.find(|read| self.is_of_start(id, read, start)), &written) {
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
    fn is_of_start(&self, id: ArrayId, read: &Footprint, start: KernelId) -> bool {
        let mut open = vec![(id, read.clone())];
        let mut at = 0;
        while let Some((id, read)) = open.get(at).cloned() {
            at += 1;
            let (own, sources) = self.sources(id);
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
        let (mut seen, mut found) = (Vec::new(), Vec::new());
        self.find_writers(id, &mut seen, &mut found);
        let is_given = seen.iter().any(|id| self.arrays[id.0].kind == ArrayKind::Input);
        let is_whole = |kernel: &KernelId| self.kernels[kernel.0].kernel.written().is_none();
        found.sort_by_key(|kernel| self.version_before(&self.kernels[kernel.0]).is_some());
        (!is_given && !found.iter().any(is_whole)).then_some(found)
    }

    /// Adds the kernels whose outputs an array may hold.
    fn find_writers(&self, id: ArrayId, seen: &mut Vec<ArrayId>, found: &mut Vec<KernelId>) {
        if seen.contains(&id) {
            return;
        }
        seen.push(id);
        let (own, sources) = self.sources(id);
        found.extend(own.filter(|kernel| !found.contains(kernel)));
        for from in sources {
            self.find_writers(from, seen, found);
        }
    }

    /// The kernel that writes an array, if any, and the arrays that it has its other elements from.
    fn sources(&self, id: ArrayId) -> (Option<KernelId>, Vec<ArrayId>) {
        let own = self.kernels.iter().position(|row| row.writes() == id).map(KernelId);
        let before = own.and_then(|kernel| self.version_before(&self.kernels[kernel.0]));
        let moves = self.transfers.iter().filter_map(Transfer::arrays);
        let moved = moves.filter(|[_, target]| *target == id).map(|[source, _]| source);
        let of_rounds =
            self.rounds.iter().flat_map(|rounds| rounds.carried.iter().map(|carried| (carried, rounds.times)));
        let of_rounds = of_rounds.filter(|(carried, _)| carried.value == id);
        let carried =
            of_rounds.flat_map(|(&Carried { first, next, .. }, times)| [Some(first), (times > 0).then_some(next)]);
        (own, moved.chain(before).chain(carried.flatten()).collect())
    }
}

/// The value, as text, of elements that a kernel does not write and that had no value before.
fn held(kernel: &Kernel) -> String {
    let dtype = kernel.dtype();
    match kernel.assign() {
        Assign::Set | Assign::Add => "0".into(),
        Assign::Mul => "1".into(),
        Assign::Max => format!("the least number of {dtype}"),
        Assign::Min => format!("the greatest number of {dtype}"),
    }
}
