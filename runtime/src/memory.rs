//! Memory for elements: what cannot be had is an error that says how much was asked for, and for what.
//!
//! Whatever grows with the data is allocated here. The standard library ends the process where an allocation
//! fails; and Linux seldom lets one fail, but ends the process later, when it touches what it was given. So large
//! amounts are first compared with what is free.

mod buffer;
mod pool;

pub(crate) use buffer::Buffer;
pub(crate) use pool::{kept, release};

use crate::block::zeroed;
use crate::{Element, Error, Result};
use polyshard_machine::units;
use std::fmt::Display;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// Bytes from which on an allocation is compared with the memory that is free: touching so many takes far longer.
const LARGE: usize = 64 << 20;

/// Returns the bytes of memory and swap that this process can still get, if the system tells.
///
/// What other processes will ask for is not known, nor what this one was given but has not touched.
#[must_use]
pub fn free_memory() -> Option<u64> {
    if !sysinfo::IS_SUPPORTED_SYSTEM {
        return None;
    }
    let system = System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::everything()));
    let free = system.available_memory().saturating_add(system.free_swap());
    // The file cache counts as used in a control group, but is given up when memory is needed.
    let limits = system.cgroup_limits().map(|limits| limits.total_memory.saturating_sub(limits.rss) + limits.free_swap);
    (system.total_memory() > 0).then(|| limits.map_or(free, |limit| free.min(limit)))
}

/// Returns so many zeros for `what`.
pub(crate) fn zeros<T: Element>(elements: usize, what: impl Display) -> Result<Vec<T>> {
    words(elements, what)
}

/// As [`zeros`], of any plain type.
pub(crate) fn words<T: bytemuck::Zeroable>(elements: usize, what: impl Display) -> Result<Vec<T>> {
    check::<T>(elements, &what)?;
    zeroed(elements).ok_or_else(|| refused::<T>(elements, &what, None))
}

/// Returns an empty vector with room for `elements` elements of `what`.
pub(crate) fn room<T>(elements: usize, what: impl Display) -> Result<Vec<T>> {
    check::<T>(elements, &what)?;
    let mut room = Vec::new();
    room.try_reserve_exact(elements).map_err(|_| refused::<T>(elements, &what, None))?;
    Ok(room)
}

/// Divides a slice into parts of these lengths, one after the other.
///
/// # Panics
/// If it is too short: a bug of polyshard.
pub(crate) fn split_mut<T>(
    mut rest: &mut [T],
    lengths: impl IntoIterator<Item = usize>,
) -> impl Iterator<Item = &mut [T]> {
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
    // What this rank keeps counts as used.
    release();
    lacks().map_or(Ok(()), |free| Err(refused::<T>(elements, what, Some(free))))
}

fn refused<T>(elements: usize, what: &impl Display, free: Option<u64>) -> Error {
    let bytes = elements as u128 * size_of::<T>() as u128;
    let why = match free {
        Some(free) => format!("{} are free", units::bytes(free.into())).into(),
        None => "the system refuses it".into(),
    };
    Error::Memory { what: what.to_string().into(), bytes, why }
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
