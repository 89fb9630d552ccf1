//! Memory for elements: a failed allocation is an error that gives the size and the purpose.
//!
//! All memory that grows with the data is allocated here. The standard library ends the process if an allocation
//! fails; and Linux seldom lets one fail, but ends the process later, when it touches the memory. So large sizes
//! are first compared with the free memory.

mod arena;
mod buffer;
mod pages;
mod pool;
mod segment;

pub use buffer::Buffer;
pub use pages::{Visibility, ranks_share, share_none};
pub use pool::{kept, release};
pub use segment::{Handle, Segment};

use bytemuck::{Zeroable, try_zeroed_vec};
use pages::Pages;
use polyshard_machine::units;
use std::fmt::Display;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// The result of allocating memory.
pub type Result<T> = std::result::Result<T, MemoryError>;

/// There is too little memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {bytes} bytes ({}) for {what}: {why}", units::bytes(*.bytes))]
pub struct MemoryError {
    /// The purpose of the memory, and the array.
    pub what: Box<str>,
    /// The bytes asked for.
    pub bytes: u128,
    /// How much is free, or the system's message.
    pub why: Box<str>,
}

/// Allocations of pages are multiples of this many bytes.
const PAGE: usize = 4096;

/// Minimum bytes of an allocation that is compared with the free memory: touching that much takes far longer than asking.
const LARGE: usize = 64 << 20;

/// Returns the bytes of memory and swap that this process can still get, if the system reports them.
///
/// Later requests of other processes are not known, nor memory that this process was given but has not touched.
#[must_use]
pub fn free_memory() -> Option<u64> {
    if !sysinfo::IS_SUPPORTED_SYSTEM {
        return None;
    }
    let system = System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::everything()));
    let free = system.available_memory().saturating_add(system.free_swap());
    // The file cache counts as used in a control group, but is freed when memory is needed.
    let limits = system.cgroup_limits().map(|limits| limits.total_memory.saturating_sub(limits.rss) + limits.free_swap);
    (system.total_memory() > 0).then(|| limits.map_or(free, |limit| free.min(limit)))
}

/// Minimum bytes of shared memory that goes through the pool; an arena finds room for less at once.
const LEAST_KEPT: usize = 1 << 16;

/// Memory for elements of any type, which returns to its origin when it is dropped: to the allocator, or to the pool.
#[derive(Debug)]
pub struct Memory(Held);

#[derive(Debug)]
enum Held {
    /// 8-byte words, so that every element type is aligned.
    Words(Vec<u64>),
    /// Taken out only when this is dropped.
    Pages(Option<Pages>),
}

impl Memory {
    /// Returns memory for `elements` elements of `what`, and whether they are zeros.
    ///
    /// # Errors
    /// If they do not fit the free memory.
    pub fn new<T>(elements: usize, what: impl Display, visibility: Visibility) -> Result<(Self, bool)> {
        let bytes = elements.checked_mul(size_of::<T>()).filter(|&bytes| bytes > 0);
        if let Some(bytes) = bytes.filter(|&bytes| bytes + Segment::LINE <= LEAST_KEPT)
            && let Some((pages, zeros)) = Pages::shared(bytes, visibility)
        {
            return Ok((Self(Held::Pages(Some(pages))), zeros));
        }
        let least = if visibility == Visibility::Process { pool::LEAST } else { LEAST_KEPT - Segment::LINE };
        if let Some(bytes) = bytes.filter(|&bytes| bytes >= least) {
            return Self::pages(bytes, what, visibility);
        }
        check::<T>(elements, &what)?;
        let words = try_zeroed_vec(elements.saturating_mul(size_of::<T>()).div_ceil(size_of::<u64>()));
        Ok((Self(Held::Words(words.map_err(|()| refused::<T>(elements, &what, None))?)), true))
    }

    /// As [`new`](Self::new), for `bytes` bytes, in whole pages.
    fn pages(bytes: usize, what: impl Display, visibility: Visibility) -> Result<(Self, bool)> {
        let whole = bytes.checked_next_multiple_of(PAGE).ok_or_else(|| refused::<u8>(bytes, &what, None))?;
        if let Some(pages) = pool::reuse(whole, visibility) {
            return Ok((Self(Held::Pages(Some(pages))), false));
        }
        check::<u8>(bytes, &what)?;
        let (pages, zeros) = pool::map(whole, visibility).map_err(|_| refused::<u8>(bytes, &what, None))?;
        Ok((Self(Held::Pages(Some(pages))), zeros))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Held::Words(words) => bytemuck::cast_slice(words),
            Held::Pages(pages) => pages.as_ref().map_or(&[], Pages::bytes),
        }
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Held::Words(words) => bytemuck::cast_slice_mut(words),
            Held::Pages(pages) => pages.as_mut().map_or(&mut [], Pages::bytes_mut),
        }
    }

    /// Returns its segment, if it is in one, and its offset there, in bytes.
    pub fn segment(&self) -> Option<(&Segment, usize)> {
        match &self.0 {
            Held::Words(_) => None,
            Held::Pages(pages) => pages.as_ref()?.segment(),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self(Held::Words(Vec::new()))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Held::Pages(pages) = &mut self.0
            && let Some(pages) = pages.take()
            && pages.len() >= LEAST_KEPT
        {
            pool::give_back(pages);
        }
    }
}

