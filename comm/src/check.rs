//! Arguments that every communicator refuses, with the same messages.
//!
//! Errors that one rank can detect alone are checked here, before any data move. Errors that take several ranks
//! to detect (different roots, different lengths) are not.

use super::words::amount;
use crate::{CommError, DType, Error, Result};

/// Refuses a rank that the group does not have.
pub(super) fn member(size: usize, rank: usize) -> Result<()> {
    if rank < size { Ok(()) } else { Err(CommError::NoRank { rank, size }.into()) }
}

/// Refuses a message to or from a rank that is this one or not in the group.
pub(super) fn peer(size: usize, this: usize, other: usize) -> Result<()> {
    member(size, other)?;
    if other == this {
        // MPI may block for ever in a send to the same rank, so it is an error everywhere.
        return Err(CommError::Itself { rank: this }.into());
    }
    Ok(())
}

/// Refuses counts that are not one per rank, or whose sum is not the length of `buffer`.
pub(super) fn counts(size: usize, counts: &[usize], buffer: &'static str, len: usize) -> Result<()> {
    if counts.len() != size {
        return Err(CommError::Counts { counts: counts.len(), size }.into());
    }
    let sum: usize = counts.iter().sum();
    if sum == len { Ok(()) } else { Err(CommError::ByteCounts { sum, buffer, len }.into()) }
}

/// Refuses a `buffer` that is not as long as this rank's count.
pub(super) fn own_count(count: usize, buffer: &'static str, len: usize) -> Result<()> {
    if count == len { Ok(()) } else { Err(CommError::OwnCount { count, buffer, len }.into()) }
}

/// Refuses data that are not whole, aligned elements of a native `dtype`.
pub(super) fn elements(dtype: DType, data: &[u8]) -> Result<()> {
    dtype.native().map_err(CommError::from)?;
    if !data.len().is_multiple_of(dtype.size()) {
        return Err(CommError::PartialElement { bytes: data.len(), dtype }.into());
    }
    // An empty slice may dangle, so its address says nothing about alignment.
    if !data.is_empty() && !data.as_ptr().addr().is_multiple_of(dtype.size()) {
        return Err(CommError::Unaligned { dtype }.into());
    }
    Ok(())
}

/// Refuses a broadcast that this rank receives from itself, or from no rank of the group.
pub(super) fn root_receives(size: usize, this: usize, root: usize) -> Result<()> {
    member(size, root)?;
    if root == this { Err(CommError::RootReceives { rank: this }.into()) } else { Ok(()) }
}

/// Refuses buffers of a reduce-scatter that do not fit its counts, and counts that cut an element.
pub(super) fn reduce_scatter(
    size: usize,
    this: usize,
    send: &[u8],
    into: &[u8],
    counts: &[usize],
    dtype: DType,
) -> Result<()> {
    self::counts(size, counts, "send", send.len())?;
    own_count(counts[this], "into", into.len())?;
    elements(dtype, send)?;
    elements(dtype, into)?;
    match counts.iter().find(|count| !count.is_multiple_of(dtype.size())) {
        Some(&bytes) => Err(CommError::PartialCount { bytes, dtype }.into()),
        None => Ok(()),
    }
}

/// Delivers the messages of rank `this` to itself, the first sent to the first received.
pub(super) fn exchange(
    size: usize,
    this: usize,
    sends: &[(usize, &[u8])],
    receives: &mut [(usize, &mut [u8])],
) -> Result<()> {
    for rank in sends.iter().map(|send| send.0).chain(receives.iter().map(|receive| receive.0)) {
        member(size, rank)?;
    }
    let mut sent = sends.iter().filter(|send| send.0 == this);
    let mut received = receives.iter_mut().filter(|receive| receive.0 == this);
    loop {
        match (sent.next(), received.next()) {
            (Some((_, from)), Some((_, into))) if from.len() == into.len() => into.copy_from_slice(from),
            (Some((_, from)), Some((_, into))) => return Err(length(this, this, into.len(), Some(from.len()))),
            (None, None) => return Ok(()),
            _ => {
                let sends = sends.iter().filter(|send| send.0 == this).count();
                let receives = receives.iter().filter(|receive| receive.0 == this).count();
                return Err(CommError::Unpaired { rank: this, sends, receives }.into());
            }
        }
    }
}

/// Returns the error that a message is not as long as its buffer; `sent` is its length, if known.
///
/// `this` and `from` are world ranks.
pub(super) fn length(this: usize, from: usize, expected: usize, sent: Option<usize>) -> Error {
    let sent = sent.map_or_else(|| String::from("more"), amount);
    Error::Mismatch(format!(
        "rank {this} receives {sent} from rank {from} into a buffer of {expected}: the ranks disagree on the message"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(result: Result<()>) -> String {
        result.expect_err("the arguments should be refused").to_string()
    }

    #[test]
    fn refusals_name_the_numbers() {
        assert_eq!(member(4, 4), Err(Error::Comm(CommError::NoRank { rank: 4, size: 4 })));
        assert_eq!(said(member(4, 4)), "no rank 4: the group has ranks 0..4");
        assert!(said(peer(4, 2, 2)).starts_with("rank 2 sends to or receives from itself"));
        assert_eq!(said(counts(2, &[1, 2, 3], "into", 6)), "3 counts for a group of 2 ranks: give one per rank");
        assert_eq!(said(counts(2, &[1, 2], "into", 4)), "the counts sum to 3 bytes, but `into` has 4");
        assert_eq!(said(own_count(1, "send", 2)), "this rank's count is 1 byte, but `send` has 2");
        assert_eq!(said(elements(DType::F32, &[0; 6])), "6 bytes are not a whole number of `f32`");
        assert!(said(elements(DType::Bf16, &[0; 6])).starts_with("programs cannot compute in bf16"));
        let aligned = [0u64; 4];
        let bytes: &[u8] = bytemuck::cast_slice(&aligned);
        assert!(said(elements(DType::F64, &bytes[4..12])).contains("not aligned to 8 bytes"));
    }

    #[test]
    fn messages_to_oneself_are_paired_in_order() {
        let (mut first, mut second) = ([0; 1], [0; 2]);
        exchange(2, 1, &[(1, &[7]), (0, &[1]), (1, &[8, 9])], &mut [(1, &mut first), (1, &mut second)]).unwrap();
        assert_eq!((first, second), ([7], [8, 9]));
        let unpaired = exchange(2, 1, &[(1, &[7]), (0, &[7])], &mut []);
        assert_eq!(unpaired, Err(Error::Comm(CommError::Unpaired { rank: 1, sends: 1, receives: 0 })));
        assert!(said(unpaired).contains("more messages than it receives"));
        assert!(said(exchange(2, 1, &[], &mut [(1, &mut [7])])).contains("more messages from itself than it sends"));
        assert_eq!(
            said(exchange(2, 1, &[(1, &[7, 7])], &mut [(1, &mut [7])])),
            "rank 1 receives 2 bytes from rank 1 into a buffer of 1: the ranks disagree on the message"
        );
    }
}
