//! Hints: legal but likely slow schedules and statements, each with a fix.
//!
//! A hint never stops a program and never changes it. Each is decided from the closed forms of the proved program, without
//! asking isl; doubtful cases get no hint. Tests: `polyhedral/tests/it/hints.rs`.

use crate::pattern::list;
use polyshard_layout::Name;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Something legal that is likely slow or not intended; its text names the fix.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// use polyshard::program::Hint;
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// assert!(matches!(program.hints(), [Hint::ScalarProduct { .. }])); // not a product of matrices
/// assert!(rows.tensorize([mi, n, k]).lower()?.hints().is_empty());
/// # Ok::<(), polyshard::Error>(())
/// ```
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
        /// How many of its iterations, the first ones, are not always empty.
        filled: i64,
        /// How many it has.
        extent: i64,
        /// The mesh axis that the loop is bound to, if it is.
        axis: Option<Name>,
        /// The step that made the loop, as text.
        step: String,
    },
    /// Ranks have nothing to compute, since a loop is divided like the dimension that it writes, but its range covers only
    /// a part of that dimension.
    ShortRange {
        /// The loop.
        name: Name,
        /// Its range, as stated.
        range: String,
        /// The output.
        tensor: Name,
        /// Indices of the dimension of the output that it writes.
        extent: i64,
        /// The mesh axis.
        axis: Name,
        /// The coordinates along the axis that have something to compute.
        filled: Range<i64>,
        /// The number of coordinates along the axis.
        ranks: i64,
    },
    /// A message carries one element.
    OneElementMessages {
        /// The tensor.
        tensor: Name,
        /// The loop in whose iterations it moves.
        at: Name,
    },
    /// A pipelined transfer has no computation to overlap.
    NothingHidden {
        /// The tensor.
        tensor: Name,
        /// The loop.
        at: Name,
    },
    /// An iteration of a pipelined loop takes less time than the latency of a message.
    SmallSteps {
        /// The tensor.
        tensor: Name,
        /// The loop.
        at: Name,
        /// The operations of one iteration of the loop, at most.
        operations: u64,
    },
    /// The blocks of ranks are too small to have an interior to compute while a halo is in flight.
    NoInterior {
        /// The tensor with the halo.
        tensor: Name,
    },
    /// `interior_first` of an input without halo.
    NoHalo {
        /// The input.
        tensor: Name,
    },
    /// Messages in flight make progress only between leaves.
    LeafNotCut {
        /// The tensor.
        tensor: Name,
    },
    /// A panel spans the blocks of two owners.
    CrossedBlocks {
        /// The tensor.
        tensor: Name,
        /// The dimension.
        dim: usize,
        /// The index of the dimension, if it is a single variable.
        index: Option<Name>,
        /// Indices in a panel.
        panel: i64,
        /// Indices in a block.
        block: i64,
        /// The axes that own the blocks, as they are written.
        axes: String,
    },
    /// The output is moved because the loop that writes a dimension is not divided as the output is sharded there.
    MovedOutput {
        /// The output.
        tensor: Name,
        /// The index of the dimension.
        index: Name,
        /// The mesh axis along which the dimension is sharded.
        axis: Name,
        /// The mesh axis over which the index is distributed, if it is.
        over: Option<Name>,
    },
    /// A term of a sum does not depend on an index that is summed over, so it is added once for each value of that index.
    RepeatedTerm {
        /// The term, as it is written.
        term: String,
        /// The indices that it lacks.
        indices: Vec<Name>,
        /// How often each output element gets it.
        times: u64,
        /// The output.
        tensor: Name,
    },
    /// An index occurs once, and not in the output, so that one factor is summed over it for each value of the others.
    LoneIndex {
        /// The index.
        index: Name,
        /// The access in which it occurs.
        access: String,
        /// The other indices of the product that the access lacks.
        again: Vec<Name>,
    },
    /// Factors that are not elements of tensors keep a statement from being a matrix product.
    FactorsOfProduct {
        /// The factors, as they are written.
        factors: Vec<String>,
        /// For each, the access to its values if an earlier kernel computes them, `T[i, l]`.
        held: Vec<String>,
    },
    /// The output is replicated because no step shards it.
    ReplicatedOutput {
        /// The output.
        tensor: Name,
        /// Bytes of it that each rank holds.
        bytes: u64,
    },
    /// A kernel reads elements of an array that no statement has written.
    NotWritten {
        /// The kernel that reads.
        kernel: Name,
        /// The array.
        array: Name,
        /// The elements that it reads, as a box.
        read: String,
        /// The kernel that writes the array.
        by: Name,
        /// The elements that are known to be written, as a box, if any are.
        written: Option<String>,
        /// The value of the other elements, as text.
        held: String,
    },
    /// A tile holds far more elements than are read.
    LooseTile {
        /// The tensor.
        tensor: Name,
        /// Elements of the tile.
        tile: i64,
        /// Elements read at most.
        read: i64,
    },
}

