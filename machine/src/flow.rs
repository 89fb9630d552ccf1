//! The messages that a collective sends, and its latency.
//!
//! **Ring.** Half of the data goes around in each direction, so that both directions of every link are used. Between
//! neighbours of a group of `n`, the two halves together carry, per byte that a rank holds,
//!
//! ```text
//! AllReduce        2 (n - 1) / n     reduce-scatter, then all-gather
//! ReduceScatter    (n - 1) / n
//! AllGather        n - 1
//! Reduce           1                 towards the first rank; nothing leaves it
//! Broadcast        1                 away from the first rank; nothing reaches it
//! ```
//!
//! **Tree.** An all-reduce goes up and down the tree. A chain carries all of the data; each of the two binary trees
//! carries half, and an inner rank of one tree is a leaf of the other.
//!
//! An all-to-all sends an `n`-th to each other rank at once, whatever the algorithm, and so does an exchange. In a
//! permutation each rank sends its block to the next rank of the group and the last to the first.

use super::collective::Algorithm;
use super::route::{Dim, Loads, Router};
use polyshard_layout::Collective;

/// Adds the messages of one group to `loads`; returns the latency in seconds.
///
/// `bytes` is the number of bytes that each rank holds before.
pub(crate) fn send(
    router: &Router<'_>,
    loads: &mut Loads,
    operation: Collective,
    group: &[usize],
    bytes: f64,
    algorithm: Algorithm,
) -> f64 {
    if group.len() < 2 {
        return 0.0;
    }
    match (operation, algorithm) {
        (Collective::Slice, _) => 0.0,
        (Collective::Permute, _) => permute(router, loads, group, bytes),
        (Collective::AllToAll | Collective::Exchange, _) => all_to_all(router, loads, group, bytes),
        (Collective::AllReduce, Algorithm::Tree) => 2.0 * tree(router, loads, group, 0, bytes),
        _ => {
            let directions = box_lines(router, group);
            let share = bytes_between(operation, group.len()) * bytes / directions.len() as f64;
            let mut latency = 0.0;
            for lines in directions {
                // Lines of one direction run at once, the directions in sequence.
                let slowest = lines.iter().map(|line| ring(router, loads, operation, line, share));
                latency += slowest.fold(0.0, f64::max);
            }
            if operation == Collective::AllReduce { 2.0 * latency } else { latency }
        }
    }
}

/// The bytes between neighbours of a ring of `n` per byte that each rank holds, both directions together.
fn bytes_between(operation: Collective, n: usize) -> f64 {
    let n = n as f64;
    match operation {
        Collective::AllReduce => 2.0 * (n - 1.0) / n,
        Collective::ReduceScatter | Collective::AllToAll | Collective::Exchange => (n - 1.0) / n,
        Collective::AllGather => n - 1.0,
        Collective::Reduce | Collective::Broadcast | Collective::Permute => 1.0,
        Collective::Slice => 0.0,
    }
}

/// The lines of a group along each direction of the torus if the group is a box of it, else the group as a single line.
///
/// ```text
/// group {0, 1, 4, 5} of a torus of 4 x 4     {0, 4} {1, 5}   and   {0, 1} {4, 5}
/// ```
fn box_lines(router: &Router<'_>, group: &[usize]) -> Vec<Vec<Vec<usize>>> {
    let dims: Vec<(Dim, usize)> =
        router.own_links().map(|dim| (dim, spread(&dim, group))).filter(|(_, n)| *n > 1).collect();
    // Ranks are distinct, so a group of the size of the box fills it.
    let fills = dims.iter().map(|(_, n)| n).product::<usize>() == group.len();
    if dims.len() < 2 || !fills {
        return vec![vec![group.to_vec()]];
    }
    dims.iter().map(|(dim, n)| lines(dim, *n, group)).collect()
}

/// How many coordinates a group has along a dimension.
fn spread(dim: &Dim, group: &[usize]) -> usize {
    let mut at: Vec<usize> = group.iter().map(|&rank| dim.at(rank)).collect();
    at.sort_unstable();
    at.dedup();
    at.len()
}

/// The ranks of a box that differ along one dimension only, in lines of `n`.
fn lines(dim: &Dim, n: usize, group: &[usize]) -> Vec<Vec<usize>> {
    let mut ranks = group.to_vec();
    ranks.sort_unstable_by_key(|&rank| (rank - dim.at(rank) * dim.stride, rank));
    ranks.chunks(n).map(<[usize]>::to_vec).collect()
}

