//! A short run of all targets: inputs that failed once, and reproducible new ones.

use std::process::Command;

/// Feeds a target the inputs that it must accept and those that failed once, then a number of new inputs; nothing may
/// fail.
#[track_caller]
fn check(target: &str, inputs: u32) {
    let out = format!("{}/{target}", env!("CARGO_TARGET_TMPDIR"));
    let arguments = ["--target", target, "--inputs", &inputs.to_string(), "--out", &out, "--seconds", "60"];
    let run = Command::new(env!("CARGO_BIN_EXE_polyshard-fuzz")).args(arguments).output().expect("it was built");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains(" 0 failed"), "{said}");
    assert!(!said.contains(" 0 accepted"), "nothing was accepted, so little was tried: {said}");
}

/// One test for each target, with its number of inputs.
macro_rules! targets {
    ($($test:ident: $target:literal, $inputs:literal;)*) => {
        $(
            #[test]
            fn $test() {
                check($target, $inputs);
            }
        )*
    };
}

targets! {
    npy_files_are_read_or_refused: "npy", 20_000;
    machines_are_read_or_refused: "machines", 20_000;
    traces_are_lowered_or_refused: "traces", 2_000;
    types_are_planned_or_refused: "types", 20_000;
    products_are_planned_or_refused: "products", 1_000;
    reductions_are_planned_or_refused: "reductions", 20_000;
    meshes_are_placed_or_refused: "meshes", 20_000;
    einsums_are_read_or_refused: "einsums", 300;
    kernels_are_read_or_refused: "kernels", 1_000;
    programs_are_read_or_refused: "programs", 2_000;
}
