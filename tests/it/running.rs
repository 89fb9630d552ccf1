//! Running reductions give the results of plain loops, along serial and distributed loops, in rings, and whatever the schedule.

use polyshard::prelude::*;
use polyshard::program::ArrayKind;
use polyshard::schedule::Block;
use polyshard_testing::written::read_back;
use proptest::prelude::*;

/// An element of an input, from its global index.
fn element(input: usize, at: &[usize]) -> f64 {
    let number = at.iter().zip([7, 13, 5]).map(|(at, by)| at * by).sum::<usize>();
    ((number * 31 + 17 * input) % 41) as f64 / 10.0 - 2.0
}

/// The results of a program, of a run after another one; all back ends have the same bits.
fn results(program: &Program) -> Vec<(String, Vec<f64>)> {
    let run = |program: &Program| {
        let found = polyshard::spmd(program.mesh().size(), |world| {
            let inputs = program.inputs().enumerate();
            let inputs = inputs.map(|(nth, array)| DistArray::from_fn(world, &array.sharding, |at| element(nth, at)));
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            let inputs: Vec<_> = inputs.iter().collect();
            let mut prepared = program.prepare(world)?;
            prepared.run_all(&inputs)?;
            let results = prepared.run_all(&inputs)?;
            program.verify(world, &inputs, &results.iter().map(|(_, array)| array).collect::<Vec<_>>(), 1e-9)?;
            let whole = results.iter().map(|(name, array)| {
                let everywhere =
                    array.redistribute(world, &Sharding::replicated(array.sharding().mesh(), array.shape()))?;
                Ok((name.to_string(), everywhere.block().iter().map(|element| element.to_bits()).collect()))
            });
            whole.collect::<polyshard::Result<Vec<(String, Vec<u64>)>>>()
        });
        found.unwrap_or_else(|error| panic!("{error}\n{program}"))
    };
    let mut found = run(program);
    assert!(found.iter().all(|other| *other == found[0]), "ranks differ\n{program}");
    assert_eq!(run(&read_back(program)), found, "{program}");
    let values = |bits: Vec<u64>| bits.into_iter().map(f64::from_bits).collect();
    found.swap_remove(0).into_iter().map(|(name, bits)| (name, values(bits))).collect()
}

fn close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (nth, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= 1e-9 * (1.0 + expected.abs()),
            "{what}: {found} is not {expected} at {nth}"
        );
    }
}

/// Attention by an online softmax: `n` queries, `s` keys and values, of `d` and `e` elements.
fn attention([n, s, d, e]: [usize; 4]) -> Schedule<Block> {
    kernel! {
        reduction online(m = -inf, l = 0.0, o = 0.0) {
            let t = max(max(a.m, b.m), -1e30);
            m: t, l: a.l * exp(a.m - t) + b.l * exp(b.m - t), o: a.o * exp(a.m - t) + b.o * exp(b.m - t)
        } means (l * exp(m), o * exp(m))
        fn attention(Q: [f64; n, d], K: [f64; s, d], V: [f64; s, e]) -> O: [f64; n, e] {
            let S[i, j] = 0.5 * Q[i, c] * K[j, c];
            let (M[i], L[i], A[i, v]) online= (S[i, j], 1.0, V[j, v]);
            O[i, v] = A[i, v] / L[i];
        }
    }
}

/// The same by plain loops.
fn attention_in_loops([n, s, d, e]: [usize; 4]) -> Vec<f64> {
    let mut all = Vec::new();
    for i in 0..n {
        let score = |j: usize| 0.5 * (0..d).map(|c| element(0, &[i, c]) * element(1, &[j, c])).sum::<f64>();
        let most = (0..s).map(score).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..s).map(|j| (score(j) - most).exp()).sum();
        all.extend((0..e).map(|v| (0..s).map(|j| (score(j) - most).exp() * element(2, &[j, v])).sum::<f64>() / sum));
    }
    all
}

const SIZES: [[usize; 4]; 4] = [[8, 12, 4, 6], [7, 11, 3, 5], [1, 5, 2, 1], [13, 2, 1, 70]];

