//! The costs of programs on machines: each part against the time of its collective, and leaves against their work.

use expect_test::expect;
use polyshard_dsl::{Clause, Var, partial, pin};
use polyshard_layout::{Collective, Mesh, Placement, Sharding};
use polyshard_machine::{
    Algorithm, Device, GroupedCollective, Interconnect, Level, Machine, Products, seconds, seconds_of_messages,
};
use polyshard_planner::cost::{CostedPart, Spent, cost};
use polyshard_planner::redistribution;
use polyshard_polyhedral::Schedule;
use polyshard_program::reduction::{Lowered, LoweredStep, Procedure};
use polyshard_program::{DType, LeafKind, LegId, Program, StagedLeg, TransferId};
use polyshard_testing::example;

const RATE: f64 = 1e10;
const MEMORY: f64 = 2e10;

/// `nodes` nodes of `ranks` ranks each: ports of 1 GB/s between nodes, of 8 GB/s inside.
fn machine(nodes: usize, ranks: usize) -> Machine {
    let level = |name: &str, count, bandwidth, shared_ports| Level {
        shared_ports,
        ..Level::new(name, count, Interconnect::Switch, bandwidth, 1e-6)
    };
    let levels = vec![level("node", nodes, 1e9, Some(1)), level("rank", ranks, 8e9, None)];
    let device = Device {
        memory_bandwidth: MEMORY,
        memory_capacity: 1 << 36,
        flops: [("f32".to_owned(), RATE)].into(),
        ..Device::default()
    };
    Machine::new("nodes", levels, device).expect("a machine")
}

/// A node of four devices like that of `machine`, but with a `change`.
fn changed(change: impl FnOnce(&mut Device)) -> Machine {
    let node = machine(1, 4);
    let mut device = node.device().clone();
    change(&mut device);
    Machine::new("node", node.levels().to_vec(), device).expect("a machine")
}

/// The machine, whose ranks of a node share memory.
fn sharing(machine: Machine) -> Machine {
    machine.with_shared_memory("rank").expect("a level")
}

#[track_caller]
fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found}, not {expected}");
}

/// A product whose rows are distributed.
fn by_rows([m, n, k]: [usize; 3], ranks: usize) -> Schedule {
    Schedule::from_spec(example::matmul(m, n, k)).distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", ranks)]))
}

fn mesh() -> Mesh {
    Mesh::new([("x", 2), ("y", 2)])
}

/// SUMMA in `panels` panels on 2 x 2 ranks.
fn summa(extents: [usize; 3], panels: usize) -> Program {
    placed(extents, panels).tensorize(["mi", "ni", "ki"]).lower().expect("SUMMA is legal")
}

fn placed(extents: [usize; 3], panels: usize) -> Schedule {
    let [m, n, k] = ["m", "n", "k"].map(Var::new);
    let mesh = mesh();
    let [x, y] = mesh.axes();
    Schedule::from_spec(example::matmul(extents[0], extents[1], extents[2]))
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
        .divide("k", "ko", "ki", panels)
        .reorder(["ko", "mi", "ni", "ki"])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", "ko")
        .communicate("B", "ko")
}

