//! Invalid command lines.

use super::refused_everywhere;

#[test]
fn meshes_that_cannot_be_are_refused() {
    let axes = |text: &str, axes: &str, found: usize| {
        format!(
            "invalid value '{text}' for '--mesh <MESH>': the mesh takes an extent for each of {axes}, but `{text}` has {found}"
        )
    };
    refused_everywhere("summa --mesh 2x2x2", &axes("2x2x2", "x, y", 3));
    refused_everywhere("ag_gemm --mesh 2x2", &axes("2x2", "x", 2));
    refused_everywhere("chain --mesh 2x2", &axes("2x2", "devs", 2));
    refused_everywhere("summa --mesh x=4", &axes("x=4", "x, y", 1));
    let message = "mesh axis `x` has extent 0; an axis has at least one coordinate";
    refused_everywhere("pumma --mesh 0x2", &format!("invalid value '0x2' for '--mesh <MESH>': {message}"));
    let message = "invalid value 'four' for '--mesh <MESH>': cannot read the mesh `four`; write the extent of each axis, \
                   such as 4x6, or names too, such as x=4,y=6";
    refused_everywhere("pumma --mesh four", message);
    let message = "the number of ranks of the mesh overflows: 9999999999 * 9999999999; make an axis smaller";
    refused_everywhere("cannon --mesh 9999999999x9999999999", message);
}

#[test]
fn negative_and_missing_extents_are_refused() {
    refused_everywhere("summa --size -1,2,3", "unexpected argument '-1' found");
    refused_everywhere("summa --size 1,-2,3", "invalid value '-2' for '--size <M,K,N>'");
    refused_everywhere("summa --size 1,2", "`--size` takes m, k and n, such as");
    refused_everywhere("chain --size 1,2,3", "`--size` takes m, k, h and n, such as");
    refused_everywhere("fft3d --size 1,2", "`--size` takes n0, n1 and n2, such as");
    refused_everywhere("megatron --size 1,2", "`--size` takes batch, model and hidden, such as");
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
    let message =
        "invalid value 'u8' for '--type <TYPE>': no element type `u8`; the types are i8, bf16, f32, f64, i32, i64";
    refused_everywhere("summa --type u8", message);
    let message = "programs cannot compute in bf16; they compute in f32, f64, i32, i64";
    refused_everywhere("summa --type bf16", message);
}

#[test]
fn machines_and_axes_that_do_not_fit_are_refused_with_what_would() {
    let message = "[4] gives 1 count for 2 levels; give one for each of node, gpu";
    refused_everywhere("allreduce --hierarchy 4", message);
    let message = "the axes [3, 2] make 6 ranks, but the hierarchy [2, 2] has 4 devices; 2 for axis 0 would fit";
    refused_everywhere("allreduce --hierarchy 2,2 --mesh 3x2", message);
    refused_everywhere(
        "allreduce --hierarchy 2,2 --reduce 1",
        "no axis 1; the matrix [[2 2]] has 1 axis, numbered from 0",
    );
    refused_everywhere("allreduce --hierarchy 2,2 --reduce 0,0", "axis 0 is named twice; name each axis once");
    let message = "no machine `cray`; the presets are a100, v100, tpu-v4p, tpu-v5e, tpu-v5p";
    refused_everywhere("allreduce --machine cray", message);
    refused_everywhere("allreduce --hierarchy 2,0", "level `gpu`: `count` is 0; a level has at least one member");
    let message = "no axis `x` to reduce over; the mesh is (data: 4, tensor: 2)";
    refused_everywhere("allreduce --mesh data=4,tensor=2 --reduce x", message);
    refused_everywhere("allreduce --hierarchy 2;4", "invalid value '2;4' for '--hierarchy <COUNTS>'");
}
