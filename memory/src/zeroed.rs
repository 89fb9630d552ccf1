//! Vectors of zeros that the system may refuse.
#![expect(unsafe_code, reason = "makes a vector of memory that the allocator has zeroed")]

use bytemuck::Zeroable;
use std::alloc::{Layout, alloc_zeroed};
use std::ptr::NonNull;

/// Returns `len` zeros, or none if the allocation fails, where `vec![0; len]` would end the process.
pub(super) fn zeroed<T: Zeroable>(len: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return Some(std::iter::repeat_with(T::zeroed).take(len).collect());
    }
    // SAFETY: the layout is of more than 0 bytes.
    let address = NonNull::new(unsafe { alloc_zeroed(layout) }.cast::<T>())?;
    // SAFETY: the global allocator has made this memory with the layout of an array of `len`; each element is zero,
    // which is a value of `T`.
    Some(unsafe { Vec::from_raw_parts(address.as_ptr(), len, len) })
}
