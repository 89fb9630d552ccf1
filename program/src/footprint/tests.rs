//! Footprints against the elements that are touched, one by one.

use super::*;
use crate::{Assign, DType, KernelSpec, Modulus, Number, Value};
use polyshard_layout::Name;
use proptest::prelude::*;

/// A kernel with `i` in `0..extents[0]` and `j` in `0..extents[1]` that copies elements from one index to another.
fn kernel(extents: [i64; 2], read: Affine, shape: i128, written: Affine, is_open: bool) -> Option<Kernel> {
    let [a, c] = ["A", "C"].map(Name::new);
    let access = Access::new(a, vec![read]);
    let access = if is_open { access.or_else(Value::Literal(Number::Float(0.0))) } else { access };
    let ranges = ["i", "j"].iter().zip(extents).map(|(name, extent)| (Name::new(name), 0..i128::from(extent)));
    let spec = KernelSpec {
        name: Name::new("f"),
        dtype: DType::F64,
        inputs: vec![(a, vec![shape])],
        output: (c, vec![shape]),
        ranges: ranges.collect(),
        scalars: vec![],
        moduli: Vec::new(),
        target: Access::new(c, vec![written]),
        assign: Assign::Add,
        value: Value::Access(access),
    };
    spec.check().ok()
}

fn index(by: [i64; 2], constant: i64) -> Affine {
    Affine::new(["i", "j"].iter().zip(by).map(|(name, by)| (Name::new(name), by)), constant)
}

/// The values of an index that are inside of the tensor, ascending and each once.
fn touched(extents: [i64; 2], by: [i64; 2], constant: i64, modulus: Option<i64>, shape: i64) -> Vec<i64> {
    let points = (0..extents[0]).flat_map(|i| (0..extents[1]).map(move |j| [i, j]));
    let values = points.map(|[i, j]| by[0] * i + by[1] * j + constant);
    let values = values.map(|value| modulus.map_or(value, |modulus| value.rem_euclid(modulus)));
    let mut values: Vec<_> = values.filter(|value| (0..shape).contains(value)).collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn indices(Progression { first, step, count }: Progression) -> Vec<i64> {
    (0..count).map(|nth| first + nth * step).collect()
}

proptest! {
    #[test]
    fn boxes_have_all_that_is_read_and_nothing_that_is_not_written(
        extents in [1i64..5, 0i64..5], by in [-3i64..4, -3i64..4], constant in -4i64..9, shape in 1i64..20,
        modulus in prop::option::of(1i64..20), is_open in any::<bool>(),
    ) {
        let affine = index(by, constant);
        let modulus = modulus.map(|modulus| modulus.min(shape));
        let read = modulus.map_or(affine.clone(), |modulus| affine.clone().modulo(Modulus::Number(modulus)));
        if let Some(kernel) = kernel(extents, read, shape.into(), index([0, 0], 0), is_open) {
            let cover = kernel.reads_at_most(kernel.accesses_of(Name::new("A"))[0]);
            let held = indices(cover.dims[0]);
            let all = touched(extents, by, constant, modulus, shape);
            prop_assert!(all.iter().all(|value| held.contains(value)), "{kernel}: {cover} lacks some of {all:?}");
            prop_assert!(held.iter().all(|value| (0..shape).contains(value)), "{kernel}: {cover}");
        }
        if let Some(kernel) = kernel(extents, index([0, 0], 0), shape.into(), affine, false) {
            let written = touched(extents, by, constant, None, shape);
            if let Some(found) = kernel.writes_at_least() {
                // A variable that is not in the target's index may have no values: its sum is empty, and written.
                let is_exact = (by[1] != 0 || extents[1] > 0).then(|| indices(found.dims[0]) == written);
                prop_assert!(is_exact != Some(false), "{kernel}: {found} is not {written:?}");
            }
        }
    }

    #[test]
    fn a_box_contains_another_one_if_it_has_its_elements(
        own in (0i64..5, 1i64..4, 0i64..5), other in (0i64..5, 1i64..4, 0i64..5),
    ) {
        let [own, other] = [own, other].map(|(first, step, count)| Progression { first, step, count });
        let has_all = indices(other).iter().all(|index| indices(own).contains(index));
        let [own, other] = [own, other].map(|along| Footprint { dims: vec![along] });
        prop_assert_eq!(own.contains(&other), has_all, "{} in {}", other, own);
    }
}

#[test]
fn boxes_read_as_ranges() {
    let along = |first, step, count| Progression { first, step, count };
    let shown = Footprint { dims: vec![along(1, 1, 8), along(1, 2, 3), along(4, 1, 1), along(0, 1, 0)] };
    assert_eq!(shown.to_string(), "[1..9, 1..6 by 2, 4..5, 0..0]");
    assert!(shown.is_empty());
}

#[test]
fn dimensions_that_share_a_variable_are_no_box() {
    let spec = |index: Vec<Affine>, shape: Vec<i128>| KernelSpec {
        name: Name::new("f"),
        dtype: DType::F64,
        inputs: vec![(Name::new("v"), vec![4])],
        output: (Name::new("C"), shape),
        ranges: vec![],
        scalars: vec![],
        moduli: Vec::new(),
        target: Access::new(Name::new("C"), index),
        assign: Assign::Add,
        value: Value::Access(Access::plain("v", &["i"])),
    };
    let i = || Affine::new([(Name::new("i"), 1)], 0);
    assert_eq!(spec(vec![i(), i()], vec![4, 4]).check().expect("a diagonal").writes_at_least(), None);
    let row = spec(vec![i(), Affine::new([], 2)], vec![4, 4]).check().expect("a column");
    assert_eq!(row.writes_at_least().map(|writes| writes.to_string()).as_deref(), Some("[0..4, 2..3]"));
}

#[test]
fn what_a_box_has_and_another_does_not_is_in_boxes() {
    let along = |first, step, count| Progression { first, step, count };
    let all: Vec<_> = [0, 1, 3]
        .into_iter()
        .flat_map(|first| [(1, 4), (2, 3), (3, 1), (1, 0)].map(move |(step, count)| (first, step, count)))
        .collect();
    let has = |one: &Progression, at: i64| (0..one.count).any(|nth| one.first + nth * one.step == at);
    let holds = |one: &Footprint, at: [i64; 2]| one.dims.iter().zip(at).all(|(along, at)| has(along, at));
    for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
        let [one, other] = [one, other].map(|&(first, step, count)| along(first, step, count));
        for [a, b] in [[one, one], [one, along(1, 1, 3)], [along(2, 2, 2), one]] {
            let [whole, taken] = [[a, b], [other, along(0, 1, 3)]].map(|dims| Footprint { dims: dims.to_vec() });
            let rest = whole.without(&taken);
            for at in (0..9).flat_map(|i| (0..9).map(move |j| [i, j])) {
                let count = rest.iter().filter(|part| holds(part, at)).count();
                // Elements between those of the other one are left even if the other one has them.
                assert!(count <= 1 && (count == 1) <= holds(&whole, at), "{whole} without {taken} at {at:?}");
                assert!(holds(&taken, at) || (count == 1) == holds(&whole, at), "{whole} without {taken} at {at:?}");
            }
            let is_dense = taken.dims.iter().all(|along| along.step == 1);
            let left =
                rest.iter().any(|part| (0..9).any(|i| (0..9).any(|j| holds(part, [i, j]) && holds(&taken, [i, j]))));
            assert!(!(is_dense && left), "{whole} without {taken}");
        }
    }
}
