//! What `explain()` says that a rank receives in a step is what the busiest one receives when the program runs.

use polyshard::prelude::*;
use polyshard::{Clause, Program};

/// The bytes per rank and step that the explanation states of one tensor.
fn stated(program: &Program, tensor: &str) -> u64 {
    let text = program.explain();
    let mut lines = text.lines().skip_while(|line| !(line.starts_with(tensor) && line.contains(": ")));
    let bytes =
        lines.find_map(|line| line.strip_prefix("    at most ")?.strip_suffix(" bytes received per rank and step"));
    bytes.unwrap_or_else(|| panic!("no bytes of {tensor} in\n{text}")).parse().expect("a number")
}

/// The most bytes that one rank receives in one run, on arrays filled from their indices.
fn received(program: &Program) -> u64 {
    let ranks = polyshard::spmd(program.mesh().size(), |world| {
        let inputs = program.shardings().take(program.kernel().inputs().len());
        let inputs =
            inputs.map(|sharding| DistArray::<f64>::from_fn(world, sharding, |at| at.iter().sum::<usize>() as f64));
        let inputs = inputs.collect::<polyshard::runtime::Result<Vec<_>>>()?;
        let before = world.bytes_received();
        program.run(world, &inputs.iter().collect::<Vec<_>>())?;
        Ok(world.bytes_received() - before)
    });
    ranks.expect("the program runs").into_iter().max().expect("there are ranks")
}

/// The program of a kernel whose `i` is distributed over 4 ranks, and where its tensors lie.
fn program(kernel: &Schedule, shards: &[(&str, Vec<Clause>)]) -> Program {
    let mesh = Mesh::new([("x", 4)]);
    let schedule = kernel.clone().distribute(["i"], ["io"], ["ii"], &mesh);
    let sharded = shards.iter().fold(schedule, |schedule, (tensor, clauses)| schedule.shard(*tensor, clauses.clone()));
    sharded.lower().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn one_step_receives_what_is_stated() {
    let [x] = Mesh::new([("x", 4)]).axes();
    let rows = || vec![dim(0).at(x)];
    let stencil = kernel! {
        fn stencil(A: [f64; 300, 7]) -> B: [f64; 300, 7] { B[i, j] = A[i - 1, j] + A[i + 1, j] for i in 1..299 }
    };
    let product = kernel! { fn product(A: [f64; 80, 60], v: [f64; 60]) -> C: [f64; 80] { C[i] += A[i, k] * v[k] } };
    let transposed = kernel! { fn transposed(A: [f64; 50, 90]) -> C: [f64; 90, 50] { C[i, j] = A[j, i] } };
    let sums = kernel! { fn sums(A: [f64; 80, 60]) -> C: [f64; 60] { C[j] += A[i, j] } };
    let cases = [
        (program(&stencil, &[("A", rows()), ("B", rows())]), "A", "halo", 112),
        (program(&product, &[("A", rows()), ("v", rows()), ("C", rows())]), "v", "all_gather", 360),
        (program(&product, &[("A", rows()), ("v", vec![pin(x, 2)]), ("C", rows())]), "v", "broadcast", 480),
        (program(&transposed, &[("A", rows()), ("C", rows())]), "A", "exchange", 0),
        (program(&sums, &[("A", rows()), ("C", rows())]), "C", "reduce_scatter", 0),
        (program(&sums, &[("A", rows()), ("C", vec![pin(x, 1)])]), "C", "reduce", 0),
    ];
    for (program, tensor, pattern, bytes) in cases {
        let found = program.pattern(tensor).expect("a tensor").to_string();
        assert!(found.starts_with(pattern), "{found}, not {pattern}\n{program}");
        assert_eq!(stated(&program, tensor), received(&program), "{pattern}\n{program}");
        assert!(bytes == 0 || bytes == stated(&program, tensor), "{pattern}: {} bytes", stated(&program, tensor));
    }
}

/// Of several steps alike, each one is stated.
#[test]
fn several_steps_receive_what_is_stated_of_each() {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let matmul =
        kernel! { fn matmul(A: [f64; 24, 24], B: [f64; 24, 24]) -> C: [f64; 24, 24] { C[m, n] += A[m, k] * B[k, n] } };
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let program = matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, 4)
        .reorder([ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .lower()
        .unwrap_or_else(|error| panic!("{error}"));
    // Each rank is the root of two of the four broadcasts.
    assert_eq!(stated(&program, "A"), 12 * 6 * 8);
    assert_eq!(received(&program), 2 * stated(&program, "A"));
}

/// Of a route of two steps, the first brings something also to ranks that need nothing in the end.
#[test]
fn what_is_only_held_on_the_way_is_stated_too() {
    vars!(i, j, l, io, jo, lo, ii, ji, li, po, pi);
    let product = kernel! {
        fn product(A: [f64; 1, 1], B: [f64; 4, 1]) -> C: [f64; 4, 1] { C[j, i] += A[l, i] * B[j, l] }
    };
    let mesh = Mesh::new([("x", 3), ("y", 2), ("z", 2)]);
    let [x, y, z] = mesh.axes();
    let program = product
        .distribute([j, l, i], [jo, lo, io], [ji, li, ii], &mesh)
        .divide(li, po, pi, 2)
        .rotate(po, [jo, io])
        .reorder([po, ji, pi, ii])
        .shard("A", [l.at(y), i.at(z), pin(x, 0)])
        .shard("B", [j.at([x, z]), l.at(y)])
        .shard("C", [j.at(x), i.at(z), partial(y)])
        .communicate("A", po)
        .communicate("B", po)
        .tensorize([ji, pi, ii])
        .lower()
        .expect("a legal schedule");
    assert_eq!(program.report().traffic_bytes, received(&program), "{program}");
}
