//! The regions that accesses touch, and tiles that are rejected.

use super::*;
use crate::Schedule;
use expect_test::{Expect, expect};
use polyshard_dsl::dim;
use polyshard_layout::Mesh;
use polyshard_program::{Assign, AxisId, KernelSpec, Value};
use polyshard_testing::example;

/// `C[i] = sum of A[coefficient * i + offset]`, where `A` has `extent` elements and `C` has 12, on 4 ranks.
fn stencil(extent: i128, offsets: &[i64]) -> Schedule {
    let name = Name::new("A");
    let access = |&offset| Value::Access(Access::new(name, vec![Affine::new([(Name::new("i"), 1)], offset)]));
    let sum = offsets.iter().map(access).reduce(|a, b| Value::Add(Box::new(a), Box::new(b)));
    let spec = KernelSpec {
        inputs: vec![(name, vec![extent])],
        output: (Name::new("C"), vec![12]),
        ranges: vec![(Name::new("i"), 0..12)],
        target: Access::plain("C", &["i"]),
        assign: Assign::Set,
        value: sum.expect("an access"),
        ..example::matmul(1, 1, 1)
    };
    Schedule::from_spec(spec).distribute(["i"], ["io"], ["ii"], &Mesh::new([("x", 4)]))
}

/// The region of an input at a depth, hoisted.
#[track_caller]
fn check(schedule: &Schedule, tensor: &str, depth: usize, expect: Expect) {
    let context = Context::new(schedule).expect("the steps are legal");
    let name = Name::new(tensor);
    let tensor = context.kernel().inputs().iter().find(|input| input.name == name).expect("an input");
    let accesses = context.kernel().accesses_of(name);
    let (depth, region) = context.hoisted(&accesses, Depth(depth), &tensor.shape);
    let loops = &context.nest().loops;
    let shown = |expr: &Expr| {
        expr.show(&|symbol| match symbol {
            Symbol::Coordinate(AxisId(axis)) => context.names(&[axis]),
            Symbol::Counter(number) => {
                context.nest().node(loops[context.nest().distributed + number.0]).name.to_string()
            }
        })
    };
    let ranges: Vec<_> = region.ranges.iter().map(|(low, high)| format!("{}..{}", shown(low), shown(high))).collect();
    let capacity = context.capacity(&region, None, name).expect("it can be counted");
    expect.assert_eq(&format!("[{}] at depth {}, at most {capacity} elements", ranges.join(", "), depth.0));
    let proofs = context.covers(&region, depth, &accesses, tensor).expect("the tile serves the leaf");
    assert_eq!(proofs[1].claim, format!("the tile is inside {name}"));
}

#[test]
fn accesses_that_differ_in_constants_have_one_hull() {
    check(&stencil(14, &[0, 2]), "A", 0, expect!["[3*x..3*x + 5] at depth 0, at most 5 elements"]);
    check(&stencil(14, &[0, 1, 2]), "A", 1, expect!["[3*x + ii..3*x + ii + 3] at depth 1, at most 3 elements"]);
}

#[test]
fn a_region_is_hoisted_out_of_loops_that_do_not_change_it() {
    let panels =
        Schedule::from_spec(example::matmul(8, 6, 4)).divide("k", "ko", "ki", 2).reorder(["m", "ko", "n", "ki"]);
    check(&panels, "A", 3, expect!["[m..m + 1, 2*ko..2*ko + 2] at depth 2, at most 2 elements"]);
    check(&panels, "A", 1, expect!["[m..m + 1, 0..4] at depth 1, at most 4 elements"]);
    check(&panels, "B", 2, expect!["[2*ko..2*ko + 2, 0..6] at depth 2, at most 12 elements"]);
}

#[test]
fn a_tile_that_does_not_hold_what_is_read_is_a_bug() {
    let schedule = stencil(14, &[0, 2]);
    let context = Context::new(&schedule).expect("the steps are legal");
    let (kernel, depth) = (context.kernel(), Depth(0));
    let (tensor, accesses) = (&kernel.inputs()[0], kernel.accesses_of(Name::new("A")));
    let narrow = context.region(&accesses[..1], depth, &tensor.shape);
    let error = context.covers(&narrow, depth, &accesses, tensor).expect_err("element 2 is outside");
    assert!(matches!(error.kind(), ErrorKind::Unproved { .. }), "{error}");
    // Nor may it hold elements outside the tensor.
    let wide = Region::of_ranges(vec![(Expr::constant(0), Expr::constant(15))]);
    let error = context.covers(&wide, depth, &accesses, tensor).expect_err("there are 14 elements");
    assert!(matches!(error.kind(), ErrorKind::Unproved { .. }), "{error}");
}

#[test]
fn a_tile_that_cannot_be_counted_is_refused() {
    let schedule = Schedule::from_spec(example::matmul(8, 6, 4));
    let context = Context::new(&schedule).expect("the steps are legal");
    let far = (Expr::constant(0), Expr::constant(1 << 40));
    let large = Region::of_ranges(vec![far.clone(), far]);
    let error = context.capacity(&large, None, Name::new("C")).expect_err("2^80 elements");
    assert_eq!(error.kind(), &ErrorKind::TooLarge { what: "a tile of `C`".into() });
}

#[test]
fn the_depth_asked_for_is_inside_the_loop_named() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let schedule = Schedule::from_spec(example::matmul(8, 6, 4))
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .shard("A", [dim(0).at(x)])
        .shard("B", [dim(0).at(x)])
        .communicate("B", "n");
    let context = Context::new(&schedule).expect("the steps are legal");
    assert_eq!(context.requested(Name::new("A")), (Depth(0), Some(StepId(2))));
    assert_eq!(context.requested(Name::new("B")), (Depth(2), Some(StepId(4))));
    assert_eq!(context.requested(Name::new("C")), (Depth(0), None));
}
