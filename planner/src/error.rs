//! Errors of distributed types and of redistribution plans.
#![expect(missing_docs, reason = "the messages explain the fields")]

use polyshard_layout::{Name, counted};
use std::fmt;

/// Why a distributed type is invalid.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeError {
    /// The text is not a type; `column` counts from 1.
    #[error("cannot read `{text}` at column {column}: {why}")]
    Syntax { text: String, column: usize, why: String },
    /// A dimension names an axis that the mesh lacks.
    #[error("dimension {dim}: no axis `{name}`; the mesh is ({mesh})")]
    UnknownAxis { dim: usize, name: String, mesh: String },
    /// A dimension gives an axis an extent that is not the mesh's.
    #[error("dimension {dim}: axis `{axis}` has extent {extent} in the mesh, not {given}")]
    AxisExtent { dim: usize, axis: Name, extent: usize, given: usize },
    /// A dimension uses an axis by a position that the mesh lacks.
    #[error("dimension {dim}: no axis {axis}; the mesh has {}, numbered from 0", counted(*axes, "axis"))]
    NoAxis { dim: usize, axis: usize, axes: usize },
    /// A part of an axis is not a digit of its coordinate.
    #[error("dimension {dim}: `{part}` does not fit axis `{axis}`: divisor and extent of a part must divide {extent}")]
    Part { dim: usize, part: String, axis: Name, extent: usize },
    /// An axis partitions two dimensions, or one twice.
    #[error(
        "axis `{axis}` partitions {}; an axis partitions one dimension, once",
        if first == second { format!("dimension {first} twice") } else { format!("dimensions {first} and {second}") }
    )]
    AxisTwice { axis: Name, first: usize, second: usize },
    /// The tile size times the number of pieces, the product of the axes' extents, is not the dimension's size.
    #[error(
        "dimension {dim}: tiles of {tile} in {pieces} pieces make {}, not {size}{}",
        tile.saturating_mul(*pieces),
        if size.is_multiple_of(*pieces) { format!("; write tiles of {}", size / pieces) } else { String::new() }
    )]
    Arithmetic { dim: usize, tile: usize, pieces: usize, size: usize },
    /// The number of pieces does not divide the size.
    #[error(
        "dimension {dim}: plans need equal tiles, but {size} indices do not divide into {pieces}; pad to \
         {}, or choose other axes", size.div_ceil(*pieces).saturating_mul(*pieces)
    )]
    Indivisible { dim: usize, pieces: usize, size: usize },
    /// A named dimension has no size.
    #[error("dimension `{name}` has no size; give one, as `{name}=64`")]
    Size { name: String, array: String },
    /// A list of unreduced axes is invalid.
    #[error("`{array}` {why}")]
    Unreduced { array: String, why: String },
    /// A sharding is not in equal blocks numbered by whole axes.
    #[error("dimension {dim} of {sharding} cannot be written as a distributed type: {why}")]
    NotBlocks { dim: usize, sharding: String, why: &'static str },
    /// The blocks of two shardings end at different indices.
    #[error("dimension {dim}: the blocks of the two shardings end at different indices")]
    Ends { dim: usize },
    /// The number of elements does not fit in 63 bits.
    #[error("the array has 2^63 elements or more")]
    TooLarge,
}

impl fmt::Debug for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a redistribution cannot be planned.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The shapes differ.
    #[error(
        "the source {source_type} has shape {source_shape:?}, but the target {target_type} has {target_shape:?}; a \
         redistribution keeps the shape"
    )]
    Shapes { source_type: String, source_shape: Vec<usize>, target_type: String, target_shape: Vec<usize> },
    /// The meshes differ.
    #[error("the source is on the mesh ({source_mesh}), but the target is on ({target_mesh}); put both on one mesh")]
    Meshes { source_mesh: String, target_mesh: String },
    /// The source and target tiles alone do not fit.
    #[error(
        "no plan fits into {bytes} bytes per device: the source tile takes {source_bytes} and the target tile \
         {target_bytes}; allow at least {}", source_bytes.max(target_bytes)
    )]
    Memory { bytes: usize, source_bytes: usize, target_bytes: usize },
    /// A sharding cannot be written as a type.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// Another mesh is placed on the machine.
    #[error("the plan is for the mesh ({mesh}), but the placement is of ({placed}); place the plan's mesh")]
    Placed { mesh: String, placed: String },
}

impl fmt::Debug for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
