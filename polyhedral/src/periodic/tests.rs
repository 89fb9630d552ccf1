//! Which indices wrap, which are rejected, and that the conditions given to isl agree with arithmetic.

use super::*;
use crate::Schedule;
use crate::isl::Isl;
use crate::nest::Nest;
use expect_test::{Expect, expect};
use polyshard_dsl::dim;
use polyshard_layout::{AxisExpr, Mesh};
use polyshard_program::{Assign, DType, Kernel, KernelSpec, Modulus, Number, Program, Value, periods};

fn index(factor: i64, constant: i64, modulus: impl Into<Option<i64>>) -> Affine {
    let sum = Affine::new([("i".into(), factor)], constant);
    match modulus.into() {
        Some(modulus) => sum.modulo(Modulus::Number(modulus)),
        None => sum,
    }
}

/// `B[i]` of `extent` elements is the sum of `A`, of `of` elements, at these indices.
fn sum_of(extent: i128, of: i128, indices: impl IntoIterator<Item = Affine>) -> KernelSpec {
    let access = |index| Value::Access(Access::new("A".into(), vec![index]));
    let value = indices.into_iter().map(access).reduce(|a, b| Value::Add(Box::new(a), Box::new(b)));
    KernelSpec {
        name: "ring".into(),
        dtype: DType::F64,
        inputs: vec![("A".into(), vec![of])],
        output: ("B".into(), vec![extent]),
        ranges: Vec::new(),
        scalars: Vec::new(),
        moduli: vec![("n".into(), of), ("far".into(), 1 << 70), ("none".into(), 0)],
        target: Access::new("B".into(), vec![index(1, 0, None)]),
        assign: Assign::Set,
        value: value.unwrap_or(Value::Literal(Number::Int(0))),
    }
}

fn captured(name: &str) -> Affine {
    index(1, 1, None).modulo(Modulus::Captured(name.into()))
}

fn check(specs: impl IntoIterator<Item = KernelSpec>, expect: Expect) {
    let shown = specs.into_iter().map(|spec| match spec.check() {
        Ok(kernel) => {
            let accesses = kernel.accesses_of("A".into());
            let periods: Vec<_> = periods(&accesses, kernel.vars()).into_iter().flatten().collect();
            format!("{} wraps at {periods:?}\n", kernel.statement())
        }
        Err(error) => format!("{error}\n"),
    });
    expect.assert_eq(&shown.collect::<String>());
}

