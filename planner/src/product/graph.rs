//! The cheapest way of one array from layout to layout.
//!
//! Layouts are few (four axes and two dimensions have some hundreds), so they are all written down with all steps
//! between them once, and Dijkstra's algorithm does the rest, from a source or to a target. Arrays are judged by
//! the seconds in which they move; memory comes in as a bound on tiles.
//!
//! Axes that neither end uses stay out of a path. To slice along one and gather over it with the others would carry
//! data over links that are idle; the literature does not, and its formulas are too simple to judge it.

use super::array::{Array, Layout};
use super::moves::{Move, layouts, moves};
use super::{Operand, ProductStep, Roofline, cost};
use polyshard_layout::DType;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

/// All layouts of an array, and the steps between them.
pub(super) struct Graph {
    array: Array,
    layouts: Vec<Layout>,
    numbers: HashMap<Layout, usize>,
    edges: Vec<Edge>,
    /// The numbers of the edges that begin, and of those that end, at a layout.
    out: Vec<Vec<usize>>,
    into: Vec<Vec<usize>>,
    tiles: Vec<usize>,
    /// For each layout the axes that it uses, as bits of their places among the mesh's of more than one rank.
    used: Vec<usize>,
}

/// A step between two layouts by their numbers.
struct Edge {
    from: usize,
    to: usize,
    step: Move,
    seconds: f64,
}

/// Which way paths lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From one layout to all others.
    From,
    /// To one layout from all others.
    To,
}

/// The cheapest paths between one layout and all others.
pub(super) struct Paths<'a> {
    graph: &'a Graph,
    direction: Direction,
    /// For each layout the seconds to it and its last edge; none if it is not reached.
    reached: Vec<Option<(f64, Option<usize>)>>,
}

impl Graph {
    pub(super) fn new(array: Array, axes: &[usize], partial: bool, roofline: &Roofline, dtype: DType) -> Self {
        let mut found = layouts(axes, array.shape.len(), partial);
        found.retain(|layout| array.tile_len(layout).is_some());
        let numbers: HashMap<_, _> = found.iter().cloned().enumerate().map(|(nth, layout)| (layout, nth)).collect();
        let tiles: Vec<usize> = found.iter().filter_map(|layout| array.tile_len(layout)).collect();
        let bit = |used: usize| axes.iter().position(|axis| *axis == used).map_or(0, |nth| 1 << nth);
        let used = found.iter().map(|layout| layout.used().map(bit).sum()).collect();
        let (mut edges, mut out, mut into) = (Vec::new(), vec![Vec::new(); found.len()], vec![Vec::new(); found.len()]);
        let bytes = |layout: usize| tiles[layout] as f64 * dtype.size() as f64;
        for (from, layout) in found.iter().enumerate() {
            for step in moves(&array, layout, axes) {
                let to = numbers[&step.to];
                let seconds = cost::seconds(roofline, &array.mesh, step.op, &step.axes, bytes(from), bytes(to));
                out[from].push(edges.len());
                into[to].push(edges.len());
                edges.push(Edge { from, to, step, seconds });
            }
        }
        Self { array, layouts: found, numbers, edges, out, into, tiles, used }
    }

    pub(super) fn array(&self) -> &Array {
        &self.array
    }

    /// The elements of a tile, or none if tiles are not equal.
    pub(super) fn tile(&self, layout: &Layout) -> Option<usize> {
        self.numbers.get(layout).map(|&number| self.tiles[number])
    }

    /// The cheapest steps between two layouts through tiles of at most `most` elements, if there are any.
    pub(super) fn cheapest(&self, operand: Operand, ends: [&Layout; 2], most: usize) -> Option<Vec<ProductStep>> {
        self.steps(&self.paths(ends[0], Direction::From, most, self.used(ends)?), operand, ends)
    }

    /// The steps along a path between two layouts, if there is one.
    pub(super) fn steps(&self, paths: &Paths<'_>, operand: Operand, ends: [&Layout; 2]) -> Option<Vec<ProductStep>> {
        let typed = |layout: &Layout| {
            let sharded = self.array.sharded(layout);
            sharded.expect("layouts on paths have equal tiles: this is a bug of polyshard")
        };
        let step = |(from, step): (&Layout, &Move)| ProductStep::Move {
            operand,
            op: step.op,
            axes: step.axes.clone(),
            from: typed(from),
            to: typed(&step.to),
        };
        Some(paths.steps(ends)?.into_iter().map(step).collect())
    }

    /// The axes that two layouts use, as bits; none if tiles are not equal.
    pub(super) fn used(&self, ends: [&Layout; 2]) -> Option<usize> {
        let used = |layout| self.numbers.get(layout).map(|&number| self.used[number]);
        Some(used(ends[0])? | used(ends[1])?)
    }

