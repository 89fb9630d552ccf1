//! Reductions along axes of a placed mesh: planned for its machine, and run in place.

use crate::{Error, Result};
use polyshard_planner::placement::{AxisRef, PlacedMesh};
use polyshard_planner::reduce::{ReductionPlan, Strategy};
use polyshard_runtime::{Element, ReduceOp, World};
use std::ops::Deref;

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
/// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
/// use polyshard::planner::reduce::{Reduction, Strategy};
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[2, 2])?;
/// let matrix = ParallelismMatrix::new(vec![vec![2, 1], vec![1, 2]])?;
/// let placed = PlacedMesh::new(&Mesh::new([("data", 2), ("model", 2)]), &machine, &matrix)?;
/// let sums = polyshard::spmd(4, |world| {
///     let sum = Reduction::new(world, &placed, &["data"], 3, Strategy::Best)?;
///     let mut gradient = [1, 10, 100].map(|unit| unit * world.rank() as i64);
///     sum.run(&mut gradient, ReduceOp::Sum)?;
///     Ok(gradient)
/// })?;
/// assert_eq!(sums, [[2, 20, 200], [4, 40, 400], [2, 20, 200], [4, 40, 400]]); // devices 0 and 2, 1 and 3
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// Dereferences to its [`ReductionPlan`], which explains it. [`runtime::Reduction`](crate::runtime::Reduction)
/// documents its bits and bytes.
pub struct Reduction<T> {
    plan: ReductionPlan,
    reduction: polyshard_runtime::Reduction<T>,
}

impl<T: Element> Reduction<T> {
    /// Works out the reduction of arrays of `elements` elements over `axes`, each a name or a position; collective over
    /// the world.
    ///
    /// `world` is the world that `spmd` passes, whose ranks are the devices of the machine, or that world placed by
    /// `placed`; the reduction is the same, since an array stays in its process. Each group of a step becomes a
    /// communicator (MPI 3.1, section 6.4.2), which the world keeps for all steps and reductions with equal groups.
    ///
    /// # Errors
    /// Before any communication: if the mesh and the world differ in size, the world is under another placement, an
    /// axis does not exist or is named twice, the elements exceed any memory, or a given program cannot be lowered,
    /// does not compute the reduction or is for other groups. Afterwards: if the ranks give different reductions, or
    /// another rank failed.
    pub fn new<A: AxisRef>(
        world: &World,
        placed: &PlacedMesh,
        axes: &[A],
        elements: usize,
        strategy: Strategy,
    ) -> Result<Self> {
        world.check_mesh(placed.mesh())?;
        let of_mesh = match world.numbering() {
            Some(numbering) if numbering.ranks() != placed.ranks() => {
                return Err(Error::PlacedOtherwise { placed: Box::new(placed.clone()), name: numbering.name().into() });
            }
            numbering => numbering.is_some(),
        };
        let plan = placed.reduction(axes, elements, T::DTYPE, strategy)?;
        let says = format!(
            "a reduction of {elements} elements\na reduction of `{}` over {}\na reduction on {placed}\na reduction {}",
            T::DTYPE.name(),
            plan.axis_names(),
            plan.procedure().shown()
        );
        world.agree(&says, &(placed.mesh(), placed.ranks(), plan.procedure()))?;
        let reduction = if of_mesh {
            polyshard_runtime::Reduction::new(world, &plan.procedure_in_mesh(), elements)?
        } else {
            polyshard_runtime::Reduction::new(world, plan.procedure(), elements)?
        };
        Ok(Self { plan, reduction })
    }

    /// Reduces `data` in place over the ranks that differ along the axes only; collective over these ranks.
    ///
    /// # Errors
    /// As [`runtime::Reduction::run`](crate::runtime::Reduction::run).
    pub fn run(&self, data: &mut [T], op: ReduceOp) -> Result<()> {
        Ok(self.reduction.run(data, op)?)
    }

    /// Returns the bytes that this rank receives in one run, as [`runtime::Reduction::bytes_received`](crate::runtime::Reduction::bytes_received).
    #[must_use]
    pub fn bytes_received(&self) -> usize {
        self.reduction.bytes_received()
    }

    /// Returns the bytes that this rank holds in addition to the data.
    #[must_use]
    pub fn staging_bytes(&self) -> usize {
        self.reduction.staging_bytes()
    }

