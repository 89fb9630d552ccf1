//! Invalid problems: each error states the mistake, and nothing else is printed.

use super::{redistribute, refused};

#[test]
fn meshes_that_are_none_are_refused() {
    let on = |mesh: &str, message: &str| refused(&["--mesh", mesh, "[8]", "[8]"], message);
    let like = "write the extent of each axis, such as 4x6, or names too, such as x=4,y=6";
    on("x4", &format!("cannot read the mesh `x4`; {like}"));
    on("x=4,", &format!("cannot read `` in the mesh `x=4,`; {like}"));
    on("x=4,6", &format!("cannot read `6` in the mesh `x=4,6`; {like}"));
    on("x=four", &format!("cannot read `x=four` in the mesh `x=four`; {like}"));
    on("2=4", &format!("cannot read `2=4` in the mesh `2=4`; {like}"));
    on("", &format!("cannot read the mesh ``; {like}"));
    let names = "name them, as in a0=2,a1=2,a2=2,a3=2";
    on("2x2x2x2", &format!("the mesh `2x2x2x2` has 4 axes without names; {names}"));
    on("4x0", "the mesh `4x0`: mesh axis `y` has extent 0; an axis has at least one coordinate");
    on("x=4,x=2", "the mesh `x=4,x=2`: mesh has two axes named `x`; give each axis its own name");
    on("x=4,y=0", "the mesh `x=4,y=0`: mesh axis `y` has extent 0; an axis has at least one coordinate");
    on("x=2048,y=2048", "the mesh has more than 1048576 ranks; plan on a smaller one");
    let many = "x=4294967296,y=4294967296";
    on(many, &format!("the mesh `{many}` has more than 2147483647 ranks; give a smaller one"));
    let digits = "x=99999999999999999999";
    on(digits, &format!("`{digits}` in the mesh `{digits}` does not fit in 64 bits; give a smaller number"));
}

#[test]
fn types_that_break_a_rule_are_refused_with_the_dimension() {
    let to = |target: &str, message: &str| refused(&["--mesh", "x=4,y=6", "[12, 12]", target], message);
    to("[12, 3{z}12]", "[12, 3{z}12]: dimension 1: no axis `z`; the mesh is (x: 4, y: 6)");
    let twice = "axis `x` partitions dimensions 0 and 1; an axis partitions one dimension, once";
    to("[3{x}12, 3{x}12]", &format!("[3{{x}}12, 3{{x}}12]: {twice}"));
    let tiles = "dimension 1: tiles of 4 in 4 pieces make 16, not 12; write tiles of 3";
    to("[12, 4{x}12]", &format!("[12, 4{{x}}12]: {tiles}"));
    to("[12, 2{x,y}12]", "[12, 2{x,y}12]: dimension 1: tiles of 2 in 24 pieces make 48, not 12");
    to("12", "cannot read `12` at column 1: a type begins with `[`, as in `[3{x}12, 8]`");
    let shapes = "a redistribution keeps the shape";
    to("[12, 13]", &format!("the source [12, 12] has shape [12, 12], but the target [12, 13] has [12, 13]; {shapes}"));
    to("[144]", &format!("the source [12, 12] has shape [12, 12], but the target [144] has [144]; {shapes}"));
}

