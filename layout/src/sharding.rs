//! Shardings: which rank owns which elements of an array.

use crate::solve::{AxisSource, LinearAxes, solve};
use crate::{AxisExpr, Mesh, Name};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

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

impl Placement {
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

/// How one dimension lies over the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum DimLayout {
    /// Every owner has all of it.
    Whole,
    /// Block `d` is `d*block .. (d+1)*block`; a rank owns the block numbered `at`, its digit.
    Block {
        /// The digit that a rank owns.
        at: LinearAxes,
        /// The number of digits.
        parts: usize,
        /// Indices in a block, `ceil(extent / parts)` and at least 1.
        block: usize,
    },
    /// Index `i` has digit `i / block % parts`; a rank owns one digit.
    Cyclic {
        /// The digit that a rank owns.
        at: LinearAxes,
        /// The number of digits.
        parts: usize,
        /// Indices in a block.
        block: usize,
    },
}

/// Which rank of a mesh owns which elements of an array; row-major, tiles never need to divide.
///
/// An axis that no clause names replicates. Each element has at least one owner. Along an axis of partial sums, each
/// coordinate owns a term of every element, and the array is the sum of the terms.
///
/// ```
/// use polyshard_layout::{Mesh, Placement, Sharding};
/// let mesh = Mesh::new([("x", 2), ("y", 2)]);
/// let [x, y] = mesh.axes();
/// let skewed = Sharding::new(&mesh, &[5, 4], &[
///     Placement::Block { dim: 0, at: x.into() },
///     Placement::Block { dim: 1, at: (x + y) % 2 },
/// ])?;
/// assert_eq!(skewed.local_shape(&[1, 0]), [2, 2]);
/// assert_eq!(skewed.owner(&[0, 0], &[4, 0]), [1, 1]);
/// assert_eq!(skewed.to_string(), "[0 @ x, 1 @ (x + y) % 2]");
/// # Ok::<(), polyshard_layout::ShardingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Sharding {
    mesh: Mesh,
    shape: Vec<usize>,
    dims: Vec<DimLayout>,
    pins: Vec<(usize, usize)>,
    /// Ascending.
    partial: Vec<usize>,
    sources: Vec<(usize, AxisSource)>,
}

/// Why a sharding is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShardingError {
    /// A clause names an axis that the mesh lacks.
    #[error("no axis `{name}`; the axes are {axes}")]
    UnknownAxis {
        /// The axis named.
        name: Name,
        /// The axes that exist.
        axes: String,
    },
    /// An axis shards two dimensions, or a dimension and a pin.
    #[error(
        "axis `{axis}` is used twice, so that elements off the diagonal would have no owner; \
         use each axis for one dimension, or skew the second, `(x + y) % parts`"
    )]
    AxisTwice {
        /// The axis.
        axis: Name,
    },
    /// A dimension has two clauses.
    #[error("dimension {dim} is placed twice; give several axes as one list, major first")]
    DimTwice {
        /// The dimension.
        dim: usize,
    },
    /// A clause places a dimension that the array lacks.
    #[error("no dimension {dim}; the array has {ndim}")]
    NoDim {
        /// The dimension.
        dim: usize,
        /// Dimensions of the array.
        ndim: usize,
    },
    /// A pin is outside its axis.
    #[error("cannot pin to coordinate {coordinate} of axis `{axis}`; its coordinates are 0..{extent}")]
    PinOutside {
        /// The axis.
        axis: Name,
        /// The coordinate asked for.
        coordinate: usize,
        /// The axis' extent.
        extent: usize,
    },
    /// An axis holds partial sums, and something else as well.
    #[error(
        "axis `{axis}` holds partial sums, so it cannot place a dimension, pin, or hold them twice; leave either out"
    )]
    PartialTwice {
        /// The axis.
        axis: Name,
    },
    /// A block of no indices.
    #[error("dimension {dim} is block-cyclic in blocks of 0; a block has at least one index")]
    EmptyBlock {
        /// The dimension.
        dim: usize,
    },
    /// An expression that is not a placement.
    #[error("cannot place by `{expr}`: {why}")]
    Unsupported {
        /// The expression.
        expr: AxisExpr,
        /// What is wrong and what to write.
        why: &'static str,
    },
    /// A placement whose blocks do not all have an owner.
    #[error("cannot place by `{expr}`: {why}")]
    NoOwner {
        /// The expression.
        expr: String,
        /// What is wrong and what to write.
        why: &'static str,
    },
}

