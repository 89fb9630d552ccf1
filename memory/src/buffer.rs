//! Buffers for tiles and messages, whose memory outlives them.

use super::pages::Visibility;
use super::{Memory, Result, Segment};
use bytemuck::Pod;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Elements whose values are unspecified until they are written.
///
/// Long buffers take their memory from this thread's pool and return it there.
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// Returns a buffer of `elements` elements for `what`.
    ///
    /// # Errors
    /// If they do not fit the free memory.
    pub fn new(elements: usize, what: impl Display) -> Result<Self> {
        Self::with_visibility(elements, what, Visibility::Process)
    }

    /// As [`new`](Self::new), in memory that other ranks of the node can read, if ranks are processes.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn to_be_read(elements: usize, what: impl Display) -> Result<Self> {
        Self::with_visibility(elements, what, super::pages::visible_to_ranks())
    }

    fn with_visibility(elements: usize, what: impl Display, visibility: Visibility) -> Result<Self> {
        let (memory, _) = Memory::new::<T>(elements, what, visibility)?;
        Ok(Self { memory, len: elements, elements: PhantomData })
    }

    /// Returns its segment, if it is in one, and its offset there, in bytes.
    pub fn segment(&self) -> Option<(&Segment, usize)> {
        self.memory.segment()
    }

    /// Makes the buffer at least this long, for `what`; its contents are lost if it was shorter.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn grow(&mut self, elements: usize, what: impl Display) -> Result<()> {
        if self.len() < elements {
            // The old memory is freed first.
            *self = Self::default();
            *self = Self::new(elements, what)?;
        }
        Ok(())
    }
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Self { memory: Memory::default(), len: 0, elements: PhantomData }
    }
}

impl<T: Pod> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.memory.bytes()[..self.len * size_of::<T>()])
    }
}

impl<T: Pod> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.memory.bytes_mut()[..self.len * size_of::<T>()])
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}