#[test]
fn transfers_take_as_long_as_their_collectives_and_leaves_as_their_operations() {
    let (program, machine) = (summa([512, 256, 1024], 4), machine(2, 2));
    let cost = cost(&program, &machine).expect("a cost");
    let [a, b, leaf] = &cost.parts[..] else { panic!("{cost}") };
    // The ranks along x are of different nodes, those along y of one.
    let broadcast = |groups: Vec<Vec<usize>>, elements: usize| {
        let collective = GroupedCollective { operation: Collective::Broadcast, groups, bytes: 4.0 * elements as f64 };
        4.0 * seconds(&machine, &collective, Algorithm::Ring).expect("a time").total()
    };
    close(a.seconds, broadcast(vec![vec![0, 1], vec![2, 3]], 256 * 256));
    close(b.seconds, broadcast(vec![vec![0, 2], vec![1, 3]], 256 * 128));
    // In each of the four steps the leaf reads a panel of A and one of B, and updates its tile of C.
    let touched = 256.0 * 1024.0 + 1024.0 * 128.0 + 4.0 * 2.0 * 256.0 * 128.0;
    close(leaf.seconds, 2.0 * 256.0 * 128.0 * 1024.0 / RATE + 4.0 * touched / MEMORY);
    assert_eq!((a.times, b.times, leaf.times), (4, 4, 4));
    assert_eq!(cost.received, program.report().traffic_bytes);
    assert_eq!(cost.memory, program.report().shard_bytes + program.report().tile_bytes);
    close(cost.seconds(), cost.computing() + cost.moving());
    expect![[r#"
        part             times   seconds  received  spent on
        A, broadcast(y)      4  135.1 us  524.3 kB  the ports out of rank 0 at level `rank`
        B, broadcast(x)      4   1.05 ms  262.1 kB  the ports out of node 0
        matmul               4   6.84 ms            operations
        in all 8.03 ms, of which 6.84 ms computing; at most 1.31 MB of memory
        matmul takes 85 % of it; to reduce it, divide the loops over more ranks
    "#]]
    .assert_eq(&cost.to_string());
}

#[test]
fn what_comes_while_others_are_computed_is_hidden() {
    // The leaf takes longer than all panels, then less.
    for (extents, panels) in [([512, 512, 4096], 8), ([64, 64, 65536], 4)] {
        let (waiting, machine) = (summa(extents, panels), machine(2, 2));
        let ahead =
            placed(extents, panels).pipeline("ko", 1).tensorize(["mi", "ni", "ki"]).lower().expect("it is legal");
        let [waiting, ahead] = [waiting, ahead].map(|program| cost(&program, &machine).expect("a cost"));
        let most = 1.0 - 1.0 / panels as f64;
        let hidden: f64 = ahead.parts.iter().map(|part| part.hidden).sum();
        close(hidden, most * f64::min(waiting.moving(), waiting.computing()));
        close(ahead.seconds(), waiting.seconds() - hidden);
        close(ahead.moving(), waiting.moving() - hidden);
        close(ahead.computing(), waiting.computing());
        assert!(ahead.to_string().contains("hidden") && !waiting.to_string().contains("hidden"), "{ahead}");
        assert!(ahead.memory > waiting.memory);
    }
    // Inputs that are read in place have no transfer to begin ahead.
    let shared = sharing(machine(1, 4));
    let ahead = placed([512; 3], 8).pipeline("ko", 1).tensorize(["mi", "ni", "ki"]).lower().expect("it is legal");
    let [waiting, ahead] = [summa([512; 3], 8), ahead].map(|program| cost(&program, &shared).expect("a cost"));
    close(ahead.seconds(), waiting.seconds());
}

#[test]
fn what_leaves_while_others_are_computed_is_hidden() {
    let (mesh, [n, k], machine) = (Mesh::new([("x", 4)]), ["n", "k"].map(Var::new), machine(2, 2));
    let [x] = mesh.axes();
    // The leaf takes longer than sending all panels, then less.
    for (terms, panels) in [(1 << 15, 8), (64, 4)] {
        let summed = Schedule::from_spec(example::matmul(512, terms, 512))
            .distribute(["k"], ["ko"], ["ki"], &mesh)
            .divide("m", "mo", "mi", panels)
            .reorder(["mo", "mi", "n", "ki"])
            .shard("A", [k.at(x)])
            .shard("B", [k.at(x)])
            .shard("C", [n.at(x)])
            .communicate("C", "mo");
        let priced = |schedule: Schedule| cost(&schedule.lower().expect("it is legal"), &machine).expect("a cost");
        let [waiting, ahead] = [summed.clone(), summed.pipeline("mo", 1)].map(priced);
        let most = 1.0 - 1.0 / panels as f64;
        let hidden: f64 = ahead.parts.iter().map(|part| part.hidden).sum();
        close(hidden, most * f64::min(waiting.moving(), waiting.computing()));
        close(ahead.seconds(), waiting.seconds() - hidden);
        assert!(ahead.memory > waiting.memory);
    }
}

#[test]
fn where_ranks_share_memory_they_read_there() {
    let program = summa([512, 256, 1024], 2);
    let shared = sharing(machine(2, 2));
    let cost = cost(&program, &shared).expect("a cost");
    // Panels of A belong to ranks of one node and are read in place by the leaf: that takes no time of its own.
    let [a, b, _] = &cost.parts[..] else { panic!("{cost}") };
    assert!(a.spent == Spent::InPlace && a.seconds == 0.0 && a.received > 0, "{cost}");
    assert_eq!(cost.received, program.report().traffic_bytes);
    assert!(b.name.starts_with("B, ") && matches!(b.spent, Spent::Messages(_)), "{cost}");
    // Assembling a tile of parts reads and writes them.
    let rows = by_rows([64; 3], 2).shard("B", [Var::new("k").at("x")]).lower().expect("it is legal");
    let cost = polyshard_planner::cost(&rows, &sharing(machine(1, 2))).expect("a cost");
    let gathered = cost.parts.iter().find(|part| part.name.starts_with("B, ")).expect("it is priced");
    assert_eq!(gathered.spent, Spent::InPlace);
    assert!((gathered.seconds - 2.0 * 32.0 * 64.0 * 4.0 / MEMORY).abs() < 1e-12, "{cost}");
}

#[test]
fn thin_leaves_wait_for_memory_most_of_their_time() {
    let thin = by_rows([4096, 1, 4096], 2);
    let touched = 4.0 * (2048.0 * 4096.0 + 4096.0 + 2.0 * 2048.0) / MEMORY;
    let operations = 2.0 * 2048.0 * 4096.0;
    let leaf = |schedule: &Schedule, machine: &Machine| {
        let cost = cost(&schedule.lower().expect("it is legal"), machine).expect("a cost");
        let leaf = cost.parts.iter().find(|part| matches!(part.part, CostedPart::Compute(_))).expect("a leaf");
        (leaf.seconds, leaf.spent.clone())
    };
    // A product waits for its operands.
    let (seconds, spent) = leaf(&thin.clone().tensorize(["mi", "n", "k"]), &machine(1, 2));
    close(seconds, touched + operations / RATE);
    assert_eq!(spent, Spent::Memory);
    // A nest overlaps reading with computation, at its own rate if the machine has one.
    close(leaf(&thin, &machine(1, 2)).0, touched);
    let slow = changed(|device| device.nests = [("f32".to_owned(), RATE / 100.0)].into());
    let (seconds, spent) = leaf(&thin, &slow);
    close(seconds, 100.0 * operations / RATE);
    assert_eq!(spent, Spent::Computing);
}

/// Seconds of the leaf.
fn leaf_of(program: &Program, machine: &Machine) -> f64 {
    let cost = cost(program, machine).expect("a cost");
    let leaf = cost.parts.iter().find(|part| matches!(part.part, CostedPart::Compute(_))).expect("a leaf");
    leaf.seconds
}

#[test]
fn rows_that_lie_apart_take_longer_to_read() {
    // The leaf reads A and B in the shards of a node, a quarter of k at a time: 32 rows of a part of A's columns, and
    // whole, contiguous rows of B.
    let plain = placed([64, 64, 64], 4);
    let nest = plain.clone().tensorize_as(["mi", "ni", "ki"], LeafKind::Nest);
    let with = |latency: f64| sharing(changed(|device| device.row_latency = latency));
    let program = nest.lower().expect("SUMMA is legal");
    let more = leaf_of(&program, &with(1.0)) - leaf_of(&program, &with(0.0));
    assert!((more - 4.0 * 33.0).abs() < 1e-3, "{more}");
    // Matrix products pack their operands, and data received in messages are contiguous.
    let product = plain.tensorize(["mi", "ni", "ki"]).lower().expect("SUMMA is legal");
    assert_eq!(leaf_of(&product, &with(1.0)), leaf_of(&product, &with(0.0)));
    let device = with(1.0).device().clone();
    let apart = Machine::new("apart", machine(4, 1).levels().to_vec(), device).expect("a machine");
    assert!(leaf_of(&program, &apart) < 1.0, "A comes in messages");
}

#[test]
fn sums_over_two_indices_that_lie_apart_take_longer() {
    // In a rank's own shard, or in those of others, which are copied: each panel has whole rows, or half of each row.
    let kernel =
        "fn f(A: [f32; 8, 64, 64], B: [f32; 64, 64, 8]) -> C: [f32; 8, 8] { C[i, j] += A[i, k, l] * B[k, l, j] }";
    let leaf = |home: &str, divided: &str, inner: [&str; 4], panels: usize, machine: &Machine| {
        let kernel = Schedule::from_spec(polyshard_dsl::parse_kernel(kernel).expect("a kernel"));
        let rows = kernel.distribute(["i"], ["io"], ["ii"], &Mesh::new([("x", 4)])).divide(divided, "po", "pi", panels);
        let panels = rows.reorder([&["po"][..], &inner].concat()).shard("A", [Var::new(home).at("x")]);
        let panels = panels.communicate("A", "po").shard("B", [Var::new("l").at("x")]).communicate("B", "po");
        leaf_of(&panels.tensorize(inner).lower().expect("it is legal"), machine)
    };
    let machine = sharing(machine(1, 4));
    let (k, l) = (["ii", "j", "pi", "l"], ["ii", "j", "k", "pi"]);
    // Two panels of two rows of A, which are read once more.
    let more = 4.0 * f64::from(2 * 2 * 64 * 32) / MEMORY;
    close(leaf("i", "l", l, 2, &machine) - leaf("i", "k", k, 2, &machine), more);
    // Eight panels of eight columns of B, read and written; A is exchanged, and C is read and written four more times.
    let (copied, added) = (8 * 8 * 64 * 8, 4 * 2 * 8);
    let more = 2.0 * 4.0 * f64::from(copied + added) / MEMORY;
    close(leaf("l", "l", l, 8, &machine) - leaf("l", "l", l, 4, &machine), more);
}

#[test]
fn what_moves_in_place_takes_as_long_as_memory_of_others_and_a_meeting() {
    let with = |bandwidth: Option<f64>, latency: f64| {
        sharing(changed(|device| (device.memory_of_others, device.in_place_latency) = (bandwidth, latency)))
    };
    let moving = |program: &Program, machine: &Machine| cost(program, machine).expect("a cost").moving();
    let (near, far) = (with(None, 0.0), with(Some(MEMORY / 4.0), 1.0));
    // A transpose reads and writes three quarters of a shard.
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let lying = |dim| Sharding::new(&mesh, &[64, 64], &[Placement::block(dim, x)]).expect("a sharding");
    let transpose = redistribution(&lying(0), &lying(1), DType::F32).expect("a plan");
    let bytes = 2.0 * 0.75 * 4.0 * 64.0 * 64.0 / 4.0;
    assert!((moving(&transpose, &near) - bytes / MEMORY).abs() < 1e-12 * bytes);
    assert!((moving(&transpose, &far) - (4.0 * bytes / MEMORY + 1.0)).abs() < 1e-9);
    // Inputs are published once, and no rank waits for others when it reads one; each rank's sums wait for the terms of
    // all ranks.
    let panels = summa([64, 64, 64], 4);
    assert!(moving(&panels, &far) < 1.0, "{}", moving(&panels, &far));
    let k = Schedule::from_spec(example::matmul(64, 64, 64)).distribute(["k"], ["ko"], ["ki"], &mesh);
    let sums = k.shard("C", [Var::new("m").at(x)]).lower().expect("sums over ranks are legal");
    assert!((1.0..2.0).contains(&moving(&sums, &far)), "{}", moving(&sums, &far));
}

#[test]
fn panels_that_begin_several_iterations_ahead_take_more_memory_and_no_less_time() {
    let of = |depth| {
        let schedule = placed([64, 64, 256], 8).tensorize(["mi", "ni", "ki"]).pipeline("ko", depth);
        cost(&schedule.lower().expect("SUMMA is legal"), &machine(4, 1)).expect("a cost")
    };
    let one = of(1);
    assert!(one.parts.iter().any(|part| part.hidden > 0.0), "{one}");
    for depth in 2..5 {
        let deeper = of(depth);
        assert!(deeper.seconds() >= one.seconds() && deeper.memory > one.memory, "{depth}: {deeper}");
    }
}

#[test]
fn operands_that_products_pack_come_at_a_rate_of_their_own() {
    let with = |bandwidth: Option<f64>, streams: bool| {
        changed(|device| (device.packing_bandwidth, device.streams) = (bandwidth, streams))
    };
    let plain = by_rows([64; 3], 4);
    let nest = plain.clone().tensorize_as(["mi", "n", "k"], LeafKind::Nest);
    let product = plain.tensorize(["mi", "n", "k"]).lower().expect("it is legal");
    let saved = |program: &Program, streams: bool| {
        leaf_of(program, &with(None, streams)) - leaf_of(program, &with(Some(2.0 * MEMORY), streams))
    };
    // A rank packs its rows of A, and B; it writes C as fast as before.
    let bytes = 4.0 * (64.0 * 64.0 / 4.0 + 64.0 * 64.0);
    assert!((saved(&product, false) - 0.5 * bytes / MEMORY).abs() < 1e-9 * bytes, "{}", saved(&product, false));
    assert_eq!(saved(&product, true), 0.0);
    assert_eq!(saved(&nest.lower().expect("it is legal"), false), 0.0);
}

#[test]
fn what_is_overwritten_is_written_at_a_rate_of_its_own() {
    let with = |bandwidth: Option<f64>| changed(|device| device.write_bandwidth = bandwidth);
    let more = |program: &Program| leaf_of(program, &with(Some(MEMORY / 2.0))) - leaf_of(program, &with(None));
    let of = |text: &str| {
        let kernel = polyshard_dsl::parse_kernel(text).expect("a kernel");
        let mesh = Mesh::new([("x", 4)]);
        let [x] = mesh.axes();
        let rows = Schedule::from_spec(kernel).distribute(["m"], ["mo"], ["mi"], &mesh);
        rows.shard("C", [Var::new("m").at(x)]).lower().expect("it is legal")
    };
    // A rank overwrites a quarter of the first result, and adds to that of the second.
    let outer = of("fn outer(a: [f32; 4096], b: [f32; 4096]) -> C: [f32; 4096, 4096] { C[m, n] = a[m] * b[n] }");
    let (found, bytes) = (more(&outer), 4.0 * 4096.0 * 4096.0 / 4.0);
    assert!((found / (bytes / MEMORY) - 1.0).abs() < 1e-6, "{found}");
    let added = of("fn outer(a: [f32; 4096], b: [f32; 4096]) -> C: [f32; 4096, 4096] { C[m, n] += a[m] * b[n] }");
    assert_eq!(more(&added), 0.0);
}

#[test]
fn operands_that_are_transposed_are_packed_at_a_rate_of_their_own() {
    let with = |bandwidth: Option<f64>| changed(|device| device.transposing_bandwidth = bandwidth);
    let more = |program: &Program| leaf_of(program, &with(Some(MEMORY / 4.0))) - leaf_of(program, &with(None));
    let of = |text: &str, leaf: &[&str]| {
        let kernel = polyshard_dsl::parse_kernel(text).expect("a kernel");
        let rows = Schedule::from_spec(kernel).distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 4)]));
        rows.tensorize(leaf.to_vec()).lower().expect("it is legal")
    };
    // A rank reads a quarter of 64 x 128 elements, and the other operand as before.
    let bytes = 4.0 * 64.0 * 128.0 / 4.0;
    let takes = |found: f64, bytes: f64| assert!((found - 3.0 * bytes / MEMORY).abs() < 1e-12, "{found}, not {bytes}");
    let product = |a: &str, b: &str| format!("fn f(A: {a}, B: {b}) -> C: [f32; 64, 32]");
    let leaf = ["mi", "n", "k"];
    let plain = product("[f32; 64, 128]", "[f32; 128, 32]") + "{ C[m, n] += A[m, k] * B[k, n] }";
    takes(more(&of(&plain, &leaf)), 0.0);
    let first = product("[f32; 128, 64]", "[f32; 128, 32]") + "{ C[m, n] += A[k, m] * B[k, n] }";
    takes(more(&of(&first, &leaf)), bytes);
    let second = product("[f32; 64, 128]", "[f32; 32, 128]") + "{ C[m, n] += A[m, k] * B[n, k] }";
    takes(more(&of(&second, &leaf)), 0.0);
    // As for the transposed product, whose columns are the rows of this one.
    let both = "fn f(A: [f32; 64, 128], B: [f32; 128, 32]) -> C: [f32; 32, 64] { C[n, m] += A[m, k] * B[k, n] }";
    takes(more(&of(both, &leaf)), 4.0 * 128.0 * 32.0);
    // A vector is not packed.
    let vector = "fn f(A: [f32; 128, 64], b: [f32; 128]) -> c: [f32; 64] { c[m] += A[k, m] * b[k] }";
    takes(more(&of(vector, &["mi", "k"])), 0.0);
    // Of three factors, one product sums over a and j, along which X is not contiguous, whichever is multiplied first.
    let three = "fn f(X: [f32; 16, 64, 256], C: [f32; 16, 32], D: [f32; 64, 32]) -> B: [f32; 256, 32] {
        B[m, r] += X[a, j, m] * C[a, r] * D[j, r]
    }";
    let program = of(three, &["mi", "r", "a", "j"]);
    assert_eq!(program.nest().path()[1].factors, ["X[a, j, m]", "T0[a, j, r]"], "a product that takes X transposed");
    takes(more(&program), 4.0 * 16.0 * 64.0 * 64.0);
}

