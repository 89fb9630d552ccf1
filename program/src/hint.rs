//! Hints: legal but likely slow schedules and statements, each with a fix.
//!
//! A hint never stops a program and never changes it. Each is decided from the closed forms of the proved program, without
//! asking isl; doubtful cases get no hint. Tests: `polyhedral/tests/it/hints.rs`.

use polyshard_layout::{Name, joined};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Something legal that is likely slow or not intended; its text names the fix.
///
/// ```
/// # use polyshard::prelude::*;
/// use polyshard::program::Hint;
/// let matmul = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// let program = matmul.distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 2)])).lower()?;
/// assert!(matches!(program.hints(), [Hint::ReplicatedOutput { .. }])); // every rank receives all of C
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum Hint {
    /// The leaf has one instance, inside these serial loops.
    LeafPerInstance { loops: Vec<Name> },
    /// Iterations of a loop, which may be bound to an axis, never have anything to do: all but the first `filled`.
    EmptyIterations { name: Name, filled: i64, extent: i64, axis: Option<Name>, step: String },
    /// Ranks have nothing to compute, since a loop is divided like the dimension that it writes, but its range covers only
    /// a part of that dimension: only the coordinates `filled` have something to compute.
    ShortRange { name: Name, range: String, tensor: Name, extent: i64, axis: Name, filled: Range<i64>, ranks: i64 },
    /// A message carries one element.
    OneElementMessages { tensor: Name, at: Name },
    /// A pipelined transfer has no computation to overlap.
    NothingHidden { tensor: Name, at: Name },
    /// An iteration of a pipelined loop takes less time than the latency of a message.
    SmallSteps { tensor: Name, at: Name, operations: u64 },
    /// The blocks of ranks are too small to have an interior to compute while a halo is in flight.
    NoInterior { tensor: Name },
    /// `interior_first` of an input without halo.
    NoHalo { tensor: Name },
    /// Messages in flight make progress only between leaves.
    LeafNotCut { tensor: Name },
    /// A panel spans the blocks of two owners; `index` is that of the dimension, if it is a single variable, and `axes` own the
    /// blocks, as they are written.
    CrossedBlocks { tensor: Name, dim: usize, index: Option<Name>, panel: i64, block: i64, axes: String },
    /// The output is moved because the loop that writes a dimension is not divided as the output is sharded there; `over` is the
    /// axis over which the index is distributed, if it is.
    MovedOutput { tensor: Name, index: Name, axis: Name, over: Option<Name> },
    /// A term of a sum lacks indices that are summed over, so it is added once for each value of these.
    RepeatedTerm { term: String, indices: Vec<Name>, times: u64, tensor: Name },
    /// An index occurs once, and not in the output, so that one factor is summed over it for each value of the others.
    LoneIndex { index: Name, access: String, again: Vec<Name> },
    /// Factors that are not elements of tensors keep a statement from being a matrix product; `held` are the accesses to their
    /// values if an earlier kernel computes them, `T[i, l]`.
    FactorsOfProduct { factors: Vec<String>, held: Vec<String> },
    /// The output is replicated because no step shards it.
    ReplicatedOutput { tensor: Name, bytes: u64 },
    /// A kernel reads elements of an array that no statement has written: it reads the box `read`, another kernel is known to write
    /// the box `written`, if any, and the other elements have the value `held`.
    NotWritten { kernel: Name, array: Name, read: String, by: Name, written: Option<String>, held: String },
    /// A tile holds far more elements than are read.
    LooseTile { tensor: Name, tile: i64, read: i64 },
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
            Self::LeafPerInstance { loops } => write!(
                f,
                "the leaf computes one element at a time inside loops {}: communicate at an outer loop, and do not `fuse` \
                 loops that the leaf could run",
                joined(loops, ", ")
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
                let idle = joined(idle.map(|idle| numbers(idle.start, idle.end)), " and ");
                write!(
                    f,
                    "ranks at {axis} = {idle} have nothing to compute, since `{name}` is divided like the {extent} \
                     indices of `{tensor}` that it writes, but covers only `{range}`: to divide that range instead, \
                     `divide` it into {ranks} first and distribute the outer loop, which moves `{tensor}` to its \
                     owners"
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
                joined(indices, ", ")
            ),
            Self::LoneIndex { index, access, again } => write!(
                f,
                "`{index}` occurs only in `{access}`, so `{access}` is summed over `{index}` again for each value of \
                 {}: if you meant another index, write that one; else sum first, in a kernel of its own",
                joined(again, ", ")
            ),
            Self::FactorsOfProduct { factors, held } => {
                let all = |texts: &[String]| joined(texts.iter().map(|text| format!("`{text}`")), " and ");
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
