//! Products run step by step, each rank with what it holds alone and what its group gives it.
//!
//! Ranks are tables from global indices to values, so that nothing of how the planner counts tiles is used but
//! the sharding and `ProductStep::members`, which are what a runtime goes by.

use polyshard_layout::SumKind;
use polyshard_planner::product::{Collective, Operand, Product, ProductStep, Sequence, Sharded};
use std::collections::BTreeMap;
use std::ops::Range;

/// One rank's tile: values by global index.
type Tile = BTreeMap<Vec<usize>, i64>;

/// The indices of a rank's tile along a dimension.
fn span(array: &Sharded, dim: usize, rank: usize) -> Range<usize> {
    let mut pieces = array.sharding().pieces(dim, &array.mesh().coordinates(rank), 0..array.shape()[dim]);
    let span = pieces.next().map_or(0..0, |(range, _)| range);
    assert_eq!(pieces.next(), None, "a tile is one block");
    span
}

/// The global indices of a rank's tile.
fn region(array: &Sharded, rank: usize) -> Vec<Vec<usize>> {
    let mut indices = vec![Vec::new()];
    for dim in 0..array.shape().len() {
        let owned = span(array, dim, rank);
        let longer =
            |head: Vec<usize>| owned.clone().map(move |index| head.iter().copied().chain([index]).collect::<Vec<_>>());
        indices = indices.into_iter().flat_map(longer).collect();
    }
    indices
}

/// A value that depends on the array and on all of the index.
fn value(seed: i64, index: &[usize]) -> i64 {
    let number = index.iter().fold(seed, |number, &at| number * 31 + at as i64 + 1);
    number % 17 - 8
}

fn filled(array: &Sharded, seed: i64) -> Vec<Tile> {
    let tile = |rank| region(array, rank).into_iter().map(|index| (index.clone(), value(seed, &index))).collect();
    (0..array.mesh().size()).map(tile).collect()
}

/// A rank's tile after a step, and how many elements of it were others'; of sums, how many terms a ring would bring.
fn moved(op: Collective, [from, to]: [&Sharded; 2], before: &[Tile], members: &[usize], rank: usize) -> (Tile, usize) {
    let wanted = region(to, rank);
    if matches!(op, Collective::ReduceScatter | Collective::AllReduce) {
        for &member in members {
            assert_eq!(region(from, member), region(from, rank), "terms of one sum are of one tile");
        }
        let sum = |at: Vec<usize>| {
            let terms = members.iter().map(|&member| before[member][&at]).sum();
            (at, terms)
        };
        let tile: Tile = wanted.into_iter().map(sum).collect();
        // A part of every other member's tile, as large as an equal share; to have all, the others' shares too.
        let share = from.tile_len() / members.len();
        let received = (members.len() - 1) * share * if op == Collective::AllReduce { 2 } else { 1 };
        return (tile, received);
    }
    // Each index comes from one rank of the group, and as many from each but for a slice.
    let mut given = vec![0; members.len()];
    let fetch = |at: Vec<usize>| {
        let holders = (0..members.len()).filter(|&nth| before[members[nth]].contains_key(&at));
        let holders: Vec<_> = holders.collect();
        let [holder] = holders[..] else { panic!("{at:?} of {to} is held by {holders:?} of {members:?}") };
        given[holder] += 1;
        let found = before[members[holder]][&at];
        (at, found)
    };
    let tile: Tile = wanted.into_iter().map(fetch).collect();
    assert!(given.iter().all(|count| *count == given[0]), "{op} of {from} to {to}: {given:?}");
    let own = members.iter().zip(&given).find(|(member, _)| **member == rank).map_or(0, |(_, count)| *count);
    (tile, given.iter().sum::<usize>() - own)
}

fn multiplied(arrays: [&Sharded; 3], left: &Tile, right: &Tile, rank: usize) -> Tile {
    let [a, b, c] = arrays;
    let mut tile: Tile = region(c, rank).into_iter().map(|index| (index, 0)).collect();
    for (at, x) in left {
        for (other, y) in right {
            let mut point: BTreeMap<&String, usize> = a.names().iter().zip(at.iter().copied()).collect();
            let agree = b.names().iter().zip(other).all(|(name, &index)| *point.entry(name).or_insert(index) == index);
            if agree {
                let index: Vec<usize> = c.names().iter().map(|name| point[name]).collect();
                *tile.get_mut(&index).expect("local products are of the local tile") += x * y;
            }
        }
    }
    for name in a.names().iter().filter(|name| b.names().contains(name)) {
        let span = |array: &Sharded| {
            let dim = array.names().iter().position(|other| other == name).expect("it is there");
            span(array, dim, rank)
        };
        assert_eq!(span(a), span(b), "rank {rank} holds other indices of `{name}` in {a} than in {b}");
    }
    tile
}

