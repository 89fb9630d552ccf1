//! The steps of a product: what each does, with types before and after.
//!
//! Steps are data. A runtime that follows them needs no more than this page: the groups of a step over axes are the
//! ranks that differ along those axes alone ([`ProductStep::members`]), and what each rank holds before and after is said by
//! the types ([`Sharded`]): one member gives another where the tile of the first before and that of the second after
//! meet, all such pieces of a step are of one shape, and no other rank is needed. Nothing here says what a step costs.

use super::Sharded;
use crate::named::subscript;
use polyshard_layout::Collective;
use std::fmt;

/// Which array of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The first factor.
    Left,
    /// The second factor.
    Right,
    /// The result.
    Out,
}

/// One step of a [`Sequence`](super::Sequence).
#[derive(Clone, Debug, PartialEq)]
pub enum ProductStep {
    /// One array is resharded.
    Move {
        /// Which of the three it is.
        operand: Operand,
        /// What happens. A slice adds axes below those that cut a dimension, a gather takes the lowest away, an
        /// all-to-all brings the lowest of one dimension below those of another. A reduce-scatter makes unreduced axes
        /// cut dimensions; after an all-reduce they replicate.
        ///
        /// ```text
        /// Slice            A[I, J]          -> A[I_X, J]
        /// AllGather        A[I_X, J]        -> A[I, J]
        /// AllToAll         A[I_X, J]        -> A[I, J_X]
        /// ReduceScatter    C[I, K] {U_X}    -> C[I_X, K]
        /// AllReduce        C[I, K] {U_X}    -> C[I, K]
        /// ```
        op: Collective,
        /// The positions in the mesh of the axes along which groups lie, ascending.
        axes: Vec<usize>,
        /// The array before.
        from: Sharded,
        /// The array after.
        to: Sharded,
    },
    /// Every rank multiplies its tiles, alone. Where a contracted dimension is cut, its product is one term.
    ///
    /// ```text
    /// before   rank 0: a0, b0     rank 1: a1, b1     A[I, J_X], B[J_X, K]
    /// after    rank 0: a0 * b0    rank 1: a1 * b1    C[I, K] {U_X}
    /// ```
    Multiply {
        /// The first factor.
        left: Sharded,
        /// The second factor.
        right: Sharded,
        /// The result.
        out: Sharded,
    },
}

impl ProductStep {
    /// Returns what ranks hold of the array before it is resharded; none for a multiplication.
    #[must_use]
    pub fn before(&self) -> Option<&Sharded> {
        match self {
            Self::Move { from, .. } => Some(from),
            Self::Multiply { .. } => None,
        }
    }

    /// Returns what ranks hold after the step: the resharded array, or the product.
    #[must_use]
    pub fn result(&self) -> &Sharded {
        match self {
            Self::Move { to, .. } => to,
            Self::Multiply { out, .. } => out,
        }
    }

    /// Returns the ranks of the group of `rank`, ascending: alone for a multiplication and a slice.
    ///
    /// # Panics
    /// If the mesh has no such rank.
    #[must_use]
    pub fn members(&self, rank: usize) -> Vec<usize> {
        let mesh = self.result().mesh();
        let Self::Move {
            op: Collective::AllGather | Collective::AllToAll | Collective::ReduceScatter | Collective::AllReduce,
            axes,
            ..
        } = self
        else {
            return vec![rank];
        };
        mesh.members(&mesh.coordinates(rank), axes).map(|member| mesh.rank(&member)).collect()
    }

    /// Returns the step without types, as one writes it in passing: `AllGather_X A`.
    pub(super) fn brief(&self) -> String {
        match self {
            Self::Move { op, axes, from, .. } => {
                format!("{op}_{} {}", subscript(from.mesh(), axes), from.tensor())
            }
            Self::Multiply { left, right, .. } => format!("{} * {}", left.tensor(), right.tensor()),
        }
    }
}

impl fmt::Display for ProductStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Move { op, axes, from, to, .. } => {
                write!(f, "{op}_{} {from} -> {to}", subscript(from.mesh(), axes))
            }
            Self::Multiply { left, right, out } => write!(f, "{left} * {right} -> {out}"),
        }
    }
}
