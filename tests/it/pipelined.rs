//! Pipelined loops, with transfers that begin ahead or end later: the same bits as without, whatever is in flight, and
//! all ranks end if one fails.

use crate::bad_input::schedules::refusal;
use expect_test::expect;
use ndarray::{ArrayViewD, ArrayViewMutD};
use polyshard::leaf;
use polyshard::machine::{Device, Interconnect, Level, Machine};
use polyshard::prelude::*;
use polyshard::program::{Direction, Leg, Owners};
use polyshard::runtime::{Transport, spmd_emulated, spmd_emulated_shaken};
use polyshard::schedule::ErrorKind;
use polyshard_testing::filled::inputs;
use polyshard_testing::laws::product::Draw;
use polyshard_testing::program::ByExchange;
use polyshard_testing::random::Choices;
use polyshard_testing::random::algorithms::algorithm_of;
use polyshard_testing::random::kernels::kernel_of;
use polyshard_testing::random::pipelined::{interior_first, pipelined};
use polyshard_testing::random::schedules::{mesh_of, schedule_of};
use polyshard_testing::random::stencils::stencil_of;
use polyshard_testing::random::sums::summed_of;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

mod shaken;

/// A random schedule of one of three kinds.
fn schedule(kind: usize, choices: &[u32]) -> Schedule {
    let mut choices = Choices::new(choices);
    match kind {
        0 => algorithm_of::<f64>(&mut choices).0,
        1 => summed_of::<f64>(&mut choices),
        _ => {
            let kernel = kernel_of::<f64>(&mut choices);
            let mesh = mesh_of(&mut choices);
            schedule_of(kernel, &mesh, &mut choices)
        }
    }
}

/// The programs of a random schedule that wait for transfers and that begin them ahead, if there are such.
fn pair(kind: usize, choices: &[u32], depth: usize) -> Result<Option<[Program; 2]>, TestCaseError> {
    let schedule = schedule(kind, choices);
    // Sums in any order are taken in the communicator's order.
    let Some(waiting) = schedule.lower().ok().filter(|program| !program.nest().any_order()) else { return Ok(None) };
    let ahead = pipelined(&schedule, depth).map_err(|error| TestCaseError::fail(error.to_string()))?;
    Ok(ahead.map(|ahead| [waiting, ahead]))
}

/// The programs of a random stencil that wait for the halo and that compute the interior first, if there are such.
fn stencil_pair(choices: &[u32]) -> Option<[Program; 2]> {
    let schedule = stencil_of(DType::F64, &mut Choices::new(choices));
    let first = interior_first(&schedule)?;
    Some([schedule, first].map(|schedule| schedule.lower().expect("it was lowered before")))
}

/// The failure of a program.
fn failed(program: &Program) -> impl Fn(polyshard::Error) -> TestCaseError {
    move |error| TestCaseError::fail(format!("{error}\n{program}"))
}

/// The bits of the output on this rank, for inputs whose sums depend on the order of their terms; runs by messages,
/// twice.
fn bits(world: &World, program: &Program) -> polyshard::Result<Vec<u64>> {
    bits_by(world, program, Transport::Messages)
}

