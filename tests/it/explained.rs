//! The bytes per step in `explain()` are those that the busiest rank receives when the program runs.

use polyshard::prelude::*;
use polyshard::program::{Algorithm, Leg, Owners};
use polyshard::runtime::Transport;
use polyshard::schedule::Clause;
use polyshard::source::{SourceOptions, rust_source};
use polyshard::text::parse_kernel;
use polyshard_testing::filled;

/// The bytes per rank and step that the explanation states for one tensor.
fn stated(program: &Program, tensor: &str) -> u64 {
    let text = program.explain();
    let mut lines = text.lines().skip_while(|line| !(line.starts_with(tensor) && line.contains(": ")));
    let bytes =
        lines.find_map(|line| line.strip_prefix("    at most ")?.strip_suffix(" bytes received per rank and step"));
    bytes.unwrap_or_else(|| panic!("no bytes of {tensor} in\n{text}")).parse().expect("a number")
}

/// The maximum of the bytes that one rank receives in a run, on arrays filled from their indices.
fn received(program: &Program) -> u64 {
    let ranks = polyshard::spmd(program.mesh().size(), |world| {
        let inputs = filled::inputs(world, program, |_, at| at.iter().sum::<usize>() as f64)?;
        let before = world.bytes_received();
        program.run(world, &inputs.iter().collect::<Vec<_>>())?;
        Ok(world.bytes_received() - before)
    });
    ranks.expect("the program runs").into_iter().max().expect("there are ranks")
}

/// The program of a kernel whose `i` is distributed over 4 ranks, with these shardings of its tensors.
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

/// The bytes of a single step are stated where several steps are equal.
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

/// The first step of a two-step route also sends data to ranks that do not need them in the end.
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

/// The shards of all ranks after a run, and the maximum of the bytes that one rank receives.
fn run(program: &Program, transport: Transport) -> (Vec<Vec<u64>>, u64) {
    let ranks = polyshard::spmd(program.mesh().size(), |world| {
        let inputs = filled::inputs(world, program, |_, at| 1.0 / (1 + 7 * at[0]) as f64)?;
        let mut prepared = program.prepare(world)?.with_transport(transport);
        let before = world.bytes_received();
        let sums = prepared.run(&inputs.iter().collect::<Vec<_>>())?;
        let bits = sums.block().iter().map(|sum| sum.to_bits()).collect();
        Ok((bits, world.bytes_received() - before))
    });
    let (bits, received): (_, Vec<u64>) = ranks.expect("the program runs").into_iter().unzip();
    (bits, received.into_iter().max().expect("there are ranks"))
}

#[test]
fn who_sums_up_what_is_stated_and_changes_no_bit() {
    let all = [Transport::Auto, Transport::Messages];
    let forms = ["\"GatherTerms\"", "\"ReduceScatterGather\""];
    for (columns, are_pieces) in [(2000, false), (2100, true)] {
        let [form, other] = if are_pieces { [forms[1], forms[0]] } else { forms };
        let [x] = Mesh::new([("x", 4)]).axes();
        let text = format!("fn sums(A: [f64; 80, {columns}]) -> C: [f64; {columns}] {{ C[j] += A[i, j] }}");
        let sums = Schedule::new(parse_kernel(&text).expect("a text without mistakes").check().expect("a kernel"));
        for homes in [vec![], vec![pin(x, 1)]] {
            let program = program(&sums, &[("A", vec![dim(0).at(x)]), ("C", homes)]);
            let says = |program: &Program| program.to_string().contains(", each rank a piece");
            assert_eq!(says(&program), are_pieces, "{program}");
            let source = rust_source(&program, &SourceOptions::default());
            assert_eq!(source.contains("Algorithm::ReduceScatterGather"), are_pieces, "{source}");
            let (expected, _) = run(&program, Transport::Auto);
            for transport in all {
                let (found, received) = run(&program, transport);
                assert_eq!(found, expected, "{transport:?}\n{program}");
                assert_eq!(stated(&program, "C"), received, "{transport:?}\n{program}");
            }
            // Choices that follow from sizes are checked again when a file is read.
            let text = serde_json::to_string(&program).expect("a program has a form");
            let other = text.replace(form, other);
            let refused = serde_json::from_str::<Program>(&other).expect_err("it does not follow");
            assert!(refused.to_string().contains("do not follow from its transfers"), "{refused}");
        }
        let [open, closed] = [vec![Placement::partial("x")], vec![]]
            .map(|clauses| Sharding::new(&Mesh::new([("x", 4)]), &[columns], &clauses).expect("a sharding"));
        let program = Program::redistribution("A", [&open, &closed], DType::F64).expect("sums are closed");
        assert_eq!(program.to_string().contains(", each rank a piece"), are_pieces, "{program}");
        // A file may make the other choice: both are valid.
        let text = serde_json::to_string(&program).expect("a program has a form");
        let text = text.replace(form, other);
        let other: Program = serde_json::from_str(&text).expect("sums meet so, too");
        for (program, transport) in [&program, &other].into_iter().flat_map(|program| all.map(|by| (program, by))) {
            assert_eq!(run(program, transport).1, program.report().traffic_bytes, "{transport:?}\n{program}");
        }
        // On explicit request, either algorithm gives the same bits.
        let both = [Algorithm::ReduceScatterGather, Algorithm::GatherTerms].map(|by| {
            let sums = polyshard::spmd(4, |world| {
                let route = Leg::collective(vec![0], Owners::All).by(by.clone()).into();
                let there = Redistribution::by(world, &open, None, &closed, &route)?;
                let terms = DistArray::from_fn(world, &open, |at| 1.0 / (1 + at[0] + 5 * world.rank()) as f64)?;
                let before = world.bytes_received();
                let sums = there.run(world, &terms)?;
                let bits = sums.block().iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
                Ok((bits, world.bytes_received() - before))
            });
            sums.expect("it runs")
        });
        for (pieces, whole) in both[0].iter().zip(&both[1]) {
            assert_eq!(pieces.0, whole.0);
            assert_eq!([pieces.1, whole.1], [columns as u64 * 8 * 6 / 4, columns as u64 * 8 * 3]);
        }
    }
}
