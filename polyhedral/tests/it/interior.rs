//! Loops over a part of the dimension that they write: blocks are those of the dimension, so that the interior of a stencil
//! is computed in place.

use polyshard_dsl::{Var, parse_kernel};
use polyshard_layout::Mesh;
use polyshard_polyhedral::Schedule;
use polyshard_program::{Hint, Pattern, Program};

/// `A` and `B` of `n` elements, both in blocks over the ranks that `i` is distributed over.
fn lowered(statement: &str, n: usize, ranks: usize) -> Program {
    let mesh = Mesh::new([("x", ranks)]);
    let kernel = parse_kernel(&format!("fn stencil(A: [f64; {n}]) -> B: [f64; {n}] {{ {statement} }}"));
    let kernel = kernel.unwrap_or_else(|error| panic!("{error}"));
    let (i, [x]) = (Var::new("i"), mesh.axes());
    let schedule = Schedule::from_spec(kernel)
        .distribute(["i"], ["io"], ["ii"], &mesh)
        .shard("A", [i.at(x)])
        .shard("B", [i.at(x)]);
    schedule.lower().unwrap_or_else(|error| panic!("{n} on {ranks} ranks: {error}"))
}

/// Local, or which kind of exchange.
fn kind(program: &Program, tensor: &str) -> &'static str {
    match program.pattern(tensor) {
        Some(Pattern::Local) => "local",
        Some(Pattern::Halo { .. }) => "halo",
        _ => "other",
    }
}

#[test]
fn interiors_are_local_for_all_sizes_and_ranks() {
    for n in 3..40 {
        for ranks in 1..=6 {
            let three = lowered(&format!("B[i] = A[i - 1] + A[i] + A[i + 1] for i in 1..{}", n - 1), n, ranks);
            let full = lowered("B[i] = A[i - 1] else 0.5 + A[i] + A[i + 1] else -1", n, ranks);
            let input = if ranks == 1 { "local" } else { "halo" };
            for stencil in [&three, &full] {
                let found = ["A", "B"].map(|tensor| kind(stencil, tensor));
                assert_eq!(found, [input, "local"], "{n} on {ranks} ranks\n{stencil}");
            }
            let narrow = lowered(&format!("B[i] = 2 * A[i] for i in 2..{}", n - 1), n, ranks);
            assert_eq!([kind(&narrow, "A"), kind(&narrow, "B")], ["local"; 2], "{n} on {ranks} ranks\n{narrow}");
        }
    }
}

/// An offset in the statement is an offset of the range.
#[test]
fn blocks_are_those_of_the_dimension_that_is_written() {
    let shifted = lowered("B[i + 3] = A[i + 3] for i in 0..20", 32, 4);
    assert_eq!([kind(&shifted, "A"), kind(&shifted, "B")], ["local"; 2], "{shifted}");
    // Rank 0 has 3..8, the last one nothing.
    let text = shifted.explain();
    assert!(text.contains("[max(3, 8*x)..min(23, 8*x + 8)]"), "{text}");
}

/// A separate step divides a range, and that costs an exchange.
#[test]
fn a_range_that_is_divided_before_is_divided_itself() {
    let (mesh, i) = (Mesh::new([("x", 4)]), Var::new("i"));
    let kernel = || {
        let text = "fn f(A: [f64; 64]) -> B: [f64; 64] { B[i] = A[i] for i in 40..56 }";
        Schedule::from_spec(parse_kernel(text).expect("a kernel"))
    };
    let at = |schedule: Schedule| {
        let [x] = mesh.axes();
        schedule.shard("A", [i.at(x)]).shard("B", [i.at(x)]).lower().expect("a legal schedule")
    };
    let owners = at(kernel().distribute(["i"], ["io"], ["ii"], &mesh));
    assert_eq!(kind(&owners, "B"), "local");
    let [Hint::ShortRange { filled, ranks: 4, extent: 64, .. }] = owners.hints() else {
        panic!("{:?}", owners.hints())
    };
    assert_eq!(*filled, 2..4);
    let range = at(kernel().divide("i", "ib", "il", 4).distribute(["ib"], ["io"], ["ii"], &mesh));
    assert_eq!(kind(&range, "B"), "other");
    assert!(matches!(range.hints(), [Hint::MovedOutput { over: None, .. }]), "{:?}", range.hints());
}
