//! The arrays that statements of a running program read, by number.

use crate::{DistArray, Element, Error};
use polyshard_layout::{Name, Sharding};
use polyshard_program::ArrayId;

/// The arrays that a statement may read.
pub(super) struct Arrays<'r, T> {
    pub(super) inputs: &'r [&'r DistArray<T>],
    /// The numbers of the inputs, ascending.
    pub(super) ids: &'r [ArrayId],
    /// By array, without inputs.
    pub(super) made: &'r [Option<DistArray<T>>],
    /// By array: another array of which it is an alias.
    pub(super) names: &'r [Option<ArrayId>],
    /// The output, if the caller gave it and it is not written now.
    pub(super) given: Option<(ArrayId, &'r DistArray<T>)>,
}

impl<'r, T: Element> Arrays<'r, T> {
    /// Returns an array.
    pub(super) fn get(&self, id: ArrayId) -> &'r DistArray<T> {
        match (self.ids.binary_search(&id), self.given) {
            (Ok(position), _) => self.inputs[position],
            (Err(_), Some((given, array))) if given == id => array,
            (Err(_), _) => match (&self.made[id.0], self.names[id.0]) {
                (Some(made), _) => made,
                (None, Some(first)) => self.get(first),
                (None, None) => unreachable!("what is read was written; this is a bug in polyshard"),
            },
        }
    }
}

/// Adds the array's name to an error about too little memory.
pub(super) fn of_array(name: Name, sharding: &Sharding, error: Error) -> Error {
    match error {
        Error::Memory { bytes, why, .. } => {
            let what = format!("a rank's block of `{name}`, of shape {:?}", sharding.shape()).into();
            Error::Memory { what, bytes, why }
        }
        error => error,
    }
}
