//! The number of elements that each rank contributes to a collective, if only the rank itself knows it.
//!
//! Ranks exchange their lengths in one small collective before the data, together with the operation that they are about to perform, so
//! that a different root or element type is an error on all of them, on every communicator.

use crate::comm::{Communicator, exchange_words, sentence};
use crate::memory::split_mut;
use crate::world::{hash_of, texts_if_differ};
use crate::{CommError, Element, Error, Result};
use bytemuck::{cast_slice, cast_slice_mut};
use polyshard_layout::counted;

/// A collective with a different length on each rank.
#[derive(Clone, Copy)]
pub(super) enum Gathering {
    AllGather,
    Gather { root: usize },
    Scatter { root: usize },
}

/// The number of elements of each rank, in rank order.
pub(super) struct Lengths {
    elements: Vec<usize>,
    /// The second number of each rank.
    others: Vec<usize>,
    /// Bytes of an element.
    size: usize,
}

impl Gathering {
    fn root(self) -> Option<usize> {
        match self {
            Self::AllGather => None,
            Self::Gather { root } | Self::Scatter { root } => Some(root),
        }
    }

    fn text(self, comm: &dyn Communicator, element: &str) -> String {
        match self {
            Self::AllGather => format!("all-gather of {element}"),
            Self::Gather { root } => format!("gather to {} of {element}", comm.world_rank(root)),
            Self::Scatter { root } => format!("scatter from {} of {element}", comm.world_rank(root)),
        }
    }
}

impl Lengths {
    /// Returns these lengths, of elements of `size` bytes.
    pub(super) fn of(elements: Vec<usize>, size: usize) -> Self {
        Self { elements, others: Vec::new(), size }
    }

    /// Sends the other ranks this one's number of elements, and another number; returns theirs.
    ///
    /// # Errors
    /// If the ranks do not call the same, or the root does not exist.
    pub(super) fn told<T: Element>(
        comm: &dyn Communicator,
        gathering: Gathering,
        elements: usize,
        other: usize,
    ) -> Result<Self> {
        if let Some(rank) = gathering.root().filter(|root| *root >= comm.size()) {
            return Err(CommError::NoRank { rank, size: comm.size() }.into());
        }
        let about = gathering.text(comm, T::DTYPE.name());
        let call = hash_of(&about);
        let told = exchange_words(comm, about, [elements as u64, other as u64, call])?;
        if told.iter().any(|header| header[2] != call) {
            return Err(disagreement(comm, &gathering.text(comm, T::DTYPE.name())));
        }
        let [elements, others] = [0, 1].map(|word| told.iter().map(|header| header[word] as usize).collect());
        Ok(Self { elements, others, size: size_of::<T>() })
    }

    /// Returns how much each rank sends to this one, given how much this rank sends to each (MPI 3.1, section 5.8).
    ///
    /// # Errors
    /// If another rank sends elements of another type.
    pub(super) fn transposed<T: Element>(&self, comm: &dyn Communicator) -> Result<Self> {
        let call = T::DTYPE as u64;
        let sent: Vec<[u64; 2]> = self.elements.iter().map(|&length| [length as u64, call]).collect();
        let (mut received, counts) = (vec![[0u64; 2]; comm.size()], vec![size_of::<[u64; 2]>(); comm.size()]);
        comm.all_to_all(cast_slice(&sent), &counts, cast_slice_mut(&mut received), &counts)?;
        if received.iter().any(|word| word[1] != call) {
            return Err(disagreement(comm, &format!("all-to-all of {}", T::DTYPE.name())));
        }
        Ok(Self::of(received.iter().map(|word| word[0] as usize).collect(), self.size))
    }

    /// Returns an error if the parts together are not the root's data, the same on all ranks.
    pub(super) fn check_scatter(&self, comm: &dyn Communicator, root: usize) -> Result<()> {
        let (wanted, held) = (self.sum(), self.others[root]);
        if wanted == held {
            return Ok(());
        }
        Err(Error::Mismatch(format!(
            "rank {} scatters {}, but the ranks have room for {wanted}, {:?}: pass an `into` for each part",
            comm.world_rank(root),
            counted(held, "element"),
            self.elements
        )))
    }

    /// Returns the elements of all ranks together.
    pub(super) fn sum(&self) -> usize {
        self.elements.iter().sum()
    }

    /// Returns the bytes of each rank.
    pub(super) fn bytes(&self) -> Vec<usize> {
        self.elements.iter().map(|length| length * self.size).collect()
    }

