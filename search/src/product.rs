//! Products of arrays that lie somewhere already: what to gather, to split and to sum so that they are multiplied fastest.
//!
//! After J. Austin et al., "How to Scale Your Model", part 3, Google DeepMind, 2025, whose four cases and notation these
//! are. The literature gives each case a rule; here all ways are compared. Each axis of the mesh divides one loop of
//! the product or none, and with that it is settled how the factors must lie when they are multiplied, and how
//! the product then lies. Each array is moved there first, or fetched while the product runs: whatever is faster.
//!
//! ```text
//! loops I J K, axis X          A[I_X, J] * B[J_X, K] -> C[I_X, K]
//! X divides I                  all_gather(X) B, multiply
//! X divides J                  all_to_all(X) A, multiply, reduce_scatter(X) C
//! X divides K                  all_gather(X) A, all_to_all(X) B, multiply, all_to_all(X) C
//! X divides none               all_gather(X) A, all_gather(X) B, multiply
//! ```
//!
//! | file | holds |
//! | --- | --- |
//! | `text`, `error` | a product as written, and what is wrong with it |
//! | `case` | the literature's four cases |
//! | `sequence` | one way to a product: its steps, what they cost, and its program |
//! | `ways` | all ways to a product, as schedules between redistributions, and their prices |
//! | `plan` | the ways, sorted |
//! | `explain`, `report` | a plan as text, and as data |

mod case;
mod error;
mod explain;
mod plan;
mod report;
mod sequence;
mod text;
mod ways;

pub use case::Case;
pub use error::ProductError;
pub use plan::ProductPlan;
pub use report::{ProductReport, ProductStepReport, SequenceReport};
pub use sequence::{Operand, Operation, ProductSequence, ProductStep, Total};

use polyshard_layout::{DType, Mesh, Name};
use polyshard_planner::Sharded;
use polyshard_program::{Access, Affine, Assign, Kernel, KernelSpec, Value};
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

/// A product of two arrays over a mesh: how the factors lie, and how the result is to lie. Sizes need not divide.
///
/// A dimension of both factors is contracted if the result lacks it, and a batch dimension if not; every other
/// dimension is in one factor and in the result. Matrices have one of each kind, `I`, `J` and `K`; there may be more.
///
/// ```
/// use polyshard::planner::placement::PlacedMesh;
/// use polyshard::prelude::*;
/// use polyshard::search::product::{Case, Product};
/// let mesh = Mesh::new([("X", 4), ("Y", 4)]);
/// let sizes = [("I", 8192), ("J", 8192), ("K", 8192)];
/// let product = Product::new("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]", &mesh, &sizes, DType::Bf16)?;
/// assert_eq!(product.case(), Case::BothContracted);
/// let plan = product.plan(&PlacedMesh::on_torus(&mesh, "tpu-v5e")?)?;
/// let steps: Vec<_> = plan.best().steps().iter().map(|step| step.to_string()).collect();
/// assert_eq!(steps, [
///     "A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K] {U_Y}",
///     "all_reduce(Y) C[I_X, K] {U_Y} -> C[I_X, K]",
/// ]);
/// # Ok::<(), polyshard::Error>(())
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
    /// Where the text is not of this form, an axis or a size that is not there, an axis that cuts two
    /// dimensions, a dimension that makes no product, or an array that is too large.
    pub fn new(text: &str, mesh: &Mesh, sizes: &[(&str, usize)], dtype: DType) -> Result<Self, ProductError> {
        let [left, right, out] = text::arrays(text, mesh, sizes)?;
        let loops = text::loops(&left, &right, &out)?;
        Ok(Self { mesh: mesh.clone(), dtype, left, right, out, loops })
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

    fn arrays(&self) -> [&Sharded; 3] {
        [&self.left, &self.right, &self.out]
    }

    /// The product as a kernel, `C[i, k] = A[i, j] * B[j, k]`, with an index for each dimension in their order.
    fn kernel(&self) -> Kernel {
        let tensors = self.tensors();
        let indices = self.indices(&tensors);
        let access = |nth: usize| {
            let index = |name: &String| self.loops.iter().position(|other| other == name).unwrap_or(0);
            let index = self.arrays()[nth].names().iter().map(|name| Affine::new([(indices[index(name)], 1)], 0));
            Access::new(tensors[nth], index.collect())
        };
        let tensor = |nth: usize| {
            (tensors[nth], self.arrays()[nth].shape().iter().map(|&extent| extent as i128).collect::<Vec<_>>())
        };
        let spec = KernelSpec {
            name: Name::new("multiply"),
            dtype: self.dtype,
            inputs: vec![tensor(0), tensor(1)],
            output: tensor(2),
            ranges: Vec::new(),
            scalars: Vec::new(),
            moduli: Vec::new(),
            target: access(2),
            assign: Assign::Set,
            value: Value::Mul(Box::new(Value::Access(access(0))), Box::new(Value::Access(access(1)))),
        };
        spec.check().unwrap_or_else(|error| panic!("a product is no kernel: {error}; this is a bug in polyshard"))
    }

    /// The arrays' names, all different.
    fn tensors(&self) -> [Name; 3] {
        let mut names: Vec<String> = Vec::new();
        for array in self.arrays() {
            let mut name = array.tensor().to_owned();
            while names.contains(&name) {
                name += "_2";
            }
            names.push(name);
        }
        [0, 1, 2].map(|nth| Name::new(&names[nth]))
    }

    /// The loops' names in lower case, or numbers if that makes two alike, or one a tensor's or an axis'.
    fn indices(&self, tensors: &[Name; 3]) -> Vec<Name> {
        let lower: Vec<Name> = self.loops.iter().map(|name| Name::new(&name.to_lowercase())).collect();
        let is_taken = |name: Name| tensors.contains(&name) || self.mesh.position(name).is_some();
        let clear = (0..lower.len()).all(|at| !lower[..at].contains(&lower[at]) && !is_taken(lower[at]));
        if clear { lower } else { (0..self.loops.len()).map(|nth| Name::new(&format!("i{nth}_"))).collect() }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} * {} -> {}", self.left, self.right, self.out)
    }
}
