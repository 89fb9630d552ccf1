//! `polyshard show`: arrays, and traces and programs in files, which are checked like those in source code.

use polyshard::prelude::*;
use polyshard::runtime::{Element, npy_header};
use polyshard_testing::command_line::CommandLine;
use polyshard_testing::start::{Ended, Start};
use polyshard_testing::test_folder;
use std::fs;

/// The command line.
const COMMAND_LINE: CommandLine = CommandLine::new(env!("CARGO_BIN_EXE_polyshard"), env!("CARGO_TARGET_TMPDIR"));

fn trace() -> String {
    let kernel = kernel! { fn blur(A: [i32; 18]) -> B: [i32; 18] { B[i] = A[i - 1] + A[i + 1] - 7 for i in 1..17 } };
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let schedule = kernel
        .divide("i", "a", "b", 4)
        .distribute(["a", "b"], ["ao", "bo"], ["ai", "bi"], &mesh)
        .shard("A", [dim(0).at(x).cyclic(y, 3)]);
    serde_json::to_string(&schedule.trace().expect("a good kernel")).expect("a trace is JSON")
}

/// The output of `polyshard show` for the trace after a change.
fn shown(name: &str, from: &str, to: &str) -> Result<String, String> {
    let text = trace();
    assert!(text.contains(from), "no `{from}` in {text}");
    let path = test_folder!(name).join("trace.json");
    fs::write(&path, text.replacen(from, to, 1)).expect("the folder is ours");
    let path = path.to_str().expect("cargo's folder has a plain name");
    let ended = COMMAND_LINE.run(Start::Plain, &["show", path, "--print", "source"]);
    if ended.success { Ok(ended.stdout) } else { Err(ended.stderr) }
}

/// The text of an array in a file.
fn shown_array<T: Element>(shape: &[usize], fortran: bool, bytes: &[u8]) -> String {
    let path = test_folder!("shown_array").join("array.npy");
    fs::write(&path, [&npy_header::<T>(shape, fortran), bytes].concat()).expect("the folder is ours");
    COMMAND_LINE.said(Start::Plain, &["show", path.to_str().expect("cargo's folder has a plain name")])
}

#[test]
fn arrays_are_shown_with_their_type_and_shape() {
    let elements = [1.0f32, -2.5, 3e-8, 4.0, 5.0, 6.0].map(f32::to_ne_bytes).concat();
    let rows = "f32, 2 x 3\n[[ 1.0, -2.5, 3e-8],\n [ 4.0,  5.0,  6.0]]\n";
    assert_eq!(shown_array::<f32>(&[2, 3], false, &elements), rows);
    let columns = "f32, 2 x 3, Fortran order\n[[ 1.0, 3e-8,  5.0],\n [-2.5,  4.0,  6.0]]\n";
    assert_eq!(shown_array::<f32>(&[2, 3], true, &elements), columns);
    assert_eq!(shown_array::<f64>(&[], false, &1e-300f64.to_ne_bytes()), "f64, one element\n1e-300\n");
    assert_eq!(shown_array::<i64>(&[0, 3], false, &[]), "i64, 0 x 3\n[[]]\n");
    let many = (0..1000).flat_map(i32::to_ne_bytes).collect::<Vec<_>>();
    let middle = "i32, 1000\n[  0,   1,   2,   3,   4, ..., 995, 996, 997, 998, 999]\n";
    assert_eq!(shown_array::<i32>(&[1000], false, &many), middle);
    let file = test_folder!("shown_text").join("text.npy");
    fs::write(&file, "[1, 2, 3]").expect("the folder is ours");
    let file = file.to_str().expect("cargo's folder has a plain name");
    for (arguments, message) in [
        (&["show", file][..], "cannot read `"),
        (&["show", file, "--print", "explain"], "is an array, but `--print` is for programs; leave `--print` out"),
    ] {
        let Ended { success, stderr, .. } = COMMAND_LINE.run(Start::Plain, arguments);
        assert!(!success && stderr.contains(message), "{stderr}");
    }
    let kernels = test_folder!("shown_kernels").join("copy.poly");
    fs::write(&kernels, "fn copy(A: [f64; 4]) -> B: [f64; 4] { B[i] = A[i] }").expect("the folder is ours");
    let kernels = kernels.to_str().expect("cargo's folder has a plain name");
    let message = format!(
        "`{kernels}` has kernels, where a program or a trace is expected; `polyshard lower {kernels}` shows the program of these kernels"
    );
    COMMAND_LINE.refused(&["show", kernels], &message);
}

#[test]
fn a_trace_is_shown_as_it_was_written() {
    let source = shown("good_trace", "7", "7").expect("a good trace");
    assert!(source.contains("B[i] = A[i - 1] + A[i + 1] - 7 for i in 1..17"), "{source}");
}

