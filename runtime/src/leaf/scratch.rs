//! Room for what a leaf gathers and computes on its way, which a thread keeps from one leaf to the next.

use bytemuck::Pod;
use std::cell::Cell;

thread_local! {
    static KEPT: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Room for elements, of which nothing is promised until they are written.
pub(super) struct Scratch(Vec<u64>);

impl Scratch {
    /// Returns room for this many elements.
    pub(super) fn of<T: Pod>(elements: usize) -> Self {
        let mut words = KEPT.take();
        let needed = (elements * size_of::<T>()).div_ceil(size_of::<u64>());
        if words.len() < needed {
            words.resize(needed, 0);
        }
        Self(words)
    }

    /// Returns it in two parts, the first one of this many elements.
    pub(super) fn split<T: Pod>(&mut self, first: usize) -> (&mut [T], &mut [T]) {
        bytemuck::cast_slice_mut(&mut self.0).split_at_mut(first)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // At the end of a thread there is nobody to keep it for.
        let _ = KEPT.try_with(|kept| kept.set(std::mem::take(&mut self.0)));
    }
}
