//! Agreement: objects that the ranks create together must be the same on all of them.
//!
//! Ranks that create different objects would wait for each other, or worse, send each other the wrong elements. So each describes its
//! object before it creates it, in a hash that costs one small collective; the words follow only if hashes differ. All ranks then return
//! the same error, whichever is the fastest.

use super::World;
use crate::comm::{Broadcast, Communicator, exchange_words};
use crate::{Error, Result};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Returns a number that differs if the values do, with overwhelming probability.
pub(crate) fn hash_of(what: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Returns what each rank of a group says, unless all say the same, which costs one small collective.
pub(crate) fn texts_if_differ(
    comm: &dyn Communicator,
    about: impl Into<Cow<'static, str>>,
    says: &str,
) -> Result<Option<Vec<String>>> {
    let told = exchange_words(comm, about, [hash_of(says), says.len() as u64])?;
    if told.iter().all(|header| *header == told[0]) {
        return Ok(None);
    }
    let texts = told.iter().enumerate().map(|(rank, header)| text_of(comm, rank, says, header[1] as usize));
    texts.collect::<Result<_>>().map(Some)
}

/// Returns the text of `rank`, of `bytes` bytes; collective.
fn text_of(comm: &dyn Communicator, rank: usize, says: &str, bytes: usize) -> Result<String> {
    if rank == comm.rank() {
        comm.broadcast(Broadcast::Send(says.as_bytes()))?;
        return Ok(says.into());
    }
    let mut text = vec![0; bytes];
    comm.broadcast(Broadcast::Receive { root: rank, into: &mut text })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

impl World {
    /// Returns an error if the ranks do not create the same object; collective.
    ///
    /// `says` describes the object for people, in lines that can each be read alone: the error quotes the first line that differs, of rank
    /// 0 and of the first rank that creates something else. `what` is everything that must be the same.
    ///
    /// # Errors
    /// If the ranks describe different objects, or another rank failed.
    pub fn agree(&self, says: &str, what: &impl Hash) -> Result<()> {
        let line = format!("{:016x} {says}", hash_of(what));
        let Some(told) = texts_if_differ(self.comm(), "an agreement on objects to create", &line)? else {
            return Ok(());
        };
        let other = told.iter().position(|text| *text != told[0]).unwrap_or(0);
        let text = |rank: usize| told[rank].split_once(' ').map_or("", |(_, says)| says);
        let (first, second) = (text(0), text(other));
        let [zero, other] =
            [0, other].map(|rank| self.numbering.as_ref().map_or(rank, |numbering| numbering.ranks()[rank]));
        if first == second {
            let what = first.lines().next().unwrap_or("something");
            return Err(Error::Mismatch(format!(
                "ranks disagree: ranks {zero} and {other} both create {what}, but with different values; all ranks \
                 must create the same objects in the same order"
            )));
        }
        let differing = first.lines().zip(second.lines()).find(|(first, second)| first != second);
        let (first, second) = differing.unwrap_or((first, second));
        Err(Error::Mismatch(format!(
            "ranks disagree: rank {zero} creates {first}, rank {other} creates {second}; all ranks must create the \
             same objects in the same order"
        )))
    }

    /// Returns the text of rank 0 on all ranks; those of the others are ignored. Collective.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let texts = spmd(3, |world| Ok(world.broadcast_text(&format!("rank {}", world.rank()))?))?;
    /// assert_eq!(texts, ["rank 0"; 3]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Communicator::broadcast`](crate::comm::Communicator::broadcast).
    pub fn broadcast_text(&self, text: &str) -> Result<String> {
        let lengths = exchange_words(&*self.comm, "a text of rank 0", [text.len() as u64])?;
        match lengths[0][0] {
            0 => Ok(String::new()),
            bytes => text_of(self.comm(), 0, text, bytes as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Mesh, Placement, Sharding};
    use crate::{Redistribution, Reduction, spmd};
    use polyshard_program::reduction::Procedure;

    /// Checks the error on each of four ranks.
    #[track_caller]
    fn check(f: impl Fn(&World) -> Result<()> + Sync, expected: &str) {
        let said = spmd(4, |world| Ok::<_, Error>(f(world).expect_err("they differ").to_string()));
        assert_eq!(said.expect("all ranks go on"), [expected; 4]);
    }

    #[test]
    fn ranks_that_say_the_same_agree() {
        spmd(3, |world| ["a tree", "a tree of\ntwo lines", ""].iter().try_for_each(|says| world.agree(says, &1)))
            .expect("the same");
    }

    #[test]
    fn the_first_line_that_differs_is_told_of_the_first_two() {
        check(
            |world| world.agree(&format!("a tree\na tree of {} leaves\na tree of Ö", [7, 7, 12, 9][world.rank()]), &()),
            "ranks disagree: rank 0 creates a tree of 7 leaves, rank 2 creates a tree of 12 leaves; all ranks must \
             create the same objects in the same order",
        );
        check(
            |world| world.agree(if world.rank() == 1 { "a bush\nof 3 metres" } else { "a tree" }, &()),
            "ranks disagree: rank 0 creates a tree, rank 1 creates a bush; all ranks must create the same objects in \
             the same order",
        );
        check(
            |world| world.agree("a tree\nof leaves", &(world.rank() / 3)),
            "ranks disagree: ranks 0 and 3 both create a tree, but with different values; all ranks must create the \
             same objects in the same order",
        );
    }

    #[test]
    fn ranks_that_create_different_kinds_of_things_are_told() {
        let mesh = Mesh::new([("x", 2), ("y", 2)]);
        let procedure = Procedure::in_order(vec![vec![0, 2], vec![1, 3]]).expect("each rank is in one");
        let [rows, columns] = [0, 1].map(|dim| {
            Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<2>()[0])]).expect("a sharding")
        });
        check(
            |world| match world.rank() {
                3 => Redistribution::new(world, &rows, &columns).map(drop),
                _ => Reduction::<f32>::new(world, &procedure, 8).map(drop),
            },
            "ranks disagree: rank 0 creates a reduction of 8 elements, rank 3 creates a redistribution from [0 @ x] to \
             [1 @ x]; all ranks must create the same objects in the same order",
        );
    }

    #[test]
    fn a_renumbered_world_names_the_ranks_of_the_machine() {
        let mesh = Mesh::new([("x", 2), ("y", 2)]);
        check(
            |world| {
                let world_of_mesh = world.renumbered(&mesh, &[0, 2, 1, 3], "columns first")?;
                world_of_mesh.agree(if world.rank() == 2 { "a bush" } else { "a tree" }, &())
            },
            "ranks disagree: rank 0 creates a tree, rank 2 creates a bush; all ranks must create the same objects in \
             the same order",
        );
    }

    #[test]
    fn ranks_with_different_numberings_are_told() {
        let mesh = Mesh::new([("x", 2), ("y", 2)]);
        let (rows, columns) = (([0, 1, 2, 3], "rows first"), ([0, 2, 1, 3], "columns first"));
        check(
            |world| {
                let (ranks, text) = if world.rank() == 3 { columns } else { rows };
                world.renumbered(&mesh, &ranks, text).map(drop)
            },
            "ranks disagree: rank 0 creates the placement rows first, rank 3 creates the placement columns first; all \
             ranks must create the same objects in the same order",
        );
    }

    #[test]
    fn orders_of_other_ranks_are_refused() {
        let mesh = Mesh::new([("x", 2), ("y", 2)]);
        let order = "the order [0, 1, 1, 3] does not have each of the ranks 0..4 once; give it each once";
        check(|world| world.renumbered(&mesh, &[0, 1, 1, 3], "twice").map(drop), order);
        check(
            |world| world.renumbered(&mesh, &[3, 2, 1, 0], "back")?.renumbered(&mesh, &[0, 1, 2, 3], "there").map(drop),
            "the world is already placed, back; pass the world of `spmd`",
        );
    }
}
