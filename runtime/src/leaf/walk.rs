//! Loops over strided operands: dropping, merging and walking them.

/// A loop of a leaf: its number of iterations and how far one of them moves each operand, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) count: usize,
    pub(crate) strides: Vec<i64>,
}

impl Loop {
    /// The loop that does not move.
    pub(crate) fn once(operands: usize) -> Self {
        Self { count: 1, strides: vec![0; operands] }
    }

    /// The loops with these counts, where `strides[o][l]` is the stride of operand `o` along loop `l`.
    pub(crate) fn all(counts: &[usize], strides: &[Vec<i64>]) -> Vec<Self> {
        let strides_of = |l: usize| strides.iter().map(|strides| strides[l]).collect();
        counts.iter().enumerate().map(|(l, &count)| Self { count, strides: strides_of(l) }).collect()
    }

    /// Whether this loop around `inner` visits what one longer `inner` would.
    pub(crate) fn continues(&self, inner: &Self) -> bool {
        self.strides.iter().zip(&inner.strides).all(|(&outer, &stride)| outer == stride * inner.count as i64)
    }
}

/// Calls `visit` with the operands' offsets at each point of `loops`, in lexicographic order.
///
/// `offsets` are those of the first point, and are left as they were.
pub(crate) fn walk(loops: &[Loop], offsets: &mut [i64], visit: &mut impl FnMut(&[i64])) {
    let Some((outer, inner)) = loops.split_first() else { return visit(offsets) };
    for _ in 0..outer.count {
        walk(inner, offsets, visit);
        for (offset, stride) in offsets.iter_mut().zip(&outer.strides) {
            *offset += stride;
        }
    }
    for (offset, stride) in offsets.iter_mut().zip(&outer.strides) {
        *offset -= stride * outer.count as i64;
    }
}
