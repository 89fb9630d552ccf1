//! Products of sharded matrices: which sequence of collectives and local products costs least.
//!
//! After J. Austin et al., "How to Scale Your Model", part 3, Google DeepMind, 2025, whose four cases and costs these
//! are. The literature gives each case a rule; here all ways are compared. Each axis of the mesh cuts one loop of
//! the product or none, and with that it is settled how the factors must lie when they are multiplied, and how
//! the product then lies. What remains is the cheapest way from the factors as given, and to the result as wanted.
//!
//! ```text
//! loops I J K, axis X          A[I_X, J] * B[J_X, K] -> C[I_X, K]
//! X cuts I                     AllGather_X B, multiply
//! X cuts J                     AllToAll_X A, multiply, ReduceScatter_X C
//! X cuts K                     AllGather_X A, AllToAll_X B, multiply, AllToAll_X C
//! X cuts none                  AllGather_X A, AllGather_X B, multiply, Slice_X C
//! ```
//!
//! | file | holds |
//! | --- | --- |
//! | `text`, `error` | a product as written, and what is wrong with it |
//! | `array`, `step` | what ranks hold, and what changes it |
//! | `case` | the literature's four cases |
//! | `roofline`, `placed`, `cost` | the machine, a mesh placed on one of several levels, and what steps cost on it |
//! | `moves`, `graph` | the cheapest way of one array between layouts |
//! | `reshard` | that way for an array by itself |
//! | `search`, `plan` | all sequences, judged and sorted |
//! | `explain`, `report` | a plan as text, and as data |
//! | `lower` | a sequence as a program |
//!
//! Nothing here moves data, overlaps a collective with its own product, or multiplies in several rounds.

mod array;
mod case;
mod cost;
mod error;
mod explain;
mod graph;
mod lower;
mod moves;
mod placed;
mod plan;
mod report;
mod reshard;
mod roofline;
mod search;
mod step;
mod text;

pub use crate::Sharded;
pub use case::Case;
pub use cost::StepCost;
pub use error::ProductError;
pub use lower::resharding;
pub use plan::{ProductPlan, Sequence};
pub use polyshard_layout::Collective;
pub use report::{ProductReport, ProductStepReport, SequenceReport};
pub use reshard::reshard;
pub use roofline::{Link, Roofline, Wiring};
pub use step::{Operand, ProductStep};

use polyshard_layout::{DType, Mesh};
use std::fmt;

/// Which factors a search may shard as it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Free {
    /// The first factor.
    Left,
    /// The second factor.
    Right,
    /// Both.
    Both,
}

/// A product of two arrays over a mesh: how the factors lie, and how the result is to lie.
///
/// A dimension of both factors is contracted if the result lacks it, and a batch dimension if not; every other
/// dimension is in one factor and in the result. Matrices have one of each kind, `I`, `J` and `K`; there may be more.
///
/// ```
/// use polyshard_layout::{DType, Mesh};
/// use polyshard_planner::product::{Case, Product, Roofline};
/// let mesh = Mesh::new([("X", 4), ("Y", 4)]);
/// let sizes = [("I", 8192), ("J", 8192), ("K", 8192)];
/// let product = Product::new("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]", &mesh, &sizes, DType::Bf16)?;
/// assert_eq!(product.case(), Case::BothContracted);
/// let plan = product.plan(&Roofline::preset("tpu-v5e", &mesh, DType::Bf16)?)?;
/// let steps: Vec<_> = plan.best().steps().iter().map(|step| step.to_string()).collect();
/// assert_eq!(steps, [
///     "A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K] {U_Y}",
///     "AllReduce_Y C[I_X, K] {U_Y} -> C[I_X, K]",
/// ]);
/// # Ok::<(), polyshard_planner::product::ProductError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    mesh: Mesh,
    dtype: DType,
    left: Sharded,
    right: Sharded,
    out: Sharded,
    /// The dimensions' names: those of the first factor, then those of the second alone.
    loops: Vec<String>,
}

impl Product {
    /// Reads a product such as `A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K] {U_Y}`, where the result may stay unreduced along
    /// axes; `sizes` gives each dimension its number of indices.
    ///
    /// # Errors
    /// Where the text is not of this form, an axis or a size that is not there or not divisible, an axis that cuts two
    /// dimensions, a dimension that makes no product, or an array that is too large.
    pub fn new(text: &str, mesh: &Mesh, sizes: &[(&str, usize)], dtype: DType) -> Result<Self, ProductError> {
        let [left, right, out] = text::arrays(text, mesh, sizes)?;
        let loops = text::loops(&left, &right, &out)?;
        Ok(Self { mesh: mesh.clone(), dtype, left, right, out, loops })
    }

    /// Reads a product as [`new`](Self::new) does, with every size that ranks may not divide rounded up to one that they
    /// do: the next multiple of their number.
    ///
    /// Plans of it cover arrays of these sizes; what runs them cuts tiles off where an array ends.
    ///
    /// ```
    /// use polyshard_layout::{DType, Mesh};
    /// use polyshard_planner::product::{Product};
    /// let mesh = Mesh::new([("X", 2), ("Y", 2)]);
    /// let sizes = [("I", 37), ("J", 8), ("K", 1)];
    /// let product = Product::covering("A[I_X, J] * B[J, K] -> C[I_X, K]", &mesh, &sizes, DType::F64)?;
    /// assert_eq!(["I", "J", "K"].map(|name| product.size(name)), [40, 8, 4]);
    /// # Ok::<(), polyshard_planner::product::ProductError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new), but for sizes that are not divisible.
    pub fn covering(text: &str, mesh: &Mesh, sizes: &[(&str, usize)], dtype: DType) -> Result<Self, ProductError> {
        // A size that has no such multiple is refused as too large, as any of its magnitude.
        let covered =
            |size: usize| size.checked_next_multiple_of(mesh.size()).unwrap_or(usize::MAX / mesh.size() * mesh.size());
        let sizes: Vec<_> = sizes.iter().map(|&(name, size)| (name, covered(size))).collect();
        Self::new(text, mesh, &sizes, dtype)
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the type of all elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the first factor as it is given.
    #[must_use]
    pub fn left(&self) -> &Sharded {
        &self.left
    }

    /// Returns the second factor as it is given.
    #[must_use]
    pub fn right(&self) -> &Sharded {
        &self.right
    }

    /// Returns the result as it is wanted.
    #[must_use]
    pub fn out(&self) -> &Sharded {
        &self.out
    }

    /// Returns the operations of the whole product, over all devices if none repeats another's.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.loops.iter().map(|name| self.size(name) as f64).product::<f64>()
    }

    /// Returns the number of indices of a dimension by its name.
    ///
    /// # Panics
    /// If the product has no such dimension.
    #[must_use]
    pub fn size(&self, name: &str) -> usize {
        let of = |array: &Sharded| {
            let at = array.names().iter().position(|other| other == name)?;
            Some(array.shape()[at])
        };
        let size = of(&self.left).or_else(|| of(&self.right));
        size.unwrap_or_else(|| panic!("no dimension `{name}`; the dimensions are {}", self.loops.join(", ")))
    }

    /// Returns whether a dimension is summed over.
    fn contracts(&self, name: &String) -> bool {
        !self.out.names().contains(name)
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} * {} -> {}", self.left, self.right, self.out)
    }
}
