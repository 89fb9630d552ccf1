//! What can happen to one array in one step.
//!
//! Only the lowest axes of a dimension leave it, and axes come below those that are there: then a group's tiles lie
//! side by side, and the step is one collective. The literature also gathers the upper axis of `A[I_XY, J]` at
//! once; but the tiles of ranks that differ along `X` alone are not neighbours, so here that takes more steps.

use super::array::{Array, Layout};
use polyshard_layout::Collective;

/// One operation on an array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Move {
    pub(super) op: Collective,
    /// Ascending.
    pub(super) axes: Vec<usize>,
    pub(super) to: Layout,
}

/// All layouts of an array of `ndim` dimensions over these axes, with partial sums if `partial`.
pub(super) fn layouts(axes: &[usize], ndim: usize, partial: bool) -> Vec<Layout> {
    let mut found = vec![Layout { dims: vec![Vec::new(); ndim], unreduced: Vec::new() }];
    for &axis in axes {
        let mut more = Vec::new();
        for layout in &found {
            if partial {
                let mut layout = layout.clone();
                layout.unreduced.push(axis);
                more.push(layout);
            }
            for dim in 0..ndim {
                // Each order of axes comes about once, by where the last of them stands.
                for place in 0..=layout.dims[dim].len() {
                    let mut layout = layout.clone();
                    layout.dims[dim].insert(place, axis);
                    more.push(layout);
                }
            }
        }
        found.extend(more);
    }
    found.iter_mut().for_each(|layout| layout.unreduced.sort_unstable());
    found
}

/// All that one step can make of a layout, where `axes` are those of the mesh with more than one rank.
pub(super) fn moves(array: &Array, from: &Layout, axes: &[usize]) -> Vec<Move> {
    let mut found = Vec::new();
    let free: Vec<usize> = axes.iter().copied().filter(|axis| from.used().all(|used| used != *axis)).collect();
    for (axes, to) in spread(from, &free) {
        found.push(Move { op: Collective::Slice, axes, to });
    }
    for (axes, to) in spread(from, &from.unreduced) {
        found.push(Move { op: Collective::ReduceScatter, axes, to });
    }
    for subset in subsets(&from.unreduced) {
        let mut to = from.clone();
        to.unreduced.retain(|axis| !subset.contains(axis));
        found.push(Move { op: Collective::AllReduce, axes: subset, to });
    }
    gathers(from, 0, &mut Vec::new(), &mut found);
    for dim in 0..from.dims.len() {
        for kept in 0..from.dims[dim].len() {
            for other in (0..from.dims.len()).filter(|other| *other != dim) {
                let mut to = from.clone();
                let lowest = to.dims[dim].split_off(kept);
                to.dims[other].extend(&lowest);
                found.push(Move { op: Collective::AllToAll, axes: sorted(lowest), to });
            }
        }
    }
    found.retain(|step| array.tile_len(&step.to).is_some());
    found
}

/// Each way to put one or more of `axes`, which are not in a dimension yet, below those of dimensions.
fn spread(from: &Layout, axes: &[usize]) -> Vec<(Vec<usize>, Layout)> {
    let mut found = Vec::new();
    for layout in layouts(axes, from.dims.len(), false) {
        let axes: Vec<usize> = layout.dims.iter().flatten().copied().collect();
        if axes.is_empty() {
            continue;
        }
        let mut to = from.clone();
        to.unreduced.retain(|axis| !axes.contains(axis));
        to.dims.iter_mut().zip(layout.dims).for_each(|(dim, more)| dim.extend(more));
        found.push((sorted(axes), to));
    }
    found
}

/// Each way to take one or more of the lowest axes from dimensions at once.
fn gathers(from: &Layout, dim: usize, taken: &mut Vec<usize>, found: &mut Vec<Move>) {
    let Some(axes) = from.dims.get(dim) else {
        if !taken.is_empty() {
            let mut to = from.clone();
            to.dims.iter_mut().for_each(|dim| dim.retain(|axis| !taken.contains(axis)));
            found.push(Move { op: Collective::AllGather, axes: sorted(taken.clone()), to });
        }
        return;
    };
    for kept in 0..=axes.len() {
        let before = taken.len();
        taken.extend(&axes[kept..]);
        gathers(from, dim + 1, taken, found);
        taken.truncate(before);
    }
}

fn subsets(axes: &[usize]) -> Vec<Vec<usize>> {
    let of = |bits: usize| (0..axes.len()).filter(|nth| bits >> nth & 1 == 1).map(|nth| axes[nth]).collect();
    (1..1 << axes.len()).map(of).collect()
}

fn sorted(mut axes: Vec<usize>) -> Vec<usize> {
    axes.sort_unstable();
    axes
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_layout::Mesh;

    #[test]
    fn layouts_are_distinct_and_complete() {
        // Each axis unused, in a dimension or open; two in one dimension in either order.
        let found = layouts(&[0, 1], 2, true);
        assert_eq!(found.len(), 4 * 4 + 2);
        let mut apart = found.clone();
        apart.sort();
        apart.dedup();
        assert_eq!(apart.len(), found.len());
        assert_eq!(layouts(&[0, 1, 2], 2, false).len(), 1 + 3 * 2 + 3 * 6 + 24);
    }

    #[test]
    fn the_steps_of_an_array_are_listed() {
        let names = ["I", "J"].map(String::from).to_vec();
        let mesh = Mesh::new([("X", 2), ("Y", 2)]);
        let array = Array { mesh, tensor: "A".into(), names, shape: vec![8, 2] };
        let from = Layout { dims: vec![vec![0, 1], vec![]], unreduced: vec![] };
        let written: Vec<String> = moves(&array, &from, &[0, 1])
            .iter()
            .map(|step| format!("{}{:?} {}", step.op, step.axes, array.sharded(&step.to).expect("it divides")))
            .collect();
        // The upper axis alone does not leave, and 2 columns do not divide by 4.
        assert_eq!(written, ["AllGather[0, 1] A[I, J]", "AllGather[1] A[I_X, J]", "AllToAll[1] A[I_X, J_Y]"]);
    }
}
