//! The steps of a plan as hops: which boxes the ranks have before and after each, and who hands what to whom.
//!
//! A plan knows types, in which every tile has one shape. Where extents do not divide, the plan is for a larger
//! array; here its tiles are cut off where the array ends, so some are short or empty and nothing is padded.
//!
//! A slice needs no hop of its own: the next hop reads the part that the slice keeps out of the tile that there
//! was before. A step after which every rank has what it had is left out.

use super::hop::Hop;
use super::piece::Piece;
use super::work::Between;
use crate::layout::Sharding;
use crate::{Error, Result, World};
use polyshard_planner::{DistType, Op, Plan, Step};
use std::collections::HashMap;
use std::ops::Range;

/// A box of global indices, inside of the array; empty along some dimension if there is nothing in it.
type Tile = Vec<Range<usize>>;

/// Returns the hops of `plan` for an array of `shape`, at least one, and the tiles between them; collective.
///
/// # Errors
/// If another rank failed.
pub(super) fn hops(world: &World, plan: &Plan, shape: &[usize]) -> Result<(Vec<Hop>, Between)> {
    let mut hops = Vec::new();
    let mut afters: Vec<Vec<Tile>> = Vec::new();
    let mut held = tiles(plan.source(), shape);
    let mut sliced = false;
    for step in plan.steps() {
        if step.op() == Op::DynSlice {
            sliced = true;
            continue;
        }
        let (has, after) = (tiles(step.from(), shape), tiles(step.to(), shape));
        let moves = step.op() != Op::AllPermute || (0..world.size()).any(|rank| step.sender(rank) != rank);
        if !sliced && has == after && !moves {
            continue;
        }
        let handing = Handing::new(step, &has, world.rank());
        hops.push(Hop::new(world, |owner, reader| {
            if handing.owner(owner, reader) {
                Piece::of(&held[owner], &has[owner], &after[reader])
            } else {
                Piece::default()
            }
        })?);
        (held, sliced) = (after.clone(), false);
        afters.push(after);
    }
    if sliced || hops.is_empty() {
        let after = tiles(plan.target(), shape);
        hops.push(Hop::new(world, |owner, reader| {
            if owner == reader { Piece::of(&held[owner], &held[owner], &after[reader]) } else { Piece::default() }
        })?);
        afters.push(after);
    }
    afters.pop();
    let most = [0, 1].map(|parity| {
        let tiles = afters.iter().skip(parity).step_by(2).flatten();
        tiles.map(|tile| len(tile)).max().unwrap_or(0)
    });
    let own = afters.iter().map(|tiles| len(&tiles[world.rank()])).collect();
    Ok((hops, Between { own, most }))
}

/// Checks that each rank's tile by `dist_type` is its block by `sharding`.
///
/// # Errors
/// The first rank that has another one.
pub(super) fn check(dist_type: &DistType, sharding: &Sharding) -> Result<()> {
    let (mesh, shape) = (sharding.mesh(), sharding.shape());
    let differs = || {
        if dist_type.mesh() != mesh || dist_type.ndim() != shape.len() {
            return Some(0);
        }
        let tiles = tiles(dist_type, shape);
        (0..mesh.size()).find(|&rank| {
            let coordinates = mesh.coordinates(rank);
            let owned =
                |dim| sharding.pieces(dim, &coordinates, 0..shape[dim]).map(|(range, _)| range).collect::<Vec<_>>();
            let block: Vec<_> = (0..shape.len()).map(owned).collect();
            // What is cyclic over one part alone is in blocks that follow one another.
            let joined = |owned: &[Range<usize>]| {
                let gapless = owned.windows(2).all(|pair| pair[0].end == pair[1].start);
                gapless.then(|| Some(owned.first()?.start..owned.last()?.end)).flatten()
            };
            let alike = tiles[rank].iter().zip(&block).all(|(tile, owned)| joined(owned).as_ref() == Some(tile));
            let nothing = len(&tiles[rank]) == 0 && sharding.local_len(&coordinates) == 0;
            !(nothing || alike && sharding.keeps(&coordinates))
        })
    };
    match differs() {
        Some(rank) => Err(Error::Usage(format!(
            "rank {rank} has another tile by the plan's type {dist_type} over ({}) than by the sharding {sharding} of shape \
             {shape:?} over ({mesh}); make the plan for this sharding",
            dist_type.mesh()
        ))),
        None => Ok(()),
    }
}

/// The tiles of all ranks, cut off where the array ends.
fn tiles(dist_type: &DistType, shape: &[usize]) -> Vec<Tile> {
    let mesh = dist_type.mesh();
    let tile = |rank| {
        let starts = dist_type.offset(&mesh.coordinates(rank));
        let ends = starts.iter().zip(dist_type.tile_shape()).map(|(start, extent)| start + extent);
        starts.iter().zip(ends).zip(shape).map(|((start, end), &extent)| *start.min(&extent)..end.min(extent)).collect()
    };
    (0..mesh.size()).map(tile).collect()
}

fn len(tile: &[Range<usize>]) -> usize {
    tile.iter().map(Range::len).product()
}

/// Who hands to whom in one step, as far as one rank is concerned.
struct Handing<'a> {
    step: &'a Step,
    has: &'a [Tile],
    /// The group of this rank, ascending.
    members: Vec<usize>,
    /// Those of them that have the same tile.
    holders: HashMap<&'a Tile, Vec<usize>>,
}

impl<'a> Handing<'a> {
    fn new(step: &'a Step, has: &'a [Tile], rank: usize) -> Self {
        let members = step.members(rank);
        let mut holders: HashMap<&Tile, Vec<usize>> = HashMap::new();
        for &member in &members {
            holders.entry(&has[member]).or_default().push(member);
        }
        Self { step, has, members, holders }
    }

    /// Whether `reader` gets from `owner` what it needs of its tile; one of them is this rank.
    fn owner(&self, owner: usize, reader: usize) -> bool {
        if self.step.op() == Op::AllPermute {
            return self.step.sender(reader) == owner;
        }
        if owner == reader {
            return true;
        }
        let Ok(nth) = self.members.binary_search(&reader) else { return false };
        if self.has[owner] == self.has[reader] {
            return false;
        }
        // Several may have it; the readers are spread over them.
        let holders = self.holders.get(&self.has[owner]);
        holders.is_some_and(|holders| holders[nth % holders.len()] == owner)
    }
}
