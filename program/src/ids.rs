//! Numbers of the parts of a program, a type for each kind.

use polyshard_layout::in_order;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::ops::Deref;

/// Whether a part of a row is as it is where a file leaves it out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares a number type for each of these names.
macro_rules! ids {
    ($($(#[$attribute:meta])* $id:ident;)*) => { $(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $id(pub usize);
    )* };
}

ids! {
    /// The number of an array of a program.
    ArrayId;
    /// The number of a kernel of a program.
    KernelId;
    /// The number of a transfer of a program.
    TransferId;
    /// The number of a loop of a program.
    LoopId;
    /// The number of rounds of a program.
    RoundsId;
    /// The number of a tensor of a kernel: an input's position, or the number of inputs for the output.
    TensorId;
    /// The number of an operand of a leaf: its accesses in the order in which the kernel's value reads them.
    OperandId;
    /// The number of an axis of a mesh: its position.
    AxisId;
    /// The number of a step of a schedule, from 1.
    StepId;
    /// A loop around a place, or its counter: how many of these are outside of it.
    CounterId;
    /// The number of a tile of a kernel: the position of its transfer among those that the kernel uses.
    TileId;
    /// The number of a leg of a transfer's route, counted from the owners.
    LegId;
    /// The number of a loop of a leaf: how many of the leaf's are around it.
    LeafLoopId;
    /// The number of a product of a leaf of several: how many run before it.
    ProductId;
    /// The number of a room: memory that arrays of a program use in turns.
    RoomId;
    /// The number of a statement of a program, from 1, as its text counts them.
    StatementId;
    /// A place in a nest: inside this many of its serial loops, outermost first.
    #[derive(Default)]
    Depth;
    /// A place in a leaf of several products: inside this many of the loops that run in blocks, outermost first.
    #[derive(Default)]
    BlockDepth;
}

/// Axes of a mesh, each once, ascending; a slice of their positions.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::Axes;
/// let axes = Axes::from([1, 0]);
/// assert_eq!(axes[..], [0, 1]);
/// assert_eq!(Mesh::new([("x", 2), ("y", 3)]).group_size(&axes), 6);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Axes(Vec<usize>);

impl<'de> Deserialize<'de> for Axes {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Self, D::Error> {
        let axes = Vec::<usize>::deserialize(file)?;
        match axes.is_sorted_by(|a, b| a < b) {
            true => Ok(Self(axes)),
            false => Err(D::Error::custom(format!("axes {axes:?} are not in ascending order, each once"))),
        }
    }
}

impl Axes {
    /// Returns whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<A: Into<Vec<usize>>> From<A> for Axes {
    fn from(axes: A) -> Self {
        Self(in_order(axes.into()))
    }
}

impl Deref for Axes {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl Depth {
    /// Returns the innermost of the loops that it is inside of.
    #[must_use]
    pub fn innermost(self) -> Option<CounterId> {
        self.0.checked_sub(1).map(CounterId)
    }

    /// Returns the loops that it is inside of, outermost first.
    pub fn loops(self) -> impl DoubleEndedIterator<Item = CounterId> {
        (0..self.0).map(CounterId)
    }
}

#[cfg(test)]
mod tests {
    use super::Axes;

    #[test]
    fn axes_are_each_there_once_ascending() {
        assert_eq!(Axes::from([2, 0, 2])[..], [0, 2]);
        let read: Result<Axes, _> = serde_json::from_str("[0, 2]");
        assert_eq!(read.expect("they ascend"), Axes::from([0, 2]));
        for file in ["[2, 0]", "[1, 1]"] {
            let error = serde_json::from_str::<Axes>(file).expect_err("they do not ascend");
            assert!(error.to_string().contains("are not in ascending order"), "{error}");
        }
    }
}
