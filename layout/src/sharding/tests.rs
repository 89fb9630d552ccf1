use super::*;
use proptest::prelude::*;

fn error(mesh: &Mesh, shape: &[usize], placements: &[Placement]) -> String {
    Sharding::new(mesh, shape, placements).expect_err("the sharding should be refused").to_string()
}

#[test]
fn an_axis_used_twice_is_refused() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, _] = mesh.axes();
    let twice = [Placement::Block { dim: 0, at: x.into() }, Placement::Block { dim: 1, at: x.into() }];
    assert!(error(&mesh, &[4, 4], &twice).starts_with("axis `x` is used twice"));
    let pinned = [Placement::Block { dim: 0, at: x.into() }, Placement::Pin { axis: x.name, coordinate: 0 }];
    assert!(error(&mesh, &[4, 4], &pinned).starts_with("axis `x` is used twice"));
}

#[test]
fn a_block_without_an_owner_is_refused() {
    let mesh = Mesh::new([("x", 4), ("y", 2)]);
    let [x, y] = mesh.axes();
    let skewed = [Placement::Block { dim: 0, at: x.into() }, Placement::Block { dim: 1, at: (x + y) % 4 }];
    assert!(error(&mesh, &[8, 8], &skewed).starts_with("cannot place by `(x + y) % 4`: some blocks have no owner"));
    let sum = [Placement::Block { dim: 0, at: x + y }];
    assert!(error(&mesh, &[8], &sum).contains("add `% parts`"));
}

#[test]
fn unknown_axes_and_dimensions_are_named() {
    let mesh = Mesh::new([("x", 4)]);
    let other = Mesh::new([("z", 4)]);
    let [z] = other.axes();
    assert_eq!(error(&mesh, &[8], &[Placement::Block { dim: 0, at: z.into() }]), "no axis `z`; the axes are x");
    let [x] = mesh.axes();
    assert_eq!(error(&mesh, &[8], &[Placement::Block { dim: 1, at: x.into() }]), "no dimension 1; the array has 1");
}

fn shardings() -> impl Strategy<Value = Sharding> {
    let mesh = prop::collection::vec(1usize..5, 1..4);
    let dims = prop::collection::vec((0usize..9, 0u8..7, 1usize..4), 0..4);
    (mesh, dims, 0usize..5).prop_filter_map("a legal sharding", |(extents, dims, pin)| {
        let names = ["x", "y", "z"];
        let mesh = Mesh::new(names.into_iter().zip(extents));
        let axes: Vec<_> = mesh.as_slice().iter().map(|a| Axis2(a.name)).collect();
        let shape: Vec<_> = dims.iter().map(|dim| dim.0).collect();
        let mut placements = Vec::new();
        for (dim, &(_, kind, block)) in dims.iter().enumerate() {
            let axis = axes[(kind as usize + dim) % axes.len()].expr();
            let last = axes[axes.len() - 1].expr();
            let parts = mesh.extents()[axes.len() - 1] as i64;
            match kind {
                0 => {}
                1 | 2 => placements.push(Placement::Block { dim, at: axis }),
                3 => placements.push(Placement::Cyclic { dim, at: axis, block }),
                4 => placements.push(Placement::Block { dim, at: (axes[0].expr() * 2 + last) % parts }),
                5 => placements.push(Placement::Cyclic { dim, at: (axes[0].expr() - last) % parts, block }),
                _ => placements
                    .push(Placement::Block { dim, at: AxisExpr::List(axes.iter().map(|axis| axis.0).collect()) }),
            }
        }
        if let Some(axis) = axes.get(pin) {
            placements.push(Placement::Pin { axis: axis.0, coordinate: mesh.extents()[pin] - 1 });
        }
        Sharding::new(&mesh, &shape, &placements).ok()
    })
}

struct Axis2(Name);
impl Axis2 {
    fn expr(&self) -> AxisExpr {
        AxisExpr::Axis(self.0)
    }
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

    /// A sharding's clauses give it back.
    #[test]
    fn placements_round_trip(sharding in shardings()) {
        let again = Sharding::new(sharding.mesh(), sharding.shape(), &sharding.placements());
        prop_assert_eq!(again, Ok(sharding));
    }

    /// The pieces of a dimension are what is owned, in order, packed from 0.
    #[test]
    fn pieces_are_what_is_owned(sharding in shardings(), from in 0usize..9, len in 0usize..9) {
        let mesh = sharding.mesh().clone();
        for at in (0..mesh.size()).map(|rank| mesh.coordinates(rank)) {
            for dim in 0..sharding.shape().len() {
                let probe = |i: usize| {
                    let mut element = vec![0; sharding.shape().len()];
                    element[dim] = i;
                    let one = Sharding {
                        dims: sharding.dims.iter().enumerate().map(|(d, layout)| {
                            if d == dim { layout.clone() } else { DimLayout::Whole }
                        }).collect(),
                        ..sharding.clone()
                    };
                    one.owns(&at, &element)
                };
                let owned: Vec<_> = (0..sharding.shape()[dim]).filter(|&i| probe(i)).collect();
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