#[test]
fn rows_of_queries_or_of_keys_are_distributed() {
    for sizes in SIZES {
        let expected = attention_in_loops(sizes);
        for ranks in [1, 2, 3, 4, 6] {
            let mesh = Mesh::new([("x", ranks)]);
            let [x] = mesh.axes();
            let [i, j] = ["i", "j"].map(Var::new);
            let queries = attention(sizes).distribute([i], ["io"], ["ii"], &mesh).shard("Q", [i.at(x)]);
            let queries = queries.shard("K", [j.at(x)]).shard("V", [j.at(x)]).lower().expect("rows of queries");
            close(&results(&queries)[0].1, &expected, &queries.to_string());
            let keys = attention(sizes).distribute([j], ["jo"], ["ji"], &mesh);
            let keys = keys.shard("K", [j.at(x)]).shard("V", [j.at(x)]).lower().expect("rows of keys");
            close(&results(&keys)[0].1, &expected, &keys.to_string());
        }
        for ranks in [[2, 2], [3, 2]] {
            let mesh = Mesh::new(["x", "y"].into_iter().zip(ranks));
            let [x, y] = mesh.axes();
            let [i, j] = ["i", "j"].map(Var::new);
            let both = attention(sizes).distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh);
            let both = both.shard("Q", [i.at(x)]).shard("K", [j.at(y)]).shard("V", [j.at(y)]).lower();
            let both = both.expect("blocks of scores");
            close(&results(&both)[0].1, &expected, &both.to_string());
        }
    }
}

/// Attention whose keys and values travel in a ring.
pub(crate) fn ring(sizes: [usize; 4], ranks: usize) -> Schedule<Block> {
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    let [i, j] = ["i", "j"].map(Var::new);
    let ring = attention(sizes).distribute([i], ["io"], ["ii"], &mesh).divide(j, "jo", "ji", ranks);
    let ring = ring.reorder(["jo", "ii"]).rotate("jo", ["io"]).shard("Q", [i.at(x)]).shard("O", [i.at(x)]);
    let ring = ring.shard("K", [j.at(x)]).shard("V", [j.at(x)]).together(["S", "A"], "jo");
    ring.communicate("K", "jo").communicate("V", "jo")
}

#[test]
fn keys_and_values_travel_in_a_ring() {
    for sizes in SIZES {
        let expected = attention_in_loops(sizes);
        for ranks in [1, 2, 3, 4, 6] {
            let ring = ring(sizes, ranks);
            for ring in [ring.clone(), ring.pipeline("jo", 1)] {
                let program = ring.lower().unwrap_or_else(|error| panic!("{error}"));
                assert!(program.of_kind(ArrayKind::Panels).len() == 1, "scores are in tiles only\n{program}");
                close(&results(&program)[0].1, &expected, &program.explain());
            }
        }
    }
}

/// Results by name.
fn of<'a>(results: &'a [(String, Vec<f64>)], name: &str) -> &'a [f64] {
    &results.iter().find(|(other, _)| other == name).expect("a result").1
}

/// The built-in reductions of an array of `n` rows, with rows and columns on meshes.
fn on_meshes(block: impl Fn() -> Schedule<Block>, check: impl Fn(&[(String, Vec<f64>)], &str)) {
    for ranks in [[1, 1], [2, 1], [1, 2], [1, 3], [2, 2], [3, 2]] {
        let mesh = Mesh::new(["x", "y"].into_iter().zip(ranks));
        let [x, y] = mesh.axes();
        let [i, j] = ["i", "j"].map(Var::new);
        let program = block().distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh).shard("A", [i.at(x), j.at(y)]);
        let program = program.lower().unwrap_or_else(|error| panic!("{error}"));
        check(&results(&program), &program.explain());
    }
}

#[test]
fn sums_of_exponentials_of_masked_rows_are_those_of_plain_loops() {
    let (n, m) = (5, 7);
    let block = || {
        kernel! {
            fn f(A: [f64; n, m]) -> (M: [f64; n], L: [f64; n]) {
                // Rows begin with masked scores; of the last one, all are.
                let S[i, j] = if i < j + 1 && i < 4 { A[i, j] } else { -inf };
                (M[i], L[i]) logsumexp= (S[i, j], 1.0);
            }
        }
    };
    on_meshes(block, |found, what| {
        for i in 0..n {
            let terms: Vec<f64> = (0..m).filter(|j| i < j + 1 && i < 4).map(|j| element(0, &[i, j]).exp()).collect();
            let sum = of(found, "L")[i] * of(found, "M")[i].exp();
            close(&[sum], &[terms.iter().sum::<f64>()], what);
            assert!(of(found, "L")[i] >= 0.0, "{what}");
        }
    });
}

