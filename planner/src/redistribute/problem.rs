//! A redistribution as a puzzle over piece counts.
//!
//! Weakly, that is up to a permutation of the ranks, a type is no more than the number of pieces of each dimension,
//! since the global shape stays (Rink et al., section 7.2). To know when a permutation is unnecessary, the search also
//! needs the digits that number the tiles of source and target.

use crate::DistType;
use crate::factor::{divisors, primes};
use crate::part::{AxisPart, extent, joined, split};

/// Elements, or elements times steps: sums of tiles may overflow a `usize`.
pub type Cost = u128;

pub(super) struct Problem<'a> {
    pub(super) source: &'a DistType,
    pub(super) target: &'a DistType,
    pub(super) dims: Vec<Dim>,
    /// The number of ranks of the mesh: the product of the piece counts divides it.
    pub(super) ranks: usize,
    pub(super) primes: Vec<usize>,
    /// The largest factors by which each dimension may be gathered, largest first.
    gatherable: Vec<usize>,
    /// Elements of the array.
    len: usize,
}

/// One dimension of a problem.
pub(super) struct Dim {
    pub(super) size: usize,
    pub(super) source: Side,
    pub(super) target: Side,
}

/// One dimension of the source or of the target.
pub(super) struct Side {
    pub(super) pieces: usize,
    /// The digits of the pieces' numbers, for each piece count of a coarser cut of the dimension.
    cuts: Vec<(usize, Vec<AxisPart>)>,
}

impl Side {
    fn new(parts: &[AxisPart]) -> Self {
        let pieces = extent(parts);
        let cut = |pieces_left: usize| Some((pieces_left, joined(split(parts, pieces / pieces_left)?.1)));
        Self { pieces, cuts: divisors(pieces).into_iter().filter_map(cut).collect() }
    }

    /// Returns the digits that number the dimension's pieces once its lowest digits are removed, so that `pieces`
    /// pieces remain; none if digits cannot be split there.
    pub(super) fn cut(&self, pieces: usize) -> Option<&[AxisPart]> {
        self.cuts.iter().find(|(cut, _)| *cut == pieces).map(|(_, parts)| parts.as_slice())
    }
}

impl<'a> Problem<'a> {
    pub(super) fn new(source: &'a DistType, target: &'a DistType) -> Self {
        let dims = source.dims().iter().zip(target.dims()).map(|(source, target)| Dim {
            size: source.size,
            source: Side::new(&source.parts),
            target: Side::new(&target.parts),
        });
        let ranks = source.mesh().size();
        let factors = primes(ranks);
        let dims: Vec<Dim> = dims.collect();
        let most = |dim: &Dim| {
            let mut rest = dim.size / dim.target.pieces;
            let factors = factors.iter().filter(|&&factor| {
                let divides = rest.is_multiple_of(factor);
                rest /= if divides { factor } else { 1 };
                divides
            });
            factors.product::<usize>()
        };
        let mut gatherable: Vec<_> = dims.iter().map(most).filter(|&most| most > 1).collect();
        gatherable.sort_unstable_by_key(|&most| std::cmp::Reverse(most));
        let mut primes = factors.clone();
        primes.dedup();
        Self { source, target, dims, ranks, primes, gatherable, len: source.len() }
    }

    /// Elements of a tile.
    pub(super) fn tile(&self, pieces: impl Iterator<Item = usize>) -> Cost {
        (self.len / pieces.product::<usize>()) as Cost
    }

    /// The product of the mesh's factors that replicate.
    pub(super) fn spare(&self, pieces: impl Iterator<Item = usize>) -> usize {
        self.ranks / pieces.product::<usize>()
    }

    /// Returns the minimum number of all-gathers, one dimension after the other, that make the target's tiles from
    /// tiles of `tile` elements, and their minimum cost.
    pub(super) fn least_gathers(&self, tile: Cost) -> (Cost, Cost) {
        let (mut made, mut count, mut cost) = (self.target_tile(), 0, 0);
        for &factor in &self.gatherable {
            if made <= tile {
                break;
            }
            cost += made;
            count += 1;
            made /= factor as Cost;
        }
        (count, cost)
    }

    pub(super) fn target_tile(&self) -> Cost {
        self.target.tile_len() as Cost
    }
}

/// The cost of gathering, from tiles of `tile` elements, dimensions by these factors, lowest first: the sum of the tile
/// sizes after each gather (Rink et al., figure 11).
pub(super) fn gather_cost(tile: Cost, factors: impl IntoIterator<Item = usize>, at_once: bool) -> Cost {
    let mut factors: Vec<_> = factors.into_iter().filter(|&factor| factor > 1).collect();
    if at_once {
        let all: usize = factors.iter().product();
        return if all > 1 { tile * all as Cost } else { 0 };
    }
    factors.sort_unstable();
    let partial = factors.iter().scan(tile, |tile, &factor| {
        *tile *= factor as Cost;
        Some(*tile)
    });
    partial.sum()
}
