//! Statements over tiles: which kernels qualify, and when two compute the same.

use polyshard_program::{Kernel, TileStatement};

fn kernel(text: &str) -> Kernel {
    let kernel =
        polyshard_dsl::parse_kernel(&format!("fn leaf{text}")).unwrap_or_else(|error| panic!("{text}: {error}"));
    kernel.check().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn renamed(a: &str, b: &str) -> Option<String> {
    let [a, b] =
        [a, b].map(|text| TileStatement::of_kernel(&kernel(text)).unwrap_or_else(|why| panic!("{text}: {why}")));
    let pairs = a.renamed(&b)?.into_iter().map(|(own, other)| format!("{own}={other}"));
    Some(pairs.collect::<Vec<_>>().join(" "))
}

#[track_caller]
fn check_refused(text: &str, why: &str) {
    assert_eq!(TileStatement::of_kernel(&kernel(text)), Err(why.into()));
}

const PRODUCT: &str = "(A: [f64; 1, 1], B: [f64; 1, 1]) -> C: [f64; 1, 1] { C[m, n] += A[m, k] * B[k, n] }";

#[test]
fn names_extents_and_the_order_of_dimensions_do_not_count() {
    assert_eq!(renamed(PRODUCT, PRODUCT).as_deref(), Some("m=m n=n k=k"));
    let transposed = "(Y: [f64; 7, 8], Z: [f64; 7, 9]) -> X: [f64; 9, 8] { X[j, i] += Y[l, i] * Z[l, j] }";
    assert_eq!(renamed(PRODUCT, transposed).as_deref(), Some("m=i n=j k=l"));
    let swapped = "(Y: [f64; 7, 9], Z: [f64; 7, 8]) -> X: [f64; 9, 8] { X[j, i] += Y[l, j] * Z[l, i] }";
    assert_eq!(renamed(PRODUCT, swapped).as_deref(), Some("m=j n=i k=l"));
    let [copy, transposed] = ["x[p, q]", "x[q, p]"]
        .map(|access| format!("(x: [f64; 2, 2]) -> y: [f64; 2, 2] {{ y[p, q] += 2.0 * {access} }}").replace("p", "i"));
    assert_eq!(renamed(&copy, &transposed.replace("2.0", "2")).as_deref(), Some("i=i q=q"));
}

#[test]
fn whatever_else_differs_is_another_meaning() {
    for other in [
        "(A: [f64; 1, 1], B: [f64; 1, 1]) -> C: [f64; 1, 1] { C[m, n] max= A[m, k] * B[k, n] }",
        "(A: [f64; 1, 1], B: [f64; 1, 1]) -> C: [f64; 1, 1] { C[m, n] += A[m, k] + B[k, n] }",
        "(A: [f64; 1, 1], B: [f64; 1, 1]) -> C: [f64; 1, 1] { C[m, n] += 2 * A[m, k] * B[k, n] }",
        "(a: [f64;], A: [f64; 1, 1], B: [f64; 1, 1]) -> C: [f64; 1, 1] { C[m, n] += a[] * A[m, k] * B[k, n] }",
        "(A: [f64; 1], B: [f64; 1]) -> C: [f64; 1, 1] { C[m, n] += A[m] * B[n] }",
        "(A: [f64; 1, 1], B: [f64; 1]) -> C: [f64; 1] { C[m] += A[m, k] * B[k] }",
        "(A: [f64; 1, 1, 1], B: [f64; 1, 1, 1]) -> C: [f64; 1, 1, 1] { C[b, m, n] += A[b, m, k] * B[b, k, n] }",
    ] {
        assert_eq!(renamed(PRODUCT, other), None, "{other}");
        assert_eq!(renamed(other, PRODUCT), None, "{other}");
    }
    // One tile read twice is less than two tiles.
    let [once, twice] = [
        "(a: [f64; 1]) -> y: [f64; 1] { y[i] += a[i] * a[i] }",
        "(a: [f64; 1], b: [f64; 1]) -> y: [f64; 1] { y[i] += a[i] * b[i] }",
    ];
    assert_eq!(renamed(once, twice), None);
}

#[test]
fn operands_are_numbered_as_they_are_first_named() {
    let text = "(A: [i64; 1], s: [i64;], B: [i64; 1, 1]) -> C: [i64; 1] { C[i] max= B[i, k] * s[] + A[k] * B[i, k] }";
    let tiles = TileStatement::of_kernel(&kernel(text)).expect("tiles").tiles();
    assert_eq!(tiles.iter().map(ToString::to_string).collect::<Vec<_>>(), ["C[i]", "B[i, k]", "s[]", "A[k]"]);
}

#[test]
fn what_is_no_statement_over_tiles_says_why() {
    check_refused(
        "(A: [f32; 4]) -> C: [f32; 4] { C[i] = A[i] }",
        "a leaf combines into what the output's tile holds: write `+=`, `*=`, `max=` or `min=`",
    );
    check_refused(
        "(A: [f32; 5]) -> C: [f32; 4] { C[i] += A[i + 1] }",
        "a tile has a dimension per index, but `i + 1` in `A[i + 1]` is not an index alone",
    );
    check_refused("(A: [f32; 4, 4]) -> C: [f32; 4] { C[i] += A[i, i] }", "`i` indexes `A` twice; list each index once");
    check_refused(
        "(A: [f32; 4]) -> C: [f32; 4] { C[i] += A[i] * A[k] }",
        "`A` is the tile `A[i]`, but is read as `A[k]` too; give each tile a name",
    );
    check_refused(
        "(A: [f32; 4]) -> C: [f32; 4] { C[i] += A[i] else 0.0 }",
        "a tile holds only elements of tensors, but `A[i] else 0.0` may be outside of its tensor",
    );
    check_refused(
        "(A: [f32; 4]) -> C: [f32; 4] { C[i] += i * A[i] }",
        "a leaf does not know the position of its tile in the array, but `i` is used as a number",
    );
    let mut idle = polyshard_testing::example::matmul(4, 4, 4);
    idle.ranges.push(("q".into(), 0..3));
    let why = "`q` indexes no tensor, so no tile has a dimension for it";
    assert_eq!(TileStatement::of_kernel(&idle.check().expect("a kernel")), Err(why.into()));
}
