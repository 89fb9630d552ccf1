//! Memory for intermediate arrays of a program, reused in each run.

use crate::block::Block;
use crate::{DistArray, Element, Result, World};
use polyshard_layout::Sharding;

/// Memory for arrays that do not exist at the same time, or that are carried from round to round of a program.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::Room;
/// let sharding = Sharding::replicated(&Mesh::new([("x", 2)]), &[3]);
/// spmd(2, |world| {
///     let mut room = Room::new(1);
///     let array: DistArray<f64> = room.array(world, &sharding, Some(1.0))?;
///     let place = array.block().as_ptr();
///     room.give_back(array);
///     let again = room.array(world, &sharding, None)?; // with anything in it
///     assert_eq!(again.block().as_ptr(), place);
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct Room<T: Element> {
    /// Those that do not exist, with arbitrary elements.
    arrays: Vec<DistArray<T>>,
    most: usize,
}

impl<T: Element> Room<T> {
    /// Returns room that keeps the memory of at most `most` arrays while they do not exist.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { arrays: Vec::with_capacity(most), most }
    }

    /// Allocates memory for `count` arrays that take at most as much memory on this rank as those with this sharding.
    pub(crate) fn reserve(&mut self, world: &World, count: usize, sharding: &Sharding) -> Result<()> {
        for _ in 0..count {
            self.arrays.push(array(world, sharding, None)?);
        }
        Ok(())
    }

    /// Returns an array, filled with an element, or with arbitrary contents. Does not communicate. All calls are for one world.
    ///
    /// # Errors
    /// If the room has no memory left and none can be allocated, or the number of ranks of the sharding's mesh is not the world's.
    pub fn array(&mut self, world: &World, sharding: &Sharding, filled: Option<T>) -> Result<DistArray<T>> {
        let same = self.arrays.iter().rposition(|array| array.sharding() == sharding);
        let mut array = match same {
            Some(nth) => self.arrays.swap_remove(nth),
            None => array(world, sharding, self.arrays.pop().map(DistArray::into_block))?,
        };
        if let Some(element) = filled {
            array.block_mut().fill(element);
        }
        Ok(array)
    }

    /// Takes back the memory of an array that nothing reads any more.
    pub fn give_back(&mut self, array: DistArray<T>) {
        if self.arrays.len() < self.most {
            self.arrays.push(array);
        }
    }

    /// Returns the bytes of the arrays that do not exist.
    pub(crate) fn bytes(&self) -> usize {
        self.arrays.iter().map(|array| array.room() * size_of::<T>()).sum()
    }
}

/// An array in a block, or in a new one if that has no room for it.
fn array<T: Element>(world: &World, sharding: &Sharding, block: Option<Block<T>>) -> Result<DistArray<T>> {
    let len = sharding.local_len(&sharding.mesh().coordinates(world.rank()));
    let block = block.filter(|block| block.room() >= len);
    let new = || Block::new(len, "an array between two statements of a program", world.visibility());
    DistArray::in_block(world, sharding, block.map_or_else(new, Ok)?)
}

impl<T: Element> DistArray<T> {
    /// Returns whether the element of an array without dimensions, which every rank has, is below a bound: the condition that ends the
    /// rounds of a program.
    ///
    /// # Panics
    /// If this rank has no element of it.
    #[must_use]
    pub fn is_below(&self, bound: f64) -> bool {
        is_below(self.block()[0], bound)
    }
}

/// Whether a number is below a bound.
pub(crate) fn is_below<T: Element>(number: T, bound: f64) -> bool {
    number.to_f64().is_some_and(|number| number < bound)
}
