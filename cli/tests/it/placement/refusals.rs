//! Invalid problems: each error states the mistake and a valid form, and nothing else is printed.

use super::COMMAND_LINE;
use super::{file, switches};
use polyshard_testing::start::{Ended, Start};

#[test]
fn placements_that_cannot_be_are_told_what_would_fit() {
    let place = |hierarchy: &str, axes: &str, message: &str| {
        COMMAND_LINE.refused(&["placement", "--hierarchy", hierarchy, "--mesh", axes], message);
    };
    let fits = "the axes [8, 2, 3] make 48 ranks, but the hierarchy [4, 16] has 64 devices; 4 for axis 2 would fit";
    place("4,16", "8x2x3", fits);
    place("4,16", "0x4", "the mesh `0x4`: mesh axis `0` has extent 0; an axis has at least one coordinate");
    place("4,0", "4", "level 1 has size 0; give 1 or more");
    place("4,x", "4", "cannot read `x` in the hierarchy `4,x`; write whole numbers, such as 4,16");
    let like = "write the extent of each axis, such as 4x6, or names too, such as x=4,y=6";
    place("4,16", "", &format!("cannot read the mesh ``; {like}"));
    place("4,16", "4,16", &format!("cannot read the mesh `4,16`; {like}"));
    COMMAND_LINE
        .refused(&["placement", "--hierarchy", "4,16", "--mesh=-4"], &format!("cannot read the mesh `-4`; {like}"));
    let alone = "no machine to place the mesh on; give `--machine a100` or a file, or its levels alone, as `--hierarchy \
                 4,16`";
    COMMAND_LINE.refused(&["placement", "--mesh", "4x16"], alone);
    let untimed = "no machine to time the traffic on; give `--machine a100` or a file";
    COMMAND_LINE
        .refused(&["placement", "--hierarchy", "4,16", "--mesh", "4x16", "--traffic", "allreduce:0:1"], untimed);
    let many = "20000000000000000000";
    let counted = format!("`{many}` in the hierarchy `{many}` does not fit in 64 bits; give a smaller number");
    place(many, "4", &counted);
    let levels = "the product of the levels [4294967296, 4294967296] does not fit in 64 bits; give smaller ones";
    place("4294967296,4294967296", "4", levels);
    place("2097152", "2097152", "the hierarchy [2097152] has 2097152 devices; give at most 1048576");
    let long = "`--mesh` has 9 axes; give at most 8, and leave out those of extent 1";
    place("4", "1x1x1x1x1x1x1x1x4", long);
    let all = "there are 20933840 placements of the axes [8, 8, 8, 8, 8, 8] on [8, 8, 8, 8, 8, 8], but at most 100000 can \
               be listed; join axes or levels";
    place("8,8,8,8,8,8", "8x8x8x8x8x8", all);
    let none = ["placement", "--hierarchy", "4", "--mesh", "4", "--top", "0"];
    COMMAND_LINE.refused(&none, "`--top 0` lists nothing; give 1 or more");
}

