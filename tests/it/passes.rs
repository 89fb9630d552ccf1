//! Passes over memory: statements of a block that run together, panel by panel, compute the same bits as those that run apart, and what
//! only they read never exists as a whole.

use polyshard::prelude::*;
use polyshard::program::{ArrayKind, Body, KernelId, LoopId, Statement};
use polyshard::schedule::Block;
use polyshard_testing::written::read_back;

/// A step of conjugate gradients on a square, and the state after it.
pub(crate) fn step(n: usize) -> Schedule<Block> {
    kernel! {
        fn step(D: [f64; n, n], R: [f64; n, n], X: [f64; n, n]) -> (X, R, D, rr: f64) {
            let before = R[i, j] * R[i, j];
            let Q[i, j] = 4.0 * D[i, j] - (D[i - 1, j] else 0.0) - (D[i + 1, j] else 0.0) - (D[i, j - 1] else 0.0)
                - (D[i, j + 1] else 0.0);
            let dq = D[i, j] * Q[i, j];
            X[i, j] = X[i, j] + before / dq * D[i, j];
            R[i, j] = R[i, j] - before / dq * Q[i, j];
            rr = R[i, j] * R[i, j];
            D[i, j] = R[i, j] + rr / before * D[i, j];
        }
    }
}

/// The step on a grid of ranks, with panels of this many bytes.
fn on_grid(n: usize, ranks: [usize; 2], panel: usize) -> Schedule<Block> {
    let mesh = Mesh::new(["x", "y"].into_iter().zip(ranks));
    let [x, y] = mesh.axes();
    let [i, j] = ["i", "j"].map(Var::new);
    let placed = |step: Schedule<Block>, array: &str| step.shard(array, [i.at(x), j.at(y)]);
    let step = step(n).distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh);
    ["D", "R", "X"].into_iter().fold(step, placed).in_panels_of(panel)
}

fn element(number: usize, at: &[usize]) -> f64 {
    1.0 / (1 + 3 * number + at.iter().zip([7, 11]).map(|(at, by)| at * by).sum::<usize>() % 17) as f64
}

/// The bits of all results of a program, gathered on each rank.
fn bits(program: &Program) -> Vec<(String, Vec<u64>)> {
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let inputs = program.inputs().enumerate();
        let inputs = inputs.map(|(nth, array)| DistArray::from_fn(world, &array.sharding, |at| element(nth, at)));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let mut prepared = program.prepare(world)?;
        prepared.run_all(&inputs.iter().collect::<Vec<_>>())?;
        let results = prepared.run_all(&inputs.iter().collect::<Vec<_>>())?;
        let arrays: Vec<_> = results.iter().map(|(_, array)| array).collect();
        program.verify(world, &inputs.iter().collect::<Vec<_>>(), &arrays, 1e-12)?;
        let whole = results.iter().map(|(name, array)| {
            let everywhere =
                array.redistribute(world, &Sharding::replicated(array.sharding().mesh(), array.shape()))?;
            Ok((name.to_string(), everywhere.block().iter().map(|element| element.to_bits()).collect()))
        });
        whole.collect::<polyshard::Result<Vec<_>>>()
    });
    let mut found = found.expect("it runs");
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 1, "all ranks have the same");
    found.remove(0)
}

