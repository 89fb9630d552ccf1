//! The arrays of a program on one rank, by number.

use crate::{DistArray, Element, Error};
use polyshard_layout::{Name, Sharding};
use polyshard_program::{ArrayId, ArrayKind, Program};

/// The arrays that a run makes, and the numbers of those that it is given.
pub(super) struct Arrays<T> {
    /// The numbers of the inputs, ascending.
    pub(super) inputs: Vec<ArrayId>,
    pub(super) outputs: Vec<ArrayId>,
    /// By array: the one that a run has made; `None` between runs.
    pub(super) made: Vec<Option<DistArray<T>>>,
    /// By array: another array of which it is an alias, since no round has written it yet.
    pub(super) names: Vec<Option<ArrayId>>,
}

impl<T: Element> Arrays<T> {
    pub(super) fn new(program: &Program) -> Self {
        let [inputs, outputs] = [ArrayKind::Input, ArrayKind::Output].map(|kind| program.of_kind(kind));
        let made = program.arrays().iter().map(|_| None).collect();
        Self { inputs, outputs, made, names: vec![None; program.arrays().len()] }
    }

    /// Returns an array that has been written; `given` is the output, if the caller gave it and it is not written now.
    pub(super) fn get<'r>(
        &'r self,
        id: ArrayId,
        inputs: &[&'r DistArray<T>],
        given: Option<&'r DistArray<T>>,
    ) -> &'r DistArray<T> {
        match (self.inputs.binary_search(&id), given) {
            (Ok(position), _) => inputs[position],
            (Err(_), Some(given)) if self.outputs[0] == id => given,
            (Err(_), _) => match (&self.made[id.0], self.names[id.0]) {
                (Some(made), _) => made,
                (None, Some(first)) => self.get(first, inputs, given),
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
