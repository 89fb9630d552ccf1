//! Chunks of a program as ranges of elements.
//!
//! A program speaks of so many equal chunks; an array has as many elements as it has. Chunk `c` of `chunks` is the range
//!
//! ```text
//! c * elements / chunks .. (c + 1) * elements / chunks         7 elements, 4 chunks:  0 | 1 2 | 3 4 | 5 6
//! ```
//!
//! rounded down, so chunks differ by one element at most, are empty if there are more of them than elements, and every
//! rank cuts alike. Nothing is padded.

use std::ops::Range;

/// Elements of an array: ranges that are ascending, apart and not empty, unless in a group's order.
pub(super) type Ranges = Vec<Range<usize>>;

/// The elements of one chunk of `chunks`.
pub(super) fn chunk(elements: usize, chunks: usize, chunk: usize) -> Range<usize> {
    // A product of two lengths may not fit a word.
    let start = |chunk: usize| (chunk as u128 * elements as u128 / chunks as u128) as usize;
    start(chunk)..start(chunk + 1)
}

/// The elements of ranges of chunks, neighbours joined.
pub(super) fn elements_of(elements: usize, chunks: usize, ranges: &[Range<usize>]) -> Ranges {
    let ends = ranges.iter().filter(|range| !range.is_empty());
    joined(ends.map(|range| chunk(elements, chunks, range.start).start..chunk(elements, chunks, range.end - 1).end))
}

/// The same elements in the same order, with ranges joined that follow one another, and without empty ones.
pub(super) fn joined(ranges: impl IntoIterator<Item = Range<usize>>) -> Ranges {
    let mut joined = Ranges::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// The number of elements.
pub(super) fn len(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(Range::len).sum()
}

/// Copies the elements of `data` in `ranges` together.
///
/// # Panics
/// If `packed` is not as long as the ranges.
pub(super) fn pack<T: Copy>(data: &[T], ranges: &[Range<usize>], packed: &mut [T]) {
    let mut rest = packed;
    for range in ranges {
        let (part, tail) = rest.split_at_mut(range.len());
        part.copy_from_slice(&data[range.clone()]);
        rest = tail;
    }
    assert!(rest.is_empty(), "more room than elements to pack: this is a bug of polyshard");
}

/// Copies packed elements back to where they are from: [`pack`] undone.
///
/// # Panics
/// If `packed` is not as long as the ranges.
pub(super) fn unpack<T: Copy>(packed: &[T], ranges: &[Range<usize>], data: &mut [T]) {
    let mut rest = packed;
    for range in ranges {
        let (part, tail) = rest.split_at(range.len());
        data[range.clone()].copy_from_slice(part);
        rest = tail;
    }
    assert!(rest.is_empty(), "more elements than room to unpack: this is a bug of polyshard");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Chunks partition the array, and differ by one element at most.
        #[test]
        fn chunks_partition_an_array_of_any_length(elements in 0usize..200, chunks in 1usize..40) {
            let mut next = 0;
            for number in 0..chunks {
                let range = chunk(elements, chunks, number);
                prop_assert_eq!(range.start, next);
                prop_assert!(range.len() == elements / chunks || range.len() == elements.div_ceil(chunks));
                next = range.end;
            }
            prop_assert_eq!(next, elements);
        }

        /// What is packed is what the chunks hold, and unpacking puts it back.
        #[test]
        fn unpacking_undoes_packing(elements in 0usize..100, held in prop::collection::vec(any::<bool>(), 1..12)) {
            let each = (0..held.len()).filter(|&at| held[at]).map(|at| at..at + 1).collect::<Vec<_>>();
            let ranges = elements_of(elements, held.len(), &each);
            let data: Vec<usize> = (0..elements).map(|i| 7 * i + 3).collect();
            let mut packed = vec![0; len(&ranges)];
            pack(&data, &ranges, &mut packed);
            let expected: Vec<usize> =
                each.iter().flat_map(|at| data[chunk(elements, held.len(), at.start)].to_vec()).collect();
            prop_assert_eq!(&packed, &expected);
            let mut back = data.clone();
            ranges.iter().for_each(|range| back[range.clone()].fill(0));
            unpack(&packed, &ranges, &mut back);
            prop_assert_eq!(back, data);
        }
    }
}
