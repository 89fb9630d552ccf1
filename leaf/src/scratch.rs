//! Scratch memory for the gathered rows and intermediate results of a leaf, which a thread reuses from one leaf to the
//! next.

use bytemuck::Pod;
use std::cell::RefCell;

thread_local! {
    /// As many buffers as were in use at the same time; the one returned last is last.
    static KEPT: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
}

/// Room for elements, whose values are arbitrary until they are written.
pub(super) struct Scratch(Vec<u64>);

impl Scratch {
    /// Returns room for `elements` elements.
    pub(super) fn of<T: Pod>(elements: usize) -> Self {
        let mut words = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
        let needed = (elements * size_of::<T>()).div_ceil(size_of::<u64>());
        if words.len() < needed {
            words.resize(needed, 0);
        }
        Self(words)
    }

    /// Returns the room in two parts, the first one with `first` elements.
    pub(super) fn split<T: Pod>(&mut self, first: usize) -> (&mut [T], &mut [T]) {
        bytemuck::cast_slice_mut(&mut self.0).split_at_mut(first)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // At the end of a thread the memory is freed instead.
        let _ = KEPT.try_with(|kept| kept.borrow_mut().push(std::mem::take(&mut self.0)));
    }
}
