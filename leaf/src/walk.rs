//! Loops over strided operands: dropping, merging and walking them.

use smallvec::{SmallVec, smallvec};

/// The loops of a leaf, outermost first; a few need no allocation.
pub(crate) type Loops = SmallVec<[Loop; 6]>;

/// One number per operand of a leaf, and per index if an operand is in two places; those of a stencil of nine points need no allocation.
pub(crate) type PerOperand = SmallVec<[i64; 40]>;

/// A loop of a leaf: its number of iterations and how far one of them moves each operand, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop<S = PerOperand> {
    pub(crate) count: usize,
    pub(crate) strides: S,
}

impl Loop {
    /// The loop of one iteration.
    pub(crate) fn once(operands: usize) -> Self {
        Self { count: 1, strides: smallvec![0; operands] }
    }

    /// The loop, without its strides.
    pub(crate) fn borrowed(&self) -> Loop<&[i64]> {
        Loop { count: self.count, strides: &self.strides }
    }

    /// The loops with these counts, where `strides[o][l]` is the stride of operand `o` along loop `l`.
    pub(crate) fn all(counts: &[usize], strides: &[impl AsRef<[i64]>]) -> Loops {
        let strides_of = |l: usize| strides.iter().map(|strides| strides.as_ref()[l]).collect();
        counts.iter().enumerate().map(|(l, &count)| Self { count, strides: strides_of(l) }).collect()
    }
}

impl<S: AsRef<[i64]>> Loop<S> {
    /// Whether this loop around `inner` visits the points that a longer `inner` would.
    pub(crate) fn continues(&self, inner: &Self) -> bool {
        self.strides
            .as_ref()
            .iter()
            .zip(inner.strides.as_ref())
            .all(|(&outer, &stride)| outer == stride * inner.count as i64)
    }
}

/// Calls `visit` with the operands' offsets at each point of `loops`, in lexicographic order.
///
/// `offsets` are those of the first point, and are restored.
pub(crate) fn walk<S: AsRef<[i64]>>(loops: &[Loop<S>], offsets: &mut [i64], visit: &mut impl FnMut(&[i64])) {
    let Some((outer, inner)) = loops.split_first() else { return visit(offsets) };
    for _ in 0..outer.count {
        walk(inner, offsets, visit);
        for (offset, stride) in offsets.iter_mut().zip(outer.strides.as_ref()) {
            *offset += stride;
        }
    }
    for (offset, stride) in offsets.iter_mut().zip(outer.strides.as_ref()) {
        *offset -= stride * outer.count as i64;
    }
}