#[test]
fn machines_that_are_none_are_told_which_there_are() {
    let on = |flags: &[&str], message: &str| {
        COMMAND_LINE.refused(&[&["placement", "--mesh", "64"], flags].concat(), message)
    };
    let presets = "the presets are a100, v100, tpu-v4p, tpu-v5e, tpu-v5p; a machine of your own is a file, such as \
                   machine.toml";
    on(&["--machine", "b100"], &format!("no machine `b100`; {presets}"));
    on(&["--machine", "none.toml"], "cannot read `none.toml`: No such file or directory (os error 2)");
    on(&["--machine", "a100", "--hierarchy", "64"], "[64] gives 1 count for 2 levels; give one for each of node, gpu");
    let cube = "tpu-v5e is a torus of 2 dimensions, but [4, 4, 2, 2] has 4; join some";
    on(&["--machine", "tpu-v5e", "--hierarchy", "4,4,2,2"], cube);
    on(&["--machine", "a100", "--hierarchy", "0,16"], "level `node`: `count` is 0; a level has at least one member");
    let large = "a100: 1024 nodes x 16 gpus has 16384 devices; times are simulated for at most 4096";
    on(&["--machine", "a100", "--hierarchy", "1024,16"], large);
    on(&["--machine", "a100", "--bandwidth", "rack=1e9"], "no level `rack`; the levels are node, gpu");
    let bandwidth = "cannot read the bandwidth `1e9`; write a level and its bytes per second, such as node=8e9";
    on(&["--machine", "a100", "--bandwidth", "1e9"], bandwidth);
    let none = "level `gpu`: `bandwidth` is 0 bytes/s; give more than 0";
    on(&["--machine", "a100", "--bandwidth", "gpu=0"], none);
    let odd = file("odd_machine", &switches(&[("node", 64)]).replace("latency", "delay"));
    let Ended { success, stderr, .. } =
        COMMAND_LINE.run(Start::Plain, &["placement", "--mesh", "64", "--machine", &odd]);
    assert!(!success && stderr.starts_with(&format!("error: `{odd}`: cannot read the machine: ")), "{stderr}");
    assert!(stderr.contains("unknown field `delay`"), "{stderr}");
}

#[test]
fn traffic_that_is_none_is_refused() {
    let with = |traffic: &str, message: &str| {
        COMMAND_LINE.refused(&["placement", "--machine", "a100", "--mesh", "4x16", "--traffic", traffic], message);
    };
    let like = "write operation, axes and bytes per rank, such as all-reduce:0,2:1e9";
    with("allreduce", &format!("cannot read the traffic `allreduce`; {like}"));
    with("allreduce:x:1e9", "no axis `x` in the traffic `allreduce:x:1e9`; the axes are 0, 1");
    with("allreduce:0 1:1e9", &format!("cannot read the traffic `allreduce:0 1:1e9`; {like}"));
    with("allreduce:0:much", &format!("cannot read the traffic `allreduce:0:much`; {like}"));
    let there = "there are all-reduce, reduce-scatter, all-gather, reduce, broadcast, all-to-all";
    with("scan:0:1", &format!("no operation `scan` in the traffic `scan:0:1`; {there}"));
    with("allreduce:2:1e9", "no axis 2; the matrix [[1 4] [4 4]] has 2 axes, numbered from 0");
    with("all-to-all:1,1:1e9", "axis 1 is named twice; name each axis once");
    with("all-to-all:1:-1", "an amount of data must be 0 bytes or more, found -1");
    with("all-gather:1:1e999", "an amount of data must be 0 bytes or more, found inf");
    let deep = file("deep_machine", &switches(&["a", "b", "c", "d", "e", "f"].map(|name| (name, 2))));
    let sum = ["placement", "--machine", &deep, "--mesh", "64", "--traffic", "allreduce:0:1e9"];
    COMMAND_LINE
        .refused(&sum, "there are too many programs of 5 steps over 6 levels to search; give `--max-steps 1` or less");
}

