//! Schedule steps as data: printed, parsed, serialised and replayed from one enum.
//!
//! The only definition of a step. `chain` parses its text, traces and programs hold it, error messages quote it, and emitted source has it
//! as a comment. `polyhedral` has the methods, and their meaning.

use polyshard_layout::{AxisExpr, Mesh, Name, Placement, joined};
use polyshard_program::{LeafKind, Pattern};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A loop or index variable, as a value for writing schedules; see `vars!`.
///
/// ```
/// use polyshard::prelude::*;
/// vars!(m, k);
/// assert_eq!(m, Var::new("m"));
/// assert_eq!(k.at("x").to_string(), "k @ x");
/// assert_eq!(k.cyclic("x", 16).to_string(), "k @ cyclic(x, 16)");
/// ```
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
        Dim::Var(self.0).at(at)
    }

    /// Places the dimension that this variable indexes block-cyclically, in blocks of `block` indices.
    #[must_use]
    pub fn cyclic(self, at: impl Into<AxisExpr>, block: usize) -> Clause {
        Dim::Var(self.0).cyclic(at, block)
    }
}

impl From<Var> for Name {
    fn from(var: Var) -> Self {
        var.0
    }
}

/// A tensor's dimension by number, for one that no variable indexes alone: `dim(0).at(x)`.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2), ("y", 2)]);
/// let [x, y] = mesh.axes();
/// // In `B[i + j]` no variable indexes the dimension alone.
/// assert_eq!(dim(0).at([x, y]).to_string(), "dim(0) @ [x, y]");
/// // Axes may be named, as loops may.
/// assert_eq!(dim(1).at("x"), dim(1).at(x));
/// ```
#[must_use]
pub fn dim(number: usize) -> Dim {
    Dim::Number(number)
}

/// Pins the tensor to one coordinate of `axis`.
///
/// ```
/// use polyshard::prelude::*;
/// assert_eq!(pin("z", 0).to_string(), "pin(z, 0)");
/// ```
#[must_use]
pub fn pin(axis: impl Into<Name>, coordinate: usize) -> Clause {
    Placement::pin(axis, coordinate)
}

/// Leaves the sums of an output open along `axis`: each coordinate holds a term of every element.
///
/// ```
/// use polyshard::prelude::*;
/// assert_eq!(partial("z").to_string(), "partial(z)");
/// ```
#[must_use]
pub fn partial(axis: impl Into<Name>) -> Clause {
    Placement::partial(axis)
}

/// A dimension of a tensor, named by an index variable of its accesses or by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
        Placement::block(self, at)
    }

    /// As [`Var::cyclic`].
    #[must_use]
    pub fn cyclic(self, at: impl Into<AxisExpr>, block: usize) -> Clause {
        Placement::block_cyclic(self, at, block)
    }
}

/// One clause of a `shard` step: `m.at(x)`, `m.cyclic(x, b)`, `pin(z, 0)`, `partial(z)`.
///
/// Blocks may be divided again, level by level: `m.at(node).at(rank)`. This is the layout of the rows of a loop that was distributed over
/// the nodes and then, inside a node, over its ranks: 13 rows over 2 nodes of 2 ranks are in blocks of 7, which are in blocks of 4, whereas
/// `m.at([node, rank])` has 4 blocks of 4.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("node", 2), ("rank", 2)]);
/// let [node, rank] = mesh.axes();
/// let m = Var::new("m");
/// let rows = m.at(node).at(rank);
/// assert_eq!(rows.to_string(), "m @ node @ rank");
/// let matmul = kernel! {
///     fn matmul(A: [f32; 13, 6], B: [f32; 6, 5]) -> C: [f32; 13, 5] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let schedule = matmul
///     .distribute(["m"], ["mo"], ["ml"], &Mesh::new([("node", 2)]))
///     .distribute(["ml"], ["mr"], ["mi"], &Mesh::new([("rank", 2)]))
///     .shard("A", [rows.clone()])
///     .shard("C", [rows]);
/// let program = schedule.lower()?;
/// assert_eq!(program.sharding("A").pieces(0, &[0, 1], 0..13).next(), Some((4..7, 0)));
/// assert_eq!(program.pattern("A").unwrap().to_string(), "local");
/// # Ok::<(), polyshard::Error>(())
/// ```
pub type Clause = Placement<Dim>;

