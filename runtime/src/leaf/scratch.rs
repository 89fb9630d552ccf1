//! Room for what a leaf gathers and computes on its way, which a thread keeps from one leaf to the next.

use bytemuck::Pod;
use std::cell::RefCell;

thread_local! {
    /// As many as there were at one time, the last that was given back last.
    static KEPT: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
}

/// Room for elements, of which nothing is promised until they are written.
pub(super) struct Scratch(Vec<u64>);

impl Scratch {
    /// Returns room for this many elements.
    pub(super) fn of<T: Pod>(elements: usize) -> Self {
        let mut words = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
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
        let _ = KEPT.try_with(|kept| kept.borrow_mut().push(std::mem::take(&mut self.0)));
    }
}
