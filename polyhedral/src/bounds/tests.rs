use crate::{ErrorKind, Schedule};
use expect_test::{Expect, expect};
use polyshard_dsl::Var;
use polyshard_layout::{AxisExpr, Mesh, Name};
use polyshard_program::{Access, Affine, Assign, DType, KernelSpec, Value};
use polyshard_testing::example;
use polyshard_testing::program::ByExchange;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// `C[i, j] += A[a*i + r + b, j] * W[r]`, whose accesses may well be out of bounds.
fn convolution([a, b]: [i64; 2], [i, j, r, rows]: [i128; 4]) -> KernelSpec {
    let [vi, vj, vr] = ["i", "j", "r"].map(Name::new);
    let rows_of_a = Affine::new([(vi, a), (vr, 1)], b);
    let read = Access::new(Name::new("A"), vec![rows_of_a, Affine::new([(vj, 1)], 0)]);
    KernelSpec {
        inputs: vec![(Name::new("A"), vec![rows, j]), (Name::new("W"), vec![r])],
        output: (Name::new("C"), vec![i, j]),
        target: Access::plain("C", &["i", "j"]),
        assign: Assign::Add,
        value: Value::Mul(Box::new(Value::Access(read)), Box::new(Value::Access(Access::plain("W", &["r"])))),
        dtype: DType::F32,
        ..example::matmul(1, 1, 1)
    }
}

#[track_caller]
fn refused(schedules: impl IntoIterator<Item = Schedule>, why: Expect) {
    let error = |schedule: Schedule| schedule.lower().expect_err("the numbers are too large");
    why.assert_eq(&schedules.into_iter().map(|schedule| format!("{}\n", error(schedule).kind())).collect::<String>());
}

#[test]
fn numbers_that_could_overflow_are_refused_where_they_are_written() {
    refused(
        [
            Schedule::from_spec(convolution([1 << 60, 0], [2, 1, 1, (1 << 60) + 1])),
            Schedule::from_spec(convolution([1, 1 << 60], [1, 1, 1, (1 << 60) + 1])),
        ],
        expect![[r#"
            kernel `matmul`: index `1152921504606846976*i + r` of `A` exceeds 2^60, so sums of indices might overflow; use smaller extents and coefficients
            kernel `matmul`: index `i + r + 1152921504606846976` of `A` exceeds 2^60, so sums of indices might overflow; use smaller extents and coefficients
        "#]],
    );
    // If an index has one value or none, its coefficient and the constant make no difference.
    for harmless in [convolution([i64::MAX, 0], [1, 1, 1, 1]), convolution([1, i64::MIN], [0, 1, 1, 1])] {
        Schedule::from_spec(harmless).lower().expect("nothing is large but what is not used");
    }
    let twice = Affine::new([(Name::new("i"), i64::MAX), (Name::new("i"), i64::MAX)], 0);
    assert_eq!(twice.to_string(), "9223372036854775807*i", "a sum of coefficients stays where a check will see it");
    let matmul = || Schedule::from_spec(example::matmul(8, 8, 8));
    let [outer, inner] = ["x", "y"].map(|name| Mesh::new([(name, 1usize << 30)]));
    refused(
        [
            matmul().divide("m", "mo", "mi", 1 << 62),
            matmul().distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 1 << 40)])),
            matmul().distribute(["m"], ["mo"], ["mi"], &outer).distribute(["n"], ["no"], ["ni"], &inner),
        ],
        expect![[r#"
            loop `m` exceeds 2^60, so sums of indices might overflow; use smaller extents, tiles and parts
            the mesh (x: 1099511627776) has more than 2^31 - 1 ranks, the most that MPI can number; use smaller extents
            the mesh (x: 1073741824, y: 1073741824) has more than 2^31 - 1 ranks, the most that MPI can number; use smaller extents
        "#]],
    );
}

#[test]
fn large_blocks_and_moduli_are_what_they_are_modulo_the_rest() {
    let [m, k] = ["m", "k"].map(Var::new);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let program = Schedule::from_spec(example::matmul(8, 8, 8))
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .shard("A", [m.cyclic(x, 1 << 62)])
        .shard("B", [k.at((x + (i64::MAX - 1)) % 3)])
        .lower()
        .expect("a legal schedule");
    assert_eq!(program.sharding("A").to_string(), "[0 @ cyclic(x, 8)]");
    assert_eq!(program.sharding("B").to_string(), "[0 @ x]");
    assert_eq!(program.sharding("A").local_shape(&[0]), [8, 8], "a block beyond the extent is all of it");
}

/// The numbers near which something overflows, and small ones.
fn number() -> BoxedStrategy<i64> {
    let near = [0, 31, 32, 40, 59, 60, 61, 62].map(|bits| 1i64 << bits);
    let large = (prop::sample::select(near.to_vec()), -2i64..3).prop_map(|(near, off)| near + off);
    prop_oneof![3 => 1i64..9, 2 => large, 1 => prop::sample::select(vec![i64::MAX, i64::MAX - 1])].boxed()
}

fn signed() -> BoxedStrategy<i64> {
    (number(), any::<bool>()).prop_map(|(number, negative)| if negative { -number } else { number }).boxed()
}

