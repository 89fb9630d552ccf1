//! Command lines that make no sense.

use super::refused_everywhere;

#[test]
fn meshes_that_cannot_be_are_refused() {
    let message = "`summa` runs on a mesh of 2 axes, but `--mesh 2x2x2` has 3; give one like 2x2";
    refused_everywhere("summa --mesh 2x2x2", message);
    let message = "`ag_gemm` runs on a mesh of 1 axis, but `--mesh 2x2` has 2; give one like 4";
    refused_everywhere("ag_gemm --mesh 2x2", message);
    let message = "`chain` runs on a mesh of 1 axis, but `--mesh 2x2` has 2; give one like 4";
    refused_everywhere("chain --mesh 2x2", message);
    let message = "`summa` runs on a mesh of 2 axes, but `--mesh x=4` has 1; give one like 2x2";
    refused_everywhere("summa --mesh x=4", message);
    let message = "axis 0 of the mesh `0x2` has extent 0; an axis has at least one rank";
    refused_everywhere("pumma --mesh 0x2", &format!("invalid value '0x2' for '--mesh <MESH>': {message}"));
    let message = "invalid value 'four' for '--mesh <MESH>': cannot read the mesh `four`; write the extent of each axis, \
                   such as 4x6, or names too, such as x=4,y=6";
    refused_everywhere("pumma --mesh four", message);
    let message = "the mesh `99999x99999` has more than 2147483647 ranks; give a smaller one";
    refused_everywhere("cannon --mesh 99999x99999", message);
}

#[test]
fn negative_and_missing_extents_are_refused() {
    let message = "invalid value '-1,2,3' for '--size <M,K,N>': give m, k and n as integers of at least 0, such as";
    refused_everywhere("summa --size -1,2,3", message);
    let message = "invalid value '1,2' for '--size <M,K,N>': found 2 extents; give m, k and n, such as";
    refused_everywhere("summa --size 1,2", message);
    let message = "invalid value '1,2,3' for '--size <M,K,H,N>': found 3 extents; give m, k, h and n, such as";
    refused_everywhere("chain --size 1,2,3", message);
    let message =
        "invalid value '-1,2,3' for '--size <N0,N1,N2>': give n0, n1 and n2 as integers of at least 0, such as";
    refused_everywhere("fft3d --size -1,2,3", message);
    let message = "invalid value '1,2' for '--size <N0,N1,N2>': found 2 extents; give n0, n1 and n2, such as";
    refused_everywhere("fft3d --size 1,2", message);
    let message =
        "invalid value '1,2' for '--size <BATCH,MODEL,HIDDEN>': found 2 extents; give batch, model and hidden";
    refused_everywhere("megatron --size 1,2", message);
}

#[test]
fn extents_whose_product_overflows_are_refused() {
    let message = "kernel `summa`: the extents of `A` overflow: 4000000000 * 4000000000 * 4 bytes does not fit 63 bits; \
                   make them smaller";
    refused_everywhere("summa --size 4000000000,4000000000,4", message);
    let message = "kernel `second`: the extents of `W2` overflow: 4000000000 * 4000000000 * 4 bytes does not fit 63 bits; \
                   make them smaller";
    refused_everywhere("chain --size 1,1,4000000000,4000000000", message);
}

#[test]
fn unknown_types_are_refused_with_those_that_exist() {
    let message = "invalid value 'u8' for '--type <TYPE>'\n  [possible values: f32, f64, i32, i64]";
    refused_everywhere("ag_gemm --type u8", message);
}

#[test]
fn machines_and_axes_that_do_not_fit_are_refused_with_what_would() {
    let message = "[4] gives 1 count for 2 levels; give one for each of node, gpu";
    refused_everywhere("allreduce --hierarchy 4", message);
    let message = "the axes [3, 2] make 6 ranks, but the hierarchy [2, 2] has 4 devices; 2 for axis 0 would fit";
    refused_everywhere("allreduce --hierarchy 2,2 --mesh 3x2", message);
    refused_everywhere("allreduce --hierarchy 2,2 --reduce 1", "no axis 1; the matrix [[2 2]] has axes 0..1");
    refused_everywhere("allreduce --hierarchy 2,2 --reduce 0,0", "axis 0 is named twice; name each axis once");
    let message = "no machine `cray`; the presets are a100, v100, tpu-v4p, tpu-v5e, tpu-v5p";
    refused_everywhere("allreduce --machine cray", message);
    refused_everywhere(
        "allreduce --machine none.toml",
        "cannot read `none.toml`: No such file or directory (os error 2)",
    );
    let message = "invalid value '2,0' for '--hierarchy <COUNTS>': each is at least 1";
    refused_everywhere("allreduce --hierarchy 2,0", message);
    let message = "no axis `x` to reduce over; give a name of data, tensor or a number of 0 to 1";
    refused_everywhere("allreduce --mesh data=4,tensor=2 --reduce x", message);
    let message = "invalid value '2;4' for '--hierarchy <COUNTS>': cannot read `2;4`; write whole numbers with commas \
                   between them, such as 2,4";
    refused_everywhere("allreduce --hierarchy 2;4", message);
}
