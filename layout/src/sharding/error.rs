//! Why a sharding is invalid.

use crate::{AxisExpr, Mesh, Name, did_you_mean, joined};

/// Why a sharding is invalid. In its text, help follows the first semicolon.
///
/// ```
/// use polyshard::layout::ShardingError;
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let twice = Sharding::new(&mesh, &[4, 4], &[Placement::block(0, "x"), Placement::block(1, "x")]);
/// assert!(matches!(twice, Err(ShardingError::AxisTwice { axis }) if axis.as_str() == "x"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ShardingError {
    /// A clause names an axis that the mesh lacks.
    #[error(
        "no axis `{name}`; {}the axes are {}",
        did_you_mean(name.as_str(), axes.iter().map(|axis| axis.as_str())), joined(axes, ", ")
    )]
    UnknownAxis { name: Name, axes: Vec<Name> },
    /// An axis places two dimensions, two levels of one, or a dimension and a pin.
    #[error(
        "axis `{axis}` is used twice, so elements off the diagonal would have no owner; \
         use each axis once, or skew the second, `(x + y) % parts`"
    )]
    AxisTwice { axis: Name },
    /// A dimension has two clauses.
    #[error(
        "dimension {dim} is placed twice; list several axes, major first, or chain levels in one clause, `.at(x).at(y)`"
    )]
    DimTwice { dim: usize },
    /// A dimension is divided more often than there are axes.
    #[error(
        "dimension {dim} is divided into {levels} levels, but each needs an axis of its own, and the mesh has {axes}; \
         leave some out"
    )]
    TooManyLevels { dim: usize, levels: usize, axes: usize },
    /// A clause places a dimension that the array lacks.
    #[error("no dimension {dim}; the array has {ndim}")]
    NoDim { dim: usize, ndim: usize },
    /// A pin is outside its axis.
    #[error("cannot pin to coordinate {coordinate} of axis `{axis}`; its coordinates are 0..{extent}")]
    PinOutside { axis: Name, coordinate: usize, extent: usize },
    /// An axis holds partial sums and has another use too.
    #[error("axis `{axis}` holds partial sums, so it cannot also place a dimension or be pinned; leave either out")]
    PartialTwice { axis: Name },
    /// A block of no indices.
    #[error("dimension {dim} is block-cyclic in blocks of 0; a block has at least one index")]
    EmptyBlock { dim: usize },
    /// An expression that is not a placement.
    #[error("cannot place by `{expr}`: {why}; {help}")]
    Unsupported { expr: AxisExpr, why: &'static str, help: &'static str },
    /// A placement whose blocks do not all have an owner.
    #[error("cannot place by `{expr}`: {why}; {help}")]
    NoOwner { expr: String, why: &'static str, help: &'static str },
}

crate::message_and_help!(ShardingError);

impl ShardingError {
    pub(crate) fn unknown_axis(name: Name, mesh: &Mesh) -> Self {
        Self::UnknownAxis { name, axes: mesh.as_slice().iter().map(|axis| axis.name).collect() }
    }
}
