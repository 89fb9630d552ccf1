//! Distributed arrays: a global shape, a sharding, and this rank's block.
//!
//! A block is dense and row-major, of the shape that the sharding determines; nothing is padded, so a rank may own
//! nothing at all. An array knows this rank's place on its mesh, but holds no communicator: calls that move data
//! between ranks take a world.

mod gather;
mod load;
mod save;

pub use save::CompleteNpy;
pub(crate) use save::agreed;

use crate::block::Block;
use crate::instances::Instances;
use crate::layout::{Name, Sharding};
use crate::memory::{Memory, Segment};
use crate::region::{Strides, strides};
use crate::subarray::{Place, Subarray};
use crate::{ArrayError, Element, Region, Result, RunError, View, ViewMut, World, at_caller};
use ndarray::{ArrayBase, ArrayViewD, Data, Dimension};
use std::sync::Arc;

/// An array laid over the ranks of a mesh: every rank has one of these, with its own block.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let [x] = mesh.axes();
/// let rows = Sharding::new(&mesh, &[5, 2], &[Placement::block(0, x)]).expect("a sharding");
/// let sums = spmd(2, |world| {
///     let a = DistArray::from_fn(world, &rows, |index| (10 * index[0] + index[1]) as f64)?;
///     Ok(a.block().iter().sum::<f64>())
/// })?;
/// assert_eq!(sums, [63.0, 142.0]); // rows 0..3 and 3..5
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DistArray<T> {
    sharding: Sharding,
    coordinates: Vec<usize>,
    local_shape: Vec<usize>,
    /// The global index of the first element and the strides of this rank's block, if that is one box of the array.
    as_box: Option<[Strides; 2]>,
    block: Block<T>,
}

impl<T: Element> DistArray<T> {
    /// Returns the array whose element at global index `i` is `f(i)`; each rank calls `f` for its own block,
    /// in row-major order. Does not communicate.
    ///
    /// If the sharding has partial sums, `f(i)` is the first term of an element, and the others are 0. The same holds
    /// for every way to make an array.
    ///
    /// # Errors
    /// [`ArrayError::TooLarge`] if the array has 2^63 bytes or more. If the number of ranks of the sharding's mesh is
    /// not the world's, or this rank's block does not fit in free memory.
    #[track_caller]
    pub fn from_fn(world: &World, sharding: &Sharding, f: impl Fn(&[usize]) -> T) -> Result<Self> {
        let mut array = at_caller(T::with_block(world, sharding))?;
        if !array.has_first_term() {
            array.block.fill(T::ZERO);
        } else if !array.block.is_empty() {
            let owned: Vec<Vec<usize>> = (0..array.ndim()).map(|dim| array.owned(dim).collect()).collect();
            let mut index = vec![0; owned.len()];
            let (block, mut next) = (&mut array.block[..], 0);
            fill(&owned, &mut index, 0, &mut |index| {
                block[next] = f(index);
                next += 1;
            });
        }
        Ok(array)
    }

    /// Returns the array whose elements are all `value`. Does not communicate.
    ///
    /// # Errors
    /// As for [`from_fn`](Self::from_fn).
    #[track_caller]
    pub fn filled(world: &World, sharding: &Sharding, value: T) -> Result<Self> {
        at_caller(T::filled(world, sharding, value))
    }

    /// As [`filled`](Self::filled), if the caller's line is not known.
    pub(crate) fn filled_with(world: &World, sharding: &Sharding, value: T) -> Result<Self> {
        let mut array = Self::empty(world, sharding)?;
        let value = if array.has_first_term() { value } else { T::ZERO };
        let len = sharding.local_len(&array.coordinates);
        array.block = Block::filled(len, value, of_block(sharding), world.visibility())?;
        Ok(array)
    }

    /// Returns the array with arbitrary elements. Does not communicate.
    pub(crate) fn with_any_elements(world: &World, sharding: &Sharding) -> Result<Self> {
        let mut array = Self::empty(world, sharding)?;
        let len = sharding.local_len(&array.coordinates);
        array.block = Block::new(len, of_block(sharding), world.visibility())?;
        Ok(array)
    }

    /// Returns the array whose elements are the first ones of `block`, which has room for them. Does not communicate.
    pub(crate) fn in_block(world: &World, sharding: &Sharding, block: Block<T>) -> Result<Self> {
        let mut array = Self::empty(world, sharding)?;
        array.block = block.cut(sharding.local_len(&array.coordinates));
        Ok(array)
    }

    /// Returns `array` with this sharding; each rank copies its part of the given array, which must be the same on all
    /// ranks. Does not communicate.
    ///
    /// # Errors
    /// [`ArrayError::Shape`] if the shapes differ. As for [`from_fn`](Self::from_fn).
    #[track_caller]
    pub fn from_array<S, D>(world: &World, array: &ArrayBase<S, D>, sharding: &Sharding) -> Result<Self>
    where
        S: Data<Elem = T>,
        D: Dimension,
    {
        at_caller(T::from_array(world, array.view().into_dyn(), sharding))
    }

