//! Invalid problems: each error states the mistake, and nothing else is printed.

use super::{COMMAND_LINE, redistribute};
use expect_test::expect;

#[test]
fn meshes_and_links_that_are_none_are_refused() {
    COMMAND_LINE.refuses(
        &[],
        expect![[r#"
            redistribute --mesh x4 [8] [8]
                error: cannot read the mesh `x4`; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            redistribute --mesh x=4, [8] [8]
                error: cannot read `` in the mesh `x=4,`; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            redistribute --mesh x=4,6 [8] [8]
                error: cannot read `6` in the mesh `x=4,6`; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            redistribute --mesh x=four [8] [8]
                error: cannot read `x=four` in the mesh `x=four`; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            redistribute --mesh 2=4 [8] [8]
                error: cannot read `2=4` in the mesh `2=4`; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            redistribute --mesh '' [8] [8]
                error: cannot read the mesh ``; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            redistribute --mesh 2x2x2x2 [8] [8]
                error: the mesh `2x2x2x2` has 4 axes without names; name them, as in a0=2,a1=2,a2=2,a3=2
            redistribute --mesh 4x0 [8] [8]
                error: the mesh `4x0`: mesh axis `y` has extent 0; an axis has at least one coordinate
            redistribute --mesh x=4,x=2 [8] [8]
                error: the mesh `x=4,x=2`: mesh has two axes named `x`; give each axis its own name
            redistribute --mesh x=4,y=0 [8] [8]
                error: the mesh `x=4,y=0`: mesh axis `y` has extent 0; an axis has at least one coordinate
            redistribute --mesh x=2048,y=2048 [8] [8]
                error: the mesh has more than 1048576 ranks; plan on a smaller one
            redistribute --mesh x=4294967296,y=4294967296 [8] [8]
                error: the mesh `x=4294967296,y=4294967296` has more than 2147483647 ranks; give a smaller one
            redistribute --mesh x=99999999999999999999 [8] [8]
                error: `x=99999999999999999999` in the mesh `x=99999999999999999999` does not fit in 64 bits; give a smaller number
            redistribute --mesh x=4,y=2 [2{x}8] [8] --bandwidth x=1e9
                error: no bandwidth is given for axis `y`; add one, or a plain number for all other axes
            redistribute --mesh x=4,y=2 [2{x}8] [8] --bandwidth 1e9,z=1
                error: no axis `z` to give a bandwidth; the mesh is (x: 4, y: 2)
            redistribute --mesh x=4,y=2 [2{x}8] [8] --bandwidth 1,2
                error: two bandwidths are given for all other axes; give one
            redistribute --mesh x=4,y=2 [2{x}8] [8] --bandwidth x=1,x=2,3
                error: two bandwidths are given for x; give one
            redistribute --mesh x=4,y=2 [2{x}8] [8] --bandwidth -1
                error: level `x`: `bandwidth` is -1 bytes/s; give more than 0
            redistribute --mesh x=4,y=2 [2{x}8] [8] --bandwidth 1 --latency -1
                error: level `x`: `latency` is -1 s; give 0 or more
            redistribute --mesh x=4,y=2 [2{x}8] [8] --bandwidth fast
                error: cannot read `fast` in the bandwidth `fast`; write bytes per second, such as x=1e9,1e10
        "#]],
    );
}

#[test]
fn types_that_break_a_rule_are_refused_with_the_dimension() {
    COMMAND_LINE.refuses(
        &[],
        expect![[r#"
            redistribute --mesh x=4,y=6 '[12, 12]' '[12, 3{z}12]'
                error: [12, 3{z}12]: dimension 1: no axis `z`; the mesh is (x: 4, y: 6)
            redistribute --mesh x=4,y=6 '[12, 12]' '[3{x}12, 3{x}12]'
                error: [3{x}12, 3{x}12]: axis `x` partitions dimensions 0 and 1; an axis partitions one dimension, once
            redistribute --mesh x=4,y=6 '[12, 12]' '[12, 4{x}12]'
                error: [12, 4{x}12]: dimension 1: tiles of 4 in 4 pieces make 16, not 12; write tiles of 3
            redistribute --mesh x=4,y=6 '[12, 12]' '[12, 2{x,y}12]'
                error: [12, 2{x,y}12]: dimension 1: tiles of 2 in 24 pieces make 48, not 12
            redistribute --mesh x=4,y=6 '[12, 12]' 12
                error: cannot read `12` at column 1: a type begins with `[`, as in `[3{x}12, 8]`
            redistribute --mesh x=4,y=6 '[12, 12]' '[12, 13]'
                error: the source [12, 12] has shape [12, 12], but the target [12, 13] has [12, 13]; a redistribution keeps the shape
            redistribute --mesh x=4,y=6 '[12, 12]' [144]
                error: the source [12, 12] has shape [12, 12], but the target [144] has [144]; a redistribution keeps the shape
        "#]],
    );
}

#[test]
fn names_and_sizes_that_do_not_fit_are_refused() {
    COMMAND_LINE.refuses(
        &[],
        expect![[r#"
            redistribute --mesh X=4 'A[I_X, J]' 'A[I, J]'
                error: `I` of A[I_X, J] has no size; give one for each dimension, as `--size I=8,J=16`
            redistribute --mesh X=4 'A[I_X, J]' 'A[I, J]' --size I=8
                error: `J` of A[I_X, J] has no size; give one for each dimension, as `--size I=8,J=16`
            redistribute --mesh X=4 'A[I_X, J]' 'A[I, J]' --size I=8,J=8,K=8
                error: a size is given for `K`, which is not a dimension; the dimensions are I, J
            redistribute --mesh X=4 'A[I_X, J]' 'A[I, J]' --size I=8,J=8,I=8
                error: two sizes are given for `I`; give one
            redistribute --mesh X=4 [8] [8] --size I=8
                error: a size is given for `I`, but the shardings state their sizes; leave it out
            redistribute --mesh X=4 'A[I_X, J]' 'B[I, J]' --size I=8,J=8
                error: the source A[I_X, J] and the target B[I, J] are not the same array; give both the same name, and the same dimensions in the same order
            redistribute --mesh X=4 'A[I_X, J]' 'A[J, I]' --size I=8,J=8
                error: the source A[I_X, J] and the target A[J, I] are not the same array; give both the same name, and the same dimensions in the same order
            redistribute --mesh X=4 'A[I_X, J]' A[I] --size I=8,J=8
                error: the source A[I_X, J] and the target A[I] are not the same array; give both the same name, and the same dimensions in the same order
            redistribute --mesh X=4 'A[I_X, J]' 'A[I, J_Z]'
                error: A[I, J_Z]: dimension 1: no axis `Z`; the mesh is (X: 4)
            redistribute --mesh X=4 'A[I_X, J]' 'A[I, J]' --size 8,8
                error: cannot read `8` in the size `8,8`; write names and whole numbers, such as I=8,J=16
        "#]],
    );
}

#[test]
fn what_is_too_large_or_not_there_is_refused() {
    COMMAND_LINE.refuses(
        &[],
        expect![[r#"
            redistribute --mesh x=4 [2{x}8] [8] --memory 63
                error: no plan fits into 63 bytes per device: the source tile takes 16 and the target tile 64; allow at least 64
            redistribute --mesh x=257 '[257, 1{x}257]' '[1{x}257, 257]' --run
                error: `--run` starts a thread per rank, at most 256, but the mesh has 257 ranks; run a smaller one
            redistribute --mesh x=513 [1{x}513] [513] --draw never.svg
                error: `--draw`: room for at most 512 ranks, but the mesh has 513; draw a smaller mesh
            redistribute --batch /none/such
                error: cannot open `/none/such`: No such file or directory (os error 2)
            redistribute --mesh x=4 [2{x}8] [8] --draw /none/such
                error: cannot write `/none/such`: the folder `/none` does not exist; create it first
        "#]],
    );
    let ended =
        redistribute(&["--mesh", "x=2", "[1073741824{x}2147483648, 1024]", "[2147483648, 512{x}1024]", "--run"]);
    let (before, after) = ended.stderr.split_once(", but ").expect("what is free");
    assert_eq!(before, "error: `--run` holds the tiles of all ranks, up to 70368744177664 bytes");
    assert!(!ended.success && after.ends_with(" bytes are free; run a smaller array\n"), "{after}");
}
