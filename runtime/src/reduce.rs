//! Reductions of slices in place, by steps that are given: made once and run many times.
//!
//! The steps are data, a [`Procedure`] in ranks of the world, which is proved already: collectives in groups, or one fixed order, which
//! gives the same bits everywhere. Moves of programs by a reduction take these steps too.
//!
//! The planner chooses the best steps, not this module. Only the data of these steps is sent.

mod step;

use crate::comm::Communicator;
use crate::instances::Instances;
use crate::{Element, ReduceOp, ReductionRunError, Result, World};
use polyshard_program::reduction::{Procedure, listed};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::rc::Rc;
use step::{CollectiveStep, Staging};

/// A reduction of arrays of one length in groups of ranks, made once and run many times.
///
/// ```text
/// groups {0 2} {1 3}
///
/// before   rank 0: a    rank 1: b    rank 2: c    rank 3: d
/// after    rank 0: a+c  rank 1: b+d  rank 2: a+c  rank 3: b+d
/// ```
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::reduction::Procedure;
/// use polyshard::runtime::Reduction;
/// let procedure = Procedure::in_order(vec![vec![0, 2], vec![1, 3]]).expect("each rank is in one group");
/// let sums = spmd(4, |world| {
///     let sum = Reduction::new(world, &procedure, 3)?;
///     let mut gradient = [1, 10, 100].map(|unit| unit * world.rank() as i64);
///     sum.run(&mut gradient, ReduceOp::Sum)?;
///     Ok(gradient)
/// })?;
/// assert_eq!(sums, [[2, 20, 200], [4, 40, 400], [2, 20, 200], [4, 40, 400]]);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// **Bits.** Integers (which wrap), maxima and minima are the same by every procedure. Sums and products of floats
/// differ by the order in which they are rounded: with unit roundoff `u` and `n` ranks, `g = (n - 1) u / (1 - (n - 1) u)`,
/// the sums of two procedures differ by at most `2 g (|x_1| + .. + |x_n|)`, their products by at most `2 g |x_1 .. x_n|` unless a
/// product in between over- or underflows (N. Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
/// [`Procedure::in_order`] combines in one order, and so has the same bits on every machine of one kind of processor. A NaN is kept by all
/// of them; the bits of a sum or a product with several NaNs are not defined.
///
/// **Bytes.** A run receives the bytes of the steps and no more: see [`bytes_received`](Self::bytes_received).
pub struct Reduction<T> {
    elements: usize,
    received: usize,
    steps: Steps,
    of: PhantomData<T>,
}

/// The steps of a reduction that this rank takes part in and that move data, for arrays of any type, with the buffers that they reuse.
pub(crate) struct Steps {
    steps: Vec<CollectiveStep>,
    staging: RefCell<Staging>,
}

impl Steps {
    /// Makes the communicators of a procedure's steps; collective over the world.
    pub(crate) fn new(world: &World, procedure: &Procedure) -> Result<Self> {
        ranks_fit(world, procedure)?;
        let steps = match procedure.steps() {
            Some(lowered) => step::steps(world, lowered)?,
            None => step::in_order(world, procedure.groups())?,
        };
        Ok(Self { steps, staging: RefCell::default() })
    }

    /// Allocates the buffers for arrays of at most `elements` elements of `element` bytes.
    pub(crate) fn reserve(&self, elements: usize, element: usize) -> Result<()> {
        self.staging.borrow_mut().grow(&self.steps, elements, element)
    }

    /// Reduces `data` in place.
    pub(crate) fn run<T: Element>(&self, data: &mut [T], op: ReduceOp) -> Result<()> {
        let staging = &mut *self.staging.borrow_mut();
        self.steps.iter().try_for_each(|step| step.run(data, op, staging))
    }
}

impl<T: Element> Reduction<T> {
    /// Works out the reduction of arrays of `elements` elements, in ranks of `world`; collective over it.
    ///
    /// Each group of a step becomes a communicator (MPI 3.1, section 6.4.2), which the world keeps for all steps and
    /// reductions with equal groups.
    ///
    /// # Errors
    /// [`ReductionRunError`] if it is for another number of ranks or memory cannot hold that many elements: both are detected before any
    /// communication. If the ranks give different reductions, or another rank failed.
    pub fn new(world: &World, procedure: &Procedure, elements: usize) -> Result<Self> {
        T::reduction(world, procedure, elements)
    }

    pub(crate) fn planned(world: &World, procedure: &Procedure, elements: usize) -> Result<Self> {
        ranks_fit(world, procedure)?;
        check::<T>(elements)?;
        let says = format!(
            "a reduction of {elements} elements\na reduction of `{}` in the groups {}\na reduction {}",
            T::DTYPE.name(),
            listed(procedure.groups()),
            procedure.shown()
        );
        world.agree(&says, procedure)?;
        Self::agreed(world, procedure, elements)
    }

    fn agreed(world: &World, procedure: &Procedure, elements: usize) -> Result<Self> {
        let steps = Steps::new(world, procedure)?;
        steps.reserve(elements, size_of::<T>())?;
        let received = procedure.received(|_| elements)[world.rank()];
        Ok(Self { elements, received, steps, of: PhantomData })
    }

    /// Reduces `data` in place with the data of the other ranks of this one's group; collective over the group.
    ///
    /// Allocates nothing: all other memory was allocated with the reduction. The communicator may.
    ///
    /// # Errors
    /// [`ReductionRunError::Length`] if `data` does not have the reduction's number of elements. If another rank failed.
    pub fn run(&self, data: &mut [T], op: ReduceOp) -> Result<()> {
        let (given, elements) = (data.len(), self.elements);
        if given != elements {
            return Err(ReductionRunError::Length { given, elements }.into());
        }
        T::reduce(self, data, op)
    }

    /// As [`run`](Self::run), for data that may be shorter in some groups, such as a tile.
    pub(crate) fn run_steps(&self, data: &mut [T], op: ReduceOp) -> Result<()> {
        let (given, elements) = (data.len(), self.elements);
        assert!(given <= elements, "{given} elements for a reduction of {elements}: this is a bug in polyshard");
        self.steps.run(data, op)
    }

    /// Returns the number of elements of the arrays.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the bytes that this rank receives in one run, as communicators count them
    /// ([`Communicator::bytes_received`](crate::comm::Communicator::bytes_received)): those of the elements that [`Procedure::received`]
    /// returns.
    #[must_use]
    pub fn bytes_received(&self) -> usize {
        self.received * size_of::<T>()
    }

    /// Returns the bytes that this rank holds besides the data.
    #[must_use]
    pub fn staging_bytes(&self) -> usize {
        self.steps.staging.borrow().bytes()
    }
}

impl<T> fmt::Debug for Reduction<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reduction").field("elements", &self.elements).finish_non_exhaustive()
    }
}

/// Returns an error for a reduction of another number of ranks.
fn ranks_fit(world: &World, procedure: &Procedure) -> Result<()> {
    let (ranks, size) = (procedure.ranks(), world.size());
    if ranks == size { Ok(()) } else { Err(ReductionRunError::Ranks { ranks, size }.into()) }
}

/// Returns an error for arrays that no memory can hold.
fn check<T: Element>(elements: usize) -> Result<()> {
    let (max, dtype) = (isize::MAX as usize / size_of::<T>(), T::DTYPE);
    if elements <= max { Ok(()) } else { Err(ReductionRunError::TooLong { elements, dtype, max }.into()) }
}

/// A communicator of at least two ranks.
type Comm = Rc<dyn Communicator>;
