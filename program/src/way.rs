//! The way that the elements of an array take from one sharding to another: known to the program, which states it, and to the
//! runtime, which goes it.

use polyshard_layout::{DimLayout, Sharding, SumKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How ranks bring an array from one sharding to another, and close partial sums that the target does not keep open. All ways add up the
/// terms of a sum in the order of their coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Way {
    /// No sums are closed: each rank hands each other one what that one lacks.
    Pairs(Rows),
    /// No sums are closed: the shards of a group, one after the other, are what each of its members wants, and are gathered.
    Gathered,
    /// The terms meet in a group along their axes: each rank of it sums up a piece and hands it on, or those who want the sums get all terms.
    /// Then the sums go on in pairs, if the target has them elsewhere.
    Groups {
        /// Whether each rank sums up a piece.
        in_pieces: bool,
        /// How the sums go on.
        then: Rows,
    },
    /// Each rank of a group along the axes of the terms gets its part of all terms, and sums it up.
    Parts,
    /// The terms of one coordinate after the other go to the target in pairs, and are added up there.
    Layers(Rows),
}

/// How rows that lie apart in memory go in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rows {
    /// The library is told where they are, if it can be (MPI 3.1, section 4.1).
    LaidOut,
    /// They are packed.
    Packed,
}

/// The fewest bytes of a row that a library sends from where it lies as fast as it is packed.
const LONG: usize = 256;

/// The bytes of messages that a rank packs and unpacks in, at most.
const STAGING: u64 = 2 << 20;

/// Why an array cannot go a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WayError {
    /// Sums are to be closed on a way that closes none, or none on one that does.
    #[error("its way closes {}, but the target closes {}", sums(*.closes), if *.closes { "none" } else { "some" })]
    Sums {
        /// Whether the way closes sums.
        closes: bool,
    },
    /// The target places dimensions along the axes of the sums.
    #[error("its sums meet in groups, but the target divides them among the ranks of a group")]
    Divided,
    /// A rank wants sums of which its group has not all terms, or not as one block.
    #[error("each rank sums up a part of the terms of its group, but wants more than these, or they are not a block")]
    Outside,
    /// Shards do not follow one another in what a group wants.
    #[error(
        "its shards are gathered, but there are no groups in which they are, one after the other, what each rank wants"
    )]
    Scattered,
    /// An array of no dimensions has no rows.
    #[error("its rows are laid out in messages, but an array of no dimensions has no rows")]
    NoRows,
}

fn sums(closes: bool) -> &'static str {
    if closes { "sums" } else { "no sums" }
}

impl Rows {
    /// Returns how rows between these shardings go, of elements of `element` bytes: laid out if most of them are long on both sides.
    #[must_use]
    fn between(source: &Sharding, target: &Sharding, element: usize) -> Self {
        match source.common_row(target).saturating_mul(element) >= LONG && !source.shape().is_empty() {
            true => Self::LaidOut,
            false => Self::Packed,
        }
    }
}

impl Way {
    /// Returns the way from `source` to `target` of elements of `element` bytes. Takes time in proportion to the number of ranks where
    /// shards are gathered, or the target divides sums that are closed.
    ///
    /// ```
    /// use polyshard_layout::{Mesh, Placement, Sharding};
    /// use polyshard_program::{Rows, Way};
    /// let mesh = Mesh::new([("x", 4)]);
    /// let [x] = mesh.axes();
    /// let by = |dim| Sharding::new(&mesh, &[64, 64], &[Placement::block(dim, x)]).expect("a sharding");
    /// // Rows of 16 elements, which are 128 bytes.
    /// assert_eq!(Way::between(&by(0), &by(1), 8), Way::Pairs(Rows::Packed));
    /// assert_eq!(Way::between(&by(0), &Sharding::replicated(&mesh, &[64, 64]), 8), Way::Gathered);
    /// let open = Sharding::new(&mesh, &[64, 64], &[Placement::partial(x)]).expect("a sharding");
    /// assert_eq!(Way::between(&open, &by(0), 8), Way::Parts);
    /// ```
    #[must_use]
    pub fn between(source: &Sharding, target: &Sharding, element: usize) -> Self {
        let rows = Rows::between(source, target, element);
        let closed = source.closed_axes(target).unwrap_or_default();
        if closed.is_empty() {
            return if source.gathered_groups(target).is_some() { Self::Gathered } else { Self::Pairs(rows) };
        }
        if closed.iter().any(|&axis| target.places(axis)) {
            return if are_parts(source, target, &closed) { Self::Parts } else { Self::Layers(rows) };
        }
        let bytes = source.largest_shard().saturating_mul(element as u64);
        Self::Groups { in_pieces: SumKind::pays_in_pieces(bytes, source.mesh().group_size(&closed)), then: rows }
    }