#[test]
fn means_and_variances_are_those_of_two_passes() {
    let (n, m) = (6, 9);
    let block = || {
        kernel! {
            fn f(A: [f64; n, m]) -> (count: [f64; n], mean: [f64; n], q: [f64; n]) {
                (count[i], mean[i], q[i]) mean_variance= (1.0, A[i, j], 0.0);
            }
        }
    };
    on_meshes(block, |found, what| {
        for i in 0..n {
            let mean = (0..m).map(|j| element(0, &[i, j])).sum::<f64>() / m as f64;
            let q: f64 = (0..m).map(|j| (element(0, &[i, j]) - mean).powi(2)).sum();
            close(&["count", "mean", "q"].map(|name| of(found, name)[i]), &[m as f64, mean, q], what);
        }
    });
}

#[test]
fn of_equal_values_the_first_is_found() {
    let (n, m) = (6, 11);
    let block = || {
        kernel! {
            fn f(A: [f64; n, m]) -> (most: [f64; n], at: [f64; n], least: [f64; n], there: [f64; n]) {
                let B[i, j] = floor(A[i, j]);
                let C[i, j] = if i == 3 && j > 4 { (B[i, j] - B[i, j]) / 0.0 } else { B[i, j] };
                (most[i], at[i]) argmax= (C[i, j], j);
                (least[i], there[i]) argmin= (C[i, j], j);
            }
        }
    };
    on_meshes(block, |found, what| {
        for i in 0..n {
            let row: Vec<f64> = (0..m).map(|j| element(0, &[i, j]).floor()).collect();
            if i == 3 {
                // The first NaN.
                assert!(
                    of(found, "most")[i].is_nan() && of(found, "at")[i] == 5.0 && of(found, "there")[i] == 5.0,
                    "{what}"
                );
                continue;
            }
            let first = |is: &dyn Fn(f64, f64) -> bool| (0..m).find(|&j| row.iter().all(|&other| is(row[j], other)));
            let (most, least) = (first(&|a, b| a >= b).expect("one"), first(&|a, b| a <= b).expect("one"));
            let expected = [row[most], most as f64, row[least], least as f64];
            assert_eq!(["most", "at", "least", "there"].map(|name| of(found, name)[i]), expected, "{what}");
        }
    });
}

#[test]
fn without_terms_results_are_the_initial_values() {
    let block = || {
        kernel! {
            fn f(A: [f64; 4, 3]) -> (M: [f64; 4], L: [f64; 4]) {
                (M[i], L[i]) logsumexp= (A[i, j], 1.0) for j in 0..0;
            }
        }
    };
    let mesh = Mesh::new([("x", 2)]);
    let program = block().distribute(["i"], ["io"], ["ii"], &mesh).lower().expect("a program");
    let found = results(&program);
    assert_eq!((of(&found, "M"), of(&found, "L")), (&[f64::NEG_INFINITY; 4][..], &[0.0; 4][..]));
}

#[test]
fn clusters_are_those_of_plain_loops() {
    let (n, k, d, rounds) = (40, 3, 2, 5);
    let block = || {
        kernel! {
            fn kmeans(X: [f64; n, d], C: [f64; k, d]) -> C {
                repeat(rounds) {
                    let D[i, c] = (X[i, f] - C[c, f]) * (X[i, f] - C[c, f]);
                    let (nearest[i], own[i]) argmin= (D[i, c], c);
                    let N[c] = if own[i] == c { 1.0 } else { 0.0 };
                    let S[c, f] = if own[i] == c { X[i, f] } else { 0.0 };
                    C[c, f] = if N[c] > 0.0 { S[c, f] / N[c] } else { C[c, f] };
                }
            }
        }
    };
    let mut centers: Vec<[f64; 2]> = (0..k).map(|c| [element(1, &[c, 0]), element(1, &[c, 1])]).collect();
    for _ in 0..rounds {
        let mut sums = vec![[0.0; 3]; k];
        for i in 0..n {
            let x = [element(0, &[i, 0]), element(0, &[i, 1])];
            let distance = |c: usize| (0..d).map(|f| (x[f] - centers[c][f]).powi(2)).sum::<f64>();
            let own = (1..k).fold(0, |best, c| if distance(c) < distance(best) { c } else { best });
            [x[0], x[1], 1.0].iter().zip(&mut sums[own]).for_each(|(one, sum)| *sum += one);
        }
        for (center, sum) in centers.iter_mut().zip(&sums).filter(|(_, sum)| sum[2] > 0.0) {
            *center = [sum[0] / sum[2], sum[1] / sum[2]];
        }
    }
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let program = block().distribute(["i"], ["io"], ["ii"], &mesh).shard("X", [Var::new("i").at(x)]).lower();
    let program = program.unwrap_or_else(|error| panic!("{error}"));
    close(of(&results(&program), "C"), &centers.concat(), &program.explain());
}