/// One schedule step, printed, parsed and serialised in the syntax of `kernel!`.
///
/// ```
/// use polyshard::prelude::*;
/// let step: Step = "shard(A, m @ x, k @ ((x + y) % 2))".parse()?;
/// assert_eq!(step.to_string(), "shard(A, m @ x, k @ (x + y) % 2)");
/// assert_eq!(step.to_string().parse(), Ok(step));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[expect(missing_docs, reason = "fields are named as the parameters of the methods, which say it in full")]
pub enum Step {
    /// See `Schedule::split`: `size` is the number of iterations of the inner loop.
    Split { i: Name, outer: Name, inner: Name, size: usize },
    /// See `Schedule::divide`: `parts` is the number of iterations of the outer loop.
    Divide { i: Name, outer: Name, inner: Name, parts: usize },
    /// See `Schedule::reorder`.
    Reorder { order: Vec<Name> },
    /// See `Schedule::fuse`: `j` is directly inside `i`.
    Fuse { i: Name, j: Name, fused: Name },
    /// See `Schedule::distribute`: one outer loop for each axis.
    Distribute { loops: Vec<Name>, outer: Vec<Name>, inner: Vec<Name>, mesh: Mesh },
    /// See `Schedule::replicate`.
    Replicate { mesh: Mesh },
    /// See `Schedule::rotate`: `t` starts from the sum of the loops in `by`, which are outside of it.
    Rotate { t: Name, by: Vec<Name> },
    /// See `Schedule::shard`.
    Shard { tensor: Name, clauses: Vec<Clause> },
    /// See `Schedule::communicate`: `at` is the loop at whose head or tail the tensor moves.
    Communicate { tensor: Name, at: Name },
    /// See `Schedule::pipeline`: the transfer of a panel begins `depth` iterations before it is read.
    Pipeline { t: Name, depth: usize },
    /// See `Schedule::halo`: the kernel is applied `steps` times.
    Halo { tensor: Name, steps: usize },
    /// See `Schedule::interior_first`.
    InteriorFirst { tensor: Name },
    /// See `Schedule::reassociate`.
    Reassociate { tensor: Name },
    /// See `Schedule::tensorize`, and `Schedule::tensorize_as` for a leaf of a required kind.
    Tensorize { loops: Vec<Name>, kind: Option<LeafKind> },
    /// See `Schedule::expect`.
    Expect { tensor: Name, pattern: Pattern },
    /// See `Schedule::together`: the statements of a block that write these arrays run together in each iteration of the loop `at`.
    Together { tensors: Vec<Name>, at: Name },
    /// See `Schedule::apart`: the statements of a block that write this array join no pass.
    Apart { tensor: Name },
    /// See `Schedule::of`: the following steps apply to the statements of a block that write this array only.
    Of { tensor: Name },
    /// See `Schedule::of_all`: the following steps apply to all statements again.
    OfAll,
    /// See `Schedule::expect_overlap`: at least this share of the transfer can be hidden.
    ExpectOverlap { tensor: Name, share: Share },
}

/// A share of a whole.
///
/// ```
/// use polyshard::schedule::Share;
/// assert_eq!(Share::new(0.8).to_string(), "0.8");
/// assert_eq!(Share::new(0.8).get(), 0.8);
/// ```
///
/// It holds the bits of a float, so that steps can be compared and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share(u64);

impl Share {
    /// Returns the share of this size; 1 is the whole.
    #[must_use]
    pub fn new(share: f64) -> Self {
        // Turns -0 into 0.
        Self((share + 0.0).to_bits())
    }

    /// Returns its size.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

impl Step {
    /// Returns the method's name.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.written().0
    }

    /// Returns the array that it shards, and how.
    #[must_use]
    pub fn sharding(&self) -> Option<(Name, Vec<Clause>)> {
        match self {
            Self::Shard { tensor, clauses } => Some((*tensor, clauses.clone())),
            _ => None,
        }
    }

    /// The method's name, and its arguments as text.
    fn written(&self) -> (&'static str, String) {
        match self {
            Self::Split { i, outer, inner, size } => ("split", format!("{i}, {outer}, {inner}, {size}")),
            Self::Divide { i, outer, inner, parts } => ("divide", format!("{i}, {outer}, {inner}, {parts}")),
            Self::Reorder { order } => ("reorder", format!("[{}]", joined(order, ", "))),
            Self::Fuse { i, j, fused } => ("fuse", format!("{i}, {j}, {fused}")),
            Self::Distribute { loops, outer, inner, mesh } => {
                let [loops, outer, inner] = [loops, outer, inner].map(|names| joined(names, ", "));
                ("distribute", format!("[{loops}], [{outer}], [{inner}], mesh({mesh})"))
            }
            Self::Replicate { mesh } => ("replicate", format!("mesh({mesh})")),
            Self::Rotate { t, by } => ("rotate", format!("{t}, [{}]", joined(by, ", "))),
            Self::Shard { tensor, clauses } if clauses.is_empty() => ("shard", tensor.to_string()),
            Self::Shard { tensor, clauses } => ("shard", format!("{tensor}, {}", joined(clauses, ", "))),
            Self::Communicate { tensor, at } => ("communicate", format!("{tensor}, {at}")),
            Self::Pipeline { t, depth } => ("pipeline", format!("{t}, {depth}")),
            Self::Halo { tensor, steps } => ("halo", format!("{tensor}, {steps}")),
            Self::InteriorFirst { tensor } => ("interior_first", tensor.to_string()),
            Self::Reassociate { tensor } => ("reassociate", tensor.to_string()),
            Self::Tensorize { loops, kind: None } => ("tensorize", format!("[{}]", joined(loops, ", "))),
            Self::Tensorize { loops, kind: Some(kind) } => {
                let method = if matches!(kind, LeafKind::Named(_)) { "tensorize_with" } else { "tensorize_as" };
                (method, format!("[{}], {kind}", joined(loops, ", ")))
            }
            Self::Expect { tensor, pattern } => ("expect", format!("{tensor}, {pattern}")),
            Self::Together { tensors, at } => ("together", format!("[{}], {at}", joined(tensors, ", "))),
            Self::Apart { tensor } => ("apart", tensor.to_string()),
            Self::Of { tensor } => ("of", tensor.to_string()),
            Self::OfAll => ("of_all", String::new()),
            Self::ExpectOverlap { tensor, share } => ("expect_overlap", format!("{tensor}, {share}")),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (method, arguments) = self.written();
        write!(f, "{method}({arguments})")
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
