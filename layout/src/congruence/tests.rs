use crate::{AxisExpr, Mesh, Placement, Sharding, ShardingError};
use proptest::prelude::*;

fn elements(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |all, &extent| {
        all.iter().flat_map(|head| (0..extent).map(move |i| [&head[..], &[i]].concat())).collect()
    })
}

/// Checks that the owner which each rank computes for each element does own it.
#[track_caller]
fn check(sharding: &Sharding) {
    let mesh = sharding.mesh();
    for reader in (0..mesh.size()).map(|rank| mesh.coordinates(rank)) {
        for element in elements(sharding.shape()) {
            let owner = sharding.owner(&reader, &element);
            let there = owner.iter().zip(mesh.extents()).all(|(&at, extent)| at < extent);
            assert!(there && sharding.owns(&owner, &element), "{sharding} on ({mesh}): {owner:?} {element:?}");
        }
    }
}

/// `factors * coordinates + constant`, modulo `modulus`.
fn linear(mesh: &Mesh, factors: &[i64], constant: i64, modulus: i64) -> AxisExpr {
    let terms = mesh.as_slice().iter().zip(factors).map(|(axis, &factor)| AxisExpr::Axis(axis.name) * factor);
    terms.fold(AxisExpr::Const(constant), |sum, term| sum + term) % modulus
}

fn sharding(extents: &[usize], forms: &[(&[i64], i64, i64)]) -> Result<Sharding, ShardingError> {
    let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(extents.iter().copied()));
    let placed = forms.iter().enumerate();
    let placed: Vec<_> = placed
        .map(|(dim, &(factors, constant, modulus))| Placement::block(dim, linear(&mesh, factors, constant, modulus)))
        .collect();
    let shape: Vec<_> = forms.iter().map(|form| form.2.unsigned_abs() as usize).collect();
    Sharding::new(&mesh, &shape, &placed)
}

/// Whether every combination of blocks has an owner, by brute force over all ranks.
fn all_owned(extents: &[usize], forms: &[(&[i64], i64, i64)]) -> bool {
    let digits: Vec<usize> = forms.iter().map(|form| form.2 as usize).collect();
    let mut owned = std::collections::BTreeSet::new();
    for at in elements(extents) {
        let value = |&(factors, constant, modulus): &(&[i64], i64, i64)| {
            let sum: i64 = factors.iter().zip(&at).map(|(factor, &at)| factor * at as i64).sum();
            (sum + constant).rem_euclid(modulus)
        };
        owned.insert(forms.iter().map(value).collect::<Vec<_>>());
    }
    owned.len() == digits.iter().product::<usize>()
}

#[test]
fn two_skews_over_the_same_axes_are_solved_together() {
    let solved = sharding(&[3, 3], &[(&[1, 1], 0, 3), (&[1, -1], 0, 3)]).expect("a bijection");
    check(&solved);
    assert_eq!(solved.owner(&[0, 0], &[2, 1]), [0, 2], "0 + 2 is 2, 0 - 2 is 1 modulo 3");
    check(&sharding(&[5, 5, 5], &[(&[1, 1, 0], 2, 5), (&[0, 1, 1], -3, 5), (&[1, 0, 1], 0, 5)]).expect("a bijection"));
}

#[test]
fn rows_without_an_invertible_factor_are_combined() {
    // The determinant is 2 * 2 - 3 * 3 = -5, which is coprime to 6.
    check(&sharding(&[6, 6], &[(&[2, 3], 1, 6), (&[3, 2], 0, 6)]).expect("a bijection"));
}

#[test]
fn moduli_may_differ() {
    check(&sharding(&[3, 6], &[(&[1, 1], 0, 3), (&[0, 1], 0, 6)]).expect("the axis `y` first, then `x`"));
    check(&sharding(&[2, 3], &[(&[1, 1], 0, 2), (&[0, 1], 1, 3)]).expect("moduli without a common divisor"));
    check(&sharding(&[4, 4], &[(&[1, 2], 0, 4), (&[1, 1], 0, 2)]).expect("one modulus divides the other"));
}