impl Hint {
    /// Returns whether it concerns the statement itself, whatever the schedule.
    #[must_use]
    pub fn is_of_statement(&self) -> bool {
        matches!(
            self,
            Self::RepeatedTerm { .. }
                | Self::LoneIndex { .. }
                | Self::FactorsOfProduct { .. }
                | Self::NotWritten { .. }
        )
    }
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
            Self::EmptyIterations { name, filled, extent, axis: None, step } => write!(
                f,
                "iterations {filled}..{extent} of loop `{name}` are always empty, after `{step}`: {filled} parts are enough"
            ),
            Self::EmptyIterations { filled, extent, axis: Some(axis), step, .. } => write!(
                f,
                "ranks at {axis} = {} have nothing to compute, after `{step}`: {filled} along {axis} are enough",
                numbers(*filled, *extent)
            ),
            Self::ShortRange { name, range, tensor, extent, axis, filled, ranks } => {
                let idle = [0..filled.start, filled.end..*ranks].into_iter().filter(|idle| !idle.is_empty());
                let idle: Vec<_> = idle.map(|idle| numbers(idle.start, idle.end)).collect();
                write!(
                    f,
                    "ranks at {axis} = {} have nothing to compute, since `{name}` is divided like the {extent} \
                     indices of `{tensor}` that it writes, but covers only `{range}`: to divide that range instead, \
                     `divide` it into {ranks} first and distribute the outer loop, which moves `{tensor}` to its \
                     owners",
                    idle.join(" and ")
                )
            }
            Self::OneElementMessages { tensor, at } => write!(
                f,
                "`{tensor}` moves one element at a time, in each iteration of `{at}`: communicate it at an outer \
                 loop, or divide into larger panels"
            ),
            Self::NothingHidden { tensor, at } => write!(
                f,
                "the transfer of `{tensor}` overlaps no computation, since `{at}` has one iteration: divide it into \
                 more, or leave out `pipeline`"
            ),
            Self::SmallSteps { tensor, at, operations } => write!(
                f,
                "an iteration of `{at}` takes at most {operations} operations, less time than the latency of a message of `{tensor}`: \
                 divide it into fewer iterations, or leave out `pipeline`"
            ),
            Self::NoInterior { tensor } => write!(
                f,
                "nothing is computed while the halo of `{tensor}` is in flight, since all that a rank computes reads \
                 some of it: distribute over fewer ranks, or leave out `interior_first`"
            ),
            Self::NoHalo { tensor } => write!(
                f,
                "`interior_first({tensor})` has no effect, since each rank owns all that it reads of `{tensor}`: leave it out"
            ),
            Self::LeafNotCut { tensor } => write!(
                f,
                "panels of `{tensor}` make progress only between leaves, since this leaf cannot be cut into slices: \
                 divide the loop of `pipeline` into more panels"
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
            Self::MovedOutput { tensor, index, axis, over: Some(over) } if over != axis => write!(
                f,
                "`{tensor}` is moved to its owners, since `{index}` is sharded over {axis} and distributed over {over}: do both over \
                 one axis"
            ),
            Self::MovedOutput { tensor, index, axis, .. } => write!(
                f,
                "`{tensor}` is moved to its owners, since loop `{index}` is not divided as `{tensor}` is along {axis}: distribute \
                 `{index}` itself over {axis}, before other steps divide it"
            ),
            Self::RepeatedTerm { term, indices, times, tensor } => write!(
                f,
                "`{term}` is added {times} times to each element, once for each value of {}, since the sum is of the \
                 whole right-hand side: to add it once, let `{tensor}` hold it before and add to that with `+=`",
                list(indices)
            ),
            Self::LoneIndex { index, access, again } => write!(
                f,
                "`{index}` occurs only in `{access}`, so `{access}` is summed over `{index}` again for each value of \
                 {}: if you meant another index, write that one; else sum first, in a kernel of its own",
                list(again)
            ),
            Self::FactorsOfProduct { factors, held } => {
                let all =
                    |texts: &[String]| texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" and ");
                let kernels: Vec<_> =
                    held.iter().zip(factors).map(|(held, value)| format!("{held} = {value}")).collect();
                let [s, before] = match factors.len() {
                    1 => ["", "it in a kernel of its own"],
                    _ => ["s", "them in kernels of their own"],
                };
                write!(
                    f,
                    "the statement runs element by element, and would be a matrix product but for the factor{s} {}: compute {before} \
                     before, {}, and write {} here",
                    all(factors),
                    all(&kernels),
                    all(held)
                )
            }
            Self::ReplicatedOutput { tensor, bytes } => write!(
                f,
                "`{tensor}` has no `shard`, so each rank receives and holds all {bytes} bytes of it: shard it"
            ),
            Self::NotWritten { kernel, array, read, by, written, held } => {
                let writes = match written {
                    Some(written) => format!("writes {written}"),
                    None => "is not known to write all".to_owned(),
                };
                write!(
                    f,
                    "`{kernel}` reads {read} of `{array}`, of which `{by}` {writes}; the other elements hold {held}: \
                     write all elements that are read, or read only those that are written"
                )
            }
            Self::LooseTile { tensor, tile, read } => write!(
                f,
                "a tile of `{tensor}` holds {tile} elements, of which at most {read} are read, since it is one box \
                 around all accesses: communicate it at an inner loop, or pass it as two tensors"
            ),
        }
    }
}

/// The numbers from `start` to below `end`, at least one, as text.
fn numbers(start: i64, end: i64) -> String {
    if end - start == 1 { start.to_string() } else { format!("{start} to {}", end - 1) }
}
