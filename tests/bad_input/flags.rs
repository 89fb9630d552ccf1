//! Command lines that make no sense.

use super::refused_everywhere;

#[test]
fn meshes_that_are_none_are_refused() {
    let message = "`summa` runs on a mesh of 2 axes, but `--mesh 2x2x2` is none; give one like 2x2";
    refused_everywhere("summa --mesh 2x2x2", message);
    let message = "`ag_gemm` runs on a mesh of 1 axis, but `--mesh 2x2` is none; give one like 4";
    refused_everywhere("ag_gemm --mesh 2x2", message);
    let message = "`chain` runs on a mesh of 1 axis, but `--mesh 2x2` is none; give one like 4";
    refused_everywhere("chain --mesh 2x2", message);
    refused_everywhere("pumma --mesh 0x2", "invalid value '0x2' for '--mesh <MESH>': each axis has at least 1 rank");
    let message = "invalid value 'four' for '--mesh <MESH>': give the ranks along each axis, such as 2x3";
    refused_everywhere("pumma --mesh four", message);
    let message = "invalid value '99999x99999' for '--mesh <MESH>': no more than 2147483647 ranks are possible";
    refused_everywhere("cannon --mesh 99999x99999", message);
}

#[test]
fn negative_and_missing_extents_are_refused() {
    let message = "invalid value '-1,2,3' for '--size <M,K,N>': give m, k and n as integers of at least 0, such as";
    refused_everywhere("summa --size -1,2,3", message);
    let message = "invalid value '1,2' for '--size <M,K,N>': 2 extents are given; give m, k and n, such as";
    refused_everywhere("summa --size 1,2", message);
    let message = "invalid value '1,2,3' for '--size <M,K,H,N>': 3 extents are given; give m, k, h and n, such as";
    refused_everywhere("chain --size 1,2,3", message);
    let message =
        "invalid value '-1,2,3' for '--size <N0,N1,N2>': give n0, n1 and n2 as integers of at least 0, such as";
    refused_everywhere("fft3d --size -1,2,3", message);
    let message = "invalid value '1,2' for '--size <N0,N1,N2>': 2 extents are given; give n0, n1 and n2, such as";
    refused_everywhere("fft3d --size 1,2", message);
    let message =
        "invalid value '1,2' for '--size <BATCH,MODEL,HIDDEN>': 2 extents are given; give batch, model and hidden";
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
    let message = "[4] gives 1 counts for 2 levels; give one for each of node, gpu";
    refused_everywhere("allreduce --hierarchy 4", message);
    let message = "the axes [3, 2] make 6 ranks, but the hierarchy [2, 2] has 4 devices; 2 for axis 0 would fit";
    refused_everywhere("allreduce --hierarchy 2,2 --axes 3,2", message);
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
    let message = "invalid value 'x' for '--reduce <AXES>': give numbers with commas between them, such as 2,4";
    refused_everywhere("allreduce --reduce x", message);
}
