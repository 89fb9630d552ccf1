//! Groups of ranks whose consecutive shards make up larger ones, as in an all-gather.

use super::Sharding;
use crate::dim::DimLayout;
use std::collections::HashMap;
use std::ops::Range;

/// The indices that a rank owns along each dimension.
type Bounds = Vec<Range<usize>>;

/// The copy that a rank reads from, by coordinates, and the indices that it needs.
type Wanted = (Vec<usize>, Bounds);

impl Sharding {
    /// Returns the groups whose all-gather (MPI 3.1, section 5.7) turns this sharding into `other`: the members' shards, concatenated in
    /// rank order, are the shard that each of them owns in `other`. Each group is ascending and has at least two ranks. `None` if
    /// all-gathers do not supply all elements that ranks lack. Takes time proportional to the number of ranks, if shards grow.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("y", 2)]);
    /// let [x, y] = mesh.axes();
    /// let of = |placements: &[Placement]| Sharding::new(&mesh, &[6, 4], placements).expect("a sharding");
    /// let blocks = of(&[Placement::block(0, y), Placement::block(1, x)]);
    /// let columns = of(&[Placement::block(1, x)]);
    /// assert_eq!(blocks.gathered_groups(&columns), Some(vec![vec![0, 1], vec![2, 3]]));
    /// // Blocks of columns are not one after the other in rows.
    /// assert_eq!(blocks.gathered_groups(&of(&[Placement::block(0, y)])), None);
    /// ```
    #[must_use]
    pub fn gathered_groups(&self, other: &Self) -> Option<Vec<Vec<usize>>> {
        let ranks = self.mesh.size();
        let cyclic = [self, other].iter().any(|sharding| sharding.dims.iter().any(DimLayout::is_cyclic));
        let grows = other.largest_shard() > self.largest_shard();
        if self.shape != other.shape || other.mesh.size() != ranks || cyclic || !grows {
            return None;
        }
        // Of several owners, a rank reads from the one at its own coordinates.
        let copies: Vec<usize> = (0..self.mesh.ndim()).filter(|&axis| !self.places(axis)).collect();
        let mut groups: HashMap<Wanted, Vec<(usize, Bounds)>> = HashMap::new();
        for rank in 0..ranks {
            let [before, after] = [self, other].map(|sharding| sharding.mesh.coordinates(rank));
            let key = copies.iter().map(|&axis| before[axis]).collect();
            groups.entry((key, other.bounds(&after))).or_default().push((rank, self.bounds(&before)));
        }
        let follow = |(_, whole): &Wanted, members: &[(usize, Bounds)]| {
            let Some(dim) = whole.iter().position(|range| range.len() > 1).or(Some(0)).filter(|_| len(whole) > 0)
            else {
                return members.iter().all(|(_, part)| len(part) == 0);
            };
            let end = members.iter().filter(|(_, part)| len(part) > 0).try_fold(whole[dim].start, |end, (_, part)| {
                let alike = (0..part.len()).all(|other| other == dim || part[other] == whole[other]);
                (alike && part[dim].start == end).then_some(part[dim].end)
            });
            end == Some(whole[dim].end)
        };
        if !groups.iter().all(|(key, members)| follow(key, members)) {
            return None;
        }
        let ranks = |members: Vec<(usize, Bounds)>| members.into_iter().map(|(rank, _)| rank).collect();
        let groups = groups.into_iter().filter(|((_, whole), members)| len(whole) > 0 && members.len() > 1);
        let mut groups: Vec<Vec<usize>> = groups.map(|(_, members)| ranks(members)).collect();
        groups.sort_unstable();
        (!groups.is_empty()).then_some(groups)
    }

    /// The indices that the rank at `coordinates` owns along each dimension, none of which is cyclic; the rank owns no element if one is
    /// empty.
    fn bounds(&self, coordinates: &[usize]) -> Bounds {
        let range = |dim: usize| self.owned(dim, coordinates).run(0);
        (0..self.shape.len()).map(range).collect()
    }
}

/// The number of elements of a box.
fn len(bounds: &[Range<usize>]) -> usize {
    bounds.iter().map(ExactSizeIterator::len).fold(1, usize::saturating_mul)
}
