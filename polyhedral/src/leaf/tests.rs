//! Which leaves are recognised, where they are, and why others are nests.

use super::*;
use crate::Schedule;
use crate::input::transfers;
use crate::output::output;
use expect_test::{Expect, expect};
use polyshard_layout::{Mesh, Name};
use polyshard_program::{AxisId, Expr, KernelSpec};
use polyshard_testing::example;

/// The statement `C[target] assign value` over `f32`, where each index has 8 values.
fn kernel(target: &[&str], assign: Assign, inputs: &[(&str, usize)], value: Value) -> Kernel {
    let spec = KernelSpec {
        inputs: inputs.iter().map(|&(name, ndim)| (Name::new(name), vec![8; ndim])).collect(),
        output: (Name::new("C"), vec![8; target.len()]),
        target: Access::plain("C", target),
        assign,
        value,
        ..example::matmul(1, 1, 1)
    };
    spec.check().expect("a kernel")
}

fn access(tensor: &str, index: &[&str]) -> Value {
    Value::Access(Access::plain(tensor, index))
}

fn multiply(a: Value, b: Value) -> Value {
    Value::Mul(Box::new(a), Box::new(b))
}

/// The roles of the indices of a product and its factor, or why the statement is not a product.
#[track_caller]
fn check(kernel: &Kernel, expect: Expect) {
    expect.assert_eq(&match contraction(kernel) {
        Ok((roles, alpha)) => {
            let roles = kernel.vars().iter().zip(roles).map(|(var, role)| format!("{}={role:?}", var.name));
            format!("{}, times {alpha}", roles.collect::<Vec<_>>().join(" "))
        }
        Err(why) => why,
    });
}

#[test]
fn products_of_two_tensors_are_recognised_in_any_transposition() {
    let operands = [("A", 2), ("B", 2)];
    let (a, b) = (access("A", &["k", "m"]), access("B", &["n", "k"]));
    check(
        &kernel(&["m", "n"], Assign::Add, &operands, multiply(a.clone(), b.clone())),
        expect!["m=M n=N k=K, times 1"],
    );
    let scaled = multiply(Value::Literal(Number::Int(3)), Value::Neg(Box::new(multiply(a, b))));
    check(&kernel(&["n", "m"], Assign::Add, &operands, scaled), expect!["n=N m=M k=K, times 3 * -1"]);
    let batched = multiply(access("A", &["b", "m", "k"]), access("B", &["b", "k"]));
    check(&kernel(&["b", "m"], Assign::Set, &[("A", 3), ("B", 2)], batched), expect!["b=Batch m=M k=K, times 1"]);
}

#[test]
fn what_is_no_product_of_two_says_why() {
    let (a, b) = (access("A", &["m", "k"]), access("B", &["k", "n"]));
    let operands = [("A", 2), ("B", 2)];
    let product = multiply(a.clone(), b.clone());
    check(&kernel(&["m", "n"], Assign::Max, &operands, product), expect!["`max=` does not add up products"]);
    let sum = Value::Add(Box::new(a.clone()), Box::new(b));
    check(&kernel(&["m", "n"], Assign::Add, &operands, sum), expect!["`A[m, k] + B[k, n]` is not a product"]);
    check(&kernel(&["m"], Assign::Add, &[("A", 2)], a.clone()), expect!["`A[m, k]` is not a product of two tensors"]);
    let outer = multiply(access("A", &["m"]), access("B", &["n"]));
    check(
        &kernel(&["m", "n"], Assign::Add, &[("A", 1), ("B", 1)], outer),
        expect!["no index is summed over both operands"],
    );
    let dot = multiply(access("A", &["k"]), access("B", &["k"]));
    check(
        &kernel(&[], Assign::Add, &[("A", 1), ("B", 1)], dot),
        expect!["no index is in the output and in only one operand"],
    );
    let pointwise = multiply(a, access("B", &["m", "k"]));
    check(&kernel(&["m", "k"], Assign::Set, &operands, pointwise), expect!["no index is summed over both operands"]);
}

/// The leaf of a schedule and the number of serial loops around it.
fn found(schedule: &Schedule) -> (Leaf, usize) {
    let context = &Context::new(schedule).expect("the steps are legal");
    let (mut transfers, _) = transfers(context).expect("inputs have transfers");
    transfers.push(output(context).expect("the output has a route").0);
    let (leaf, depth) = leaf(context, &transfers).expect("there is a leaf");
    (leaf, depth.0)
}

#[test]
fn a_leaf_without_a_step_has_all_loops_inside_the_last_transfer() {
    let matmul = Schedule::from_spec(example::matmul(8, 8, 8));
    let (leaf, depth) = found(&matmul);
    assert!(matches!((leaf.op, depth), (LeafOp::Contraction { .. }, 0)));
    // A product of a matrix and a vector waits for memory, as a nest does.
    assert_eq!(found(&Schedule::from_spec(example::matmul(8, 1, 8))).0.op, LeafOp::Nest);
    let mesh = Mesh::new([("x", 2)]);
    let panels = matmul
        .distribute(["m"], ["mo"], ["mi"], &mesh)
        .divide("k", "ko", "ki", 4)
        .reorder(["ko", "mi", "n", "ki"])
        .shard("B", [polyshard_dsl::dim(0).at(mesh.axes::<1>()[0])])
        .communicate("B", "ko");
    assert_eq!(found(&panels).1, 1);
}

#[test]
fn fused_loops_are_a_leaf_if_their_instances_are_a_box() {
    let tiles = |size| {
        let fused = Schedule::from_spec(example::matmul(8, 8, 8)).fuse("m", "n", "f").split("f", "fo", "fi", size);
        fused.tensorize(["fi", "k"])
    };
    assert_eq!(found(&tiles(4)).1, 1);
    // Tiles of 6 of the 8 by 8 instances are parts of one row or of two.
    let error = tiles(6).lower().expect_err("some tiles are no box");
    assert!(matches!(error.kind(), ErrorKind::NotABox { .. }), "{error}");
}

#[test]
fn a_leaf_starts_at_the_tile_of_its_rank_and_moves_by_the_coefficients_of_its_accesses() {
    let rows = Schedule::from_spec(example::matmul(8, 6, 4))
        .distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 4)]))
        .tensorize(["mi", "n", "k"]);
    let (leaf, depth) = found(&rows);
    assert_eq!((leaf.op.kind(), depth), (LeafKind::Contraction, 0));
    let x = Expr::symbol(polyshard_program::Symbol::Coordinate(AxisId(0)));
    assert_eq!(leaf.target.base, [x.multiply(2), Expr::constant(0)]);
    assert_eq!(leaf.target.strides, [[1, 0, 0], [0, 1, 0]]);
    assert_eq!(leaf.operands[1].strides, [[0, 0, 1], [0, 1, 0]]);
}
