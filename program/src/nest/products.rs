//! Leaves of several operands: their products, two factors each.

use super::Role;
use crate::ids::{BlockDepth, LeafLoopId, OperandId, ProductId};
use serde::{Deserialize, Serialize};

/// A product of two factors in a leaf of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// The two factors.
    pub factors: [Factor; 2],
    /// The leaf loops that it runs over.
    pub loops: Vec<LeafLoopId>,
    /// The role of each of these loops, if it runs as matrix products; none if it runs as a nest.
    pub roles: Vec<Role>,
    /// The loops that index the result, outermost in memory first; none if it is the output.
    pub kept: Vec<LeafLoopId>,
    /// The blocked loops around it.
    pub level: BlockDepth,
    /// Maximum number of elements of the result; 0 if it is the output.
    pub capacity: usize,
}

/// A factor of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Factor {
    /// An operand.
    Operand(OperandId),
    /// The result of a product.
    Scratch(ProductId),
}

/// A leaf loop that runs in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopBlock {
    /// The leaf loop.
    pub number: LeafLoopId,
    /// The iterations of a block.
    pub size: i64,
}
