//! Where a pipeline keeps its arrays, and for how long.

use super::{Pipeline, Sequence};
use expect_test::expect;
use polyshard_layout::Mesh;
use polyshard_polyhedral::{Clause, Schedule, Var, example};

/// Five products in a row, in which B is read late, C is never read, and D in two shardings.
fn sequence() -> Sequence {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let [m, k] = ["m", "k"].map(Var::new);
    let square = |a: Clause, c: Clause| {
        let schedule = Schedule::from_spec(example::matmul(4, 4, 4));
        let rows = schedule.distribute([m], [Var::new("mo")], [Var::new("mi")], &mesh);
        rows.shard("A", [a]).shard("C", [c]).lower().expect("a legal schedule")
    };
    let (rows, columns) = (square(m.at(x), m.at(x)), square(k.at(x), m.at(x)));
    let pipeline = Pipeline::new().stage(&rows, ["A", "A"], "B").stage(&rows, ["A", "A"], "C");
    let pipeline = pipeline.stage(&columns, ["A", "A"], "D").stage(&columns, ["D", "B"], "E");
    pipeline.stage(&rows, ["D", "E"], "F").build().expect("stages that fit")
}

#[test]
fn an_array_is_given_back_once_and_never_touched_again() {
    let sequence = sequence();
    let mut live: Vec<usize> = (0..sequence.inputs.len()).collect();
    let mut most = 0;
    for action in &sequence.actions {
        assert!(action.reads.iter().all(|place| live.contains(place)), "{action:?} reads what is gone");
        assert!(!live.contains(&action.writes), "{action:?} writes over another array");
        live.push(action.writes);
        most = most.max(live.len());
        for place in &action.frees {
            assert!(*place >= sequence.inputs.len(), "{action:?} frees an input");
            let at = live.iter().position(|other| other == place).expect("what is freed is there");
            live.remove(at);
        }
    }
    let result = sequence.actions.last().expect("there are stages").writes;
    assert_eq!(live, [0, result], "the input and the result are left");
    assert!(most < sequence.places, "{most} arrays at once, of {}", sequence.places);
}

#[test]
fn a_sequence_prints_what_it_runs() {
    expect![[r#"
        pipeline over (x: 2), f32
            input         A: [2{x}4, 4]
         1  redistribute  A: [2{x}4, 4] to [4, 4]
         2  run           B = matmul(A, A), C[m, n] += A[m, k] * B[k, n]
         3  run           C = matmul(A, A), C[m, n] += A[m, k] * B[k, n]
         4  redistribute  A: [2{x}4, 4] to [4, 2{x}4]
         5  run           D = matmul(A, A), C[m, n] += A[m, k] * B[k, n]
         6  redistribute  D: [2{x}4, 4] to [4, 2{x}4]
         7  redistribute  B: [2{x}4, 4] to [4, 4]
         8  run           E = matmul(D, B), C[m, n] += A[m, k] * B[k, n]
         9  redistribute  E: [2{x}4, 4] to [4, 4]
        10  run           F = matmul(D, E), C[m, n] += A[m, k] * B[k, n]
            output        F: [2{x}4, 4]
    "#]]
    .assert_eq(&sequence().to_string());
}