    /// Checks that an array can go this way from `source` to `target`, which have one shape.
    ///
    /// # Errors
    /// [`WayError`] if it cannot.
    pub fn check(self, source: &Sharding, target: &Sharding) -> Result<(), WayError> {
        let closed = source.closed_axes(target).unwrap_or_default();
        let closes = self.closes_sums();
        if closes == closed.is_empty() {
            return Err(WayError::Sums { closes });
        }
        let divided = closed.iter().any(|&axis| target.places(axis));
        match self {
            Self::Gathered if source.gathered_groups(target).is_none() => Err(WayError::Scattered),
            Self::Groups { .. } if divided => Err(WayError::Divided),
            Self::Parts if !divided || !are_parts(source, target, &closed) => Err(WayError::Outside),
            Self::Pairs(Rows::LaidOut) | Self::Layers(Rows::LaidOut) | Self::Groups { then: Rows::LaidOut, .. }
                if source.shape().is_empty() =>
            {
                Err(WayError::NoRows)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether partial sums are closed on the way.
    #[must_use]
    pub fn closes_sums(self) -> bool {
        !matches!(self, Self::Pairs(_) | Self::Gathered)
    }

    /// Returns the most bytes that a rank holds on the way besides the two arrays, with `element` bytes for each element. A part of a shard
    /// that is kept is packed to be gathered, which is not counted here.
    #[must_use]
    pub fn staged(self, source: &Sharding, target: &Sharding, element: usize) -> u64 {
        let [from, to] = [source, target].map(|sharding| sharding.largest_shard().saturating_mul(element as u64));
        let closed = source.closed_axes(target).unwrap_or_default();
        let members = source.mesh().group_size(&closed);
        let in_pairs = STAGING.min(to);
        match self {
            Self::Pairs(_) => in_pairs,
            Self::Gathered => 0,
            Self::Groups { in_pieces, .. } => {
                // A copy of the terms, and the others' terms of a piece and the piece, or all terms.
                let summed = from.saturating_mul(if in_pieces { 3 } else { members + 1 });
                let stays = summed_up(source, target, &closed) == *target;
                summed.saturating_add(if stays { 0 } else { in_pairs })
            }
            // A copy of the terms, what is packed of it, and the others' terms of a part.
            Self::Parts => from.saturating_mul(2).saturating_add(to.saturating_mul(members - 1)),
            Self::Layers(_) => to.saturating_add(in_pairs),
        }
    }
}

/// Returns how the sums lie that groups along these axes make: at all members, or at those to which the target pins them.
#[must_use]
pub fn summed_up(source: &Sharding, target: &Sharding, closed: &[usize]) -> Sharding {
    let pins: Vec<_> = target.pins().iter().copied().filter(|(axis, _)| closed.contains(axis)).collect();
    if pins.len() == closed.len() { source.pinned(&pins) } else { source.closed_along(closed) }
}

/// Whether the members of each group along `axes` want nothing but parts of their term, which is one block, and all of it.
fn are_parts(source: &Sharding, target: &Sharding, axes: &[usize]) -> bool {
    if source.dims().iter().any(DimLayout::is_cyclic) {
        return false;
    }
    let mesh = source.mesh();
    let mut wanted: BTreeMap<Vec<usize>, (usize, usize)> = BTreeMap::new();
    (0..mesh.size()).all(|rank| {
        let [before, after] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
        let part = target.local_len(&after);
        let mut group = before.clone();
        axes.iter().for_each(|&axis| group[axis] = 0);
        let (parts, _) = wanted.entry(group).or_insert((0, source.local_len(&before)));
        *parts += part;
        source.common_len(&before, target, &after) == part
    }) && wanted.values().all(|(parts, term)| parts == term)
}
