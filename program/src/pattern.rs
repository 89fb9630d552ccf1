//! Patterns of communication and kinds of leaves, with the names that reports print and steps expect.

use polyshard_layout::{Collective, Mesh, Name, joined};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// How a tile gets to the rank that needs it, or from the rank that computed it.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let gathered = rows.clone().expect("B", Pattern::all_gather([x])).lower()?;
/// assert_eq!(gathered.pattern("A"), Some(Pattern::Local));
/// assert!(rows.expect("B", Pattern::broadcast([x])).lower().is_err()); // the error says why it is none
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// Every rank owns what it needs.
    Local,
    /// One rank along `axes` has what all of them need.
    Broadcast {
        /// The axes, in mesh order.
        axes: Vec<Name>,
    },
    /// A rank's neighbour `by` further along `axis` holds the tile that the rank needs next.
    Shift {
        /// The axis.
        axis: Name,
        /// The distance, modulo the extent.
        by: i64,
    },
    /// Each rank sends one tile and receives one.
    Permute,
    /// All ranks along `axes` need the parts of each of them.
    AllGather {
        /// The axes, in mesh order.
        axes: Vec<Name>,
    },
    /// Of an array that is moved: all ranks along `axes` get parts of each other's shards.
    AllToAll {
        /// The axes, in mesh order.
        axes: Vec<Name>,
    },
    /// Of an output: the sums of all ranks along `axes` meet at one of them, a broadcast run backwards.
    Reduce {
        /// The axes, in mesh order.
        axes: Vec<Name>,
    },
    /// Of an output: the sums of all ranks along `axes` meet at each of them.
    AllReduce {
        /// The axes, in mesh order.
        axes: Vec<Name>,
    },
    /// Of an output: the sums of all ranks along `axes` meet part by part, an all-gather run backwards.
    ReduceScatter {
        /// The axes, in mesh order.
        axes: Vec<Name>,
    },
    /// In sequence: to ranks that forward the tile, and from those to all that need it.
    Sequence {
        /// The patterns, in order.
        patterns: Vec<Pattern>,
    },
    /// A rank needs elements that its neighbours own, besides its own.
    Halo {
        /// The offsets of those neighbours, along each axis that has any.
        reach: Vec<Offsets>,
    },
    /// Each pair of ranks exchanges exactly what one needs and the other owns.
    Exchange,
}

/// Offsets of neighbours along an axis, `low..=high`: coordinate of the owner minus coordinate of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offsets {
    /// The axis.
    pub axis: Name,
    /// The least offset.
    pub low: i64,
    /// The greatest offset.
    pub high: i64,
}

impl Pattern {
    /// Returns the axes that the pattern names, in its order; for a sequence those of its patterns.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let [x, y] = Mesh::new([("x", 2), ("y", 3)]).axes();
    /// assert_eq!(Pattern::all_gather([x, y]).axes(), ["x", "y"]);
    /// assert!(Pattern::Permute.axes().is_empty());
    /// ```
    #[must_use]
    pub fn axes(&self) -> Vec<Name> {
        match self {
            Self::Broadcast { axes }
            | Self::AllGather { axes }
            | Self::AllToAll { axes }
            | Self::Reduce { axes }
            | Self::AllReduce { axes }
            | Self::ReduceScatter { axes } => axes.clone(),
            Self::Shift { axis, .. } => vec![*axis],
            Self::Halo { reach } => reach.iter().map(|offsets| offsets.axis).collect(),
            Self::Sequence { patterns } => patterns.iter().flat_map(Self::axes).collect(),
            Self::Local | Self::Permute | Self::Exchange => Vec::new(),
        }
    }

    /// Returns the pattern of a collective along `axes`; patterns without axes ignore these.
    #[must_use]
    pub fn of_collective(collective: Collective, axes: Vec<Name>) -> Self {
        match collective {
            Collective::Slice => Self::Local,
            Collective::Permute => Self::Permute,
            Collective::Broadcast => Self::Broadcast { axes },
            Collective::AllGather => Self::AllGather { axes },
            Collective::AllToAll => Self::AllToAll { axes },
            Collective::Exchange => Self::Exchange,
            Collective::Reduce => Self::Reduce { axes },
            Collective::ReduceScatter => Self::ReduceScatter { axes },
            Collective::AllReduce => Self::AllReduce { axes },
        }
    }

    /// A broadcast along `axes`, given as values or by name.
    #[must_use]
    pub fn broadcast<N: Into<Name>>(axes: impl IntoIterator<Item = N>) -> Self {
        Self::Broadcast { axes: axes.into_iter().map(Into::into).collect() }
    }

    /// A shift along `axis`, given as a value or by name, from the neighbour `by` places after.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// let [_, y] = Mesh::new([("x", 2), ("y", 3)]).axes();
    /// assert_eq!(Pattern::shift(y, 1), Pattern::shift("y", 1));
    /// assert_eq!(Pattern::broadcast([y]), Pattern::broadcast(["y"]));
    /// assert_eq!(Pattern::all_gather([y]), Pattern::all_gather(["y"]));
    /// ```
    #[must_use]
    pub fn shift(axis: impl Into<Name>, by: i64) -> Self {
        Self::Shift { axis: axis.into(), by }
    }