    /// Returns each rank's part of `data`, with the rank.
    pub(super) fn parts<'d, T: Element>(&self, data: &'d [T]) -> Vec<(usize, &'d [u8])> {
        self.cut(data).map(cast_slice).enumerate().collect()
    }

    /// Returns each rank's place in `into`, with the rank.
    pub(super) fn parts_mut<'d, T: Element>(&self, into: &'d mut [T]) -> Vec<(usize, &'d mut [u8])> {
        split_mut(into, self.elements.iter().copied()).map(cast_slice_mut).enumerate().collect()
    }

    /// Returns each rank's part of `data` as a vector.
    pub(super) fn split<T: Element>(&self, data: &[T]) -> Vec<Vec<T>> {
        self.cut(data).map(<[T]>::to_vec).collect()
    }

    fn cut<'d, T>(&self, mut data: &'d [T]) -> impl Iterator<Item = &'d [T]> {
        self.elements.iter().map(move |&length| {
            data.split_off(..length).expect("lengths add up to that of the data; this is a bug in polyshard")
        })
    }
}

/// Returns an error if the counts are not one per rank, or their sum is not the length of the data.
pub(super) fn check_counts(size: usize, counts: &[usize], len: usize) -> Result<()> {
    if counts.len() != size {
        return Err(CommError::Counts { counts: counts.len(), size }.into());
    }
    let sum = counts.iter().fold(0usize, |sum, &count| sum.saturating_add(count));
    if sum == len { Ok(()) } else { Err(CommError::ElementCounts { sum, len }.into()) }
}

/// Returns an error if the parts are not one per rank.
pub(super) fn check_parts(size: usize, parts: usize) -> Result<()> {
    if parts == size { Ok(()) } else { Err(CommError::Parts { parts, size }.into()) }
}

/// Returns the error that ranks call different collectives, as all of them have found; collective.
fn disagreement(comm: &dyn Communicator, call: &str) -> Error {
    let told = match texts_if_differ(comm, "collectives that differ", call) {
        Ok(told) => told.unwrap_or_default(),
        Err(error) => return error,
    };
    let clause = |(rank, text)| (comm.world_rank(rank), [format!("calls {text}"), format!("call {text}")]);
    let calls = sentence(told.iter().enumerate().map(clause), ", ");
    Error::Mismatch(format!("{calls}: ranks of one group must call the same"))
}

#[cfg(test)]
mod tests {
    use crate::{Collectives, Error, ReduceOp, Result, World, spmd};

    /// Checks the error on each of three ranks.
    #[track_caller]
    fn check<R>(f: impl Fn(&World) -> Result<R> + Sync, expected: &str) {
        let said = spmd(3, |world| Ok::<_, Error>(f(world).err().expect("it should be refused").to_string()));
        assert_eq!(said.expect("all ranks go on"), [expected; 3]);
    }

    #[test]
    fn a_scatter_that_does_not_fit_is_refused_on_all_ranks() {
        check(
            |world| world.scatter(&[1, 2, 3, 4][..if world.rank() == 1 { 4 } else { 0 }], &mut [0; 2], 1),
            "rank 1 scatters 4 elements, but the ranks have room for 6, [2, 2, 2]: pass an `into` for each part",
        );
    }

    #[test]
    fn roots_counts_and_parts_are_refused_before_any_communication() {
        check(|world| world.gather(&[1.0], 3), "no rank 3: the group has ranks 0..3");
        check(|world| world.broadcast(&mut [1.0], 7), "no rank 7: the group has ranks 0..3");
        check(|world| world.reduce(&mut [1.0], ReduceOp::Sum, 3), "no rank 3: the group has ranks 0..3");
        check(
            |world| world.reduce_scatter(&[1, 2], &[1, 1], ReduceOp::Sum),
            "2 counts for a group of 3 ranks: give one per rank",
        );
        check(
            |world| world.reduce_scatter(&[1, 2], &[1, 1, usize::MAX], ReduceOp::Sum),
            "the counts sum to 18446744073709551615 elements, but the data have 2: send each element to one rank",
        );
        check(
            |world| world.all_to_all(&[[1.5]]),
            "1 part for a group of 3 ranks: give one per rank, which may be empty",
        );
    }

    #[test]
    fn ranks_that_send_other_types_are_told() {
        let said = spmd(2, |world| {
            let error = match world.rank() {
                0 => world.all_to_all(&[[1.0f32]; 2]).map(drop),
                _ => world.all_to_all(&[[1.0f64]; 2]).map(drop),
            };
            Ok::<_, Error>(error.expect_err("the types differ").to_string())
        });
        let expected = "rank 0 calls all-to-all of f32, rank 1 calls all-to-all of f64: ranks of one group must call the \
                        same";
        assert_eq!(said.expect("both go on"), [expected; 2]);
    }
}
