//! Blocks as kernels: their statements, versions, rounds and schedules, and every mistake with its place.

use crate::tests::check_all;
use crate::{Definitions, Given, Left, Scheduled};
use expect_test::{Expect, expect};
use polyshard_layout::{DType, Name, joined};
use polyshard_program::{Continued, Number};

const VALUES: [(&str, Number); 5] = [
    ("n", Number::Int(8)),
    ("m", Number::Int(6)),
    ("rounds", Number::Int(10)),
    ("none", Number::Int(0)),
    ("tolerance", Number::Float(1e-9)),
];

/// The kernels of texts, with the rounds that begin before each, or their mistakes.
fn check(transcript: Expect) {
    let values: Vec<_> = VALUES.iter().map(|(name, value)| (Name::new(name), *value)).collect();
    let given = Given { arrays: None, values: &values, dtype: Some(DType::F64) };
    check_all(transcript, |text| {
        let bound = Definitions::parse(text).and_then(|file| {
            let (stages, rounds) = (file.bind(&given)?, file.rounds(&given)?);
            let mut lines = Vec::new();
            for (number, stage) in stages.iter().enumerate() {
                let begun = rounds.iter().filter(|rounds| rounds.kernels.start == number);
                lines.extend(begun.map(|rounds| format!("{} {{ {} }}", rounds, rounds.kernels.len())));
                let kernel = stage.kernel.clone().check().expect("a kernel of a file is checked");
                let previous = stage.previous.map_or_else(String::new, |Continued { array: value, adds }| {
                    format!("  // {} {value}", if adds { "adds to" } else { "keeps of" })
                });
                let values = joined(&stage.inputs, ", ");
                let statement = format!("{}({values}), {}", kernel.name(), kernel.statement());
                lines.push(format!("{} = {statement}{previous}", stage.output));
                if let Scheduled::Steps(steps) = &stage.schedule {
                    lines.extend(steps.iter().map(|(step, _)| format!("  .{step}")));
                }
            }
            let left = file.results().into_iter().map(|Left { name, value, .. }| format!("{name} = {value}"));
            let inputs = file.inputs().into_iter().map(|input| input.to_string());
            let join = |all: Vec<String>| all.join(", ");
            lines.push(format!("({}) -> {}", join(inputs.collect()), join(left.collect())));
            Ok(lines.join("\n"))
        });
        bound.unwrap_or_else(|error| error.to_string())
    });
}

#[test]
fn statements_are_kernels_on_versions_of_their_arrays() {
    check(expect![[r#"
        fn f(A: [T; n]) -> (X: [T; n], s: T) { let B[i] = 2 * A[i]; X[i] = B[i] + A[i]; X[i] = X[i] * B[i]; s = X[i] * X[i]; X[0] = s; } auto
            B'1 = f(A), B[i] = 2 * A[i]
            X'1 = f(B'1, A), X[i] = B[i] + A[i]
            X'2 = f(X'1, B'1), X'[i] = X[i] * B[i]
            s'1 = f(X'2), s[] = X[i] * X[i]
            X'3 = f(s'1), X[0] = s[]  // keeps of X'2
            (A) -> s = s'1, X = X'3
        fn f(A: [T; n, m]) -> A { A[i, j] += A[0, j]; A[i, j] = 1 for i in 0..2; } auto
            A'1 = f(A), A'[i, j] += A[0, j] for i in 0..8  // adds to A
            A'2 = f(), A[i, j] = 1 for i in 0..2 for j in 0..6  // keeps of A'1
            (A) -> A = A'2
        fn f(A: [T; n], B: [T; n]) -> (B, C: [T; n]) { let D[i] = A[i]; C[i] = D[i]; B[i] = D[i] + B[i] } auto
            B'1 = f(A, B), B'[i] = D[i] + B[i]
            C'1 = f(A), C[i] = A[i]
            (A, B) -> B = B'1, C = C'1
        fn f(A: [T; n, m], z: [T; m]) -> y: [T; n] { let w: [T; m]; w[j] = z[j] + j; y[i] += A[i, j] * w[j]; y[i] max= z[0] for i in 1..n; } auto
            w'1 = f(z), w[j] = z[j] + j
            y'1 = f(A, w'1), y[i] += A[i, j] * w[j]
            y'2 = f(z), y[i] max= z[0] for i in 1..8  // adds to y'1
            (A, z) -> y = y'2
    "#]]);
}