/// Sends in both directions around a ring, half of `carried` bytes each. Returns the latency of one trip: between the
/// farthest two ranks by the shorter way; with a root, along a whole chain, since half of its data takes the longer
/// way.
fn ring(router: &Router<'_>, loads: &mut Loads, operation: Collective, line: &[usize], carried: f64) -> f64 {
    let n = line.len();
    let mut edges = Vec::with_capacity(n);
    for (at, &here) in line.iter().enumerate() {
        let next = line[(at + 1) % n];
        // A rooted operation's chains end at the root.
        let (out_of_root, into_root) = (at == 0, at == n - 1);
        let (ahead, back) = match operation {
            Collective::Reduce => (!out_of_root, !into_root),
            Collective::Broadcast => (!into_root, !out_of_root),
            _ => (true, true),
        };
        let mut latency = 0.0;
        if ahead {
            latency = router.load(loads, here, next, carried / 2.0);
        }
        if back {
            latency = router.load(loads, next, here, carried / 2.0);
        }
        edges.push(latency);
    }
    match operation {
        Collective::Reduce | Collective::Broadcast => edges.iter().sum::<f64>() - f64::min(edges[0], edges[n - 1]),
        _ => farthest(&edges),
    }
}

/// The maximum, over pairs of ranks of a ring with these edges, of the shorter way.
fn farthest(edges: &[f64]) -> f64 {
    let around: f64 = edges.iter().sum();
    let (mut longest, mut way, mut end) = (0.0f64, 0.0, 0);
    for start in 0..edges.len() {
        // The way grows from `start` while it is at most half; as `start` moves on, its end never moves back.
        while end < start + edges.len() {
            longest = longest.max(f64::min(way, around - way));
            if way > around / 2.0 {
                break;
            }
            way += edges[end % edges.len()];
            end += 1;
        }
        longest = longest.max(f64::min(way, around - way));
        way -= edges[start];
    }
    longest
}

/// Sends `bytes` bytes from each rank to the next, and from the last to the first; returns the latency.
fn permute(router: &Router<'_>, loads: &mut Loads, group: &[usize], bytes: f64) -> f64 {
    let mut latency = 0.0f64;
    for (&source, &target) in group.iter().zip(group.iter().cycle().skip(1)) {
        latency = latency.max(router.load(loads, source, target, bytes));
    }
    latency
}

fn all_to_all(router: &Router<'_>, loads: &mut Loads, group: &[usize], bytes: f64) -> f64 {
    let piece = bytes / group.len() as f64;
    match sides(router, group) {
        Some(sides) => all_to_all_in_box(router, loads, group, &sides, piece),
        None => pairs(router, loads, group, piece),
    }
}

/// Sends `bytes` bytes from each rank to each other; returns the latency.
fn pairs(router: &Router<'_>, loads: &mut Loads, group: &[usize], bytes: f64) -> f64 {
    let mut latency = 0.0f64;
    for &source in group {
        for &target in group.iter().filter(|&&target| target != source) {
            latency = latency.max(router.load(loads, source, target, bytes));
        }
    }
    latency
}

/// A dimension along which a group differs, with the number of its coordinates, and whether a message that crosses it
/// has arrived, as where the devices of a node share its ports.
struct Side {
    dim: Dim,
    n: usize,
    arrives: bool,
}

/// The sides of a group that is all combinations of coordinates; none if it is not, or if messages between its members
/// pass more than the links along these sides.
fn sides(router: &Router<'_>, group: &[usize]) -> Option<Vec<Side>> {
    let mut sides: Vec<Side> = Vec::new();
    for (level, dims) in router.levels() {
        if level.bypass.is_some() {
            return None;
        }
        let shared = level.shared_ports.is_some();
        if shared && sides.iter().any(|side| side.arrives) {
            return None;
        }
        let of_level = dims.iter().map(|&dim| Side { dim, n: spread(&dim, group), arrives: shared });
        let of_level: Vec<_> = of_level.filter(|side| side.n > 1).collect();
        if shared && of_level.len() > 1 {
            return None;
        }
        sides.extend(of_level);
    }
    // Ranks are distinct, so a group of the size of the box fills it.
    (sides.iter().map(|side| side.n).product::<usize>() == group.len()).then_some(sides)
}

