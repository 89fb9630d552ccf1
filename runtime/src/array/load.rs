//! Reading `.npy` files: each rank maps the file and copies its own part out of it.
//!
//! Ranks do not talk to each other here, and no rank reads what it does not own, but for the pages that its
//! rows share with others'.
#![expect(unsafe_code, reason = "maps a file into memory")]

use super::npy::{error, swapped};
use crate::layout::Sharding;
use crate::tile::{Overlap, Place};
use crate::{DistArray, Element, Region, Result, World};
use memmap2::{Mmap, MmapOptions};
use npyz::{NpyHeader, Order};
use std::fs::File;
use std::io::Seek;
use std::path::Path;

impl<T: Element> DistArray<T> {
    /// Returns the array in a `.npy` file, laid out by `sharding`; every rank must see the file.
    ///
    /// Files in C and in Fortran order are read, of either byte order. The file must not be truncated while
    /// this runs: the operating system then ends the process.
    ///
    /// # Errors
    /// If the file cannot be read, is not a whole `.npy` file, or holds another type or shape; or if the
    /// sharding's mesh has not as many ranks as the world.
    pub fn read_npy(world: &World, path: impl AsRef<Path>, sharding: &Sharding) -> Result<Self> {
        let path = path.as_ref();
        let mut array = Self::empty(world, sharding)?;
        let mut file = File::open(path).map_err(|why| error("open", path, why))?;
        let header = NpyHeader::from_reader(&mut file)
            .map_err(|why| error("read", path, format_args!("{why}; it should be a `.npy` file")))?;
        let start = file.stream_position().map_err(|why| error("read", path, why))?;

        let held: Vec<_> = header.shape().iter().map(|&extent| extent as usize).collect();
        let swapped = swapped::<T>(&header.dtype()).filter(|_| held == sharding.shape()).ok_or_else(|| {
            let (held_type, name, wanted) = (header.dtype().descr(), T::NAME, sharding.shape());
            let why = format!("it holds {held_type} of shape {held:?}, but {name} of shape {wanted:?} is expected");
            error("use", path, why)
        })?;
        let len = held.iter().product::<usize>() * size_of::<T>();
        let there = file.metadata().map_err(|why| error("read", path, why))?.len().saturating_sub(start);
        if there < len as u64 {
            let why = format!("it is cut short: {there} bytes of elements instead of {len}; write it again");
            return Err(error("read", path, why));
        }
        let own = Overlap::of(sharding, array.coordinates(), &Region::whole(&held));
        if own.len() == 0 {
            return Ok(array);
        }
        let map = map(&file, start, len).map_err(|why| error("map", path, why))?;
        match header.order() {
            Order::C => {
                array.block = vec![T::ZERO; own.len()].into();
                own.rows(Place::Region, Place::Block, |from, to, len| {
                    let row: &mut [u8] = bytemuck::cast_slice_mut(&mut array.block[to..to + len]);
                    row.copy_from_slice(&map[from * size_of::<T>()..][..row.len()]);
                });
            }
            Order::Fortran => {
                let strides = header.strides();
                array = Self::from_fn(world, sharding, |index| {
                    let at: usize = index.iter().zip(strides).map(|(i, &stride)| i * stride as usize).sum();
                    bytemuck::pod_read_unaligned(&map[at * size_of::<T>()..][..size_of::<T>()])
                })?;
            }
        }
        if swapped {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut array.block);
            bytes.chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        }
        Ok(array)
    }
}

fn map(file: &File, start: u64, len: usize) -> std::io::Result<Mmap> {
    // SAFETY: the mapping is read only and private to this function's caller, which copies out of it what it
    // needs. It is undefined if the file changes or shrinks meanwhile; the documentation of `read_npy` says
    // that it must not.
    unsafe { MmapOptions::new().offset(start).len(len).map(file) }
}
