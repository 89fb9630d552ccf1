//! Exhaustive searches over all sequences of operations, in any order, of small problems.

use polyshard_planner::{AxisPart, DistType};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Returns the minimum cost, up to a permutation, of any sequence of slices, all-to-alls and all-gathers whose tiles
/// never exceed the larger of the two: Dijkstra's algorithm over tile shapes (Rink et al., section 7.2).
pub(crate) fn cheapest_weak(source: &DistType, target: &DistType) -> u128 {
    let (sizes, ranks) = (source.shape(), source.mesh().size());
    let most = source.tile_len().max(target.tile_len());
    let next = |shape: &Vec<usize>| {
        let mut next = Vec::new();
        let pieces: usize = shape.iter().zip(&sizes).map(|(tile, size)| size / tile).product();
        for i in 0..shape.len() {
            for factor in 2..=ranks {
                let mut changed = shape.clone();
                if (sizes[i] / shape[i]).is_multiple_of(factor) {
                    changed[i] *= factor;
                    next.push((changed.clone(), changed.iter().product::<usize>()));
                    for j in (0..shape.len()).filter(|&j| j != i && shape[j].is_multiple_of(factor)) {
                        let mut moved = changed.clone();
                        moved[j] /= factor;
                        next.push((moved, shape.iter().product()));
                    }
                }
                let mut sliced = shape.clone();
                if shape[i].is_multiple_of(factor) && ranks.is_multiple_of(pieces * factor) {
                    sliced[i] /= factor;
                    next.push((sliced, 0));
                }
            }
        }
        next.retain(|(shape, _)| shape.iter().product::<usize>() <= most);
        next
    };
    let goal = target.tile_shape();
    dijkstra(source.tile_shape(), |shape| *shape == goal, next)
}

/// Digits of prime extent that number each dimension's tiles, minor first.
type Digits = Vec<Vec<AxisPart>>;

/// Returns the minimum cost of any sequence of operations on mesh axes, with permutations where necessary; axes are
/// divided into digits of prime extent, in one way. Operations move the lowest digits of a dimension, and may put them
/// in any order (Rink et al., figures 8 and 11).
pub(crate) fn cheapest_typed(source: &DistType, target: &DistType) -> u128 {
    let mesh = source.mesh();
    let all: Vec<AxisPart> = (0..mesh.ndim()).flat_map(|axis| atoms(AxisPart::whole(mesh, axis))).collect();
    let sizes = source.shape();
    let most = source.tile_len().max(target.tile_len());
    let tile =
        |digits: &Digits| sizes.iter().zip(digits).map(|(size, digits)| size / extent(digits)).product::<usize>();
    let next = |digits: &Digits| {
        let mut next = Vec::new();
        let now = tile(digits);
        for i in 0..digits.len() {
            for count in 1..=digits[i].len() {
                let (low, high) = digits[i].split_at(count);
                let mut left = digits.clone();
                left[i] = high.to_vec();
                next.push((left.clone(), tile(&left)));
                for j in (0..digits.len()).filter(|&j| j != i) {
                    for order in orders(low) {
                        let mut moved = left.clone();
                        moved[j] = [order, digits[j].clone()].concat();
                        if sizes[j].is_multiple_of(extent(&moved[j])) {
                            next.push((moved, now));
                        }
                    }
                }
            }
            for digit in all.iter().filter(|digit| !digits.iter().flatten().any(|used| used == *digit)) {
                let mut sliced = digits.clone();
                sliced[i].insert(0, *digit);
                if sizes[i].is_multiple_of(extent(&sliced[i])) {
                    next.push((sliced, 0));
                }
            }
        }
        // A permutation turns any type into any other with tiles of this shape.
        let counts: Vec<usize> = digits.iter().map(|digits| extent(digits)).collect();
        next.extend(numberings(&all, &counts).into_iter().map(|permuted| (permuted, now)));
        next.retain(|(digits, _)| tile(digits) <= most);
        next
    };
    let typed = |dist_type: &DistType| -> Digits {
        dist_type.dims().iter().map(|dim| dim.parts.iter().flat_map(|&part| atoms(part)).collect()).collect()
    };
    let goal = typed(target);
    dijkstra(typed(source), |digits| *digits == goal, next)
}

fn dijkstra<S: Ord + Clone>(start: S, done: impl Fn(&S) -> bool, next: impl Fn(&S) -> Vec<(S, usize)>) -> u128 {
    let mut reached = BTreeMap::from([(start.clone(), 0)]);
    let mut queue = BinaryHeap::from([Reverse((0u128, start))]);
    while let Some(Reverse((cost, state))) = queue.pop() {
        if done(&state) {
            return cost;
        }
        if reached[&state] < cost {
            continue;
        }
        for (state, price) in next(&state) {
            let cost = cost + price as u128;
            if reached.get(&state).is_none_or(|known| cost < *known) {
                reached.insert(state.clone(), cost);
                queue.push(Reverse((cost, state)));
            }
        }
    }
    panic!("everything can be gathered and sliced");
}

/// All ways to number `counts` pieces per dimension.
fn numberings(all: &[AxisPart], counts: &[usize]) -> Vec<Digits> {
    let Some((&count, rest)) = counts.split_first() else { return vec![Vec::new()] };
    let mut found = Vec::new();
    for first in sequences(all, count) {
        let left: Vec<_> = all.iter().copied().filter(|digit| !first.contains(digit)).collect();
        for mut others in numberings(&left, rest) {
            others.insert(0, first.clone());
            found.push(others);
        }
    }
    found
}

/// All sequences of digits whose extents multiply to `count`.
fn sequences(all: &[AxisPart], count: usize) -> Vec<Vec<AxisPart>> {
    if count == 1 {
        return vec![Vec::new()];
    }
    let mut found = Vec::new();
    for (nth, digit) in all.iter().enumerate().filter(|(_, digit)| count.is_multiple_of(digit.extent)) {
        let others: Vec<_> = [&all[..nth], &all[nth + 1..]].concat();
        for mut rest in sequences(&others, count / digit.extent) {
            rest.insert(0, *digit);
            found.push(rest);
        }
    }
    found
}

fn orders(digits: &[AxisPart]) -> Vec<Vec<AxisPart>> {
    sequences(digits, extent(digits)).into_iter().filter(|order| order.len() == digits.len()).collect()
}

fn extent(digits: &[AxisPart]) -> usize {
    digits.iter().map(|digit| digit.extent).product()
}

fn atoms(part: AxisPart) -> Vec<AxisPart> {
    let mut atoms = Vec::new();
    let (mut stride, mut rest) = (part.stride, part.extent);
    let mut prime = 2;
    while rest > 1 {
        if rest.is_multiple_of(prime) {
            atoms.push(AxisPart { axis: part.axis, stride, extent: prime });
            stride *= prime;
            rest /= prime;
        } else {
            prime += 1;
        }
    }
    atoms
}