/// All-to-all in a box. Messages cross the dimensions in turn, so along a dimension each pair of coordinates of a line
/// carries the messages of as many pairs of ranks as there are lines: those that have crossed the outer dimensions to
/// this line and still have to cross the inner ones.
fn all_to_all_in_box(router: &Router<'_>, loads: &mut Loads, group: &[usize], sides: &[Side], piece: f64) -> f64 {
    let (mut latency, mut so_far) = (0.0f64, 0.0);
    // The pairs that have not arrived.
    let mut left = group.len();
    for Side { dim, n, arrives } in sides {
        let each = piece * (left / n) as f64;
        let mut farthest = 0.0f64;
        for line in lines(dim, *n, group) {
            farthest = farthest.max(match dim.is_switch() {
                // All ports carry equal loads.
                true => permute(router, loads, &line, each * (*n as f64 - 1.0)),
                false => pairs(router, loads, &line, each),
            });
        }
        latency = latency.max(so_far + farthest);
        match arrives {
            true => left /= n,
            false => so_far += farthest,
        }
    }
    latency
}

/// Trees between the members of `level` and of outer levels, chains inside; returns the latency upwards.
fn tree(router: &Router<'_>, loads: &mut Loads, group: &[usize], level: usize, bytes: f64) -> f64 {
    let stride = router.stride(level);
    let members: Vec<&[usize]> = group.chunk_by(|left, right| left / stride == right / stride).collect();
    if stride == 1 {
        return chain(router, loads, group, bytes);
    }
    let inside = |loads: &mut Loads, member: &&[usize]| tree(router, loads, member, level + 1, bytes);
    let below = members.iter().map(|member| inside(loads, member)).fold(0.0, f64::max);
    let leaders: Vec<usize> = members.iter().map(|member| member[0]).collect();
    let mut slowest = 0.0f64;
    for parents in double_binary_tree(leaders.len()) {
        for (child, parent) in parents.iter().enumerate() {
            if let Some(parent) = parent {
                let (child, parent) = (leaders[child], leaders[*parent]);
                router.load(loads, child, parent, bytes / 2.0);
                slowest = slowest.max(router.load(loads, parent, child, bytes / 2.0));
            }
        }
    }
    let depth = leaders.len().next_power_of_two().trailing_zeros();
    below + f64::from(depth) * slowest
}

fn chain(router: &Router<'_>, loads: &mut Loads, group: &[usize], bytes: f64) -> f64 {
    let mut latency = 0.0;
    for pair in group.windows(2) {
        router.load(loads, pair[0], pair[1], bytes);
        latency += router.load(loads, pair[1], pair[0], bytes);
    }
    latency
}

