//! Buffers for tiles and messages, whose memory outlives them.

use super::pool;
use super::{check, refused};
use crate::Result;
use crate::block::zeroed;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use memmap2::MmapMut;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Elements that nothing is promised of until they are written.
///
/// Long buffers take their memory from this thread's pool and give it back to it; see [`pool`].
pub(crate) struct Buffer<T> {
    memory: Memory<T>,
}

enum Memory<T> {
    Heap(Vec<T>),
    /// Taken out only when the buffer is dropped.
    Pooled {
        pages: Option<MmapMut>,
        len: usize,
        elements: PhantomData<T>,
    },
}

impl<T: Pod> Buffer<T> {
    /// Returns a buffer of `elements` elements for `what`.
    ///
    /// # Errors
    /// If they do not fit the memory that is free.
    pub(crate) fn new(elements: usize, what: impl Display) -> Result<Self> {
        let Some(bytes) = elements.checked_mul(size_of::<T>()).filter(|&bytes| bytes >= pool::LEAST) else {
            check::<T>(elements, &what)?;
            let elements = zeroed(elements).ok_or_else(|| refused::<T>(elements, &what, None))?;
            return Ok(Self { memory: Memory::Heap(elements) });
        };
        let pages = match pool::reuse(bytes) {
            Some(pages) => pages,
            None => {
                check::<T>(elements, &what)?;
                pool::map(bytes).ok_or_else(|| refused::<T>(elements, &what, None))?
            }
        };
        Ok(Self { memory: Memory::Pooled { pages: Some(pages), len: elements, elements: PhantomData } })
    }

    /// Makes it at least so long, for `what`; what it held is lost if it was shorter.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn grow(&mut self, elements: usize, what: impl Display) -> Result<()> {
        if self.len() < elements {
            // What there was is given back first.
            *self = Self::default();
            *self = Self::new(elements, what)?;
        }
        Ok(())
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        if let Self::Pooled { pages, .. } = self
            && let Some(pages) = pages.take()
        {
            pool::give_back(pages);
        }
    }
}

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Self { memory: Memory::Heap(Vec::new()) }
    }
}

impl<T: Pod> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.memory {
            Memory::Heap(elements) => elements,
            Memory::Pooled { pages: Some(pages), len, .. } => cast_slice(&pages[..len * size_of::<T>()]),
            Memory::Pooled { pages: None, .. } => &[],
        }
    }
}

impl<T: Pod> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Heap(elements) => elements,
            Memory::Pooled { pages: Some(pages), len, .. } => cast_slice_mut(&mut pages[..*len * size_of::<T>()]),
            Memory::Pooled { pages: None, .. } => &mut [],
        }
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}
