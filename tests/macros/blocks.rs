//! Blocks that are compiled with their schedules: they give the bits of the same blocks lowered at run time, on any number of ranks, and
//! what loops over whole arrays compute.

use polyshard::prelude::*;
use polyshard::schedule::Block;

const ROWS: usize = 7;
const COLUMNS: usize = 5;

/// Each block on 1, 2, 3 and 4 ranks.
macro_rules! blocks {
    ($($module:ident $ranks:literal),*) => {$(
        mod $module {
            use polyshard::prelude::*;

            kernel! {
                /// Conjugate gradients for the Laplacian of a rectangle.
                pub(super) fn cg(B: [f64; 7, 5]) -> (X: [f64; 7, 5], rr: f64) {
                    X[i, j] = 0.0;
                    let R[i, j] = B[i, j];
                    let D[i, j] = B[i, j];
                    rr = R[i, j] * R[i, j];
                    repeat(40, until rr < 1e-20) {
                        let before = rr;
                        let Q[i, j] = 4.0 * D[i, j] - (D[i - 1, j] else 0.0) - (D[i + 1, j] else 0.0)
                            - (D[i, j - 1] else 0.0) - (D[i, j + 1] else 0.0);
                        let dq = D[i, j] * Q[i, j];
                        X[i, j] = X[i, j] + before / dq * D[i, j];
                        R[i, j] = R[i, j] - before / dq * Q[i, j];
                        rr = R[i, j] * R[i, j];
                        D[i, j] = R[i, j] + rr / before * D[i, j];
                    }
                }
                mesh(x: $ranks).distribute([i], [io], [ii]).shard(B, i @ x)
            }

            kernel! {
                /// The results are in another order than the program writes them, and the parameters than it reads them.
                pub(super) fn power(v: [f64; 7], M: [f64; 7, 7]) -> (s: f64, v) {
                    repeat(3) {
                        let y[i] = shift * v[i];
                        y[i] += M[i, j] * v[j];
                        s = y[i] * y[i];
                        v[i] = y[i] / sqrt(s) + 0.0 * shift;
                    }
                }
                mesh(x: $ranks).distribute([i], [io], [ii]).shard(M, i @ x).shard(v, i @ x)
            }

            kernel! {
                /// Integers, a range, an array that is copied into a sharding of its own, and a product of panels.
                pub(super) fn several(A: [i64; 7, 7]) -> (C: [i64; 7, 7], least: i64, rows: [i64; 7], A) {
                    let T[j, i] = A[i, j];
                    C[i, j] = A[i, k] * T[k, j];
                    least min= C[i, j];
                    rows[i] = weight * C[i, j];
                    A[i, j] = A[i - 1, j] + least for i in 1..7;
                }
                mesh(x: $ranks)
                .distribute([i], [io], [ii])
                .shard(A, i @ x).shard(T, dim(1) @ x).shard(C, i @ x)
                .of(C).divide(k, ko, ki, 2).reorder([io, ko, ii, j, ki]).of_all()
                .communicate(T, ko)
            }
        }
    )*};
}

blocks!(one 1, two 2, three 3, four 4);

/// What a block leaves on each rank: its results, whole.
type Found<T> = Vec<Vec<Vec<T>>>;

/// An array on all ranks, whole.
fn whole<T: polyshard::runtime::Element>(world: &World, array: &DistArray<T>) -> polyshard::Result<Vec<T>> {
    let everywhere = Sharding::replicated(array.sharding().mesh(), array.shape());
    Ok(array.redistribute(world, &everywhere)?.block().to_vec())
}

fn b(at: &[usize]) -> f64 {
    ((7 * at[0] + 3 * at[1]) % 11) as f64 - 5.0
}

fn m(at: &[usize]) -> f64 {
    ((5 * at[0] + 2 * at[1]) % 7) as f64 + if at[0] == at[1] { 9.0 } else { 0.0 }
}

fn a(at: &[usize]) -> i64 {
    ((3 * at[0] + 5 * at[1]) % 13) as i64 - 4
}

/// The results of the lowered schedule, in the order of the block, on all ranks.
fn lowered<T: polyshard::runtime::Element>(
    schedule: Schedule<Block>,
    scalars: &[(&str, T)],
    fill: impl Fn(&str, &[usize]) -> T + Sync,
) -> Found<T> {
    let program = schedule.lower().expect("a legal schedule");
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let inputs = program
            .inputs()
            .map(|input| DistArray::from_fn(world, &input.sharding, |at| fill(input.name.as_str(), at)));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let mut prepared = program.prepare(world)?;
        prepared.set_scalars(scalars)?;
        let results = prepared.run_all(&inputs.iter().collect::<Vec<_>>())?;
        results.iter().map(|(_, array)| whole(world, array)).collect()
    });
    found.expect("the program runs")
}

