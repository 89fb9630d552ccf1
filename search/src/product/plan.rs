//! The ways to a product, sorted.

use super::ways::Search;
use super::{Free, Product, ProductError, ProductSequence};
use polyshard_planner::placement::PlacedMesh;

/// The sequences of a product worth considering, on one machine: for each way to let axes of the mesh divide loops of the
/// product the best.
#[derive(Clone, Debug)]
pub struct ProductPlan {
    pub(super) product: Product,
    pub(super) free: Option<Free>,
    pub(super) capacity: u64,
    pub(super) sequences: Vec<ProductSequence>,
}

impl ProductPlan {
    /// Returns the product.
    #[must_use]
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// Returns all sequences: those that fit into memory first, of those the one with least time as it runs, then with least time
    /// if communication and arithmetic overlapped, then with least memory. Those that do not fit come by memory.
    #[must_use]
    pub fn sequences(&self) -> &[ProductSequence] {
        &self.sequences
    }

    /// Returns the first sequence, which fits.
    #[must_use]
    pub fn best(&self) -> &ProductSequence {
        &self.sequences[0]
    }

    /// Returns the bytes of memory that a device has.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }
}

impl Product {
    /// Returns the sequences for the factors as they are given, on a machine on which the product's mesh is placed.
    ///
    /// # Errors
    /// If another mesh is placed, the machine does not say how fast it computes, there are too many ways to compare, no sequence ends in the
    /// result, or none fits into memory.
    pub fn plan(&self, placed: &PlacedMesh) -> Result<ProductPlan, ProductError> {
        self.planned(placed, None)
    }

    /// Returns the sequences where the factors in `free` may be sharded in whatever way is best; they must be written
    /// without axes.
    ///
    /// ```
    /// use polyshard::planner::placement::PlacedMesh;
    /// use polyshard::prelude::*;
    /// use polyshard::search::product::{Free, Product};
    /// let mesh = Mesh::new([("X", 4), ("Y", 4), ("Z", 4)]);
    /// let sizes = [("I", 8192), ("J", 8192), ("K", 8192)];
    /// let product = Product::new("A[I, J] * B[J, K] -> C[I_X, K_YZ]", &mesh, &sizes, DType::Bf16)?;
    /// let plan = product.search(&PlacedMesh::on_torus(&mesh, "tpu-v5p")?, Free::Both)?;
    /// let best = plan.best();
    /// assert_eq!([best.left().to_string(), best.right().to_string()], ["A[I_X, J]", "B[J, K_YZ]"]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a factor that is free has axes, and as [`plan`](Self::plan).
    pub fn search(&self, placed: &PlacedMesh, free: Free) -> Result<ProductPlan, ProductError> {
        for (factor, open) in [(&self.left, free != Free::Right), (&self.right, free != Free::Left)] {
            if open && factor.axes().iter().any(|axes| !axes.is_empty()) {
                let whole = format!("{}[{}]", factor.tensor(), factor.names().join(", "));
                return Err(ProductError::Free { array: factor.to_string(), whole });
            }
        }
        self.planned(placed, Some(free))
    }

    /// The plan, the factors in `free` sharded as the multiplication needs them.
    fn planned(&self, placed: &PlacedMesh, free: Option<Free>) -> Result<ProductPlan, ProductError> {
        if *placed.mesh() != self.mesh {
            let (mesh, placed) = (self.mesh.to_string(), placed.mesh().to_string());
            return Err(ProductError::Mesh { mesh, placed });
        }
        let capacity = placed.machine().device().memory_capacity;
        let mut search = Search::new(self, placed, free);
        let sequences = search.sequences()?;
        match sequences.first() {
            None => {
                let few = || "the mesh has more ranks than all loops together have iterations".to_owned();
                let why = search.failed.map_or_else(few, |failed| failed.to_string());
                Err(ProductError::NoSequence { out: self.out.to_string(), why })
            }
            Some(best) if !best.fits => Err(self.no_memory(placed, free, best)?),
            Some(_) => Ok(ProductPlan { product: self.clone(), free, capacity, sequences }),
        }
    }

    /// What the sequence takes that takes least, the first where none fits, and what other factors would.
    fn no_memory(
        &self,
        placed: &PlacedMesh,
        free: Option<Free>,
        least: &ProductSequence,
    ) -> Result<ProductError, ProductError> {
        let capacity = placed.machine().device().memory_capacity;
        let freely = Search::new(self, placed, Some(Free::Both)).sequences()?;
        let other = freely.iter().min_by_key(|sequence| sequence.memory).unwrap_or(least);
        let (left, right, bytes) = (&other.left, &other.right, other.memory);
        let mut advice = if bytes <= capacity {
            format!("with `{left}` and `{right}` it would take {bytes}")
        } else {
            format!("even with `{left}` and `{right}` it would take {bytes}: use more devices or smaller sizes")
        };
        if let Some(disagreement) = self.disagreement().filter(|_| free.is_none()) {
            advice = format!("{disagreement}, so copies are needed; {advice}");
        }
        Ok(ProductError::Memory { capacity, least: least.memory, sequence: least.brief(), advice })
    }
}