/// The parents of `0..n` in two binary trees, such that an inner node of one is a leaf of the other.
///
/// ```text
/// n = 4     0 - 2 - 1        3 - 1 - 2
///               2 - 3            1 - 0
/// ```
fn double_binary_tree(n: usize) -> [Vec<Option<usize>>; 2] {
    // The lowest set bit gives a node's height above the leaves; its parent has the next bit set instead.
    let parent = |node: usize| {
        if node == 0 {
            return None;
        }
        let bit = 1 << node.trailing_zeros();
        let up = (node ^ bit) | (bit << 1);
        Some(if up >= n { node ^ bit } else { up })
    };
    let first: Vec<_> = (0..n).map(parent).collect();
    // The second is the first mirrored or, for odd numbers, rotated by one.
    let second = match n.is_multiple_of(2) {
        true => (0..n).map(|node| parent(n - 1 - node).map(|up| n - 1 - up)).collect(),
        false => (0..n).map(|node| parent((node + n - 1) % n).map(|up| (up + 1) % n)).collect(),
    };
    [first, second]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_on_a_ring_is_half_around_and_on_a_line_at_its_end() {
        assert_eq!(farthest(&[1.0; 4]), 2.0);
        assert_eq!(farthest(&[1.0; 5]), 2.0);
        assert_eq!(farthest(&[1.0; 2]), 1.0);
        // The edge that closes a line of four goes back over its three links.
        assert_eq!(farthest(&[1.0, 1.0, 1.0, 3.0]), 3.0);
        assert_eq!(farthest(&[1.0, 1.0, 7.0, 1.0, 1.0, 7.0]), 9.0);
    }

    #[test]
    fn the_farthest_is_that_of_all_pairs() {
        let mut seed = 7u64;
        for n in 2..12 {
            let edges: Vec<f64> = (0..n)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (seed >> 59) as f64
                })
                .collect();
            let around: f64 = edges.iter().sum();
            let way = |start: usize, hops: usize| (0..hops).map(|hop| edges[(start + hop) % n]).sum::<f64>();
            let pairs = (0..n).flat_map(|start| (0..n).map(move |hops| (start, hops)));
            let most = pairs.map(|(start, hops)| way(start, hops)).map(|way| way.min(around - way));
            assert_eq!(farthest(&edges), most.fold(0.0, f64::max), "{edges:?}");
        }
    }

    #[test]
    fn an_all_to_all_in_a_box_loads_what_its_messages_do() {
        use crate::{Device, Interconnect, Level, Machine};
        let level = |name: &str, count, interconnect, shared_ports| Level {
            shared_ports,
            ..Level::new(name, count, interconnect, 1.0, count as f64)
        };
        let device = Device { memory_bandwidth: 1.0, memory_capacity: 1, ..Device::default() };
        let machine = |levels| Machine::new("m", levels, device.clone()).expect("a machine");
        let (ring, line, switch) = (Interconnect::Ring, Interconnect::Line, Interconnect::Switch);
        let machines = [
            machine(vec![level("a", 3, switch.clone(), None), level("b", 5, ring.clone(), None)]),
            machine(vec![level("a", 4, line, None), level("b", 6, Interconnect::Torus(vec![2, 3]), None)]),
            machine(vec![level("a", 3, switch.clone(), Some(1)), level("b", 4, switch, None)]),
            machine(vec![level("a", 2, ring.clone(), None), level("b", 7, Interconnect::Switch, None)]),
            machine(vec![
                level("a", 2, ring.clone(), None),
                level("b", 3, Interconnect::Switch, Some(2)),
                level("c", 4, ring, None),
            ]),
            machine(vec![level("a", 2, Interconnect::Switch, Some(1)), level("b", 3, Interconnect::Switch, Some(1))]),
        ];
        for machine in &machines {
            let router = Router::new(machine);
            let inner = machine.levels()[1..].iter().map(|level| level.count).product::<usize>();
            let boxes: [Vec<usize>; 4] = [
                (0..machine.devices()).collect(),
                (0..machine.devices()).filter(|rank| rank % inner % 3 != 1).collect(),
                (0..machine.devices()).filter(|rank| rank / inner == 1).collect(),
                (0..machine.devices()).filter(|rank| rank % 3 != 0).collect(),
            ];
            for group in boxes {
                let mut one_by_one = Loads::default();
                let mut farthest = 0.0f64;
                for &source in &group {
                    for &target in group.iter().filter(|&&target| target != source) {
                        let piece = 12.0 / group.len() as f64;
                        farthest = farthest.max(router.load(&mut one_by_one, source, target, piece));
                    }
                }
                let mut together = Loads::default();
                let latency = send(&router, &mut together, Collective::AllToAll, &group, 12.0, Algorithm::Ring);
                assert_eq!(latency, farthest, "{group:?} on {machine}");
                assert!(one_by_one.keys().eq(together.keys()), "{group:?} on {machine}");
                for (one, other) in one_by_one.values().zip(together.values()) {
                    assert!((one - other).abs() < 1e-9, "{group:?} on {machine}: {one} {other}");
                }
            }
        }
    }

    #[test]
    fn binary_trees_reach_every_rank_and_share_the_work() {
        assert_eq!(
            double_binary_tree(4),
            [vec![None, Some(2), Some(0), Some(2)], vec![Some(1), Some(3), Some(1), None]]
        );
        for n in 1..40usize {
            let trees = double_binary_tree(n);
            for parents in &trees {
                assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1);
                for mut node in 0..n {
                    let mut depth = 0;
                    while let Some(parent) = parents[node] {
                        (node, depth) = (parent, depth + 1);
                        assert!(depth <= n.next_power_of_two().trailing_zeros(), "{n}: {parents:?}");
                    }
                }
            }
            let children =
                |node: usize, parents: &[Option<usize>]| parents.iter().filter(|p| **p == Some(node)).count();
            for node in 0..n {
                let messages: usize = trees.iter().map(|parents| children(node, parents)).sum();
                assert!(messages <= 3, "{node} of {n} has {messages} children in both trees");
            }
        }
    }
}