#[test]
fn the_reason_for_a_refusal_is_true() {
    // Modulo 2, a difference is a sum.
    let error = sharding(&[2, 2], &[(&[1, 1], 0, 2), (&[1, -1], 0, 2)]).expect_err("half of the blocks have no owner");
    let why = "cannot place by `(x - y) % 2`: some blocks have no owner: the blocks that a rank owns of the other \
               dimensions leave too few choices for this one; let the modulus be the extent of an axis that no other \
               dimension uses";
    assert_eq!(error.to_string().replace("x + y", "x - y"), why);
    let error = sharding(&[4, 2], &[(&[1, 1], 0, 5)]).expect_err("a formula that is not looked for");
    assert!(error.to_string().contains("no formula for the owners of its blocks was found"), "{error}");
}

#[test]
fn remainders_that_are_the_axis_itself_use_it() {
    let error = sharding(&[2], &[(&[-1], 0, 2), (&[-1], -6, 2)]).expect_err("the diagonal alone has owners");
    assert_eq!(error, ShardingError::AxisTwice { axis: "x".into() });
}

#[test]
fn numbers_are_taken_modulo_the_modulus() {
    let sum = sharding(&[3], &[(&[1], i64::MAX - 1, 3)]).expect("a shift by 0");
    assert_eq!(sum.to_string(), "[0 @ x]");
    check(&sum);
    check(&sharding(&[3, 3], &[(&[i64::MAX, i64::MIN], i64::MIN, 3)]).expect("1 and -2 times a coordinate"));
    let x = AxisExpr::axis("x");
    let nested = |by| (x.clone() * by * by * by + x.clone() * -by) % 5;
    let mesh = Mesh::new([("x", 5)]);
    for by in [i64::MAX, i64::MIN + 1, 1 << 40] {
        // An error is acceptable, an overflow is not.
        if let Ok(sharding) = Sharding::new(&mesh, &[7], &[Placement::block(0, nested(by))]) {
            check(&sharding);
        }
    }
    let error = Sharding::new(&mesh, &[7], &[Placement::block(0, x * i64::MAX * i64::MAX)]);
    let error = error.expect_err("no remainder keeps it small").to_string();
    assert!(error.ends_with("its numbers exceed 2^62; use smaller ones"), "{error}");
}

#[test]
fn the_order_of_clauses_is_no_matter() {
    let mesh = Mesh::new([("x", 3), ("y", 3)]);
    let [x, y] = mesh.axes();
    let clauses = [Placement::block(0, (x + y) % 3), Placement::block(1, (x - y) % 3)];
    let reversed = [clauses[1].clone(), clauses[0].clone()];
    assert_eq!(Sharding::new(&mesh, &[4, 4], &clauses), Sharding::new(&mesh, &[4, 4], &reversed));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Random systems: accepted ones have an owner for every block, and those rejected for blocks without
    /// owners have such blocks.
    #[test]
    fn random_skews_are_solved_or_refused_with_a_true_reason(
        extents in prop::collection::vec(1usize..7, 1..4),
        forms in prop::collection::vec((prop::collection::vec(-7i64..8, 3), -9i64..9, 1i64..7), 1..4),
    ) {
        let forms: Vec<_> = forms.iter().map(|(factors, constant, modulus)| (&factors[..], *constant, *modulus)).collect();
        match sharding(&extents, &forms) {
            Ok(sharding) => {
                check(&sharding);
                let again = Sharding::new(sharding.mesh(), sharding.shape(), &sharding.placements());
                prop_assert_eq!(again, Ok(sharding));
            }
            // Remainders that are the axis itself in the canonical form, twice.
            Err(ShardingError::NoOwner { .. } | ShardingError::AxisTwice { .. }) => prop_assert!(!all_owned(&extents, &forms)),
            Err(error) => prop_assert!(error.to_string().contains("no formula"), "{error}"),
        }
    }

    /// Over axes of one extent that is the modulus and prime, every bijection is solved.
    #[test]
    fn every_bijection_modulo_a_prime_extent_is_solved(
        prime in prop::sample::select(vec![2usize, 3, 5]),
        forms in prop::collection::vec((prop::collection::vec(-4i64..5, 3), -9i64..9), 1..4),
    ) {
        let forms: Vec<_> = forms.iter().map(|(factors, constant)| (&factors[..], *constant, prime as i64)).collect();
        prop_assert_eq!(sharding(&[prime; 3], &forms).is_ok(), all_owned(&[prime; 3], &forms));
    }
}
