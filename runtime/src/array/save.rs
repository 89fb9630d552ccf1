//! Writing `.npy` files: rank 0 writes, the others send it what they own.

use super::npy::{error, type_of};
use crate::comm::Broadcast;
use crate::{DistArray, Element, Error, Result, World};
use npyz::{DType, Endianness, WriteOptions, WriterBuilder};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

impl<T: Element> DistArray<T> {
    /// Writes the array to a `.npy` file in C order; collective over the world.
    ///
    /// Rank 0 alone touches the file system. Every element is sent to it once, by one of its owners (MPI 3.1,
    /// section 3.2), in pieces of at most 8 MiB, so that its memory does not grow with the array. The file is
    /// written beside `path`, with `.partial` appended, and gets its name when it is complete.
    ///
    /// # Errors
    /// On all ranks, if rank 0 cannot write the file; what it had written is then removed. If another rank
    /// failed.
    pub fn to_npy(&self, world: &World, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);

        let created = if world.rank() == 0 { self.create(&partial).map(Some) } else { Ok(None) };
        let mut file = agreed(world, created)?;
        let mut written = Ok(());
        self.collect(world, |piece| {
            // After a failure the others still send; they are told when they have.
            if let (Some(file), Ok(())) = (&mut file, &written) {
                written = file.write_all(bytemuck::cast_slice(piece)).map_err(|why| error("write", &partial, why));
            }
        })?;
        let finished = written.and_then(|()| {
            let Some(file) = &file else { return Ok(()) };
            file.sync_all().map_err(|why| error("write", &partial, why))?;
            fs::rename(&partial, path).map_err(|why| error("write", path, why))
        });
        if finished.is_err() {
            // It is the first failure that is reported, not that of cleaning up after it.
            let _ = fs::remove_file(&partial);
        }
        agreed(world, finished)
    }

    fn create(&self, path: &Path) -> Result<File> {
        let shape: Vec<_> = self.shape().iter().map(|&extent| extent as u64).collect();
        let file = File::create(path).map_err(|why| error("create", path, why))?;
        WriteOptions::new_header_only()
            .dtype(DType::new_scalar(type_of::<T>(Endianness::of_machine())))
            .shape(&shape)
            .writer(file)
            .write_header_only()
            .map_err(|why| error("write", path, why))
    }
}

/// Gives all ranks the failure of rank 0, if there is one (MPI 3.1, section 5.4).
fn agreed<R>(world: &World, result: Result<R>) -> Result<R> {
    let comm = world.comm();
    let message = result.as_ref().err().map_or(String::new(), ToString::to_string).into_bytes();
    let mut len = message.len().to_ne_bytes();
    if world.rank() == 0 {
        comm.broadcast(Broadcast::Send(&len))?;
        if !message.is_empty() {
            comm.broadcast(Broadcast::Send(&message))?;
        }
        return result;
    }
    comm.broadcast(Broadcast::Receive { root: 0, into: &mut len })?;
    match usize::from_ne_bytes(len) {
        0 => result,
        len => {
            let mut message = vec![0; len];
            comm.broadcast(Broadcast::Receive { root: 0, into: &mut message })?;
            Err(Error::File(String::from_utf8_lossy(&message).into_owned()))
        }
    }
}
