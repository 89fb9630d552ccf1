//! Blocks: the memory of an array's elements, private to this rank or in a segment that other ranks see too.
//!
//! A block looks like a slice wherever it is, and can be dropped at any time, in any order, on any thread.
//!
//! Other ranks read a block while it is *published*. A published block has a second owner until all ranks are done with it; if a failure
//! keeps that from being known, the second owner stays, the memory is never freed, and a writer to the block gets a copy. So no rank ever
//! reads memory that another writes.
#![expect(unsafe_code, reason = "makes slices of memory whose elements have another type")]

use crate::Result;
use crate::memory::{Memory, Segment, Visibility};
use bytemuck::Pod;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The elements of one rank's part of an array.
pub(crate) struct Block<T> {
    memory: Arc<Memory>,
    /// The elements, at most as many as there is room for.
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Block<T> {
    /// Returns a block of `len` elements for `what`, with arbitrary values.
    pub(crate) fn new(len: usize, what: impl Display, visibility: Visibility) -> Result<Self> {
        let (memory, _) = Memory::new::<T>(len, what, visibility)?;
        Ok(Self::of(memory, len))
    }

    /// Returns a block of `len` elements for `what`, each of them `value`.
    pub(crate) fn filled(len: usize, value: T, what: impl Display, visibility: Visibility) -> Result<Self> {
        let (memory, zeros) = Memory::new::<T>(len, what, visibility)?;
        let mut block = Self::of(memory, len);
        if !zeros || bytemuck::bytes_of(&value).iter().any(|&byte| byte != 0) {
            block.fill(value);
        }
        Ok(block)
    }

    fn of(memory: Memory, len: usize) -> Self {
        const { assert!(align_of::<T>() <= align_of::<u64>(), "memory is aligned for words") };
        let block = Self { memory: Arc::new(memory), len, elements: PhantomData };
        let room = block.memory.bytes().len();
        assert!(len * size_of::<T>() <= room, "{len} elements are in {room} bytes; this is a bug in polyshard");
        block
    }
}

impl<T> Block<T> {
    /// Returns the first `len` elements of the memory of this block, with arbitrary values.
    pub(crate) fn cut(self, len: usize) -> Self {
        let room = self.room();
        assert!(len <= room, "{len} elements are in a block of {room}; this is a bug in polyshard");
        Self { len, ..self }
    }

    /// Returns the number of elements that fit in its memory.
    pub(crate) fn room(&self) -> usize {
        self.memory.bytes().len() / size_of::<T>().max(1)
    }

    /// Returns the segment that contains it, if any, and its distance from the start of the segment, in bytes.
    pub(crate) fn segment(&self) -> Option<(&Segment, usize)> {
        self.memory.segment()
    }

    /// Returns another owner of the memory, for publishing the block to other ranks.
    pub(crate) fn lend(&self) -> Arc<Memory> {
        Arc::clone(&self.memory)
    }
}

/// Memory that is never freed stays unchanged: a failure has kept this rank from knowing whether others read it.
fn copy(memory: &Memory) -> Memory {
    let visibility = if memory.segment().is_some() { Visibility::Node } else { Visibility::Process };
    let (mut copy, _) = Memory::new::<u8>(memory.bytes().len(), "a copy of data that other ranks may read", visibility)
        .unwrap_or_else(|error| panic!("{error}"));
    let len = memory.bytes().len();
    copy.bytes_mut()[..len].copy_from_slice(memory.bytes());
    copy
}

impl<T> Default for Block<T> {
    fn default() -> Self {
        Self { memory: Arc::default(), len: 0, elements: PhantomData }
    }
}

impl<T> Deref for Block<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `of` and `cut` have checked the size, and `of` that the memory is aligned for `T`, which is valid for any bytes. An empty
        // block has an address that is not null.
        unsafe { std::slice::from_raw_parts(self.memory.bytes().as_ptr().cast(), self.len) }
    }
}

impl<T> DerefMut for Block<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        if Arc::get_mut(&mut self.memory).is_none() {
            self.memory = Arc::new(copy(&self.memory));
        }
        let memory = Arc::get_mut(&mut self.memory).expect("memory has one owner here; this is a bug in polyshard");
        let address = memory.bytes_mut().as_mut_ptr().cast();
        // SAFETY: `of` and `cut` have checked the size, and `of` that the memory is aligned for `T`, which is valid for any bytes. The
        // block is borrowed mutably, and its memory has no other owner.
        unsafe { std::slice::from_raw_parts_mut(address, self.len) }
    }
}

/// A copy has memory of the same kind.
impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        Self { memory: Arc::new(copy(&self.memory)), len: self.len, elements: PhantomData }
    }
}

impl<T: fmt::Debug> fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_to_what_is_published_gets_a_copy() {
        for len in [3, 1 << 18] {
            let mut block = Block::filled(len, 1.5_f64, "a block", Visibility::Process).expect("a block");
            let address = block.as_ptr();
            block[0] = 2.5;
            assert_eq!(block.as_ptr(), address);
            let published = block.lend();
            block[1] = 3.5;
            assert_ne!(block.as_ptr(), address);
            assert_eq!(block[..3], [2.5, 3.5, 1.5]);
            assert_eq!(bytemuck::cast_slice::<u8, f64>(published.bytes())[..3], [2.5, 1.5, 1.5]);
        }
    }

    #[test]
    fn an_empty_block_has_no_elements() {
        let mut block = Block::<f32>::default();
        assert!(block.is_empty() && block.clone().is_empty());
        block.fill(1.0);
        assert!(block.is_empty());
    }
}
