//! Distributed types from and to shardings.
//!
//! A sharding says more than a type (cyclic, skewed and pinned placements, blocks that do not divide), so only
//! some have one; and a type may number tiles by digits of an axis, which no sharding does.

use crate::{AxisPart, DistDim, DistType, TypeError};
use polyshard_layout::{AxisExpr, DimLayout, Mesh, Placement, Sharding};

impl DistType {
    /// Returns the type of a sharding in equal blocks numbered by whole axes.
    ///
    /// ```
    /// use polyshard_layout::{Mesh, Placement, Sharding};
    /// use polyshard_planner::DistType;
    /// let mesh = Mesh::new([("x", 2), ("y", 3)]);
    /// let [x, y] = mesh.axes();
    /// let sharding = Sharding::new(&mesh, &[12, 5], &[Placement::block(0, [x, y])]).expect("a sharding");
    /// assert_eq!(DistType::from_sharding(&sharding)?.to_string(), "[2{y,x}12, 5]"); // minor first
    /// # Ok::<(), polyshard_planner::TypeError>(())
    /// ```
    ///
    /// # Errors
    /// The first dimension that is dealt out, skewed or divided unequally, or that a pin keeps somewhere.
    pub fn from_sharding(sharding: &Sharding) -> Result<Self, TypeError> {
        let dims = block_dims(sharding)?;
        let mut typed = Vec::with_capacity(dims.len());
        for (dim, (parts, tile)) in dims.into_iter().enumerate() {
            let (size, pieces) = (sharding.shape()[dim], crate::part::extent(&parts));
            if size > 0 && tile * pieces != size {
                return Err(TypeError::Indivisible { dim, pieces, size });
            }
            let tile = if size == 0 { 0 } else { tile };
            typed.push(DistDim { tile, parts, size });
        }
        Self::new(sharding.mesh(), typed)
    }

    /// Returns the sharding of this type, if whole axes alone number its tiles.
    #[must_use]
    pub fn to_sharding(&self) -> Option<Sharding> {
        let mesh = self.mesh();
        let mut placements = Vec::new();
        for (dim, DistDim { parts, .. }) in self.dims().iter().enumerate().filter(|(_, dim)| !dim.parts.is_empty()) {
            if parts.iter().any(|part| *part != AxisPart::whole(mesh, part.axis)) {
                return None;
            }
            let axes: Vec<_> = parts.iter().rev().map(|part| mesh.as_slice()[part.axis].name).collect();
            let at = if let [axis] = axes[..] { AxisExpr::Axis(axis) } else { AxisExpr::List(axes) };
            placements.push(Placement::Block { dim, at });
        }
        Sharding::new(mesh, &self.shape(), &placements).ok()
    }
}

/// Returns the digits of each dimension's tiles, minor first, and the size of its blocks, which is rounded up.
///
/// # Errors
/// The first dimension that is not in blocks numbered by whole axes.
pub(crate) fn block_dims(sharding: &Sharding) -> Result<Vec<(Vec<AxisPart>, usize)>, TypeError> {
    let mesh = sharding.mesh();
    let not = |dim: usize, why| TypeError::NotBlocks { dim, sharding: sharding.to_string(), why };
    if !sharding.pins().is_empty() {
        return Err(not(0, "it is pinned to a part of the mesh"));
    }
    let mut dims = Vec::with_capacity(sharding.shape().len());
    for (dim, layout) in sharding.dims().iter().enumerate() {
        dims.push(match layout {
            DimLayout::Whole => (Vec::new(), sharding.shape()[dim]),
            DimLayout::Cyclic { parts: 1, .. } => (Vec::new(), sharding.shape()[dim]),
            DimLayout::Cyclic { .. } => return Err(not(dim, "it is dealt out cyclically")),
            DimLayout::Block { at, block, .. } => {
                let digits = digits(at, mesh).ok_or_else(|| not(dim, "its blocks are not numbered by whole axes"))?;
                (digits, *block)
            }
        });
    }
    Ok(dims)
}

fn digits(at: &polyshard_layout::LinearAxes, mesh: &Mesh) -> Option<Vec<AxisPart>> {
    let mut terms: Vec<_> = at.terms.iter().filter(|(axis, _)| mesh.as_slice()[*axis].extent > 1).collect();
    terms.sort_by_key(|(_, factor)| *factor);
    let mut stride = 1;
    let mut parts = Vec::with_capacity(terms.len());
    for &(axis, factor) in terms {
        if factor != stride {
            return None;
        }
        let part = AxisPart::whole(mesh, axis);
        stride *= part.extent as i64;
        parts.push(part);
    }
    // A remainder that changes nothing is none.
    let plain = at.constant == 0 && at.modulus.is_none_or(|modulus| modulus >= stride);
    plain.then_some(parts)
}
