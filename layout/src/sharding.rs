//! Shardings: which rank owns which elements of an array.

use crate::dim::{Digit, DimLayout, LevelLayout, Owned};
use crate::linear::LinearAxes;
use crate::placement::{Division, Placement};
use crate::solve::solve;
use crate::source::AxisSource;
use crate::{Mesh, Name};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

mod error;
mod gathered;
mod owners;
mod shares;
mod terms;
pub use error::ShardingError;
pub use terms::SumsError;

/// Which rank of a mesh owns which elements of an array; row-major, and extents need not be divisible.
///
/// An axis that no clause names replicates. Each element has at least one owner. Along an axis of partial sums, each
/// coordinate owns a term of every element, and the array is the sum of the terms.
///
/// A sharding is stored, compared and printed in canonical form, however it was written: pins in the order of the mesh, no
/// axes of one rank, no redundant modulus, and as few levels as possible; a block-cyclic dimension with a single turn is in
/// blocks. Equal shardings of one mesh and shape give every rank the same elements. Shardings that give every rank the same
/// elements are equal, except by coincidence of size: a dimension has fewer blocks than its placement numbers, as `0 @ x` and
/// `pin(x, 0)` of one row, or blocks of blocks have fewer than two turns of a cyclic level. Blocks of blocks whose outer
/// blocks are placed by `(..) % m` may be equivalent to a single remainder; this is not detected.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2), ("y", 2)]);
/// let [x, y] = mesh.axes();
/// let skewed = Sharding::new(&mesh, &[5, 4], &[
///     Placement::block(0, x),
///     Placement::block(1, (x + y) % 2),
/// ])?;
/// assert_eq!(skewed.local_shape(&[1, 0]), [2, 2]);
/// assert_eq!(skewed.owner(&[0, 0], &[4, 0]), [1, 1]);
/// assert_eq!(skewed.to_string(), "[0 @ x, 1 @ (x + y) % 2]");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct Sharding {
    mesh: Mesh,
    shape: Vec<usize>,
    dims: Vec<DimLayout>,
    pins: Vec<(usize, usize)>,
    /// Ascending.
    partial: Vec<usize>,
    sources: Vec<(usize, AxisSource)>,
}

/// A sharding as stored in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    mesh: Mesh,
    shape: Vec<usize>,
    placements: Vec<Placement>,
}

impl From<Sharding> for Written {
    fn from(sharding: Sharding) -> Self {
        Self { placements: sharding.placements(), mesh: sharding.mesh, shape: sharding.shape }
    }
}

impl TryFrom<Written> for Sharding {
    type Error = ShardingError;

    fn try_from(written: Written) -> Result<Self, ShardingError> {
        Self::new(&written.mesh, &written.shape, &written.placements)
    }
}

impl Sharding {
    /// Returns the sharding of an array of `shape` over `mesh` by `placements`.
    ///
    /// # Errors
    /// A [`ShardingError`] if a clause names an axis or dimension that does not exist, one is used twice, or some element
    /// would have no owner.
    pub fn new(mesh: &Mesh, shape: &[usize], placements: &[Placement]) -> Result<Self, ShardingError> {
        let mut dims = vec![DimLayout::WHOLE; shape.len()];
        let mut placed = Vec::new();
        let mut used = Vec::new();
        let mut pins: Vec<(usize, usize)> = Vec::new();
        let mut partial: Vec<usize> = Vec::new();
        for placement in placements {
            match placement {
                Placement::Pin { axis, coordinate } => pins.push(pin(mesh, *axis, *coordinate, &pins)?),
                Placement::Partial { axis } => {
                    let position = mesh.position(*axis).ok_or_else(|| ShardingError::unknown_axis(*axis, mesh))?;
                    if partial.contains(&position) {
                        return Err(ShardingError::PartialTwice { axis: *axis });
                    }
                    partial.push(position);
                }
                Placement::Divided { dim, levels } => {
                    let dim = *dim;
                    let extent = *shape.get(dim).ok_or(ShardingError::NoDim { dim, ndim: shape.len() })?;
                    if placed.contains(&dim) {
                        return Err(ShardingError::DimTwice { dim });
                    }
                    placed.push(dim);
                    if levels.len() > mesh.ndim().max(1) {
                        let (levels, axes) = (levels.len(), mesh.ndim());
                        return Err(ShardingError::TooManyLevels { dim, levels, axes });
                    }
                    let levels = levels.iter().map(|level| match level {
                        Division::Block { at } => Ok((LinearAxes::new(at, mesh)?, None)),
                        Division::Cyclic { at, block } => Ok((LinearAxes::new(at, mesh)?, Some(*block))),
                    });
                    let mut levels = levels.collect::<Result<Vec<_>, _>>()?;
                    used.extend(levels.iter().flat_map(|(at, _)| at.terms.iter().map(|term| term.0)));
                    levels = levels.into_iter().map(|(at, block)| (at.normal(mesh), block)).collect();
                    dims[dim] = layout(dim, extent, levels, mesh)?;
                }
            }
        }
        partial.sort_unstable();
        used.extend(pins.iter().map(|pin| pin.0));
        if let Some(&axis) = partial.iter().find(|axis| used.contains(axis)) {
            return Err(ShardingError::PartialTwice { axis: mesh.as_slice()[axis].name });
        }
        // Pins and partial sums along an axis of one rank change nothing.
        let several = |axis: usize| mesh.as_slice()[axis].extent > 1;
        partial.retain(|&axis| several(axis));
        pins.retain(|pin| several(pin.0));
        pins.sort_unstable();
        let digits = (0..dims.len()).flat_map(|dim| {
            let levels = dims[dim].levels().iter().enumerate();
            levels.map(move |(level, layout)| (Digit { dim, level }, &layout.at))
        });
        let digits: Vec<_> = digits.collect();
        let sources = solve(&digits, &pins, mesh)?;
        Ok(Self { mesh: mesh.clone(), shape: shape.to_vec(), dims, pins, partial, sources })
    }

