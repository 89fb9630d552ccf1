//! Invalid problems: each error states the mistake and a valid form, and nothing else is printed.

use super::COMMAND_LINE;
use super::{file, switches};
use expect_test::expect;
use polyshard_testing::start::{Ended, Start};

#[test]
fn placements_that_cannot_be_are_told_what_would_fit() {
    COMMAND_LINE.refuses(
        &[],
        expect![[r#"
            placement --hierarchy 4,16 --mesh 8x2x3
                error: the axes [8, 2, 3] make 48 ranks, but the hierarchy [4, 16] has 64 devices; 4 for axis 2 would fit
            placement --hierarchy 4,16 --mesh 0x4
                error: the mesh `0x4`: mesh axis `0` has extent 0; an axis has at least one coordinate
            placement --hierarchy 4,0 --mesh 4
                error: level 1 has size 0; give 1 or more
            placement --hierarchy 4,x --mesh 4
                error: cannot read `x` in the hierarchy `4,x`; write whole numbers, such as 4,16
            placement --hierarchy 4,16 --mesh ''
                error: cannot read the mesh ``; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            placement --hierarchy 4,16 --mesh 4,16
                error: cannot read the mesh `4,16`; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            placement --hierarchy 4,16 --mesh=-4
                error: cannot read the mesh `-4`; write the extent of each axis, such as 4x6, or names too, such as x=4,y=6
            placement --mesh 4x16
                error: no machine to place the mesh on; give `--machine a100` or a file, or its levels alone, as `--hierarchy 4,16`
            placement --hierarchy 4,16 --mesh 4x16 --traffic allreduce:0:1
                error: no machine to time the traffic on; give `--machine a100` or a file
            placement --hierarchy 20000000000000000000 --mesh 4
                error: `20000000000000000000` in the hierarchy `20000000000000000000` does not fit in 64 bits; give a smaller number
            placement --hierarchy 4294967296,4294967296 --mesh 4
                error: the product of the levels [4294967296, 4294967296] does not fit in 64 bits; give smaller ones
            placement --hierarchy 2097152 --mesh 2097152
                error: the hierarchy [2097152] has 2097152 devices; give at most 1048576
            placement --hierarchy 4 --mesh 1x1x1x1x1x1x1x1x4
                error: `--mesh` has 9 axes; give at most 8, and leave out those of extent 1
            placement --hierarchy 8,8,8,8,8,8 --mesh 8x8x8x8x8x8
                error: there are 20933840 placements of the axes [8, 8, 8, 8, 8, 8] on [8, 8, 8, 8, 8, 8], but at most 100000 can be listed; join axes or levels
            placement --hierarchy 4 --mesh 4 --top 0
                error: `--top 0` lists nothing; give 1 or more
        "#]],
    );
}

#[test]
fn machines_that_are_none_are_told_which_there_are() {
    COMMAND_LINE.refuses(
        &[],
        expect![[r#"
            placement --mesh 64 --machine b100
                error: no machine `b100`; the presets are a100, v100, tpu-v4p, tpu-v5e, tpu-v5p; a machine of your own is a file, such as machine.toml
            placement --mesh 64 --machine none.toml
                error: cannot read `none.toml`: No such file or directory (os error 2)
            placement --mesh 64 --machine a100 --hierarchy 64
                error: [64] gives 1 count for 2 levels; give one for each of node, gpu
            placement --mesh 64 --machine tpu-v5e --hierarchy 4,4,2,2
                error: tpu-v5e is a torus of 2 dimensions, but [4, 4, 2, 2] has 4; join some
            placement --mesh 64 --machine a100 --hierarchy 0,16
                error: level `node`: `count` is 0; a level has at least one member
            placement --mesh 64 --machine a100 --hierarchy 1024,16
                error: a100: 1024 nodes x 16 gpus has 16384 devices; times are simulated for at most 4096
            placement --mesh 64 --machine a100 --bandwidth rack=1e9
                error: no level `rack`; the levels are node, gpu
            placement --mesh 64 --machine a100 --bandwidth 1e9
                error: cannot read the bandwidth `1e9`; write a level and its bytes per second, such as node=8e9
            placement --mesh 64 --machine a100 --bandwidth gpu=0
                error: level `gpu`: `bandwidth` is 0 bytes/s; give more than 0
        "#]],
    );
    let odd = file("odd_machine", &switches(&[("node", 64)]).replace("latency", "delay"));
    let Ended { success, stderr, .. } =
        COMMAND_LINE.run(Start::Plain, &["placement", "--mesh", "64", "--machine", &odd]);
    assert!(!success && stderr.starts_with(&format!("error: `{odd}`: cannot read the machine: ")), "{stderr}");
    assert!(stderr.contains("unknown field `delay`"), "{stderr}");
}

#[test]
fn traffic_that_is_none_is_refused() {
    let deep = file("deep_machine", &switches(&["a", "b", "c", "d", "e", "f"].map(|name| (name, 2))));
    COMMAND_LINE.refuses(
        &[("deep", &deep)],
        expect![[r#"
            placement --machine a100 --mesh 4x16 --traffic allreduce
                error: cannot read the traffic `allreduce`; write operation, axes and bytes per rank, such as all-reduce:0,2:1e9
            placement --machine a100 --mesh 4x16 --traffic allreduce:x:1e9
                error: no axis `x` in the traffic `allreduce:x:1e9`; the axes are 0, 1
            placement --machine a100 --mesh 4x16 --traffic 'allreduce:0 1:1e9'
                error: cannot read the traffic `allreduce:0 1:1e9`; write operation, axes and bytes per rank, such as all-reduce:0,2:1e9
            placement --machine a100 --mesh 4x16 --traffic allreduce:0:much
                error: cannot read the traffic `allreduce:0:much`; write operation, axes and bytes per rank, such as all-reduce:0,2:1e9
            placement --machine a100 --mesh 4x16 --traffic scan:0:1
                error: no operation `scan` in the traffic `scan:0:1`; there are all-reduce, reduce-scatter, all-gather, reduce, broadcast, all-to-all
            placement --machine a100 --mesh 4x16 --traffic allreduce:2:1e9
                error: no axis 2; the matrix [[1 4] [4 4]] has 2 axes, numbered from 0
            placement --machine a100 --mesh 4x16 --traffic all-to-all:1,1:1e9
                error: axis 1 is named twice; name each axis once
            placement --machine a100 --mesh 4x16 --traffic all-to-all:1:-1
                error: an amount of data must be 0 bytes or more, found -1
            placement --machine a100 --mesh 4x16 --traffic all-gather:1:1e999
                error: an amount of data must be 0 bytes or more, found inf
            placement --machine {deep} --mesh 64 --traffic allreduce:0:1e9
                error: there are too many programs of 5 steps over 6 levels to search; give `--max-steps 1` or less
        "#]],
    );
}

#[test]
fn reductions_that_cannot_be_are_refused() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let deeper = file("deeper_machine", &switches(&names.map(|name| (name, 2))));
    COMMAND_LINE.refuses(
        &[("deeper", &deeper)],
        expect![[r#"
            reduce --matrix [[1,4],[4,4]] --reduce 2 --machine a100 --bytes 1e9
                error: no axis 2; the matrix [[1 4] [4 4]] has 2 axes, numbered from 0
            reduce --matrix [[1,4],[4,4]] --reduce 0,0 --machine a100 --bytes 1e9
                error: axis 0 is named twice; name each axis once
            reduce --matrix [[1,4],[4,4]] --reduce x --machine a100 --bytes 1e9
                error: cannot read `x` in the axes to reduce `x`; write whole numbers, such as 0,2
            reduce --matrix [[1,4] --reduce 0 --machine a100 --bytes 1e9
                error: cannot read the matrix `[[1,4]`; write a row for each axis, such as [[1,4],[4,4]]
            reduce --matrix [1,4] --reduce 0 --machine a100 --bytes 1e9
                error: cannot read the matrix `[1,4]`; write a row for each axis, such as [[1,4],[4,4]]
            reduce --matrix [[1,4],[4]] --reduce 0 --machine a100 --bytes 1e9
                error: the matrix `[[1,4],[4]]`: row 1 has 1 factor and row 0 has 2; give each axis one factor per level
            reduce --matrix [[0,4]] --reduce 0 --machine a100 --bytes 1e9
                error: the matrix `[[0,4]]`: axis 0 has size 0; give 1 or more
            reduce --matrix [] --reduce 0 --machine a100 --bytes 1e9
                error: the matrix `[]`: no axis to place; give at least one
            reduce --matrix [[4294967296,4294967296]] --reduce 0 --machine a100 --bytes 1e9
                error: the matrix `[[4294967296,4294967296]]`: the product of the axes [4294967296, 4294967296] does not fit in 64 bits; give smaller ones
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes 1e9 --hierarchy 2,16
                error: the matrix [[1 4] [4 4]] is for the hierarchy [4, 16], not for [2, 16]; the axes [4, 16] make 64 ranks, but the hierarchy [2, 16] has 32 devices; 2 for axis 0 or 8 for axis 1 would fit
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes 1e9 --hierarchy 32,2
                error: the matrix [[1 4] [4 4]] is for the hierarchy [4, 16], not for [32, 2]; [[2 2] [16 1]] or [[4 1] [8 2]] would fit
            reduce --matrix [[16],[16]] --reduce 0 --machine a100 --bytes 1e9 --hierarchy 4,4,4,4
                error: the matrix [[16] [16]] is for the hierarchy [256], not for [4, 4, 4, 4]; 19 other matrices fit; `polyshard placement` lists them
            reduce --matrix [[4],[16]] --reduce 0 --machine a100 --bytes 1e9
                error: [64] gives 1 count for 2 levels; give one for each of node, gpu
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes much
                error: cannot read `much` as bytes; write a number, such as 1e9
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes -1
                error: an amount of data must be 0 bytes or more, found -1
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes 1e999
                error: an amount of data must be 0 bytes or more, found inf
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes 1e9 --max-steps 0
                error: a reduction takes at least one step; give `--max-steps 1` or more
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes 1e9 --max-steps 17
                error: there are too many programs of 17 steps over 1 level to search; give `--max-steps 16` or less
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes 1e9 --program AllToAll
                error: no program `AllToAll`; there are AllReduce, ReduceScatter-AllGather, Reduce-Broadcast
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes 1e9 --program 4
                error: no program 4; the programs are 1 to 3
            reduce --matrix [[1,4],[4,4]] --reduce 0 --machine a100 --bytes 1e9 --program 0
                error: no program 0; the programs are 1 to 3
            reduce --matrix [[1,4],[4,4]] --reduce 0 --bytes 1
                error: no machine to time programs on; give `--machine a100` or a file
            reduce --matrix [[2,2,2,2,2,2,2,2,2]] --reduce 0 --machine {deeper} --bytes 1
                error: reductions are searched over at most 8 levels, but this one crosses 9; join some of them
        "#]],
    );
}

#[test]
fn products_that_cannot_be_are_refused() {
    let small = "[device]\nmemory_bandwidth = 1e10\nmemory_capacity = 1000\nflops = { bf16 = 1e12 }\n";
    let level = "count = 4\ninterconnect = \"switch\"\nbandwidth = 1e9\nlatency = 1e-6\n";
    let levels = ["x", "y"].map(|name| format!("[[level]]\nname = \"{name}\"\n{level}")).concat();
    let small = file("small_machine", &format!("name = \"small\"\n{small}{levels}"));
    let flat =
        file("flat_machine", &switches(&[("core", 64)]).replace("[device]\n", "[device]\nflops = { bf16 = 1e12 }\n"));
    COMMAND_LINE.refuses(
        &[("small", &small), ("flat", &flat)],
        expect![[r#"
            matmul 'A[I] * B[I]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine tpu-v5e
                error: cannot read `A[I] * B[I]`: no `->` before the result; write `A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]`
            matmul 'A[I_X,J_X] * B[J,K] -> C[I,K]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine tpu-v5e
                error: in `A[I_X,J_X]`: axis `X` partitions dimensions 0 and 1; an axis partitions one dimension, once
            matmul 'A[I_Z,J] * B[J,K] -> C[I,K]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine tpu-v5e
                error: in `A[I_Z,J]`: dimension 0: no axis `Z`; the mesh is (X: 4, Y: 4)
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64 --machine tpu-v5e
                error: in `B[J_X,K_Y]`: dimension `K` has no size; give one, as `K=64`
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64,L=2 --machine tpu-v5e
                error: dimension `L` has a size but is in no array; the dimensions are I, J, K
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=20000000000000000000,J=64,K=64 --machine tpu-v5e
                error: `I=20000000000000000000` in the size `I=20000000000000000000,J=64,K=64` does not fit in 64 bits; give a smaller number
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=4611686018427387904,J=4,K=64 --machine tpu-v5e
                error: in `A[I_X,J]`: the array has 2^63 elements or more
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,X=4 --size I=64,J=64,K=64 --machine tpu-v5e
                error: the mesh `X=4,X=4`: mesh has two axes named `X`; give each axis its own name
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine tpu-v5e --type f16
                error: no element type `f16`; the types are i8, bf16, f32, f64, i32, i64
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine tpu-v5e --search left
                error: the search shards `A[I_X, J]`, but it has axes; write `A[I, J]`, or keep its sharding fixed
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64,I=4 --machine tpu-v5e
                error: two sizes are given for dimension `I`; give one
            matmul 'A[I_X,J] * B[K] -> C[I,K]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine tpu-v5e
                error: dimension `J` is only in `A[I_X, J]`; a dimension of a product is in two arrays or in all three
            matmul 'A[I,J] {U_X} * B[J,K] -> C[I,K]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine tpu-v5e
                error: `A[I, J] {U_X}` is a factor with unreduced sums; reduce it first
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine {small}
                error: no sequence fits into 1000 bytes per device: `all_gather(X) B; A * B`, the smallest, takes 5120; use more devices or smaller sizes, or `--search` for other shardings
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine {small} --type f64
                error: small has no operations per second for f64, only for bf16; add `f64` to its `flops`
            matmul 'A[I,J] * B[J,K] -> C[I,K]' --mesh a=2,b=2,c=2,d=2,e=2,f=2 --size I=64,J=64,K=64 --machine {flat} --matrix [[2],[2],[2],[2],[2],[2]]
                error: 3 dimensions over 6 axes of more than one rank have more than 8000 layouts; join axes with equal links, or dimensions with equal shardings
        "#]],
    );
}

#[test]
fn machines_that_do_not_hold_the_mesh_are_refused() {
    COMMAND_LINE.refuses(
        &[],
        expect![[r#"
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine b100
                error: no machine `b100`; the presets are a100, v100, tpu-v4p, tpu-v5e, tpu-v5p; a machine of your own is a file, such as machine.toml
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine a100
                error: no placement of the mesh on a100: 4 nodes x 16 gpus; give `--matrix`, a machine with a level for each axis, or one of tpu-v4p, tpu-v5e, tpu-v5p
            matmul 'A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]' --mesh X=4,Y=4 --size I=64,J=64,K=64 --machine a100 --matrix [[2,4],[2,4]]
                error: the mesh (X: 4, Y: 4) cannot be placed on `a100` by [[2 4] [2 4]]: its rows are for axes of [8, 8], but the mesh has [4, 4]; no matrix fits both; give the mesh axes that multiply to 64
            matmul 'A[I,J] * B[J,K] -> C[I,K]' --mesh X=2,Y=2,Z=2 --size I=8,J=8,K=8 --machine tpu-v5e
                error: tpu-v5e is a torus of 2 dimensions, but [2, 2, 2] has 3; join some
        "#]],
    );
}

#[test]
fn runs_and_pictures_that_are_too_large_are_refused() {
    COMMAND_LINE.refuses(
        &[],
        expect![[r#"
            reduce --reduce 0 --machine a100 --bytes 1 --top 1 --matrix [[8,16]] --run
                error: `--run` starts a thread per rank, at most 64, but the machine has 128 ranks; run a smaller one
            reduce --reduce 0 --machine a100 --bytes 1 --top 1 --matrix [[128,16]] --draw never.svg --program AllReduce
                error: `--draw`: room for at most 20000 devices, 1024 in a panel, but this is 1 x 2048; draw fewer
            reduce --reduce 0 --machine a100 --bytes 1 --top 1 --matrix [[2,2]] --draw /none/such
                error: cannot write `/none/such`: the folder `/none` does not exist; create it first
            matmul 'A[I_X,J] * B[J,K] -> C[I_X,K]' --machine tpu-v5p --run --mesh X=65 --size I=65,J=4,K=4
                error: `--run` starts a thread per rank, at most 64, but the mesh has 65 ranks; run a smaller one
            matmul 'A[I_X,J] * B[J,K] -> C[I_X,K]' --machine tpu-v5p --run --mesh X=4 --size I=1024,J=1024,K=1024
                error: `--run` checks 1 GFLOP one by one, but the product has 2.15 GFLOP; run a smaller one
        "#]],
    );
    let sum = ["reduce", "--reduce", "0", "--machine", "a100", "--bytes", "1", "--top", "1"];
    let ended = COMMAND_LINE
        .run(Start::Plain, &[&sum[..], &["--matrix", "[[2,2]]", "--run", "--elements", "1000000000000"]].concat());
    let (before, after) = ended.stderr.split_once(", but ").expect("what is free");
    assert_eq!(before, "error: `--run` holds the arrays of all ranks, up to 128000000000000 bytes");
    assert!(!ended.success && after.ends_with(" bytes are free; run a smaller array\n"), "{after}");
}
