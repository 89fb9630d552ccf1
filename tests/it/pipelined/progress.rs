//! Progress threads: messages make progress while an uncut leaf computes, and no bit changes.

use super::*;
use polyshard::runtime::Progress;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The bits of the output on this rank, with a progress thread.
fn bits_beside(world: &World, program: &Program) -> polyshard::Result<Vec<u64>> {
    world.set_progress(Progress::Thread)?;
    bits(world, program)
}

/// Runs `waiting` without progress threads and `ahead` with them, on threads and on emulated links.
fn check(waiting: &Program, ahead: &Program, seed: usize) -> Result<(), TestCaseError> {
    let ranks = waiting.mesh().size();
    let expected = polyshard::spmd(ranks, |world| bits(world, waiting)).map_err(failed(waiting))?;
    let found = polyshard::spmd(ranks, |world| bits_beside(world, ahead)).map_err(failed(ahead))?;
    prop_assert!(found == expected, "{}", ahead);
    let late = Duration::from_micros(500);
    let found = spmd_emulated_shaken(&machine(ranks, seed), 0.01, seed as u64, late, |world| bits_beside(world, ahead));
    prop_assert!(found.map_err(failed(ahead))? == expected, "on emulated links\n{}", ahead);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_schedules_give_the_same_bits_with_a_progress_thread(
        kind in 0usize..3, choices in prop::collection::vec(0u32..5040, 0..90), depth in 1usize..5, seed in 0usize..70,
    ) {
        let Some([waiting, ahead]) = pair(kind, &choices, depth)? else { return Ok(()) };
        check(&waiting, &ahead, seed)?;
        check(&waiting, &ahead.by_exchange(), seed)?;
    }

    #[test]
    fn random_stencils_give_the_same_bits_with_a_progress_thread(
        choices in prop::collection::vec(0u32..5040, 0..40), seed in 0usize..70,
    ) {
        let Some([waiting, first]) = stencil_pair(&choices) else { return Ok(()) };
        check(&waiting, &first, seed)?;
    }
}

#[test]
fn sums_in_pieces_have_the_same_bits_with_a_progress_thread() {
    let mesh = Mesh::new([("x", 3)]);
    for home in ["reduce", "reduce-scatter", "all-reduce"] {
        let placed = summed(&mesh, [7, 6, 3001], 4, home);
        let leaf = ["mi", "n", "ki"];
        let waiting = placed.clone().tensorize(leaf).lower().expect("a legal schedule");
        for depth in [1, 2] {
            let ahead = placed.clone().pipeline("mo", depth).tensorize(leaf).lower().expect("a legal schedule");
            check(&waiting, &ahead, depth).unwrap_or_else(|error| panic!("{home}, depth {depth}: {error}"));
        }
    }
}

/// How many leaves each of three ranks has begun.
struct Leaves {
    begun: Mutex<[usize; 3]>,
    changed: Condvar,
}

impl Leaves {
    /// Counts a leaf of the rank of this thread; returns the rank and the number of its leaf.
    fn begin(&self) -> (usize, usize) {
        let thread = std::thread::current();
        let name = thread.name().expect("a leaf is computed by its rank");
        let rank: usize = name.strip_prefix("rank ").and_then(|rank| rank.parse().ok()).expect("a rank");
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun[rank] += 1;
        self.changed.notify_all();
        (rank, begun[rank])
    }

    /// Waits until a rank has begun this many leaves.
    fn wait(&self, rank: usize, leaves: usize) {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = Duration::from_secs(20);
        let waited = self.changed.wait_timeout_while(begun, limit, |begun| begun[rank] < leaves);
        let has_timed_out = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        assert!(!has_timed_out, "rank {rank} has not come to leaf {leaves}: nobody passes on what it waits for");
    }
}

/// Rank 1 forwards the third panel to rank 2 during its own second leaf, which does not end before rank 2 has received
/// it; rank 0 sends it only after that leaf has begun.
#[test]
fn a_panel_is_passed_on_by_a_rank_whose_leaf_is_not_cut() {
    static LEAVES: Leaves = Leaves { begun: Mutex::new([0; 3]), changed: Condvar::new() };
    vars!(m, n, k, mo, mi, ko, ki);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let product = kernel! {
        fn product(A: [f64; 6, 12], B: [f64; 12, 6]) -> C: [f64; 6, 6] { C[m, n] += A[m, k] * B[k, n] }
    };
    let statement = product.kernel().expect("a product").clone();
    leaf::register("waits", &statement, |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 2]| {
        match LEAVES.begin() {
            (0, 1) => LEAVES.wait(1, 2),
            (1, 2) => LEAVES.wait(2, 3),
            _ => {}
        }
    })
    .expect("a leaf");
    let program = product
        .distribute([m], [mo], [mi], &mesh)
        .divide(k, ko, ki, 3)
        .reorder([mo, ko, mi, n, ki])
        .shard("A", [m.at(x)])
        .shard("B", [pin(x, 0)])
        .shard("C", [m.at(x)])
        .communicate("B", ko)
        .pipeline(ko, 1)
        .tensorize_with([mi, n, ki], "waits")
        .lower()
        .expect("a legal schedule");
    assert!(program.to_string().contains("broadcast along x from x = 0"), "{program}");
    let run = polyshard::spmd(3, |world| {
        world.set_progress(Progress::Thread)?;
        let [a, b] = ["A", "B"].map(|name| DistArray::filled(world, program.sharding(name), 1.0));
        program
            .prepare::<f64>(world)?
            .with_transport(Transport::Messages)
            .run(&[&a?, &b?])
            .map_err(polyshard::Error::from)
    });
    run.expect("the third panel comes");
}

#[test]
fn a_rank_that_fails_beside_its_progress_thread_ends_all() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let mesh = Mesh::new([("x", 1), ("y", 3)]);
    let placed = summa(&mesh, [6, 12, 6], 6).pipeline("ko", 2);
    let product = placed.kernel().expect("a product").clone();
    leaf::register("fails_beside", &product, |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 2]| {
        assert!(CALLS.fetch_add(1, Ordering::Relaxed) < 7, "the leaf has had enough");
    })
    .expect("a leaf");
    let program = placed.tensorize_with(["mi", "ni", "ki"], "fails_beside").lower().expect("a legal schedule");
    // Under `mpirun`, `tests/it/laws/mpi.rs` tests the same.
    let ends: [&dyn Fn() -> polyshard::Result<Vec<Vec<u64>>>; 2] =
        [&|| polyshard::spmd(3, |world| bits_beside(world, &program)), &|| {
            spmd_emulated(&machine(3, 1), 0.01, |world| bits_beside(world, &program))
        }];
    for run in ends {
        CALLS.store(0, Ordering::Relaxed);
        let failed = run().expect_err("a leaf panics").to_string();
        assert!(failed.contains("panicked: the leaf has had enough"), "{failed}");
    }
}
