//! Modules of scheduled kernels, and rejected schedules with the error on the faulty method.

use crate::tests::shared::{check_all, check_module as check, module};
use expect_test::expect;

#[test]
fn a_scheduled_kernel_is_a_module() {
    check(
        r#"
            /// C = A·B by SUMMA.
            pub fn summa(A: [f32; 8, 4 * 2], B: [f32; 8, 8]) -> C: [f32; 8, 8] {
                C[m, n] += A[m, k] * B[k, n]
            }
            mesh(x: 2, y: 2)
            .distribute([m, n], [mo, no], [mi, ni])
            .divide(k, ko, ki, 2)
            .reorder([mo, no, ko, mi, ni, ki])
            .shard(A, m @ x, k @ y)
            .shard(B, k @ x, n @ y)
            .shard(C, m @ x, n @ y)
            .communicate(A, ko)
            .communicate(B, ko)
            .tensorize_as([mi, ni, ki], contraction)
        "#,
        expect![[r#"
            /// C = A·B by SUMMA.
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "this code is emitted")]
            pub mod summa {
                /// The mesh that it was compiled for: each axis with its extent.
                pub const MESH: &[(&str, usize)] = &[("x", 2usize), ("y", 2usize)];
                /// The emitted Rust, as text.
                pub const SOURCE: &str = "..";
                /// Returns the schedule that it was compiled from.
                #[must_use]
                pub fn schedule() -> ::polyshard::schedule::Schedule {}
                /// The mesh: x: 2, y: 2.
                pub fn mesh() -> Mesh {}
                /// Which rank owns which elements of `A`: [0 @ x, 1 @ y].
                pub fn sharding_a() -> Sharding {}
                /// Which rank owns which elements of `B`: [0 @ x, 1 @ y].
                pub fn sharding_b() -> Sharding {}
                /// Which rank owns which elements of `C`: [0 @ x, 1 @ y].
                pub fn sharding_c() -> Sharding {}
                /// Runs `C[m, n] += A[m, k] * B[k, n]` on all ranks, which each return their shard of the output.
                ///
                /// # Errors
                /// As `Prepared::new` and `Prepared::run`.
                pub fn run(
                    world: &World,
                    a: &DistArray<f32>,
                    b: &DistArray<f32>,
                ) -> Result<DistArray<f32>> {}
                /// As `run`, but goes on from what the output holds.
                ///
                /// # Errors
                /// As `Prepared::new` and `Prepared::run_into`.
                pub fn run_into(
                    world: &World,
                    a: &DistArray<f32>,
                    b: &DistArray<f32>,
                    c: &mut DistArray<f32>,
                ) -> Result<()> {}
                /// The arrays and transfers of `C[m, n] += A[m, k] * B[k, n]`.
                fn kernel() -> Kernel<'static> {}
            }
        "#]],
    );
}

#[test]
fn scalars_are_parameters() {
    check(
        r#"
            fn axpy(A: [i32; 8], B: [i32; 8]) -> C: [i32; 8] { C[i] = alpha * A[i] + beta * B[i] / alpha }
            mesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x).shard(B).shard(C, pin(x, 1))
        "#,
        expect![[r#"
            ///`C[i] = alpha * A[i] + beta * B[i] / alpha` on a mesh of `x: 2`.
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "this code is emitted")]
            mod axpy {
                /// The mesh that it was compiled for: each axis with its extent.
                pub const MESH: &[(&str, usize)] = &[("x", 2usize)];
                /// The emitted Rust, as text.
                pub const SOURCE: &str = "..";
                /// Returns the schedule that it was compiled from.
                #[must_use]
                pub fn schedule(alpha: i32, beta: i32) -> ::polyshard::schedule::Schedule {}
                /// The mesh: x: 2.
                pub fn mesh() -> Mesh {}
                /// Which rank owns which elements of `A`: [0 @ x].
                pub fn sharding_a() -> Sharding {}
                /// Which rank owns which elements of `B`: replicated.
                pub fn sharding_b() -> Sharding {}
                /// Which rank owns which elements of `C`: [pin(x, 1)].
                pub fn sharding_c() -> Sharding {}
                /// Runs `C[i] = alpha * A[i] + beta * B[i] / alpha` on all ranks, which each return their shard of the output.
                ///
                /// # Errors
                /// As `Prepared::new` and `Prepared::run`.
                pub fn run(
                    world: &World,
                    a: &DistArray<i32>,
                    b: &DistArray<i32>,
                    alpha: i32,
                    beta: i32,
                ) -> Result<DistArray<i32>> {}
                /// As `run`, into an output that exists, whose elements are overwritten.
                ///
                /// # Errors
                /// As `Prepared::new` and `Prepared::run_into`.
                pub fn run_into(
                    world: &World,
                    a: &DistArray<i32>,
                    b: &DistArray<i32>,
                    c: &mut DistArray<i32>,
                    alpha: i32,
                    beta: i32,
                ) -> Result<()> {}
                /// The arrays and transfers of `C[i] = alpha * A[i] + beta * B[i] / alpha`.
                fn kernel() -> Kernel<'static> {}
            }
        "#]],
    );
}