/// One step by its number, with loops by position.
fn step(schedule: Schedule, kind: u8, at: usize, size: i64, loops: &mut Vec<String>) -> Schedule {
    let at = at % loops.len();
    let name = loops[at].clone();
    let made = |n: usize| format!("l{}", 2 * n);
    let (outer, inner) = (made(schedule.steps().count()), format!("l{}", 2 * schedule.steps().count() + 1));
    let size = size.max(0) as usize;
    match kind % 4 {
        0 => {
            loops.splice(at..=at, [outer.clone(), inner.clone()]);
            schedule.split(&*name, &*outer, &*inner, size)
        }
        1 => {
            loops.splice(at..=at, [outer.clone(), inner.clone()]);
            schedule.divide(&*name, &*outer, &*inner, size)
        }
        2 if at + 1 < loops.len() => {
            let next = loops.remove(at + 1);
            loops[at].clone_from(&outer);
            schedule.fuse(&*name, &*next, &*outer)
        }
        _ => {
            let by: Vec<&str> = loops[..at].iter().map(String::as_str).collect();
            schedule.rotate(&*name, by)
        }
    }
}

/// The numbers of a random schedule.
type Numbers = ([i64; 4], [i64; 2], Vec<i64>, Vec<(u8, usize, i64)>, Vec<(u8, i64, i64, i64)>, (usize, bool));

fn numbers() -> impl Strategy<Value = Numbers> {
    let small = || prop_oneof![3 => 1i64..9, 1 => number()].boxed();
    (
        [number(), small(), small(), number()],
        [prop_oneof![2 => -2i64..3, 1 => signed()], prop_oneof![2 => 0i64..3, 1 => signed()]],
        prop::collection::vec(small(), 1..3),
        prop::collection::vec((any::<u8>(), 0usize..6, number()), 0..4),
        prop::collection::vec((0u8..4, signed(), signed(), small()), 3),
        (0usize..12, prop::bool::weighted(0.8)),
    )
}

/// The schedule of these numbers, if such a mesh is possible.
fn schedule_of((extents, coefficients, axes, steps, placed, (nothing, fitting)): Numbers) -> Option<Schedule> {
    let (mut extents, [a, b]) = (extents.map(i128::from), coefficients.map(i128::from));
    if fitting {
        extents[3] = (a * (extents[0] - 1)).max(0) + extents[2] + b;
    }
    if let Some(extent) = extents.get_mut(nothing) {
        // With an empty index, no access is out of bounds.
        *extent = 0;
    }
    let size = axes.iter().try_fold(1i64, |size, &axis| size.checked_mul(axis));
    size.filter(|size| (1..=1 << 62).contains(size))?;
    let mesh = Mesh::new(["x", "y"].into_iter().zip(axes.iter().map(|&axis| axis as usize)));
    let n = mesh.ndim();
    let inner = &["ii", "ji"][..n];
    let mut schedule = Schedule::from_spec(convolution(coefficients, extents)).distribute(
        ["i", "j"][..n].iter().copied(),
        ["io", "jo"][..n].iter().copied(),
        inner.iter().copied(),
        &mesh,
    );
    let mut loops: Vec<String> = inner.iter().chain(&["j", "r"][n - 1..]).map(|&name| name.to_owned()).collect();
    for (kind, at, size) in steps {
        schedule = step(schedule, kind, at, size, &mut loops);
    }
    for (tensor, (kind, factor, constant, block)) in ["A", "W", "C"].into_iter().zip(placed) {
        let axis = |i: usize| AxisExpr::Axis(mesh.as_slice()[i % n].name);
        let extent = mesh.as_slice()[0].extent as i64;
        let dim = polyshard_dsl::dim(0);
        let clause = match kind {
            0 => dim.at(axis(0)),
            1 => dim.cyclic(axis(1), block as usize),
            2 => dim.at((axis(0) * factor + axis(1) * constant + constant) % extent),
            _ => dim.at((axis(0) + factor) % block),
        };
        schedule = schedule.shard(tensor, [clause]);
    }
    Some(schedule)
}

/// Whether the schedule has a program; if not, the error must be the user's.
fn lowers(schedule: &Schedule) -> bool {
    match schedule.lower() {
        Ok(program) => {
            let text = format!("{program}{}{}", program.explain(), program.by_exchange());
            assert!(!text.is_empty(), "a program can be printed");
            true
        }
        Err(error) => {
            assert!(!matches!(error.kind(), ErrorKind::Unproved { .. }), "{error}\n{schedule}");
            false
        }
    }
}

/// Otherwise, the law below could hold because all schedules are rejected.
#[test]
fn many_schedules_of_large_numbers_are_legal() {
    let mut runner = TestRunner::deterministic();
    let drawn = (0..800).filter_map(|_| schedule_of(numbers().new_tree(&mut runner).expect("no filter").current()));
    let legal = drawn.filter(lowers).count();
    assert!(legal > 20, "only {legal} of 800 are legal");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// For any numbers, there is a program, whose text can be printed, or an error of the user's.
    #[test]
    fn no_number_overflows(numbers in numbers()) {
        if let Some(schedule) = schedule_of(numbers) {
            lowers(&schedule);
        }
    }
}
