//! Reductions along axes of a placed mesh: in place, by any program of collectives, made once and run many times.
//!
//! Ranks that differ along the axes only are summed with each other. How is for a [`Strategy`] to say: in one
//! all-reduce, in the steps that a planner found for the machine, in steps that the caller wrote, or in one fixed
//! order, which gives the same bits everywhere.
//!
//! | module | what |
//! | --- | --- |
//! | `strategy` | from a strategy to groups of ranks; programs are proved here, and refused |
//! | `piece` | chunks of a program as ranges of an array of any length |
//! | `step` | one step of a program, as one rank sees it |
//! | `in_order` | the reduction whose bits do not depend on where ranks are |
//! | `kept` | reductions asked for in passing, `placed.allreduce(..)` |
//! | `explain` | what a reduction does and what the simulator expects, in words |
//! | `check` | what is refused |
//! | `words` | how axes and groups are written |
//!
//! Nothing here decides which program is best: that is the planner's. Nothing is sent that the program does not say.

mod check;
mod explain;
mod in_order;
mod kept;
mod piece;
mod step;
mod strategy;
mod words;

pub use kept::AllReduce;
pub use strategy::Strategy;

use crate::comm::Communicator;
use crate::{Element, ReduceOp, Result, World};
use in_order::InOrder;
use polyshard_planner::placement::{AxisRef, PlacedMesh};
use polyshard_planner::reduce::{Lowered, Simulation};
use std::cell::RefCell;
use std::rc::Rc;
use step::{Staging, Step};
use strategy::{Choice, Course};

/// A reduction of arrays of one length over axes of a placed mesh, made once and run many times.
///
/// ```text
/// mesh (data: 2, model: 2), over `data`      ranks by coordinates
///
/// before   (0, 0): a    (0, 1): b            after   (0, 0): a + c    (0, 1): b + d
///          (1, 0): c    (1, 1): d                    (1, 0): a + c    (1, 1): b + d
/// ```
///
/// ```
/// use polyshard_machine::Machine;
/// use polyshard_planner::placement::{ParallelismMatrix, Place};
/// use polyshard_runtime::layout::Mesh;
/// use polyshard_runtime::{Error, ReduceOp, Reduction, Strategy, spmd};
/// let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 2])).expect("a machine");
/// let matrix = ParallelismMatrix::new(vec![vec![2, 1], vec![1, 2]]).expect("a matrix");
/// let placed = Mesh::new([("data", 2), ("model", 2)]).placed(&machine, &matrix).expect("the matrix is for both");
/// let sums = spmd(4, |world| {
///     let sum = Reduction::new(world, &placed, &["data"], 3, Strategy::Best)?;
///     let mut gradient = [1, 10, 100].map(|unit| unit * world.rank() as i64);
///     sum.run(&mut gradient, ReduceOp::Sum)?;
///     Ok::<_, Error>(gradient)
/// })?;
/// assert_eq!(sums, [[2, 20, 200], [4, 40, 400], [2, 20, 200], [4, 40, 400]]); // devices 0 and 2, 1 and 3
/// # Ok::<(), Error>(())
/// ```
///
/// **Bits.** Integers (which wrap), maxima and minima are the same for all strategies. Sums and products of floats
/// differ by the order in which they are rounded: with unit roundoff `u` and `n` ranks, `g = (n - 1) u / (1 - (n - 1) u)`,
/// two strategies' sums differ by at most `2 g (|x_1| + .. + |x_n|)`, their products by at most `2 g |x_1 .. x_n|` unless a
/// product in between over- or underflows (N. Higham, "Accuracy and Stability of Numerical Algorithms", section 3.1).
/// [`Deterministic`](Strategy::Deterministic) combines in one order, and so has the same bits on every machine of one
/// kind of processor. Which zero is the greater, and which NaN is kept, is not defined.
///
/// **Bytes.** A run receives what its steps say and no more: see [`bytes_received`](Self::bytes_received).
pub struct Reduction<T> {
    placed: PlacedMesh,
    /// Positions in the mesh, ascending.
    axes: Vec<usize>,
    elements: usize,
    choice: Choice,
    way: Way,
    staging: RefCell<Staging<T>>,
}

/// What this rank does.
enum Way {
    /// The steps that it takes part in, and that have something to do.
    Steps(Vec<Step>),
    /// One fixed order; nothing if this rank is alone.
    InOrder(Option<InOrder>),
}

