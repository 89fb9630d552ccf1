//! Chunks of a reduction as ranges of elements, packed and unpacked.

use polyshard_program::reduction::chunk;
use std::ops::Range;

/// Elements of an array: ranges that are ascending, apart and not empty, unless in a group's order.
pub(super) type Ranges = Vec<Range<usize>>;

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
