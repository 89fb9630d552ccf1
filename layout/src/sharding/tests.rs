use super::*;
use crate::AxisExpr;
use proptest::prelude::*;

fn error(mesh: &Mesh, shape: &[usize], placements: &[Placement]) -> String {
    Sharding::new(mesh, shape, placements).expect_err("the sharding should be refused").to_string()
}

#[test]
fn an_axis_used_twice_is_refused() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, _] = mesh.axes();
    let twice = [Placement::block(0, x), Placement::block(1, x)];
    assert!(error(&mesh, &[4, 4], &twice).starts_with("axis `x` is used twice"));
    let pinned = [Placement::block(0, x), Placement::Pin { axis: x.name, coordinate: 0 }];
    assert!(error(&mesh, &[4, 4], &pinned).starts_with("axis `x` is used twice"));
}

#[test]
fn a_block_without_an_owner_is_refused() {
    let mesh = Mesh::new([("x", 4), ("y", 2)]);
    let [x, y] = mesh.axes();
    let skewed = [Placement::block(0, x), Placement::block(1, (x + y) % 4)];
    assert!(error(&mesh, &[8, 8], &skewed).starts_with("cannot place by `(x + y) % 4`: some blocks have no owner"));
    let sum = [Placement::block(0, x + y)];
    assert!(error(&mesh, &[8], &sum).contains("add `% parts`"));
}

#[test]
fn unknown_axes_and_dimensions_are_named() {
    let mesh = Mesh::new([("x", 4)]);
    let other = Mesh::new([("z", 4)]);
    let [z] = other.axes();
    assert_eq!(error(&mesh, &[8], &[Placement::block(0, z)]), "no axis `z`; the axes are x");
    let [x] = mesh.axes();
    assert_eq!(error(&mesh, &[8], &[Placement::block(1, x)]), "no dimension 1; the array has 1");
}

fn mesh_of_levels() -> Mesh {
    Mesh::new([("node", 2), ("rank", 2), ("core", 3)])
}

/// The indices that each rank owns.
fn owned(sharding: &Sharding, dim: usize) -> Vec<Vec<usize>> {
    let mesh = sharding.mesh();
    let pieces = |rank| sharding.pieces(dim, &mesh.coordinates(rank), 0..sharding.shape()[dim]);
    (0..mesh.size()).map(|rank| pieces(rank).flat_map(|(range, _)| range).collect()).collect()
}

#[test]
fn levels_that_divide_evenly_are_one() {
    let mesh = mesh_of_levels();
    let [node, rank, core] = mesh.axes();
    let of = |rows, placement| Sharding::new(&mesh, &[rows], &[placement]).expect("a sharding");
    for rows in [12, 24, 15, 23] {
        let nested = of(rows, Placement::block(0, node).at(rank));
        let even = rows.div_ceil(2).is_multiple_of(2);
        assert_eq!(nested == of(rows, Placement::block(0, [node, rank])), even, "{rows} rows: {nested}");
    }
    let three = |rows| of(rows, Placement::block(0, node).at(rank).at(core)).to_string();
    assert_eq!(three(24), "[0 @ [node, rank, core]]");
    assert_eq!(three(22), "[0 @ node @ [rank, core]]", "blocks of 11, of 6 and of 2");
    assert_eq!(three(20), "[0 @ [node, rank] @ core]", "blocks of 10, of 5 and of 2");
    assert_eq!(three(26), "[0 @ node @ rank @ core]", "blocks of 13, of 7 and of 3");
}

#[test]
fn a_level_inside_of_a_level_may_be_cyclic_or_skewed() {
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    let [x, y] = mesh.axes();
    let of = |placement| Sharding::new(&mesh, &[11], &[placement]).expect("a sharding");
    let dealt = of(Placement::block(0, x).cyclic(y, 1));
    assert_eq!(dealt.to_string(), "[0 @ x @ cyclic(y, 1)]");
    assert_eq!(owned(&dealt, 0)[..3], [[0, 3], [1, 4], [2, 5]]);
    assert_eq!(owned(&dealt, 0)[3..], [vec![6, 9], vec![7, 10], vec![8]]);
    // Each block of 5 is divided again, so the last index of each is in a block of its own.
    let divided = of(Placement::block_cyclic(0, x, 5).at(y));
    assert_eq!(owned(&divided, 0)[..3], [vec![0, 1, 10], vec![2, 3], vec![4]]);
    let skewed = of(Placement::block(0, x).at((x + y) % 3));
    assert_eq!((skewed.to_string(), skewed.owner(&[0, 0], &[6])), ("[0 @ x @ (x + y) % 3]".into(), vec![1, 2]));
}

#[test]
fn levels_that_are_none_are_refused() {
    let mesh = Mesh::new([("x", 4), ("y", 2)]);
    let [x, y] = mesh.axes();
    let error = |placement| error(&mesh, &[8, 8], &[placement]);
    assert!(error(Placement::block(0, x).at(x)).starts_with("axis `x` is used twice"));
    assert!(error(Placement::block(0, [x, y]).at(y)).starts_with("axis `y` is used twice"));
    assert_eq!(
        error(Placement::block(1, x).at(y).at(0)),
        "dimension 1 is divided into 3 levels, but each needs an axis of its own, and the mesh has 2; leave some out"
    );
    assert!(error(Placement::block(0, x).cyclic(y, 0)).contains("in blocks of 0"));
    assert!(error(Placement::block(0, x).at(x + y)).contains("add `% parts`"));
    let twice = [Placement::block(0, x).at(y), Placement::partial("y")];
    assert!(super::tests::error(&mesh, &[8], &twice).starts_with("axis `y` holds partial sums"));
}