impl<T: Element> Reduction<T> {
    /// Works out the reduction of arrays of `elements` elements over `axes`, each a name or a position; collective over
    /// the world.
    ///
    /// `world` is the one that `spmd` gives, whose ranks are the devices of the machine, or that one placed by `placed`
    /// itself: the reduction is the same, since an array is where its process is. Each group of a step becomes a
    /// communicator (MPI 3.1, section 6.4.2), which the world keeps for all steps and reductions with equal groups.
    ///
    /// # Errors
    /// If the mesh has not as many ranks as the world, the world is under another placement, an axis does not exist or
    /// is named twice, so many elements fit no memory, or a program given cannot be lowered, does not compute the reduction or is for other groups: each
    /// is said before any communication. If the ranks give different reductions, or another rank failed.
    pub fn new<A: AxisRef>(
        world: &World,
        placed: &PlacedMesh,
        axes: &[A],
        elements: usize,
        strategy: Strategy,
    ) -> Result<Self> {
        check::world(world, placed)?;
        check::fits::<T>(elements)?;
        let axes = placed.positions(axes).map_err(words::usage)?;
        let choice = Choice::new(placed, &axes, elements as f64 * size_of::<T>() as f64, strategy)?;
        check::agree::<T>(world, placed, &axes, elements, &choice.strategy)?;
        let (way, staging) = match &choice.course {
            Course::Program { lowered, .. } => {
                let steps = step::steps::<T>(world, placed, lowered, elements)?;
                let staging = Staging::of_steps(&steps)?;
                (Way::Steps(steps), staging)
            }
            Course::InOrder { groups } => {
                let comm = world.ordered(&check::numbered(world, placed, groups))?;
                let way = comm.map(|comm| InOrder::new::<T>(comm, elements));
                let staging = match &way {
                    Some(way) => Staging::new(way.gathered(), way.own())?,
                    None => Staging::default(),
                };
                (Way::InOrder(way), staging)
            }
        };
        Ok(Self { placed: placed.clone(), axes, elements, choice, way, staging: RefCell::new(staging) })
    }

    /// Reduces `data` in place with those of the ranks that differ along the axes only; collective over these.
    ///
    /// Allocates nothing: all that it needs besides `data` was made with the reduction. The communicator may.
    ///
    /// # Errors
    /// If `data` has not as many elements as the reduction, or another rank failed.
    pub fn run(&self, data: &mut [T], op: ReduceOp) -> Result<()> {
        check::length(data.len(), self.elements)?;
        let staging = &mut *self.staging.borrow_mut();
        match &self.way {
            Way::Steps(steps) => steps.iter().try_for_each(|step| step.run(data, op, staging)),
            Way::InOrder(None) => Ok(()),
            Way::InOrder(Some(way)) => way.run(data, op, staging),
        }
    }

    /// Returns the placed mesh.
    #[must_use]
    pub fn placed(&self) -> &PlacedMesh {
        &self.placed
    }

    /// Returns the positions in the mesh of the axes that are reduced over, ascending.
    #[must_use]
    pub fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Returns the number of elements of the arrays.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the strategy.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.choice.strategy
    }

    /// Returns the program that runs, in groups of devices; none if it is [`Deterministic`](Strategy::Deterministic).
    #[must_use]
    pub fn lowered(&self) -> Option<&Lowered> {
        match &self.choice.course {
            Course::Program { lowered, .. } => Some(lowered),
            Course::InOrder { .. } => None,
        }
    }

    /// Returns how long it takes on the machine of the placement, by its model.
    #[must_use]
    pub fn simulation(&self) -> &Simulation {
        &self.choice.simulation
    }

    /// Returns how long one all-reduce takes there.
    #[must_use]
    pub fn simulation_of_direct(&self) -> &Simulation {
        &self.choice.direct
    }

    /// Returns the bytes that this rank receives in one run, as communicators count them
    /// ([`Communicator::bytes_received`](crate::comm::Communicator::bytes_received)).
    ///
    /// Of a group of `n` ranks where this one holds `b` bytes before the step: `(n - 1) b` in an all-reduce, and in a
    /// reduce on the first; `(n - 1) b / n` in a reduce-scatter and `(n - 1) b` in an all-gather if pieces are equal;
    /// what the first holds in a broadcast, on the others. In one fixed order it is what a reduce-scatter and an
    /// all-gather receive.
    #[must_use]
    pub fn bytes_received(&self) -> usize {
        let elements: usize = match &self.way {
            Way::Steps(steps) => steps.iter().map(Step::received).sum(),
            Way::InOrder(way) => way.as_ref().map_or(0, InOrder::received),
        };
        elements * size_of::<T>()
    }

    /// Returns the bytes that this rank holds besides the data.
    #[must_use]
    pub fn staging_bytes(&self) -> usize {
        self.staging.borrow().len() * size_of::<T>()
    }
}

/// A communicator of at least two ranks.
type Comm = Rc<dyn Communicator>;
