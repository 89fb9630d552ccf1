//! Why a sharding is invalid.

use crate::{AxisExpr, Mesh, Name};

/// Why a sharding is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardingError {
    /// A clause names an axis that the mesh lacks.
    #[error("no axis `{name}`; the axes are {axes}")]
    UnknownAxis {
        /// The axis named.
        name: Name,
        /// The axes that exist.
        axes: String,
    },
    /// An axis places two dimensions, two levels of one, or a dimension and a pin.
    #[error(
        "axis `{axis}` is used twice, so that elements off the diagonal would have no owner; \
         use each axis once, or skew the second, `(x + y) % parts`"
    )]
    AxisTwice {
        /// The axis.
        axis: Name,
    },
    /// A dimension has two clauses.
    #[error(
        "dimension {dim} is placed twice; give several axes as one list, major first, or levels as one clause, `.at(x).at(y)`"
    )]
    DimTwice {
        /// The dimension.
        dim: usize,
    },
    /// A dimension is divided more often than there are axes.
    #[error(
        "dimension {dim} is divided into {levels} levels, but each needs an axis of its own, and the mesh has {axes}; \
         leave some out"
    )]
    TooManyLevels {
        /// The dimension.
        dim: usize,
        /// The levels that its clause has.
        levels: usize,
        /// The axes of the mesh.
        axes: usize,
    },
    /// A clause places a dimension that the array lacks.
    #[error("no dimension {dim}; the array has {ndim}")]
    NoDim {
        /// The dimension.
        dim: usize,
        /// Dimensions of the array.
        ndim: usize,
    },
    /// A pin is outside its axis.
    #[error("cannot pin to coordinate {coordinate} of axis `{axis}`; its coordinates are 0..{extent}")]
    PinOutside {
        /// The axis.
        axis: Name,
        /// The coordinate asked for.
        coordinate: usize,
        /// The axis' extent.
        extent: usize,
    },
    /// An axis holds partial sums, and something else as well.
    #[error(
        "axis `{axis}` holds partial sums, so it cannot place a dimension, pin, or hold them twice; leave either out"
    )]
    PartialTwice {
        /// The axis.
        axis: Name,
    },
    /// A block of no indices.
    #[error("dimension {dim} is block-cyclic in blocks of 0; a block has at least one index")]
    EmptyBlock {
        /// The dimension.
        dim: usize,
    },
    /// An expression that is not a placement.
    #[error("cannot place by `{expr}`: {why}")]
    Unsupported {
        /// The expression.
        expr: AxisExpr,
        /// What is wrong and what to write.
        why: &'static str,
    },
    /// A placement whose blocks do not all have an owner.
    #[error("cannot place by `{expr}`: {why}")]
    NoOwner {
        /// The expression.
        expr: String,
        /// What is wrong and what to write.
        why: &'static str,
    },
}

impl ShardingError {
    pub(crate) fn unknown_axis(name: Name, mesh: &Mesh) -> Self {
        let axes: Vec<_> = mesh.as_slice().iter().map(|axis| axis.name.as_str()).collect();
        Self::UnknownAxis { name, axes: axes.join(", ") }
    }
}