    pub(crate) fn part_of(world: &World, array: ArrayViewD<'_, T>, sharding: &Sharding) -> Result<Self> {
        if array.shape() != sharding.shape() {
            let (shape, sharding) = (array.shape().to_vec(), sharding.shape().to_vec());
            return Err(ArrayError::Shape { shape, sharding }.into());
        }
        Self::from_fn(world, sharding, |index| array[index])
    }

    /// Returns the array without its elements.
    pub(crate) fn empty(world: &World, sharding: &Sharding) -> Result<Self> {
        world.check_mesh(sharding.mesh())?;
        // An extent of 0 does not excuse the others: with it, strides would still overflow.
        let bytes =
            sharding.shape().iter().try_fold(size_of::<T>().max(1), |bytes, &extent| bytes.checked_mul(extent.max(1)));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return Err(ArrayError::TooLarge { shape: sharding.shape().to_vec() }.into());
        }
        let coordinates = sharding.mesh().coordinates(world.rank());
        let local_shape = sharding.local_shape(&coordinates);
        let whole = Subarray::of(sharding, &coordinates, &Region::whole(sharding.shape()));
        let as_box = whole.is_box().then(|| [indices(whole.first()), strides(&local_shape)]);
        Ok(Self { sharding: sharding.clone(), coordinates, local_shape, as_box, block: Block::default() })
    }

    /// Whether this rank holds the first term of its elements: any rank, unless sums are open.
    fn has_first_term(&self) -> bool {
        self.sharding.partial().iter().all(|&axis| self.coordinates[axis] == 0)
    }
}

impl<T> DistArray<T> {
    /// Checks that the elements are known, that is, that no sums are open.
    fn closed(&self, purpose: &'static str) -> Result<()> {
        match self.sharding.partial() {
            [] => Ok(()),
            _ => Err(ArrayError::OpenSums { sharding: Box::new(self.sharding.clone()), purpose }.into()),
        }
    }

    /// Returns the number of elements that its memory has room for.
    pub(crate) fn room(&self) -> usize {
        self.block.room()
    }

    /// Returns the memory of the elements.
    pub(crate) fn into_block(self) -> Block<T> {
        self.block
    }

    /// Returns the sharding.
    #[must_use]
    pub fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    /// Returns the global shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.sharding.shape()
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// Returns this rank's coordinates on the sharding's mesh.
    #[must_use]
    pub fn coordinates(&self) -> &[usize] {
        &self.coordinates
    }

    /// The global indices along `dim` that this rank owns, ascending.
    pub(crate) fn owned(&self, dim: usize) -> impl Iterator<Item = usize> {
        self.sharding.pieces(dim, &self.coordinates, 0..self.shape()[dim]).flat_map(|(range, _)| range)
    }

    /// Returns this rank's elements, dense and row-major by global index.
    #[must_use]
    pub fn block(&self) -> &[T] {
        &self.block
    }

    /// Returns this rank's elements, to be written. Ranks that own the same elements must write the same.
    #[must_use]
    pub fn block_mut(&mut self) -> &mut [T] {
        &mut self.block
    }

    /// Returns another owner of this rank's elements, for other ranks to read.
    pub(crate) fn lend(&self) -> Arc<Memory> {
        self.block.lend()
    }

    /// Returns this rank's elements, and the segment that contains them, if any.
    pub(crate) fn place(&self) -> (&[T], Option<(&Segment, usize)>) {
        (&self.block, self.block.segment())
    }

    /// Returns the shape of this rank's block.
    #[must_use]
    pub fn local_shape(&self) -> &[usize] {
        &self.local_shape
    }

    /// Returns the element at a global index, if this rank owns it.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let halves = Sharding::new(&mesh, &[4], &[Placement::block(0, "x")]).expect("a sharding");
    /// let number = Sharding::replicated(&mesh, &[]);
    /// let found = spmd(2, |world| {
    ///     let a = DistArray::from_fn(world, &halves, |index| index[0] as f64)?;
    ///     // An array without dimensions has one element, whose index is empty.
    ///     let norm = DistArray::filled(world, &number, 0.5)?;
    ///     Ok((a.get(&[3]), norm.get(&[])))
    /// })?;
    /// assert_eq!(found, [(None, Some(0.5)), (Some(3.0), Some(0.5))]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `index` is outside the array, or the array holds partial sums: [`redistribute`](Self::redistribute) closes
    /// them.
    #[track_caller]
    #[must_use]
    pub fn get(&self, index: &[usize]) -> Option<T>
    where
        T: Copy,
    {
        let inside = index.len() == self.ndim() && index.iter().zip(self.shape()).all(|(&i, &extent)| i < extent);
        assert!(inside, "index {index:?} is outside an array of shape {:?}", self.shape());
        self.closed("indexed").unwrap_or_else(|error| panic!("{error}"));
        if !self.sharding.keeps(&self.coordinates) {
            return None;
        }
        let mut at = 0;
        for (dim, &i) in index.iter().enumerate() {
            at = at * self.local_shape[dim] + self.sharding.local_index(dim, &self.coordinates, i)?;
        }
        Some(self.block[at])
    }

