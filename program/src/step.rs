//! Schedule steps as data: printed, serialised and replayed from one enum.

use polyshard_layout::{AxisExpr, Collective, Level, Mesh, Name};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// A loop or index variable, as a value to write schedules with; see `vars!`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Var(Name);

impl Var {
    /// Returns the variable named `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(Name::new(name))
    }

    /// Places the dimension that this variable indexes in ceil-sized blocks: a rank owns block `at`.
    #[must_use]
    pub fn at(self, at: impl Into<AxisExpr>) -> Clause {
        Clause::Block { dim: Dim::Var(self.0), at: at.into() }
    }

    /// Places the dimension that this variable indexes block-cyclically, in blocks of `block` indices.
    #[must_use]
    pub fn cyclic(self, at: impl Into<AxisExpr>, block: usize) -> Clause {
        Clause::Cyclic { dim: Dim::Var(self.0), at: at.into(), block }
    }
}

impl From<Var> for Name {
    fn from(var: Var) -> Self {
        var.0
    }
}

/// A tensor's dimension by number, for one that no variable indexes alone: `dim(0).at(x)`.
#[must_use]
pub fn dim(number: usize) -> Dim {
    Dim::Number(number)
}

/// Keeps the tensor at one coordinate of `axis` alone.
#[must_use]
pub fn pin(axis: impl Into<polyshard_layout::Axis>, coordinate: usize) -> Clause {
    Clause::Pin { axis: axis.into().name, coordinate }
}

/// Leaves the sums of an output open along `axis`: each coordinate holds a term of every element.
#[must_use]
pub fn partial(axis: impl Into<polyshard_layout::Axis>) -> Clause {
    Clause::Partial { axis: axis.into().name }
}

/// A dimension of a tensor, named by an index variable of its accesses or by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// The dimension that this variable indexes.
    Var(Name),
    /// The dimension with this number.
    Number(usize),
}

impl Dim {
    /// As [`Var::at`].
    #[must_use]
    pub fn at(self, at: impl Into<AxisExpr>) -> Clause {
        Clause::Block { dim: self, at: at.into() }
    }

    /// As [`Var::cyclic`].
    #[must_use]
    pub fn cyclic(self, at: impl Into<AxisExpr>, block: usize) -> Clause {
        Clause::Cyclic { dim: self, at: at.into(), block }
    }
}

/// One clause of a `shard` step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clause {
    /// `m.at(x)`: ceil-sized blocks.
    Block {
        /// The dimension.
        dim: Dim,
        /// The block that a rank owns.
        at: AxisExpr,
    },
    /// `m.cyclic(x, b)`: block-cyclic, in blocks of `block` indices.
    Cyclic {
        /// The dimension.
        dim: Dim,
        /// The digit that a rank owns.
        at: AxisExpr,
        /// Indices in a block.
        block: usize,
    },
    /// `m.at(node).at(rank)`: blocks that are divided again, level by level.
    Levels {
        /// The clause of the outermost level, [`Block`](Self::Block) or [`Cyclic`](Self::Cyclic).
        outer: Box<Self>,
        /// The further levels, each of which divides the blocks of the one before it.
        inner: Vec<Level>,
    },
    /// `pin(z, 0)`: at one coordinate of an axis alone.
    Pin {
        /// The axis.
        axis: Name,
        /// The coordinate.
        coordinate: usize,
    },
    /// `partial(z)`: each coordinate of an axis holds a term of every element.
    Partial {
        /// The axis.
        axis: Name,
    },
}

impl Clause {
    /// Divides the blocks of this clause in ceil-sized blocks again: a rank owns block `at` of its block.
    ///
    /// So lie the rows of a loop that was distributed over the nodes and then, inside of a node, over its ranks: 13 of
    /// them over 2 nodes of 2 ranks in blocks of 7, and of 4 in these, where `m.at([node, rank])` has 4 blocks of 4.
    ///
    /// ```
    /// use polyshard_layout::{AxisExpr, Mesh};
    /// use polyshard_polyhedral::Schedule;
    /// use polyshard_program::{Var, example};
    /// let mesh = Mesh::new([("node", 2), ("rank", 2)]);
    /// let [node, rank] = mesh.axes();
    /// let m = Var::new("m");
    /// let rows = m.at(node).at(rank);
    /// assert_eq!(rows.to_string(), "m @ node @ rank");
    /// let schedule = Schedule::from_spec(example::matmul(13, 5, 6))
    ///     .distribute(["m"], ["mo"], ["ml"], &Mesh::new([("node", 2)]))
    ///     .distribute(["ml"], ["mr"], ["mi"], &Mesh::new([("rank", 2)]))
    ///     .shard("A", [rows.clone()])
    ///     .shard("C", [rows]);
    /// let program = schedule.lower()?;
    /// assert_eq!(program.sharding("A").pieces(0, &[0, 1], 0..13).next(), Some((4..7, 0)));
    /// assert_eq!(program.pattern("A").unwrap().to_string(), "local");
    /// # Ok::<(), polyshard_polyhedral::LowerError>(())
    /// ```
    #[must_use]
    pub fn at(self, at: impl Into<AxisExpr>) -> Self {
        self.inside(Level::Block { at: at.into() })
    }