/// Runs a sequence and compares its result, summed where sums are open, with the sequential product.
pub(crate) fn check(product: &Product, sequence: &Sequence) {
    let ranks = product.mesh().size();
    let mut held = [filled(sequence.left(), 3), filled(sequence.right(), 5), Vec::new()];
    let mut types = [sequence.left().clone(), sequence.right().clone(), sequence.left().clone()];
    for (step, cost) in sequence.steps().iter().zip(sequence.costs()) {
        match step {
            ProductStep::Move { operand, op, from, to, axes } => {
                let which = match operand {
                    Operand::Left => 0,
                    Operand::Right => 1,
                    Operand::Out => 2,
                };
                assert_eq!(types[which], *from, "{step}");
                assert!(axes.is_sorted() && !axes.is_empty(), "{step}");
                let moved = |rank| moved(*op, [from, to], &held[which], &step.members(rank), rank);
                let (next, received): (Vec<Tile>, Vec<usize>) = (0..ranks).map(moved).unzip();
                // What an all-reduce receives depends on how it is carried out, which is told where it is.
                let size = product.dtype().size();
                let mut bytes = received.iter().map(|&elements| (elements * size) as u128);
                let stated = match op {
                    Collective::AllReduce => {
                        let (bytes, ranks) = (from.tile_len() * size, step.members(0).len());
                        let (bytes, ranks) = (bytes as u64, ranks as u64);
                        let kind = SumKind::new(product.dtype(), SumKind::pays_in_pieces(bytes, ranks));
                        u128::from(kind.most_received(bytes, ranks)) == cost.bytes
                    }
                    _ => bytes.all(|bytes| bytes == cost.bytes),
                };
                assert!(stated, "{step}: {cost:?}, not {received:?} elements");
                held[which] = next;
                types[which] = to.clone();
            }
            ProductStep::Multiply { left, right, out } => {
                assert_eq!((&types[0], &types[1]), (left, right), "{step}");
                held[2] = (0..ranks)
                    .map(|rank| multiplied([left, right, out], &held[0][rank], &held[1][rank], rank))
                    .collect();
                types[2] = out.clone();
            }
        }
    }
    assert_eq!(types[2], *product.out(), "{sequence}");
    let whole = sequential(product);
    let mesh = product.mesh();
    for rank in 0..ranks {
        let mine = mesh.coordinates(rank);
        let differs = |other: &Vec<usize>, axis: usize| other[axis] != mine[axis];
        let alike = |other: &usize| {
            let other = mesh.coordinates(*other);
            (0..mesh.ndim()).all(|axis| product.out().unreduced().contains(&axis) || !differs(&other, axis))
        };
        let terms: Vec<usize> = (0..ranks).filter(alike).collect();
        for at in region(product.out(), rank) {
            let sum: i64 = terms.iter().map(|&term| held[2][term][&at]).sum();
            // A sum of no terms at all is 0.
            assert_eq!(sum, whole.get(&at).copied().unwrap_or(0), "rank {rank} at {at:?} after\n{sequence}");
        }
        assert_eq!(held[2][rank].len(), product.out().tile_len());
    }
}

/// The product on one rank: all points of all loops, one after the other.
fn sequential(product: &Product) -> Tile {
    let (a, b, c) = (product.left().names(), product.right().names(), product.out().names());
    let mut loops: Vec<&String> = a.iter().chain(b.iter()).collect();
    loops.sort();
    loops.dedup();
    let mut tile = Tile::new();
    let mut point = vec![0; loops.len()];
    let sizes: Vec<usize> = loops.iter().map(|name| product.size(name)).collect();
    let index = |names: &[String], point: &[usize]| -> Vec<usize> {
        names.iter().map(|name| point[loops.iter().position(|other| *other == name).expect("a loop")]).collect()
    };
    for mut number in 0..sizes.iter().product() {
        for (at, size) in point.iter_mut().zip(&sizes) {
            *at = number % size;
            number /= size;
        }
        let term = value(3, &index(a, &point)) * value(5, &index(b, &point));
        *tile.entry(index(c, &point)).or_insert(0) += term;
    }
    tile
}
