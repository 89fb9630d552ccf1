//! Writing `.npy` files: rank 0 writes, the others send it their parts.

use crate::instances::Instances;
use crate::{CompleteFile, DistArray, Element, Error, Output, Result, World, at_caller, npy_header};
use std::path::Path;

impl<T: Element> DistArray<T> {
    /// Writes the array to a `.npy` file in C order; collective over the world.
    ///
    /// Only rank 0 accesses the file system. Every element is sent to it once, by one of its owners (MPI 3.1, section 3.2), in pieces of at
    /// most 1 MiB, of which two are in flight, so that no memory grows with the array. The file is put in place when it is complete and all
    /// ranks have reached this call: an array may be written to the file that it was read from. Links are followed; special files, such as
    /// `/dev/null` or a pipe, are written to directly. [`Output`] can check the path before the work, and
    /// [`complete_npy`](Self::complete_npy) writes several files that are put in place together.
    ///
    /// # Errors
    /// On all ranks, if the array holds partial sums, or rank 0 cannot write the file, which is then unchanged. If another rank failed.
    #[track_caller]
    pub fn to_npy(&self, world: &World, path: impl AsRef<Path>) -> Result<()> {
        at_caller(T::complete_npy(self, world, path.as_ref()).and_then(|file| CompleteNpy::commit(world, [file])))
    }

    /// Writes the array to a `.npy` file as [`to_npy`](Self::to_npy) does, but does not put it in place yet: [`CompleteNpy::commit`] does
    /// that. Collective over the world.
    ///
    /// # Errors
    /// As for [`to_npy`](Self::to_npy).
    #[track_caller]
    pub fn complete_npy(&self, world: &World, path: impl AsRef<Path>) -> Result<CompleteNpy> {
        at_caller(T::complete_npy(self, world, path.as_ref()))
    }

    pub(crate) fn complete(&self, world: &World, path: &Path) -> Result<CompleteNpy> {
        self.closed("written to a file")?;
        let bytes = (self.shape().iter().product::<usize>() * size_of::<T>()) as u128;
        let create = || Output::new(path)?.with_room(bytes)?.create();
        let created = if world.is_root() { create().map(Some) } else { Ok(None) };
        let mut file = agreed(world, created)?;
        let mut written = file.as_mut().map_or(Ok(()), |file| file.write(&npy_header::<T>(self.shape(), false)));
        self.collect(world, |piece| {
            // After a failure the others still send; they get the error afterwards.
            if let (Some(file), Ok(())) = (&mut file, &written) {
                written = file.write_elements(piece);
            }
        })?;
        let complete = written.and_then(|()| file.map(|file| file.complete()).transpose());
        agreed(world, complete).map(CompleteNpy)
    }
}

/// An array in a `.npy` file that is complete, but not in place yet. If it is dropped, the file is removed.
#[derive(Debug)]
#[must_use = "the file is in its place when it is committed"]
pub struct CompleteNpy(Option<CompleteFile>);

impl CompleteNpy {
    /// Puts the files in place, all of them or none as far as the file system allows; collective over the world.
    ///
    /// # Errors
    /// On all ranks, if one cannot be put in place. If another rank failed.
    pub fn commit(world: &World, files: impl IntoIterator<Item = Self>) -> Result<()> {
        // A rank that has reached this call has read its inputs.
        world.comm().barrier()?;
        agreed(world, CompleteFile::commit(files.into_iter().filter_map(|Self(file)| file)))
    }
}

/// Broadcasts the failure of rank 0, if it failed, to all ranks (MPI 3.1, section 5.4).
pub(crate) fn agreed<R>(world: &World, result: Result<R>) -> Result<R> {
    let message = world.broadcast_text(&result.as_ref().err().map_or(String::new(), ToString::to_string))?;
    if world.is_root() || message.is_empty() { result } else { Err(Error::Root { message }) }
}
