//! One array from one sharding to another, partial sums among them.
//!
//! What a product does to its factors and its result, for an array by itself: between two products, say. Judged by
//! seconds alone; [`Plan`](crate::Plan) judges by elements and memory, moves factors of axes too, and knows no sums.

use super::array::{Array, Layout};
use super::graph::Graph;
use super::search::axes;
use super::{Operand, ProductError, ProductStep, Roofline, Sharded, StepCost, cost};
use crate::TypeError;
use polyshard_layout::DType;

/// Returns the cheapest steps from one type of an array to another, with what each costs; memory is that of the
/// tiles before and after.
///
/// ```
/// use polyshard_layout::{DType, Mesh};
/// use polyshard_planner::product::{Roofline, Sharded, reshard};
/// let mesh = Mesh::new([("X", 4), ("Y", 4)]);
/// let sizes = [("I", 512), ("J", 512)];
/// let [from, to] = ["A[I_Y, J] {U_X}", "A[I_Y, J_X]"].map(|text| Sharded::parse(text, &mesh, &sizes));
/// let steps = reshard(&from?, &to?, DType::Bf16, &Roofline::preset("tpu-v4p", &mesh, DType::Bf16)?)?;
/// assert_eq!(steps.len(), 1);
/// assert_eq!(steps[0].0.to_string(), "ReduceScatter_X A[I_Y, J] {U_X} -> A[I_Y, J_X]");
/// assert_eq!(steps[0].1.bytes, 512 * 512 * 2 / 4 * 3 / 4); // three fourths of a tile
/// # Ok::<(), polyshard_planner::product::ProductError>(())
/// ```
///
/// # Errors
/// If the two are not one array on one mesh, sums would have to be opened, or the machine is invalid or lacks links.
pub fn reshard(
    from: &Sharded,
    to: &Sharded,
    dtype: DType,
    roofline: &Roofline,
) -> Result<Vec<(ProductStep, StepCost)>, ProductError> {
    let array = Array::of(from);
    if array != Array::of(to) {
        return Err(ProductError::Arrays { from: from.to_string(), to: to.to_string() });
    }
    if to.unreduced().iter().any(|axis| !from.unreduced().contains(axis)) {
        let why = format!("is no type to bring `{from}` to: sums that are complete stay so; drop the open ones");
        return Err(TypeError::Unreduced { array: to.to_string(), why }.into());
    }
    let mesh = from.mesh();
    roofline.check(mesh)?;
    let axes = axes(mesh, array.names.len())?;
    let graph = Graph::new(array, &axes, true, roofline, dtype);
    let priced = |step: ProductStep| {
        let (before, after) = (step.before().map_or(0, |before| before.bytes(dtype)), step.result().bytes(dtype));
        let communication = cost::communication(roofline, &step, dtype);
        let bytes = cost::received(&step, dtype);
        (step, StepCost { bytes, communication, arithmetic: 0.0, memory: before + after })
    };
    Ok(cheapest(&graph, from, to).into_iter().map(priced).collect())
}

fn cheapest(graph: &Graph, from: &Sharded, to: &Sharded) -> Vec<ProductStep> {
    let steps = graph.cheapest(Operand::Out, [&Layout::of(from), &Layout::of(to)], usize::MAX);
    steps.expect("types can be gathered and sliced: this is a bug of polyshard")
}
