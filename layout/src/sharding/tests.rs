use super::*;
use crate::{Axis, AxisExpr};
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
    let dims = prop::collection::vec((0usize..14, 0u8..12, 1usize..4), 0..4);
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
                10 => {
                    let [first, second] = [mesh.extents()[0], parts as usize].map(|extent| extent as i64);
                    Placement::block_cyclic(dim, (axis(0) * second + last() + block as i64) % (first * second), block)
                }
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

/// Placements of a dimension over the axes, some of which are equivalent.
fn placements(dim: usize, [x, y]: [Axis; 2]) -> Vec<Placement> {
    let (wide, deep) = (x.extent as i64, y.extent as i64);
    let both = wide * deep;
    let mut found = vec![Placement::block(dim, 0)];
    for (one, other, extent) in [(x, y, wide), (y, x, deep)] {
        let numbered = one + extent * other;
        let blocks = [
            AxisExpr::from(one),
            [one, other].into(),
            one % extent,
            (one + other) % extent,
            (one - other) % extent,
            (one + other * (extent - 1)) % extent,
            (one + other * (extent + 1) + 2 * extent) % extent,
            (one + 1) % extent,
            (one - (extent - 1)) % extent,
            numbered.clone(),
            numbered.clone() % both,
            (numbered.clone() + 1) % both,
            (numbered + (1 - both)) % both,
            (-1 * (one + extent * other)) % both,
        ];
        found.extend(blocks.map(|at| Placement::block(dim, at)));
        for block in 1..5 {
            found.push(Placement::block_cyclic(dim, one, block));
            found.push(Placement::block_cyclic(dim, [one, other], block));
            found.push(Placement::block_cyclic(dim, (one - other) % extent, block));
            found.push(Placement::block(dim, one).cyclic(other, block));
            found.push(Placement::block_cyclic(dim, one, block).at(other));
            found.push(Placement::block_cyclic(dim, one, block * other.extent).at(other));
            found.extend((1..4).map(|inner| Placement::block_cyclic(dim, one, 2 * block).cyclic(other, inner)));
        }
        found.push(Placement::block(dim, one).at(other));
    }
    found
}

/// Which elements each rank owns, and the axes of several ranks along which they are terms.
fn ownership(sharding: &Sharding) -> (Vec<Vec<Vec<usize>>>, Vec<usize>) {
    let mesh = sharding.mesh();
    let owned = |rank| {
        let at = mesh.coordinates(rank);
        elements(sharding.shape()).into_iter().filter(|element| sharding.owns(&at, element)).collect()
    };
    ((0..mesh.size()).map(owned).collect(), sharding.partial().to_vec())
}

/// Whether each rank that the pins allow owns something, and of several levels each cyclic one has two turns, so that no two shardings are
/// equivalent by coincidence of size.
fn is_long(sharding: &Sharding) -> bool {
    let mut ranks = (0..sharding.mesh().size()).map(|rank| sharding.mesh().coordinates(rank));
    let mut dims = sharding.dims().iter().zip(sharding.shape());
    ranks.all(|at| !sharding.keeps(&at) || sharding.local_len(&at) > 0)
        && dims.all(|(layout, &extent)| {
            let mut levels = layout.levels().iter().enumerate();
            let turns = |(nth, level): (usize, &LevelLayout)| layout.divided(nth, extent) / (level.block * level.parts);
            layout.levels().len() < 2 || levels.all(|(nth, level)| !level.cyclic || turns((nth, level)) >= 2)
        })
}

/// Checks that shardings are equal exactly if they give every rank the same elements, except by coincidence of size.
fn check_equality(shardings: &[Sharding]) {
    let owned: Vec<_> = shardings.iter().map(|sharding| (ownership(sharding), is_long(sharding))).collect();
    for (a, (owned_a, long_a)) in shardings.iter().zip(&owned) {
        for (b, (owned_b, long_b)) in shardings.iter().zip(&owned) {
            let (mesh, shape) = (a.mesh(), a.shape());
            if a == b {
                assert_eq!(owned_a, owned_b, "{a:?} and {b:?} of {shape:?} on ({mesh}) are equal");
            } else {
                let alike = *long_a && *long_b && owned_a == owned_b;
                assert!(!alike, "{a} and {b} of {shape:?} on ({mesh}) differ, but are alike: {a:?} {b:?}");
            }
        }
    }
}

