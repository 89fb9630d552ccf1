//! Random stencils on meshes of two axes, with and without corners: near, wider than a tile, periodic or not.

use super::Choices;
use super::cyclic::cyclic_of;
use super::schedules::schedule_of;
use polyshard::layout::{DType, Mesh};
use polyshard::schedule::{Schedule, dim};
use polyshard::text::parse_kernel;

/// A random stencil, mostly in tiles of the mesh, like its arrays.
///
/// # Panics
/// If the kernel is invalid.
pub fn stencil_of(dtype: DType, choices: &mut Choices<'_>) -> Schedule {
    let extents = [6i64, 5, 7, 8, 3, 11, 12, 2, 1];
    let [rows, columns] = [(); 2].map(|()| choices.pick(&extents));
    let mesh = choices.pick(&[[2, 2], [3, 2], [2, 3], [3, 3], [2, 4], [4, 2], [1, 4], [4, 1], [5, 2]]);
    let mesh = Mesh::new([("x", mesh[0]), ("y", mesh[1])]);
    let [x, y] = mesh.axes();
    let wraps = [(); 2].map(|()| choices.below(2) == 0);
    let by = [1, -1, 2, -2, 3, -5];
    let mut terms = Vec::new();
    for factor in 1..=2 + choices.below(5) {
        let mut offsets = [0; 2];
        offsets[choices.below(2)] = choices.pick(&by);
        match choices.below(8) {
            6 => offsets = [0; 2],
            7 => offsets = [choices.pick(&by), choices.pick(&by)],
            _ => {}
        }
        let along = [("i", rows), ("j", columns)].into_iter().zip(offsets).zip(wraps);
        let index = along.map(|(((name, extent), by), wraps)| match (by, wraps) {
            (0, _) => name.to_owned(),
            (_, true) => format!("({name} + {}) % {extent}", by + 5 * extent),
            (_, false) if by < 0 => format!("{name} - {}", -by),
            (_, false) => format!("{name} + {by}"),
        });
        let index = index.collect::<Vec<_>>().join(", ");
        let leaves = offsets.iter().zip(wraps).any(|(&by, wraps)| by != 0 && !wraps);
        let outside = if leaves { " else 3" } else { "" };
        terms.push(format!("{factor} * (A[{index}]{outside})"));
    }
    let text = format!(
        "fn stencil(A: [{dtype}; {rows}, {columns}]) -> C: [{dtype}; {rows}, {columns}] {{ C[i, j] = {} }}",
        terms.join(" + ")
    );
    let kernel = parse_kernel(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let kernel = Schedule::new(kernel.check().unwrap_or_else(|error| panic!("{error}\n{text}")));
    match choices.below(8) {
        6 => return cyclic_of(kernel, &mesh, choices),
        7 => return schedule_of(kernel, &mesh, choices),
        _ => {}
    }
    let tiled = kernel.distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh);
    let home = [dim(0).at(x), dim(1).at(y)];
    let tiled = match choices.below(6) {
        4 => tiled.shard("A", [dim(0).at(y), dim(1).at(x)]),
        5 => tiled.shard("A", [dim(0).cyclic(x, 2), dim(1).at(y)]),
        _ => tiled.shard("A", home.clone()),
    };
    let tiled = tiled.shard("C", home);
    if choices.one_in(3) {
        return tiled.split("ii", "it", "ie", 2).reorder(["it", "ie", "ji"]).communicate("A", "it");
    }
    tiled
}
