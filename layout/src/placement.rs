//! Clauses of shardings, as they are written.

use crate::{AxisExpr, Name};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One clause of a sharding; `D` identifies dimensions, by default by number.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2), ("z", 2)]);
/// let rows = Sharding::new(&mesh, &[6, 4], &[Placement::block(0, "x"), Placement::pin("z", 0)])?;
/// assert_eq!(rows.local_shape(&[1, 0]), [3, 4]);
/// assert_eq!(rows.local_shape(&[1, 1]), [0, 0]); // everything is at z = 0
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement<D = usize> {
    /// A dimension in blocks, which may be divided again, and so on: blocks of blocks.
    Divided {
        /// The dimension.
        dim: D,
        /// How it is divided, then how the blocks of each level are divided again; at least one level.
        levels: Vec<Division>,
    },
    /// One coordinate of an axis holds the array.
    Pin {
        /// The axis.
        axis: Name,
        /// The coordinate that holds it.
        coordinate: usize,
    },
    /// Each coordinate of an axis holds a term of every element: the array is their sum, not yet reduced.
    Partial {
        /// The axis.
        axis: Name,
    },
}

/// How a dimension, or each block of the level before, is divided.
///
/// ```
/// use polyshard::layout::Division;
/// use polyshard::prelude::*;
/// let Placement::Divided { levels, .. } = Var::new("m").at("node").cyclic("rank", 8) else { unreachable!() };
/// assert!(matches!(levels[..], [Division::Block { .. }, Division::Cyclic { block: 8, .. }]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Division {
    /// In ceil-sized blocks; a rank owns block `at` of each block of the level before.
    Block {
        /// The number of the block that a rank owns.
        at: AxisExpr,
    },
    /// Block-cyclic, in blocks of `block` indices.
    Cyclic {
        /// The number, modulo the parts, of the blocks that a rank owns.
        at: AxisExpr,
        /// Indices in a block.
        block: usize,
    },
}

impl fmt::Display for Division {
    /// As after the `@` of a clause: `x`, `(x + 1)`, `cyclic(x, 4)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { at: at @ (AxisExpr::Add(..) | AxisExpr::Sub(..) | AxisExpr::Mul(..)) } => write!(f, "({at})"),
            Self::Block { at } => write!(f, "{at}"),
            Self::Cyclic { at, block } => write!(f, "cyclic({at}, {block})"),
        }
    }
}

impl<D: fmt::Display> fmt::Display for Placement<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Divided { dim, levels } => {
                write!(f, "{dim}")?;
                levels.iter().try_for_each(|level| write!(f, " @ {level}"))
            }
            Self::Pin { axis, coordinate } => write!(f, "pin({axis}, {coordinate})"),
            Self::Partial { axis } => write!(f, "partial({axis})"),
        }
    }
}

impl<D> Placement<D> {
    /// Dimension `dim` in ceil-sized blocks; a rank owns block `at`.
    #[must_use]
    pub fn block(dim: D, at: impl Into<AxisExpr>) -> Self {
        Self::Divided { dim, levels: vec![Division::Block { at: at.into() }] }
    }

    /// Dimension `dim` block-cyclic, in blocks of `block` indices; a block size beyond the extent means the whole dimension.
    #[must_use]
    pub fn block_cyclic(dim: D, at: impl Into<AxisExpr>, block: usize) -> Self {
        Self::Divided { dim, levels: vec![Division::Cyclic { at: at.into(), block }] }
    }

    /// Returns the axes that it names.
    pub fn axes(&self) -> Vec<Name> {
        match self {
            Self::Divided { levels, .. } => {
                let at = |level: &Division| match level {
                    Division::Block { at } | Division::Cyclic { at, .. } => at.axes(),
                };
                levels.iter().flat_map(at).collect()
            }
            Self::Pin { axis, .. } | Self::Partial { axis } => vec![*axis],
        }
    }

    /// The same clause with `to` in place of its dimension, as with a name in place of a number.
    #[must_use]
    pub fn map_dim<E>(self, to: impl FnOnce(D) -> E) -> Placement<E> {
        match self {
            Self::Divided { dim, levels } => Placement::Divided { dim: to(dim), levels },
            Self::Pin { axis, coordinate } => Placement::Pin { axis, coordinate },
            Self::Partial { axis } => Placement::Partial { axis },
        }
    }

    /// One coordinate of an axis holds the array.
    #[must_use]
    pub fn pin(axis: impl Into<Name>, coordinate: usize) -> Self {
        Self::Pin { axis: axis.into(), coordinate }
    }

    /// Each coordinate of an axis holds a term of every element: the array is their sum, not yet reduced.
    #[must_use]
    pub fn partial(axis: impl Into<Name>) -> Self {
        Self::Partial { axis: axis.into() }
    }
}

impl<D: fmt::Display> Placement<D> {
    /// Divides the blocks of this clause's dimension in ceil-sized blocks again; a rank owns block `at` of its block.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("node", 2), ("rank", 2)]);
    /// let [node, rank] = mesh.axes();
    /// let blocks = |placement| Sharding::new(&mesh, &[13], &[placement]).map(|sharding| {
    ///     let owned = |rank| sharding.pieces(0, &mesh.coordinates(rank), 0..13).next().unwrap().0;
    ///     [0, 1, 2, 3].map(owned)
    /// });
    /// assert_eq!(blocks(Placement::block(0, node).at(rank))?, [0..4, 4..7, 7..11, 11..13]);
    /// assert_eq!(blocks(Placement::block(0, [node, rank]))?, [0..4, 4..8, 8..12, 12..13]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the clause divides no dimension.
    #[must_use]
    #[track_caller]
    pub fn at(self, at: impl Into<AxisExpr>) -> Self {
        self.inside(Division::Block { at: at.into() })
    }

    /// Divides the blocks of this clause's dimension again, block-cyclically in blocks of `block` indices.
    ///
    /// # Panics
    /// If the clause divides no dimension.
    #[must_use]
    #[track_caller]
    pub fn cyclic(self, at: impl Into<AxisExpr>, block: usize) -> Self {
        self.inside(Division::Cyclic { at: at.into(), block })
    }

    #[track_caller]
    fn inside(mut self, level: Division) -> Self {
        match &mut self {
            Self::Divided { levels, .. } => levels.push(level),
            _ => panic!("`{self}` places no dimension, so it has no blocks to divide; leave out the clauses after it"),
        }
        self
    }
}
