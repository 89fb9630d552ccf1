//! Files as parsed and bound to arrays, and every mistake with its place.

use super::{Definitions, Given, Scheduled};
use crate::einsum::Operand;
use crate::tests::check_all;
use expect_test::{Expect, expect};
use polyshard_layout::{DType, Name};
use polyshard_program::Number;

const PRODUCT: &str = "\
// C = A·B.
fn product(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
    C[m, n] += A[m, k] * B[k, n]
}
";

const HALF: &str = "fn half(A: [T; n]) -> B: [T; n] { B[i] = 0.5 * A[i] } auto";

/// Binds texts to arrays `A.npy`, `B.npy` and so on, of f32: their kernels or their mistakes.
fn check(shapes: &[&[usize]], values: &[(&str, Number)], transcript: Expect) {
    let sources: Vec<_> = (0..shapes.len()).map(|nth| format!("{}.npy", char::from(b'A' + nth as u8))).collect();
    let arrays: Vec<_> = sources.iter().zip(shapes).map(|(source, shape)| Operand { source, shape }).collect();
    let values: Vec<_> = values.iter().map(|(name, value)| (Name::new(name), *value)).collect();
    let given = Given { arrays: Some(&arrays), values: &values, dtype: Some(DType::F32) };
    check_all(transcript, |text| {
        let second = PRODUCT.replace("product", "second");
        let named = [("{product}", PRODUCT), ("{second}", &second), ("{half}", HALF), ("{nothing}", "")];
        let text = named.iter().fold(text.to_owned(), |text, (name, meant)| text.replace(name, meant));
        match Definitions::parse(&text).and_then(|file| file.bind(&given)) {
            Ok(stages) => stages.into_iter().map(shown).collect(),
            Err(error) => error.to_string(),
        }
    });
}

fn shown(stage: super::Stage) -> String {
    let plan = match &stage.schedule {
        Scheduled::Auto(_) => "auto".to_owned(),
        Scheduled::Steps(steps) => steps.iter().map(|(step, _)| format!(".{step}")).collect::<Vec<_>>().join(" "),
    };
    let kernel = stage.kernel.check().expect("a kernel of a file is checked");
    format!("{}\n  {plan}\n", kernel.definition())
}