    /// Divides the blocks of this clause again, block-cyclically in blocks of `block` indices.
    #[must_use]
    pub fn cyclic(self, at: impl Into<AxisExpr>, block: usize) -> Self {
        self.inside(Level::Cyclic { at: at.into(), block })
    }

    fn inside(self, level: Level) -> Self {
        match self {
            Self::Levels { outer, mut inner } => {
                inner.push(level);
                Self::Levels { outer, inner }
            }
            outer => Self::Levels { outer: Box::new(outer), inner: vec![level] },
        }
    }
}

/// How a tile gets to the rank that needs it, or from the rank that computed it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Every rank owns what it needs.
    Local,
    /// One rank along `axes` has what all of them need.
    Broadcast {
        /// The axes, in mesh order.
        axes: Vec<Name>,
    },
    /// What a rank needs next, its neighbour `by` further along `axis` holds now.
    Shift {
        /// The axis.
        axis: Name,
        /// The distance, modulo the extent.
        by: i64,
    },
    /// Each rank sends one tile and receives one.
    Permute,
    /// All ranks along `axes` need what they own together.
    Allgather {
        /// The axes, in mesh order.
        axes: Vec<Name>,
    },
    /// Of an array that is moved: all ranks along `axes` get parts of what each of them owns.
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
    /// One after the other: to ranks that pass it on, and from those to all that need it.
    Sequence {
        /// The patterns, in order.
        patterns: Vec<Pattern>,
    },
    /// Neighbours own what a rank needs beyond what it owns itself.
    Halo {
        /// How far those neighbours are, along each axis on which there are any.
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
    /// Returns the pattern of a collective along `axes`, which those that go along none leave out.
    #[must_use]
    pub fn of_collective(collective: Collective, axes: Vec<Name>) -> Self {
        match collective {
            Collective::Slice => Self::Local,
            Collective::Permute => Self::Permute,
            Collective::Broadcast => Self::Broadcast { axes },
            Collective::AllGather => Self::Allgather { axes },
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

    /// A shift along `axis`, given as a value or by name, from the neighbour `by` further on.
    ///
    /// ```
    /// # use polyshard_program::Pattern;
    /// # use polyshard_layout::Mesh;
    /// let [_, y] = Mesh::new([("x", 2), ("y", 3)]).axes();
    /// assert_eq!(Pattern::shift(y, 1), Pattern::shift("y", 1));
    /// assert_eq!(Pattern::broadcast([y]), Pattern::broadcast(["y"]));
    /// assert_eq!(Pattern::allgather([y]), Pattern::allgather(["y"]));
    /// ```
    #[must_use]
    pub fn shift(axis: impl Into<Name>, by: i64) -> Self {
        Self::Shift { axis: axis.into(), by }
    }

    /// This pattern, and then another from where it has brought tiles to.
    ///
    /// ```
    /// # use polyshard_program::Pattern;
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
    /// # use polyshard_program::Pattern;
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

    /// An allgather along `axes`, given as values or by name.
    #[must_use]
    pub fn allgather<N: Into<Name>>(axes: impl IntoIterator<Item = N>) -> Self {
        Self::Allgather { axes: axes.into_iter().map(Into::into).collect() }
    }
}

impl Pattern {
    /// A reduction along `axes`, given as values or by name, to one of the ranks along them.
    ///
    /// ```
    /// # use polyshard_program::Pattern;
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

    /// Whether both are one pattern on this mesh, where shifts by distances that are equal modulo the axis are the same.
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

/// What a tensorized nest computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LeafKind {
    /// A sum of products of two tensors or more, as products of two at a time.
    Contraction,
    /// Anything else: a strided loop nest.
    Nest,
    /// What the user has registered under this name; see `Schedule::tensorize_with`.
    Named(Name),
}

/// One schedule step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// See `Schedule::split`.
    Split {
        /// The loop.
        i: Name,
        /// The new outer loop.
        outer: Name,
        /// The new inner loop.
        inner: Name,
        /// Iterations of the inner loop.
        size: usize,
    },
    /// See `Schedule::divide`.
    Divide {
        /// The loop.
        i: Name,
        /// The new outer loop.
        outer: Name,
        /// The new inner loop.
        inner: Name,
        /// Iterations of the outer loop.
        parts: usize,
    },
    /// See `Schedule::reorder`.
    Reorder {
        /// The loops in their new order.
        order: Vec<Name>,
    },
    /// See `Schedule::fuse`.
    Fuse {
        /// The outer loop.
        i: Name,
        /// The inner loop, directly inside.
        j: Name,
        /// The new loop.
        fused: Name,
    },
    /// See `Schedule::distribute`.
    Distribute {
        /// The loops.
        loops: Vec<Name>,
        /// The new outer loops, one per axis.
        outer: Vec<Name>,
        /// The new inner loops.
        inner: Vec<Name>,
        /// The mesh.
        mesh: Mesh,
    },
    /// See `Schedule::rotate`.
    Rotate {
        /// The loop.
        t: Name,
        /// The loops outside it whose sum it starts from.
        by: Vec<Name>,
    },
    /// See `Schedule::shard`.
    Shard {
        /// The tensor.
        tensor: Name,
        /// Where its dimensions lie.
        clauses: Vec<Clause>,
    },
    /// See `Schedule::communicate`.
    Communicate {
        /// The tensor.
        tensor: Name,
        /// The loop at whose head or tail it moves.
        at: Name,
    },
    /// See `Schedule::reassociate`.
    Reassociate {
        /// The output.
        tensor: Name,
    },
    /// See `Schedule::tensorize`.
    Tensorize {
        /// The loops.
        loops: Vec<Name>,
        /// What the leaf must be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<LeafKind>,
    },
    /// See `Schedule::expect`.
    Expect {
        /// The tensor.
        tensor: Name,
        /// The pattern that its transfer must have.
        pattern: Pattern,
    },
}

impl Step {
    /// Returns the method's name.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::Split { .. } => "split",
            Self::Divide { .. } => "divide",
            Self::Reorder { .. } => "reorder",
            Self::Fuse { .. } => "fuse",
            Self::Distribute { .. } => "distribute",
            Self::Rotate { .. } => "rotate",
            Self::Shard { .. } => "shard",
            Self::Communicate { .. } => "communicate",
            Self::Reassociate { .. } => "reassociate",
            Self::Tensorize { kind: None, .. } => "tensorize",
            Self::Tensorize { kind: Some(LeafKind::Named(_)), .. } => "tensorize_with",
            Self::Tensorize { .. } => "tensorize_as",
            Self::Expect { .. } => "expect",
        }
    }
}

