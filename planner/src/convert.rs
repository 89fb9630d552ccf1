//! Distributed types from and to shardings.
//!
//! A sharding can express more than a type (cyclic, skewed and pinned placements, blocks that do not divide, unequal
//! blocks of blocks), so only some have one. Every type has a sharding: [`DistType::cut`].

use crate::{AxisPart, DistDim, DistType, TypeError};
use polyshard_layout::{AxisExpr, Division, LevelLayout, Mesh, Placement, Sharding, ShardingError};

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
    let mut dims = Vec::with_capacity(sharding.shape().len());
    for (dim, layout) in sharding.dims().iter().enumerate() {
        dims.push(match layout.levels() {
            [] => (Vec::new(), sharding.shape()[dim]),
            [level] if level.is_in_ceil_blocks(sharding.shape()[dim]) => {
                let digits =
                    digits(&level.at, mesh).ok_or_else(|| not(dim, "its blocks are not numbered by whole axes"))?;
                (digits, level.block)
            }
            _ if layout.is_cyclic() => return Err(not(dim, "it is block-cyclic")),
            [_] => return Err(not(dim, "its blocks leave some ranks empty")),
            // Levels that divide evenly have been merged into one.
            _ => return Err(not(dim, "its blocks of blocks are of unequal sizes")),
        });
    }
    Ok(dims)
}

/// Returns for each dimension the axes that number the blocks of each of its levels, major first; none if anything but
/// whole axes numbers them.
fn axes_of_levels(sharding: &Sharding) -> Option<Vec<Vec<Vec<usize>>>> {
    let of_level = |level: &LevelLayout| {
        let parts = digits(&level.at, sharding.mesh())?;
        Some(parts.iter().rev().map(|part| part.axis).collect())
    };
    sharding.dims().iter().map(|layout| layout.levels().iter().map(of_level).collect()).collect()
}

/// Returns the sharding of an array that is cut into blocks, blocks of blocks and so on: for each dimension the axes of each
/// level, major first.
fn in_blocks(
    mesh: &Mesh,
    shape: &[usize],
    levels: &[Vec<Vec<usize>>],
    partial: &[usize],
) -> Result<Sharding, ShardingError> {
    let names = |axes: &Vec<usize>| AxisExpr::List(mesh.names(axes));
    let level = |axes: &Vec<usize>| Division::Block { at: names(axes) };
    let cut = levels.iter().enumerate().filter(|(_, levels)| !levels.is_empty());
    let cut = cut.map(|(dim, levels)| Placement::Divided { dim, levels: levels.iter().map(level).collect() });
    let summed = mesh.names(partial).into_iter().map(Placement::partial);
    Sharding::new(mesh, shape, &cut.chain(summed).collect::<Vec<_>>())
}

/// Returns the sharding whose blocks along a dimension are each divided over more axes; none if it is not in blocks.
pub(crate) fn divided(sharding: &Sharding, dim: usize, axes: &[usize]) -> Option<Sharding> {
    let mut levels = axes_of_levels(sharding)?;
    let made =
        |levels: &[Vec<Vec<usize>>]| in_blocks(sharding.mesh(), sharding.shape(), levels, sharding.partial()).ok();
    made(&levels).filter(|same| same == sharding)?;
    levels.get_mut(dim)?.extend(axes.iter().map(|&axis| vec![axis]));
    made(&levels)
}

fn digits(at: &polyshard_layout::LinearAxes, mesh: &Mesh) -> Option<Vec<AxisPart>> {
    let mut terms: Vec<_> = at.terms.iter().collect();
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
    (at.constant == 0 && at.modulus.is_none()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
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
