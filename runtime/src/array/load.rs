//! Reading `.npy` files: each rank maps the file and copies its own part.
//!
//! Ranks do not communicate here, and no rank reads data that it does not own, except the pages that its rows share with others'.
#![expect(unsafe_code, reason = "maps a file into memory")]

use crate::block::Block;
use crate::instances::Instances;
use crate::layout::Sharding;
use crate::npy::{NpyFile, failed};
use crate::subarray::{Place, Row, Subarray};
use crate::{DistArray, Element, Region, Result, World, at_caller};
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::path::Path;

impl<T: Element> DistArray<T> {
    /// Returns the array in a `.npy` file, with this sharding; every rank must see the file.
    ///
    /// Files in C and in Fortran order are read, of either byte order; elements of a narrower type are converted as they are read, to a
    /// type that [`wider`](crate::wider) gives. The file must not be truncated while this runs: the operating system then ends the process.
    ///
    /// # Errors
    /// If the file cannot be read, is not a complete `.npy` file, holds another type or shape, or changes meanwhile; if the number of ranks
    /// of the sharding's mesh is not the world's, or this rank's block does not fit in free memory.
    #[track_caller]
    pub fn read_npy(world: &World, path: impl AsRef<Path>, sharding: &Sharding) -> Result<Self> {
        at_caller(T::read_npy(world, path.as_ref(), sharding))
    }

    pub(crate) fn read(world: &World, path: &Path, sharding: &Sharding) -> Result<Self> {
        let mut array = Self::empty(world, sharding)?;
        let file = NpyFile::open(path)?;
        file.expect::<T>(Some(sharding.shape()))?;
        let whole = Region::whole(file.shape());
        let own = Subarray::of(sharding, array.coordinates(), &whole);
        if own.len() == 0 {
            return Ok(array);
        }
        if !array.has_first_term() {
            return Self::filled_with(world, sharding, T::ZERO);
        }
        let size = file.dtype().size();
        let map = map(&file.file, file.start, whole.len() * size);
        let map = map.map_err(|why| failed("map", &file.path, why.into()))?;
        if file.fortran {
            array = Self::from_fn(world, sharding, |index| {
                let at = index.iter().zip(file.shape()).rev().fold(0, |at, (i, extent)| at * extent + i);
                let mut element = T::ZERO;
                file.decode(&map[at * size..][..size], std::slice::from_mut(&mut element));
                element
            })?;
        } else {
            let what = format_args!("this rank's block of the array in `{}`", file.path.display());
            array.block = Block::new(own.len(), what, world.visibility())?;
            let (block, mut passed) = (&mut array.block[..], 0);
            own.rows(Place::Region, Place::Block).next(usize::MAX, |Row { from, to, len }| {
                // A long row is mapped in parts, too.
                for first in (0..len).step_by(MAPPED / size) {
                    let row = &mut block[to + first..to + len.min(first + MAPPED / size)];
                    let from = (from + first) * size;
                    file.decode(&map[from..][..row.len() * size], row);
                    if from >= passed + MAPPED {
                        unmap(&map, passed, from - passed);
                        passed = from;
                    }
                }
            });
        }
        file.check_unchanged()?;
        Ok(array)
    }
}

/// Bytes of a file that stay in this process' memory after they have been read, approximately.
const MAPPED: usize = 4 << 20;

/// Removes pages that have been read from this process' memory; they stay in the system's cache.
fn unmap(map: &Mmap, start: usize, len: usize) {
    // SAFETY: the pages are those of a file that is not written to through the mapping, so that they are read from it again if they are
    // accessed. If the system does not do it, they stay until the file is closed.
    #[cfg(unix)]
    let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, len) };
    #[cfg(not(unix))]
    let _ = (map, start, len);
}

fn map(file: &File, start: u64, len: usize) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read only and private to this function's caller, which copies its part out of it. It is undefined if the file
    // changes or shrinks meanwhile; the documentation of `read_npy` says that it must not, and a file that has changed is an error.
    unsafe { MmapOptions::new().offset(start).len(len).map(file) }
}