#[test]
fn arrays_from_before_rounds_keep_their_values_from_round_to_round() {
    check(expect![[r#"
        fn f(B: [T; n]) -> (X: [T; n], s: T) { X[i] = 0; let D[i] = B[i]; repeat(rounds, until s < tolerance) { X[i] = X[i] + 0.5 * D[i]; s = X[i] * X[i]; } } auto
            X'1 = f(), X[i] = 0 for i in 0..8
            s'1 = f(), s[] = 0
            repeat(10, X'2 = X'1, then X'3, s'2 = s'1, then s'3, until s'3 < 1e-9) { 2 }
            X'3 = f(X'2, B), X'[i] = X[i] + 0.5 * D[i]
            s'3 = f(X'3), s[] = X[i] * X[i]
            (B) -> X = X'2, s = s'2
        fn f(X: [T; n]) -> X { repeat(3) { let old[i] = X[i]; repeat(rounds) { X[i] = X[i] + old[i] } X[0] = 0; } } auto
            repeat(3, X'1 = X, then X'4) { 2 }
            repeat(10, X'2 = X'1, then X'3) { 1 }
            X'3 = f(X'2, X'1), X'[i] = X[i] + old[i]
            X'4 = f(), X[0] = 0  // keeps of X'2
            (X) -> X = X'1
        fn f(U: [T; n], V: [T; n]) -> (U, V) { repeat(rounds, until s >= 1) { let s max= abs(V[i]); let W[i] = V[i] - U[i]; U[i] = V[i]; V[i] = W[i]; } } auto
            repeat(10, U'1 = U, then V'1, V'1 = V, then W'1, until until'1 < 0.5) { 3 }
            s'1 = f(V'1), s[] max= abs(V[i])
            W'1 = f(V'1, U'1), W[i] = V[i] - U[i]
            until'1 = f(s'1), until[] = if s[] >= 1 { 0 } else { 1 }
            (U, V) -> U = U'1, V = V'1
        fn f(A: [T; n]) -> s: T { repeat(rounds, until s * s <= s) { s = A[i]; } } auto
            s'1 = f(), s[] = 0
            repeat(10, s'2 = s'1, then s'3, until until'1 < 0.5) { 2 }
            s'3 = f(A), s[] = A[i]
            until'1 = f(s'3), until[] = if s[] * s[] <= s[] { 0 } else { 1 }
            (A) -> s = s'2
        fn f(A: [T; n]) -> s: T { repeat(none) { s = A[i]; } } auto
            line 1, column 20: `s` has no value: the only statements that write it are in rounds, of which there are 0
            help: write it before the rounds
    "#]]);
}

#[test]
fn steps_apply_to_all_statements_that_have_their_loops() {
    check(expect![[r#"
        fn f(A: [T; n, m], z: [T; m]) -> (y: [T; n], s: T) { y[i] = A[i, k] * z[k]; s = y[i] * y[i]; s = s + 1; } mesh(x: 2, y: 2).distribute([i, k], [io, ko], [ii, ki]).shard(A, i @ x, k @ y).communicate(A, ko)
            y'1 = f(A, z), y[i] = A[i, k] * z[k]
              .distribute([i, k], [io, ko], [ii, ki], mesh(x: 2, y: 2))
              .shard(A, dim(0) @ x, dim(1) @ y)
              .communicate(A, ko)
              .shard(y, dim(0) @ x)
            s'1 = f(y'1), s[] = y[i] * y[i]
              .distribute([i], [io], [ii], mesh(x: 2))
              .replicate(mesh(y: 2))
              .shard(y, dim(0) @ x)
              .shard(s)
            s'2 = f(s'1), s'[] = s[] + 1
              .replicate(mesh(x: 2, y: 2))
              .shard(s)
              .shard(s')
            (A, z) -> y = y'1, s = s'2
        fn f(A: [T; n]) -> y: [T; n] { let B[i] = A[i]; y[i] = B[i] + A[0] } mesh(x: 2).distribute([i], [io], [ii]).split(q, qo, qi, 2).shard(C, i @ x).shard(B, q @ x).tensorize([ii, q]).halo(A, 2)
            line 1, column 109: no statement has the loop `q`
            help: the indices are `i`
            line 1, column 129: the block has no array `C`
            help: the arrays are `A`, `B` and `y`
            line 1, column 145: `q` stands alone in no index of `B`
            help: name an index of `B`, or the dimension by its number: `dim(0) @ x`
            line 1, column 161: no statement has all of the loops `ii` and `q`
            help: the indices are `i`
            line 1, column 180: `halo` is for blocks of one statement
            help: use `repeat(..) { .. }`
    "#]]);
}

#[test]
fn what_no_block_can_mean_is_refused_where_it_is_wrong() {
    check(expect![[r#"
        fn f(A: [T; n]) -> (X: [T; n], s: T) { X[i] = Y[i]; s = X[i]; let Y[i] = A[i]; } auto
            line 1, column 47: no array `Y`
            help: declare it as a parameter of the block, or by `let`
            line 1, column 57: `X` is read before anything is written to it
            help: write it first, or make it a parameter of the block
        fn f(A: [T; n]) -> X: [T; n] { let Y: [T; n]; X[i] = Y[i] + A[i]; } auto
            line 1, column 54: `Y` is read before anything is written to it
            help: write it first, or make it a parameter of the block
        fn f(A: [T; n], n: T) -> X: [T; n] { X[i] = A[i]; A[i] = X[i, i]; } auto
            line 1, column 17: the array `n` has the name of an extent
            help: rename one of them; an extent is a number that is known before the block runs
        fn f(A: [T; n]) -> (X: [T; n], s: T) { X[i] = A[i] } auto
            line 1, column 32: `s` is returned, but nothing is written to it
            help: write a statement `s[..] = ..`, or do not return it
        fn f(A: [T; n], z: [T; m]) -> R: [T; n] { R[i] = A[i]; R[i] = R[i] + A[i] * z[j]; } auto
            line 1, column 63: the term with `R[i]` would be added once for each value of `j`, which is summed over
            help: add the sum by a statement of its own: `R[i] = ..; R[i] += ..`
        fn f(A: [T; n]) -> X: [T; n] { X[0] = 1; X[i] = A[i] for i in 1..n; } auto
            line 1, column 32: the first statement that writes `X` writes a part of it
            help: give all elements a value before: `X[i0] = 0.0`
            line 1, column 42: the first statement that writes `X` writes a part of it
            help: give all elements a value before: `X[i0] = 0.0`
        fn f(A: [T; n], B: [T; m]) -> X: [T; n] { X[i] = A[i]; X[i] = X[i] + B[i]; } auto
            line 1, column 72: index `i` has extent 6 in `B[i]`, but 8 in `X[i]`
            help: let the extents agree, use two indices, or state the range that fits: `for i in 0..6`
        fn f(A: [T; n]) -> X: [T; n] { let Y[i, q] = A[i]; let Y[i] = A[i]; Z[i] = A[i]; X[i] = A[i]; } auto
            line 1, column 56: the name `Y` is declared twice in the block
            help: give each array a name of its own
        fn f(A: [T; n]) -> X: [T; n] { X[i] = A[i]; repeat(3, until X[0] < 1) { let t = X[i]; } X[i] = t; } auto
            line 1, column 61: `X[0]` ends the rounds, but is an element of an array
            help: compute a scalar by a statement of the round, and compare it here
            line 1, column 96: `t` is an array of the block, which is not declared here
            help: give one of them another name
        fn f(A: [T; n]) -> X: [T; n] { X[i] = A[i]; repeat(3, until X < 1) { X[i] = 2 * X[i]; } } auto
            line 1, column 61: `X` ends the rounds, but is an array
            help: compute a scalar by a statement of the round, such as `s max= abs(X[i])`, and compare it here
        fn f(A: [T; n]) -> X: [T; n] { X[i] = A[i]; repeat(3, X = Y) { X[i] = 2 * X[i]; } X[i] = A[i } auto
            line 1, column 91: `[` is not closed
            help: write `]` where it ends
        fn f(A: [T; n]) -> X: [T; n] { X[i] = A[i]; X[i] = + A[i]; X[i] -= A[i]; X[i] = A[i + 1]; } auto
            line 1, column 52: unexpected `+`
            help: a value is made of `+`, `-`, `*`, `/`, parentheses, numbers, accesses `A[m, k]`, scalars by name, functions such as `exp(..)`, and choices `if a < b { x } else { y }`
            line 1, column 65: no assignment `-=`
            help: add the negated value: `+= -(..)`
        fn f(A: [T; n]) -> X: [T; n] { X[i] = A[i]; X[i] = X[i + 1]; } auto
            line 1, column 52: `X[i + 1]` leaves `X`: index `i + 1` spans 1..9, but dimension 0 has extent 8
            help: make `X` larger, or the ranges of the indices smaller
        fn f(A: [T; n]) -> (X: [T; n], X: [T; n]) { X[i] = A[i]; } auto
            line 1, column 32: the name `X` is declared twice in the block
            help: give each array a name of its own
        fn f(A: [T; n], B: [T; n]) -> X: [T; n] { let Y[i] = A[i]; X[i] = Y[i] * 2; } auto
            line 1, column 17: no result depends on the given value of `B`
            help: read it before it is written, or remove it; `let B` declares an array of the block
        fn f() -> X: [T; n] { } auto
            line 1, column 11: `X` is returned, but nothing is written to it
            help: write a statement `X[..] = ..`, or do not return it
    "#]]);
}

#[test]
fn blocks_of_a_file_read_the_versions_that_earlier_ones_leave() {
    check(expect![[r#"
        fn f(A: [T; n]) -> A { A[i] = 2 * A[i]; } auto fn g(A: [T; n]) -> A { A[i] = A[i] + 1; } auto
            A'1 = f(A), A'[i] = 2 * A[i]
            A'2 = g(A'1), A'[i] = A[i] + 1
            (A) -> A = A'2
        fn f(A: [T; n]) -> X: [T; n] { X[i] = A[i] + 1; X[i] = 2 * X[i]; } auto fn g(X: [T; n]) -> Y: [T; n] { let r[i] = X[i]; Y[i] = r[i] * 2; } auto
            X'1 = f(A), X[i] = A[i] + 1
            X'2 = f(X'1), X'[i] = 2 * X[i]
            Y'1 = g(X'2), Y[i] = r[i] * 2
            (A) -> X = X'2, Y = Y'1
        fn f(A: [T; n]) -> s: T { s = A[i]; s = s / 2; } auto fn g(A: [T; n], s: T) -> B: [T; n] { B[i] = A[i] * s } mesh(x: 2).distribute([i], [io], [ii]).shard(B, i @ x).shard(s)
            s'1 = f(A), s[] = A[i]
            s'2 = f(s'1), s'[] = s[] / 2
            B = g(A, s'2), B[i] = A[i] * s[]
              .distribute([i], [io], [ii], mesh(x: 2))
              .shard(B, i @ x)
              .shard(s)
            (A) -> s = s'2, B = B
        repeat(3, A = B) { fn f(A: [T; n]) -> B: [T; n] { let r[i] = A[i] + 1; B[i] = 2 * r[i]; B[0] = 1; } auto }
            repeat(3, A = B'2) { 3 }
            r'1 = f(A), r[i] = A[i] + 1
            B'1 = f(r'1), B[i] = 2 * r[i]
            B'2 = f(), B[0] = 1  // keeps of B'1
            (A) -> A = A
        fn f(A: [T; n]) -> B: [T; n] { let t[i] = A[i] + 1; B[i] = t[i]; } auto fn h(A: [T; n]) -> B: [T; n] { B[i] = A[i] * 100 } auto
            line 1, column 92: `B` is returned by an earlier block
            help: give it a name of its own
        fn f(A: [T; n]) -> X: [T; n] { let r#loop[i] = A[i] + 1; X[i] = r#loop[i]; } auto fn g(X: [T; n]) -> Y: [T; n] { Y[i] = 2 * X[i] } auto
            loop'1 = f(A), loop[i] = A[i] + 1
            Y = g(loop'1), Y[i] = 2 * X[i]
            (A) -> X = loop'1, Y = Y
        fn f(A: [T; n]) -> X: [T; n] { let r#type[i] = A[i] + 1; X[i] = 2 * r#type[i]; } auto
            type'1 = f(A), type[i] = A[i] + 1
            X'1 = f(type'1), X[i] = 2 * type[i]
            (A) -> X = X'1
    "#]]);
}

#[test]
fn rounds_that_exchange_arrays_write_one_of_them() {
    check(expect![[r#"
        fn f(A: [T; n], B: [T; n]) -> (A, B) { repeat(3) { let t[i] = A[i]; A[i] = B[i]; B[i] = t[i]; } } auto
            repeat(3, A'1 = A, then A'2, B'1 = B, then B'2) { 2 }
            A'2 = f(B'1), A[i] = B[i]
            B'2 = f(A'1), B[i] = A[i]
            (A, B) -> A = A'1, B = B'1
        fn f(A: [T; n], B: [T; n]) -> (A, B) { repeat(3) { let t[i] = A[i] + B[i]; A[i] = B[i]; B[i] = t[i]; } } auto
            repeat(3, A'1 = A, then B'1, B'1 = B, then t'1) { 1 }
            t'1 = f(A'1, B'1), t[i] = A[i] + B[i]
            (A, B) -> A = A'1, B = B'1
        fn f(A: [T; n]) -> (a: T, b: T) { a = 3; b = A[i]; repeat(4, until b > a) { a = b + 1; } repeat(2, until a >= b) { b = a + 1; } } auto
            a'1 = f(), a[] = 3
            b'1 = f(A), b[] = A[i]
            repeat(4, a'2 = a'1, then a'3, until until'1 < 0.5) { 2 }
            a'3 = f(b'1), a[] = b[] + 1
            until'1 = f(b'1, a'3), until[] = if b[] > a[] { 0 } else { 1 }
            repeat(2, b'2 = b'1, then b'3, until until'2 < 0.5) { 2 }
            b'3 = f(a'2), b[] = a[] + 1
            until'2 = f(a'2, b'3), until[] = if a[] >= b[] { 0 } else { 1 }
            (A) -> a = a'2, b = b'2
    "#]]);
}

#[test]
fn names_that_mean_an_array_where_a_number_is_needed_are_refused() {
    check(expect![[r#"
        fn f(A: [T; n]) -> s: T { repeat(3) { s += A[i]; } } auto
            line 1, column 39: `s` has no value when the first round begins
            help: give it one before the rounds, such as `s = 0`; or declare it in them: `let s`
        fn f(A: [T; n]) -> X: [T; n] { let s = A[i]; X[i] = (A[i - 1] else s) + 1; } auto
            line 1, column 68: the value outside is `s`, an array of the block
            help: write a number, or the name of one that is known before the block runs
        fn f(A: [T; n]) -> X: [T; n] { X[i] = A[i] * alpha; let alpha = A[i]; X[i] = X[i] + alpha; } auto
            line 1, column 46: `alpha` is an array of the block, which is not declared here
            help: give one of them another name
        fn f(A: [T; n]) -> X: [T; n] { let steps = A[i]; X[i] = A[i] * X + steps; repeat(steps) { X[i] = X[i] * 2; } } auto
            line 1, column 64: the array `X` is used without indices
            help: write `X[..]`
            line 1, column 82: `steps` is an array of the block, not a number that is known before it runs
            help: write a number, or a name that no array has
        fn f(A: [T; n]) -> X: [T; n] { let inf = 3; X[i] = A[i] * inf; } auto
            line 1, column 36: `inf` is infinity
            help: give the array another name
        fn f(A: [T; n], m: T) -> X: [T; n] { X[i] = A[i]; X[i] = m for i in 0..m; } auto
            line 1, column 72: `m` is an array of the block, not a number that is known before it runs
            help: write a number, or a name that no array has
        fn f(A: [T; n]) -> (X: [T; n], q) { X[i] = A[i]; } auto
            line 1, column 32: the output has no name
            help: name the output and its extents: `-> C: [f32; m, n]`
    "#]]);
}

#[test]
fn ten_thousand_statements_are_read_and_checked() {
    let statement = |nth: usize| match nth % 2 {
        0 => format!("let C{nth}[i] = A[i] * B[i];\n"),
        _ => format!("A[i] = C{}[i] - A[i];\n", nth - 1),
    };
    let statements: String = (0..10_000).map(statement).collect();
    let text = format!(
        "fn long(A: [f64; 8], B: [f64; 8]) -> A {{\n{statements}}}\nmesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x)"
    );
    let file = Definitions::parse(&text).expect("a block");
    let stages = file.bind(&Given::default()).expect("statements that fit");
    assert_eq!(stages.len(), 10_000);
    assert_eq!(stages[9_999].output, "A'5000");
    assert_eq!(file.results().len(), 1);
}

#[test]
fn running_reductions_are_kernels_on_records() {
    check(expect![[r#"
        fn f(S: [T; n, m], V: [T; m, n]) -> (M: [T; n], O: [T; n, n]) { let L: [T; n]; let A: [T; n, n]; (M[i], L[i], A[i, v]) softmax= (S[i, j], 1.0, V[j, v]); O[i, v] = A[i, v] / L[i]; } mesh(x: 2).distribute([i], [io], [ii]).shard(A, i @ x)
            M_L_A'1 = f(S, V), M_L_A[i, field] softmax= (S[i, j], 1.0, V[j, field - 3] else 0)
              .distribute([i], [io], [ii], mesh(x: 2))
              .shard(M_L_A, dim(0) @ x)
            M'1 = f(M_L_A'1), M[i] = if M_L_A[i, 0] > 0 { M_L_A[i, 1] } else { -(1.0 / 0.0) }
              .distribute([i], [io], [ii], mesh(x: 2))
              .shard(M_L_A, dim(0) @ x)
              .shard(M, dim(0) @ x)
            L'1 = f(M_L_A'1), L[i] = if M_L_A[i, 0] > 0 { M_L_A[i, 2] } else { 0.0 }
              .distribute([i], [io], [ii], mesh(x: 2))
              .shard(M_L_A, dim(0) @ x)
              .shard(L, dim(0) @ x)
            A'1 = f(M_L_A'1), A[i, v] = if M_L_A[i, 0] > 0 { M_L_A[i, v + 3] } else { 0.0 } for v in 0..8
              .distribute([i], [io], [ii], mesh(x: 2))
              .shard(A, dim(0) @ x)
              .shard(M_L_A, dim(0) @ x)
            O'1 = f(A'1, L'1), O[i, v] = A[i, v] / L[i]
              .distribute([i], [io], [ii], mesh(x: 2))
              .shard(A, dim(0) @ x)
              .shard(L, dim(0) @ x)
              .shard(O, dim(0) @ x)
            (S, V) -> M = M'1, O = O'1
        fn f(A: [T; n, m]) -> (best: [T; n], which: [T; n]) { (best[i], which[i]) argmax= (A[i, j], j) } auto
            best_which'1 = f(A), best_which[i, field] argmax= (A[i, j], j)
            best'1 = f(best_which'1), best[i] = if best_which[i, 0] > 0 { best_which[i, 1] } else { -(1.0 / 0.0) }
            which'1 = f(best_which'1), which[i] = if best_which[i, 0] > 0 { best_which[i, 2] } else { 0.0 }
            (A) -> best = best'1, which = which'1
        fn f(x: [T; n]) -> (count: T, mean: T, q: T) { (count, mean, q) mean_variance= (1, x[i], 0) for i in 2..n; } auto
            count_mean_q'1 = f(x), count_mean_q[field] mean_variance= (1, x[i], 0) for i in 2..8
            count'1 = f(count_mean_q'1), count[] = if count_mean_q[0] > 0 { count_mean_q[1] } else { 0.0 }
            mean'1 = f(count_mean_q'1), mean[] = if count_mean_q[0] > 0 { count_mean_q[2] } else { 0.0 }
            q'1 = f(count_mean_q'1), q[] = if count_mean_q[0] > 0 { count_mean_q[3] } else { 0.0 }
            (x) -> count = count'1, mean = mean'1, q = q'1
        reduction squares(s = 0.0) { s: a.s + b.s } means (s) fn f(x: [T; n]) -> s: T { let (t) squares= (x[i] * x[i]); s = t; } auto
            t_'1 = f(x), t_[field] squares= (x[i] * x[i])
            t'1 = f(t_'1), t[] = if t_[0] > 0 { t_[1] } else { 0.0 }
            (x) -> s = t'1
    "#]]);
}

#[test]
fn mistakes_in_running_reductions_are_told_at_their_place() {
    check(expect![[r#"
        fn f(A: [T; n, m]) -> M: [T; n] { let (N[i], L[i]) softmx= (A[i, j], 1); M[i] = N[i] + L[i] } auto
            line 1, column 52: no reduction `softmx`
            help: did you mean `softmax`? the reductions are `softmax`, `logsumexp`, `mean_variance`, `argmax` and `argmin`
        fn f(A: [T; n, m]) -> M: [T; n] { let (N[i], L[i]) softmax= (A[i, j], 1); M[i] = N[i] + L[i] } auto
            line 1, column 52: `softmax` has 3 fields, but the statement 2 targets
            help: write a target and a term for each field, in their order
        fn f(A: [T; n, m]) -> M: [T; n] { let (N[i], L[i]) logsumexp= (A[i, j]); M[i] = N[i] + L[i] } auto
            line 1, column 52: 2 targets, but 1 term
            help: write a term for each target
        fn f(A: [T; n, m]) -> (M: [T; n], L: [T; n]) { (M[i], M[i]) logsumexp= (A[i, j], 1); L[i] = 0 } auto
            line 1, column 55: `M` is written twice in one statement
            help: give each target an array of its own
        fn f(A: [T; n, m]) -> (M: [T; n], L: [T; n]) { (M[0], L[i]) logsumexp= (A[i, j], 1) } auto
            line 1, column 49: the reduction writes a part of `M`
            help: a reduction writes all of its targets: let each index stand alone, once, and give it no range
        fn f(A: [T; n, m]) -> (M: [T; n], L: [T; n]) { (M[i], L[i]) logsumexp= (A[i, j], B[i]) } auto
            line 1, column 82: no array `B`
            help: declare it as a parameter of the block, or by `let`
        fn f(A: [T; n, m]) -> (M: [T; n], L: [T; n, m]) { (M[i], L[i, j]) logsumexp= (A[i, j], 1) } auto
            line 1, column 52: the term of `M` has the index `j`, which `M[i]` lacks
            help: give the target this index, or leave it out of the term
        fn f(A: [T; n, m]) -> (M: [T; n, m], L: [T; n, n]) { (M[i, j], L[i, k]) logsumexp= (A[i, j], A[k, j]) } auto
            line 1, column 64: `L` has `k` that other targets lack
            help: one target of a reduction may have one index more than the others
        fn f(A: [T; n, m]) -> (M: [T; n], L: [T; n, m]) { (M[i], L[i, j]) logsumexp= (1, A[i, j]) } auto
            M_L'1 = f(A), M_L[i, field] logsumexp= (1, A[i, field - 2] else 0) for i in 0..8
            M'1 = f(M_L'1), M[i] = if M_L[i, 0] > 0 { M_L[i, 1] } else { -(1.0 / 0.0) }
            L'1 = f(M_L'1), L[i, j] = if M_L[i, 0] > 0 { M_L[i, j + 2] } else { 0.0 } for j in 0..6
            (A) -> M = M'1, L = L'1
        fn f(A: [T; n]) -> (M: T, L: T) { (M, L) = (A[i], 1) } auto
            line 1, column 42: several targets need a reduction
            help: name a reduction: `(M[i], L[i]) logsumexp= (S[i, j], 1.0)`
        reduction product(p = 1.0) { p: a.p * b.p } means (p) fn f(A: [T; n]) -> M: T { let (p) product= (A[i]); M = p } auto
            line 1, column 11: `means` of `product` does not hold: with a = (p: 1) and b = (p: 2), `p` of the combination is 2, not 1 + 2 = 3
            help: correct the formulas or `means`; `trusted` in its place takes your word for it
        reduction odd(p = 0.0) { p: a.q + c } trusted fn f(A: [T; n]) -> M: T { let (p) odd= (A[i]); M = p } auto
            line 1, column 11: no field `q`; the fields are p
            help: correct the formulas or `means`; `trusted` in its place takes your word for it
        reduction odd(p = 0.0, q = 0.0) { p: a.p + b.p, r: 0.0 } trusted fn f(A: [T; n]) -> M: T { M = A[i] } auto
            line 1, column 24: no formula for the field `q`
            help: write one: `m: max(a.m, b.m)`
        reduction odd(p = 0.0) { p: a.p + b.p } fn f(A: [T; n]) -> M: T { let (p) odd= (A[i]); M = p } auto
            line 1, column 11: `odd` has no `means`
            help: write what adds up, `means (l * exp(m))`, or `trusted`
        reduction odd(p = n) { p: a.p + A[i] } trusted fn f(A: [T; n]) -> M: T { let (p) odd= (A[i]); M = p } auto
            line 1, column 24: the field `p` has no initial value
            help: list it in the parentheses: `m = -inf`
            line 1, column 33: a formula reads no array
            help: combine the fields of two records, `a.m` and `b.m`
        fn f(A: [i64; n]) -> (M: i64, L: i64) { (M, L) argmax= (A[i], i) } auto
            line 1, column 48: `argmax=` combines floats, but the elements are `i64`
            help: let the tensors hold `f32` or `f64`
    "#]]);
}
