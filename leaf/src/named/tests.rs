use super::*;
use ndarray::{Ix1, Ix2};

fn product<T: Element>(c: ArrayViewMutD<'_, T>, [a, b]: [ArrayViewD<'_, T>; 2]) {
    let mut c = c.into_dimensionality::<Ix2>().unwrap();
    let [a, b] = [a, b].map(|tile| tile.into_dimensionality::<Ix2>().unwrap());
    for ((m, n), c) in c.indexed_iter_mut() {
        *c = (0..a.ncols()).fold(*c, |sum, k| sum.add(a[[m, k]].multiply(b[[k, n]])));
    }
}

const PRODUCT: &str = "(A: [T; 1, 1], B: [T; 1, 1]) -> C: [T; 1, 1] { C[m, n] += A[m, k] * B[k, n] }";
const WINDOW: &str = "(x: [T; 1, 1], w: [T; 1]) -> y: [T; 1] { y[i] += x[i, r] * w[r] }";
const SUM: &str = "(x: [T; 1, 1]) -> y: [T; 1] { y[i] += x[i, k] }";
const COPY: &str = "(x: [T; 1]) -> y: [T; 1] { y[i] += x[i] }";

/// The kernel of a leaf over elements `T`.
fn computes<T: Element>(text: &str) -> Kernel {
    let text = format!("fn leaf{}", text.replace("[T;", &format!("[{};", T::DTYPE.name())));
    polyshard_dsl::parse_kernel(&text).unwrap().check().unwrap()
}

fn needed(text: &str) -> TileStatement {
    TileStatement::of_kernel(&computes::<f64>(text)).unwrap()
}

#[test]
fn tiles_follow_the_statement_of_the_leaf() {
    register("transposed", &computes::<i32>(PRODUCT), product::<i32>).unwrap();
    let transposed = needed("(Y: [T; 1, 1], Z: [T; 1, 1]) -> X: [T; 1, 1] { X[n, m] += Y[k, m] * Z[n, k] }");
    let leaf = Named::<i32>::find("transposed", &["n", "b", "m", "k"], &transposed).unwrap();
    // Y is 3 by 2, Z is 4 by 3, X is 4 by 2 inside of 4 by 5.
    let (y, z): (Vec<i32>, Vec<i32>) = ((1..7).collect(), (1..13).collect());
    let mut x = vec![100; 20];
    let operands = [Strided::new(&y, 0, vec![0, 0, 1, 2]), Strided::new(&z, 0, vec![3, 0, 0, 1])];
    leaf.run(&[4, 1, 2, 3], &operands, StridedMut::new(&mut x, 1, vec![5, 0, 1, 0]));
    for n in 0..4 {
        for m in 0..2 {
            let sum: i32 = (0..3).map(|k| y[2 * k + m] * z[3 * n + k]).sum();
            assert_eq!(x[5 * n + 1 + m], 100 + sum);
        }
    }
    assert_eq!(x.iter().filter(|&&element| element == 100).count(), 12);
}

fn window(y: ArrayViewMutD<'_, f64>, [x, w]: [ArrayViewD<'_, f64>; 2]) {
    let (mut y, x) = (y.into_dimensionality::<Ix1>().unwrap(), x.into_dimensionality::<Ix2>().unwrap());
    for (i, y) in y.iter_mut().enumerate() {
        *y += w.iter().enumerate().map(|(r, w)| w * x[[i, r]]).sum::<f64>();
    }
}

#[test]
fn operands_may_overlap_and_run_backwards() {
    register("window", &computes::<f64>(WINDOW), window).unwrap();
    let leaf = Named::<f64>::find("window", &["i", "r"], &needed(WINDOW)).unwrap();
    let (x, w, mut y) = ([1.0, 2.0, 4.0, 8.0, 16.0], [1.0, 10.0], [0.0; 4]);
    let operands = [Strided::new(&x, 4, vec![-1, -1]), Strided::new(&w, 1, vec![0, -1])];
    leaf.run(&[4, 2], &operands, StridedMut::new(&mut y, 3, vec![-1, 0]));
    assert_eq!(y, [21.0, 42.0, 84.0, 168.0]);
}

#[test]
fn a_leaf_is_not_called_on_empty_tiles() {
    let called = |_: ArrayViewMutD<'_, f32>, _: [ArrayViewD<'_, f32>; 1]| panic!("called");
    register("never", &computes::<f32>(SUM), called).unwrap();
    let leaf = Named::<f32>::find("never", &["i", "k"], &needed(SUM)).unwrap();
    leaf.run(&[3, 0], &[Strided::new(&[], 7, vec![2, 1])], StridedMut::new(&mut [0.0; 3], 0, vec![1, 0]));
}

