//! What cannot be planned is refused with what is wrong and what to do.

use polyshard_layout::{DType, Mesh};
use polyshard_planner::product::{Free, Link, Product, ProductError, Roofline, Sharded, Wiring, reshard};

const SIZES: [(&str, usize); 3] = [("I", 8), ("J", 16), ("K", 12)];

fn mesh() -> Mesh {
    Mesh::new([("X", 2), ("Y", 4), ("rows", 2)])
}

fn machine(memory_bytes: u128) -> Roofline {
    let link = Link { wiring: Wiring::Switch, bandwidth: 1e9, latency: 1e-6 };
    let none = Roofline { flops: 1e12, memory_bandwidth: 1e10, memory_bytes, links: vec![] };
    none.with_link("X", link).with_link("Y", link).with_link("rows", link)
}

fn said<T>(result: Result<T, ProductError>) -> String {
    result.map(|_| ()).expect_err("refused").to_string()
}

fn read(text: &str, sizes: &[(&str, usize)]) -> Result<Product, ProductError> {
    Product::new(text, &mesh(), sizes, DType::F32)
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(said(read(text, &SIZES)), expected);
}

#[test]
fn texts_that_are_no_product_are_refused() {
    let form = "; write `A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]`";
    check("A[I, J]", &format!("cannot read `A[I, J]`: no `->` before the result{form}"));
    check("A[I, J] -> C", &format!("cannot read `A[I, J] -> C`: no `*` between the factors{form}"));
    check(
        "A[I] * B[I] * C[I] -> D[]",
        &format!("cannot read `A[I] * B[I] * C[I] -> D[]`: a product has two factors{form}"),
    );
    check(
        "A[I J] * B[J, K] -> C[I, K]",
        "in `A[I J]`: cannot read `A[I J]` at column 5: a `,` or a `]` follows a dimension",
    );
    check(
        "A[I, J] * B[J, K] -> C[I, K] {X}",
        "in `C[I, K] {X}`: cannot read `{X}` at column 3: open sums follow an array as in `C[I, K] {U_X}`",
    );
}

#[test]
fn axes_that_are_not_there_or_taken_are_refused() {
    check(
        "A[I_X, J_X] * B[J, K] -> C[I, K]",
        "in `A[I_X, J_X]`: axis `X` partitions dimensions 0 and 1; an axis partitions one dimension, once",
    );
    check(
        "A[I, J] * B[J, K_Z] -> C[I, K]",
        "in `B[J, K_Z]`: dimension 1: no axis `Z`; the mesh is (X: 2, Y: 4, rows: 2)",
    );
    check(
        "A[I, J] * B[J, K] -> C[I, K] {U_Z}",
        "`C[I, K] {U_Z}` is unreduced along `Z`, which is no axis; the mesh is (X: 2, Y: 4, rows: 2)",
    );
    check(
        "A[I, J_X] * B[J_X, K] -> C[I_X, K] {U_X}",
        "`C[I_X, K] {U_X}` is unreduced along `X`, which also cuts `I`; an axis does one or the other",
    );
    check("A[I, J] * B[J, K] -> C[I, K] {U_XX}", "`C[I, K] {U_XX}` is unreduced along `X` twice; once says it");
    check(
        "A[I, J] {U_{rows}} * B[J, K] -> C[I, K]",
        "`A[I, J] {U_{rows}}` is a factor with open sums, and sums of terms are needed to multiply; reduce it first",
    );
}

#[test]
fn dimensions_that_make_no_product_are_refused() {
    check(
        "A[I, J] * B[K] -> C[I, K]",
        "dimension `J` is in `A[I, J]` alone; a dimension of a product is in two arrays or in all three",
    );
    assert_eq!(
        said(read("A[I] * B[I] -> C[K]", &[("I", 8), ("K", 8)])),
        "dimension `K` is in the result `C[K]` alone; the factors have I"
    );
}

#[test]
fn sizes_that_are_missing_indivisible_or_too_large_are_refused() {
    let matrices = "A[I, J_Y] * B[J_Y, K] -> C[I, K]";
    let with = |sizes: &[(&str, usize)]| said(read(matrices, sizes));
    assert_eq!(with(&[("I", 8), ("J", 8)]), "in `B[J_Y, K]`: dimension `K` has no size; give one, as `K=64`");
    assert_eq!(
        with(&[("I", 8), ("J", 8), ("K", 8), ("L", 1)]),
        "dimension `L` has a size but is in no array; the dimensions are I, J, K"
    );
    assert_eq!(with(&[("I", 8), ("J", 8), ("K", 8), ("I", 9)]), "dimension `I` has two sizes; give one");
    assert_eq!(
        with(&[("I", 8), ("J", 6), ("K", 8)]),
        "in `A[I, J_Y]`: dimension 1: a plan is made for equal tiles, and 6 indices cannot be cut into 4 of them; pad to 8, or \
                  choose other axes"
    );
    assert_eq!(
        with(&[("I", 1 << 40), ("J", 1 << 40), ("K", 8)]),
        "in `A[I, J_Y]`: the array has 2^63 elements or more"
    );
}

