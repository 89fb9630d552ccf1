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

#[test]
fn npy_files_are_read_or_refused() {
    check("npy", 20_000);
}

#[test]
fn machines_are_read_or_refused() {
    check("machines", 20_000);
}

#[test]
fn traces_are_lowered_or_refused() {
    check("traces", 2_000);
}

#[test]
fn types_are_planned_or_refused() {
    check("types", 20_000);
}

#[test]
fn products_are_planned_or_refused() {
    check("products", 1_000);
}

#[test]
fn reductions_are_planned_or_refused() {
    check("reductions", 20_000);
}

#[test]
fn meshes_are_placed_or_refused() {
    check("meshes", 20_000);
}

#[test]
fn einsums_are_read_or_refused() {
    check("einsums", 300);
}

#[test]
fn programs_are_read_or_refused() {
    check("programs", 2_000);
}