/// The names of the arrays that the kernels of each pass write.
fn passes(program: &Program) -> Vec<String> {
    let body = program.body();
    let spans = body.spans(&body.statements).map(|span| body.kernels_of(span));
    let name = |id: &KernelId| program.array(body.kernels[id.0].writes()).name.to_string();
    let spans = spans.filter(|kernels| !kernels.is_empty());
    spans.map(|kernels| kernels.iter().map(name).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn statements_run_in_passes_with_the_bits_of_one_after_the_other() {
    for (n, ranks) in [(12, [1, 1]), (13, [2, 1]), (9, [3, 1]), (11, [2, 2]), (7, [3, 2])] {
        let schedule = on_grid(n, ranks, 8 * n * 8);
        let together = schedule.lower().expect("a program");
        let apart = ["before", "Q", "dq", "X", "R", "rr", "D"].into_iter().fold(schedule, Schedule::<Block>::apart);
        let apart = apart.lower().expect("a program");
        assert_eq!(passes(&apart).len(), 7, "{apart}");
        assert!(passes(&together).len() < 6, "{together}");
        assert_eq!(bits(&together), bits(&apart), "{ranks:?}\n{together}");
        assert_eq!(bits(&read_back(&together)), bits(&apart), "{ranks:?}\n{together}");
    }
}

#[test]
fn an_explanation_lists_passes_and_the_bytes_that_they_move() {
    let program = on_grid(64, [2, 1], 16 << 10).lower().expect("a program");
    assert_eq!(passes(&program), ["before Q dq", "X R rr", "D"], "{program}");
    let explained = program.explain();
    let bytes = 64 * 32 * 8;
    // Of R, D and Q; apart, of D and Q twice.
    let first =
        format!("at most {} bytes through memory per rank, {} if they ran apart", 3 * bytes + 16, 5 * bytes + 16);
    // Of D, Q, and X and R before and after; apart, of R twice.
    let second =
        format!("at most {} bytes through memory per rank, {} if they ran apart", 6 * bytes + 24, 7 * bytes + 40);
    assert!(explained.contains(&first) && explained.contains(&second), "{explained}");
    assert!(explained.contains("each iteration reads of it what the same iteration has written on the same rank"));
}

/// Attention of a few heads, of which only the result is asked for.
pub(crate) fn attention(n: usize) -> Schedule<Block> {
    let (heads, d, scale) = (3, 4, 0.5);
    kernel! {
        fn attention(Q: [f64; heads, n, d], K: [f64; heads, n, d], V: [f64; heads, n, d]) -> O: [f64; heads, n, d] {
            let S[h, i, j] = scale * Q[h, i, c] * K[h, j, c];
            let M[h, i] max= S[h, i, j];
            let P[h, i, j] = exp(S[h, i, j] - M[h, i]);
            let L[h, i] = P[h, i, j];
            O[h, i, v] = P[h, i, j] * V[h, j, v];
            O[h, i, v] = O[h, i, v] / L[h, i];
        }
    }
}

#[test]
fn what_only_a_pass_reads_is_never_an_array() {
    for (n, ranks) in [(16, 1), (21, 2), (10, 3), (5, 4), (31, 6)] {
        let mesh = Mesh::new([("x", ranks)]);
        let [x] = mesh.axes();
        let [i, j] = ["i", "j"].map(Var::new);
        let schedule = attention(n).distribute(["i"], ["io"], ["ii"], &mesh).in_panels_of(256);
        let schedule = schedule.shard("Q", [i.at(x)]).shard("K", [j.at(x)]).shard("V", [j.at(x)]);
        let together = schedule.lower().expect("a program");
        let apart = ["S", "M", "P", "L", "O"].into_iter().fold(schedule, Schedule::<Block>::apart);
        let apart = apart.lower().expect("a program");
        let kept = |program: &Program| {
            let arrays = program.of_kind(ArrayKind::Panels).into_iter();
            arrays.map(|id| program.array(id).name.to_string()).collect::<Vec<_>>()
        };
        if n > 10 {
            assert_eq!((kept(&together).join(" "), kept(&apart).len()), ("S M P L O".into(), 0), "{together}");
            let bytes = |program: &Program| program.report().shard_bytes + program.report().tile_bytes;
            assert!(bytes(&together) < bytes(&apart), "{}\n{}", together.explain(), apart.explain());
        }
        assert_eq!(bits(&together), bits(&apart), "{ranks}\n{together}");
        assert_eq!(bits(&read_back(&together)), bits(&apart), "{ranks}\n{together}");
    }
}

/// Two statements that share the panels of a loop, by a step.
fn by_step(text: &str) -> Result<Program, String> {
    let n = 12;
    let block = kernel! {
        fn block(A: [f64; n, n], z: [f64; n]) -> (y: [f64; n], w: [f64; n]) {
            let B[i, j] = 2.0 * A[i, j];
            y[i] = B[i, k] * z[k];
            w[i] = B[i, k] * y[i];
        }
    };
    let mesh = Mesh::new([("x", 2)]);
    let steps = polyshard::text::parse_chain(text, Some(&mesh)).expect("steps");
    steps
        .into_iter()
        .fold(block, |block, step| block.apply(step))
        .lower()
        .map_err(|error| format!("{}; {}", error.message(), error.help().unwrap_or_default()))
}

#[test]
fn a_step_makes_statements_run_together_or_says_why_they_cannot() {
    let start = ".distribute([i], [io], [ii]).shard(A, i @ x).split(ii, it, in, 2)";
    let legal = by_step(&format!("{start}.together([B, y, w], it)")).expect("a program");
    assert_eq!(passes(&legal), ["B y w"], "{legal}");
    let apart = by_step(start).expect("a program");
    assert_eq!(passes(&apart), ["B", "y", "w"]);
    assert_eq!(bits(&legal), bits(&apart));
    // Each iteration of `kt` adds to `y`, which is complete after all of them.
    let panels = ".distribute([i], [io], [ii]).shard(A, i @ x).split(k, kt, kn, 4).reorder([kt, ii, kn])";
    let incomplete = by_step(&format!("{panels}.together([y, w], kt)"));
    expect_test::expect!["block `block`: the kernel that writes `w` reads `y` in the loops that it shares with the kernel that writes it, where it is not complete; leave `together` out, or share a loop around all that the statement reads"].assert_eq(&incomplete.expect_err("y is complete after the loop"));
    // A sum over `j` reads each panel of `B` in the iteration that writes it.
    let in_panels = by_step(&format!("{panels}.split(j, kt, jn, 4).reorder([kt, ii, jn]).together([B, y], kt)"));
    let in_panels = in_panels.expect("a program");
    assert_eq!(passes(&in_panels), ["B y", "w"]);
    bits(&in_panels);
    let other = by_step(&format!("{start}.together([B, w], ii)"));
    expect_test::expect![
        "block `block`: no statement that writes one of `B` and `w` has the loop `ii`; the indices are `i`, `j` and `k`"
    ]
    .assert_eq(&other.expect_err("no such loop"));
    // One statement in two passes.
    let panels = ".distribute([i], [io], [ii]).shard(A, i @ x).split(ii, it, in, 2)";
    let twice = by_step(&format!(
        "{panels}.of(B).together([B, w], it).of(w).together([B, w], it).of_all().of(y).together([y], it)"
    ));
    let twice = twice.expect_err("`y` is in both");
    assert!(twice.contains("`y` runs together with others already"), "{twice}");
    let none = by_step(&format!("{start}.apart(q)"));
    expect_test::expect!["block `block`: no statement writes the array `q`; the indices are `i`, `j` and `k`"]
        .assert_eq(&none.expect_err("no such array"));
}

#[test]
fn a_program_is_refused_whose_kernels_read_what_is_not_yet_written() {
    let program = on_grid(12, [2, 1], 256).lower().expect("a program");
    let mut body = program.body().clone();
    body.statements.retain(|statement| !matches!(statement, Statement::Free(_)));
    assert!(Program::new(body.clone()).is_ok());
    let refused = |change: &dyn Fn(&mut Body)| {
        let mut changed = body.clone();
        change(&mut changed);
        Program::new(changed).expect_err("it is illegal").to_string()
    };
    let each = |body: &mut Body, change: &dyn Fn(&mut Statement)| {
        body.statements.iter_mut().for_each(|statement| statement.visit_mut(&mut |one| change(one)));
    };
    let named = |body: &Body, name: &str| {
        body.arrays.iter().position(|array| array.name.as_str() == name && array.kind != ArrayKind::Input).expect("it")
    };
    let found = [
        // Within each pass, the readers before the writers.
        refused(&|body| {
            each(body, &|statement| {
                if let Statement::Loop(_, inside) = statement {
                    inside.reverse();
                }
            });
        }),
        // Q is read after its pass, so it cannot be in a tile.
        refused(&|body| {
            let q = named(body, "Q");
            body.arrays[q].kind = ArrayKind::Panels;
        }),
        // A kernel that leaves its pass reads what is not complete.
        refused(&|body| {
            let dq = named(body, "dq");
            let kernel = body.kernels.iter().position(|row| row.writes().0 == dq).expect("it is written");
            body.kernels[kernel].loops = vec![LoopId(body.loops.len())];
            body.loops.push(body.loops[0].clone());
        }),
    ];
    expect_test::expect![[r#"
        statement 1: `step` reads `Q` before it is written
        statement 1: `step` has a transfer, number 1, of 72 elements into a tile of 0
        statement 1: `step` does not run its leaf between the ends of its transfers"#]]
    .assert_eq(&found.join("\n"));
}