#[test]
fn memory_that_does_not_suffice_is_refused_with_what_would_fit() {
    let plan = |text, bytes| said(read(text, &SIZES).expect("a product").plan(&machine(bytes)));
    // A takes 512 bytes, B 768 and C 384.
    assert_eq!(
        plan("A[I, J] * B[J, K] -> C[I, K]", 1000),
        "no sequence fits into 1000 bytes per device: `A * B` takes least, 1664 bytes; \
         with `A[I, J_{X,Y,rows}]` and `B[J_{X,Y,rows}, K]` it would take 464"
    );
}

#[test]
fn factors_that_cannot_be_brought_together_in_memory_are_named() {
    let product = read("A[I, J_Y] * B[J_X, K] -> C[I, K]", &SIZES).expect("a product");
    assert_eq!(
        said(product.plan(&machine(600))),
        "no sequence fits into 600 bytes per device: `Slice_Y B; AllGather_X B; Slice_{X,rows} A; AllGather_Y A; \
         A * B; AllGather_{X,Y,rows} C` takes least, 920 bytes; `J` is cut by `Y` in `A` and by `X` in `B`, and to bring it \
         together takes copies; with `A[I, J_{X,Y,rows}]` and `B[J_{X,Y,rows}, K]` it would take 464"
    );
}

#[test]
fn sums_that_cannot_stay_open_are_refused() {
    let product = read("A[I, J] * B[J, K] -> C[I, K] {U_Y}", &[("I", 8), ("J", 6), ("K", 8)]).expect("a product");
    assert_eq!(
        said(product.plan(&machine(1 << 30))),
        "no sequence of equal tiles ends in `C[I, K] {U_Y}`: sums stay open along `Y` if it cuts what is contracted, \
         but J = 6 does not divide by 4"
    );
    let outer = read("A[I] * B[K] -> C[I, K] {U_X}", &[("I", 8), ("K", 8)]).expect("a product");
    assert_eq!(
        said(outer.plan(&machine(1 << 30))),
        "no sequence of equal tiles ends in `C[I, K] {U_X}`: nothing is contracted, so there are no sums to keep along \
         `X`; leave `{U_X}` out"
    );
}

#[test]
fn searches_and_meshes_that_make_no_sense_are_refused() {
    let product = read("A[I_X, J] * B[J, K] -> C[I, K]", &SIZES).expect("a product");
    assert_eq!(
        said(product.search(&machine(1 << 30), Free::Both)),
        "`A[I_X, J]` is to be sharded by the search but has axes; write `A[I, J]`, or do not let it be free"
    );
    assert!(product.search(&machine(1 << 30), Free::Right).is_ok());
    let many = Mesh::new(["a", "b", "c", "d", "e"].map(|name| (name, 2)));
    let link = Link { wiring: Wiring::Ring, bandwidth: 1e9, latency: 0.0 };
    let linked = many.as_slice().iter().fold(machine(1 << 30), |machine, axis| machine.with_link(axis.name, link));
    let product = Product::new("A[I, J] * B[J, K] -> C[I, K]", &many, &SIZES, DType::F32).expect("a product");
    assert_eq!(
        said(product.plan(&linked)),
        "5 axes of more than one rank; plans are sought over at most 4: join axes of equal links"
    );
}

#[test]
fn dimensions_in_too_many_layouts_are_refused_before_they_are_written_down() {
    let names: Vec<String> = (0..200).map(|nth| format!("D{nth}")).collect();
    let mesh = Mesh::new(["a", "b", "c", "d"].map(|name| (name, 2)));
    let link = Link { wiring: Wiring::Ring, bandwidth: 1e9, latency: 0.0 };
    for (axes, most) in [(1, 175), (2, 30), (3, 11), (4, 6)] {
        let mesh = Mesh::new(mesh.as_slice()[..axes].iter().map(|axis| (axis.name, axis.extent)));
        let linked = mesh.as_slice().iter().fold(machine(1 << 30), |machine, axis| machine.with_link(axis.name, link));
        let sizes: Vec<_> = names[..most + 1].iter().map(|name| (name.as_str(), 1)).collect();
        let dims = names[..most + 1].join(", ");
        let text = format!("A[{dims}] * B[{dims}] -> C[{dims}]");
        let product = Product::new(&text, &mesh, &sizes, DType::F32).expect("a product");
        let (dims, over) = (most + 1, if axes == 1 { "1 axis".to_owned() } else { format!("{axes} axes") });
        let expected = format!(
            "{dims} dimensions over {over} of more than one rank; plans are then sought over at most {most} \
             dimensions: join those that lie alike{}",
            if axes == 1 { "" } else { ", or join axes" }
        );
        assert_eq!(said(product.plan(&linked)), expected);
        let array = product.out();
        assert_eq!(said(reshard(array, array, DType::F32, &linked)), expected);
    }
}

#[test]
fn arrays_that_are_not_one_and_sums_to_open_are_refused() {
    let parse = |text| Sharded::parse(text, &mesh(), &SIZES).expect("a type");
    let move_to = |to| said(reshard(&parse("A[I, J]"), &parse(to), DType::F32, &machine(1 << 30)));
    assert_eq!(
        move_to("A[I, K]"),
        "`A[I, J]` and `A[I, K]` are not one array on one mesh; name, dimensions, sizes and mesh must agree"
    );
    assert_eq!(
        move_to("A[I, J] {U_X}"),
        "`A[I, J] {U_X}` is no type to bring `A[I, J]` to: sums that are complete stay so; drop the open ones"
    );
}
