//! Files as parsed and bound to arrays, and every mistake with its place.

use super::{Definitions, Given, Scheduled};
use crate::einsum::Operand;
use expect_test::{Expect, expect};
use polyshard_layout::{DType, Name};
use polyshard_program::Number;

const PRODUCT: &str = "\
// C = A·B.
fn product(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
    C[m, n] += A[m, k] * B[k, n]
}
";

/// Binds a text to arrays `A.npy`, `B.npy` and so on, of f32, and prints its kernels or its mistakes.
fn check(text: &str, shapes: &[&[usize]], values: &[(&str, Number)], expect: Expect) {
    let sources: Vec<_> = (0..shapes.len()).map(|nth| format!("{}.npy", char::from(b'A' + nth as u8))).collect();
    let arrays: Vec<_> = sources.iter().zip(shapes).map(|(source, shape)| Operand { source, shape }).collect();
    let values: Vec<_> = values.iter().map(|(name, value)| (Name::new(name), *value)).collect();
    let given = Given { arrays: Some(&arrays), values: &values, dtype: Some(DType::F32) };
    let shown = match Definitions::parse(text).and_then(|file| file.bind(&given)) {
        Ok(stages) => stages.into_iter().map(shown).collect(),
        Err(error) => format!("{error}\n"),
    };
    expect.assert_eq(&shown);
}

fn shown(stage: super::Stage) -> String {
    let plan = match &stage.schedule {
        Scheduled::Auto => "auto".to_owned(),
        Scheduled::Steps(steps) => steps.iter().map(|(step, _)| format!(".{step}")).collect::<Vec<_>>().join(" "),
    };
    let kernel = stage.kernel.check().expect("a kernel of a file is checked");
    format!("{}\n  {plan}\n", kernel.definition())
}