#[test]
fn the_search_leaves_records_whole() {
    let machine = Machine::preset("a100").expect("a machine");
    for ranks in [1, 4] {
        let found = attention([32, 48, 4, 6]).auto(ranks, &machine).find().unwrap_or_else(|error| panic!("{error}"));
        let program = found.program();
        close(&results(program)[0].1, &attention_in_loops([32, 48, 4, 6]), &program.to_string());
    }
}

#[test]
fn steps_and_programs_that_divide_records_are_refused() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let lower = |schedule: Schedule<Block>| {
        let text = schedule.lower().expect_err("an error").to_string();
        text.lines().next().expect("a message").to_owned()
    };
    let plain = || attention([4, 6, 2, 4]).distribute(["i"], ["io"], ["ii"], &mesh);
    let far = (1usize << 24) + 2;
    let last =
        || kernel! { fn last(A: [f32; 2, far]) -> (v: [f32; 2], at: [f32; 2]) { (v[i], at[i]) argmax= (A[i, j], j) } };
    let errors = [
        lower(last().distribute(["i"], ["io"], ["ii"], &mesh)),
        lower(plain().distribute(["field"], ["fo"], ["fi"], &Mesh::new([("y", 2)]))),
        lower(plain().shard("M_L_A", [dim(1).at(x)])),
        lower(plain().reassociate("A")),
        lower(plain().shard("M_L_A", [partial(x)])),
    ];
    expect_test::expect![[r#"
        kernel `last`: `argmax=` does not fit `v_at[i, field]`: f32 does not hold all values of `j`; use a smaller extent, or `f64`
        schedule step 2, `distribute([field], [fo], [fi], mesh(y: 2))`: block `attention`: no statement has one of the loops `field`; the indices are `i`, `c`, `j` and `v`
        schedule step 2, `shard(M_L_A, dim(1) @ x)`: block `attention`: the block has no array `M_L_A`; the arrays are `Q`, `K`, `V`, `S`, `M`, `L`, `A` and `O`
        schedule step 2, `reassociate(A)`: terms of `M_L_A online= ..` are combined in rank order; leave `reassociate` out
        schedule step 2, `shard(M_L_A, partial(x))`: block `attention`: the block has no array `M_L_A`; the arrays are `Q`, `K`, `V`, `S`, `M`, `L`, `A` and `O`"#]].assert_eq(&errors.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the sizes, the mesh, the panels and the statements that run apart.
    #[test]
    fn random_schedules_give_the_attention_of_plain_loops(
        sizes in [1..14usize, 1..14, 1..5, 1..9],
        ranks in 1..7usize,
        layout in 0..4usize,
        panel in prop::sample::select(vec![1usize, 100, 600, 1 << 20]),
        is_apart in any::<bool>(),
    ) {
        let mesh = Mesh::new([("x", ranks)]);
        let [x] = mesh.axes();
        let [i, j, v] = ["i", "j", "v"].map(Var::new);
        let schedule = match layout {
            0 => attention(sizes).distribute([i], ["io"], ["ii"], &mesh).shard("Q", [i.at(x)]).shard("K", [j.at(x)]),
            1 => attention(sizes).distribute([j], ["jo"], ["ji"], &mesh).shard("V", [j.at(x)]).shard("O", [i.at(x)]),
            2 => attention(sizes).distribute([v], ["vo"], ["vi"], &mesh).shard("Q", [i.at(x)]).shard("V", [v.at(x)]),
            _ => ring(sizes, ranks),
        };
        let schedule = if is_apart && layout < 3 { schedule.apart("A") } else { schedule };
        let program = schedule.in_panels_of(panel).lower();
        let program = program.unwrap_or_else(|error| panic!("{error}"));
        close(&results(&program)[0].1, &attention_in_loops(sizes), &program.explain());
    }
}