    /// This pattern followed by another, which starts from the tiles that this one leaves.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// assert_eq!(Pattern::Permute.then(Pattern::broadcast(["z"])).to_string(), "permute, broadcast(z)");
    /// ```
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let list = |pattern| match pattern {
            Self::Sequence { patterns } => patterns,
            one => vec![one],
        };
        Self::Sequence { patterns: [list(self), list(next)].concat() }
    }

    /// A halo from the neighbours at these offsets along each axis, given as values or by name; axes without offsets
    /// other than 0 are left out.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// assert_eq!(Pattern::halo([("x", -1..=1), ("y", 0..=2)]).to_string(), "halo(x: -1..=1, y: 0..=2)");
    /// ```
    #[must_use]
    pub fn halo<N: Into<Name>>(reach: impl IntoIterator<Item = (N, RangeInclusive<i64>)>) -> Self {
        let offsets = |(axis, range): (N, RangeInclusive<i64>)| Offsets {
            axis: axis.into(),
            low: *range.start(),
            high: *range.end(),
        };
        Self::Halo { reach: reach.into_iter().map(offsets).collect() }
    }

    /// An all-gather along `axes`, given as values or by name.
    #[must_use]
    pub fn all_gather<N: Into<Name>>(axes: impl IntoIterator<Item = N>) -> Self {
        Self::AllGather { axes: axes.into_iter().map(Into::into).collect() }
    }
}

impl Pattern {
    /// A reduction along `axes`, given as values or by name, to one of the ranks along them.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// assert_eq!(Pattern::reduce(["z"]).to_string(), "reduce(z)");
    /// assert_eq!(Pattern::all_reduce(["z"]).to_string(), "all_reduce(z)");
    /// assert_eq!(Pattern::reduce_scatter(["y", "z"]).to_string(), "reduce_scatter(y, z)");
    /// ```
    #[must_use]
    pub fn reduce<N: Into<Name>>(axes: impl IntoIterator<Item = N>) -> Self {
        Self::Reduce { axes: axes.into_iter().map(Into::into).collect() }
    }

    /// A reduction along `axes`, given as values or by name, to all ranks along them.
    #[must_use]
    pub fn all_reduce<N: Into<Name>>(axes: impl IntoIterator<Item = N>) -> Self {
        Self::AllReduce { axes: axes.into_iter().map(Into::into).collect() }
    }

    /// A reduction along `axes`, given as values or by name, of which each rank along them keeps a part.
    #[must_use]
    pub fn reduce_scatter<N: Into<Name>>(axes: impl IntoIterator<Item = N>) -> Self {
        Self::ReduceScatter { axes: axes.into_iter().map(Into::into).collect() }
    }

    /// Whether both are the same pattern on this mesh: shifts by distances that are equal modulo the axis are the same.
    pub fn is_same(&self, other: &Self, mesh: &Mesh) -> bool {
        match (self, other) {
            (Self::Shift { axis, by }, Self::Shift { axis: other, by: as_far }) if axis == other => {
                let extent = mesh.axis(axis.as_str()).map_or(1, |axis| axis.extent as i128);
                (i128::from(*by) - i128::from(*as_far)) % extent == 0
            }
            _ => self == other,
        }
    }
}

/// The operation of a tensorized nest.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// use polyshard::program::LeafKind;
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.tensorize_as([mi, n, k], LeafKind::Contraction).lower()?;
/// assert!(program.hints().is_empty());
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LeafKind {
    /// A sum of products of two tensors or more, as products of two at a time.
    Contraction,
    /// Anything else: a strided loop nest.
    Nest,
    /// The function that the user has registered under this name; see `Schedule::tensorize_with`.
    Named(Name),
}

impl fmt::Display for Offsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}..={}", self.axis, self.low, self.high)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Broadcast { axes } => write!(f, "broadcast({})", joined(axes, ", ")),
            Self::Shift { axis, by } => write!(f, "shift({axis}, {by})"),
            Self::Permute => f.write_str("permute"),
            Self::AllGather { axes } => write!(f, "all_gather({})", joined(axes, ", ")),
            Self::AllToAll { axes } => write!(f, "all_to_all({})", joined(axes, ", ")),
            Self::Reduce { axes } => write!(f, "reduce({})", joined(axes, ", ")),
            Self::AllReduce { axes } => write!(f, "all_reduce({})", joined(axes, ", ")),
            Self::ReduceScatter { axes } => write!(f, "reduce_scatter({})", joined(axes, ", ")),
            Self::Sequence { patterns } => f.write_str(&joined(patterns, ", ")),
            Self::Halo { reach } => write!(f, "halo({})", joined(reach, ", ")),
            Self::Exchange => f.write_str("exchange"),
        }
    }
}

impl fmt::Display for LeafKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contraction => "contraction",
            Self::Nest => "nest",
            Self::Named(name) => name.as_str(),
        })
    }
}
