//! What a rank has of an array that a plan divides into equal tiles: the tile, cut off where the array ends.
//!
//! A plan knows types, in which every tile has one shape. An array may be smaller than the plan's: then the last tiles
//! are short or empty, and nothing is padded. A type does not say which array it is for, so its shape goes along.

use crate::layout::{AxisExpr, Mesh, Placement, Sharding};
use crate::{Error, Result};
use polyshard_planner::product::Sharded;
use std::ops::Range;

/// An array of a plan: how ranks hold it, and how large it really is.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) array: Sharded,
    pub(super) shape: Vec<usize>,
}

impl Held {
    /// The array with these sizes by name, and its own where there is none.
    pub(super) fn new(array: &Sharded, sizes: &[(&str, usize)]) -> Self {
        let size = |(name, whole): (&String, usize)| {
            sizes.iter().find(|(other, _)| other == name).map_or(whole, |(_, size)| *size)
        };
        let shape = array.names().iter().zip(array.dist_type().shape()).map(size).collect();
        Self { array: array.clone(), shape }
    }

    pub(super) fn mesh(&self) -> &Mesh {
        self.array.dist_type().mesh()
    }

    /// The box of global indices that the rank at `coordinates` has.
    pub(super) fn tile(&self, coordinates: &[usize]) -> Vec<Range<usize>> {
        let dist_type = self.array.dist_type();
        let starts = dist_type.offset(coordinates).into_iter().zip(dist_type.tile_shape());
        starts.zip(&self.shape).map(|((start, extent), &end)| start.min(end)..(start + extent).min(end)).collect()
    }

    /// The sharding by which ranks have these tiles.
    ///
    /// Blocks of a sharding are as small as they can be; where the plan's tiles are larger, each part is dealt one of
    /// that size instead.
    pub(super) fn sharding(&self) -> Result<Sharding> {
        let mesh = self.mesh();
        let mut placements = Vec::new();
        for (dim, (cut, &size)) in self.array.dist_type().dims().iter().zip(&self.shape).enumerate() {
            if cut.parts.is_empty() {
                continue;
            }
            let axes: Vec<_> = cut.parts.iter().rev().map(|part| mesh.as_slice()[part.axis].name).collect();
            let pieces: usize = cut.parts.iter().map(|part| part.extent).product();
            let at = if let [axis] = axes[..] { AxisExpr::Axis(axis) } else { AxisExpr::List(axes) };
            let smallest = size.div_ceil(pieces) == cut.tile;
            placements.push(match cut.tile {
                block if !smallest && block > 0 => Placement::Cyclic { dim, at, block },
                _ => Placement::Block { dim, at },
            });
        }
        Sharding::new(mesh, &self.shape, &placements).map_err(|why| Error::Usage(format!("`{}`: {why}", self.array)))
    }
}

/// Returns the number of elements of a box.
pub(super) fn len(tile: &[Range<usize>]) -> usize {
    tile.iter().map(Range::len).product()
}
