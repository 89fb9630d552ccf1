//! The statements of a sequence's program, and the lifetimes of its arrays.

use super::Sequence;
use expect_test::expect;
use polyshard_dsl::{Clause, Var, dim, parse_kernel};
use polyshard_layout::Mesh;
use polyshard_polyhedral::Schedule;
use polyshard_program::{ArrayKind, Program, Statement};
use polyshard_testing::example;

/// Five products in a row, in which B is read late, C is never read, and D in two shardings.
fn five() -> Program {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let [m, k] = ["m", "k"].map(Var::new);
    let square = |a: Clause, c: Clause| {
        let schedule = Schedule::from_spec(example::matmul(4, 4, 4));
        let rows = schedule.distribute([m], [Var::new("mo")], [Var::new("mi")], &mesh);
        rows.shard("A", [a]).shard("C", [c]).lower().expect("a legal schedule")
    };
    let (rows, columns) = (square(m.at(x), m.at(x)), square(k.at(x), m.at(x)));
    let sequence = Sequence::new().stage(&rows, ["A", "A"], "B").stage(&rows, ["A", "A"], "C");
    let sequence = sequence.stage(&columns, ["A", "A"], "D").stage(&columns, ["D", "B"], "E");
    sequence.stage(&rows, ["D", "E"], "F").build().expect("stages that fit")
}

#[test]
fn an_array_is_given_back_once_and_never_touched_again() {
    let program = five();
    let mut live = program.of_kind(ArrayKind::Input);
    let mut most = 0;
    let body = program.body();
    for span in body.spans(&body.statements) {
        let reads = match (span.kernel, span.statements) {
            (Some(kernel), _) => body.kernels[kernel.0].reads().to_vec(),
            (None, [Statement::Free(id)]) => {
                assert_eq!(program.array(*id).kind, ArrayKind::Temporary, "{} is freed", program.shown(*id));
                let at = live.iter().position(|other| other == id).expect("what is freed is there");
                live.remove(at);
                continue;
            }
            (None, [Statement::Begin(id, _)]) => vec![body.moved(*id).expect("a move").source],
            _ => continue,
        };
        assert!(reads.iter().all(|id| live.contains(id)), "{span:?} reads what is gone");
        let [written] = body.writes(span)[..] else { panic!("{span:?} does not write one array") };
        assert!(!live.contains(&written), "{span:?} writes over another array");
        live.push(written);
        most = most.max(live.iter().filter(|id| program.array(**id).kind == ArrayKind::Temporary).count());
    }
    let kept = live.iter().map(|&id| program.array(id).name.as_str());
    assert_eq!(kept.collect::<Vec<_>>(), ["A", "F"], "the input and the result are left");
    let temporaries = program.of_kind(ArrayKind::Temporary).len();
    assert!(most < temporaries, "{most} temporaries at once, of {temporaries}");
    // Arrays share memory if and only if they are not alive together.
    let rooms = program.rooms();
    assert_eq!(rooms.most, vec![1; most], "as much memory as there are arrays at once: {rooms:?}");
}

#[test]
fn a_sequence_prints_what_it_runs() {
    expect![[r#"
        program over (x: 2), f32
            input         A[4, 4]: [0 @ x]
         1  move          A' = A: [0 @ x] to replicated, all_gather(x)
         2  run           B = matmul(A, A'), C[m, n] += A[m, k] * B[k, n]
         3  run           C = matmul(A, A'), C[m, n] += A[m, k] * B[k, n]
         4  move          A'' = A: [0 @ x] to [1 @ x], all_to_all(x)
         5  run           D = matmul(A'', A'), C[m, n] += A[m, k] * B[k, n]
         6  move          D' = D: [0 @ x] to [1 @ x], all_to_all(x)
         7  move          B' = B: [0 @ x] to replicated, all_gather(x)
         8  run           E = matmul(D', B'), C[m, n] += A[m, k] * B[k, n]
         9  move          E' = E: [0 @ x] to replicated, all_gather(x)
        10  run           F = matmul(D, E'), C[m, n] += A[m, k] * B[k, n]
            output        F[4, 4]: [0 @ x]
    "#]]
    .assert_eq(&five().to_string());
}

#[test]
fn what_is_no_sequence_is_refused() {
    let program = five();
    let error = Sequence::new().stage(&program, ["A"], "F").build().expect_err("five kernels are no stage");
    let statements = program.nests().len() + program.moves().count();
    assert_eq!(
        error.to_string(),
        format!("stage 1 is a program of {statements} statements, not one kernel; add its kernels one by one")
    );
    let one = Schedule::from_spec(example::matmul(4, 4, 4)).lower().expect("a legal schedule");
    let error = Sequence::new().stage(&one, ["A", "B"], "C").keep("D").build().expect_err("nobody writes D");
    assert_eq!(error.to_string(), "no stage writes the output `D`; the stages write C");
}

#[test]
fn rounds_inside_that_go_on_in_another_sharding_from_a_part_are_refused() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let inner = || {
        Schedule::from_spec(
            parse_kernel("fn inner(A: [i64; 8]) -> B: [i64; 8] { B[i] = A[i - 1] + A[i + 1] for i in 1..7 }")
                .expect("a kernel"),
        )
    };
    let [i, io, ii] = ["i", "io", "ii"].map(Var::new);
    let blocks = inner().distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("B", [dim(0).at(x)]);
    let [blocks, whole] =
        [blocks, inner().replicate(&mesh)].map(|schedule| schedule.lower().expect("a legal schedule"));
    let rounds = |first: &Program, then: &Program| {
        let correct = Sequence::new().stage(then, ["V"], "W").carry("W", "V");
        let round = Sequence::new().stage(first, ["A"], "V").repeat(2, correct).carry("V", "A");
        Sequence::new().repeat(3, round).build()
    };
    assert!(rounds(&blocks, &blocks).is_ok());
    expect!["`inner` does not write all of `V`, the next version of `A`, and inner rounds start from `V` in another sharding, so the other elements of `A` would be lost; give all of them one sharding"]
        .assert_eq(&rounds(&blocks, &whole).expect_err("a rim is lost").to_string());
}
