//! The layouts of a sweep: every dimension of an array whole in turn, on a mesh of fewer axes than dimensions.
//!
//! T. Birkeland and T. Sorevik, "Parallel Redistribution of Multidimensional Data", ParCo 2007, section 3.2.

use crate::{AxisExpr, Mesh, MeshAxis, Name, Placement, Sharding};

/// One layout of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepStage {
    sharding: Sharding,
    local: Vec<usize>,
    new: Vec<usize>,
}

impl SweepStage {
    /// Returns the layouts of a sweep of dimensions `0..swept` of arrays of `shape` over `mesh`, one more than it has axes. From each to the
    /// next one, an axis distributes another dimension: the last axis first.
    ///
    /// ```text
    /// 3 dimensions on pencils (x, y)          on slabs (x)
    ///
    /// stage 0   [0 @ x, 1 @ y]   2 is new     [0 @ x]   1 and 2 are new
    ///   | along y                               | along x
    /// stage 1   [0 @ x, 2 @ y]   1 is new     [1 @ x]   0 is new
    ///   | along x
    /// stage 2   [1 @ x, 2 @ y]   0 is new
    /// ```
    ///
    /// ```
    /// use polyshard::layout::SweepStage;
    /// use polyshard::prelude::*;
    /// let stages = SweepStage::all(&Mesh::new([("x", 2), ("y", 2)]), &[3, 4, 5], 3);
    /// let shown: Vec<_> = stages.iter().map(|stage| stage.sharding().to_string()).collect();
    /// assert_eq!(shown, ["[0 @ x, 1 @ y]", "[0 @ x, 2 @ y]", "[1 @ x, 2 @ y]"]);
    /// ```
    ///
    /// # Panics
    /// If the mesh has as many axes as dimensions are swept or more, or the array has not that many dimensions.
    #[must_use]
    pub fn all(mesh: &Mesh, shape: &[usize], swept: usize) -> Vec<Self> {
        let axes = mesh.as_slice();
        assert!(axes.len() < swept && swept <= shape.len(), "a sweep of {swept} dimensions of {shape:?} over ({mesh})");
        // The dimension that each axis distributes.
        let mut dims: Vec<usize> = (0..axes.len()).collect();
        let first = Self::new(mesh, shape, swept, &dims, &[]);
        let mut done = first.new.clone();
        let mut stages = vec![first];
        // Axis `j` still has dimension `j` when its turn comes; the last goes first, as it has the inmost.
        for axis in (0..axes.len()).rev() {
            let free = done.iter().copied().filter(|dim| !dims.contains(dim));
            dims[axis] = roomiest(free, shape, axes[axis]);
            let next = Self::new(mesh, shape, swept, &dims, &done);
            done.extend(&next.new);
            done.sort_unstable();
            stages.push(next);
        }
        stages
    }

    /// The layout in which axis `j` distributes dimension `dims[j]`.
    fn new(mesh: &Mesh, shape: &[usize], swept: usize, dims: &[usize], done: &[usize]) -> Self {
        let names = mesh.as_slice().iter().map(|axis| axis.name);
        let at = |(&dim, axis): (&usize, Name)| Placement::block(dim, AxisExpr::List(vec![axis]));
        let placements: Vec<_> = dims.iter().zip(names).map(at).collect();
        let sharding = Sharding::new(mesh, shape, &placements)
            .unwrap_or_else(|error| panic!("a stage of a sweep has no sharding: {error}; this is a bug in polyshard"));
        let local: Vec<usize> = (0..swept).filter(|dim| !dims.contains(dim)).collect();
        let new = local.iter().copied().filter(|dim| !done.contains(dim)).collect();
        Self { sharding, local, new }
    }

    /// Returns how arrays lie in this stage.
    #[must_use]
    pub fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    /// Returns the swept dimensions that are whole on every rank, ascending.
    #[must_use]
    pub fn local_dims(&self) -> &[usize] {
        &self.local
    }

    /// Returns those that were not whole in any earlier stage, ascending; every swept dimension is new once.
    #[must_use]
    pub fn new_dims(&self) -> &[usize] {
        &self.new
    }
}

/// The outermost dimension with an index for each coordinate of the axis, as inner ones make shorter rows; or
/// else the one that leaves fewest ranks without any.
fn roomiest(free: impl Iterator<Item = usize>, shape: &[usize], axis: MeshAxis) -> usize {
    let room = |dim: &usize| (shape[*dim].min(axis.extent), std::cmp::Reverse(*dim));
    free.max_by_key(room).expect("a sweep has more dimensions than axes, so one that is done is whole")
}