    /// The cheapest paths from or to a layout, on which no tile has more than `most` elements and no axis is used that
    /// is not among `axes`, as bits.
    pub(super) fn paths(&self, end: &Layout, direction: Direction, most: usize, axes: usize) -> Paths<'_> {
        let mut reached = vec![None; self.layouts.len()];
        let mut open = BinaryHeap::new();
        if let Some(&end) = self.numbers.get(end) {
            reached[end] = Some((0.0, None));
            open.push(Reverse(Open { seconds: 0.0, steps: 0, at: end }));
        }
        let mut closed = vec![false; self.layouts.len()];
        let mut fewest = vec![(f64::INFINITY, usize::MAX); self.layouts.len()];
        while let Some(Reverse(Open { seconds, steps, at })) = open.pop() {
            if std::mem::replace(&mut closed[at], true) {
                continue;
            }
            let edges = if direction == Direction::From { &self.out[at] } else { &self.into[at] };
            for &number in edges {
                let edge = &self.edges[number];
                let next = if direction == Direction::From { edge.to } else { edge.from };
                let (seconds, steps) = (seconds + edge.seconds, steps + 1);
                let kept = self.tiles[next] <= most && self.used[next] & !axes == 0;
                if !kept || closed[next] || (seconds, steps) >= fewest[next] {
                    continue;
                }
                fewest[next] = (seconds, steps);
                reached[next] = Some((seconds, Some(number)));
                open.push(Reverse(Open { seconds, steps, at: next }));
            }
        }
        Paths { graph: self, direction, reached }
    }
}

impl Paths<'_> {
    /// The steps between two layouts, one of which is the paths' common end, in the order in which they run, if there
    /// is a path.
    fn steps(&self, [from, to]: [&Layout; 2]) -> Option<Vec<(&Layout, &Move)>> {
        let mut at = *self.graph.numbers.get(if self.direction == Direction::From { to } else { from })?;
        let mut steps = Vec::new();
        while let Some(number) = self.reached[at]?.1 {
            let edge = &self.graph.edges[number];
            steps.push((&self.graph.layouts[edge.from], &edge.step));
            at = if self.direction == Direction::From { edge.from } else { edge.to };
        }
        if self.direction == Direction::From {
            steps.reverse();
        }
        Some(steps)
    }
}

/// A layout that is reached; the cheapest comes first, of equal ones that with fewest steps.
#[derive(PartialEq)]
struct Open {
    seconds: f64,
    steps: usize,
    at: usize,
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        self.seconds.total_cmp(&other.seconds).then((self.steps, self.at).cmp(&(other.steps, other.at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{Link, Wiring};
    use polyshard_layout::Mesh;

    fn graph() -> Graph {
        let mesh = Mesh::new([("X", 4), ("Y", 4)]);
        let link = Link { wiring: Wiring::Ring, bandwidth: 1e9, latency: 0.0 };
        let roofline = Roofline { flops: 1e12, memory_bandwidth: 1e11, memory_bytes: 1 << 30, links: vec![] }
            .with_link("X", link)
            .with_link("Y", link);
        let names = ["I", "J"].map(String::from).to_vec();
        let array = Array { mesh, tensor: "A".into(), names, shape: vec![64, 64] };
        Graph::new(array, &[0, 1], true, &roofline, DType::F64)
    }

    fn written(graph: &Graph, from: &Layout, to: &Layout, most: usize) -> Vec<String> {
        let write = |paths: Paths<'_>| {
            let steps = paths.steps([from, to]).expect("there is a path");
            let written = |step: &Move| format!("{} {}", step.op, graph.array().sharded(&step.to).expect("a type"));
            steps.into_iter().map(|(_, step)| written(step)).collect::<Vec<_>>()
        };
        let there = write(graph.paths(from, Direction::From, most, 3));
        assert_eq!(there.len(), write(graph.paths(to, Direction::To, most, 3)).len());
        there
    }

    fn layout(dims: [&[usize]; 2], unreduced: &[usize]) -> Layout {
        Layout { dims: dims.map(<[usize]>::to_vec).to_vec(), unreduced: unreduced.to_vec() }
    }

    #[test]
    fn the_cheapest_way_is_found_from_both_ends() {
        let graph = graph();
        let (rows, whole) = (layout([&[0, 1], &[]], &[]), layout([&[], &[]], &[]));
        assert_eq!(written(&graph, &rows, &whole, usize::MAX), ["AllGather A[I, J]"]);
        assert_eq!(written(&graph, &layout([&[], &[]], &[0, 1]), &whole, usize::MAX), ["AllReduce A[I, J]"]);
        assert_eq!(
            written(&graph, &layout([&[1], &[]], &[0]), &layout([&[1], &[0]], &[]), usize::MAX),
            ["ReduceScatter A[I_Y, J_X]"]
        );
        assert_eq!(written(&graph, &rows, &rows, usize::MAX), Vec::<String>::new());
    }

    #[test]
    fn axes_that_are_not_given_stay_idle() {
        let graph = graph();
        let (rows, whole) = (layout([&[0], &[]], &[]), layout([&[], &[]], &[]));
        assert_eq!(graph.used([&rows, &whole]), Some(1));
        let steps =
            |axes| graph.paths(&rows, Direction::From, usize::MAX, axes).steps([&rows, &whole]).expect("a path").len();
        assert_eq!([steps(1), steps(3)], [1, 2], "with Y, a slice and a gather over both would seem cheaper");
    }

    #[test]
    fn a_bound_on_tiles_is_kept() {
        let graph = graph();
        let (rows, columns) = (layout([&[0], &[]], &[]), layout([&[1], &[]], &[]));
        let bounded = written(&graph, &rows, &columns, 64 * 16);
        assert!(!bounded.contains(&"AllGather A[I, J]".to_owned()), "{bounded:?}");
        assert_eq!(bounded.last().map(String::as_str), Some("AllGather A[I_Y, J]"));
    }
}