#[test]
fn products_begin_with_each_row_of_what_they_pack() {
    let with =
        |latency: f64, streams: bool| changed(|device| (device.packing_latency, device.streams) = (latency, streams));
    let rows = |program: &Program| {
        let [none, some] = [0.0, 1e-6].map(|latency| leaf_of(program, &with(latency, false)));
        ((some - none) / 1e-6).round()
    };
    let kernel = "fn f(X: [f32; 256, 64, 256], C: [f32; 64, 32], D: [f32; 256, 32]) -> B: [f32; 256, 32] {
        B[i, r] += X[i, j, k] * C[j, r] * D[k, r]
    }";
    let kernel = polyshard_dsl::parse_kernel(kernel).expect("a kernel");
    let mesh = Mesh::new([("x", 4)]);
    let of = |index: &str| {
        let outer = format!("{index}o");
        let inner = format!("{index}i");
        let leaf = ["i", "r", "j", "k"].map(|other| if other == index { inner.as_str() } else { other });
        let cut = Schedule::from_spec(kernel.clone()).distribute([index], [outer.as_str()], [inner.as_str()], &mesh);
        cut.shard("X", [Var::new(index).at("x")]).tensorize(leaf).lower().expect("it is legal")
    };
    // Each element of T0[i, j, r] = X[i, j, k] * D[k, r] is the sum over one row of X; D has as many elements as 32
    // rows.
    let first = of("i");
    assert_eq!(first.nest().path()[0].factors, ["X[i, j, k]", "D[k, r]"]);
    assert_eq!(rows(&first), 64.0 * 64.0 + 32.0);
    // B[i, r] += X[i, j, k] * T0[j, k, r] sums over all of the rows of an i, which are contiguous.
    let second = of("j");
    assert_eq!(second.nest().path()[1].factors, ["X[i, j, k]", "T0[j, k, r]"]);
    assert_eq!(rows(&second), 256.0);
    assert_eq!(leaf_of(&first, &with(1e-6, true)), leaf_of(&first, &with(0.0, true)));
}

