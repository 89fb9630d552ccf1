//! Hints: what is legal but likely slow, with what would cure it.
//!
//! A hint never stops a program and never changes it. Each is decided from the closed forms of the program that was
//! proved, so that it costs no question to isl; a doubtful case gets none.

use crate::pattern::list;
use polyshard_layout::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Something legal that is likely slow, or not what was meant; its text says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Hint {
    /// The statement is a matrix product, but runs as a scalar loop nest.
    ScalarProduct {
        /// The loops that would make a leaf.
        loops: Vec<Name>,
    },
    /// The leaf has one instance.
    LeafPerInstance {
        /// The serial loops around it.
        loops: Vec<Name>,
    },
    /// Iterations of a loop never have anything to do.
    EmptyIterations {
        /// The loop.
        name: Name,
        /// The iterations that are empty.
        empty: Range<i64>,
        /// The mesh axis that the loop is bound to, if it is.
        axis: Option<Name>,
        /// The step that made the loop, as text.
        step: String,
    },
    /// A message carries one element.
    OneElementMessages {
        /// The tensor.
        tensor: Name,
        /// The loop in whose iterations it moves.
        at: Name,
    },
    /// A panel lies in the blocks of two owners.
    CrossedBlocks {
        /// The tensor.
        tensor: Name,
        /// The dimension.
        dim: usize,
        /// The index that walks the dimension, if one does alone.
        index: Option<Name>,
        /// Indices in a panel.
        panel: i64,
        /// Indices in a block.
        block: i64,
        /// The axes that own the blocks, as they are written.
        axes: String,
    },
    /// The output is replicated because no step shards it.
    ReplicatedOutput {
        /// The output.
        tensor: Name,
        /// Bytes of it that each rank holds.
        bytes: u64,
    },
    /// A tile holds far more than is read of it.
    LooseTile {
        /// The tensor.
        tensor: Name,
        /// Elements of the tile.
        tile: i64,
        /// Elements read at most.
        read: i64,
    },
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ScalarProduct { loops } => {
                let loops = list(loops);
                write!(f, "the statement is a product, but runs element by element: add `.tensorize([{loops}])`")
            }
            Self::LeafPerInstance { loops } => write!(
                f,
                "the leaf computes one element at a time inside loops {}: communicate at an outer loop, and do not `fuse` \
                 loops that the leaf could run",
                list(loops)
            ),
            Self::EmptyIterations { name, empty, axis: None, step } => write!(
                f,
                "iterations {}..{} of loop `{name}` are always empty, after `{step}`: {} parts are enough",
                empty.start, empty.end, empty.start
            ),
            Self::EmptyIterations { empty, axis: Some(axis), step, .. } => write!(
                f,
                "ranks at {axis} = {}..{} have nothing to compute, after `{step}`: {} along {axis} are enough",
                empty.start, empty.end, empty.start
            ),
            Self::OneElementMessages { tensor, at } => write!(
                f,
                "`{tensor}` moves one element at a time, in each iteration of `{at}`: communicate it at an outer \
                 loop, or divide into larger panels"
            ),
            Self::CrossedBlocks { tensor, dim, index, panel, block, axes } => {
                let index = index.map_or_else(|| format!("dim({dim})"), |index| index.to_string());
                write!(
                    f,
                    "panels of `{tensor}` have {panel} indices of `{index}`, blocks have {block}, so some panels have \
                     several owners: let the size of a panel divide {block}, or shard block-cyclic, \
                     `{index}.cyclic({axes}, {panel})`"
                )
            }
            Self::ReplicatedOutput { tensor, bytes } => write!(
                f,
                "`{tensor}` has no `shard`, so each rank receives and holds all {bytes} bytes of it: shard it"
            ),
            Self::LooseTile { tensor, tile, read } => write!(
                f,
                "a tile of `{tensor}` holds {tile} elements, of which at most {read} are read, since it is one box \
                 around all accesses: communicate it at an inner loop, or pass it as two tensors"
            ),
        }
    }
}
