//! What emitted source names; it imports all of it.

pub use crate::engine::{Algorithm, Engine, InPlace, Kernel, LeafPart, TileId, Transfer, coordinates};
pub use crate::layout::{AxisExpr, AxisPart, Division, Mesh, Neighbours, Placement, Reach, Sharding, Stages};
pub use crate::leaf::{
    Access, Assign, BlockDepth, Comparison, Conditional, Factor, Field, Function, LeafLoopId, Name, Named, Number,
    OperandId, Product, ProductId, Products, Role, Running, RunningForm, SlicesOf, TileStatement, Value, contract,
    nest, nest_with_numbers, pointwise,
};
pub use crate::reduction::{Collective, Lowered, LoweredStep, Procedure};
pub use crate::{
    DistArray, Element, Leg, Owners, Redistribution, ReduceOp, Region, Result, Room, Route, Strided, World, count,
};
pub use std::borrow::Cow;

/// Returns the sharding of an array of this shape.
///
/// ```
/// use polyshard::runtime::emitted::{Mesh, Placement, sharding};
/// let rows = sharding(&Mesh::new([("x", 2)]), [7, 5], [Placement::block(0, "x")]);
/// assert_eq!(rows.to_string(), "[0 @ x]");
/// ```
///
/// # Panics
/// If the array cannot be sharded this way; this was checked when source was emitted.
#[must_use]
pub fn sharding<const N: usize, const P: usize>(
    mesh: &Mesh,
    shape: [usize; N],
    placements: [Placement; P],
) -> Sharding {
    Sharding::new(mesh, &shape, &placements).unwrap_or_else(|error| panic!("an edited sharding: {error}"))
}