#[test]
fn thin_products_and_many_small_ones_take_longer() {
    // Ranks have 32 x 32 elements of the output, in panels of 64, 16 or 4 terms.
    let with = |products: Products| {
        changed(|device| {
            device.memory_bandwidth = 1e30;
            device.products = [("f32".to_owned(), products)].into();
        })
    };
    let (rates, latency) = (vec![(4, RATE / 2.0), (16, RATE * 0.8)], 1e-3);
    let leaf = |panels: usize, products: &Products| leaf_of(&summa([64, 64, 64], panels), &with(products.clone()));
    let plain = leaf(1, &Products::default());
    let depth = Products { depth: rates.clone(), ..Products::default() };
    for (panels, part) in [(1, 1.0), (2, 0.9), (4, 0.8), (8, 0.65), (16, 0.5)] {
        close(leaf(panels, &depth), plain / part);
        close(leaf(panels, &Products { latency, ..Products::default() }), plain + panels as f64 * latency);
    }
    // Rows and columns of 32 lie between those of 16 and of 64.
    let of_all = Products { rows: rates.clone(), columns: rates, ..depth };
    close(leaf(1, &of_all), plain / (0.9 * 0.9));
    // A product of a matrix by a vector has no columns, so its price does not depend on these rates.
    let vector = by_rows([64, 1, 64], 4).lower().expect("it is legal");
    assert_eq!(vector.nest().products(), []);
    assert_eq!(leaf_of(&vector, &with(of_all)), leaf_of(&vector, &with(Products::default())));
}

