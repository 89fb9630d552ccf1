//! Tiles that one kernel has filled and another reads.

use super::Tile;
use crate::{Element, InputTable, Shards, View};

/// A kernel's tile after a run, for another kernel that reads the same array and does not fetch it again.
///
/// If the first kernel read data in place in the shards of other ranks, it is still there and not in the tile. So the second one also
/// publishes its inputs, which pins those shards until it is done: [`publish_with`](Self::publish_with).
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::leaf::{nest, pointwise};
/// use polyshard::runtime::{Grid, InputTable, KeptTile, Region, SharedInputs, StridedMut, Tile};
/// let mesh = Mesh::new([("x", 2)]);
/// let halves = Sharding::new(&mesh, &[4], &[Placement::block(0, mesh.axes::<1>()[0])]).expect("a sharding");
/// let found = spmd(2, |world| {
///     let row = Grid::new(world, &mesh)?.group(&[0])?;
///     let a = DistArray::from_fn(world, &halves, |index| index[0] as f64)?;
///     let (mut tile, mut known) = (Tile::new("A", 2)?, InputTable::default());
///     let inputs = SharedInputs::new(world, [&a], &mut known)?;
///     tile.broadcast(&row, &[0], inputs.shards::<1>()[0], &Region::new(std::iter::once(0..2)))?;
///     inputs.release()?;
///     // A kernel that comes after it.
///     let (kept, mut others) = (KeptTile::new(&tile, Some(&known)), InputTable::default());
///     kept.publish_with(&mut others);
///     let inputs = SharedInputs::new(world, [&a], &mut others)?;
///     let operand = kept.view(inputs.shards::<1>()[0]).strided(&[0], &[&[1]]);
///     let mut doubled = [0.0; 2];
///     let target = StridedMut::new(&mut doubled, 0, vec![1]);
///     nest(&[2], target, ReduceOp::Sum, &[operand], &pointwise(|[a]: [f64; 1]| 2.0 * a));
///     inputs.release()?;
///     Ok(doubled)
/// })?;
/// assert_eq!(found, [[0.0, 2.0]; 2]);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Debug)]
pub struct KeptTile<'a, T> {
    tile: &'a Tile<T>,
    /// Whether the inputs of the kernel were published.
    is_shared: bool,
}

impl<T> Clone for KeptTile<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for KeptTile<'_, T> {}

impl<'a, T: Element> KeptTile<'a, T> {
    /// Returns the tile of a kernel; `known` is the kernel's input table, if it reads data of other ranks.
    #[must_use]
    pub fn new(tile: &'a Tile<T>, known: Option<&InputTable>) -> Self {
        Self { tile, is_shared: known.is_some_and(InputTable::is_published) }
    }

    /// Makes the next run of a kernel with the input table `known` publish its inputs, if the kernel that filled the tile did.
    pub fn publish_with(self, known: &mut InputTable) {
        if self.is_shared {
            known.publish_next();
        }
    }

    /// Returns the region that the tile holds, addressed by global index; `source` is the array that it was fetched from, among the inputs
    /// of the kernel that reads it now.
    ///
    /// # Panics
    /// As for [`Tile::view`].
    #[must_use]
    pub fn view(self, source: impl Into<Shards<'a, T>>) -> View<'a, T> {
        self.tile.view(source)
    }
}