    /// Returns the sharding that gives every rank the whole array.
    #[must_use]
    pub fn replicated(mesh: &Mesh, shape: &[usize]) -> Self {
        Self {
            mesh: mesh.clone(),
            shape: shape.to_vec(),
            dims: vec![DimLayout::WHOLE; shape.len()],
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

    /// Returns this sharding with the array pinned to one coordinate of axes along which it is replicated or partial, given as
    /// positions and coordinates.
    #[must_use]
    pub fn pinned(&self, at: &[(usize, usize)]) -> Self {
        let mut pinned = self.clone();
        for &(axis, coordinate) in at {
            pinned.partial.retain(|&other| other != axis);
            if self.mesh.as_slice()[axis].extent == 1 {
                continue;
            }
            pinned.pins.push((axis, coordinate));
            if let Some(source) = pinned.sources.iter_mut().find(|source| source.0 == axis) {
                source.1 = AxisSource::Pin(coordinate);
            }
        }
        pinned.pins.sort_unstable();
        pinned
    }

    /// Returns the clauses of this sharding in canonical form; [`new`](Self::new) makes the same sharding from them.
    #[must_use]
    pub fn placements(&self) -> Vec<Placement> {
        let divided = (0..self.dims.len()).filter(|&dim| !self.dims[dim].levels().is_empty());
        let dims = divided.map(|dim| {
            let layout = &self.dims[dim];
            let levels = layout.levels().iter().enumerate().map(|(number, level)| {
                let at = level.at.expr(&self.mesh);
                match level.is_in_ceil_blocks(layout.divided(number, self.shape[dim])) {
                    true => Division::Block { at },
                    false => Division::Cyclic { at, block: level.block },
                }
            });
            Placement::Divided { dim, levels: levels.collect() }
        });
        let pins = self
            .pins
            .iter()
            .map(|&(axis, coordinate)| Placement::Pin { axis: self.mesh.as_slice()[axis].name, coordinate });
        let partial = self.partial_axes().into_iter().map(|axis| Placement::Partial { axis });
        dims.chain(pins).chain(partial).collect()
    }

    /// Returns the sharding as text, one clause per divided dimension, pinned axis and axis of partial sums; `name` gives the
    /// names of dimensions.
    pub fn clauses(&self, name: impl Fn(usize) -> String) -> Vec<String> {
        self.placements().into_iter().map(|clause| clause.map_dim(&name).to_string()).collect()
    }

    /// Returns whether the coordinate along the axis at this position decides who owns an element.
    #[must_use]
    pub fn places(&self, axis: usize) -> bool {
        self.dims.iter().any(|layout| layout.places(axis))
    }

    /// Returns the number of elements that the rank at `coordinates` owns here and the rank at `at` owns in `other`, a
    /// sharding of the same shape.
    #[must_use]
    pub fn common_len(&self, coordinates: &[usize], other: &Self, at: &[usize]) -> usize {
        let common = |dim: usize| {
            let whole = 0..self.shape[dim];
            let own = self.pieces(dim, coordinates, whole);
            own.flat_map(|(range, _)| other.pieces(dim, at, range)).map(|(range, _)| range.len()).sum::<usize>()
        };
        let kept = self.keeps(coordinates) && other.keeps(at);
        if kept { (0..self.shape.len()).map(common).product() } else { 0 }
    }

    /// Returns the number of elements in the largest shard; at most `u64::MAX`.
    #[must_use]
    pub fn largest_shard(&self) -> u64 {
        let dims = self.dims.iter().zip(&self.shape);
        dims.map(|(layout, &extent)| layout.max_owned(extent) as u64).fold(1, u64::saturating_mul)
    }

    /// Returns the length in elements of a typical run that is contiguous on both ranks, where a rank's shard overlaps another
    /// one's in `other`.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let by = |dim| Sharding::new(&mesh, &[6, 4, 10], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
    /// assert_eq!(by(0).common_row(&by(1)), 2 * 10);
    /// assert_eq!(by(0).common_row(&by(2)), 5);
    /// ```
    #[must_use]
    pub fn common_row(&self, other: &Self) -> usize {
        let mut row = 1usize;
        for (dim, &extent) in self.shape.iter().enumerate().rev() {
            let ends = [self, other].map(|sharding| sharding.dims[dim].end_of_block(0));
            let common = ends.into_iter().fold(extent, usize::min);
            row = row.saturating_mul(common);
            if common < extent {
                break;
            }
        }
        row
    }

    /// Returns how the owner of an element is found along each axis; each entry depends on earlier ones only.
    #[must_use]
    pub fn sources(&self) -> &[(usize, AxisSource)] {
        &self.sources
    }

    /// Returns whether the pins allow the rank at `coordinates` to own elements.
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
        let owned = self.owned(dim, coordinates);
        let Range { start: mut from, end } = within;
        std::iter::from_fn(move || {
            let range = owned.next(from).filter(|range| range.start < end)?;
            from = range.end;
            Some((range.start..range.end.min(end), owned.below(range.start)))
        })
    }

    /// Returns the indices of dimension `dim` that the rank at `coordinates` owns.
    #[must_use]
    pub fn owned(&self, dim: usize, coordinates: &[usize]) -> Owned {
        let end = if self.keeps(coordinates) { self.shape[dim] } else { 0 };
        Owned::new(&self.dims[dim], coordinates, end)
    }

    /// Returns the position of index `index` of dimension `dim` in the block of the rank at `coordinates`, if the rank
    /// owns it.
    #[must_use]
    pub fn local_index(&self, dim: usize, coordinates: &[usize], index: usize) -> Option<usize> {
        let layout = &self.dims[dim];
        let owns = index < self.shape[dim] && self.keeps(coordinates) && layout.owns(coordinates, index);
        owns.then(|| layout.owned_below(coordinates, index))
    }

    /// Returns the shape of the block that the rank at `coordinates` owns, row-major and dense.
    ///
    /// A rank that owns nothing has a shape with a 0; of a 0-dimensional array, see [`keeps`](Self::keeps).
    #[must_use]
    pub fn local_shape(&self, coordinates: &[usize]) -> Vec<usize> {
        let keeps = self.keeps(coordinates);
        let owned =
            |(layout, &extent): (&DimLayout, &usize)| if keeps { layout.owned_below(coordinates, extent) } else { 0 };
        self.dims.iter().zip(&self.shape).map(owned).collect()
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

    /// Returns a digit of `element`: the number of the block that holds it.
    #[must_use]
    pub fn digit(&self, digit: Digit, element: &[usize]) -> usize {
        self.dims[digit.dim].digit(digit.level, element[digit.dim])
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
                AxisSource::Digit { digit, stride, extent } => {
                    (self.digit(*digit, element) as i64 / stride % extent) as usize
                }
                AxisSource::Skew { digits, rest, modulus, stride, parts } => {
                    let value = |digit: Digit| self.digit(digit, element) as i128;
                    let digits = digits.iter().map(|&(digit, factor)| i128::from(factor) * value(digit));
                    let remainder = (digits.sum::<i128>() + rest.sum(&owner)).rem_euclid((*modulus).into());
                    (remainder as i64 / stride % parts) as usize
                }
            };
        }
        owner
    }

