//! Transfers while a kernel is lowered, before they are rows of a program.

use polyshard_program::{ArrayId, Direction, End, KernelId, OperandId, Region, TensorId, Transfer};
use std::ops::{Deref, DerefMut};

/// A transfer of a tensor, to which it dereferences.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub tensor: TensorId,
    /// The leaf's operands that read the fetched region, ascending.
    pub operands: Vec<OperandId>,
    pub transfer: Transfer,
}

impl Planned {
    /// A transfer that stays in place, outside of all loops. Arrays have the numbers of tensors, and the kernel is the only one.
    pub(crate) fn in_place(tensor: TensorId, operands: Vec<OperandId>, direction: Direction, region: Region) -> Self {
        let (array, tile) = (End::Array(ArrayId(tensor.0)), End::Tile(KernelId(0)));
        let (from, to) = if direction == Direction::In { (array, tile) } else { (tile, array) };
        Self { tensor, operands, transfer: Transfer::in_place(from, to, direction, region) }
    }
}

impl Deref for Planned {
    type Target = Transfer;

    fn deref(&self) -> &Transfer {
        &self.transfer
    }
}

impl DerefMut for Planned {
    fn deref_mut(&mut self) -> &mut Transfer {
        &mut self.transfer
    }
}
