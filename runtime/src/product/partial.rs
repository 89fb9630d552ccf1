//! Arrays whose sums are still open: every rank holds a term.
//!
//! Where several ranks own an element of a [`DistArray`], they hold the same value, and whoever reads it may ask any of
//! them. Terms of a sum lie alike but are not the same, so they are a type of their own, which can be summed but neither
//! gathered nor redistributed as if it were an array.

use super::sum::AllReduce;
use crate::layout::{Name, Sharding};
use crate::{DistArray, Element, Error, Result, World};
use polyshard_layout::AxisSource;

/// An array that is unreduced along axes of its mesh: the sum of what the ranks hold that differ along these axes alone.
///
/// ```text
/// C[I, K] {U_X}, X: 2      rank 0: p    rank 1: q      C = p + q
/// ```
///
/// ```
/// use polyshard_runtime::layout::{Mesh, Sharding};
/// use polyshard_runtime::{DistArray, Error, Partial, spmd};
/// let mesh = Mesh::new([("x", 3)]);
/// let everywhere = Sharding::replicated(&mesh, &[2]);
/// let sums = spmd(3, |world| -> Result<_, Error> {
///     let term = DistArray::from_fn(world, &everywhere, |index| (10 * index[0] + world.rank()) as i64)?;
///     let whole = Partial::new(term, &["x".into()])?.reduce(world)?;
///     Ok(whole.block().to_vec())
/// })?;
/// assert_eq!(sums, [[3, 33], [3, 33], [3, 33]]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Partial<T> {
    pub(super) terms: DistArray<T>,
    pub(super) unreduced: Vec<usize>,
}

impl<T: Element> Partial<T> {
    /// Returns the sum along `axes` of what ranks hold in `terms`; of no axes, the array itself.
    ///
    /// # Errors
    /// If an axis is not one of the array's mesh, is given twice, or divides the array, so that ranks along it hold
    /// different elements.
    pub fn new(terms: DistArray<T>, axes: &[Name]) -> Result<Self> {
        let (mesh, mut unreduced) = (terms.sharding().mesh(), Vec::with_capacity(axes.len()));
        for &name in axes {
            let refuse = |why: String| Err(Error::Usage(format!("terms cannot be summed along `{name}`: {why}")));
            let Some(axis) = mesh.position(name) else { return refuse(format!("the mesh is ({mesh})")) };
            if unreduced.contains(&axis) {
                return refuse("it is given twice; once says it".into());
            }
            let replicates = |(other, source): &(usize, AxisSource)| *other != axis || *source == AxisSource::Reader;
            if !terms.sharding().sources().iter().all(replicates) {
                let sharding = terms.sharding();
                return refuse(format!("it divides the array, which is sharded {sharding}; leave the axis out"));
            }
            unreduced.push(axis);
        }
        unreduced.sort_unstable();
        Ok(Self { terms, unreduced })
    }

    /// Returns the sum along all axes that are open, on every rank that holds a term; collective over the ranks that
    /// differ along them (MPI 3.1, sections 5.10 and 5.7).
    ///
    /// ```text
    /// before   rank 0: a      rank 1: b          C[I, K] {U_X}
    /// after    rank 0: a+b    rank 1: a+b        C[I, K]
    /// ```
    ///
    /// For a sum of which each rank gets a part, or one that is made often, there is [`Resharding`](super::Resharding).
    ///
    /// # Errors
    /// If the array's mesh has not as many ranks as the world, or another rank failed.
    pub fn reduce(&self, world: &World) -> Result<DistArray<T>> {
        let mut whole = self.terms.clone();
        if !self.unreduced.is_empty() {
            let (mesh, elements) = (self.sharding().mesh(), whole.block().len());
            AllReduce::new(world, mesh, &self.unreduced, elements)?.run_in_place(whole.block_mut())?;
        }
        Ok(whole)
    }

    /// Returns the array, if no sums are open. Does not communicate.
    ///
    /// # Errors
    /// If some are.
    pub fn into_array(self) -> Result<DistArray<T>> {
        if self.unreduced.is_empty() {
            return Ok(self.terms);
        }
        let mesh = self.sharding().mesh();
        let axes: Vec<_> = self.unreduced.iter().map(|&axis| format!("`{}`", mesh.as_slice()[axis].name)).collect();
        Err(Error::Usage(format!("sums along {} are still open; `reduce` closes them", axes.join(" and "))))
    }
}

impl<T> Partial<T> {
    /// Returns the sharding by which the terms lie.
    #[must_use]
    pub fn sharding(&self) -> &Sharding {
        self.terms.sharding()
    }

    /// Returns the positions in the mesh of the axes along which terms are to be summed, ascending.
    #[must_use]
    pub fn unreduced(&self) -> &[usize] {
        &self.unreduced
    }

    /// Returns this rank's term, dense and row-major by global index.
    #[must_use]
    pub fn block(&self) -> &[T] {
        self.terms.block()
    }

    /// Returns this rank's term, to be written.
    #[must_use]
    pub fn block_mut(&mut self) -> &mut [T] {
        self.terms.block_mut()
    }
}

impl<T> From<DistArray<T>> for Partial<T> {
    /// The array, with nothing open.
    fn from(array: DistArray<T>) -> Self {
        Self { terms: array, unreduced: Vec::new() }
    }
}