    /// Returns this rank's block, addressed by global index.
    ///
    /// # Panics
    /// If the sharding is cyclic or block-cyclic and the block is not one box of the array: use [`get`](Self::get) or
    /// [`block`](Self::block).
    #[track_caller]
    #[must_use]
    pub fn view(&self) -> View<'_, T> {
        let [origin, strides] = self.boxed();
        View::new(&self.block, origin, strides)
    }

    /// Returns this rank's block, addressed by global index, for writing.
    ///
    /// # Panics
    /// As [`view`](Self::view).
    #[track_caller]
    #[must_use]
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        let [origin, strides] = self.boxed();
        ViewMut::new(&mut self.block, origin, strides)
    }

    /// The global index of the first element and the strides of this rank's block.
    #[track_caller]
    fn boxed(&self) -> [Strides; 2] {
        // Not in a closure, where the caller's line would be lost.
        match &self.as_box {
            Some(as_box) => as_box.clone(),
            None => panic!(
                "a rank's part of {}, sharded {}, is not one box, so it has no view: use `get` or `block`",
                Region::whole(self.shape()),
                self.sharding
            ),
        }
    }

    /// This rank's part of `region`, addressed by global index.
    #[track_caller]
    pub(crate) fn view_of(&self, region: &Region) -> View<'_, T> {
        let (at, origin, strides) = self.placed(region);
        View::new(&self.block[at..], origin, strides)
    }

    /// The position in the block and the global index of this rank's first element of `region`, and the strides.
    #[track_caller]
    fn placed(&self, region: &Region) -> (usize, Strides, Strides) {
        if let Some((at, origin, strides)) = self.placed_in_box(region) {
            return (at, origin, strides);
        }
        let overlap = Subarray::of(&self.sharding, &self.coordinates, region);
        assert!(
            overlap.is_box(),
            "a rank's part of {region}, sharded {}, is not one box, so it has no view: use `get` or `block`",
            self.sharding
        );
        let at = overlap.start(Place::Block).min(self.block.len());
        (at, indices(overlap.first()), strides(&self.local_shape))
    }

    /// The same, if this rank owns a box of the array and the region begins in it.
    fn placed_in_box(&self, region: &Region) -> Option<(usize, Strides, Strides)> {
        let [origin, strides] = self.as_box.as_ref().filter(|_| !region.wraps() && !region.has_blocks())?;
        let mut at = 0;
        for (dim, (origin, stride)) in origin.iter().zip(strides).enumerate() {
            let distance = region.range(dim).start - origin;
            at +=
                usize::try_from(distance).ok().filter(|&distance| distance < self.local_shape[dim])? * *stride as usize;
        }
        Some((at, region.origin(), strides.clone()))
    }

    /// Checks that the array has the sharding that a program expects of its tensor `name`.
    ///
    /// # Errors
    /// [`RunError`] if the shape, the mesh or the placement differ.
    pub fn expect(&self, name: &str, wanted: &Sharding) -> Result<()> {
        let held = &self.sharding;
        if held == wanted {
            return Ok(());
        }
        let [shape, mesh] = [held.shape() == wanted.shape(), held.mesh() == wanted.mesh()];
        let (name, given, wanted) = (Name::new(name), Box::new(held.clone()), Box::new(wanted.clone()));
        Err(match (shape, mesh) {
            (false, _) => RunError::Shape { name, given, wanted },
            (true, false) => RunError::Mesh { name, given, wanted },
            (true, true) => RunError::Owners { name, given, wanted },
        }
        .into())
    }
}

fn indices(indices: &[usize]) -> Strides {
    indices.iter().map(|&index| index as i64).collect()
}

fn of_block(sharding: &Sharding) -> String {
    format!("a rank's block of an array of shape {:?}", sharding.shape())
}

fn fill(owned: &[Vec<usize>], index: &mut [usize], dim: usize, visit: &mut impl FnMut(&[usize])) {
    if dim == owned.len() {
        return visit(index);
    }
    for &i in &owned[dim] {
        index[dim] = i;
        fill(owned, index, dim + 1, visit);
    }
}

#[cfg(test)]
mod tests;
