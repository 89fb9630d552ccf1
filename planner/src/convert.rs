//! Distributed types from and to shardings.
//!
//! A sharding can express more than a type (cyclic, skewed and pinned placements, blocks that do not divide, unequal
//! blocks of blocks), so only some have one. Every type has a sharding: [`DistType::cut`].

use crate::{AxisPart, DistDim, DistType, TypeError};
use polyshard_layout::{AxisExpr, Division, Name, Placement, Sharding};
use std::slice;

/// The type of a sharding in equal blocks numbered by whole axes.
///
/// ```
/// use polyshard::planner::DistType;
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2), ("y", 3)]);
/// let [x, y] = mesh.axes();
/// let sharding = Sharding::new(&mesh, &[12, 5], &[Placement::block(0, [x, y])]).expect("a sharding");
/// assert_eq!(DistType::try_from(&sharding)?.to_string(), "[2{y,x}12, 5]"); // minor first
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// The first dimension that is block-cyclic, skewed or divided unequally, or pinned to part of the mesh.
impl TryFrom<&Sharding> for DistType {
    type Error = TypeError;

    fn try_from(sharding: &Sharding) -> Result<Self, TypeError> {
        let [dist_type, _] = Self::covering(sharding, sharding)?;
        let differs = |&dim: &usize| dist_type.dims()[dim].size != sharding.shape()[dim];
        match (0..dist_type.ndim()).find(differs) {
            Some(dim) => {
                let (size, pieces) = (sharding.shape()[dim], crate::part::extent(&dist_type.dims()[dim].parts));
                Err(TypeError::Indivisible { dim, pieces, size })
            }
            None => Ok(dist_type),
        }
    }
}

impl DistType {
    /// The types of two shardings of one array and mesh; where blocks do not divide it, of a larger array whose tiles,
    /// cut off at the array's end, are the blocks of both.
    ///
    /// # Errors
    /// If one of them is not in blocks numbered by whole axes, or their blocks do not end together.
    pub(crate) fn covering(source: &Sharding, target: &Sharding) -> Result<[Self; 2], TypeError> {
        let (before, after) = (block_dims(source)?, block_dims(target)?);
        let mut dims = [Vec::new(), Vec::new()];
        for (dim, (before, after)) in before.into_iter().zip(after).enumerate() {
            let covered = |(parts, tile): &(Vec<AxisPart>, usize)| (tile * crate::part::extent(parts)).max(*tile);
            let cut = |(parts, _): &(Vec<AxisPart>, usize)| !parts.is_empty();
            // A dimension that is not cut takes its length from the other side.
            let size = match (cut(&before), cut(&after)) {
                (true, true) if covered(&before) != covered(&after) => return Err(TypeError::Ends { dim }),
                (true, _) => covered(&before),
                (false, true) => covered(&after),
                (false, false) => source.shape()[dim],
            };
            for (side, (parts, _)) in dims.iter_mut().zip([before, after]) {
                side.push(DistDim { tile: size / crate::part::extent(&parts), parts, size });
            }
        }
        let [source_dims, target_dims] = dims;
        Ok([Self::new(source.mesh(), source_dims)?, Self::new(source.mesh(), target_dims)?])
    }
}

/// Returns the digits of each dimension's tiles, minor first, and the size of its blocks, which is rounded up.
///
/// # Errors
/// The first dimension that is not in blocks numbered by whole axes.
fn block_dims(sharding: &Sharding) -> Result<Vec<(Vec<AxisPart>, usize)>, TypeError> {
    let mesh = sharding.mesh();
    let not = |dim: usize, why| TypeError::NotBlocks { dim, sharding: sharding.to_string(), why };
    if !sharding.pins().is_empty() {
        return Err(not(0, "it is pinned to a part of the mesh"));
    }
    if !sharding.partial().is_empty() {
        return Err(not(0, "it holds partial sums"));
    }
    let placements = sharding.placements();
    let levels_of = |wanted: usize| {
        let levels = placements.iter().find_map(|placement| match placement {
            Placement::Divided { dim, levels } if *dim == wanted => Some(&levels[..]),
            _ => None,
        });
        levels.unwrap_or_default()
    };
    let mut dims = Vec::with_capacity(sharding.shape().len());
    for (dim, layout) in sharding.dims().iter().enumerate() {
        dims.push(match levels_of(dim) {
            [] => (Vec::new(), sharding.shape()[dim]),
            [level @ Division::Block { .. }] => {
                let axes = axes(level).ok_or_else(|| not(dim, "its blocks are not numbered by whole axes"))?;
                let positions = axes.iter().rev().filter_map(|axis| mesh.position(*axis));
                (positions.map(|axis| AxisPart::whole(mesh, axis)).collect(), layout.levels()[0].block)
            }
            _ if layout.is_cyclic() => return Err(not(dim, "it is block-cyclic")),
            [_] => return Err(not(dim, "its blocks leave some ranks empty")),
            // Levels that divide evenly have been merged into one.
            _ => return Err(not(dim, "its blocks of blocks are of unequal sizes")),
        });
    }
    Ok(dims)
}