#[test]
fn a_trace_shows_the_program_of_its_schedule() {
    vars!(m, n, k, mo, mi, no, ni, ko, kl, kt, ki);
    let matmul = kernel! {
        fn matmul(A: [f32; 50, 41], B: [f32; 41, 34]) -> C: [f32; 50, 34] { C[m, n] += A[m, k] * B[k, n] }
    };
    let (mesh, layers) = (Mesh::new([("x", 2), ("y", 3)]), Mesh::new([("z", 2)]));
    let [x, y] = mesh.axes();
    let tiled = matmul.distribute([m, n], [mo, no], [mi, ni], &mesh).divide(k, ko, ki, 6);
    let summa = tiled.clone().reorder([mo, no, ko, mi, ni, ki]).shard("A", [m.at(x), k.at(y)]).communicate("A", ko);
    let cannon = summa.clone().rotate(ko, [mo, no]).shard("B", [k.at((x + y) % 2), n.at(y)]).communicate("B", ko);
    let layered = tiled.rotate(ko, [mo, no]).distribute([ko], [kl], [kt], &layers).shard("A", [m.at(x), pin("z", 0)]);
    let stencil =
        kernel! { fn heat(A: [f64; 24]) -> B: [f64; 24] { B[i] = 0.5 * (A[(i - 1) % 24] + A[(i + 1) % 24]) } };
    let path = test_folder!("traces").join("trace.json");
    let path = path.to_str().expect("cargo's folder has a plain name");
    for schedule in [summa.tensorize([mi, ni, ki]), cannon, layered, stencil] {
        let program = schedule.lower().expect("a legal schedule");
        let trace = schedule.trace().expect("a good kernel");
        fs::write(path, serde_json::to_string(&trace).expect("a trace is JSON")).expect("the folder is ours");
        let source = polyshard::source::rust_source(&program, &polyshard::source::SourceOptions::default());
        for (what, expected) in [("program", program.to_string()), ("source", source), ("explain", program.explain())] {
            let show = ["show", path, "--print", what];
            let shown = COMMAND_LINE.run(Start::Plain, &show);
            assert!(shown.success, "{}", shown.stderr);
            assert_eq!(shown.stdout, expected, "{what}");
        }
        // The program itself, as a file, is that program.
        let written = serde_json::to_string(&program).expect("a program is JSON");
        fs::write(path, &written).expect("the folder is ours");
        let read: Program = serde_json::from_str(&written).expect("it was written");
        for (what, expected) in [("program", program.to_string()), ("explain", read.explain())] {
            let shown = COMMAND_LINE.run(Start::Plain, &["show", path, "--print", what]);
            assert!(shown.success, "{}", shown.stderr);
            assert_eq!(shown.stdout, expected, "{what}");
        }
        let trace = COMMAND_LINE.run(Start::Plain, &["show", path, "--print", "trace"]);
        assert!(!trace.success && trace.stderr.contains("which does not record its schedule"), "{}", trace.stderr);
        fs::write(path, written.replacen("\"arrays\":[0", "\"arrays\":[7", 1)).expect("the folder is ours");
        let changed = COMMAND_LINE.run(Start::Plain, &["show", path]);
        let said = "is not a program: kernel 0 names array 7, but the program has ";
        assert!(!changed.success && changed.stderr.contains(said), "{}", changed.stderr);
    }
}

#[test]
fn a_trace_is_checked_as_the_source_is() {
    let cases = [
        ("outside", r#""start":1"#, r#""start":0"#, "`A[i - 1]` leaves `A`: index `i - 1` spans -1..16"),
        ("literal", r#"{"literal":7}"#, r#"{"literal":3000000000}"#, "`3000000000` does not fit i32"),
        ("float", r#"{"literal":7}"#, r#"{"literal":7.5}"#, "`7.5` is a float, but the elements are i32"),
        ("kernel_name", r#""name":"blur""#, r#""name":"fn main() {} //""#, "is not a name"),
        ("loop_name", "(i, a,", "(i, a b,", "expected `,`"),
        ("axis_name", "mesh(x", "mesh(4", "expected identifier"),
        ("axis_twice", "mesh(x", "mesh(y", "two axes are named `y`"),
        ("axis_of_0", "x: 2", "x: 0", "axis `x` has extent 0"),
        ("ranks", "x: 2, y: 2", "x: 4294967296, y: 4294967296", "the mesh has more than 2^31 ranks"),
        ("axis_of_two_levels", "cyclic(y, 3)", "cyclic(x, 3)", "axis `x` is used twice"),
        ("level_of_0", "cyclic(y, 3)", "cyclic(y, 0)", "dimension 0 is block-cyclic in blocks of 0"),
        ("too_many_levels", "x @ cyclic", "x @ (0) @ cyclic", "dimension 0 is divided into 3 levels"),
        ("level_of_a_pin", "dim(0) @ x", "pin(x, 0)", "unexpected argument"),
        ("step", "divide(", "tile(", "`tile(i, a, b, 4)` is not a schedule step: at its character 1: no schedule step"),
        ("tensor_twice", r#""name":"B""#, r#""name":"A""#, "the name `A` is given twice"),
    ];
    for (name, from, to, message) in cases {
        let said = shown(name, from, to).expect_err(name);
        assert!(said.contains(message) && !said.contains("panicked"), "{name}: {said}");
        // The position in the file is printed at most once.
        assert!(said.matches("line ").count() == 0 && said.matches("trace.json:").count() <= 1, "{name}: {said}");
    }
}