#[test]
fn ranks_whose_neighbours_are_idle_have_more_of_the_memory() {
    let machine = sharing(changed(|device| {
        device.memory_alone = Some(2.0 * MEMORY);
        device.flops = [("f32".to_owned(), 100.0 * RATE)].into();
    }));
    let on = |ranks: usize| leaf_of(&by_rows([64 * ranks, 1, 4096], ranks).lower().expect("it is legal"), &machine);
    // Each rank reads the same number of bytes: a rank alone takes half as long, and the time grows linearly with the
    // number of ranks.
    let [all, two, alone] = [4, 2, 1].map(on);
    assert!((alone / all - 0.5).abs() < 1e-9 && (two / all - 2.0 / 3.0).abs() < 1e-9, "{alone}, {two}, {all}");
}

#[test]
fn steps_in_which_nobody_receives_anything_take_no_time() {
    // Each rank begins with the half of k of which it owns A, and fetches the other half, both in two panels.
    let halves = |rotated: bool| {
        let [m, n, k] = ["m", "n", "k"].map(Var::new);
        let mesh = mesh();
        let [x, y] = mesh.axes();
        let tiles = Schedule::from_spec(example::matmul(512, 256, 1024))
            .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
            .divide("k", "ko", "ki", 2)
            .divide("ki", "kp", "kk", 2)
            .reorder(["ko", "kp", "mi", "ni", "kk"]);
        let tiles = if rotated { tiles.rotate("ko", ["no"]) } else { tiles };
        let placed = tiles.shard("A", [m.at(x), k.at(y)]).shard("B", [k.at(x), n.at(y)]).shard("C", [m.at(x), n.at(y)]);
        placed.communicate("A", "kp").communicate("B", "kp").lower().expect("it is legal")
    };
    let rotated = halves(true);
    let volume = rotated.nest().volumes()[0];
    assert_eq!((volume.times, volume.busy, volume.received), (4, 2, 2 * volume.each));
    let first = |program: &Program| cost(program, &machine(4, 1)).expect("a cost").parts[0].clone();
    let (in_turn, at_once) = (first(&halves(false)), first(&rotated));
    assert!(in_turn.name == "A, broadcast(y)" && at_once.name == "A, permute", "{} and {}", in_turn.name, at_once.name);
    assert!((in_turn.seconds / at_once.seconds - 2.0).abs() < 1e-6, "{} and {}", in_turn.seconds, at_once.seconds);
}