/// Returns the axes that number the blocks of a level, major first; none if it is not in blocks that whole axes number.
fn axes(level: &Division) -> Option<&[Name]> {
    match level {
        Division::Block { at: AxisExpr::Axis(axis) } => Some(slice::from_ref(axis)),
        Division::Block { at: AxisExpr::List(axes) } => Some(axes),
        // Blocks that axes of one rank number.
        Division::Block { at: AxisExpr::Const(0) } => Some(&[]),
        _ => None,
    }
}

/// Returns the sharding whose blocks along a dimension are each divided over more axes; none if it is not in blocks.
pub(crate) fn divided(sharding: &Sharding, dim: usize, by: &[usize]) -> Option<Sharding> {
    let (mut placements, mut levels) = (Vec::new(), Vec::new());
    for placement in sharding.placements() {
        match placement {
            Placement::Pin { .. } => return None,
            Placement::Divided { levels, .. } if levels.iter().any(|level| axes(level).is_none()) => return None,
            Placement::Divided { dim: own, levels: own_levels } if own == dim => levels = own_levels,
            other => placements.push(other),
        }
    }
    let more = sharding.mesh().names(by).into_iter().map(AxisExpr::Axis);
    levels.extend(more.map(|at| Division::Block { at }));
    placements.push(Placement::Divided { dim, levels });
    Sharding::new(sharding.mesh(), sharding.shape(), &placements).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_layout::Mesh;
    use proptest::prelude::*;

    fn sharding(mesh: &Mesh, shape: &[usize], axes: &[Option<usize>]) -> Sharding {
        let mut dims = vec![Vec::new(); shape.len()];
        for (axis, dim) in axes.iter().enumerate() {
            if let Some(dim) = dim {
                dims[*dim].push(mesh.as_slice()[axis].name);
            }
        }
        let placements = dims.into_iter().enumerate().filter(|(_, axes)| !axes.is_empty());
        let placements: Vec<_> = placements.map(|(dim, axes)| Placement::block(dim, AxisExpr::List(axes))).collect();
        Sharding::new(mesh, shape, &placements).expect("a sharding")
    }

    #[test]
    fn shardings_that_are_no_types_are_refused_with_the_dimension() {
        let mesh = Mesh::new([("x", 4), ("y", 2)]);
        let [x, y] = mesh.axes();
        let said = |placement| {
            let sharding = Sharding::new(&mesh, &[7, 8], &[placement]).expect("a sharding");
            DistType::try_from(&sharding).expect_err("refused").to_string()
        };
        assert_eq!(
            said(Placement::block(0, x)),
            "dimension 0: plans need equal tiles, but 7 indices do not divide into 4; pad to 8, or choose other axes"
        );
        let none = "of [1 @ cyclic(x, 1)] cannot be written as a distributed type: it is block-cyclic";
        assert_eq!(said(Placement::block_cyclic(1, x, 1)), format!("dimension 1 {none}"));
        let none =
            "of [1 @ (x + y) % 4] cannot be written as a distributed type: its blocks are not numbered by whole axes";
        assert_eq!(said(Placement::block(1, (x + y) % 4)), format!("dimension 1 {none}"));
        let nested = |rows| Sharding::new(&mesh, &[rows], &[Placement::block(0, y).at(x)]).expect("a sharding");
        assert_eq!(
            DistType::try_from(&nested(9)).expect_err("blocks of 5 and of 2").to_string(),
            "dimension 0 of [0 @ y @ x] cannot be written as a distributed type: its blocks of blocks are of unequal sizes"
        );
        assert_eq!(DistType::try_from(&nested(16)).expect("equal tiles").to_string(), "[2{x,y}16]");
        let none = "of [pin(y, 0)] cannot be written as a distributed type: it is pinned to a part of the mesh";
        assert_eq!(said(Placement::pin("y", 0)), format!("dimension 0 {none}"));
    }

    proptest! {
        #[test]
        fn tiles_of_covering_types_are_the_blocks(
            extents in prop::collection::vec(1..5usize, 2),
            shape in prop::collection::vec(0..14usize, 2),
            sides in prop::array::uniform2(prop::collection::vec(prop::option::of(0..2usize), 2)),
        ) {
            let mesh = Mesh::new([("x", extents[0]), ("y", extents[1])]);
            let shardings = sides.map(|axes| sharding(&mesh, &shape, &axes));
            let Ok(types) = DistType::covering(&shardings[0], &shardings[1]) else { return Ok(()) };
            for (sharding, covering) in shardings.iter().zip(&types) {
                for rank in 0..mesh.size() {
                    let coordinates = mesh.coordinates(rank);
                    let offset = covering.offset(&coordinates);
                    let local = (0..2).map(|dim| {
                        (offset[dim] + covering.tile_shape()[dim]).min(shape[dim]).saturating_sub(offset[dim])
                    });
                    prop_assert_eq!(local.collect::<Vec<_>>(), sharding.local_shape(&coordinates));
                }
            }
        }
    }
}