#[test]
fn reductions_that_cannot_be_are_refused() {
    let sum = |matrix: &str, reduce: &str, flags: &[&str], message: &str| {
        let problem = ["reduce", "--matrix", matrix, "--reduce", reduce];
        let all = ["--machine", "a100", "--bytes", "1e9"];
        let given = |flag: &str| flags.contains(&flag);
        let rest: Vec<_> = all.chunks(2).filter(|pair| !given(pair[0])).flatten().copied().collect();
        COMMAND_LINE.refused(&[&problem[..], &rest, flags].concat(), message);
    };
    let matrix = "[[1,4],[4,4]]";
    sum(matrix, "2", &[], "no axis 2; the matrix [[1 4] [4 4]] has 2 axes, numbered from 0");
    sum(matrix, "0,0", &[], "axis 0 is named twice; name each axis once");
    sum(matrix, "x", &[], "cannot read `x` in the axes to reduce `x`; write whole numbers, such as 0,2");
    let like = "write a row for each axis, such as [[1,4],[4,4]]";
    sum("[[1,4]", "0", &[], &format!("cannot read the matrix `[[1,4]`; {like}"));
    sum("[1,4]", "0", &[], &format!("cannot read the matrix `[1,4]`; {like}"));
    let ragged = "row 1 has 1 factor and row 0 has 2; give each axis one factor per level";
    sum("[[1,4],[4]]", "0", &[], &format!("the matrix `[[1,4],[4]]`: {ragged}"));
    sum("[[0,4]]", "0", &[], "the matrix `[[0,4]]`: axis 0 has size 0; give 1 or more");
    sum("[]", "0", &[], "the matrix `[]`: no axis to place; give at least one");
    let most = "[[4294967296,4294967296]]";
    let large = "the product of the axes [4294967296, 4294967296] does not fit in 64 bits; give smaller ones";
    sum(most, "0", &[], &format!("the matrix `{most}`: {large}"));
    let other = "the matrix [[1 4] [4 4]] is for the hierarchy [4, 16], not for";
    let fits = "the axes [4, 16] make 64 ranks, but the hierarchy [2, 16] has 32 devices; 2 for axis 0 or 8 for axis 1 \
                would fit";
    sum(matrix, "0", &["--hierarchy", "2,16"], &format!("{other} [2, 16]; {fits}"));
    sum(matrix, "0", &["--hierarchy", "32,2"], &format!("{other} [32, 2]; [[2 2] [16 1]] or [[4 1] [8 2]] would fit"));
    let many = "19 other matrices fit; `polyshard placement` lists them";
    let other = "the matrix [[16] [16]] is for the hierarchy [256], not for";
    sum("[[16],[16]]", "0", &["--hierarchy", "4,4,4,4"], &format!("{other} [4, 4, 4, 4]; {many}"));
    let levels = "[64] gives 1 count for 2 levels; give one for each of node, gpu";
    sum("[[4],[16]]", "0", &[], levels);
    sum(matrix, "0", &["--bytes", "much"], "cannot read `much` as bytes; write a number, such as 1e9");
    sum(matrix, "0", &["--bytes", "-1"], "an amount of data must be 0 bytes or more, found -1");
    sum(matrix, "0", &["--bytes", "1e999"], "an amount of data must be 0 bytes or more, found inf");
    let steps = "a reduction takes at least one step; give `--max-steps 1` or more";
    sum(matrix, "0", &["--max-steps", "0"], steps);
    let many = "there are too many programs of 17 steps over 1 level to search; give `--max-steps 16` or less";
    sum(matrix, "0", &["--max-steps", "17"], many);
    let there = "there are AllReduce, ReduceScatter-AllGather, Reduce-Broadcast";
    sum(matrix, "0", &["--program", "AllToAll"], &format!("no program `AllToAll`; {there}"));
    sum(matrix, "0", &["--program", "4"], "no program 4; the programs are 1 to 3");
    sum(matrix, "0", &["--program", "0"], "no program 0; the programs are 1 to 3");
    let no_machine = "no machine to time programs on; give `--machine a100` or a file";
    COMMAND_LINE.refused(&["reduce", "--matrix", matrix, "--reduce", "0", "--bytes", "1"], no_machine);
}

#[test]
fn reductions_over_very_many_levels_are_not_sought() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let deep = file("deeper_machine", &switches(&names.map(|name| (name, 2))));
    let sum = ["reduce", "--matrix", "[[2,2,2,2,2,2,2,2,2]]", "--reduce", "0", "--machine", &deep, "--bytes", "1"];
    COMMAND_LINE
        .refused(&sum, "reductions are searched over at most 8 levels, but this one crosses 9; join some of them");
}

