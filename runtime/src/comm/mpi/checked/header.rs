//! Calls and whereabouts as bytes: what ranks that check each other send.

use crate::comm::call::Call;
use crate::comm::words::Doing;
use crate::{DType, Error, ReduceOp, Result};

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min];

/// Returns the call as bytes: words, the first of which says which call it is, and a text at the end.
pub(super) fn of_call(call: &Call) -> Vec<u8> {
    let reduction = |dtype: &DType, op: &ReduceOp| [place(&DType::ALL, dtype), place(&OPS, op)];
    let (words, text): (Vec<usize>, &str) = match call {
        Call::Barrier => (vec![0], ""),
        Call::Broadcast { root, bytes } => (vec![1, *root, *bytes], ""),
        Call::AllGather { counts } => ([&[2], &counts[..]].concat(), ""),
        Call::AllToAll { send, receive } => ([&[3], &send[..], &receive[..]].concat(), ""),
        Call::Reduce { root, bytes, dtype, op } => ([&[4, *root, *bytes], &reduction(dtype, op)[..]].concat(), ""),
        Call::AllReduce { bytes, dtype, op } => ([&[5, *bytes], &reduction(dtype, op)[..]].concat(), ""),
        Call::ReduceScatter { counts, dtype, op } => ([&[6], &reduction(dtype, op)[..], &counts[..]].concat(), ""),
        Call::Headers { about } => (vec![7], about),
        Call::Split { color, key } => (vec![8, *color, *key], ""),
        Call::Fence => (vec![9], ""),
        Call::SharedMemory => (vec![10], ""),
        Call::End => (vec![11], ""),
        Call::Exit => (vec![12], ""),
    };
    with_text(&words, text)
}

/// Reads a call.
pub(super) fn to_call(bytes: &[u8]) -> Result<Call> {
    let (words, text) = read(bytes)?;
    let dtype = |nth: usize| DType::ALL.get(nth).copied().ok_or_else(unreadable);
    let op = |nth: usize| OPS.get(nth).copied().ok_or_else(unreadable);
    Ok(match words[..] {
        [0] => Call::Barrier,
        [1, root, bytes] => Call::Broadcast { root, bytes },
        [2, ref counts @ ..] => Call::AllGather { counts: counts.into() },
        [3, ref counts @ ..] => {
            let (send, receive) = counts.split_at(counts.len() / 2);
            Call::AllToAll { send: send.into(), receive: receive.into() }
        }
        [4, root, bytes, nth, code] => Call::Reduce { root, bytes, dtype: dtype(nth)?, op: op(code)? },
        [5, bytes, nth, code] => Call::AllReduce { bytes, dtype: dtype(nth)?, op: op(code)? },
        [6, nth, code, ref counts @ ..] => {
            Call::ReduceScatter { counts: counts.into(), dtype: dtype(nth)?, op: op(code)? }
        }
        [7] => Call::Headers { about: String::from(text).into() },
        [8, color, key] => Call::Split { color, key },
        [9] => Call::Fence,
        [10] => Call::SharedMemory,
        [11] => Call::End,
        [12] => Call::Exit,
        _ => return Err(unreadable()),
    })
}

/// What a rank says of itself when another asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// The question's number.
    pub(super) question: usize,
    /// How often the rank has waited for something that then came.
    pub(super) waits: usize,
    pub(super) doing: Doing,
}

impl Reply {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let (code, text) = match &self.doing {
            Doing::Runs => (0, ""),
            Doing::Ended => (1, ""),
            Doing::Left => (2, ""),
            Doing::Waits(text) => (3, &text[..]),
        };
        with_text(&[self.question, self.waits, code], text)
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (words, text) = read(bytes)?;
        let [question, waits, code] = words[..] else { return Err(unreadable()) };
        let doing = match code {
            0 => Doing::Runs,
            1 => Doing::Ended,
            2 => Doing::Left,
            _ => Doing::Waits(text.into()),
        };
        Ok(Self { question, waits, doing })
    }
}

fn place<T: PartialEq>(all: &[T], one: &T) -> usize {
    all.iter().position(|other| other == one).unwrap_or(all.len())
}

/// The number of words, the words, the text.
fn with_text(words: &[usize], text: &str) -> Vec<u8> {
    let numbers = std::iter::once(words.len()).chain(words.iter().copied());
    let mut bytes: Vec<u8> = numbers.flat_map(|number| (number as u64).to_le_bytes()).collect();
    bytes.extend(text.as_bytes());
    bytes
}

fn read(bytes: &[u8]) -> Result<(Vec<usize>, &str)> {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) as usize;
    let (first, rest) = bytes.split_first_chunk::<8>().ok_or_else(unreadable)?;
    let end = word(first).checked_mul(8).filter(|&end| end <= rest.len()).ok_or_else(unreadable)?;
    let (words, text) = rest.split_at(end);
    let words = words.chunks_exact(8).map(|chunk| chunk.try_into().map(word));
    let words: Vec<usize> = words.collect::<Result<_, _>>().map_err(|_| unreadable())?;
    Ok((words, std::str::from_utf8(text).map_err(|_| unreadable())?))
}

fn unreadable() -> Error {
    Error::Mpi("ranks that check each other do not understand each other: they must run the same program".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_come_back_as_they_were() {
        let (dtype, op) = (DType::I32, ReduceOp::Min);
        let calls = [
            Call::Barrier,
            Call::Broadcast { root: 3, bytes: 1 << 40 },
            Call::AllGather { counts: [4, 0, 9].into() },
            Call::AllToAll { send: [1, 2].into(), receive: [3, 4].into() },
            Call::Reduce { root: 1, bytes: 8, dtype, op },
            Call::AllReduce { bytes: 12, dtype: DType::F32, op: ReduceOp::Sum },
            Call::ReduceScatter { counts: [8, 16].into(), dtype, op },
            Call::Headers { about: "gather to 2 of f64, ä".into() },
            Call::Split { color: 7, key: 1 },
            Call::Fence,
            Call::SharedMemory,
            Call::End,
            Call::Exit,
        ];
        for call in calls {
            assert_eq!(to_call(&of_call(&call)).unwrap(), call);
        }
    }

    #[test]
    fn replies_come_back_as_they_were() {
        for doing in [Doing::Runs, Doing::Ended, Doing::Left, Doing::Waits("in barrier with ranks 0 and 1".into())] {
            let reply = Reply { question: 3, waits: 70, doing };
            assert_eq!(Reply::from_bytes(&reply.to_bytes()).unwrap(), reply);
        }
    }

    #[test]
    fn what_is_no_header_is_an_error() {
        for bytes in [&[][..], &[1; 8], &with_text(&[99], ""), &with_text(&[5, 1, 9, 9], ""), &with_text(&[7], "")[..9]]
        {
            assert!(to_call(bytes).unwrap_err().to_string().contains("do not understand each other"));
        }
    }
}