/// Returns the items with commas between them.
pub fn list<T: fmt::Display>(items: &[T]) -> String {
    let items: Vec<_> = items.iter().map(T::to_string).collect();
    items.join(", ")
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.method())?;
        match self {
            Self::Split { i, outer, inner, size: n } | Self::Divide { i, outer, inner, parts: n } => {
                write!(f, "{i}, {outer}, {inner}, {n}")?;
            }
            Self::Reorder { order } => write!(f, "[{}]", list(order))?,
            Self::Fuse { i, j, fused } => write!(f, "{i}, {j}, {fused}")?,
            Self::Distribute { loops, outer, inner, mesh } => {
                write!(f, "[{}], [{}], [{}], mesh({mesh})", list(loops), list(outer), list(inner))?;
            }
            Self::Rotate { t, by } => write!(f, "{t}, [{}]", list(by))?,
            Self::Shard { tensor, clauses } if clauses.is_empty() => write!(f, "{tensor}")?,
            Self::Shard { tensor, clauses } => write!(f, "{tensor}, {}", list(clauses))?,
            Self::Communicate { tensor, at } => write!(f, "{tensor}, {at}")?,
            Self::Reassociate { tensor } => write!(f, "{tensor}")?,
            Self::Tensorize { loops, kind: None } => write!(f, "[{}]", list(loops))?,
            Self::Tensorize { loops, kind: Some(kind) } => write!(f, "[{}], {kind}", list(loops))?,
            Self::Expect { tensor, pattern } => write!(f, "{tensor}, {pattern}")?,
        }
        f.write_str(")")
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Var(name) => write!(f, "{name}"),
            Self::Number(number) => write!(f, "dim({number})"),
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { dim, at } => write!(f, "{dim} @ {}", Level::Block { at: at.clone() }),
            Self::Cyclic { dim, at, block } => write!(f, "{dim} @ cyclic({at}, {block})"),
            Self::Levels { outer, inner } => {
                write!(f, "{outer}")?;
                inner.iter().try_for_each(|level| write!(f, " @ {level}"))
            }
            Self::Pin { axis, coordinate } => write!(f, "pin({axis}, {coordinate})"),
            Self::Partial { axis } => write!(f, "partial({axis})"),
        }
    }
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
            Self::Broadcast { axes } => write!(f, "broadcast({})", list(axes)),
            Self::Shift { axis, by } => write!(f, "shift({axis}, {by})"),
            Self::Permute => f.write_str("permute"),
            Self::Allgather { axes } => write!(f, "allgather({})", list(axes)),
            Self::AllToAll { axes } => write!(f, "all_to_all({})", list(axes)),
            Self::Reduce { axes } => write!(f, "reduce({})", list(axes)),
            Self::AllReduce { axes } => write!(f, "all_reduce({})", list(axes)),
            Self::ReduceScatter { axes } => write!(f, "reduce_scatter({})", list(axes)),
            Self::Sequence { patterns } => f.write_str(&list(patterns)),
            Self::Halo { reach } => write!(f, "halo({})", list(reach)),
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
