//! Chunks as ranges of elements.

use std::ops::Range;

/// Returns the elements of one chunk of `chunks`, of an array of `elements`.
///
/// A reduction is planned for equal chunks, but the length of an array need not divide evenly. Chunk `c` of `chunks` is the range
///
/// ```text
/// c * elements / chunks .. (c + 1) * elements / chunks         7 elements, 4 chunks:  0 | 1 2 | 3 4 | 5 6
/// ```
///
/// rounded down, so chunks differ by one element at most, are empty if there are more of them than elements, and are the same on
/// all ranks. Nothing is padded.
///
/// # Panics
/// If `chunks` is 0.
#[must_use]
pub fn chunk(elements: usize, chunks: usize, chunk: usize) -> Range<usize> {
    // A product of two lengths may not fit a word.
    let start = |chunk: usize| (chunk as u128 * elements as u128 / chunks as u128) as usize;
    start(chunk)..start(chunk + 1)
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
    }
}
