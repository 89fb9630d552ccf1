//! Plans of products as data that other programs read.
//!
//! Units are in the fields' names. Types are texts, as they are printed.

use super::{Operation, ProductPlan, ProductSequence, ProductStep};
use polyshard_layout::Mesh;
use serde::Serialize;

/// A plan, with all of its sequences.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProductReport {
    /// The product as written.
    pub product: String,
    /// The mesh.
    pub mesh: String,
    /// The type of elements.
    pub dtype: String,
    /// The number of the literature's case; none if factors are free.
    pub case: Option<usize>,
    /// The bytes of memory that a device has.
    pub capacity_bytes: u64,
    /// The sequences, best first.
    pub sequences: Vec<SequenceReport>,
}

/// One sequence, with what it costs a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SequenceReport {
    /// How the work is split.
    pub work: String,
    /// The first factor as it lies before all steps.
    pub left: String,
    /// The second factor as it lies before all steps.
    pub right: String,
    /// Bytes that a device gets from others.
    pub bytes: u64,
    /// Seconds in which data move.
    pub communication_seconds: f64,
    /// Seconds in which a device multiplies.
    pub arithmetic_seconds: f64,
    /// Seconds if the two overlap.
    pub overlapped_seconds: f64,
    /// Seconds if they do not.
    pub sequential_seconds: f64,
    /// The most memory that is taken at the same time.
    pub memory_bytes: u64,
    /// Whether that fits.
    pub fits: bool,
    /// The steps.
    pub steps: Vec<ProductStepReport>,
}

/// One step, with what it costs a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProductStepReport {
    /// The operation, as `all_gather(X)` or `multiply`.
    pub operation: String,
    /// The ranks that communicate, in groups.
    pub groups: Vec<Vec<usize>>,
    /// The step with types before and after.
    pub step: String,
    /// Bytes that a device gets from others.
    pub bytes: u64,
    /// Seconds that it takes.
    pub seconds: f64,
}

impl ProductPlan {
    /// Returns the plan as data.
    ///
    /// ```
    /// use polyshard::planner::placement::PlacedMesh;
    /// use polyshard::prelude::*;
    /// use polyshard::search::product::Product;
    /// let mesh = Mesh::new([("X", 4)]);
    /// let sizes = [("I", 512), ("J", 512), ("K", 512)];
    /// let product = Product::new("A[I_X, J] * B[J, K] -> C[I_X, K]", &mesh, &sizes, DType::I8)?;
    /// let report = product.plan(&PlacedMesh::on_torus(&mesh, "tpu-v4p")?)?.report();
    /// assert_eq!(report.sequences[0].steps[0].operation, "multiply");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn report(&self) -> ProductReport {
        ProductReport {
            product: self.product.to_string(),
            mesh: self.product.mesh().to_string(),
            dtype: self.product.dtype().to_string(),
            case: self.free.is_none().then(|| self.product.case().number()),
            capacity_bytes: self.capacity,
            sequences: self.sequences.iter().map(|sequence| sequence.report(self.product.mesh())).collect(),
        }
    }
}

impl ProductSequence {
    fn report(&self, mesh: &Mesh) -> SequenceReport {
        let total = self.total();
        SequenceReport {
            work: self.work.clone(),
            left: self.left.to_string(),
            right: self.right.to_string(),
            bytes: total.bytes,
            communication_seconds: total.communication,
            arithmetic_seconds: total.arithmetic,
            overlapped_seconds: total.overlapped(),
            sequential_seconds: total.sequential(),
            memory_bytes: total.memory,
            fits: self.fits,
            steps: self.steps.iter().map(|step| step.report(mesh)).collect(),
        }
    }
}

impl ProductStep {
    fn report(&self, mesh: &Mesh) -> ProductStepReport {
        let operation = match &self.operation {
            Operation::Move(_, pattern) => pattern.to_string(),
            Operation::Multiply => "multiply".to_owned(),
        };
        let (step, groups) = (self.to_string(), self.groups(mesh));
        ProductStepReport { operation, groups, step, bytes: self.bytes, seconds: self.seconds }
    }
}
