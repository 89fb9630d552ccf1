//! Clauses of shardings, as they are written.

use crate::{AxisExpr, Name};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One clause of a sharding, by dimension number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Dimension `dim` in ceil-sized blocks; a rank owns block `at`.
    Block {
        /// The dimension.
        dim: usize,
        /// The number of the block that a rank owns.
        at: AxisExpr,
    },
    /// Dimension `dim` block-cyclic, in blocks of `block` indices; one beyond the extent is the whole dimension.
    Cyclic {
        /// The dimension.
        dim: usize,
        /// The number, modulo the parts, of the blocks that a rank owns.
        at: AxisExpr,
        /// Indices in a block.
        block: usize,
    },
    /// A dimension whose blocks are divided again, and so on: blocks of blocks.
    Levels {
        /// The clause of the outermost level, [`Block`](Self::Block) or [`Cyclic`](Self::Cyclic).
        outer: Box<Self>,
        /// The further levels, each of which divides the blocks of the one before it.
        inner: Vec<Level>,
    },
    /// The array is kept at one coordinate of an axis.
    Pin {
        /// The axis.
        axis: Name,
        /// The coordinate that keeps it.
        coordinate: usize,
    },
    /// Each coordinate of an axis holds a term of every element: the array is their sum, which is still open.
    Partial {
        /// The axis.
        axis: Name,
    },
}

/// How the blocks of one level are divided by the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
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

impl fmt::Display for Level {
    /// As after the `@` of a clause: `x`, `(x + 1)`, `cyclic(x, 4)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { at: at @ (AxisExpr::Axis(_) | AxisExpr::List(_) | AxisExpr::Mod(..)) } => write!(f, "{at}"),
            Self::Block { at } => write!(f, "({at})"),
            Self::Cyclic { at, block } => write!(f, "cyclic({at}, {block})"),
        }
    }
}

impl fmt::Display for Placement {
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

impl Placement {
    /// Returns the dimension that the clause places and how each level divides it, outermost first.
    ///
    /// # Errors
    /// The clause that places no dimension.
    pub(crate) fn levels(&self) -> Result<(usize, Vec<Level>), &Self> {
        match self {
            Self::Block { dim, at } => Ok((*dim, vec![Level::Block { at: at.clone() }])),
            Self::Cyclic { dim, at, block } => Ok((*dim, vec![Level::Cyclic { at: at.clone(), block: *block }])),
            Self::Levels { outer, inner } => {
                let (dim, mut levels) = outer.levels()?;
                levels.extend_from_slice(inner);
                Ok((dim, levels))
            }
            Self::Pin { .. } | Self::Partial { .. } => Err(self),
        }
    }

    /// Dimension `dim` in ceil-sized blocks; a rank owns block `at`.
    #[must_use]
    pub fn block(dim: usize, at: impl Into<AxisExpr>) -> Self {
        Self::Block { dim, at: at.into() }
    }

    /// Dimension `dim` block-cyclic, in blocks of `block` indices; one beyond the extent is the whole dimension.
    #[must_use]
    pub fn cyclic(dim: usize, at: impl Into<AxisExpr>, block: usize) -> Self {
        Self::Cyclic { dim, at: at.into(), block }
    }

    /// Divides the blocks of this clause's dimension in ceil-sized blocks again; a rank owns block `at` of its block.
    ///
    /// ```
    /// use polyshard_layout::{Mesh, Placement, Sharding};
    /// let mesh = Mesh::new([("node", 2), ("rank", 2)]);
    /// let [node, rank] = mesh.axes();
    /// let blocks = |placement| Sharding::new(&mesh, &[13], &[placement]).map(|sharding| {
    ///     let owned = |rank| sharding.pieces(0, &mesh.coordinates(rank), 0..13).next().unwrap().0;
    ///     [0, 1, 2, 3].map(owned)
    /// });
    /// assert_eq!(blocks(Placement::block(0, node).at(rank))?, [0..4, 4..7, 7..11, 11..13]);
    /// assert_eq!(blocks(Placement::block(0, [node, rank]))?, [0..4, 4..8, 8..12, 12..13]);
    /// # Ok::<(), polyshard_layout::ShardingError>(())
    /// ```
    #[must_use]
    pub fn at(self, at: impl Into<AxisExpr>) -> Self {
        self.inside(Level::Block { at: at.into() })
    }

    /// Divides the blocks of this clause's dimension again.
    #[must_use]
    pub fn inside(self, level: Level) -> Self {
        match self {
            Self::Levels { outer, mut inner } => {
                inner.push(level);
                Self::Levels { outer, inner }
            }
            outer => Self::Levels { outer: Box::new(outer), inner: vec![level] },
        }
    }

    /// The array is kept at one coordinate of an axis.
    #[must_use]
    pub fn pin(axis: impl Into<Name>, coordinate: usize) -> Self {
        Self::Pin { axis: axis.into(), coordinate }
    }

    /// Each coordinate of an axis holds a term of every element: the array is their sum, which is still open.
    #[must_use]
    pub fn partial(axis: impl Into<Name>) -> Self {
        Self::Partial { axis: axis.into() }
    }
}
