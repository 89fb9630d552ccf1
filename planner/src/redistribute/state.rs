//! States of the search, and the operations between them.

/// One operation of a path, with factors as (dimension, factor).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Cuts a dimension by a factor that replicates so far.
    Slice(usize, usize),
    /// Removes factors from some dimensions and cuts others by them.
    AllToAll { out: Vec<(usize, usize)>, into: Vec<(usize, usize)> },
    /// Sends each tile to another rank.
    Permute,
    /// Joins the pieces of dimensions, one after the other unless operations are fused.
    AllGather(Vec<(usize, usize)>),
}

/// A search state: how many pieces each dimension is cut into.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) dims: Box<[DimState]>,
    pub(super) stage: Stage,
    /// Whether the permutation has been made.
    pub(super) permuted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Slicing,
    Moving,
    Done,
}

/// The state of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DimState {
    pub(super) pieces: usize,
    /// The finest cut whose numbers are still the source's.
    pub(super) kept: usize,
    /// The cut whose numbers are the target's for good.
    pub(super) fixed: usize,
}

impl State {
    pub(super) fn pieces(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.dims.iter().map(|dim| dim.pieces)
    }

    pub(super) fn with(&self, stage: Stage, changes: &[(usize, DimState)]) -> Self {
        let mut next = Self { stage, ..self.clone() };
        for &(dim, dim_state) in changes {
            next.dims[dim] = dim_state;
        }
        next
    }
}