const SMALL_MESHES: [[usize; 2]; 8] = [[1, 1], [1, 3], [2, 1], [2, 2], [2, 3], [3, 2], [4, 2], [3, 3]];

#[test]
fn shardings_of_one_dimension_are_equal_if_they_give_every_rank_the_same() {
    for extents in SMALL_MESHES {
        let mesh = Mesh::new(["x", "y"].into_iter().zip(extents));
        let axes = mesh.axes();
        for size in 0..26 {
            let made = placements(0, axes).into_iter().map(|placement| Sharding::new(&mesh, &[size], &[placement]));
            check_equality(&made.filter_map(Result::ok).collect::<Vec<_>>());
        }
    }
}

#[test]
fn terms_of_a_sum_are_no_shares() {
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    let [x, y] = mesh.axes();
    let open = Sharding::new(&mesh, &[6], &[Placement::block(0, x), Placement::partial(y.name)]).expect("a sharding");
    assert_eq!((open.copies(), open.closed().copies()), ([1, 1], [3, 3]));
    assert!(!open.is_in_even_shares() && !open.closed().is_in_even_shares());
}

#[test]
fn clauses_are_in_no_order_and_axes_of_one_rank_say_nothing() {
    for extents in SMALL_MESHES {
        let mesh = Mesh::new(["x", "y"].into_iter().zip(extents));
        let axes: [Axis; 2] = mesh.axes();
        let mut extras = vec![vec![]];
        for axis in axes {
            let last = axis.extent - 1;
            extras.extend(
                [Placement::pin(axis, 0), Placement::pin(axis, last), Placement::partial(axis)].map(|one| vec![one]),
            );
        }
        let [x, y] = axes;
        extras.push(vec![Placement::pin(y, 0), Placement::pin(x, 0)]);
        extras.push(vec![Placement::pin(x, 0), Placement::pin(y, 0)]);
        extras.push(vec![Placement::partial(y), Placement::pin(x, 0)]);
        let mut made = Vec::new();
        for own in [0, 1].into_iter().flat_map(|dim| [Placement::block(dim, x), Placement::block_cyclic(dim, y, 2)]) {
            for extra in &extras {
                let clauses = [&[own.clone()][..], extra].concat();
                made.push(Sharding::new(&mesh, &[7, 6], &clauses));
                made.push(Sharding::new(&mesh, &[7, 6], &clauses.into_iter().rev().collect::<Vec<_>>()));
            }
        }
        made.extend(extras.iter().map(|extra| Sharding::new(&mesh, &[7, 6], extra)));
        for (rows, columns) in [
            (Placement::block(0, x), Placement::block(1, y)),
            (Placement::block(0, y), Placement::block(1, (x + y) % extents[0] as i64)),
        ] {
            made.push(Sharding::new(&mesh, &[7, 6], &[rows.clone(), columns.clone()]));
            made.push(Sharding::new(&mesh, &[7, 6], &[columns, rows]));
        }
        check_equality(&made.into_iter().filter_map(Result::ok).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_the_same_prints_in_one_way() {
    let mesh = Mesh::new([("x", 2), ("y", 3), ("z", 1)]);
    let [x, y, z] = mesh.axes();
    let check = |clauses: &[Placement], expected: &str| {
        let sharding = Sharding::new(&mesh, &[13], clauses).expect("a sharding");
        assert_eq!(sharding.to_string(), expected);
        let again = Sharding::new(&mesh, &[13], &sharding.placements());
        assert_eq!(again, Ok(sharding));
    };
    check(&[Placement::pin(y, 1), Placement::pin(z, 0), Placement::pin(x, 0)], "[pin(x, 0), pin(y, 1)]");
    check(&[Placement::block(0, [x, z])], "[0 @ x]");
    check(&[Placement::block(0, (x + z) % 2)], "[0 @ x]");
    check(&[Placement::block(0, x), Placement::partial(z)], "[0 @ x]");
    check(&[Placement::block_cyclic(0, z, 1)], "replicated");
    check(&[Placement::block_cyclic(0, x, 7)], "[0 @ x]");
    check(&[Placement::block_cyclic(0, x, 8)], "[0 @ cyclic(x, 8)]");
    check(&[Placement::block_cyclic(0, x, 3).at(y)], "[0 @ cyclic([x, y], 1)]");
    check(&[Placement::block_cyclic(0, z, 4).cyclic(x, 1)], "[0 @ cyclic(x, 1)]");
    check(&[Placement::block_cyclic(0, z, 5).at(x)], "[0 @ cyclic(0, 5) @ x]");
    check(&[Placement::block(0, (x + 2 * y) % 6)], "[0 @ [y, x]]");
    check(&[Placement::block(0, (x + 2 * y + 7) % 6)], "[0 @ (x + 2 * y + 1) % 6]");
    check(&[Placement::block(0, (x + 5 * y) % 3)], "[0 @ (x - y) % 3]");
}

#[test]
fn axes_that_number_all_remainders_may_be_turned() {
    let mesh = Mesh::new([("x", 2), ("y", 3), ("w", 2)]);
    let [x, y, w] = mesh.axes();
    let turned = Sharding::new(&mesh, &[12], &[Placement::block(0, (x + 2 * y + 1) % 6)]).expect("a sharding");
    assert_eq!(owned(&turned, 0)[..2], [[2, 3], [2, 3]], "w replicates");
    assert_eq!(turned.owner(&[0, 0, 1], &[0]), [1, 2, 1], "x + 2 * y = 5");
    // Next to another clause, and with a factor that is not the stride of any axis.
    let beside = [Placement::block(0, w), Placement::block(1, (3 * w - x - 2 * y) % 6)];
    assert!(Sharding::new(&mesh, &[4, 12], &beside).is_ok());
    // Another clause needs its axes.
    let shared = [Placement::block(0, (x + 2 * y + 1) % 6), Placement::block(1, x)];
    assert!(error(&mesh, &[12, 4], &shared).contains("some blocks have no owner"));
}

fn elements(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |all, &extent| {
        all.iter().flat_map(|head| (0..extent).map(move |i| [&head[..], &[i]].concat())).collect()
    })
}

proptest! {
    /// Each reader is given an owner that does own the element.
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

    /// Bounds on the indices that a rank owns are tight.
    #[test]
    fn the_rank_with_the_first_blocks_owns_the_most(sharding in shardings()) {
        let mesh = sharding.mesh();
        for (layout, &extent) in sharding.dims().iter().zip(sharding.shape()) {
            let owned = (0..mesh.size()).map(|rank| layout.owned_below(&mesh.coordinates(rank), extent));
            prop_assert_eq!(owned.max(), Some(layout.max_owned(extent)), "{}", sharding);
        }
    }

    /// The number of owners of an element is within the bounds returned, and shares that are reported as even are even.
    #[test]
    fn elements_have_as_many_owners_as_there_are_copies(sharding in shardings()) {
        let [least, most] = sharding.copies();
        let mesh = sharding.mesh();
        let ranks: Vec<Vec<usize>> = (0..mesh.size()).map(|rank| mesh.coordinates(rank)).collect();
        for element in elements(sharding.shape()) {
            let owners = ranks.iter().filter(|rank| sharding.owns(rank, &element)).count();
            prop_assert!(least <= owners && owners <= most, "{sharding}: {owners} own {element:?}");
        }
        let all: usize = sharding.shape().iter().product();
        let share = all.div_ceil(ranks.len());
        let total: usize = ranks.iter().map(|rank| sharding.local_len(rank)).sum();
        let is_even = total == all && ranks.iter().all(|rank| sharding.local_len(rank) <= share);
        let said = sharding.is_in_even_shares();
        // Blocks with more owners than others may be empty.
        prop_assert!(if least < most { !said || is_even } else { said == is_even }, "{sharding}: {said}");
    }

    /// A sharding's clauses make the same sharding.
    #[test]
    fn placements_round_trip(sharding in shardings()) {
        let again = Sharding::new(sharding.mesh(), sharding.shape(), &sharding.placements());
        prop_assert_eq!(again, Ok(sharding));
    }

    /// The pieces of a dimension are the owned indices, in order, packed from 0.
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
                let indices = sharding.owned(dim, &at);
                prop_assert_eq!(indices.len(), owned.len());
                for position in 0..owned.len() + 2 {
                    let run = indices.run(position);
                    let len = owned.iter().skip(position).zip(run.start..).take_while(|(own, i)| **own == *i).count();
                    // Blocks of blocks may be adjacent.
                    prop_assert!(run.len() <= len && run.is_empty() == (len == 0), "{} of {}", position, sharding);
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

/// Random shardings of one mesh and shape, where an all-gather is possible more often than not.
fn gathered() -> impl Strategy<Value = [Sharding; 2]> {
    let axes = prop_oneof![Just(vec!["x"]), Just(vec!["y"]), Just(vec!["x", "y"]), Just(vec!["y", "x"]), Just(vec![])];
    let placed = (axes.clone(), axes, 0usize..2, 0usize..2, 0usize..3);
    ((1usize..4, 1usize..4), (1usize..3, 1usize..9), placed).prop_map(|((x, y), (rows, columns), placed)| {
        let mesh = Mesh::new([("x", x), ("y", y), ("z", 2)]);
        let (from, to, dim, other, z) = placed;
        let of = |axes: &[&str], dim: usize| {
            let list = AxisExpr::List(axes.iter().map(|axis| (*axis).into()).collect());
            let along = (!axes.is_empty()).then(|| Placement::block(dim, list));
            let z = (z < 2 && z != dim).then(|| Placement::block(z, AxisExpr::axis("z")));
            let placements: Vec<_> = along.into_iter().chain(z).collect();
            Sharding::new(&mesh, &[rows, columns], &placements).expect("a sharding")
        };
        [of(&from, dim), of(&to, if z == 2 { other } else { dim })]
    })
}

proptest! {
    /// The concatenated shards of a gathered group are the shard that each member needs, and all other ranks have theirs.
    #[test]
    fn shards_that_are_gathered_follow_one_another([from, to] in gathered()) {
        let mesh = from.mesh();
        let elements = |sharding: &Sharding, rank: usize| -> Vec<[usize; 2]> {
            let at = mesh.coordinates(rank);
            let [rows, columns] = [0, 1].map(|dim| sharding.pieces(dim, &at, 0..sharding.shape()[dim]).flat_map(|(range, _)| range).collect::<Vec<_>>());
            rows.iter().flat_map(|&row| columns.iter().map(move |&column| [row, column])).collect()
        };
        let groups = from.gathered_groups(&to);
        if let Some(groups) = &groups {
            let at = |rank: usize, axis: usize| mesh.coordinates(rank)[axis];
            let differ = |group: &Vec<usize>, axis: usize| group.iter().any(|&rank| at(rank, axis) != at(group[0], axis));
            let axes: Vec<usize> = (0..3).filter(|&axis| groups.iter().any(|group| differ(group, axis))).collect();
            // Others are empty.
            let along = mesh.groups_along(&axes);
            prop_assert!(groups.iter().all(|group| along.contains(group)), "{from} to {to} {groups:?}");
        }
        for group in groups.iter().flatten() {
            let parts: Vec<_> = group.iter().flat_map(|&member| elements(&from, member)).collect();
            for &member in group {
                prop_assert_eq!(&parts, &elements(&to, member), "{} to {} in {:?}", from, to, group);
            }
        }
        let grouped: Vec<usize> = groups.iter().flatten().flatten().copied().collect();
        if groups.is_some() {
            let alone = (0..mesh.size()).filter(|rank| !grouped.contains(rank));
            prop_assert!(alone.into_iter().all(|rank| elements(&from, rank) == elements(&to, rank)), "{} to {}", from, to);
        }
        // Rows that are no longer divided are gathered if the ranks have them in their own order.
        let rows = |sharding: &Sharding| sharding.dims()[1] == DimLayout::WHOLE;
        if rows(&from) && rows(&to) && to.dims()[0] == DimLayout::WHOLE && to.largest_shard() > from.largest_shard() {
            let first = |rank: &usize| (0..3).all(|axis| from.places(axis) || mesh.coordinates(*rank)[axis] == 0);
            let parts = (0..mesh.size()).filter(first).flat_map(|rank| elements(&from, rank));
            prop_assert_eq!(groups.is_some(), parts.eq(elements(&to, 0)), "{} to {}", from, to);
        }
    }
}

/// How a dimension is placed: the kind, the axis, the block size and another axis.
type Along = (usize, usize, usize, usize);

/// Random shardings of an array over one mesh, each dimension placed in any way; invalid ones are filtered out.
fn placed() -> impl Strategy<Value = [Sharding; 2]> {
    let along = (0usize..8, 0usize..2, 1usize..4, 0usize..3);
    let one = (along.clone(), along, 0usize..4);
    let drawn = ((1usize..4, 1usize..4), (1usize..7, 1usize..9), one.clone(), one);
    drawn.prop_filter_map("no shardings", |((x, y), (rows, columns), one, other)| {
        let mesh = Mesh::new([("x", x), ("y", y), ("z", 2)]);
        let axes: Vec<Axis> = ["x", "y", "z"].map(|name| mesh.axis(name).expect("an axis of the mesh")).into();
        let of = |(first, second, pin): (Along, Along, usize)| {
            let along = |dim: usize, (kind, axis, block, other): Along| {
                let [axis, other] = [axis, other].map(|axis| axes[axis]);
                Some(match kind {
                    0 | 1 => Placement::block(dim, axis),
                    2 => Placement::block_cyclic(dim, axis, block),
                    3 => Placement::block(dim, (axis + other) % axis.extent as i64),
                    4 => Placement::block(dim, AxisExpr::List(vec![axis.name, other.name])),
                    5 => Placement::block_cyclic(dim, (axis + other) % (axis.extent * other.extent) as i64, block),
                    _ => return None,
                })
            };
            let pin = (pin < 3).then(|| Placement::pin(axes[pin], 0)).filter(|_| pin != 1 || y > 1);
            let placements: Vec<_> = along(0, first).into_iter().chain(along(1, second)).chain(pin).collect();
            Sharding::new(&mesh, &[rows, columns], &placements).ok()
        };
        Some([of(one)?, of(other)?])
    })
}

proptest! {
    /// The owners of elements that a rank needs and lacks are in reach; from a sharding to itself, only the rank itself is.
    #[test]
    fn owners_are_in_reach([from, to] in placed()) {
        let mesh = from.mesh();
        let reach = from.owners_of(&to);
        for reader in (0..mesh.size()).map(|rank| mesh.coordinates(rank)) {
            let near: Vec<_> = mesh.in_reach(&reader, &reach).collect();
            for element in (0..from.shape()[0]).flat_map(|row| (0..from.shape()[1]).map(move |column| [row, column])) {
                let owner = from.owner(&reader, &element);
                let is_lacking = to.owns(&reader, &element) && !from.owns(&reader, &element);
                prop_assert!(!is_lacking || near.contains(&owner), "{from} to {to}: {reader:?} of {owner:?}");
            }
        }
        prop_assert_eq!(mesh.others_in_reach(&from.owners_of(&from)), 0, "{}", from);
    }

    /// Over a mesh of digits, each rank owns the same elements and reads from the same ranks.
    #[test]
    fn a_sharding_is_the_same_over_digits([from, to] in placed(), halves in prop::collection::vec(any::<bool>(), 3)) {
        let mesh = from.mesh();
        let digits = mesh.extents().into_iter().zip(halves).map(|(extent, halve)| match halve {
            true if extent.is_multiple_of(2) => vec![2, extent / 2],
            true => vec![extent, 1],
            false => vec![extent],
        });
        let finer = mesh.refined(&digits.collect::<Vec<_>>());
        for sharding in [&from, &to] {
            let over = sharding.over(&finer).expect("digits of the mesh");
            prop_assert_eq!(sharding.mesh().common_refinement(&finer).map(|common| sharding.over(&common).is_some()), Some(true));
            for rank in 0..mesh.size() {
                let [at, digits] = [sharding, &over].map(|sharding| sharding.mesh().coordinates(rank));
                for element in (0..sharding.shape()[0]).flat_map(|row| (0..sharding.shape()[1]).map(move |column| [row, column])) {
                    prop_assert_eq!(sharding.owns(&at, &element), over.owns(&digits, &element), "{} {}", sharding, over);
                    let owners = [(sharding, &at), (&over, &digits)].map(|(sharding, at)| sharding.mesh().rank(&sharding.owner(at, &element)));
                    prop_assert!(owners[0] == owners[1] || sharding.owns(&at, &element), "{} {}", sharding, over);
                }
            }
        }
    }
}
