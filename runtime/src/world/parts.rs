//! Divisions of the world: groups of ranks that are not along axes of a mesh, each made once and kept.
//!
//! A division is identified by each rank's group and number in it, so a request for the same groups in the same order returns the same
//! communicator. It is separate from [`World::group`]: the two never share messages.

use super::World;
use crate::comm::Communicator;
use crate::{GroupError, Result};
use std::rc::Rc;

/// A division of the world.
pub(super) struct Part {
    /// For each rank: the lowest rank of its group, and its number in the group.
    seats: Vec<(usize, usize)>,
    /// This rank's group, if it has other members.
    comm: Option<Rc<dyn Communicator>>,
}

/// The world of the first ranks, as seen by this rank.
struct Leading {
    ranks: usize,
    world: Option<Rc<World>>,
}

impl World {
    /// Returns the communicator of the ranks with this rank's label; `labels` are those of all ranks, each the lowest rank that has it.
    /// `None` if only this rank has it.
    ///
    /// The first call with such labels is collective over the world (MPI 3.1, section 6.4.2), unless all of them
    /// differ.
    pub(crate) fn part(&self, labels: &[usize]) -> Result<Option<Rc<dyn Communicator>>> {
        let mut members = vec![0; labels.len()];
        let seats = labels.iter().map(|&label| {
            let number = members[label];
            members[label] += 1;
            (label, number)
        });
        self.divided(seats.collect())
    }

    /// Returns the communicator of the group that contains this rank, ranked in the order of that group; `None` if no group contains it, or
    /// it is alone.
    ///
    /// No rank is in two groups. The first call with these groups is collective over the world (MPI 3.1, section 6.4.2), unless none has
    /// two ranks.
    pub(crate) fn ordered(&self, groups: &[Vec<usize>]) -> Result<Option<Rc<dyn Communicator>>> {
        let mut seats: Vec<_> = (0..self.size()).map(|rank| (rank, 0)).collect();
        for group in groups {
            let label = group.iter().min().copied().unwrap_or(0);
            group.iter().enumerate().for_each(|(number, &rank)| seats[rank] = (label, number));
        }
        self.divided(seats)
    }

    /// Returns the world of the first `ranks` ranks, with the same numbers; `None` on the others, which are idle while it computes.
    ///
    /// The first call with this number is collective over this world; the result is kept.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let sums = spmd(3, |world| {
    ///     let Some(two) = world.leading(2)? else { return Ok(0) };
    ///     let mut sum = [world.rank() as i64 + 1];
    ///     two.all_reduce(&mut sum, ReduceOp::Sum)?;
    ///     Ok(sum[0])
    /// })?;
    /// assert_eq!(sums, [3, 3, 0]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`GroupError`](crate::GroupError) if the world has fewer ranks, or `ranks` is 0; otherwise as
    /// [`Communicator::split`](crate::comm::Communicator::split).
    pub fn leading(&self, ranks: usize) -> Result<Option<Rc<World>>> {
        if ranks == 0 || ranks > self.size() {
            return Err(GroupError::Leading { ranks, size: self.size() }.into());
        }
        let made = self.kept(
            |made: &Leading| made.ranks == ranks,
            || {
                let is_one = self.rank() < ranks;
                let comm = match ranks == self.size() {
                    true => Rc::clone(&self.comm),
                    false => Rc::from(self.comm.split(usize::from(!is_one), self.rank())?),
                };
                Ok::<_, crate::Error>(Leading { ranks, world: is_one.then(|| Rc::new(self.with_comm(comm))) })
            },
        )?;
        Ok(made.world.clone())
    }

    fn divided(&self, seats: Vec<(usize, usize)>) -> Result<Option<Rc<dyn Communicator>>> {
        if seats.iter().enumerate().all(|(rank, &(label, _))| rank == label) {
            return Ok(None);
        }
        let known = self.parts.borrow().iter().find(|part| part.seats == seats).map(|part| part.comm.clone());
        if let Some(comm) = known {
            return Ok(comm);
        }
        let (color, key) = seats[self.rank()];
        let comm: Rc<dyn Communicator> = Rc::from(self.comm.split(color, key)?);
        let comm = Some(comm).filter(|comm| comm.size() > 1);
        self.parts.borrow_mut().push(Part { seats, comm: comm.clone() });
        Ok(comm)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Result, spmd};
    use std::rc::Rc;

    #[test]
    fn groups_are_ranked_in_the_order_given_and_made_once() {
        spmd(5, |world| -> Result<()> {
            let groups = [vec![3, 0], vec![4, 1]];
            let comm = world.ordered(&groups)?;
            let rank = comm.as_ref().map(|comm| (comm.rank(), comm.size()));
            assert_eq!(rank, [Some((1, 2)), Some((1, 2)), None, Some((0, 2)), Some((0, 2))][world.rank()]);
            let again = world.ordered(&[vec![4, 1], vec![3, 0], vec![2]])?;
            let other = world.ordered(&[vec![0, 3], vec![1, 4]])?;
            if let (Some(comm), Some(again), Some(other)) = (comm, again, other) {
                assert!(Rc::ptr_eq(&comm, &again), "the same groups are the same communicator");
                assert!(!Rc::ptr_eq(&comm, &other), "another order is another one");
            }
            let labelled = world.part(&[0, 1, 2, 0, 1])?;
            assert_eq!(labelled.map(|comm| comm.rank()), [Some(0), Some(0), None, Some(1), Some(1)][world.rank()]);
            Ok(())
        })
        .unwrap();
    }
}