/// Runs a compiled module, and returns its results in the order of the block, on all ranks.
macro_rules! compiled {
    ($module:ident::$block:ident($($input:ident: $sharding:ident),*; $($scalar:expr),*) -> $($result:ident),*) => {{
        use $module::$block::*;
        let found = polyshard::spmd(mesh().size(), |world| {
            $(let $input = DistArray::from_fn(world, &$sharding(), |at| $input(at))?;)*
            let mut prepared = Prepared::new(world)?;
            prepared.run($(&$input,)* $($scalar),*)?;
            let again = prepared.run($(&$input,)* $($scalar),*)?;
            let ($($result),*) = run(world, $(&$input,)* $($scalar),*)?;
            let found = vec![$(whole(world, &$result)?),*];
            let ($($result),*) = again;
            assert!(found == vec![$(whole(world, &$result)?),*], "a run after another");
            Ok(found)
        });
        found.expect("the block runs")
    }};
}

/// Calls a macro with each of the modules.
macro_rules! on_all {
    ($check:ident) => {
        $check!(one);
        $check!(two);
        $check!(three);
        $check!(four);
    };
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (nth, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{nth}: {found} instead of {expected}");
    }
}

#[test]
fn conjugate_gradients_solve_the_equation() {
    macro_rules! check {
        ($module:ident) => {
            let found = compiled!($module::cg(b: sharding_b;) -> x, rr);
            assert!(found == lowered($module::cg::schedule(), &[], |_, at| b(at)));
            let (x, at) = (&found[0][0], |i: usize, j: usize| i * COLUMNS + j);
            for i in 0..ROWS {
                for j in 0..COLUMNS {
                    let outside = |i: Option<usize>, j: Option<usize>| match (i, j) {
                        (Some(i), Some(j)) if i < ROWS && j < COLUMNS => x[at(i, j)],
                        _ => 0.0,
                    };
                    let [up, down] = [i.checked_sub(1), Some(i + 1)].map(|i| outside(i, Some(j)));
                    let [left, right] = [j.checked_sub(1), Some(j + 1)].map(|j| outside(Some(i), j));
                    let residual = 4.0 * x[at(i, j)] - up - down - left - right - b(&[i, j]);
                    assert!(residual.abs() < 1e-9, "the residual at {i}, {j} is {residual}");
                }
            }
            assert!(found[0][1][0] < 1e-20);
        };
    }
    on_all!(check);
}

#[test]
fn scalars_of_several_statements_are_one_parameter() {
    fn v(at: &[usize]) -> f64 {
        at[0] as f64 - 2.0
    }
    let (n, mut expected, mut s) = (ROWS, (0..ROWS).map(|i| v(&[i])).collect::<Vec<_>>(), 0.0);
    for _ in 0..3 {
        let row = |i: usize| (0..n).map(|j| m(&[i, j]) * expected[j]).sum::<f64>() + 0.5 * expected[i];
        let y: Vec<f64> = (0..n).map(row).collect();
        s = y.iter().map(|y| y * y).sum();
        expected = y.iter().map(|y| y / s.sqrt()).collect();
    }
    macro_rules! check {
        ($module:ident) => {
            let found = compiled!($module::power(v: sharding_v, m: sharding_m; 0.5) -> s, v);
            let at_run_time = lowered($module::power::schedule(2.0), &[("shift", 0.5)], |name, at| match name {
                "v" => v(at),
                _ => m(at),
            });
            assert!(found == at_run_time);
            close(&found[0][0], &[s]);
            close(&found[0][1], &expected);
        };
    }
    on_all!(check);
}

#[test]
fn several_results_are_a_tuple_in_the_order_of_the_block() {
    let n = ROWS;
    let product = |i: usize, j: usize| (0..n).map(|k| a(&[i, k]) * a(&[j, k])).sum::<i64>();
    let elements = |of: &dyn Fn(usize, usize) -> i64| (0..n * n).map(|at| of(at / n, at % n)).collect::<Vec<_>>();
    let c = elements(&product);
    let least = *c.iter().min().expect("elements");
    let rows: Vec<i64> = c.chunks(n).map(|row| 3 * row.iter().sum::<i64>()).collect();
    let shifted = elements(&|i, j| if i == 0 { a(&[0, j]) } else { a(&[i - 1, j]) + least });
    let expected = [c, vec![least], rows, shifted];
    macro_rules! check {
        ($module:ident) => {
            let found = compiled!($module::several(a: sharding_a; 3) -> c, least, rows, shifted);
            assert!(found == lowered($module::several::schedule(3), &[], |_, at| a(at)));
            found.iter().for_each(|found| assert_eq!(found[..], expected));
        };
    }
    on_all!(check);
}
