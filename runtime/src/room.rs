//! Memory for intermediate arrays of a program, reused in each run.

use crate::block::Block;
use crate::{DistArray, Element, Result, World};
use polyshard_layout::Sharding;
use polyshard_program::Number;

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
    /// The blocks that hold no array.
    blocks: Vec<Block<T>>,
    most: usize,
}

impl<T: Element> Room<T> {
    /// Returns room that keeps the memory of at most `most` arrays while they do not exist.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { blocks: Vec::with_capacity(most), most }
    }

    /// Allocates memory for `count` arrays of at most `len` elements on this rank.
    pub(crate) fn reserve(&mut self, world: &World, count: usize, len: usize) -> Result<()> {
        for _ in 0..count {
            self.blocks.push(block(world, len)?);
        }
        Ok(())
    }

    /// Returns an array, filled with an element, or with arbitrary contents. Does not communicate.
    ///
    /// # Errors
    /// If the room has no memory left and none can be allocated, or the number of ranks of the sharding's mesh is not the world's.
    pub fn array(&mut self, world: &World, sharding: &Sharding, filled: Option<T>) -> Result<DistArray<T>> {
        let len = sharding.local_len(&sharding.mesh().coordinates(world.rank()));
        // A block of a smaller array has no room for this one.
        let kept = self.blocks.pop().filter(|block| block.room() >= len);
        let block = kept.map_or_else(|| block(world, len), Ok)?;
        let mut array = DistArray::in_block(world, sharding, block)?;
        if let Some(element) = filled {
            array.block_mut().fill(element);
        }
        Ok(array)
    }

    /// Takes back the memory of an array that nothing reads any more.
    pub fn give_back(&mut self, array: DistArray<T>) {
        if self.blocks.len() < self.most {
            self.blocks.push(array.into_block());
        }
    }

    /// Returns the bytes of the blocks that hold no array.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.room() * size_of::<T>()).sum()
    }
}

fn block<T: Element>(world: &World, len: usize) -> Result<Block<T>> {
    Block::new(len, "an array between two statements of a program", world.visibility())
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
    as_float(number) < bound
}

pub(crate) fn as_float<T: Element>(number: T) -> f64 {
    match number.number() {
        Number::Int(number) => number as f64,
        Number::Float(number) => number,
    }
}