#[test]
fn products_that_cannot_be_are_refused() {
    let text = "A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]";
    let product = |text: &str, mesh: &str, size: &str, flags: &[&str], message: &str| {
        let machine: &[&str] = if flags.contains(&"--machine") { &[] } else { &["--machine", "tpu-v5e"] };
        COMMAND_LINE.refused(&[&["matmul", text, "--mesh", mesh, "--size", size], machine, flags].concat(), message);
    };
    let (mesh, sizes) = ("X=4,Y=4", "I=64,J=64,K=64");
    let like = "write `A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]`";
    product("A[I] * B[I]", mesh, sizes, &[], &format!("cannot read `A[I] * B[I]`: no `->` before the result; {like}"));
    let twice = "axis `X` partitions dimensions 0 and 1; an axis partitions one dimension, once";
    product("A[I_X,J_X] * B[J,K] -> C[I,K]", mesh, sizes, &[], &format!("in `A[I_X,J_X]`: {twice}"));
    let axis = "in `A[I_Z,J]`: dimension 0: no axis `Z`; the mesh is (X: 4, Y: 4)";
    product("A[I_Z,J] * B[J,K] -> C[I,K]", mesh, sizes, &[], axis);
    product(text, mesh, "I=64,J=64", &[], "in `B[J_X,K_Y]`: dimension `K` has no size; give one, as `K=64`");
    let unknown = "dimension `L` has a size but is in no array; the dimensions are I, J, K";
    product(text, mesh, "I=64,J=64,K=64,L=2", &[], unknown);
    let many = "I=20000000000000000000,J=64,K=64";
    let counted =
        format!("`I=20000000000000000000` in the size `{many}` does not fit in 64 bits; give a smaller number");
    product(text, mesh, many, &[], &counted);
    let elements = "in `A[I_X,J]`: the array has 2^63 elements or more";
    product(text, mesh, "I=4611686018427387904,J=4,K=64", &[], elements);
    product(
        text,
        "X=4,X=4",
        sizes,
        &[],
        "the mesh `X=4,X=4`: mesh has two axes named `X`; give each axis its own name",
    );
    product(text, mesh, sizes, &["--type", "f16"], "no element type `f16`; the types are i8, bf16, f32, f64, i32, i64");
    let free = "the search shards `A[I_X, J]`, but it has axes; write `A[I, J]`, or keep its \
                sharding fixed";
    product(text, mesh, sizes, &["--search", "left"], free);
    product(text, mesh, "I=64,J=64,K=64,I=4", &[], "two sizes are given for dimension `I`; give one");
    let alone = "dimension `J` is only in `A[I_X, J]`; a dimension of a product is in two arrays or in all three";
    product("A[I_X,J] * B[K] -> C[I,K]", mesh, sizes, &[], alone);
    let open = "`A[I, J] {U_X}` is a factor with unreduced sums; reduce it first";
    product("A[I,J] {U_X} * B[J,K] -> C[I,K]", mesh, sizes, &[], open);
    let small = "[device]\nmemory_bandwidth = 1e10\nmemory_capacity = 1000\nflops = { bf16 = 1e12 }\n";
    let level = "count = 4\ninterconnect = \"switch\"\nbandwidth = 1e9\nlatency = 1e-6\n";
    let levels = ["x", "y"].map(|name| format!("[[level]]\nname = \"{name}\"\n{level}")).concat();
    let small = file("small_machine", &format!("name = \"small\"\n{small}{levels}"));
    let memory = "no sequence fits into 1000 bytes per device: `all_gather(X) B; A * B`, the smallest, takes 5120; use more \
                  devices or smaller sizes, or `--search` for other shardings";
    product(text, mesh, sizes, &["--machine", &small], memory);
    let rate = "small has no operations per second for f64, only for bf16; add `f64` to its `flops`";
    product(text, mesh, sizes, &["--machine", &small, "--type", "f64"], rate);
    let many = "3 dimensions over 6 axes of more than one rank have more than 8000 layouts; join axes with equal links, or \
                dimensions with equal shardings";
    let matrix = "[[2],[2],[2],[2],[2],[2]]";
    let deep =
        file("flat_machine", &switches(&[("core", 64)]).replace("[device]\n", "[device]\nflops = { bf16 = 1e12 }\n"));
    let flags = ["--machine", &deep, "--matrix", matrix];
    product("A[I,J] * B[J,K] -> C[I,K]", "a=2,b=2,c=2,d=2,e=2,f=2", sizes, &flags, many);
}