    fn is(&self, placed: &PlacedMesh, axes: &[usize], elements: usize, strategy: &Strategy) -> bool {
        let plan = &self.plan;
        plan.elements() == elements && plan.axes() == axes && plan.strategy() == strategy && plan.placed() == placed
    }
}

impl<T> Deref for Reduction<T> {
    type Target = ReductionPlan;

    fn deref(&self) -> &ReductionPlan {
        &self.plan
    }
}

/// Reduces `data` in place over the ranks that differ along `axes` of a placed mesh only; collective over the world.
///
/// The [`Reduction`] is made at the first call with a given length, type, axes and strategy, and cached in the world,
/// which keeps the 32 used last. All ranks must make the same calls in the same order. `world` is as in
/// [`Reduction::new`]. Without a machine, in rank order:
/// [`Collectives::all_reduce`](crate::runtime::Collectives::all_reduce) of a world or a group.
///
/// ```
/// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
/// use polyshard::planner::reduce::{Strategy, all_reduce};
/// use polyshard::prelude::*;
/// let machine = Machine::preset("v100")?.with_counts(&[2, 2])?;
/// let matrix = ParallelismMatrix::new(vec![vec![2, 2]])?;
/// let placed = PlacedMesh::new(&Mesh::new([("data", 4)]), &machine, &matrix)?;
/// let greatest = polyshard::spmd(4, |world| {
///     let mut loss = [world.rank() as f32, -(world.rank() as f32)];
///     all_reduce(world, &placed, &["data"], &mut loss, ReduceOp::Max, Strategy::Best)?;
///     Ok(loss)
/// })?;
/// assert_eq!(greatest, [[3.0, 0.0]; 4]);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// As [`Reduction::new`] and [`Reduction::run`].
pub fn all_reduce<T: Element, A: AxisRef>(
    world: &World,
    placed: &PlacedMesh,
    axes: &[A],
    data: &mut [T],
    op: ReduceOp,
    strategy: Strategy,
) -> Result<()> {
    let axes = placed.positions(axes)?;
    let sum = world.kept(
        |sum: &Reduction<T>| sum.is(placed, &axes, data.len(), &strategy),
        || Reduction::new(world, placed, &axes, data.len(), strategy.clone()),
    )?;
    sum.run(data, op)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_layout::Mesh;
    use polyshard_machine::Machine;
    use polyshard_planner::placement::ParallelismMatrix;

    #[test]
    fn equal_calls_share_a_reduction_and_old_ones_are_forgotten() {
        let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[1, 2])).expect("a machine");
        let matrix = ParallelismMatrix::new(vec![vec![1, 2]]).expect("a matrix");
        let placed = PlacedMesh::new(&Mesh::new([("x", 2)]), &machine, &matrix).expect("the matrix is for both");
        polyshard_runtime::spmd(2, |world| -> Result<()> {
            let sum = |len: usize, strategy: Strategy| -> Result<()> {
                let mut data = vec![world.rank() as i32 + 1; len];
                all_reduce(world, &placed, &["x"], &mut data, ReduceOp::Sum, strategy)?;
                assert_eq!(data, vec![3; len]);
                Ok(())
            };
            let kept = |len, strategy: Strategy| {
                let is = |plan: &Reduction<i32>| plan.is(&placed, &[0], len, &strategy);
                world.kept(is, || Err(())).is_ok()
            };
            assert!(!kept(5, Strategy::Best));
            sum(5, Strategy::Best)?;
            sum(5, Strategy::Best)?;
            assert!(kept(5, Strategy::Best) && !kept(5, Strategy::Direct));
            sum(5, Strategy::Direct)?;
            sum(6, Strategy::Best)?;
            assert!(kept(5, Strategy::Direct) && kept(6, Strategy::Best));
            let mut data = [0.5f64; 5];
            all_reduce(world, &placed, &[0], &mut data, ReduceOp::Sum, Strategy::Best)?;
            assert_eq!(data, [1.0; 5], "another type is another one");
            for len in 10..10 + 31 {
                sum(len, Strategy::Best)?;
                // A reduction in use stays cached.
                sum(5, Strategy::Best)?;
            }
            assert!(!kept(6, Strategy::Best) && kept(5, Strategy::Best));
            Ok(())
        })
        .unwrap();
    }
}
