//! Calls as numbers and as bytes: sent by ranks of checked programs, and recorded by ranks that wait.

use crate::call::Call;
use crate::{DType, Error, ReduceOp, Result};

const OPS: [ReduceOp; 4] = [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min];

/// Calls `push` with the call as words, the first of which is the kind of call, and returns its text. Counts are pushed
/// individually, or in `brief` as their sum, so that there are at most six words.
#[inline]
fn words<'c>(call: &'c Call<'_>, brief: bool, mut push: impl FnMut(usize)) -> &'c str {
    let (code, arguments): (usize, &[usize]) = match call {
        Call::Barrier => (0, &[]),
        Call::Broadcast { root, bytes } => (1, &[*root, *bytes]),
        Call::AllGather { .. } => (2, &[]),
        Call::AllToAll { .. } => (3, &[]),
        Call::Reduce { root, bytes, dtype, op } => (4, &[*root, *bytes, place(&DType::ALL, dtype), place(&OPS, op)]),
        Call::AllReduce { bytes, dtype, op } => (5, &[*bytes, place(&DType::ALL, dtype), place(&OPS, op)]),
        Call::ReduceScatter { dtype, op, .. } => (6, &[place(&DType::ALL, dtype), place(&OPS, op)]),
        Call::Headers { .. } => (7, &[]),
        Call::Split { color, key } => (8, &[*color, *key]),
        Call::SharedMemory => (9, &[]),
        Call::End => (10, &[]),
        Call::Exit => (11, &[]),
    };
    let counts: [&[usize]; 2] = match call {
        Call::AllGather { counts } | Call::ReduceScatter { counts, .. } => [counts, &[]],
        Call::AllToAll { send, receive } => [send, receive],
        _ => [&[], &[]],
    };
    push(code);
    arguments.iter().for_each(|&word| push(word));
    for counts in counts {
        match brief {
            true if counts.is_empty() => {}
            true => push(counts.iter().sum()),
            false => counts.iter().for_each(|&count| push(count)),
        }
    }
    match call {
        Call::Headers { about } => about,
        _ => "",
    }
}

/// Calls `push` with at most six words for the call, with counts as their sum, and returns its text.
#[inline]
pub(super) fn brief<'c>(call: &'c Call<'_>, push: impl FnMut(usize)) -> &'c str {
    words(call, true, push)
}

/// Returns the call as bytes.
pub(super) fn of_call(call: &Call<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    let text = words(call, false, |word| all.push(word));
    with_text(&all, text)
}

/// Reads a call.
pub(super) fn to_call(bytes: &[u8]) -> Result<Call<'static>> {
    let (words, text) = read(bytes)?;
    of_parts(&words, text)
}

/// Reads a call from words and a text.
pub(super) fn of_parts(words: &[usize], text: &str) -> Result<Call<'static>> {
    let dtype = |nth: usize| DType::ALL.get(nth).copied().ok_or_else(unreadable);
    let op = |nth: usize| OPS.get(nth).copied().ok_or_else(unreadable);
    Ok(match *words {
        [0] => Call::Barrier,
        [1, root, bytes] => Call::Broadcast { root, bytes },
        [2, ref counts @ ..] => Call::AllGather { counts: counts.to_vec().into() },
        [3, ref counts @ ..] => {
            let (send, receive) = counts.split_at(counts.len() / 2);
            Call::AllToAll { send: send.to_vec().into(), receive: receive.to_vec().into() }
        }
        [4, root, bytes, nth, code] => Call::Reduce { root, bytes, dtype: dtype(nth)?, op: op(code)? },
        [5, bytes, nth, code] => Call::AllReduce { bytes, dtype: dtype(nth)?, op: op(code)? },
        [6, nth, code, ref counts @ ..] => {
            Call::ReduceScatter { counts: counts.to_vec().into(), dtype: dtype(nth)?, op: op(code)? }
        }
        [7] => Call::Headers { about: String::from(text).into() },
        [8, color, key] => Call::Split { color, key },
        [9] => Call::SharedMemory,
        [10] => Call::End,
        [11] => Call::Exit,
        _ => return Err(unreadable()),
    })
}

fn place<T: PartialEq>(all: &[T], one: &T) -> usize {
    all.iter().position(|other| other == one).unwrap_or(all.len())
}

/// The number of words, the words, the text.
pub(super) fn with_text(words: &[usize], text: &str) -> Vec<u8> {
    let numbers = std::iter::once(words.len()).chain(words.iter().copied());
    let mut bytes: Vec<u8> = numbers.flat_map(|number| (number as u64).to_le_bytes()).collect();
    bytes.extend(text.as_bytes());
    bytes
}

pub(super) fn read(bytes: &[u8]) -> Result<(Vec<usize>, &str)> {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) as usize;
    let (first, rest) = bytes.split_first_chunk::<8>().ok_or_else(unreadable)?;
    let end = word(first).checked_mul(8).filter(|&end| end <= rest.len()).ok_or_else(unreadable)?;
    let (words, text) = rest.split_at(end);
    let words = words.chunks_exact(8).map(|chunk| chunk.try_into().map(word));
    let words: Vec<usize> = words.collect::<Result<_, _>>().map_err(|_| unreadable())?;
    Ok((words, std::str::from_utf8(text).map_err(|_| unreadable())?))
}

pub(super) fn unreadable() -> Error {
    Error::Mpi("ranks exchanged headers that do not match: they must run the same program".into())
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
            Call::AllGather { counts: vec![4, 0, 9].into() },
            Call::AllToAll { send: vec![1, 2].into(), receive: vec![3, 4].into() },
            Call::Reduce { root: 1, bytes: 8, dtype, op },
            Call::AllReduce { bytes: 12, dtype: DType::F32, op: ReduceOp::Sum },
            Call::ReduceScatter { counts: vec![8, 16].into(), dtype, op },
            Call::Headers { about: "gather to 2 of f64, ä".into() },
            Call::Split { color: 7, key: 1 },
            Call::SharedMemory,
            Call::End,
            Call::Exit,
        ];
        for call in calls {
            assert_eq!(to_call(&of_call(&call)).unwrap(), call);
        }
    }

    #[test]
    fn a_brief_call_has_the_sum_of_its_counts() {
        let call = Call::ReduceScatter { counts: vec![8, 16].into(), dtype: DType::F32, op: ReduceOp::Max };
        let mut words = Vec::new();
        let text = brief(&call, |word| words.push(word));
        assert_eq!(of_parts(&words, text).unwrap().to_string(), "reduce-scatter of 24 bytes (max of f32)");
        assert_eq!(words.len(), 4);
    }

    #[test]
    fn what_is_no_header_is_an_error() {
        for bytes in [&[][..], &[1; 8], &with_text(&[99], ""), &with_text(&[5, 1, 9, 9], ""), &with_text(&[7], "")[..9]]
        {
            assert!(to_call(bytes).unwrap_err().to_string().contains("headers that do not match"));
        }
    }
}