#[test]
fn machines_that_do_not_hold_the_mesh_are_refused() {
    let with = |flags: &[&str], message: &str| {
        let text = "A[I_X,J] * B[J_X,K_Y] -> C[I_X,K_Y]";
        COMMAND_LINE
            .refused(&[&["matmul", text, "--mesh", "X=4,Y=4", "--size", "I=64,J=64,K=64"], flags].concat(), message);
    };
    let presets = "the presets are a100, v100, tpu-v4p, tpu-v5e, tpu-v5p; a machine of your own is a file, such as \
                   machine.toml";
    with(&["--machine", "b100"], &format!("no machine `b100`; {presets}"));
    let levels = "no placement of the mesh on a100: 4 nodes x 16 gpus; give `--matrix`, a machine with a level for each \
                  axis, or one of tpu-v4p, tpu-v5e, tpu-v5p";
    with(&["--machine", "a100"], levels);
    let mesh = "the mesh (X: 4, Y: 4) cannot be placed on `a100` by [[2 4] [2 4]]: its rows are for axes of [8, 8], \
                but the mesh has [4, 4]; no matrix fits both; give the mesh axes that multiply to 64";
    with(&["--machine", "a100", "--matrix", "[[2,4],[2,4]]"], mesh);
    let cube = ["matmul", "A[I,J] * B[J,K] -> C[I,K]", "--mesh", "X=2,Y=2,Z=2", "--size", "I=8,J=8,K=8"];
    let torus = "tpu-v5e is a torus of 2 dimensions, but [2, 2, 2] has 3; join some";
    COMMAND_LINE.refused(&[&cube[..], &["--machine", "tpu-v5e"]].concat(), torus);
}

#[test]
fn runs_and_pictures_that_are_too_large_are_refused() {
    let sum = ["reduce", "--reduce", "0", "--machine", "a100", "--bytes", "1", "--top", "1"];
    let threads = "`--run` starts a thread per rank, at most 64, but the machine has 128 ranks; run a smaller one";
    COMMAND_LINE.refused(&[&sum[..], &["--matrix", "[[8,16]]", "--run"]].concat(), threads);
    let room = "`--draw`: room for at most 20000 devices, 1024 in a panel, but this is 1 x 2048; draw fewer";
    COMMAND_LINE.refused(
        &[&sum[..], &["--matrix", "[[128,16]]", "--draw", "never.svg", "--program", "AllReduce"]].concat(),
        room,
    );
    let gone = ["--matrix", "[[2,2]]", "--draw", "/none/such"];
    let why = "the folder `/none` does not exist; create it first";
    COMMAND_LINE.refused(&[&sum[..], &gone].concat(), &format!("cannot write `/none/such`: {why}"));
    let ended = COMMAND_LINE
        .run(Start::Plain, &[&sum[..], &["--matrix", "[[2,2]]", "--run", "--elements", "1000000000000"]].concat());
    let (before, after) = ended.stderr.split_once(", but ").expect("what is free");
    assert_eq!(before, "error: `--run` holds the arrays of all ranks, up to 128000000000000 bytes");
    assert!(!ended.success && after.ends_with(" bytes are free; run a smaller array\n"), "{after}");
    let text = "A[I_X,J] * B[J,K] -> C[I_X,K]";
    let product = ["matmul", text, "--machine", "tpu-v5p", "--run", "--mesh"];
    let threads = "`--run` starts a thread per rank, at most 64, but the mesh has 65 ranks; run a smaller one";
    COMMAND_LINE.refused(&[&product[..], &["X=65", "--size", "I=65,J=4,K=4"]].concat(), threads);
    let flops = "`--run` checks 1 GFLOP one by one, but the product has 2.15 GFLOP; run a smaller one";
    COMMAND_LINE.refused(&[&product[..], &["X=4", "--size", "I=1024,J=1024,K=1024"]].concat(), flops);
}