/// Returns `elements` zeros for `what`.
///
/// # Errors
/// If they do not fit the free memory.
pub fn zeros<T: Zeroable>(elements: usize, what: impl Display) -> Result<Vec<T>> {
    check::<T>(elements, &what)?;
    try_zeroed_vec(elements).map_err(|()| refused::<T>(elements, &what, None))
}

/// Returns an empty vector with room for `elements` elements of `what`.
///
/// # Errors
/// If they do not fit the free memory.
pub fn room<T>(elements: usize, what: impl Display) -> Result<Vec<T>> {
    check::<T>(elements, &what)?;
    let mut room = Vec::new();
    room.try_reserve_exact(elements).map_err(|_| refused::<T>(elements, &what, None))?;
    Ok(room)
}

/// Divides a slice into parts of these lengths, one after the other.
///
/// # Panics
/// If it is too short: a bug in polyshard.
pub fn split_mut<T>(mut rest: &mut [T], lengths: impl IntoIterator<Item = usize>) -> impl Iterator<Item = &mut [T]> {
    let part = move |length| rest.split_off_mut(..length).expect("there is room for all parts");
    lengths.into_iter().map(part)
}

fn check<T>(elements: usize, what: &impl Display) -> Result<()> {
    let bytes = elements as u128 * size_of::<T>() as u128;
    if bytes < LARGE as u128 {
        return Ok(());
    }
    let lacks = || free_memory().filter(|&free| bytes > u128::from(free));
    if lacks().is_none() {
        return Ok(());
    }
    // The memory in this rank's pool counts as used.
    release();
    lacks().map_or(Ok(()), |free| Err(refused::<T>(elements, what, Some(free))))
}

fn refused<T>(elements: usize, what: &impl Display, free: Option<u64>) -> MemoryError {
    let bytes = elements as u128 * size_of::<T>() as u128;
    let why = match free {
        Some(free) => format!("{} are free", units::bytes(free.into())).into(),
        None => "the system refuses it".into(),
    };
    MemoryError { what: what.to_string().into(), bytes, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_less_than_everything() {
        let free = free_memory().expect("tests run where the system tells");
        assert!(free > 1 << 20 && free < 1 << 60, "{free}");
    }

    #[test]
    fn what_cannot_be_had_is_named_with_its_bytes() {
        let huge = 1 << 58;
        for refused in [
            zeros::<f64>(huge, "a tile of `A`").err(),
            room::<f64>(huge, "a tile of `A`").err(),
            Buffer::<f64>::default().grow(huge, "a tile of `A`").err(),
        ] {
            let message = refused.expect("no machine has it").to_string();
            let start = "cannot allocate 2305843009213693952 bytes (2.31 EB) for a tile of `A`: ";
            assert!(message.starts_with(start) && message.ends_with(" are free"), "{message}");
        }
        let message = refused::<f64>(usize::MAX, &"a tile of `A`", None).to_string();
        assert!(message.ends_with("bytes (147.6 EB) for a tile of `A`: the system refuses it"), "{message}");
    }

    #[test]
    fn what_is_there_is_zero() {
        assert_eq!(zeros::<i32>(3, "three").expect("three"), [0; 3]);
        assert_eq!(room::<i32>(3, "three").expect("three").capacity(), 3);
        let mut buffer = Buffer::new(2, "two").expect("two");
        buffer.fill(7);
        buffer.grow(1, "one").expect("it is there");
        assert_eq!(*buffer, [7, 7]);
        buffer.grow(4, "four").expect("four");
        assert_eq!(buffer.len(), 4);
    }

    #[test]
    fn long_buffers_are_kept_until_they_are_released() {
        let mut buffer = Buffer::new(1 << 18, "a tile").expect("2 MiB");
        buffer.fill(1_i64);
        drop(buffer);
        assert_eq!(kept(), 2 << 20);
        let again = Buffer::<f32>::new((1 << 19) - 1, "a tile").expect("2 MiB");
        assert_eq!((kept(), again.len()), (0, (1 << 19) - 1));
        drop(again);
        release();
        assert_eq!(kept(), 0);
    }
}
