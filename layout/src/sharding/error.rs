//! Why a sharding is invalid.

use crate::{AxisExpr, Mesh, Name, did_you_mean, joined};

/// Why a sharding is invalid.
///
/// ```
/// use polyshard::layout::ShardingError;
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let twice = Sharding::new(&mesh, &[4, 4], &[Placement::block(0, "x"), Placement::block(1, "x")]);
/// assert!(matches!(twice, Err(ShardingError::AxisTwice { axis }) if axis.as_str() == "x"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ShardingError {
    /// A clause names an axis that the mesh lacks.
    UnknownAxis { name: Name, axes: Vec<Name> },
    /// An axis places two dimensions, two levels of one, or a dimension and a pin.
    AxisTwice { axis: Name },
    /// A dimension has two clauses.
    DimTwice { dim: usize },
    /// A dimension is divided more often than there are axes.
    TooManyLevels { dim: usize, levels: usize, axes: usize },
    /// A clause places a dimension that the array lacks.
    NoDim { dim: usize, ndim: usize },
    /// A pin is outside its axis.
    PinOutside { axis: Name, coordinate: usize, extent: usize },
    /// An axis holds partial sums and has another use too.
    PartialTwice { axis: Name },
    /// A block of no indices.
    EmptyBlock { dim: usize },
    /// An expression that is not a placement.
    Unsupported { expr: AxisExpr, why: &'static str, help: &'static str },
    /// A placement whose blocks do not all have an owner.
    NoOwner { expr: String, why: &'static str, help: &'static str },
}

impl ShardingError {
    fn parts(&self) -> (String, Option<String>) {
        match self {
            Self::UnknownAxis { name, axes } => {
                let meant = did_you_mean(name.as_str(), axes.iter().map(|axis| axis.as_str()));
                (format!("no axis `{name}`"), Some(format!("{meant}the axes are {}", joined(axes, ", "))))
            }
            Self::AxisTwice { axis } => (
                format!("axis `{axis}` is used twice, so elements off the diagonal would have no owner"),
                Some("use each axis once, or skew the second, `(x + y) % parts`".into()),
            ),
            Self::DimTwice { dim } => (
                format!("dimension {dim} is placed twice"),
                Some("list several axes, major first, or chain levels in one clause, `.at(x).at(y)`".into()),
            ),
            Self::TooManyLevels { dim, levels, axes } => (
                format!(
                    "dimension {dim} is divided into {levels} levels, but each needs an axis of its own, and the mesh has {axes}"
                ),
                Some("leave some out".into()),
            ),
            Self::NoDim { dim, ndim } => (format!("no dimension {dim}"), Some(format!("the array has {ndim}"))),
            Self::PinOutside { axis, coordinate, extent } => (
                format!("cannot pin to coordinate {coordinate} of axis `{axis}`"),
                Some(format!("its coordinates are 0..{extent}")),
            ),
            Self::PartialTwice { axis } => (
                format!("axis `{axis}` holds partial sums, so it cannot also place a dimension or be pinned"),
                Some("leave either out".into()),
            ),
            Self::EmptyBlock { dim } => (
                format!("dimension {dim} is block-cyclic in blocks of 0"),
                Some("a block has at least one index".into()),
            ),
            Self::Unsupported { expr, why, help } => (format!("cannot place by `{expr}`: {why}"), Some((*help).into())),
            Self::NoOwner { expr, why, help } => (format!("cannot place by `{expr}`: {why}"), Some((*help).into())),
        }
    }
}

crate::message_and_help!(ShardingError);

impl ShardingError {
    pub(crate) fn unknown_axis(name: Name, mesh: &Mesh) -> Self {
        Self::UnknownAxis { name, axes: mesh.as_slice().iter().map(|axis| axis.name).collect() }
    }
}
