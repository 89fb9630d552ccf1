//! Where an input comes from: a file, or random numbers that every rank can make alone.

use super::npy;
use super::values::{self, Number};
use ndarray::{Array2, Ix2};
use polyshard::{DistArray, Sharding, World};
use std::path::{Path, PathBuf};

/// A source of a matrix.
pub(crate) enum Operand {
    /// A `.npy` file.
    File(PathBuf),
    /// Random numbers of this seed.
    Random(u64),
}

impl Operand {
    /// Returns the file that it comes from.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Random(_) => None,
        }
    }

    /// Returns this rank's part.
    pub(crate) fn shard<T: Number>(&self, world: &World, sharding: &Sharding) -> polyshard::Result<DistArray<T>> {
        Ok(match self {
            Self::File(path) => DistArray::read_npy(world, path, sharding)?,
            Self::Random(seed) => DistArray::from_fn(world, sharding, |index| values::element(*seed, index))?,
        })
    }

    /// Returns all of it, without asking any shard, so that it can tell whether the shards are right.
    pub(crate) fn whole<T: Number>(&self, shape: &[usize]) -> Result<Array2<T>, String> {
        match self {
            Self::File(path) => {
                let array = npy::read(path)?.into_dimensionality::<Ix2>();
                array.map_err(|_| {
                    format!("`{}` is not a matrix any more; do not change it during the run", path.display())
                })
            }
            Self::Random(seed) => {
                Ok(Array2::from_shape_fn((shape[0], shape[1]), |(i, j)| values::element(*seed, &[i, j])))
            }
        }
    }
}