#[test]
fn an_index_wraps_in_its_period() {
    check(
        [
            sum_of(8, 8, [captured("n"), index(1, 7, 8)]),
            sum_of(8, 8, [captured("m")]),
            sum_of(8, 8, [index(1, 0, 8), index(1, 0, None)]),
            sum_of(4, 8, [index(1, 3, 8)]),
            sum_of(1, 1, [index(1, 1, 1)]),
            sum_of(0, 0, [captured("n")]),
            sum_of(3, 0, [captured("n"), index(1, 0, None)]),
        ],
        expect![[r#"
            B[i] = A[(i + 1) % 8] + A[(i + 7) % 8] wraps at [8]
            no modulus `m`; capture it from the surroundings
            B[i] = A[i % 8] + A[i] wraps at []
            B[i] = A[(i + 3) % 8] wraps at []
            B[i] = A[(i + 1) % 1] wraps at []
            B[i] = A[i + 1] wraps at []
            index `i` has extent 3 in `B[i]`, but 0 in `A[i]`; make them match
        "#]],
    );
}

#[test]
fn a_modulus_is_between_1_and_the_extent_and_one_in_a_dimension() {
    let mut spec = sum_of(8, 8, [index(1, 0, None)]);
    check(
        [
            sum_of(8, 8, [index(1, 1, 9)]),
            sum_of(8, 8, [index(1, 1, -8)]),
            sum_of(8, 8, [captured("none")]),
            sum_of(8, 8, [captured("far")]),
            sum_of(8, 8, [index(1, 1, 8), index(1, 1, 4)]),
            sum_of(8, 8, [index(1, 1, 4), index(1, 0, None)]),
            // An index that stays below both moduli means the same with either.
            sum_of(4, 8, [index(1, 1, 4), index(1, 0, 8)]),
        ],
        expect![[r#"
            `A[(i + 1) % 9]` wraps at 9, but dimension 0 of `A` has extent 8; a modulus is between 1 and the extent
            `A[(i + 1) % -8]` wraps at -8, but dimension 0 of `A` has extent 8; a modulus is between 1 and the extent
            `A[(i + 1) % none]` wraps at 0, but dimension 0 of `A` has extent 8; a modulus is between 1 and the extent
            `A[(i + 1) % far]` wraps at 1180591620717411303424, but dimension 0 of `A` has extent 8; a modulus is between 1 and the extent
            `A[(i + 1) % 8]` and `A[(i + 1) % 4]` read dimension 0 of `A`, but do not wrap at the same place; pass the array twice, under two names
            `A[(i + 1) % 4]` and `A[i]` read dimension 0 of `A`, but do not wrap at the same place; pass the array twice, under two names
            B[i] = A[(i + 1) % 4] + A[i % 8] wraps at [4]
        "#]],
    );
    spec.target.index = vec![index(1, 1, 8)];
    check(
        [spec],
        expect![[r#"
            `B[(i + 1) % 8]` is written, but its index `(i + 1) % 8` wraps; only indices of inputs may wrap
        "#]],
    );
}

#[test]
fn large_coefficients_count_by_their_remainders() {
    check(
        [sum_of(8, 8, [index(i64::MAX, i64::MIN, 8)])],
        expect![[r#"
            B[i] = A[(9223372036854775807*i - 9223372036854775808) % 8] wraps at [8]
        "#]],
    );
    for (factor, constant, modulus) in [(3, 7, 5), (-9, 4, 7), (i64::MIN, i64::MAX, 6), (8, -16, 8), (1, 1, 2)] {
        let (written, unwrapped) = (index(factor, constant, modulus), index(factor, constant, modulus).unwrapped());
        assert!(unwrapped.modulus.is_none(), "{unwrapped}");
        assert!(unwrapped.coefficient("i".into()).abs() <= modulus / 2 && unwrapped.constant.abs() <= modulus / 2);
        let at = |index: &Affine, i: i128| {
            (i128::from(index.coefficient("i".into())) * i + i128::from(index.constant)).rem_euclid(modulus.into())
        };
        assert!((-20..20).all(|i| at(&written, i) == at(&unwrapped, i)), "{written}: {unwrapped}");
    }
}

#[test]
fn a_periodic_index_is_saved_and_read_again() {
    let kernel = sum_of(8, 8, [captured("n")]).check().expect("a kernel");
    let text = serde_json::to_string(&kernel).expect("plain data");
    assert_eq!(serde_json::from_str::<Kernel>(&text).expect("what was written"), kernel);
    // Data saved before periodic indices existed have no modulus.
    let plain: Affine = serde_json::from_str(r#"{"terms":[["i",1]],"constant":2}"#).expect("an index");
    assert_eq!(plain, index(1, 2, None));
    assert_eq!(serde_json::to_string(&plain).expect("plain data"), r#"{"terms":[["i",1]],"constant":2}"#);
}

/// The condition for the elements of a wrapped range, compared with counting.
#[test]
fn elements_are_the_remainders_of_a_range() {
    let isl = Isl::new().expect("isl starts");
    let kernel = sum_of(8, 8, [index(1, 1, 8)]).check().expect("a kernel");
    let nest = Nest::default();
    let relations = Relations { kernel: &kernel, nest: &nest };
    for (low, high, period) in
        [(-1, 3, 8), (6, 10, 8), (-9, -7, 8), (5, 5, 8), (7, 2, 8), (-3, 20, 8), (3, 7, 1), (0, 8, 8)]
    {
        let range = (Expr::constant(low), Expr::constant(high));
        let region = Region { periods: vec![Some(period)], ..Region::of_ranges(vec![range]) };
        let found = isl.relation(&relations.elements(Depth(0), &region)).expect("isl reads it");
        let elements = (0..period).filter(|element| (low..high).any(|i: i64| i.rem_euclid(period) == *element));
        let alone = |element: i64| {
            let mut alone = Conditions::new(0, 1);
            alone.equal(&Form::output(0), &Form::constant(element));
            alone
        };
        let counted = elements.map(alone).reduce(Conditions::or).unwrap_or_else(|| {
            let mut none = Conditions::new(0, 1);
            none.below(&Form::output(0), &Form::output(0));
            none
        });
        let counted = isl.relation(&counted).expect("isl reads it");
        let same = found.is_equal(&counted);
        assert!(same.expect("isl decides"), "{low}..{high} mod {period}");
    }
}

fn ring(n: usize, ranks: usize) -> Program {
    let mesh = Mesh::new([("x", ranks)]);
    let spec = sum_of(n as i128, n as i128, [index(1, n as i64 - 1, n as i64), index(1, 1, n as i64)]);
    let schedule = Schedule::from_spec(spec)
        .distribute(["i"], ["io"], ["ii"], &mesh)
        .shard("A", [dim(0).at(AxisExpr::axis("x"))])
        .shard("B", [dim(0).at(AxisExpr::axis("x"))]);
    schedule.lower().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_program_shows_where_it_wraps() {
    let program = ring(12, 3);
    let shown = program.to_string();
    let transfer = shown.lines().find(|line| line.contains("A_tile")).unwrap_or_default();
    expect!["    A_tile[6] = A[(4*x - 1 .. +6) % 12]: halo from x - 1..=x + 1 around the axis"].assert_eq(transfer);
    let explained = program.explain();
    let of_a = explained.lines().take_while(|line| !line.starts_with("B:")).map(|line| format!("{line}\n"));
    expect![[r#"
        A: halo(x: -1..=1), once, outside all serial loops
            halo from x - 1..=x + 1 around the axis
            tile [6] of A[(4*x - 1 .. +6) % 12]
            at most 16 bytes received per rank and step
            messages with at most 2 other ranks
            a rank's own elements are read in place
            the same in all iterations: messages are planned once
            read in place by threads, sent in messages between processes
            - the needed region wraps around the end of the tensor
            - axis x: neither aligned, nor the same region for all x
            - owners are at the offsets x: -1..=1 from the rank
            - a few neighbours own it, around the rank's own elements: halo
    "#]]
    .assert_eq(&of_a.collect::<String>());
}

#[test]
fn what_wraps_is_copied_even_if_it_is_there() {
    let shown = ring(12, 1).to_string();
    let transfer = shown.lines().find(|line| line.contains("A_tile")).unwrap_or_default();
    expect!["    A_tile[14] = A[(12*x - 1 .. +14) % 12]: gathered from own shard"].assert_eq(transfer);
}

/// Tiles of ranks without work are empty, even if the hull of their reads is not.
#[test]
fn empty_tiles_read_nothing() {
    let program = ring(5, 8);
    let region = &program.nest().transfers[0].region;
    for x in 0..8 {
        let empty = region.when.iter().any(|(a, b)| a.eval(&[x], &[]) >= b.eval(&[x], &[]));
        assert_eq!(empty, x >= 5, "rank {x}");
    }
}