fn bits_by(world: &World, program: &Program, transport: Transport) -> polyshard::Result<Vec<u64>> {
    let inputs = inputs(world, program, |nth, at| {
        let mixed = at.iter().fold(nth as u64 + 1, |all, &at| {
            all.wrapping_mul(31).wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        (mixed >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    })?;
    let mut prepared = program.prepare::<f64>(world)?.with_transport(transport);
    let mut found = Vec::new();
    for _ in 0..2 {
        let output = prepared.run(&inputs.iter().collect::<Vec<_>>())?;
        found.extend(output.block().iter().map(|element| element.to_bits()));
    }
    Ok(found)
}

/// Two levels with link speeds drawn from the seed, so that messages arrive in another order than they are sent.
fn machine(ranks: usize, seed: usize) -> Machine {
    let nodes = (1..=ranks).filter(|nodes| ranks.is_multiple_of(*nodes)).nth(seed % 2).unwrap_or(1);
    let level = |name: &str, count, slow: usize| {
        Level::new(name, count, Interconnect::Switch, 1e9 / slow as f64, 1e-6 * slow as f64)
    };
    let levels = vec![level("node", nodes, 1 + seed % 7 * 20), level("rank", ranks / nodes, 1 + seed % 5 * 10)];
    let device = Device { memory_bandwidth: 1e10, memory_capacity: 1 << 40, ..Device::default() };
    Machine::new("links", levels, device).expect("a machine")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules_give_the_same_bits_pipelined(
        kind in 0usize..3, choices in prop::collection::vec(0u32..5040, 0..90), depth in 1usize..5, seed in 0usize..70,
    ) {
        let Some([waiting, ahead]) = pair(kind, &choices, depth)? else { return Ok(()) };
        let ranks = waiting.mesh().size();
        let run = |program: &Program| polyshard::spmd(ranks, |world| bits(world, program)).map_err(failed(program));
        let expected = run(&waiting)?;
        for program in [&ahead, &ahead.by_exchange()] {
            prop_assert!(run(program)? == expected, "{}", program);
            let found = spmd_emulated(&machine(ranks, seed), 0.01, |world| bits(world, program));
            prop_assert!(found.map_err(failed(program))? == expected, "on emulated links\n{}", program);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_stencils_give_the_same_bits_with_the_interior_first(
        choices in prop::collection::vec(0u32..5040, 0..40), seed in 0usize..70,
    ) {
        let Some([waiting, first]) = stencil_pair(&choices) else { return Ok(()) };
        let ranks = waiting.mesh().size();
        let expected = polyshard::spmd(ranks, |world| bits(world, &waiting)).map_err(failed(&waiting))?;
        for transport in [Transport::Messages, Transport::Auto] {
            let found = polyshard::spmd(ranks, |world| bits_by(world, &first, transport));
            prop_assert!(found.map_err(failed(&first))? == expected, "{:?}\n{}", transport, first);
        }
        let found = spmd_emulated(&machine(ranks, seed), 0.01, |world| bits(world, &first));
        prop_assert!(found.map_err(failed(&first))? == expected, "on emulated links\n{}", first);
    }
}

/// The iterations of a leaf's interior on each rank, and all of its iterations.
fn interiors(program: &Program) -> Vec<(i64, i64)> {
    let nest = program.nest();
    let interior = nest.leaf.interior.as_ref().expect("a halo comes while it is computed");
    let ranks = 0..nest.mesh.size();
    let of_rank = |rank: usize| {
        let at: Vec<_> = nest.mesh.coordinates(rank).into_iter().map(|coordinate| coordinate as i64).collect();
        let inner = interior.ranges.iter().map(|(low, high)| (high.eval(&at, &[]) - low.eval(&at, &[])).max(0));
        let all = nest.leaf.loops.iter().map(|l| l.count.eval(&at, &[]).max(0));
        (inner.product(), all.product())
    };
    ranks.map(of_rank).collect()
}

fn blurred(rows: usize, mesh: &Mesh) -> Schedule {
    vars!(i, j, io, ii, jo, ji);
    let [x, y] = mesh.axes();
    let columns = rows + 3;
    let blur = kernel! {
        fn blur(u: [f64; rows, columns]) -> v: [f64; rows, columns] {
            v[i, j] = u[i - 1, j] else 0.0 + u[i + 1, j] else 0.0 + u[i, (j - 2) % columns] + u[i, j]
        }
    };
    blur.distribute([i, j], [io, jo], [ii, ji], mesh).shard("u", [i.at(x), j.at(y)]).shard("v", [i.at(x), j.at(y)])
}

/// On 4 by 3 ranks with 4 by 5 points, or fewer in the last row: the points left without the rows that read the
/// neighbours' above and below, and without the first two columns.
#[test]
fn interiors_are_all_that_reads_nothing_of_neighbours() {
    let mesh = Mesh::new([("x", 4), ("y", 3)]);
    let first = blurred(14, &mesh).interior_first("u").expect_overlap("u", 1.0).lower().expect("a legal schedule");
    // Columns are 6, 6 and 5, and rows 4, 4, 4 and 2: the array wraps around along j, and ends along i, where rims are
    // excluded too.
    let of_rank = |rank: usize| {
        let (row, column) = (rank / 3, rank % 3);
        ([2, 2, 2, 0][row] * [4, 4, 3][column], [4, 4, 4, 2][row] * [6, 6, 5][column])
    };
    let expected: Vec<_> = (0..12).map(of_rank).collect();
    assert_eq!(interiors(&first), expected, "{first}");
    for (rows, ranks) in [(5, [4, 2]), (9, [5, 2]), (17, [3, 1])] {
        let mesh = Mesh::new([("x", ranks[0]), ("y", ranks[1])]);
        let waiting = blurred(rows, &mesh);
        let first = interior_first(&waiting).expect("there is a halo").lower().expect("it was lowered before");
        let run = |program: &Program| polyshard::spmd(mesh.size(), |world| bits(world, program)).expect("it runs");
        assert_eq!(run(&first), run(&waiting.lower().expect("a legal schedule")), "{first}");
    }
}

/// Blocks of two rows, all of whose points read elements of neighbours.
#[test]
fn nothing_is_hidden_behind_an_interior_that_is_empty() {
    let mesh = Mesh::new([("x", 4), ("y", 4)]);
    let empty = blurred(8, &mesh).interior_first("u");
    let program = empty.lower().expect("a legal schedule");
    let nest = program.nest();
    assert_eq!(nest.overlap(&nest.transfers[0]).hidden, 0, "{program}");
    let error = empty.clone().expect_overlap("u", 0.8).lower().expect_err("nothing is hidden");
    expect![[r#"
        at most 0.0 % of the transfer of `u`, halo(x: -1..=1, y: -1..=0), can be hidden, not 80.0 %: all that a rank computes reads some of it, so there is no interior to compute while it is in flight
        help: distribute over fewer ranks, so that their blocks are larger, or leave `expect_overlap` out"#]]
    .assert_eq(&format!("{}\nhelp: {}", error.message(), error.help().unwrap_or_default()));
    empty.expect_overlap("u", 0.0).lower().expect("nothing is expected");
    // With larger blocks, all of the transfer is hidden.
    blurred(14, &mesh).interior_first("u").expect_overlap("u", 1.0).lower().expect("there is an interior");
}

#[test]
fn what_cannot_come_while_the_interior_is_computed_is_refused() {
    let said = |schedule| refusal(schedule, file!());
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let twice = blurred(14, &mesh).interior_first("u").interior_first("u");
    let product = summa(&mesh, [8, 8, 8], 2).interior_first("A");
    vars!(i, io, ii);
    let line = Mesh::new([("x", 3)]);
    let [x] = line.axes();
    let windows = kernel! {
        fn windows(u: [f64; 12], w: [f64; 3]) -> v: [f64; 10] { v[i] += u[i + r] * w[r] }
    };
    let windows = windows.distribute([i], [io], [ii], &line).shard("u", [dim(0).at(x)]).shard("v", [i.at(x)]);
    let refusals = [
        said(twice),
        said(blurred(14, &mesh).interior_first("w")),
        said(blurred(14, &mesh).expect_overlap("u", 0.5)),
        said(product),
        said(windows.interior_first("u")),
    ];
    expect![[r#"
        schedule step 5, `interior_first(u)`:
            `u` already has `interior_first` in step 4; remove one of the two
        schedule step 4, `interior_first(w)`:
            no tensor `w`; the tensors are u, v
        schedule step 4, `expect_overlap(u, 0.5)`:
            at most 0.0 % of the transfer of `u`, halo(x: -1..=1, y: -1..=0), can be hidden, not 50.0 %: all of the leaf waits for it; add `interior_first(u)`
        schedule step 9, `interior_first(A)`:
            the interior cannot be computed before `A` has arrived: it is not fetched as a halo; leave `interior_first` out, or communicate `A` as a halo at the innermost loop around a nest
        schedule step 4, `interior_first(u)`:
            the interior cannot be computed before `u` has arrived: the leaf adds up terms, in an order that depends on how it is cut; leave `interior_first` out, or communicate `u` as a halo at the innermost loop around a nest
    "#]]
    .assert_eq(&refusals.concat());
}

/// Without this, the properties above would hold even if no random schedule were pipelined.
#[test]
fn random_schedules_begin_every_kind_of_transfer_ahead() {
    let mut found: BTreeMap<(bool, &str), usize> = BTreeMap::new();
    let mut draw = Draw(5);
    for number in 0..1500 {
        let choices: Vec<u32> = (0..60).map(|_| draw.below(5040) as u32).collect();
        let schedule = schedule(number % 3, &choices);
        if schedule.lower().is_err() {
            continue;
        }
        let Some(program) = pipelined(&schedule, 2).expect("it can be lowered without") else { continue };
        for transfer in program.nest().transfers.iter().filter(|transfer| transfer.ahead > 0) {
            let is_output = transfer.direction != Direction::In;
            let kind = match (&transfer.route.legs[..], transfer.route.shift()) {
                (_, Some(_)) => "shift",
                ([Leg::Collective { owners: Owners::One(_), .. }], _) => "broadcast",
                ([Leg::Collective { owners: Owners::All, .. }], _) => "all to all owners",
                ([Leg::Collective { .. }], _) => "all-gather",
                ([Leg::Permute { .. }], _) => "permute",
                ([Leg::Halo { .. }], _) => "halo",
                _ => "exchange",
            };
            *found.entry((is_output, kind)).or_default() += 1;
        }
    }
    let is_rare = |(kind, _): &(&(bool, &str), &usize)| matches!(kind, (true, "permute" | "halo"));
    let least = found.iter().filter(|entry| !is_rare(entry)).map(|(_, count)| *count);
    assert!(found.len() >= 10 && least.min() >= Some(3), "{found:?}");
}

fn summa(mesh: &Mesh, [rows, terms, columns]: [usize; 3], panels: usize) -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let [x, y] = mesh.axes();
    let matmul = kernel! {
        fn matmul(A: [f64; rows, terms], B: [f64; terms, columns]) -> C: [f64; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    matmul
        .distribute([m, n], [mo, no], [mi, ni], mesh)
        .divide(k, ko, ki, panels)
        .reorder([mo, no, ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko)
}

#[test]
fn loops_of_no_to_five_iterations_begin_as_far_ahead_as_they_go() {
    // Groups of two and of three ranks: messages between pairs, and messages forwarded from rank to rank.
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    for panels in 1..=5 {
        for terms in [0, 1, panels, 7 * panels - 1] {
            let placed = summa(&mesh, [7, terms, 5], panels);
            let leaf = ["mi", "ni", "ki"];
            let expected = placed.clone().tensorize(leaf).lower().expect("a legal schedule");
            let expected = polyshard::spmd(6, |world| bits(world, &expected)).expect("it runs");
            for depth in 1..=4 {
                let ahead = placed.clone().pipeline("ko", depth).tensorize(leaf).lower().expect("a legal schedule");
                let found = polyshard::spmd(6, |world| bits(world, &ahead)).expect("it runs");
                assert_eq!(found, expected, "{terms} terms, depth {depth}\n{ahead}");
            }
        }
    }
}

/// GEMM-ReduceScatter and its relatives: the terms are distributed over `x`, and the output is sent in panels of rows
/// to its owners.
fn summed(mesh: &Mesh, [rows, terms, columns]: [usize; 3], panels: usize, home: &str) -> Schedule {
    vars!(m, n, k, mo, mi, ko, ki);
    let [x] = mesh.axes();
    let matmul = kernel! {
        fn matmul(A: [f64; rows, terms], B: [f64; terms, columns]) -> C: [f64; rows, columns] {
            C[m, n] += A[m, k] * B[k, n]
        }
    };
    let placed = matmul
        .distribute([k], [ko], [ki], mesh)
        .divide(m, mo, mi, panels)
        .reorder([mo, mi, n, ki])
        .shard("A", [k.at(x)])
        .shard("B", [k.at(x)]);
    let placed = match home {
        "reduce" => placed.shard("C", [m.at(x)]),
        "reduce-scatter" => placed.shard("C", [n.at(x)]),
        _ => placed.shard("C", []),
    };
    placed.communicate("C", mo)
}

#[test]
fn panels_of_the_output_leave_in_every_way_and_number() {
    // Two ranks and three, each of which sums a piece where panels are long.
    for (ranks, columns) in [(2, 5), (3, 5), (3, 3001)] {
        let mesh = Mesh::new([("x", ranks)]);
        for home in ["reduce", "reduce-scatter", "all-reduce"] {
            for panels in 1..=5 {
                let placed = summed(&mesh, [7, 6, columns], panels, home);
                let leaf = ["mi", "n", "ki"];
                let expected = placed.clone().tensorize(leaf).lower().expect("a legal schedule");
                let expected = polyshard::spmd(ranks, |world| bits(world, &expected)).expect("it runs");
                for depth in 1..=if columns > 5 { 2 } else { 4 } {
                    leaves_as(&placed.clone().pipeline("mo", depth).tensorize(leaf), &expected);
                }
            }
        }
    }
    // Each tile is sent to another rank, and rims to neighbours.
    let mesh = Mesh::new([("x", 3), ("y", 3)]);
    let [x, y] = mesh.axes();
    vars!(m, n, i, j);
    let product = kernel! {
        fn product(A: [f64; 9, 4], B: [f64; 4, 10]) -> C: [f64; 9, 10] { C[m, n] += A[m, k] * B[k, n] }
    };
    let tiles = product.distribute([m, n], ["mo", "no"], ["mi", "ni"], &mesh).divide("ni", "po", "pi", 2);
    let permuted = tiles.reorder(["mo", "no", "po", "mi", "pi", "k"]).shard("C", [m.at(y), n.at(x)]);
    let line = Mesh::new([("x", 3)]);
    let [x] = line.axes();
    let spread = kernel! {
        fn spread(A: [f64; 12, 8], W: [f64; 3]) -> C: [f64; 14, 8] { C[i + r, j] += A[i, j] * W[r] }
    };
    let rows = spread.distribute([i], ["io"], ["ii"], &line).divide(j, "po", "pi", 4);
    let rims = rows.reorder(["io", "po", "ii", "pi", "r"]).shard("C", [dim(0).at(x)]);
    for (placed, pattern) in [(permuted, Pattern::Permute), (rims, Pattern::Exchange)] {
        let placed = placed.communicate("C", "po").expect("C", pattern);
        let expected = placed.lower().expect("a legal schedule");
        let expected = polyshard::spmd(expected.mesh().size(), |world| bits(world, &expected)).expect("it runs");
        (1..=3).for_each(|depth| leaves_as(&placed.clone().pipeline("po", depth), &expected));
    }
}

/// Checks that the output is sent while others are computed, with these bits on each rank.
#[track_caller]
fn leaves_as(schedule: &Schedule, expected: &[Vec<u64>]) {
    let program = schedule.lower().expect("a legal schedule");
    assert!(program.nest().output().ahead > 0, "{program}");
    // In place, sums are combined immediately.
    for transport in [Transport::Messages, Transport::Auto] {
        let found = polyshard::spmd(program.mesh().size(), |world| bits_by(world, &program, transport));
        assert!(found.expect("it runs") == expected, "{transport:?}\n{program}");
    }
}

#[test]
fn the_program_says_what_leaves_when_and_what_that_can_hide() {
    let mesh = Mesh::new([("x", 4)]);
    let placed = summed(&mesh, [64; 3], 8, "reduce-scatter");
    let program = placed.clone().pipeline("mo", 2).tensorize(["mi", "n", "ki"]).lower().expect("a legal schedule");
    expect![[r#"
        // matmul: C[m, n] += A[m, k] * B[k, n], f64
        // mesh(x: 4), 4 ranks
        // A[64, 64]: k @ x
        // B[64, 64]: k @ x
        // C[64, 64]: n @ x
        on each rank (x):
            A_tile[64, 16] = A[0..64, 16*x .. +16]: own shard
            B_tile[16, 64] = B[16*x .. +16, 0..64]: own shard
            for mo in 0..8:    // divide(m, mo, mi, 8)
                C_tile[8, 64] = [8*mo .. +8, 0..64] of C, empty
                C[m, n] += A[m, k] * B[k, n]    // product (m=M, n=N, k=K)
                    over m: 8 from 8*mo; n: 64 from 0; k: 16 from 16*x
                begin C <- C_tile: reduce-scatter along x
                await C <- C_tile for mo - 2, if not below 0
            await C <- C_tile for mo = 6
            await C <- C_tile for mo = 7
    "#]]
    .assert_eq(&program.to_string());
    let explained = program.explain();
    let said = explained.lines().map(str::trim);
    let leaves: Vec<_> = said.filter(|line| line.contains("later") || line.contains("awaited")).collect();
    expect![[r#"
        in messages, it is awaited 2 iterations later and combined in the order of iterations, in 3 buffers: at most 87.5 % of it, all but the last of 8 iterations, is in flight while others are computed
        - flow of C: no tile is overwritten while in flight: each iteration of mo is awaited, in order, before the next one that uses its buffer; each iteration of mo begins once and is awaited once, after it was computed
        - matching of C: what is summed up is independent of x; it begins and is awaited in the same iterations on all ranks"#]].assert_eq(&leaves.join("\n"));
    // Two buffers more than without pipelining, and the transfers in flight.
    let waiting = placed.tensorize(["mi", "n", "ki"]).lower().expect("a legal schedule");
    assert!(program.report().tile_bytes >= waiting.report().tile_bytes + 2 * (8 * 64 * 8));
    assert_eq!(program.report().traffic_bytes, waiting.report().traffic_bytes);
}

#[test]
fn the_program_says_what_begins_when_and_what_that_can_hide() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let ahead = summa(&mesh, [64; 3], 8).pipeline("ko", 2).tensorize(["mi", "ni", "ki"]).lower();
    let ahead = ahead.expect("a legal schedule");
    expect![[r#"
        // matmul: C[m, n] += A[m, k] * B[k, n], f64
        // mesh(x: 2, y: 2), 4 ranks
        // A[64, 64]: m @ x, k @ y
        // B[64, 64]: k @ x, n @ y
        // C[64, 64]: m @ x, n @ y
        on each rank (x, y):
            begin A_tile for ko = 0
            begin B_tile for ko = 0
            begin A_tile for ko = 1
            begin B_tile for ko = 1
            for ko in 0..8:    // divide(k, ko, ki, 8)
                await A_tile[32, 8] = A[32*x .. +32, 8*ko .. +8]: broadcast along y from y = (8*ko) / 32
                await B_tile[8, 32] = B[8*ko .. +8, 32*y .. +32]: broadcast along x from x = (8*ko) / 32
                begin A_tile for ko + 2, if below 8
                begin B_tile for ko + 2, if below 8
                C[m, n] += A[m, k] * B[k, n]    // product (m=M, n=N, k=K)
                    over m: 32 from 32*x; n: 32 from 32*y; k: 8 from 8*ko
    "#]]
    .assert_eq(&ahead.to_string());
    let explained = ahead.explain();
    let said = explained.lines().map(str::trim);
    let begins: Vec<_> = said.filter(|line| line.contains("ahead") || line.contains("buffer")).collect();
    expect![[r#"
        in messages, it begins 2 iterations ahead, in 3 buffers: at most 87.5 % of it, all but the first of 8 iterations, is in flight while others are computed
        in messages, it begins 2 iterations ahead, in 3 buffers: at most 87.5 % of it, all but the first of 8 iterations, is in flight while others are computed
        - flow of A: no tile is overwritten while in flight or read: an iteration of ko is computed before the next transfer into its buffer begins; each iteration of ko begins once and is awaited once, before it is computed
        - flow of B: no tile is overwritten while in flight or read: an iteration of ko is computed before the next transfer into its buffer begins; each iteration of ko begins once and is awaited once, before it is computed"#]].assert_eq(&begins.join("\n"));
    // Two buffers more for each panel than without pipelining, and the transfers in flight.
    let waiting = summa(&mesh, [64; 3], 8).tensorize(["mi", "ni", "ki"]).lower().expect("a legal schedule");
    let panels = 2 * 32 * 8 * 8;
    assert!(ahead.report().tile_bytes >= waiting.report().tile_bytes + 2 * panels);
}

#[test]
fn what_cannot_begin_ahead_is_refused_with_the_reason() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let placed = || summa(&mesh, [8; 3], 2);
    let refused = |schedule: Schedule| schedule.lower().expect_err("it is refused");
    let said = |schedule: Schedule| {
        let error = refused(schedule);
        format!("{}\nhelp: {}", error.message(), error.help().unwrap_or_default())
    };
    let ring = summa(&mesh, [8; 3], 2).rotate("ko", ["mo", "no"]);
    let sums = |ranks| summed(&Mesh::new([("x", ranks)]), [8; 3], ranks, "reduce");
    let travelling = sums(2).rotate("mo", ["ko"]).pipeline("mo", 1);
    let unknown = refused(placed().pipeline("kk", 1));
    let refusals = [
        said(placed().pipeline("ko", 0)),
        said(placed().pipeline("ko", 65)),
        said(placed().pipeline("mi", 1)),
        said(placed().pipeline("mo", 1)),
        said(placed().pipeline("ko", 1).pipeline("ko", 2)),
        said(placed().tensorize(["mi", "ni", "ki"]).pipeline("ki", 1)),
        said(ring.clone().pipeline("ko", 2)),
        said(travelling),
        said(sums(2).reassociate("C").pipeline("mo", 1)),
    ];
    expect![[r#"
        transfers cannot begin 0 iterations ahead
        help: give a number from 1 to 64; 1 is enough where panels are equal
        transfers cannot begin 65 iterations ahead
        help: give a number from 1 to 64; 1 is enough where panels are equal
        nothing is communicated at `mi`, so there is nothing to pipeline
        help: communicate a tensor at `mi`; `A` is communicated at `ko`, `B` is communicated at `ko`, `C` is communicated after all loops
        loop `mo` is bound to mesh axis `x` and cannot be moved or changed
        help: pipeline a serial loop, at which something is communicated
        `ko` is already pipelined in step 9
        help: remove one of the two
        loop `ki` is tensorized, so it is inside the leaf
        help: pipeline a loop outside it
        the transfer of `A`, shift(y, 1), cannot be pipelined with depth 2: a tile comes from the neighbour that held it in the previous iteration
        help: pipeline it with depth 1
        the transfer of `C`, shift(x, 1), cannot be pipelined with depth 1: partial sums move on to the next rank in each iteration, where the next terms are added
        help: pipeline a loop at which only inputs are communicated, or leave `pipeline` out
        the transfer of `C`, reduce(x), cannot be pipelined with depth 1: the communication library adds up the terms in its own order, while all ranks wait
        help: leave `reassociate` out, so that they are added up in the order of the ranks
    "#]]
    .assert_eq(&(refusals.join("\n") + "\n"));
    assert!(ring.pipeline("ko", 1).lower().is_ok());
    assert!(matches!(unknown.kind(), ErrorKind::UnknownLoop { .. }), "{unknown}");
}

#[test]
fn a_rank_that_fails_while_messages_are_in_flight_ends_all() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let mesh = Mesh::new([("x", 1), ("y", 3)]);
    let placed = summa(&mesh, [6, 12, 6], 6).pipeline("ko", 2);
    let product = placed.kernel().expect("a product").clone();
    leaf::register("fails_midway", &product, |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 2]| {
        assert!(CALLS.fetch_add(1, Ordering::Relaxed) < 7, "the leaf has had enough");
    })
    .expect("a leaf");
    let program = placed.tensorize_with(["mi", "ni", "ki"], "fails_midway").lower().expect("a legal schedule");
    // Under `mpirun`, `tests/it/laws/mpi.rs` tests the same.
    let ends: [&dyn Fn() -> polyshard::Result<Vec<Vec<u64>>>; 3] = [
        &|| polyshard::spmd(3, |world| bits(world, &program)),
        &|| spmd_emulated(&machine(3, 1), 0.01, |world| bits(world, &program)),
        &|| {
            let late = std::time::Duration::from_millis(20);
            spmd_emulated_shaken(&machine(3, 1), 0.01, 4, late, |world| bits(world, &program))
        },
    ];
    for run in ends {
        CALLS.store(0, Ordering::Relaxed);
        let failed = run().expect_err("a leaf panics").to_string();
        assert!(failed.contains("panicked: the leaf has had enough"), "{failed}");
    }
}

mod progress;