#[test]
fn a_schedule_needs_literal_extents() {
    check(
        r#"
            fn f(A: [T; n, 8]) -> C: [T; n] { C[i] += A[i, k] + A[i, q] for q in 0..m }
            mesh(x: 2).distribute([i], [io], [ii])
        "#,
        expect![[r#"
            error on `n`: the compiled form needs literal extents
              help: write a number, or use the chain as methods for sizes known at run time
            error on `n`: the compiled form needs literal extents
              help: write a number, or use the chain as methods for sizes known at run time
            error on `m`: the compiled form needs literal extents
              help: write a number, or use the chain as methods for sizes known at run time
            error on `T`: the compiled form needs a literal element type
              help: write `f32`, `f64`, `i32` or `i64`, or use the chain as methods for types known later
        "#]],
    );
}

#[test]
fn mistakes_of_kernel_and_chain_come_together() {
    check(
        r#"
            fn f(A: [f32; 8]) -> C: [f32; 8] { C[i] = D[i] }
            mesh(x: 2).distribute([i], [io], [ii]).shard(A, i).tile(i, 4)
        "#,
        expect![[r#"
            error on `D`: no tensor `D`
              help: the inputs are `A`
            error on `i`: expected a dimension and its axes
              help: write `i @ x`, `i @ [x, y]`, `i @ x @ y`, `i @ cyclic(x, 16)`, `pin(z, 0)`, or `partial(z)`
            error on `tile`: no schedule step `tile`
              help: the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`
        "#]],
    );
}

#[test]
fn a_leaf_of_another_kind_is_refused() {
    check(
        "fn f(A: [f32; 8]) -> C: [f32; 8] { C[i] max= A[i] } .tensorize_as([i], contraction)",
        expect![[r#"
            error on `tensorize_as`: the leaf is a nest, not a contraction: `max=` does not add up products
        "#]],
    );
}

/// Chains after a matrix product.
#[test]
fn steps_that_do_not_fit_the_kernel_are_refused() {
    let matmul = |steps: &str| {
        module(&format!(
            "fn matmul(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] {{ C[m, n] += A[m, k] * B[k, n] }} {steps}"
        ))
    };
    check_all(
        expect![[r#"
            mesh(x: 2, y: 2).distribute([m, n], [mo, no], [mi, ni]).split(q, qo, qi, 4)
                error on `split`: no loop `q`
                  help: the loops are mo, no, mi, ni, k
            mesh(x: 2, y: 2).distribute([m, n], [mo, no], [mi, ni]).communicate(D, k)
                error on `communicate`: no tensor `D`
                  help: the tensors are A, B, C
            mesh(x: 2, y: 2).distribute([m, n], [mo, no], [mi, ni]).shard(A, m @ z)
                error on `shard`: no axis `z`
                  help: the axes are x, y
            mesh(x: 2, y: 2).distribute([m, n], [mo, no], [mi, ni]).shard(A, m @ x, k @ x)
                error on `shard`: axis `x` is used twice, so elements off the diagonal would have no owner
                  help: use each axis once, or skew the second, `(x + y) % parts`
            mesh(x: 2, y: 2).distribute([m, n], [mo, no], [mi, ni]).reorder([mi, mo])
                error on `reorder`: loop `mo` is bound to mesh axis `x` and cannot be moved or changed
                  help: list it in its place, or leave it out
            mesh(x: 2, y: 2).distribute([m, n], [mo, no], [mi, ni]).divide(k, ko, ki, 2).rotate(ko, [ki])
                error on `rotate`: cannot rotate `ko` by `ki`, which is not outside it
                  help: reorder it outside first: the loops are mo, no, mi, ni, ko, ki
            mesh(x: 2, y: 2).distribute([m, n], [mo, no], [mi, ni]).divide(k, ko, ki, 2).reorder([ko, mi, ni, ki]).shard(A, m @ x, k @ y).communicate(A, ko).expect(A, shift(y, 1))
                error on `expect`: the transfer of `A` is broadcast(y), not shift(y, 1)
                  help: `explain()` prints the tests that led to it
            mesh(x: 2).distribute([m, n], [mo, no], [mi, ni])
                error on `distribute`: distributes 2 loops into 2 outer and 2 inner over 1 axis (x: 2)
                  help: list one loop, one outer and one inner loop per axis
        "#]],
        matmul,
    );
}

#[test]
fn a_scheduled_block_is_a_module() {
    check(
        r#"
            /// The largest eigenvalue.
            pub fn power(v: [f64; 6], M: [f64; 6, 6]) -> (s: f64, v) {
                repeat(3, until s < -1.5) {
                    let y[i] = shift * v[i];
                    y[i] += M[i, j] * v[j];
                    s = y[i] * y[i];
                    v[i] = (y[i] + shift) / sqrt(s);
                }
            }
            mesh(x: 2).distribute([i], [io], [ii]).shard(M, i @ x).shard(v, i @ x)
        "#,
        expect![[r#"
            /// The largest eigenvalue.
            #[allow(clippy::all, clippy::pedantic, clippy::nursery, reason = "this code is emitted")]
            pub mod power {
                /// The mesh that it was compiled for: each axis with its extent.
                pub const MESH: &[(&str, usize)] = &[("x", 2usize)];
                /// The emitted Rust, as text.
                pub const SOURCE: &str = "..";
                /// Returns the schedule that it was compiled from.
                #[must_use]
                pub fn schedule(
                    shift: f64,
                ) -> ::polyshard::schedule::Schedule<::polyshard::schedule::Block> {}
                /// The mesh: x: 2.
                pub fn mesh() -> Mesh {}
                /// Which rank owns which elements of `v`: [0 @ x].
                pub fn sharding_v() -> Sharding {}
                /// Which rank owns which elements of `M`: [0 @ x].
                pub fn sharding_m() -> Sharding {}
                /// Which rank owns which elements of `s`: replicated.
                pub fn sharding_s() -> Sharding {}
                /// Which rank owns which elements of `y`: [0 @ x].
                fn sharding_y_5() -> Sharding {}
                /// Runs the program on all ranks, which each return their shards of `s`, `v`.
                ///
                /// # Errors
                /// As `Prepared::new` and `Prepared::run`.
                pub fn run(
                    world: &World,
                    v: &DistArray<f64>,
                    m: &DistArray<f64>,
                    shift: f64,
                ) -> Result<(DistArray<f64>, DistArray<f64>)> {}
                /// The arrays and transfers of `s[] = 0`.
                fn power_1_table() -> Kernel<'static> {}
                /// The arrays and transfers of `y[i] = shift * v[i]`.
                fn power_2_table() -> Kernel<'static> {}
                /// The arrays and transfers of `y[i] += M[i, j] * v[j]`.
                fn power_3_table() -> Kernel<'static> {}
                /// The arrays and transfers of `s[] = y[i] * y[i]`.
                fn power_4_table() -> Kernel<'static> {}
                /// The arrays and transfers of `v[i] = (y[i] + shift) / sqrt(s[])`.
                fn power_5_table() -> Kernel<'static> {}
            }
        "#]],
    );
}

#[test]
fn a_block_with_its_schedule_needs_literals_and_legal_steps() {
    let block = |text: &str| module(&format!("fn f{text}"));
    check_all(
        expect![[r#"
            (A: [f64; n]) -> (A, s: f64) { repeat(rounds, until s < tolerance) { A[i] = A[i] / 2.0; s = A[i] * A[i]; } } mesh(x: 2).distribute([i], [io], [ii])
                error on `n`: the compiled form needs literal extents
                  help: write a number, or use the chain as methods for sizes known at run time
                error on `n`: the compiled form needs literal extents
                  help: write a number, or use the chain as methods for sizes known at run time
                error on `rounds`: the compiled form needs a literal number of rounds
                  help: write a number, or use the chain as methods for numbers known at run time
                error on `tolerance`: the compiled form needs a literal bound of rounds
                  help: write a number, or use the chain as methods for numbers known at run time
            (A: [f64; 8]) -> (A, s: f64) { repeat(4, until s < tolerance) { A[i] = A[i] / 2.0; s = A[i] * A[i]; } } mesh(x: 2).distribute([i], [io], [ii])
                error on `tolerance`: the compiled form needs a literal bound of rounds
                  help: write a number, or use the chain as methods for numbers known at run time
            (A: [f64; 8]) -> (A, s: f64) { repeat(0) { A[i] = A[i] / 2.0; s = A[i] * A[i]; } } mesh(x: 2).distribute([i], [io], [ii])
                error on `s`: `s` has no value: the only statements that write it are in rounds, of which there are 0
                  help: write it before the rounds
            (A: [f64; 8], B: [f64; 9]) -> (A, s: f64) { A[i] = A[i] / 2.0; s = B[i] * B[i]; } mesh(x: 2).distribute([i], [io], [ii])
                error on `i`: index `i` has extent 9 in `B[i]`, but 8 in `A[i]`
                  help: use two indices, or state the range that fits: `for i in 0..8`
            (A: [f64; 8]) -> (A, s: f64) { A[i] = A[i] / 2.0; s = A[i] * A[i]; } mesh(x: 2).distribute([i], [io], [ii]).split(q, qo, qi, 2)
                error on `split`: block `f`: no statement has the loop `q`
                  help: the indices are `i`
            (A: [f64; 8, 8]) -> (A, s: f64) { A[i, j] = A[i, j] / 2.0; s = A[i, j] * A[i, j]; } mesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x, j @ x)
                error on `shard`: axis `x` is used twice, so elements off the diagonal would have no owner
                  help: use each axis once, or skew the second, `(x + y) % parts`
            (A: [f64; 8]) -> (A, s: f64) { A[i] = B[i] / 2.0; s = A[i] * A[i]; } mesh(x: 2).distribute([i], [io], [ii]).shard(A, i)
                error on `B`: no array `B`
                  help: declare it as a parameter of the block, or by `let`
                error on `i`: expected a dimension and its axes
                  help: write `i @ x`, `i @ [x, y]`, `i @ x @ y`, `i @ cyclic(x, 16)`, `pin(z, 0)`, or `partial(z)`
        "#]],
        block,
    );
}
