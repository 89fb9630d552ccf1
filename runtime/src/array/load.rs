//! Reading `.npy` files: each rank maps the file and copies its own part out of it.
//!
//! Ranks do not talk to each other here, and no rank reads what it does not own, but for the pages that its
//! rows share with others'.
#![expect(unsafe_code, reason = "maps a file into memory")]

use crate::block::Block;
use crate::layout::Sharding;
use crate::npy::{NpyFile, failed};
use crate::subarray::{Place, Row, Subarray};
use crate::{DistArray, Element, Region, Result, World};
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::path::Path;

impl<T: Element> DistArray<T> {
    /// Returns the array in a `.npy` file, laid out by `sharding`; every rank must see the file.
    ///
    /// Files in C and in Fortran order are read, of either byte order. The file must not be truncated while
    /// this runs: the operating system then ends the process.
    ///
    /// # Errors
    /// If the file cannot be read, is not a whole `.npy` file, or holds another type or shape; if the sharding's
    /// mesh has not as many ranks as the world, or this rank's block does not fit the memory that is free.
    pub fn read_npy(world: &World, path: impl AsRef<Path>, sharding: &Sharding) -> Result<Self> {
        T::read_npy(world, path.as_ref(), sharding)
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
            return Self::filled(world, sharding, T::ZERO);
        }
        let map = map(&file.file, file.start, whole.len() * size_of::<T>());
        let map = map.map_err(|why| failed("map", &file.path, why.into()))?;
        if file.fortran {
            array = Self::from_fn(world, sharding, |index| {
                let at = index.iter().zip(file.shape()).rev().fold(0, |at, (i, extent)| at * extent + i);
                bytemuck::pod_read_unaligned(&map[at * size_of::<T>()..][..size_of::<T>()])
            })?;
        } else {
            let what = format_args!("this rank's block of the array in `{}`", file.path.display());
            array.block = Block::new(own.len(), what, world.seen())?;
            let block = &mut array.block[..];
            own.rows(Place::Region, Place::Block).next(usize::MAX, |Row { from, to, len }| {
                let row: &mut [u8] = bytemuck::cast_slice_mut(&mut block[to..to + len]);
                row.copy_from_slice(&map[from * size_of::<T>()..][..row.len()]);
            });
        }
        file.unswap(&mut array.block);
        Ok(array)
    }
}

fn map(file: &File, start: u64, len: usize) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read only and private to this function's caller, which copies out of it what it
    // needs. It is undefined if the file changes or shrinks meanwhile; the documentation of `read_npy` says
    // that it must not.
    unsafe { MmapOptions::new().offset(start).len(len).map(file) }
}