#[test]
fn a_leaf_is_registered_once_per_element_type() {
    register("once", &computes::<f32>(PRODUCT), product::<f32>).unwrap();
    register("once", &computes::<f64>(PRODUCT), product::<f64>).unwrap();
    register("once", &computes::<f32>(PRODUCT), product::<f32>).expect("the same again");
    let said = |found: Result<(), LeafError>| found.expect_err("a refusal").to_string();
    let twice = "leaf `once` is already registered for f32 as `C[m, n] += A[m, k] * B[k, n]`; register each leaf once, \
                 before `spmd`, under a name of its own";
    let swapped = computes::<f32>(&PRODUCT.replace("A[m, k] * B[k, n]", "B[m, k] * A[k, n]"));
    assert_eq!(said(register("once", &swapped, product::<f32>)), twice);
    assert_eq!(
        said(register("once", &computes::<f32>(PRODUCT), |c: ArrayViewMutD<'_, f32>, ab: [_; 2]| product(c, ab))),
        twice
    );
    // Functions with the same signature have the same type as pointers, which does not identify them.
    let pointer: fn(ArrayViewMutD<'_, i64>, [ArrayViewD<'_, i64>; 2]) = product::<i64>;
    register("once", &computes::<i64>(PRODUCT), pointer).unwrap();
    assert_eq!(said(register("once", &computes::<i64>(PRODUCT), pointer)), twice.replace("f32", "i64"));
}

#[test]
fn what_cannot_be_registered_is_refused() {
    let said = |found: Result<(), LeafError>| found.expect_err("a refusal").to_string();
    let name = "`a b` is not a name for a leaf; names are letters, digits and `_`, and do not start with a digit";
    assert_eq!(said(register("a b", &computes::<f32>(PRODUCT), product::<f32>)), name);
    let operands = "`y[i] += x[i]` has 1 operand (x), but the function of leaf `few` takes 2; make them match";
    assert_eq!(said(register("few", &computes::<f32>(COPY), product::<f32>)), operands);
    let types = "the kernel of leaf `typed` is for f64, but its function takes tiles of f32; make them match";
    assert_eq!(said(register("typed", &computes::<f64>(PRODUCT), product::<f32>)), types);
    let overwrites = "leaf `set` cannot compute `C[m, n] = A[m, k] * B[k, n]`: a leaf combines into what the \
                      output's tile holds: write `+=`, `*=`, `max=` or `min=`";
    assert_eq!(said(register("set", &computes::<f32>(&PRODUCT.replace("+=", "=")), product::<f32>)), overwrites);
}

#[test]
fn a_leaf_that_is_missing_or_other_is_refused_with_what_to_do() {
    register("given", &computes::<f64>(PRODUCT), product::<f64>).unwrap();
    let said = |name, text| {
        let found = Named::<f64>::find(name, &["i", "j", "k"], &needed(text));
        found.err().expect("a refusal").to_string()
    };
    let other = "leaf `given` is registered for f64 as `C[m, n] += A[m, k] * B[k, n]`, but the kernel needs `y[i] += a[i, \
                 k] * x[k]`: register a leaf that computes this, or tensorize with another";
    assert_eq!(said("given", "(a: [T; 1, 1], x: [T; 1]) -> y: [T; 1] { y[i] += a[i, k] * x[k] }"), other);
    let unknown = Named::<f64>::find("missing", &["i"], &needed(COPY)).err();
    assert!(matches!(
        unknown,
        Some(LeafError::Unknown { name, dtype: DType::F64, known, .. })
            if name == "missing" && known.contains(&Name::new("given"))
    ));
    let missing = said("missing", COPY);
    assert!(missing.starts_with("no leaf `missing` for f64; the registered leaves are `given`"), "{missing}");
    let call = ": call `leaf::register(\"missing\", &kernel, function)`, where the kernel is `y[i] += x[i]`, before \
                the program runs, in each rank's process";
    assert!(missing.ends_with(call), "{missing}");
    let typed = Named::<i32>::find("given", &["i"], &needed(COPY)).err().expect("a refusal").to_string();
    assert!(typed.starts_with("no leaf `given` for i32; it is registered for f64: call `leaf::"), "{typed}");
}