#[test]
fn extents_come_from_arrays() {
    check(
        &format!("{PRODUCT}auto"),
        &[&[5, 7], &[7, 3]],
        &[],
        expect![[r#"
            fn product(A: [f32; 5, 7], B: [f32; 7, 3]) -> C: [f32; 5, 3] { C[m, n] += A[m, k] * B[k, n] }
              auto
        "#]],
    );
}

#[test]
fn a_kernel_reads_what_an_earlier_one_has_written() {
    let text = "fn first(X: [T; n, 4], W: [T; 4, n + 1]) -> Y: [T; n, n + 1] { Y[i, j] = X[i, k] * W[k, j] }\n\
                mesh(x: 2).distribute([i], [io], [ii])\n\
                /// Of Y.\npub fn second(Y: [T; n, n + 1], X: [T; n, 4]) -> z: T { z[] += Y[i, j] * X[i, k] }\nauto\n";
    check(
        text,
        &[&[6, 4], &[4, 7]],
        &[],
        expect![[r#"
            fn first(X: [f32; 6, 4], W: [f32; 4, 7]) -> Y: [f32; 6, 7] { Y[i, j] = X[i, k] * W[k, j] }
              .distribute([i], [io], [ii], mesh(x: 2))
            fn second(Y: [f32; 6, 7], X: [f32; 6, 4]) -> z: f32 { z[] += Y[i, j] * X[i, k] }
              auto
        "#]],
    );
    let file = Definitions::parse(text).expect("it was just read");
    assert_eq!(file.inputs(), ["X", "W"].map(Name::new));
}

#[test]
fn values_stand_for_extents_moduli_bounds_and_scalars() {
    check(
        "fn f(A: [f32; n]) -> B: [f32; n + pad] { B[i] = alpha * A[(i + n - 1) % n] + i * beta for i in pad..n }\nauto",
        &[&[9]],
        &[("pad", Number::Int(2)), ("alpha", Number::Float(-0.5)), ("beta", Number::Int(-3))],
        expect![[r#"
            fn f(A: [f32; 9]) -> B: [f32; 11] { B[i] = -0.5 * A[(i + 8) % 9] + i * (-3) for i in 2..9 }
              auto
        "#]],
    );
}

#[test]
fn arrays_that_do_not_fit_are_named_with_their_shapes() {
    check(
        &format!("{PRODUCT}auto"),
        &[&[5, 7], &[6, 3]],
        &[],
        expect![[r#"
            line 2, column 33: `k` is 7 in A.npy (5 x 7) and 6 in B.npy (6 x 3)
            help: give arrays that match, or use two names
        "#]],
    );
    check(
        &format!("{PRODUCT}auto"),
        &[&[5], &[6, 3]],
        &[],
        expect![[r#"
            line 2, column 12: `A` has 2 dimensions, but A.npy (5) has 1
            help: declare an extent for each dimension of the array
        "#]],
    );
    check(
        &format!("{PRODUCT}auto"),
        &[&[5, 7]],
        &[],
        expect![[r#"
            line 2, column 4: the kernels read `A` and `B`, but 1 array is given
            help: give one array for each, in this order
        "#]],
    );
    check(
        "fn f(A: [T; 2 * n, n]) -> B: [T; n] { B[i] = A[2 * i, i] }\nauto",
        &[&[5, 3]],
        &[],
        expect![[r#"
            line 1, column 13: dimension 0 of `A` is 2 * n = 6, but 5 in A.npy (5 x 3)
            help: give an array of this extent, or declare the extent by a name
        "#]],
    );
}

#[test]
fn a_name_without_a_value_is_said_once() {
    check(
        "fn f(A: [T; n]) -> B: [T; n, q] { B[i, j] = A[i] for j in 0..q }\nauto",
        &[&[5]],
        &[],
        expect![[r#"
            line 1, column 30: `q` has no value
            help: declare an input with the extent `q`, or set it: `--let q=10`
        "#]],
    );
    check(
        "fn f(A: [T; n]) -> B: [T; n] { B[i] = alpha * A[i] }\nauto",
        &[&[5]],
        &[],
        expect![[r#"
            line 1, column 39: `alpha` has no value
            help: write a number, or set it: `--let alpha=0.5`
        "#]],
    );
}

#[test]
fn what_is_no_file_of_kernels_is_refused_where_it_is_wrong() {
    check(
        "",
        &[],
        &[],
        expect![[r#"
            line 1, column 1: there is no kernel
            help: write `fn f(A: [f32; m, n]) -> B: [f32; m, n] { B[i, j] = A[i, j] }`, and its schedule after it
        "#]],
    );
    check(
        PRODUCT,
        &[],
        &[],
        expect![[r#"
            line 2, column 4: `product` has no mesh and no schedule
            help: write `mesh(x: 2)` and steps after it, or `auto`
        "#]],
    );
    let second = PRODUCT.replace("product", "second");
    check(
        &format!("{PRODUCT}.tile(m)\n{second}mesh(x: 2).distribute([m], [mo], [mi]).split(k, ko)\n{second}auto auto"),
        &[],
        &[],
        expect![[r#"
            line 5, column 2: no schedule step `tile`
            help: the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect` and `expect_overlap`
            line 10, column 51: expected `,`
            help: write `.split(k, ko, ki, 64)`
            line 15, column 6: unexpected tokens after `auto`
            help: write `auto` or steps, not both
        "#]],
    );
    check(
        &format!("{PRODUCT}auto\n{PRODUCT}auto"),
        &[],
        &[],
        expect![[r#"
            line 7, column 4: two kernels have the name `product`
            help: give each kernel a name of its own
        "#]],
    );
    check(
        "fn f(A: [T; n]) -> B: [T; n] { B[i] = A[j",
        &[],
        &[],
        expect![[r#"
            line 1, column 40: `[` is not closed
            help: write `]` where it ends
        "#]],
    );
    check(
        "f(A: [f64; 4]) -> B: [f64; 4] { B[i] = A[i] }\nauto",
        &[],
        &[],
        expect![[r#"
            line 1, column 1: expected a kernel, found `f`
            help: write `fn f(A: [f32; m, n]) -> B: [f32; m, n] { B[i, j] = A[i, j] }`, and its schedule after it
        "#]],
    );
    check(
        &format!("repeat(3, B = A) {PRODUCT}auto\nfn f(A: f64[4]) -> B: [f64; 4] {{ B[i] = A[i] }}\nauto"),
        &[],
        &[],
        expect![[r#"
            line 1, column 1: rounds need parentheses and braces
            help: write `repeat(100, A = B) { .. }`, with the kernels of a round in the braces
            line 6, column 12: extents follow the element type
            help: write `A: [f32; m, n]`
        "#]],
    );
    let half = "fn half(A: [T; n]) -> B: [T; n] { B[i] = 0.5 * A[i] } auto";
    check(
        &format!("repeat(3) {{ {half} }}"),
        &[],
        &[],
        expect![[r#"
            line 1, column 1: rounds carry nothing, so each repeats the first
            help: carry `B` to the next round: `A = B`
        "#]],
    );
    // An array that would have to be given although no kernel declares its shape.
    check(
        &format!("repeat(3, before = A, A = B) {{ {half} }}"),
        &[],
        &[],
        expect![[r#"
            line 1, column 11: `before` has no value before the rounds: no kernel writes it before them, and none in them reads it from outside
            help: write or read `before` first, or leave `before = ..` out
        "#]],
    );
    // The first kernel that reads it follows the rounds.
    let last = "fn last(C: [T; n]) -> D: [T; n] { D[i] = C[i] } auto";
    check(
        &format!("repeat(3, A = B, C = B) {{ {half} }} {last}"),
        &[],
        &[],
        expect![[r#"
            line 1, column 18: `C` has no value before the rounds: no kernel writes it before them, and none in them reads it from outside
            help: write or read `C` first, or leave `C = ..` out
        "#]],
    );
    // Only a kernel of the same round reads what another one has written.
    check(
        &format!("repeat(3, A = B, B = D) {{ {half} fn next(B: [T; n]) -> D: [T; n] {{ D[i] = B[i] }} auto }}"),
        &[],
        &[],
        expect![[r#"
            line 1, column 18: `B` has no value before the rounds: no kernel writes it before them, and none in them reads it from outside
            help: write or read `B` first, or leave `B = ..` out
        "#]],
    );
    check(
        &format!("repeat(3, A = A) {{ {half} }}"),
        &[],
        &[],
        expect![[r#"
            line 1, column 11: `A = A` carries nothing: no kernel of the round writes `A`
            help: carry what one of them writes, such as `A = B`
        "#]],
    );
    let file = Definitions::parse(&format!("repeat(1.5, A = B) {{ {half} }}")).expect("a file");
    expect![[r#"
        line 1, column 8: `1.5` is not a number of rounds
        help: write a whole number"#]]
    .assert_eq(&file.rounds(&Given::default()).expect_err("half a round").to_string());
    check(
        &format!("{PRODUCT}mesh(x: 2).distribute([m], [mo], [mi]);"),
        &[],
        &[],
        expect![[r#"
            line 5, column 39: a schedule has no `;`
            help: leave it out
        "#]],
    );
    check(
        &format!("{PRODUCT}auto /* as `summa` has it"),
        &[],
        &[],
        expect![[r#"
            line 5, column 6: `/*` is not closed
            help: write `*/` where the comment ends
        "#]],
    );
}

#[test]
fn what_other_languages_have_in_files_is_answered() {
    check(
        &format!("{PRODUCT}atuo"),
        &[&[5, 7], &[7, 3]],
        &[],
        expect![[r#"
            line 5, column 1: no schedule `atuo`
            help: did you mean `auto`?
        "#]],
    );
    check(
        &format!("# the product\n{PRODUCT}auto"),
        &[&[5, 7], &[7, 3]],
        &[],
        expect![[r#"
            line 1, column 1: a kernel cannot begin with `#`
            help: comments begin with `//`
        "#]],
    );
    check(
        &format!("{PRODUCT}auto # A·B"),
        &[&[5, 7], &[7, 3]],
        &[],
        expect![[r#"
            line 5, column 6: a kernel cannot begin with `#`
            help: comments begin with `//`
        "#]],
    );
}

#[test]
fn a_type_that_no_array_says_is_set_by_an_option() {
    let values = [("m".into(), Number::Int(4)), ("k".into(), Number::Int(4)), ("n".into(), Number::Int(4))];
    let given = Given { arrays: None, values: &values, dtype: None };
    let file = Definitions::parse(&format!("{PRODUCT}auto")).expect("a file");
    let error = file.bind(&given).expect_err("no type").to_string();
    assert!(error.ends_with("help: write `f32`, `f64`, `i32` or `i64`, or set it: `--type f32`"), "{error}");
}
