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