impl ShardingError {
    pub(crate) fn unknown_axis(name: Name, mesh: &Mesh) -> Self {
        let axes: Vec<_> = mesh.as_slice().iter().map(|axis| axis.name.as_str()).collect();
        Self::UnknownAxis { name, axes: axes.join(", ") }
    }

    pub(crate) fn no_owner(linear: &LinearAxes, mesh: &Mesh, why: &'static str) -> Self {
        Self::NoOwner { expr: linear.display(mesh).to_string(), why }
    }
}

impl Sharding {
    /// Returns the sharding of an array of `shape` over `mesh` by `placements`.
    ///
    /// # Errors
    /// A [`ShardingError`] if a clause names what is not there, an axis or a dimension is used twice,
    /// or some element would have no owner.
    pub fn new(mesh: &Mesh, shape: &[usize], placements: &[Placement]) -> Result<Self, ShardingError> {
        let mut placed: Vec<(usize, LinearAxes)> = Vec::new();
        let mut blocks = Vec::new();
        let mut pins: Vec<(usize, usize)> = Vec::new();
        let mut partial: Vec<usize> = Vec::new();
        for placement in placements {
            let (dim, at, block) = match placement {
                Placement::Pin { axis, coordinate } => {
                    pins.push(pin(mesh, *axis, *coordinate, &pins)?);
                    continue;
                }
                Placement::Partial { axis } => {
                    let position = mesh.position(*axis).ok_or_else(|| ShardingError::unknown_axis(*axis, mesh))?;
                    if partial.contains(&position) {
                        return Err(ShardingError::PartialTwice { axis: *axis });
                    }
                    partial.push(position);
                    continue;
                }
                Placement::Block { dim, at } => (*dim, at, None),
                Placement::Cyclic { dim, block: 0, .. } => return Err(ShardingError::EmptyBlock { dim: *dim }),
                Placement::Cyclic { dim, at, block } => (*dim, at, Some(*block)),
            };
            if dim >= shape.len() {
                return Err(ShardingError::NoDim { dim, ndim: shape.len() });
            }
            if placed.iter().any(|other| other.0 == dim) {
                return Err(ShardingError::DimTwice { dim });
            }
            placed.push((dim, LinearAxes::new(at, mesh)?));
            blocks.push(block);
        }
        partial.sort_unstable();
        let used = |axis: usize| {
            let places = placed.iter().any(|(_, at)| at.terms.iter().any(|term| term.0 == axis));
            places || pins.iter().any(|pin| pin.0 == axis)
        };
        if let Some(&axis) = partial.iter().find(|&&axis| used(axis)) {
            return Err(ShardingError::PartialTwice { axis: mesh.as_slice()[axis].name });
        }
        let (sources, parts) = solve(&placed, &pins, mesh)?;
        let mut dims = vec![DimLayout::Whole; shape.len()];
        for (((dim, at), block), parts) in placed.into_iter().zip(blocks).zip(parts) {
            let parts = parts as usize;
            dims[dim] = match block {
                // A block beyond the extent is the whole dimension.
                Some(block) => DimLayout::Cyclic { at, parts, block: block.min(shape[dim].max(1)) },
                None => DimLayout::Block { at, parts, block: shape[dim].div_ceil(parts).max(1) },
            };
        }
        Ok(Self { mesh: mesh.clone(), shape: shape.to_vec(), dims, pins, partial, sources })
    }