#[test]
fn extents_come_from_arrays() {
    check(
        &[&[5, 7], &[7, 3]],
        &[],
        expect![[r#"
        {product}auto
            fn product(A: [f32; 5, 7], B: [f32; 7, 3]) -> C: [f32; 5, 3] { C[m, n] += A[m, k] * B[k, n] }
              auto
    "#]],
    );
}

#[test]
fn a_kernel_reads_what_an_earlier_one_has_written() {
    check(
        &[&[6, 4], &[4, 7]],
        &[],
        expect![[r#"
        fn first(X: [T; n, 4], W: [T; 4, n + 1]) -> Y: [T; n, n + 1] { Y[i, j] = X[i, k] * W[k, j] }⏎mesh(x: 2).distribute([i], [io], [ii])⏎/// Of Y.⏎pub fn second(Y: [T; n, n + 1], X: [T; n, 4]) -> z: T { z[] += Y[i, j] * X[i, k] }⏎auto⏎
            fn first(X: [f32; 6, 4], W: [f32; 4, 7]) -> Y: [f32; 6, 7] { Y[i, j] = X[i, k] * W[k, j] }
              .distribute([i], [io], [ii], mesh(x: 2))
            fn second(Y: [f32; 6, 7], X: [f32; 6, 4]) -> z: f32 { z[] += Y[i, j] * X[i, k] }
              auto
    "#]],
    );
    let file = Definitions::parse("fn f(X: [T; n], W: [T; n]) -> Y: [T; n] { Y[i] = X[i] * W[i] } auto fn g(Y: [T; n], X: [T; n]) -> z: T { z[] += Y[i] * X[i] } auto").expect("a file");
    assert_eq!(file.inputs(), ["X", "W"].map(Name::new));
}

#[test]
fn values_stand_for_extents_moduli_bounds_and_scalars() {
    check(
        &[&[9]],
        &[("pad", Number::Int(2)), ("alpha", Number::Float(-0.5)), ("beta", Number::Int(-3))],
        expect![[r#"
        fn f(A: [f32; n]) -> B: [f32; n + pad] { B[i] = alpha * A[(i + n - 1) % n] + i * beta for i in pad..n }⏎auto
            fn f(A: [f32; 9]) -> B: [f32; 11] { B[i] = -0.5 * A[(i + 8) % 9] + i * (-3) for i in 2..9 }
              auto
    "#]],
    );
}

#[test]
fn arrays_that_do_not_fit_are_named_with_their_shapes() {
    check(
        &[&[5, 7], &[6, 3]],
        &[],
        expect![[r#"
        {product}auto
            line 2, column 33: `k` is 7 in A.npy (5 x 7) and 6 in B.npy (6 x 3)
            help: give arrays that match, or use two names
    "#]],
    );
    check(
        &[&[5], &[6, 3]],
        &[],
        expect![[r#"
        {product}auto
            line 2, column 12: `A` has 2 dimensions, but A.npy (5) has 1
            help: declare an extent for each dimension of the array
    "#]],
    );
    check(
        &[&[5, 7]],
        &[],
        expect![[r#"
        {product}auto
            line 2, column 4: the kernels read `A` and `B`, but 1 array is given
            help: give one array for each, in this order
    "#]],
    );
    check(
        &[&[5, 3]],
        &[],
        expect![[r#"
        fn f(A: [T; 2 * n, n]) -> B: [T; n] { B[i] = A[2 * i, i] }⏎auto
            line 1, column 13: dimension 0 of `A` is 2 * n = 6, but 5 in A.npy (5 x 3)
            help: give an array of this extent, or declare the extent by a name
    "#]],
    );
}

#[test]
fn a_name_without_a_value_is_said_once() {
    check(
        &[&[5]],
        &[],
        expect![[r#"
        fn f(A: [T; n]) -> B: [T; n, q] { B[i, j] = A[i] for j in 0..q }⏎auto
            line 1, column 30: `q` has no value
            help: declare an input with the extent `q`, or set it: `--let q=10`
        fn f(A: [T; n]) -> B: [T; n] { B[i] = alpha * A[i] }⏎auto
            line 1, column 39: `alpha` has no value
            help: write a number, or set it: `--let alpha=0.5`
    "#]],
    );
}

#[test]
fn what_is_no_file_of_kernels_is_refused_where_it_is_wrong() {
    check(
        &[],
        &[],
        expect![[r#"
            {nothing}
                line 1, column 1: there is no kernel
                help: write `fn f(A: [f32; m, n]) -> B: [f32; m, n] { B[i, j] = A[i, j] }`, and its schedule after it
            {product}
                line 2, column 4: `product` has no mesh and no schedule
                help: write `mesh(x: 2)` and steps after it, or `auto`
            {product}.tile(m)⏎{second}mesh(x: 2).distribute([m], [mo], [mi]).split(k, ko)⏎{second}auto auto
                line 5, column 2: no schedule step `tile`
                help: the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect`, `expect_overlap`, `together`, `apart`, `of` and `of_all`
                line 10, column 51: expected `,`
                help: write `.split(k, ko, ki, 64)`
                line 15, column 6: unexpected tokens after `auto`
                help: write what it keeps before it: `mesh(x: 2).shard(A, i @ x).auto`
            {product}auto⏎{product}auto
                line 7, column 4: two kernels have the name `product`
                help: give each kernel a name of its own
            fn f(A: [T; n]) -> B: [T; n] { B[i] = A[j
                line 1, column 40: `[` is not closed
                help: write `]` where it ends
            f(A: [f64; 4]) -> B: [f64; 4] { B[i] = A[i] }⏎auto
                line 1, column 1: expected a kernel, found `f`
                help: write `fn f(A: [f32; m, n]) -> B: [f32; m, n] { B[i, j] = A[i, j] }`, and its schedule after it
            repeat(3, B = A) {product}auto⏎fn f(A: f64[4]) -> B: [f64; 4] { B[i] = A[i] }⏎auto
                line 1, column 1: rounds need parentheses and braces
                help: write `repeat(100, A = B) { .. }`, with the kernels of a round in the braces
                line 6, column 12: extents follow the element type
                help: write `A: [f32; m, n]`
            repeat(3) { {half} }
                line 1, column 1: rounds carry nothing, so each repeats the first
                help: carry `B` to the next round: `A = B`
            repeat(3, before = A, A = B) { {half} }
                line 1, column 11: `before` has no value before the rounds: no kernel writes it before them, and none in them reads it from outside
                help: write or read `before` first, or leave `before = ..` out
            repeat(3, A = B, C = B) { {half} } fn last(C: [T; n]) -> D: [T; n] { D[i] = C[i] } auto
                line 1, column 18: `C` has no value before the rounds: no kernel writes it before them, and none in them reads it from outside
                help: write or read `C` first, or leave `C = ..` out
            repeat(3, A = B, B = D) { {half} fn next(B: [T; n]) -> D: [T; n] { D[i] = B[i] } auto }
                line 1, column 18: `B` has no value before the rounds: no kernel writes it before them, and none in them reads it from outside
                help: write or read `B` first, or leave `B = ..` out
            repeat(3, A = A) { {half} }
                line 1, column 11: `A = A` carries nothing: no kernel of the round writes `A`
                help: carry what one of them writes, such as `A = B`
            {product}mesh(x: 2).distribute([m], [mo], [mi]);
                line 5, column 39: a schedule has no `;`
                help: leave it out
            {product}auto /* as `summa` has it
                line 5, column 6: `/*` is not closed
                help: write `*/` where the comment ends
        "#]],
    );
    let file = Definitions::parse(&format!("repeat(1.5, A = B) {{ {HALF} }}")).expect("a file");
    expect![[r#"
        line 1, column 8: `1.5` is not a number of rounds
        help: write a whole number"#]]
    .assert_eq(&file.rounds(&Given::default()).expect_err("half a round").to_string());
}

#[test]
fn what_other_languages_have_in_files_is_answered() {
    check(
        &[&[5, 7], &[7, 3]],
        &[],
        expect![[r#"
        {product}atuo
            line 5, column 1: no schedule `atuo`
            help: did you mean `auto`?
        # the product⏎{product}auto
            line 1, column 1: a kernel cannot begin with `#`
            help: comments begin with `//`
        {product}auto # A·B
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
