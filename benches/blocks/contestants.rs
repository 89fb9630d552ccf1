//! The blocks and what they are compared with, timed in turns.

use crate::{Sizes, hand};
use polyshard::prelude::*;
use polyshard::schedule::Block;
use polyshard_testing::bench::clock::together;
use polyshard_testing::bench::record::{Case, Record};

/// A contestant: a name, and a program or what a rank does by hand.
enum Contestant {
    Program(&'static str, Box<Program>),
    Hand(&'static str, fn(&World, usize)),
}

fn program(name: &'static str, program: Program) -> Contestant {
    Contestant::Program(name, Box::new(program))
}

/// How often a round is repeated in a run.
const ROUNDS: usize = 10;

/// Times contestants in turns; a run of `cg` has several rounds, each of which counts.
fn measure<T: Element>(sizes: &Sizes, contestants: &[Contestant], rounds: usize) -> polyshard::Result<()> {
    polyshard::spmd(sizes.ranks, |world| {
        let mut prepared = Vec::new();
        for contestant in contestants {
            prepared.push(match contestant {
                Contestant::Hand(..) => None,
                Contestant::Program(_, program) => {
                    let inputs = program
                        .inputs()
                        .enumerate()
                        .map(|(nth, array)| DistArray::from_fn(world, &array.sharding, |at| value::<T>(nth, at)));
                    Some((inputs.collect::<Result<Vec<_>, _>>()?, program.prepare::<T>(world)?))
                }
            });
        }
        for run in 0..=sizes.runs {
            for (contestant, prepared) in contestants.iter().zip(&mut prepared) {
                let (name, seconds) = match (contestant, prepared) {
                    (Contestant::Program(name, _), Some((inputs, prepared))) => {
                        let inputs: Vec<_> = inputs.iter().collect();
                        (name, together(world, || prepared.run_all(&inputs).map(drop))?)
                    }
                    (Contestant::Hand(name, run), _) => (
                        name,
                        together(world, || {
                            run(world, sizes.size);
                            Ok(())
                        })?,
                    ),
                    (Contestant::Program(..), None) => unreachable!("programs are prepared"),
                };
                // The first run maps its memory, and is not counted.
                if run > 0 && world.is_root() {
                    let case = Case::on(world, world.size(), T::DTYPE.name(), sizes.size);
                    let (contestant, value) = ((*name).to_owned(), seconds / rounds as f64);
                    println!("{}", Record { quantity: "seconds".into(), case, contestant, value });
                }
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn value<T: Element>(number: usize, at: &[usize]) -> T {
    let sum: usize = at.iter().zip([7, 3, 5]).map(|(at, by)| at * by).sum::<usize>() + 11 * number;
    T::from((sum % 17) as f64 / 16.0 - 0.5).expect("a float")
}

fn apart(schedule: Schedule<Block>, arrays: &[&str]) -> Schedule<Block> {
    arrays.iter().fold(schedule, |schedule, array| schedule.apart(*array))
}

/// Rounds of conjugate gradients, on blocks of rows.
pub(crate) fn cg(sizes: &Sizes) -> polyshard::Result<()> {
    let (n, rounds) = (sizes.size, ROUNDS);
    let cg = kernel! {
        fn cg(B: [f64; n, n]) -> (X: [f64; n, n], rr: f64) {
            X[i, j] = 0.0;
            let R[i, j] = B[i, j];
            let D[i, j] = B[i, j];
            rr = R[i, j] * R[i, j];
            repeat(rounds) {
                let before = rr;
                let Q[i, j] = 4.0 * D[i, j] - (D[i - 1, j] else 0.0) - (D[i + 1, j] else 0.0) - (D[i, j - 1] else 0.0)
                    - (D[i, j + 1] else 0.0);
                let dq = D[i, j] * Q[i, j];
                X[i, j] = X[i, j] + before / dq * D[i, j];
                R[i, j] = R[i, j] - before / dq * Q[i, j];
                rr = R[i, j] * R[i, j];
                D[i, j] = R[i, j] + rr / before * D[i, j];
            }
        }
    };
    let mesh = Mesh::new([("x", sizes.ranks)]);
    let i = Var::new("i");
    let cg = cg.distribute(["i"], ["io"], ["ii"], &mesh).shard("B", [i.at("x")]);
    let contestants = [
        program("cg:passes", cg.lower()?),
        program("cg:apart", apart(cg, &["Q", "dq", "X", "R", "rr", "D"]).lower()?),
        Contestant::Hand("cg:hand", |world, n| hand::cg(world, n, ROUNDS)),
    ];
    measure::<f64>(sizes, &contestants, ROUNDS)
}

/// Softmax and layer norm, on blocks of rows.
pub(crate) fn rows(sizes: &Sizes) -> polyshard::Result<()> {
    let n = sizes.size;
    let (eps, m) = (1e-5, n as f32);
    let softmax = kernel! {
        fn softmax(X: [f32; n, n]) -> Y: [f32; n, n] {
            let M[i] max= X[i, j];
            let E[i, j] = exp(X[i, j] - M[i]);
            let L[i] = E[i, j];
            Y[i, j] = E[i, j] / L[i];
        }
    };
    let layernorm = kernel! {
        fn layernorm(X: [f32; n, n], g: [f32; n], b: [f32; n]) -> Y: [f32; n, n] {
            let mean[i] = X[i, j] / m;
            let var[i] = (X[i, j] - mean[i]) * (X[i, j] - mean[i]) / m;
            Y[i, j] = (X[i, j] - mean[i]) / sqrt(var[i] + eps) * g[j] + b[j];
        }
    };
    let twice = kernel! { fn twice(X: [f32; n, n]) -> Y: [f32; n, n] { Y[i, j] = 2.0 * X[i, j] } };
    let exp = kernel! { fn exps(x: [f32; n]) -> Y: [f32; n, n] { Y[i, j] = exp(x[j]) for i in 0..n } };
    let mesh = Mesh::new([("x", sizes.ranks)]);
    let i = Var::new("i");
    let on_rows = |block: Schedule<Block>| block.distribute(["i"], ["io"], ["ii"], &mesh).shard("X", [i.at("x")]);
    let one = |kernel: Schedule| kernel.distribute(["i"], ["io"], ["ii"], &mesh).shard("Y", [i.at("x")]);
    let (softmax, layernorm) = (on_rows(softmax), on_rows(layernorm));
    let memory = one(twice).shard("X", [i.at("x")]).lower()?;
    let contestants = [
        program("softmax:passes", softmax.lower()?),
        program("softmax:apart", apart(softmax, &["M", "E", "L", "Y"]).lower()?),
        program("softmax:memory", memory.clone()),
        program("softmax:exp", one(exp).lower()?),
        program("layernorm:passes", layernorm.lower()?),
        program("layernorm:apart", apart(layernorm, &["mean", "var", "Y"]).lower()?),
        program("layernorm:memory", memory),
    ];
    measure::<f32>(sizes, &contestants, 1)
}

/// A layer of a network with 1024 inputs.
pub(crate) fn mlp(sizes: &Sizes) -> polyshard::Result<()> {
    let (n, a) = (sizes.size, sizes.size / 4);
    let layer = kernel! {
        fn layer(X: [f32; n, a], V: [f32; a, n], b: [f32; n]) -> H: [f32; n, n] {
            let P[i, k] = X[i, f] * V[f, k];
            H[i, k] = max(P[i, k] + b[k], 0.0);
        }
    };
    let product =
        kernel! { fn product(X: [f32; n, a], V: [f32; a, n]) -> P: [f32; n, n] { P[i, k] = X[i, f] * V[f, k] } };
    let mesh = Mesh::new([("x", sizes.ranks)]);
    let i = Var::new("i");
    let product = product.distribute(["i"], ["io"], ["ii"], &mesh).shard("X", [i.at("x")]).shard("P", [i.at("x")]);
    let layer = layer.distribute(["i"], ["io"], ["ii"], &mesh).shard("X", [i.at("x")]).shard("H", [i.at("x")]);
    let product = product.lower()?;
    let contestants =
        [program("mlp:layer", layer.lower()?), program("mlp:product", product.clone()), program("mlp:again", product)];
    measure::<f32>(sizes, &contestants, 1)
}

/// Attention of 8 heads of 64 features; keys and values are replicated.
pub(crate) fn attention(sizes: &Sizes) -> polyshard::Result<()> {
    let (n, d, heads, scale) = (sizes.size, 64, 8, 0.125);
    let attention = kernel! {
        fn attention(Q: [f32; heads, n, d], K: [f32; heads, n, d], V: [f32; heads, n, d]) -> O: [f32; heads, n, d] {
            let S[h, i, j] = scale * Q[h, i, c] * K[h, j, c];
            let M[h, i] max= S[h, i, j];
            let P[h, i, j] = exp(S[h, i, j] - M[h, i]);
            let L[h, i] = P[h, i, j];
            O[h, i, v] = P[h, i, j] * V[h, j, v];
            O[h, i, v] = O[h, i, v] / L[h, i];
        }
    };
    // The products of the same tiles, 128 rows, and as many exponentials.
    let products = kernel! {
        fn products(Q: [f32; heads, n, d], K: [f32; heads, n, d], V: [f32; heads, n, d]) -> O: [f32; heads, n, d] {
            let S[h, i, j] = Q[h, i, c] * K[h, j, c];
            O[h, i, v] = S[h, i, j] * V[h, j, v];
        }
    };
    let exp = kernel! { fn exps(x: [f32; n]) -> Y: [f32; heads, n] { Y[h, j] max= exp(x[j] + i) for h in 0..heads for i in 0..n } };
    let mesh = Mesh::new([("x", sizes.ranks)]);
    let i = Var::new("i");
    let on_rows = |block: Schedule<Block>| {
        let block = block.distribute(["i"], ["io"], ["ii"], &mesh);
        block.shard("Q", [i.at("x")]).shard("O", [i.at("x")])
    };
    let exp = exp.distribute(["i"], ["io"], ["ii"], &mesh);
    let fused = on_rows(attention).lower()?;
    eprintln!("attention holds at most {} bytes per rank", fused.report().shard_bytes + fused.report().tile_bytes);
    let contestants = [
        program("attention:passes", fused),
        program("attention:products", on_rows(products).lower()?),
        program("attention:exp", exp.lower()?),
    ];
    measure::<f32>(sizes, &contestants, 1)
}