    /// Returns the sharding that gives every rank the whole array.
    #[must_use]
    pub fn replicated(mesh: &Mesh, shape: &[usize]) -> Self {
        Self {
            mesh: mesh.clone(),
            shape: shape.to_vec(),
            dims: vec![DimLayout::Whole; shape.len()],
            pins: Vec::new(),
            partial: Vec::new(),
            sources: (0..mesh.ndim()).map(|axis| (axis, AxisSource::Reader)).collect(),
        }
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the global shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the layout of each dimension.
    #[must_use]
    pub fn dims(&self) -> &[DimLayout] {
        &self.dims
    }

    /// Returns the pins, as axis position and coordinate.
    #[must_use]
    pub fn pins(&self) -> &[(usize, usize)] {
        &self.pins
    }

    /// Returns the positions of the axes along which each coordinate holds a term of the sum, ascending; none if the
    /// array is no sum.
    ///
    /// ```
    /// use polyshard_layout::{AxisExpr, Mesh, Placement, Sharding};
    /// let mesh = Mesh::new([("x", 2), ("z", 3)]);
    /// let open = Sharding::new(&mesh, &[4], &[Placement::block(0, AxisExpr::axis("x")), Placement::partial("z")])?;
    /// assert_eq!((open.partial(), open.to_string()), (&[1][..], "[0 @ x, partial(z)]".into()));
    /// assert_eq!(open.closed().to_string(), "[0 @ x]");
    /// # Ok::<(), polyshard_layout::ShardingError>(())
    /// ```
    #[must_use]
    pub fn partial(&self) -> &[usize] {
        &self.partial
    }

    /// Returns the names of the axes along which each coordinate holds a term of the sum.
    #[must_use]
    pub fn partial_axes(&self) -> Vec<Name> {
        self.partial.iter().map(|&axis| self.mesh.as_slice()[axis].name).collect()
    }

    /// Returns the sharding of the sum of the terms where each coordinate of the axes that now hold them owns it.
    #[must_use]
    pub fn closed(&self) -> Self {
        self.closed_along(&self.partial)
    }

    /// As [`closed`](Self::closed), along these axes, given as positions; sums along others stay open.
    #[must_use]
    pub fn closed_along(&self, axes: &[usize]) -> Self {
        let partial = self.partial.iter().copied().filter(|axis| !axes.contains(axis)).collect();
        Self { partial, ..self.clone() }
    }

    /// Returns the sharding that is the same but that the array is at one coordinate alone of axes along which it is
    /// replicated or partial, given as positions and coordinates.
    #[must_use]
    pub fn pinned(&self, at: &[(usize, usize)]) -> Self {
        let mut pinned = self.clone();
        for &(axis, coordinate) in at {
            pinned.partial.retain(|&other| other != axis);
            pinned.pins.push((axis, coordinate));
            if let Some(source) = pinned.sources.iter_mut().find(|source| source.0 == axis) {
                source.1 = AxisSource::Pin(coordinate);
            }
        }
        pinned
    }

    /// Returns the clauses that give this sharding, with placements in normal form.
    #[must_use]
    pub fn placements(&self) -> Vec<Placement> {
        let dims = self.dims.iter().enumerate().filter_map(|(dim, layout)| match layout {
            DimLayout::Whole => None,
            DimLayout::Block { at, .. } => Some(Placement::Block { dim, at: at.expr(&self.mesh) }),
            DimLayout::Cyclic { at, block, .. } => {
                Some(Placement::Cyclic { dim, at: at.expr(&self.mesh), block: *block })
            }
        });
        let pins = self
            .pins
            .iter()
            .map(|&(axis, coordinate)| Placement::Pin { axis: self.mesh.as_slice()[axis].name, coordinate });
        let partial = self.partial_axes().into_iter().map(|axis| Placement::Partial { axis });
        dims.chain(pins).chain(partial).collect()
    }

    /// Returns where the owner of an element stands along each axis, in an order in which each entry
    /// depends on earlier ones only.
    #[must_use]
    pub fn sources(&self) -> &[(usize, AxisSource)] {
        &self.sources
    }

    /// Returns whether the rank at `coordinates` is one of those that the pins allow to own elements.
    #[must_use]
    pub fn keeps(&self, coordinates: &[usize]) -> bool {
        self.pins.iter().all(|&(axis, coordinate)| coordinates[axis] == coordinate)
    }

    /// Returns the global ranges of dimension `dim` that the rank at `coordinates` owns, each with the
    /// position of its first index in the local block, clipped to `within`.
    pub fn pieces(
        &self,
        dim: usize,
        coordinates: &[usize],
        within: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, usize)> + use<> {
        let extent = self.shape[dim];
        let (first, stride, block) = match &self.dims[dim] {
            DimLayout::Whole => (0, extent.max(1), extent),
            DimLayout::Block { at, block, .. } => {
                ((at.eval(coordinates) as usize).saturating_mul(*block), extent.max(1), *block)
            }
            DimLayout::Cyclic { at, parts, block } => {
                ((at.eval(coordinates) as usize).saturating_mul(*block), block.saturating_mul(*parts), *block)
            }
        };
        let end = if self.keeps(coordinates) { within.end.min(extent) } else { 0 };
        // Blocks that end before the window are stepped over at once.
        let skip = within.start.saturating_sub(first.saturating_add(block)).div_ceil(stride);
        (skip..)
            .map(move |nth| (nth, first.saturating_add(stride.saturating_mul(nth))))
            .take_while(move |&(_, start)| start < end)
            .map(move |(nth, start)| {
                let from = start.max(within.start);
                (from..start.saturating_add(block).min(end), nth * block + (from - start))
            })
            .filter(|(range, _)| range.start < range.end)
    }

    /// Returns the shape of the block that the rank at `coordinates` owns, row-major and dense.
    ///
    /// A rank that owns nothing has a shape with a 0; of a 0-dimensional array, see [`keeps`](Self::keeps).
    #[must_use]
    pub fn local_shape(&self, coordinates: &[usize]) -> Vec<usize> {
        (0..self.shape.len())
            .map(|dim| self.pieces(dim, coordinates, 0..self.shape[dim]).map(|(range, _)| range.len()).sum())
            .collect()
    }

    /// Returns the number of elements that the rank at `coordinates` owns; `usize::MAX` if there are more.
    #[must_use]
    pub fn local_len(&self, coordinates: &[usize]) -> usize {
        if self.keeps(coordinates) {
            self.local_shape(coordinates).into_iter().fold(1, usize::saturating_mul)
        } else {
            0
        }
    }

    /// Returns the digit of `index` along `dim`: the number of the block that holds it.
    #[must_use]
    pub fn digit(&self, dim: usize, index: usize) -> usize {
        match &self.dims[dim] {
            DimLayout::Whole => 0,
            DimLayout::Block { block, .. } => index / block,
            DimLayout::Cyclic { parts, block, .. } => index / block % parts,
        }
    }

    /// Returns the coordinates of the owner from which the rank at `reader` reads `element`.
    ///
    /// Along axes that replicate the array, that is the reader's own coordinate.
    #[must_use]
    pub fn owner(&self, reader: &[usize], element: &[usize]) -> Vec<usize> {
        let mut owner = reader.to_vec();
        for (axis, source) in &self.sources {
            owner[*axis] = match source {
                AxisSource::Reader => reader[*axis],
                AxisSource::Pin(coordinate) => *coordinate,
                AxisSource::Digit { dim, stride, extent } => {
                    (self.digit(*dim, element[*dim]) as i64 / stride % extent) as usize
                }
                AxisSource::Skew { digits, rest, modulus } => {
                    let digit = |dim: usize| self.digit(dim, element[dim]) as i128;
                    let digits = digits.iter().map(|&(dim, factor)| i128::from(factor) * digit(dim));
                    (digits.sum::<i128>() + rest.sum(&owner)).rem_euclid((*modulus).into()) as usize
                }
            };
        }
        owner
    }

    /// Returns whether the rank at `coordinates` owns `element`.
    #[must_use]
    pub fn owns(&self, coordinates: &[usize], element: &[usize]) -> bool {
        self.keeps(coordinates)
            && self.dims.iter().enumerate().all(|(dim, layout)| match layout {
                DimLayout::Whole => true,
                DimLayout::Block { at, .. } | DimLayout::Cyclic { at, .. } => {
                    at.eval(coordinates) == self.digit(dim, element[dim]) as i64
                }
            })
    }
}

fn pin(mesh: &Mesh, name: Name, coordinate: usize, pins: &[(usize, usize)]) -> Result<(usize, usize), ShardingError> {
    let axis = mesh.position(name).ok_or_else(|| ShardingError::unknown_axis(name, mesh))?;
    let extent = mesh.as_slice()[axis].extent;
    if coordinate >= extent {
        return Err(ShardingError::PinOutside { axis: name, coordinate, extent });
    }
    if pins.iter().any(|pin| pin.0 == axis) {
        return Err(ShardingError::AxisTwice { axis: name });
    }
    Ok((axis, coordinate))
}

impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut clauses: Vec<String> = Vec::new();
        for (dim, layout) in self.dims.iter().enumerate() {
            match layout {
                DimLayout::Whole => {}
                DimLayout::Block { at, .. } => clauses.push(format!("{dim} @ {}", at.display(&self.mesh))),
                DimLayout::Cyclic { at, block, .. } => {
                    clauses.push(format!("{dim} @ cyclic({}, {block})", at.display(&self.mesh)));
                }
            }
        }
        for &(axis, coordinate) in &self.pins {
            clauses.push(format!("pin({}, {coordinate})", self.mesh.as_slice()[axis].name));
        }
        clauses.extend(self.partial_axes().into_iter().map(|axis| format!("partial({axis})")));
        if clauses.is_empty() { f.write_str("replicated") } else { write!(f, "[{}]", clauses.join(", ")) }
    }
}

#[cfg(test)]
mod tests;
