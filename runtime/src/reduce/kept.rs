//! Reductions asked for in passing: made at the first call, found again at the next.

use super::words::usage;
use super::{Reduction, Strategy};
use crate::{Element, ReduceOp, Result, World};
use polyshard_planner::placement::{AxisRef, PlacedMesh};
use std::rc::Rc;

/// What can be reduced over axes without making a [`Reduction`] first: a [`PlacedMesh`], whose machine says how.
///
/// Without a machine, in rank order: [`Collectives::all_reduce`](crate::Collectives::all_reduce) of a world or a group.
pub trait AllReduce {
    /// Reduces `data` in place with those of the ranks that differ along `axes` only; collective over the world.
    ///
    /// The [`Reduction`] is made at the first call with such a length, type, axes and strategy, and then kept in the
    /// world: the 32 that were used last. All ranks must make the same calls in the same order. `world` is as in
    /// [`Reduction::new`].
    ///
    /// ```
    /// use polyshard_machine::Machine;
    /// use polyshard_planner::placement::{ParallelismMatrix, Place};
    /// use polyshard_runtime::layout::Mesh;
    /// use polyshard_runtime::{AllReduce, Error, ReduceOp, Strategy, spmd};
    /// let machine = Machine::preset("v100").and_then(|machine| machine.with_counts(&[2, 2])).expect("a machine");
    /// let matrix = ParallelismMatrix::new(vec![vec![2, 2]]).expect("a matrix");
    /// let placed = Mesh::new([("data", 4)]).placed(&machine, &matrix).expect("the matrix is for both");
    /// let greatest = spmd(4, |world| {
    ///     let mut loss = [world.rank() as f32, -(world.rank() as f32)];
    ///     placed.allreduce(world, &["data"], &mut loss, ReduceOp::Max, Strategy::Best)?;
    ///     Ok::<_, Error>(loss)
    /// })?;
    /// assert_eq!(greatest, [[3.0, 0.0]; 4]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Reduction::new`] and [`Reduction::run`].
    fn allreduce<T: Element, A: AxisRef>(
        &self,
        world: &World,
        axes: &[A],
        data: &mut [T],
        op: ReduceOp,
        strategy: Strategy,
    ) -> Result<()>;
}

impl AllReduce for PlacedMesh {
    fn allreduce<T: Element, A: AxisRef>(
        &self,
        world: &World,
        axes: &[A],
        data: &mut [T],
        op: ReduceOp,
        strategy: Strategy,
    ) -> Result<()> {
        let axes = self.positions(axes).map_err(usage)?;
        let known = world.kept().borrow_mut().find(|plan: &Reduction<T>| plan.is(self, &axes, data.len(), &strategy));
        let plan = match known {
            Some(plan) => plan,
            None => {
                let plan = Rc::new(Reduction::<T>::new(world, self, &axes, data.len(), strategy)?);
                world.kept().borrow_mut().keep(Rc::clone(&plan));
                plan
            }
        };
        plan.run(data, op)
    }
}

impl<T: Element> Reduction<T> {
    fn is(&self, placed: &PlacedMesh, axes: &[usize], elements: usize, strategy: &Strategy) -> bool {
        self.elements == elements && self.axes == axes && self.choice.strategy == *strategy && self.placed == *placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Mesh;
    use crate::spmd;
    use polyshard_machine::Machine;
    use polyshard_planner::placement::{ParallelismMatrix, Place};

    #[test]
    fn equal_calls_share_a_reduction_and_old_ones_are_forgotten() {
        let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[1, 2])).expect("a machine");
        let matrix = ParallelismMatrix::new(vec![vec![1, 2]]).expect("a matrix");
        let placed = Mesh::new([("x", 2)]).placed(&machine, &matrix).expect("the matrix is for both");
        spmd(2, |world| -> Result<()> {
            let sum = |len: usize, strategy: Strategy| -> Result<usize> {
                let mut data = vec![world.rank() as i32 + 1; len];
                placed.allreduce(world, &["x"], &mut data, ReduceOp::Sum, strategy)?;
                assert_eq!(data, vec![3; len]);
                Ok(world.kept().borrow().len())
            };
            assert_eq!(sum(5, Strategy::Best)?, 1);
            assert_eq!(sum(5, Strategy::Best)?, 1);
            assert_eq!(sum(5, Strategy::Direct)?, 2);
            assert_eq!(sum(6, Strategy::Best)?, 3);
            let mut data = [0.5f64; 5];
            placed.allreduce(world, &[0], &mut data, ReduceOp::Sum, Strategy::Best)?;
            assert_eq!(world.kept().borrow().len(), 4, "another type is another one");
            for len in 10..10 + 31 {
                sum(len, Strategy::Best)?;
                // Whoever is used stays.
                sum(5, Strategy::Best)?;
            }
            assert_eq!(sum(5, Strategy::Best)?, 32);
            let kept = |len| {
                world.kept().borrow_mut().find(|plan: &Reduction<i32>| plan.is(&placed, &[0], len, &Strategy::Best))
            };
            assert!(kept(6).is_none() && kept(5).is_some());
            Ok(())
        })
        .unwrap();
    }
}
