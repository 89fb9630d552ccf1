//! Agreement: what the ranks create together must be the same on all of them.
//!
//! Ranks that create different things would wait for each other, or worse, send each other the wrong elements. So each
//! says what it creates before it does so, in a hash that costs one small collective; the words follow only where hashes
//! differ. All ranks then say the same, whichever is the fastest.

use super::World;
use crate::comm::Broadcast;
use crate::{Error, Result};
use std::hash::{DefaultHasher, Hash, Hasher};

impl World {
    /// Refuses what the ranks do not create alike; collective.
    ///
    /// `says` is all that must be the same, in lines of which each can be read alone: the first line that differs is told,
    /// of rank 0 and of the first rank that creates something else.
    ///
    /// # Errors
    /// If the ranks say different things, or another rank failed.
    pub(crate) fn agree(&self, says: &str) -> Result<()> {
        let mut hasher = DefaultHasher::new();
        says.hash(&mut hasher);
        let told =
            self.comm.tell_about("an agreement on what to create", [hasher.finish(), says.len() as u64, 0, 0])?;
        let Some(other) = told.iter().position(|note| *note != told[0]) else { return Ok(()) };
        let hear = |rank: usize| self.hear(rank, says, told[rank][1] as usize);
        let (first, second) = (hear(0)?, hear(other)?);
        let differing = first.lines().zip(second.lines()).find(|(first, second)| first != second);
        let (first, second) = differing.unwrap_or((&first, &second));
        let [zero, other] = [0, other].map(|rank| self.placement.as_ref().map_or(rank, |placed| placed.ranks()[rank]));
        Err(Error::Mismatch(format!(
            "ranks disagree: rank {zero} creates {first}, rank {other} creates {second}; all ranks must create the same, \
             in the same order"
        )))
    }

    /// Returns what `rank` says, `bytes` bytes; collective.
    fn hear(&self, rank: usize, says: &str, bytes: usize) -> Result<String> {
        if rank == self.rank() {
            self.comm.broadcast(Broadcast::Send(says.as_bytes()))?;
            return Ok(says.into());
        }
        let mut heard = vec![0; bytes];
        self.comm.broadcast(Broadcast::Receive { root: rank, into: &mut heard })?;
        Ok(String::from_utf8_lossy(&heard).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Mesh, Placement, Sharding};
    use crate::{Redistribution, Reduction, Strategy, spmd};
    use polyshard_machine::Machine;
    use polyshard_planner::placement::{ParallelismMatrix, Place, PlacedMesh};

    /// Four ranks on two nodes of two, axis x across nodes or inside.
    fn placed(x: [usize; 2]) -> PlacedMesh {
        let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 2])).expect("a machine");
        let matrix = ParallelismMatrix::new(vec![x.to_vec(), vec![2 / x[0], 2 / x[1]]]).expect("a matrix");
        Mesh::new([("x", 2), ("y", 2)]).placed(&machine, &matrix).expect("the matrix is for both")
    }

    /// Checks what every one of four ranks is told.
    #[track_caller]
    fn check(f: impl Fn(&World) -> Result<()> + Sync, expected: &str) {
        let said = spmd(4, |world| Ok::<_, Error>(f(world).expect_err("they differ").to_string()));
        assert_eq!(said.expect("all ranks go on"), [expected; 4]);
    }

    #[test]
    fn ranks_that_say_the_same_agree() {
        spmd(3, |world| ["a tree", "a tree of\ntwo lines", ""].iter().try_for_each(|says| world.agree(says)))
            .expect("the same");
    }

    #[test]
    fn the_first_line_that_differs_is_told_of_the_first_two() {
        check(
            |world| world.agree(&format!("a tree\na tree of {} leaves\na tree of Ö", [7, 7, 12, 9][world.rank()])),
            "ranks disagree: rank 0 creates a tree of 7 leaves, rank 2 creates a tree of 12 leaves; all ranks must create \
             the same, in the same order",
        );
        check(
            |world| world.agree(if world.rank() == 1 { "a bush\nof 3 metres" } else { "a tree" }),
            "ranks disagree: rank 0 creates a tree, rank 1 creates a bush; all ranks must create the same, in the same \
             order",
        );
    }

    #[test]
    fn ranks_that_create_different_kinds_of_things_are_told() {
        let (mesh, placed) = (Mesh::new([("x", 2), ("y", 2)]), placed([2, 1]));
        let [rows, columns] = [0, 1].map(|dim| {
            Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<2>()[0])]).expect("a sharding")
        });
        check(
            |world| match world.rank() {
                3 => Redistribution::new(world, &rows, &columns).map(drop),
                _ => Reduction::<f32>::new(world, &placed, &["x"], 8, Strategy::Direct).map(drop),
            },
            "ranks disagree: rank 0 creates a reduction of 8 elements, rank 3 creates a redistribution from [0 @ x] to \
             [1 @ x]; all ranks must create the same, in the same order",
        );
    }

    #[test]
    fn a_placed_world_names_the_ranks_of_the_machine() {
        let placed = placed([1, 2]);
        check(
            |world| world.placed(&placed)?.agree(if world.rank() == 2 { "a bush" } else { "a tree" }),
            "ranks disagree: rank 0 creates a tree, rank 2 creates a bush; all ranks must create the same, in the same \
             order",
        );
    }

    #[test]
    fn ranks_with_different_placements_are_told() {
        let placed = [placed([2, 1]), placed([1, 2])];
        check(
            |world| world.placed(&placed[world.rank() / 3]).map(drop),
            "ranks disagree: rank 0 creates the placement (x: 2, y: 2) as [[2 1] [1 2]] on a100: 2 node x 2 gpu, rank 3 \
             creates the placement (x: 2, y: 2) as [[1 2] [2 1]] on a100: 2 node x 2 gpu; all ranks must create the same, \
             in the same order",
        );
    }
}
