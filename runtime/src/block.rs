//! Blocks: where the elements of an array are, in a vector of this rank or in memory that other ranks see too.
//!
//! A block looks like a slice wherever it is. Memory that is shared is lent by a
//! [`SharedMemory`](crate::comm::SharedMemory) as a [`Segment`], which gives it back when it is dropped; so
//! arrays can be dropped at any time, in any order, on any thread, and nobody waits for it.
//!
//! Nothing here lets ranks write into one another's blocks: that is the business of a redistribution, which
//! borrows the array while they do.
#![expect(unsafe_code, reason = "makes slices and vectors of memory that something else has allocated")]

use bytemuck::{Pod, Zeroable};
use std::alloc::{Layout, alloc_zeroed};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory that this rank alone uses, but that other ranks can be told to write to.
#[derive(Debug)]
pub struct Segment {
    address: NonNull<u8>,
    bytes: usize,
    id: u64,
    /// Whoever lent the memory has another of these, and knows by their number whether this one lives.
    _lease: Arc<()>,
}

// SAFETY: a segment owns its memory as a vector does, and the lease is counted atomically.
unsafe impl Send for Segment {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Segment {}

impl Segment {
    /// Returns the segment numbered `id` of `bytes` bytes at `address`, in use as long as `lease` has an owner.
    ///
    /// # Safety
    /// The memory is initialised, can be read and written until the process ends or all but one owner of
    /// `lease` are gone, and no other segment that lives has any of it.
    #[cfg(feature = "mpi")]
    pub(crate) unsafe fn new(address: NonNull<u8>, bytes: usize, id: u64, lease: Arc<()>) -> Self {
        Self { address, bytes, id, _lease: lease }
    }

    /// Returns the number by which the ranks that share the memory know it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The elements of one rank's part of an array.
pub(crate) struct Block<T> {
    place: Place<T>,
    /// The elements, at most as many as there is room for.
    len: usize,
}

enum Place<T> {
    Own(Vec<T>),
    Shared { segment: Segment, elements: PhantomData<T> },
}

/// Returns so many zeros, or nothing if there is no memory for them; what `vec![0; len]` ends the process for.
pub(crate) fn zeroed<T: Zeroable>(len: usize) -> Option<Vec<T>> {
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

impl<T: Pod> Block<T> {
    /// Returns the block of the first `len` elements of `segment`, with whatever they are.
    ///
    /// # Panics
    /// If the segment is too small or not aligned for them: a bug of polyshard.
    pub(crate) fn shared(segment: Segment, len: usize) -> Self {
        let fits = len.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= segment.bytes);
        assert!(fits, "{len} elements are in a segment of {} bytes; this is a bug of polyshard", segment.bytes);
        assert!(segment.address.cast::<T>().is_aligned(), "a segment is not aligned; this is a bug of polyshard");
        Self { place: Place::Shared { segment, elements: PhantomData }, len }
    }
}

impl<T> Block<T> {
    /// Returns the first `len` elements of the memory of this block, with whatever they are.
    ///
    /// # Panics
    /// If there is no room for so many: a bug of polyshard.
    pub(crate) fn cut(self, len: usize) -> Self {
        let room = match &self.place {
            Place::Own(elements) => elements.len(),
            Place::Shared { segment, .. } => segment.bytes / size_of::<T>().max(1),
        };
        assert!(len <= room, "{len} elements are in a block of {room}; this is a bug of polyshard");
        Self { len, ..self }
    }

    /// Returns the segment that it is in, if it is in one.
    pub(crate) fn segment(&self) -> Option<&Segment> {
        match &self.place {
            Place::Own(_) => None,
            Place::Shared { segment, .. } => Some(segment),
        }
    }

    /// Returns the elements, and the segment that they are in.
    pub(crate) fn slice_and_segment(&mut self) -> (&mut [T], Option<&Segment>) {
        match &mut self.place {
            Place::Own(elements) => (&mut elements[..self.len], None),
            Place::Shared { segment, .. } => {
                // SAFETY: as in `deref`; the block is borrowed mutably and no other segment has this memory. The
                // segment that is returned beside is a description, and no part of the memory.
                let elements = unsafe { std::slice::from_raw_parts_mut(segment.address.cast().as_ptr(), self.len) };
                (elements, Some(segment))
            }
        }
    }
}

impl<T> Default for Block<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T> From<Vec<T>> for Block<T> {
    fn from(elements: Vec<T>) -> Self {
        Self { len: elements.len(), place: Place::Own(elements) }
    }
}

impl<T> Deref for Block<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.place {
            Place::Own(elements) => &elements[..self.len],
            Place::Shared { segment, .. } => {
                // SAFETY: `shared` has checked size and alignment, and that `T` is valid whatever the bytes. The
                // segment owns the memory while it is borrowed. Other ranks write to it only while a
                // redistribution has borrowed the block mutably, so not while this slice lives.
                unsafe { std::slice::from_raw_parts(segment.address.cast().as_ptr(), self.len) }
            }
        }
    }
}

impl<T> DerefMut for Block<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.slice_and_segment().0
    }
}

/// A copy is always this rank's own.
impl<T: Clone> Clone for Block<T> {
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl<T: fmt::Debug> fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
