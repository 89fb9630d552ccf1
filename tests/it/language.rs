//! The kernel language: indices, functions, choices and division have the same meaning in emitted source, in the
//! executor and in the sequential reference, however the loops are distributed over ranks.

use ndarray::ArrayD;
use polyshard::prelude::*;
use polyshard::runtime::Result;
use polyshard::schedule::Trace;
use polyshard_testing::filled;

kernel! {
    fn smooth(A: [f32; 700], B: [f32; 700]) -> C: [f32; 700] {
        C[i] = exp(A[i]) + log(abs(B[i])) * sqrt(A[i]) - tanh(B[i]) / (1 + abs(A[i]))
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
    .shard(B)
    .tensorize([ii])
}

kernel! {
    fn waves(A: [f64; 700], B: [f64; 700]) -> C: [f64; 700] {
        C[i] = sin(A[i]) * cos(B[i]) + pow(abs(A[i]), B[i] / 100) - sign(B[i]) * floor(B[i]) + sin(1000000 * B[i]) + cos(A[i] + B[i])
    }
    mesh(x: 3)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
}

kernel! {
    fn waves_of_f32(A: [f32; 700], B: [f32; 700]) -> C: [f32; 700] {
        C[i] += sin(A[i]) * cos(B[i]) + pow(abs(A[i]), B[i] / 100) - sign(B[i]) * floor(B[i]) + sin(1000000 * B[i])
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .shard(C, i @ x)
}

kernel! {
    fn signs(A: [i32; 700]) -> C: [i32; 700] { C[i] = sign(A[i]) * 3 + sign(-abs(A[i])) }
    mesh(x: 2)
    .distribute([i], [io], [ii])
}

kernel! {
    /// Slightly more than half a unit above the float below: rounded to `f64` first, it would be exactly half a unit.
    fn rounded(A: [f32; 5]) -> C: [f32; 5] { C[i] = A[i] + 1152921573326323713 }
    mesh(x: 2)
    .distribute([i], [io], [ii])
}

kernel! {
    fn choose(A: [f64; 700], B: [f64; 700]) -> C: [f64; 700] {
        C[i] = max(A[i], B[i]) - 2 * min(A[i], 0 - 0.5)
            + if A[i] < B[i] { A[i] / B[i] } else if A[i] == B[i] { 7 } else { -if B[i] >= -1 { B[i] } else { 3 } }
    }
    mesh(x: 3)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
    .shard(C, i @ x)
}

kernel! {
    fn greatest(A: [f32; 40, 30]) -> C: [f32; 30] { C[j] max= max(A[i, j], A[i, j] * A[i, j]) }
    mesh(x: 2)
    .distribute([j], [jo], [ji])
    .shard(A, j @ x)
    .shard(C, j @ x)
}

kernel! {
    /// The greatest change of a solver, which is NaN if one of its values is.
    fn change(A: [f64; 700], B: [f64; 700]) -> D: f64 { D[] max= abs(A[i] - B[i]) }
    mesh(x: 3)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
    .shard(B, i @ x)
}

kernel! {
    fn extremes(A: [f64; 40, 300], B: [f64; 300]) -> C: [f64; 40] {
        C[i] min= max(A[i, j], B[j]) - max(min(A[i, j], 0), -0.0)
    }
    mesh(x: 2, y: 2)
    .distribute([i, j], [io, jo], [ii, ji])
    .shard(A, i @ x, j @ y)
    .shard(C, i @ x)
}

kernel! {
    fn least(A: [f32; 300, 40]) -> C: [f32; 40] { C[j] min= min(A[i, j], -A[i, j]) }
    mesh(x: 3)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
}

kernel! {
    fn divide(A: [i32; 700], B: [i32; 700]) -> C: [i32; 700] {
        C[i] = if B[i] != 0 { A[i] / B[i] } else { -2147483648 } + abs(A[i]) - max(A[i], B[i]) * min(A[i], 5)
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .shard(A, i @ x)
    .shard(B, i @ x)
}

kernel! {
    fn scaled(A: [f64; 6, 7], B: [f64; 7, 5]) -> C: [f64; 6, 5] {
        C[m, n] += if v0 > 1 { max(v0, 3) } else { 1 } * A[m, k] * B[k, n]
    }
    mesh(x: 2)
    .distribute([m], [mo], [mi])
    .shard(A, m @ x)
    .tensorize_as([mi, n, k], contraction)
}

kernel! {
    fn mttkrp(X: [f64; 13, 17, 11], C: [f64; 17, 19], D: [f64; 11, 19]) -> B: [f64; 13, 19] {
        B[i, r] += X[i, j, k] * C[j, r] * D[k, r]
    }
    mesh(x: 2)
    .distribute([i], [io], [ii])
    .shard(X, i @ x)
    .shard(B, i @ x)
    .tensorize_as([ii, r, j, k], contraction)
}

kernel! {
    fn tucker(X: [i32; 9, 10, 11], U: [i32; 9, 6], V: [i32; 10, 5], W: [i32; 11, 7]) -> Y: [i32; 6, 5, 7] {
        Y[a, b, c] = v0 * X[i, j, k] * U[i, a] * -V[j, b] * W[k, c]
    }
    mesh(x: 2)
    .distribute([b], [bo], [bi])
    .shard(V, b @ x)
    .shard(Y, b @ x)
    .tensorize_as([a, bi, c, i, j, k], contraction)
}

kernel! {
    /// Intermediate results do not fit as a whole, so they are computed in blocks.
    fn polyadic(A: [f64; 52, 52], B: [f64; 52, 52], C: [f64; 52, 52]) -> Y: [f64; 52, 52, 52] {
        Y[i, j, k] += A[i, r] * B[j, r] * C[k, r]
    }
    mesh(x: 1)
    .distribute([i], [io], [ii])
    .tensorize_as([ii, j, k, r], contraction)
}

kernel! {
    /// Blocks of blocks: 13 rows over 2 nodes of 2 ranks.
    fn two_levels(A: [f64; 13, 7], B: [f64; 7, 5]) -> C: [f64; 13, 5] { C[m, n] += A[m, k] * B[k, n] }
    mesh(node: 2)
    .distribute([m], [mo], [ml])
    .distribute([ml], [mr], [mi], mesh(rank: 2))
    .shard(A, m @ node @ (rank + 1) % 2)
    .shard(B, k @ rank @ cyclic(node, 1))
    .shard(C, m @ node @ rank)
    .tensorize_as([mi, n, k], contraction)
    .expect(A, permute)
    .expect(B, all_gather(node, rank))
    .expect(C, local)
}

/// The element at an index, from a function of its number in its array.
fn numbered<T: Element>(program: &Program, value: fn(usize, usize) -> T) -> impl Fn(usize, &[usize]) -> T + Sync {
    let shapes: Vec<_> = program.kernel().tensors().map(|tensor| tensor.shape.clone()).collect();
    move |tensor, index| value(tensor, index.iter().zip(&shapes[tensor]).fold(0, |sum, (i, extent)| sum * extent + i))
}

fn inputs<T: Element>(world: &World, program: &Program, value: fn(usize, usize) -> T) -> Result<Vec<DistArray<T>>> {
    filled::inputs(world, program, numbered(program, value))
}

fn sequential<T: Element>(program: &Program, value: fn(usize, usize) -> T) -> ArrayD<T> {
    filled::sequential(program, false, numbered(program, value))
}

/// The result of the executor.
fn executed<T: Element>(program: &Program, value: fn(usize, usize) -> T) -> ArrayD<T> {
    filled::run(program, numbered(program, value)).0
}

/// All bits except those that distinguish NaNs.
fn bits<T: Element>(elements: &[T]) -> Vec<String> {
    elements.iter().map(|element| format!("{element:?}")).collect()
}

/// Compares emitted source with the executor on each rank, and the executor with the reference.
macro_rules! check {
    ($module:ident($($scalar:expr),*), $type:ty, $value:expr, |$world:ident, $arrays:ident| $run:expr) => {{
        let schedule = $module::schedule($($scalar),*);
        let text = serde_json::to_string(&schedule.trace().expect("a kernel")).expect("a trace is JSON");
        let again: Trace = serde_json::from_str(&text).expect("what was written is read");
        assert_eq!(again.replay(), schedule);
        let program = again.replay().lower().expect("a legal schedule");
        let shards = polyshard::spmd(program.mesh().size(), |$world| {
            let $arrays = inputs::<$type>($world, &program, $value)?;
            let executed = program.run($world, &$arrays.iter().collect::<Vec<_>>())?;
            let compiled: DistArray<$type> = $run?;
            assert_eq!(bits(executed.block()), bits(compiled.block()));
            Ok(executed.gather($world)?)
        });
        let found = shards.expect("the program runs").into_iter().flatten().next().expect("rank 0 gathers");
        let expected = sequential::<$type>(&program, $value);
        assert_eq!(bits(found.as_slice().expect("one block")), bits(expected.as_slice().expect("one block")), "{program}");
        let exchanged = polyshard_testing::program::ByExchange::by_exchange(&program);
        let found = executed::<$type>(&exchanged, $value);
        assert_eq!(bits(found.as_slice().expect("one block")), bits(expected.as_slice().expect("one block")), "{program}");
    }};
}

mod indices;

fn small<T: Element>(tensor: usize, i: usize) -> T {
    num_traits::NumCast::from(((i * 7 + tensor * 5) % 11) as i64 - 5).expect("a small integer is of every type")
}

/// Numbers of every kind, including those with special comparisons.
fn odd(tensor: usize, i: usize) -> f64 {
    let odd = [f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 1.5, -1.0, 1e-310];
    match tensor {
        0 => odd[i % 8],
        _ if i < 64 => odd[i / 8],
        _ => (i as f64 - 300.0) / 7.0,
    }
}

fn odd_f32(tensor: usize, i: usize) -> f32 {
    odd(tensor, i) as f32
}

fn wide(tensor: usize, i: usize) -> i32 {
    let odd = [i32::MIN, -1, 0, 1, 7, -2, i32::MAX, 1 << 20];
    odd[if tensor == 0 { i % 8 } else { i / 8 % 8 }]
}

#[test]
fn functions_give_the_same_bits_everywhere() {
    check!(smooth(), f32, odd_f32, |world, a| smooth::run(world, &a[0], &a[1]));
    check!(greatest(), f32, odd_f32, |world, a| greatest::run(world, &a[0]));
}

#[test]
fn angles_powers_and_signs_give_the_same_bits_everywhere() {
    check!(waves(), f64, odd, |world, a| waves::run(world, &a[0], &a[1]));
    check!(waves_of_f32(), f32, odd_f32, |world, a| waves_of_f32::run(world, &a[0], &a[1]));
    check!(signs(), i32, |_, i| wide(0, i), |world, a| signs::run(world, &a[0]));
    let program = signs::schedule().lower().expect("a legal schedule");
    let found = sequential::<i32>(&program, |_, i| wide(0, i));
    assert_eq!((found[[1]], found[[2]], found[[4]]), (-4, 0, 2));
}

#[test]
fn an_integer_is_rounded_once() {
    check!(rounded(), f32, small, |world, a| rounded::run(world, &a[0]));
    let program = rounded::schedule().lower().expect("a legal schedule");
    assert_eq!(sequential::<f32>(&program, |_, _| 0.0)[[0]], 1152921573326323713_i64 as f32);
}

/// One NaN among many numbers.
fn diverged(tensor: usize, i: usize) -> f64 {
    if (tensor, i) == (1, 612) { f64::NAN } else { (i % 7) as f64 - 3.0 }
}

/// Zeros of both signs, and occasionally a NaN.
fn zeros(_: usize, i: usize) -> f64 {
    if i % 509 == 7 { f64::NAN } else { [0.0, -0.0, -0.0][i * i % 11 % 3] }
}

#[test]
fn maxima_and_minima_propagate_nan() {
    check!(change(), f64, diverged, |world, a| change::run(world, &a[0], &a[1]));
    check!(extremes(), f64, odd, |world, a| extremes::run(world, &a[0], &a[1]));
    check!(extremes(), f64, zeros, |world, a| extremes::run(world, &a[0], &a[1]));
    check!(least(), f32, |tensor, i| zeros(tensor, i) as f32, |world, a| least::run(world, &a[0]));
    check!(greatest(), f32, |tensor, i| zeros(tensor, i) as f32, |world, a| greatest::run(world, &a[0]));
    let program = change::schedule().lower().expect("a legal schedule");
    assert!(sequential::<f64>(&program, diverged)[[]].is_nan());
    let program = least::schedule().lower().expect("a legal schedule");
    let least = sequential::<f32>(&program, |tensor, i| zeros(tensor, i) as f32);
    assert!(least.iter().any(|value| value.is_nan()) && least.iter().any(|value| value.to_bits() == 1 << 31));
}

#[test]
fn choices_and_comparisons_give_the_same_bits_everywhere() {
    check!(choose(), f64, odd, |world, a| choose::run(world, &a[0], &a[1]));
}

#[test]
fn integers_divide_where_the_choice_says_so() {
    check!(divide(), i32, wide, |world, a| divide::run(world, &a[0], &a[1]));
    let program = divide::schedule().lower().expect("a legal schedule");
    let found = sequential::<i32>(&program, wide);
    // The smallest integer times -1 wraps to itself, and so does its absolute value.
    let product = (-1i32).wrapping_mul(i32::MIN);
    assert_eq!(found[[8]], i32::MIN.wrapping_add(i32::MIN).wrapping_sub(product));
}

#[test]
fn functions_of_scalars_are_factors_of_a_product() {
    check!(scaled(2.0), f64, small, |world, a| scaled::run(world, &a[0], &a[1], 2.0));
}

#[test]
fn products_of_several_tensors_run_two_at_a_time() {
    check!(two_levels(), f64, small, |world, a| two_levels::run(world, &a[0], &a[1]));
    check!(mttkrp(), f64, small, |world, a| mttkrp::run(world, &a[0], &a[1], &a[2]));
    check!(tucker(i32::MAX - 6), i32, small, |world, a| {
        tucker::run(world, &a[0], &a[1], &a[2], &a[3], i32::MAX - 6)
    });
    check!(polyadic(), f64, small, |world, a| polyadic::run(world, &a[0], &a[1], &a[2]));
    let program = polyadic::schedule().lower().expect("a legal schedule");
    assert!(program.to_string().contains("for blocks of "), "{program}");
}

#[test]
fn a_division_of_integers_by_0_says_so() {
    let n = 5;
    let kernel = kernel! { fn divided(A: [i64; n], B: [i64; n]) -> C: [i64; n] { C[i] = A[i] / B[i] } };
    let program = kernel.lower().expect("a legal schedule");
    let ran = std::panic::catch_unwind(|| {
        polyshard::spmd(1, |world| {
            let arrays = inputs::<i64>(world, &program, |tensor, i| if tensor == 1 { 3 - i as i64 } else { 1 })?;
            Ok(program.run(world, &arrays.iter().collect::<Vec<_>>())?.block().len())
        })
    });
    let said = match ran {
        Ok(result) => result.expect_err("a division by 0").to_string(),
        Err(panic) => panic.downcast_ref::<String>().cloned().unwrap_or_default(),
    };
    assert!(said.contains("division by 0 in a kernel of i64; choose around it"), "{said}");
}

#[test]
fn a_literal_fits_the_type_that_a_generic_kernel_is_used_with() {
    fn large<T: Element>() -> Schedule {
        kernel! { fn large(A: [T; 4]) -> C: [T; 4] { C[i] = A[i] + 3000000000 } }
    }
    fn least<T: Element>() -> Schedule {
        kernel! { fn least(A: [T; 4]) -> C: [T; 4] { C[i] = A[i] * -2147483648 } }
    }
    let error = large::<i32>().lower().expect_err("a literal of 33 bits").to_string();
    assert!(error.contains("`3000000000` does not fit i32"), "{error}");
    for schedule in [large::<i64>(), large::<f32>(), least::<i32>(), least::<f32>()] {
        assert!(schedule.lower().is_ok(), "{schedule}");
    }
    let program = least::<i32>().lower().expect("a legal schedule");
    assert_eq!(sequential::<i32>(&program, |_, i| i as i32)[[1]], i32::MIN);
}