#[test]
fn moves_along_digits_of_an_axis_take_time() {
    let mesh = Mesh::new([("x", 2), ("y", 6)]);
    let [from, to] = ["[4{x,y%3}24, 10]", "[12{y/3}24, 5{x}10]"]
        .map(|text| polyshard_planner::DistType::parse(text, &mesh).expect("a type"));
    let plan = polyshard_planner::Plan::new(&from, &to, &polyshard_planner::PlanOptions::default()).expect("a plan");
    let cost = cost(&plan.program("A", polyshard_layout::DType::F32), &machine(12, 1)).expect("a cost");
    let gathered = cost.parts.iter().find(|part| part.name.ends_with("all_gather(y%3)")).expect("it is priced");
    assert!(gathered.received > 0 && matches!(gathered.spent, Spent::Messages(_)), "{cost}");
}

#[test]
fn sums_and_moves_are_priced_as_what_they_are() {
    let [m, k] = ["m", "k"].map(Var::new);
    let mesh = Mesh::new([("z", 4)]);
    let machine = machine(4, 1);
    let divided = |rows| {
        let divided = Schedule::from_spec(example::matmul(rows, 64, 4096)).distribute(["k"], ["ko"], ["ki"], &mesh);
        divided.shard("A", [k.at("z")]).shard("B", [k.at("z")])
    };
    let short = divided(64);
    let divided = divided(128);
    let moving = |clauses: Vec<Clause>| {
        let program = divided.clone().shard("C", clauses).lower().expect("it is legal");
        cost(&program, &machine).expect("a cost").moving()
    };
    let time = |operation, bytes| {
        let collective = GroupedCollective { operation, groups: vec![vec![0, 1, 2, 3]], bytes };
        seconds(&machine, &collective, Algorithm::Ring).expect("a time").total()
    };
    let bytes = 128.0 * 64.0 * 4.0;
    assert_eq!(moving(vec![partial("z")]), 0.0);
    // In rank order, each receives its piece of all terms from the ranks that hold them; otherwise, by the library's
    // collective.
    let any_order = |clauses: Vec<Clause>| {
        let program = divided.clone().shard("C", clauses).reassociate("C").lower().expect("it is legal");
        cost(&program, &machine).expect("a cost").moving()
    };
    close(moving(vec![m.at("z")]), time(Collective::Exchange, bytes));
    close(any_order(vec![m.at("z")]), time(Collective::ReduceScatter, bytes));
    close(moving(vec![]), time(Collective::Exchange, bytes) + time(Collective::AllGather, bytes / 4.0));
    close(any_order(vec![]), time(Collective::AllReduce, bytes));
    // By a procedure, each step at its own price.
    let [pairs, across] = [[[0, 1], [2, 3]], [[0, 2], [1, 3]]].map(|groups| groups.map(Vec::from).to_vec());
    let steps = [
        (Collective::ReduceScatter, &pairs, 1),
        (Collective::AllReduce, &across, 2),
        (Collective::AllGather, &pairs, 2),
    ];
    let step = |&(collective, groups, parts): &(_, &Vec<Vec<usize>>, _)| LoweredStep {
        collective,
        groups: groups.clone().into(),
        parts,
    };
    let lowered = Lowered::from_steps(vec![vec![0, 1, 2, 3]], 2, steps.iter().map(step).collect()).expect("of 4 ranks");
    let priced = |by: Procedure| {
        let program = divided.clone().shard("C", vec![]).lower().expect("it is legal");
        let by = polyshard_program::Algorithm::Procedure(by);
        let leg = StagedLeg { transfer: TransferId(2), leg: LegId(0), by, why: "it is tried".into() };
        cost(&program.in_stages(&[leg]).expect("it adds up all"), &machine).expect("a cost").moving()
    };
    let each = steps.iter().map(|&(operation, groups, parts)| {
        let collective = GroupedCollective { operation, groups: groups.clone(), bytes: bytes / parts as f64 };
        seconds(&machine, &collective, Algorithm::Ring).expect("a time").total()
    });
    close(priced(Procedure::by_steps(lowered).expect("it adds up all once")), each.sum());
    let in_order = Procedure::in_order(vec![vec![0, 1, 2, 3]]).expect("each rank once");
    close(priced(in_order), time(Collective::Exchange, bytes) + time(Collective::AllGather, bytes / 4.0));
    close(any_order(vec![pin("z", 0)]), time(Collective::Reduce, bytes));
    // Ranks that do not need the sums send them to the one that does.
    let gathered = |bytes: f64| {
        let messages = [1, 2, 3].map(|from| (from, 0, bytes));
        seconds_of_messages(&machine, &messages).expect("a time").total()
    };
    let at_one = time(Collective::Exchange, bytes) + gathered(bytes / 4.0);
    close(moving(vec![pin("z", 0)]), at_one);
    // If tiles are short, all terms are sent to the rank that needs the sum.
    let program = short.shard("C", [pin("z", 0)]).lower().expect("it is legal");
    let bytes = 64.0 * 64.0 * 4.0;
    close(cost(&program, &machine).expect("a cost").moving(), gathered(bytes));
    // A redistribution exchanges three quarters of each tile between pairs.
    let [rows, columns] =
        [0, 1].map(|dim| Sharding::new(&mesh, &[64, 64], &[Placement::block(dim, "z")]).expect("one"));
    let program = Program::redistribution("A", [&rows, &columns], DType::F32).expect("a program");
    let cost = cost(&program, &machine).expect("a cost");
    close(cost.moving(), time(Collective::Exchange, bytes / 4.0));
    assert_eq!(cost.received, 64 * 64 * 3 / 16 * 4);
}