    /// Returns whether the rank at `coordinates` owns `element`.
    #[must_use]
    pub fn owns(&self, coordinates: &[usize], element: &[usize]) -> bool {
        self.keeps(coordinates) && self.dims.iter().zip(element).all(|(layout, &index)| layout.owns(coordinates, index))
    }
}

/// The layout of a dimension from its levels: expressions in normal form and, if cyclic, block sizes.
///
/// Levels that divide nothing are dropped, cyclic levels of a single turn become blocks, and two levels are joined if one can
/// express both, so that each way of dividing a dimension has one layout.
fn layout(
    dim: usize,
    extent: usize,
    levels: Vec<(LinearAxes, Option<usize>)>,
    mesh: &Mesh,
) -> Result<DimLayout, ShardingError> {
    let mut layout: Vec<LevelLayout> = Vec::new();
    let mut size = extent;
    for (at, block) in levels {
        let parts = at.parts(mesh)? as usize;
        let (block, cyclic) = match block {
            Some(0) => return Err(ShardingError::EmptyBlock { dim }),
            // A block larger than the size is clipped to it.
            Some(block) => {
                let block = block.min(size.max(1));
                (block, block.saturating_mul(parts) < size)
            }
            None => (size.div_ceil(parts).max(1), false),
        };
        size = block;
        let mut level = LevelLayout { at, parts, block, cyclic };
        if parts == 1 && !cyclic {
            continue;
        }
        while let Some(joined) = layout.last().and_then(|outer| LevelLayout::joined(outer, &level, mesh)) {
            layout.pop();
            level = joined;
        }
        layout.push(level);
    }
    // Every rank has all blocks of these, and nothing divides them further.
    while layout.pop_if(|level| level.parts == 1).is_some() {}
    Ok(DimLayout::new(layout))
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
        let clauses = self.clauses(|dim| dim.to_string());
        if clauses.is_empty() { f.write_str("replicated") } else { write!(f, "[{}]", clauses.join(", ")) }
    }
}

#[cfg(test)]
mod tests;