fn shardings() -> impl Strategy<Value = Sharding> {
    let mesh = prop::collection::vec(1usize..5, 1..4);
    let dims = prop::collection::vec((0usize..14, 0u8..11, 1usize..4), 0..4);
    (mesh, dims, 0usize..5).prop_filter_map("a legal sharding", |(extents, dims, pin)| {
        let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(extents));
        let axes: Vec<_> = mesh.as_slice().iter().map(|axis| axis.name).collect();
        let axis = |number: usize| AxisExpr::Axis(axes[number % axes.len()]);
        let parts = mesh.extents()[axes.len() - 1] as i64;
        let last = || axis(axes.len() - 1);
        let shape: Vec<_> = dims.iter().map(|dim| dim.0).collect();
        let mut placements = Vec::new();
        for (dim, &(_, kind, block)) in dims.iter().enumerate() {
            let own = kind as usize + dim;
            placements.push(match kind {
                0 => continue,
                1 | 2 => Placement::block(dim, axis(own)),
                3 => Placement::block_cyclic(dim, axis(own), block),
                4 => Placement::block(dim, (axis(0) * 2 + last()) % parts),
                5 => Placement::block_cyclic(dim, (axis(0) - last()) % parts, block),
                6 => Placement::block(dim, AxisExpr::List(axes.clone())),
                7 => Placement::block(dim, axis(own)).at(axis(own + 1)),
                8 => Placement::block(dim, axis(own)).cyclic(axis(own + 1), block),
                9 => Placement::block_cyclic(dim, axis(own + 1), block + 2).at(axis(own)),
                _ => {
                    axes[1..].iter().fold(Placement::block(dim, axis(0)), |outer, &axis| outer.at(AxisExpr::Axis(axis)))
                }
            });
        }
        if let Some(&axis) = axes.get(pin) {
            placements.push(Placement::Pin { axis, coordinate: mesh.extents()[pin] - 1 });
        }
        Sharding::new(&mesh, &shape, &placements).ok()
    })
}

fn elements(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |all, &extent| {
        all.iter().flat_map(|head| (0..extent).map(move |i| [&head[..], &[i]].concat())).collect()
    })
}

proptest! {
    /// Whoever asks, the owner named is one that owns the element.
    #[test]
    fn the_owner_of_an_element_owns_it(sharding in shardings()) {
        let mesh = sharding.mesh().clone();
        for reader in (0..mesh.size()).map(|rank| mesh.coordinates(rank)) {
            for element in elements(sharding.shape()) {
                let owner = sharding.owner(&reader, &element);
                prop_assert!(sharding.owns(&owner, &element), "{sharding}: {owner:?} {element:?}");
            }
        }
    }

    /// No bound on what a rank owns is larger than it need be.
    #[test]
    fn the_rank_with_the_first_blocks_owns_the_most(sharding in shardings()) {
        let mesh = sharding.mesh();
        for (layout, &extent) in sharding.dims().iter().zip(sharding.shape()) {
            let owned = (0..mesh.size()).map(|rank| layout.owned_below(&mesh.coordinates(rank), extent));
            prop_assert_eq!(owned.max(), Some(layout.max_owned(extent)), "{}", sharding);
        }
    }

    /// A sharding's clauses give it back.
    #[test]
    fn placements_round_trip(sharding in shardings()) {
        let again = Sharding::new(sharding.mesh(), sharding.shape(), &sharding.placements());
        prop_assert_eq!(again, Ok(sharding));
    }

    /// The pieces of a dimension are what is owned, in order, packed from 0.
    #[test]
    fn pieces_are_what_is_owned(sharding in shardings(), from in 0usize..14, len in 0usize..14) {
        let mesh = sharding.mesh().clone();
        for at in (0..mesh.size()).map(|rank| mesh.coordinates(rank)) {
            for dim in 0..sharding.shape().len() {
                let layout = &sharding.dims()[dim];
                let owns = |&i: &usize| sharding.keeps(&at) && layout.owns(&at, i);
                let owned: Vec<_> = (0..sharding.shape()[dim]).filter(owns).collect();
                prop_assert_eq!(sharding.local_shape(&at)[dim], owned.len());
                prop_assert!(owned.len() <= layout.max_owned(sharding.shape()[dim]));
                let inside = owned.iter().filter(|&i| (from..from + len).contains(i)).count();
                prop_assert!(inside <= layout.max_owned_of(len), "{sharding}: {inside} of {len}");
                for i in 0..sharding.shape()[dim] {
                    prop_assert_eq!(sharding.local_index(dim, &at, i), owned.iter().position(|&own| own == i));
                }
                if let Some(&first) = owned.first() {
                    prop_assert_eq!(layout.first(&at), first);
                }
                let listed: Vec<_> = sharding.pieces(dim, &at, from..from + len)
                    .flat_map(|(range, local)| range.clone().zip(local..local + range.len()))
                    .collect();
                let expected: Vec<_> = owned.iter().copied().enumerate()
                    .filter(|(_, i)| (from..from + len).contains(i))
                    .map(|(local, i)| (i, local)).collect();
                prop_assert_eq!(listed, expected);
            }
        }
    }
}
