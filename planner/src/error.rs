//! What can be wrong with a type or a problem that a user gives.

use polyshard_layout::Name;
use std::fmt;

/// Why a distributed type is invalid.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TypeError {
    /// The text is not in the form of a type.
    #[error("cannot read `{text}` at column {column}: {why}")]
    Syntax {
        /// The text given.
        text: String,
        /// Where it is wrong, counted from 1.
        column: usize,
        /// What is wrong and what to write.
        why: String,
    },
    /// A dimension names an axis that the mesh lacks.
    #[error("dimension {dim}: no axis `{name}`; the mesh is ({mesh})")]
    UnknownAxis {
        /// The dimension.
        dim: usize,
        /// The axis named.
        name: String,
        /// The axes that exist.
        mesh: String,
    },
    /// A dimension gives an axis an extent that is not the mesh's.
    #[error("dimension {dim}: axis `{axis}` has extent {extent} in the mesh, not {given}")]
    AxisExtent {
        /// The dimension.
        dim: usize,
        /// The axis.
        axis: Name,
        /// Its extent in the mesh.
        extent: usize,
        /// The extent given.
        given: usize,
    },
    /// A dimension uses an axis by a position that the mesh lacks.
    #[error("dimension {dim}: no axis {axis}; the mesh has axes 0..{axes}")]
    NoAxis {
        /// The dimension.
        dim: usize,
        /// The position.
        axis: usize,
        /// The number of axes.
        axes: usize,
    },
    /// A part of an axis that is no digit of its coordinate.
    #[error("dimension {dim}: `{part}` does not fit axis `{axis}`: divisor and extent of a part must divide {extent}")]
    Part {
        /// The dimension.
        dim: usize,
        /// The part as written.
        part: String,
        /// The axis.
        axis: Name,
        /// The axis' extent.
        extent: usize,
    },
    /// An axis numbers tiles twice.
    #[error(
        "axis `{axis}` partitions {}; an axis partitions one dimension, once",
        if first == second { format!("dimension {first} twice") } else { format!("dimensions {first} and {second}") }
    )]
    AxisTwice {
        /// The axis.
        axis: Name,
        /// The dimension that has it first.
        first: usize,
        /// The dimension that has it again.
        second: usize,
    },
    /// Tile times pieces is not the size.
    #[error(
        "dimension {dim}: tiles of {tile} in {pieces} pieces make {}, not {size}{}",
        tile.saturating_mul(*pieces),
        if size.is_multiple_of(*pieces) { format!("; write tiles of {}", size / pieces) } else { String::new() }
    )]
    Arithmetic {
        /// The dimension.
        dim: usize,
        /// Indices in a tile.
        tile: usize,
        /// The product of the axes' extents.
        pieces: usize,
        /// Indices in all.
        size: usize,
    },
    /// The axes make more pieces than a size divides into.
    #[error(
        "dimension {dim}: a plan is made for equal tiles, and {size} indices cannot be cut into {pieces} of them; pad to \
         {}, or choose other axes", size.div_ceil(*pieces).saturating_mul(*pieces)
    )]
    Indivisible {
        /// The dimension.
        dim: usize,
        /// The product of the axes' extents.
        pieces: usize,
        /// Indices in all.
        size: usize,
    },
    /// A named dimension has no size.
    #[error("dimension `{name}` has no size; give one, as `{name}=64`")]
    Size {
        /// The dimension's name.
        name: String,
        /// The array as written.
        array: String,
    },
    /// Sums that are left open where that has no meaning.
    #[error("`{array}` {why}")]
    Unreduced {
        /// The array as written.
        array: String,
        /// What is wrong, and what to write.
        why: String,
    },
    /// A sharding that is not in equal blocks numbered by whole axes.
    #[error("dimension {dim} of {sharding} cannot be written as a distributed type: {why}")]
    NotBlocks {
        /// The dimension.
        dim: usize,
        /// The sharding.
        sharding: String,
        /// What keeps it from being one.
        why: &'static str,
    },
    /// Two shardings whose tiles are not those of one larger array.
    #[error("dimension {dim}: the blocks of both do not end together")]
    Ends {
        /// The dimension.
        dim: usize,
    },
    /// More elements than can be counted.
    #[error("the array has 2^63 elements or more")]
    TooLarge,
}

impl fmt::Debug for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The arrays are not the same.
    #[error(
        "the source {source_type} has shape {source_shape:?}, but the target {target_type} has {target_shape:?}; a \
         redistribution keeps the array as it is"
    )]
    Shapes {
        /// The source type.
        source_type: String,
        /// The source's shape.
        source_shape: Vec<usize>,
        /// The target type.
        target_type: String,
        /// The target's shape.
        target_shape: Vec<usize>,
    },
    /// The meshes are not the same.
    #[error("the source is on the mesh ({source_mesh}), but the target on ({target_mesh}); give both the same mesh")]
    Meshes {
        /// The source's mesh.
        source_mesh: String,
        /// The target's mesh.
        target_mesh: String,
    },
    /// Not even the tiles fit.
    #[error(
        "no plan fits into {bytes} bytes per device: the source tile takes {source_bytes} and the target tile \
         {target_bytes}; allow at least {}", source_bytes.max(target_bytes)
    )]
    Memory {
        /// What was allowed.
        bytes: usize,
        /// What the source tile takes.
        source_bytes: usize,
        /// What the target tile takes.
        target_bytes: usize,
    },
    /// A sharding of which there is no type.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// A cost model with numbers that cannot be.
    #[error("{0}")]
    Model(String),
}

impl fmt::Debug for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