#[test]
fn names_and_sizes_that_do_not_fit_are_refused() {
    let named = |source: &str, target: &str, flags: &[&str], message: &str| {
        refused(&[&["--mesh", "X=4", source, target], flags].concat(), message);
    };
    let from = "A[I_X, J]";
    let cure = "give one for each dimension, as `--size I=8,J=16`";
    named(from, "A[I, J]", &[], &format!("`I` of A[I_X, J] has no size; {cure}"));
    named(from, "A[I, J]", &["--size", "I=8"], &format!("`J` of A[I_X, J] has no size; {cure}"));
    let unknown = "a size is given for `K`, which is not a dimension; the dimensions are I, J";
    named(from, "A[I, J]", &["--size", "I=8,J=8,K=8"], unknown);
    named(from, "A[I, J]", &["--size", "I=8,J=8,I=8"], "two sizes are given for `I`; give one");
    let left = "a size is given for `I`, but the shardings state their sizes; leave it out";
    named("[8]", "[8]", &["--size", "I=8"], left);
    let same = "give both the same name, and the same dimensions in the same order";
    for target in ["B[I, J]", "A[J, I]", "A[I]"] {
        let message = format!("the source A[I_X, J] and the target {target} are not the same array; {same}");
        named(from, target, &["--size", "I=8,J=8"], &message);
    }
    named(from, "A[I, J_Z]", &[], "A[I, J_Z]: dimension 1: no axis `Z`; the mesh is (X: 4)");
    let like = "write names and whole numbers, such as I=8,J=16";
    named(from, "A[I, J]", &["--size", "8,8"], &format!("cannot read `8` in the size `8,8`; {like}"));
}

#[test]
fn bounds_that_nothing_fits_into_are_refused() {
    let message = "no plan fits into 63 bytes per device: the source tile takes 16 and the target tile 64; allow at \
                   least 64";
    refused(&["--mesh", "x=4", "[2{x}8]", "[8]", "--memory", "63"], message);
}

#[test]
fn links_that_are_none_are_refused() {
    let with = |flags: &[&str], message: &str| {
        refused(&[&["--mesh", "x=4,y=2", "[2{x}8]", "[8]"], flags].concat(), message);
    };
    let missing = "no bandwidth is given for axis `y`; add one, or a plain number for all other axes";
    with(&["--bandwidth", "x=1e9"], missing);
    with(&["--bandwidth", "1e9,z=1"], "no axis `z` to give a bandwidth; the mesh is (x: 4, y: 2)");
    with(&["--bandwidth", "1,2"], "two bandwidths are given for all other axes; give one");
    with(&["--bandwidth", "x=1,x=2,3"], "two bandwidths are given for x; give one");
    with(&["--bandwidth", "-1"], "level `x`: `bandwidth` is -1 bytes/s; give more than 0");
    with(&["--bandwidth", "1", "--latency", "-1"], "level `x`: `latency` is -1 s; give 0 or more");
    let text = "cannot read `fast` in the bandwidth `fast`; write bytes per second, such as x=1e9,1e10";
    with(&["--bandwidth", "fast"], text);
}

#[test]
fn more_ranks_than_threads_or_the_page_hold_are_refused() {
    let message = "`--run` starts a thread per rank, at most 256, but the mesh has 257 ranks; run a smaller one";
    refused(&["--mesh", "x=257", "[257, 1{x}257]", "[1{x}257, 257]", "--run"], message);
    let message = "`--draw`: room for at most 512 ranks, but the mesh has 513; draw a smaller mesh";
    refused(&["--mesh", "x=513", "[1{x}513]", "[513]", "--draw", "never.svg"], message);
}

#[test]
fn arrays_that_no_memory_holds_are_not_run() {
    let ended =
        redistribute(&["--mesh", "x=2", "[1073741824{x}2147483648, 1024]", "[2147483648, 512{x}1024]", "--run"]);
    let (before, after) = ended.stderr.split_once(", but ").expect("what is free");
    assert_eq!(before, "error: `--run` holds the tiles of all ranks, up to 70368744177664 bytes");
    assert!(!ended.success && after.ends_with(" bytes are free; run a smaller array\n"), "{after}");
}

#[test]
fn files_that_are_not_there_are_named() {
    let gone = "/none/such";
    refused(&["--batch", gone], &format!("cannot open `{gone}`: No such file or directory (os error 2)"));
    let why = "the folder `/none` does not exist; create it first";
    refused(&["--mesh", "x=4", "[2{x}8]", "[8]", "--draw", gone], &format!("cannot write `{gone}`: {why}"));
}
