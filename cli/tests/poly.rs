//! `polyshard run` and `polyshard lower`, as a user runs them: the files under `examples/poly` on threads and processes, what is
//! printed, and what is refused, where it stands.

use expect_test::{Expect, expect};
use polyshard_testing::command_line::CommandLine;
use polyshard_testing::start::{Ended, Start};
use polyshard_testing::test_folder;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "poly/rounds.rs"]
mod rounds;

const COMMAND_LINE: CommandLine = CommandLine::new(env!("CARGO_BIN_EXE_polyshard"), env!("CARGO_TARGET_TMPDIR"));

/// Each file, the shapes of what it reads, and the ranks that it wants.
const EXAMPLES: [(&str, &[&str], usize); 14] = [
    ("summa", &["53,37", "37,41"], 4),
    ("pumma", &["53,37", "37,41"], 4),
    ("cannon", &["12,24", "24,8"], 4),
    ("ag_gemm", &["37,41", "37,31"], 4),
    ("cosma", &["53,37", "37,41"], 4),
    ("mttkrp", &["13,7,10", "7,5", "10,5"], 4),
    ("syrk", &["53,37"], 4),
    ("heat", &["24,12"], 4),
    ("chain", &["53,37", "37,41", "41,29"], 2),
    ("tucker", &["13,7,10", "13,3", "7,3", "10,2"], 3),
    ("steps", &["24,13"], 4),
    ("cg", &["9,14"], 4),
    ("power", &["23,23", "23"], 4),
    ("jacobi", &["5,5", "5", "5"], 4),
];

/// The names that files leave open, besides extents.
fn values(name: &str) -> &'static [&'static str] {
    match name {
        "steps" | "power" => &["--let", "steps=5"],
        "cg" | "jacobi" => &["--let", "rounds=7", "--let", "tolerance=1e-9"],
        _ => &[],
    }
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/poly").join(format!("{name}.poly"));
    path.to_str().expect("a plain name").to_owned()
}

/// Files in a folder of a test.
struct Folder(PathBuf);

impl Folder {
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("cargo's folder has a plain name").to_owned()
    }

    /// Writes random arrays of these shapes and returns their paths.
    fn arrays(&self, dtype: &str, shapes: &[&str]) -> Vec<String> {
        let write = |(nth, shape): (usize, &&str)| {
            let (path, seed) = (self.path(&format!("{nth}.npy")), (nth + 1).to_string());
            COMMAND_LINE
                .said(Start::Plain, &["random", "--shape", shape, "--type", dtype, "--seed", &seed, "--out", &path]);
            path
        };
        shapes.iter().enumerate().map(write).collect()
    }

    /// Writes a file of kernels and returns its path.
    fn poly(&self, text: &str) -> String {
        let path = self.path("kernels.poly");
        fs::write(&path, text).expect("a file in cargo's folder");
        path
    }

    /// Checks what a command complains of, with the folder left out.
    #[track_caller]
    fn refused(&self, arguments: &[&str], expected: Expect) {
        let Ended { success, stdout, stderr, .. } = COMMAND_LINE.run(Start::Plain, arguments);
        assert!(!success && stdout.is_empty(), "{arguments:?} should be refused:\n{stdout}");
        let examples = example("").replace(".poly", "");
        expected.assert_eq(&stderr.replace(&format!("{}/", self.0.display()), "").replace(&examples, ""));
    }
}

/// Ways to get a number of ranks.
fn starts(ranks: usize) -> Vec<Start> {
    let processes = if cfg!(feature = "mpi") { vec![Start::Mpi(ranks)] } else { Vec::new() };
    [Start::Plain].into_iter().chain(processes).collect()
}

fn words<'a>(words: &[&'a str], files: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    words.iter().copied().chain(files.iter().map(String::as_str)).chain(more.iter().copied()).collect()
}

#[test]
fn every_file_is_right_on_threads_and_processes() {
    for (name, shapes, ranks) in EXAMPLES {
        let folder = Folder(test_folder!(&format!("poly_{name}")));
        for dtype in ["f64", "i32"] {
            // Those that take means or roots are of floats alone.
            if dtype == "i32" && ["heat", "steps", "cg", "power", "jacobi"].contains(&name) {
                continue;
            }
            let (file, arrays) = (example(name), folder.arrays(dtype, shapes));
            let mut written: Vec<Vec<u8>> = Vec::new();
            for start in starts(ranks) {
                let out = folder.path("out.npy");
                let count = ranks.to_string();
                // Under a launcher it has as many ranks as were started.
                let more: &[&str] = match start {
                    Start::Plain => &["--out", &out, "--check", "--ranks", &count],
                    _ => &["--out", &out, "--check"],
                };
                let more = &[more, values(name)].concat();
                let said = COMMAND_LINE.said(start, &words(&["run", &file], &arrays, more));
                assert_eq!(said.matches("\nchecked ").count(), 1, "{name} on {start:?}:\n{said}");
                assert_eq!(said.matches("\nwrote ").count(), 1, "{name} on {start:?}:\n{said}");
                written.push(fs::read(&out).expect("it was written"));
            }
            // What is chosen may differ, as machines that are measured do.
            if name != "tucker" || dtype == "i32" {
                assert!(written.windows(2).all(|two| two[0] == two[1]), "{name}: threads and processes differ");
            }
        }
    }
}

#[test]
fn what_a_run_prints() {
    let folder = Folder(test_folder!("poly_prints"));
    let arrays = folder.arrays("f32", &["53,37", "37,41", "41,29"]);
    let out = folder.path("out.npy");
    let said =
        COMMAND_LINE.said(Start::Plain, &words(&["run", &example("chain")], &arrays, &["--out", &out, "--check"]));
    let said: String = said
        .lines()
        .map(|line| match line.split_once(' ') {
            Some(("ran", _)) => "ran ..\n".to_owned(),
            Some(("wrote", _)) => format!("{}\n", line.replace(&format!("{}/", folder.0.display()), "")),
            _ => format!("{line}\n"),
        })
        .collect();
    expect![[r#"
        kernel   Y[m, n] += X[m, k] * W[k, n], m 53, n 41, k 37, f32, 164.7 koperations
        kernel   Z[m, n] += Y[m, k] * V[k, n], m 53, n 29, k 41, f32, 128.4 koperations
        ranks    2 (threads)
        mesh     d: 2
        moves    Y from [1 @ d] to [0 @ d]
        words    at most 546 a rank
        memory   at most 36.58 kB a rank
        ran ..
        checked  53 of 53 rows against a sequential computation: largest error 1.8e-7 of the largest element
        wrote    out.npy, 53 x 29, f32
    "#]]
    .assert_eq(&said);
}

#[test]
fn fewer_or_more_ranks_than_the_mesh_has() {
    let folder = Folder(test_folder!("poly_ranks"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let file = example("summa");
    folder.refused(
        &words(&["run", &file], &arrays, &["--out", &out, "--ranks", "3"]),
        expect![[r#"
        error: the mesh needs 4 ranks, but there are 3; start as many as it needs, or leave the mesh out to have one chosen
    "#]],
    );
    // Two are idle.
    let said = COMMAND_LINE.said(Start::Plain, &words(&["run", &file], &arrays, &["--out", &out, "--ranks", "6"]));
    assert!(said.contains("ranks    4 of 6 (threads)\n"), "{said}");
}

#[test]
fn mistakes_are_shown_where_they_stand() {
    let folder = Folder(test_folder!("poly_mistakes"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let summa = fs::read_to_string(example("summa")).expect("the example");
    let refused = |text: &str, expected: Expect| {
        folder.refused(&words(&["run", &folder.poly(text)], &arrays, &["--out", &out]), expected);
    };
    // An unknown step, and a kernel without mesh.
    refused(
        &summa.replace(".divide(k, ko, ki, 2)", ".tile(k, ko, ki, 2)"),
        expect![[r#"
            error: no schedule step `tile`
             --> kernels.poly:8:2
              |
            8 | .tile(k, ko, ki, 2)
              |  ^^^^
              |
              = help: the steps are `split`, `divide`, `reorder`, `fuse`, `distribute`, `replicate`, `rotate`, `shard`, `communicate`, `pipeline`, `halo`, `interior_first`, `reassociate`, `tensorize`, `tensorize_as`, `tensorize_with`, `expect` and `expect_overlap`
        "#]],
    );
    refused(
        &summa[..summa.find("mesh").expect("a mesh")],
        expect![[r#"
        error: `summa` has no mesh and no schedule
         --> kernels.poly:3:4
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
          |    ^^^^^
          |
          = help: write `mesh(x: 2)` and steps after it, or `auto`
    "#]],
    );
    // A step that cannot be applied, and a schedule that is not legal as a whole.
    refused(
        &summa.replace("communicate(A, ko)", "communicate(A, kq)"),
        expect![[r#"
        error: no loop `kq`
          --> kernels.poly:13:2
           |
        13 | .communicate(A, kq)
           |  ^^^^^^^^^^^
           |
           = help: the loops are mo, no, ko, mi, ni, ki
    "#]],
    );
    refused(
        &summa.replace("[mi, ni, ki]", "[mi, ni, ko]"),
        expect![[r#"
        error: loop `ko` cannot be tensorized, since `A` is communicated at it
          --> kernels.poly:15:2
           |
        15 | .tensorize([mi, ni, ko])
           |  ^^^^^^^^^
           |
           = help: leave `ko` out of `tensorize`, or communicate `A` at a loop outside the leaf
    "#]],
    );
    refused(
        &summa.replace("A[m, k] *", "A[k, m] *"),
        expect![[r#"
        error: index `m` has extent 6 in `C[m, n]`, but 7 in `A[k, m]`
         --> kernels.poly:4:7
          |
        4 |     C[m, n] += A[k, m] * B[k, n]
          |       ^
          |
          = help: let the extents agree, use two indices, or state the range that fits: `for m in 0..6`

        error: index `k` has extent 7 in `B[k, n]`, but 6 in `A[k, m]`
         --> kernels.poly:4:28
          |
        4 |     C[m, n] += A[k, m] * B[k, n]
          |                            ^
          |
          = help: let the extents agree, use two indices, or state the range that fits: `for k in 0..6`
    "#]],
    );
    refused(
        &summa.replace("[T; k, n]", "[T; n, k]"),
        expect![[r#"
        error: `k` is 7 in 0.npy (6 x 7) and 5 in 1.npy (7 x 5)
         --> kernels.poly:3:34
          |
        3 | fn summa(A: [T; m, k], B: [T; n, k]) -> C: [T; m, n] {
          |                                  ^
          |
          = help: give arrays that match, or use two names
    "#]],
    );
    refused(
        &summa.replace("[T; ", "[f64; "),
        expect![[r#"
        error: `summa` computes in f64, but `0.npy` is of f32
         --> kernels.poly:3:4
          |
        3 | fn summa(A: [f64; m, k], B: [f64; k, n]) -> C: [f64; m, n] {
          |    ^^^^^
          |
          = help: write `T` for the type that the arrays have, or convert them
    "#]],
    );
    refused(
        &summa.replace("T; m, n]", "T; m, q]"),
        expect![[r#"
        error: `q` has no value
         --> kernels.poly:3:51
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, q] {
          |                                                   ^
          |
          = help: declare an input with the extent `q`, or set it: `--let q=10`
    "#]],
    );
    // Kernels that do not fit together.
    let second = "fn second(C: [T; m, m], A: [T; m, k]) -> D: [T; m, k] { D[i, j] = C[i, l] * A[l, j] }\n";
    refused(
        &format!("{summa}{second}auto"),
        expect![[r#"
        error: stage 2, `second`: `C` has shape [6, 6], but `C` has [6, 5], the output of stage 1, `summa`; make them match
    "#]],
    );
    let chain = fs::read_to_string(example("chain")).expect("the example");
    let at = chain.rfind("mesh(d: 2)").expect("a mesh");
    let other = format!("{}mesh(d: 3){}", &chain[..at], &chain[at + "mesh(d: 2)".len()..]);
    let arrays = folder.arrays("f32", &["6,7", "7,5", "5,4"]);
    folder.refused(
        &words(&["run", &folder.poly(&other)], &arrays, &["--out", &out]),
        expect![[r#"
        error: stage 2, `second` runs on the mesh (d: 3), but stage 1, `first` on (d: 2); lower all stages for one mesh
          --> kernels.poly:11:4
           |
        11 | fn second(Y: [T; m, h], V: [T; h, n]) -> Z: [T; m, n] {
           |    ^^^^^^
    "#]],
    );
}

#[test]
fn files_and_arrays_that_do_not_fit_are_refused() {
    let folder = Folder(test_folder!("poly_files"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let summa = example("summa");
    folder.refused(
        &words(&["run", &summa], &arrays[..1], &["--out", &out]),
        expect![[r#"
            error: the kernels read `A` and `B`, but 1 array is given
             --> summa.poly:3:4
              |
            3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
              |    ^^^^^
              |
              = help: give one array for each, in this order
        "#]],
    );
    folder.refused(
        &["run", &summa, &arrays[0], &arrays[0], "--out", &out],
        expect![[r#"
            error: `k` is 7 in 0.npy (6 x 7) and 6 in 0.npy (6 x 7)
             --> summa.poly:3:31
              |
            3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
              |                               ^
              |
              = help: give arrays that match, or use two names
        "#]],
    );
    folder.refused(
        &["run", &folder.path("none.poly"), "--out", &out],
        expect![[r#"
        error: cannot read `none.poly`: No such file or directory (os error 2)
    "#]],
    );
    let other = folder.path("other.npy");
    COMMAND_LINE.said(Start::Plain, &["random", "--shape", "7,5", "--type", "i64", "--out", &other]);
    folder.refused(
        &["run", &summa, &arrays[0], &other, "--out", &out],
        expect![[r#"
        error: `0.npy` is of f32 and `other.npy` of i64; kernels in sequence compute in one type; convert one of them
    "#]],
    );
    folder.refused(
        &words(&["run", &summa], &arrays, &["--out", &arrays[0]]),
        expect![[r#"
        error: cannot write `0.npy`: it is the input `0.npy`; write to another file
    "#]],
    );
    folder.refused(&words(&["run", &summa], &arrays, &["--out", &out, "--let", "alpha"]), expect![[r#"
        error: invalid value 'alpha' for '--let <NAME=VALUE>': cannot read `alpha`; write a name and a number, such as n=10 or alpha=0.5

        For more information, try '--help'.
    "#]]);
    assert!(!Path::new(&out).exists());
}

#[test]
fn a_mistake_is_said_once_by_all_processes() {
    if !cfg!(feature = "mpi") {
        return;
    }
    let folder = Folder(test_folder!("poly_once"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let file = folder
        .poly("fn f(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[i, j] = A[i, l] * B[l, j] }\nmesh(x: 2).tile(i)");
    let Ended { success, stdout, stderr, .. } =
        COMMAND_LINE.run(Start::Mpi(2), &words(&["run", &file], &arrays, &["--out", &out]));
    assert!(!success && stdout.is_empty(), "{stdout}");
    assert!(stderr.starts_with("error: no schedule step `tile`"), "{stderr}");
    assert_eq!(stderr.matches("no schedule step `tile`").count(), 1, "{stderr}");
}

#[test]
fn values_are_checked_before_arrays_are_opened() {
    let folder = Folder(test_folder!("poly_let"));
    let (file, out) = (example("summa"), folder.path("out.npy"));
    let refuse = |values: &[&str], expected: Expect| {
        let lets = values.iter().flat_map(|value| ["--let", value]);
        let arguments: Vec<_> = ["run", &file, "none.npy", "--out", &out].into_iter().chain(lets).collect();
        folder.refused(&arguments, expected);
    };
    refuse(
        &["q=3"],
        expect![[r#"
        error: no name `q` in `summa.poly`, to which `--let` gives a value; the names that stand for numbers are `m`, `k`, `n`
    "#]],
    );
    refuse(
        &["C=3"],
        expect![[r#"
        error: no name `C` in `summa.poly`, to which `--let` gives a value; the names that stand for numbers are `m`, `k`, `n`
    "#]],
    );
    refuse(
        &["m=2.5"],
        expect![[r#"
        error: `--let m=2.5`, but extents, moduli and rounds are whole numbers; give a whole number
    "#]],
    );
    refuse(
        &["m=2", "m=3"],
        expect![[r#"
        error: two values are given for `m`; give one
    "#]],
    );
    let plain = folder.poly("fn f(A: [f32; 4]) -> B: [f32; 4] { B[i] = A[i] }\nauto");
    folder.refused(&["run", &plain, "none.npy", "--out", &out, "--let", "i=3"], expect![[r#"
        error: no name `i` in `kernels.poly`, to which `--let` gives a value; the file has no names that stand for numbers
    "#]]);
}

#[test]
fn written_schedules_keep_to_the_memory_that_is_allowed() {
    let folder = Folder(test_folder!("poly_memory"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let run =
        |more: &[&str]| words(&["run", &example("summa")], &arrays, &[&["--out", &out], more].concat()).join("\n");
    let refused = run(&["--memory", "100B"]);
    folder.refused(&refused.split('\n').collect::<Vec<_>>(), expect![[r#"
        error: the schedules in the file need up to 228 B a rank, but `--memory` allows 100 B; raise `--memory`, or write `auto` to have schedules chosen that fit
    "#]]);
    assert!(!Path::new(&out).exists());
    COMMAND_LINE.said(Start::Plain, &run(&["--memory", "1.5kB"]).split('\n').collect::<Vec<_>>());
    // What is chosen says with how many ranks it would fit.
    let product = "(A: [f32; 6, 7], B: [f32; 7, 5]) -> C: [f32; 6, 5] { C[i, j] = A[i, k] * B[k, j] }\nauto\n";
    let other = "(C: [f32; 6, 5], D: [f32; 5, 4]) -> E: [f32; 6, 4] { E[i, j] = C[i, k] * D[k, j] }\nauto\n";
    let chain = folder.poly(&format!("fn first{product}\nfn second{other}"));
    let arrays = folder.arrays("f32", &["6,7", "7,5", "5,4"]);
    let run = |ranks| {
        let more = ["--out", &out, "--machine", "a100", "--memory", "200B", "--ranks", ranks];
        words(&["run", &chain], &arrays, &more).join("\n")
    };
    folder.refused(&run("2").split('\n').collect::<Vec<_>>(), expect![[r#"
        error: no schedule of `first`, `second` on up to 2 ranks fits into 200 B a rank; the least that one needs is 372 B: allow that, or 8 ranks, the fewest that would do
    "#]]);
    COMMAND_LINE.said(Start::Plain, &run("8").split('\n').collect::<Vec<_>>());
}

#[test]
fn extents_of_one_and_open_brackets_are_answered_with_what_to_write() {
    let folder = Folder(test_folder!("poly_advice"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "1,5"]), folder.path("out.npy"));
    let summa = fs::read_to_string(example("summa")).expect("the example");
    let refuse = |text: &str, expected: Expect| {
        folder.refused(&words(&["run", &folder.poly(text)], &arrays, &["--out", &out]), expected);
    };
    refuse(
        &summa,
        expect![[r#"
        error: `k` is 7 in 0.npy (6 x 7) and 1 in 1.npy (1 x 5)
         --> kernels.poly:3:31
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
          |                               ^
          |
          = help: extents of 1 do not broadcast: declare that dimension as 1, and write 0 for its index, `A[0, j]`
    "#]],
    );
    refuse(
        &summa.replace("shard(A, m @ x, k @ y)", "shard(A, m @ x, k @ y"),
        expect![[r#"
        error: `(` is not closed
          --> kernels.poly:10:7
           |
        10 | .shard(A, m @ x, k @ y
           |       ^
           |
           = help: write `)` where it ends
    "#]],
    );
    refuse(
        &summa.replace("* B[k, n]\n}", "* B[k, n]\n"),
        expect![[r#"
        error: `{` is not closed
         --> kernels.poly:3:54
          |
        3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
          |                                                      ^
          |
          = help: write `}` where it ends
    "#]],
    );
}

#[test]
fn names_have_values() {
    let folder = Folder(test_folder!("poly_values"));
    let (arrays, out) = (folder.arrays("f64", &["9"]), folder.path("out.npy"));
    let file =
        folder.poly("fn f(A: [T; n]) -> B: [T; n + pad] { B[i] = alpha * A[(i - 1) % n] for i in pad..n }\nauto");
    let run = ["run", &file, &arrays[0], "--out", &out, "--check", "--let", "alpha=-0.5"];
    let said = COMMAND_LINE.said(Start::Plain, &[&run[..], &["--let", "pad=2"]].concat());
    assert!(said.contains("B[i] = -0.5 * A[(i - 1) % 9] for i in 2..9"), "{said}");
    folder.refused(
        &run,
        expect![[r#"
        error: `pad` has no value
         --> kernels.poly:1:31
          |
        1 | fn f(A: [T; n]) -> B: [T; n + pad] { B[i] = alpha * A[(i - 1) % n] for i in pad..n }
          |                               ^^^
          |
          = help: declare an input with the extent `pad`, or set it: `--let pad=10`
    "#]],
    );
}

#[test]
fn what_kernels_become_is_printed() {
    let folder = Folder(test_folder!("poly_lower"));
    let sizes = ["--let", "m=8", "--let", "k=6", "--let", "n=4", "--type", "f32"];
    let summa = example("summa");
    let lower =
        |print: &str| COMMAND_LINE.said(Start::Plain, &[&["lower", &summa][..], &sizes, &["--print", print]].concat());
    let program = lower("program");
    assert!(program.contains("A_tile[4, 3] = A[4*x .. +4, 3*ko .. +3]: broadcast along y from y = ko\n"), "{program}");
    assert!(lower("explain").contains("broadcast"));
    assert!(lower("source").contains("pub fn run"));
    expect![[r#"
        instances    { [mo, no, ko, mi, ni, ki] -> [m = 4mo + mi, n = 2no + ni, k = 3ko + ki] : 0 <= mo <= 1 and 0 <= no <= 1 and 0 <= ko <= 1 and 0 <= mi <= 3 and 0 <= ni <= 1 and 0 <= ki <= 2 }
        A[m, k]      { [mo, no, ko, mi, ni, ki] -> A[d0 = 4mo + mi, d1 = 3ko + ki] : 0 <= mo <= 1 and 0 <= no <= 1 and 0 <= ko <= 1 and 0 <= mi <= 3 and 0 <= ni <= 1 and 0 <= ki <= 2 }
        A owned by   { A[d0, d1] -> [x, y] : 0 <= d0 <= 7 and 0 <= d1 <= 5 and 0 <= x <= 1 and -3 + d0 <= 4x <= d0 and 0 <= y <= 1 and -2 + d1 <= 3y <= d1 }
        B[k, n]      { [mo, no, ko, mi, ni, ki] -> B[d0 = 3ko + ki, d1 = 2no + ni] : 0 <= mo <= 1 and 0 <= no <= 1 and 0 <= ko <= 1 and 0 <= mi <= 3 and 0 <= ni <= 1 and 0 <= ki <= 2 }
        B owned by   { B[d0, d1] -> [x, y] : 0 <= d0 <= 5 and 0 <= d1 <= 3 and 0 <= x <= 1 and -2 + d0 <= 3x <= d0 and 0 <= y <= 1 and -1 + d1 <= 2y <= d1 }
        C[m, n]      { [mo, no, ko, mi, ni, ki] -> C[d0 = 4mo + mi, d1 = 2no + ni] : 0 <= mo <= 1 and 0 <= no <= 1 and 0 <= ko <= 1 and 0 <= mi <= 3 and 0 <= ni <= 1 and 0 <= ki <= 2 }
        C owned by   { C[d0, d1] -> [x, y] : 0 <= d0 <= 7 and 0 <= d1 <= 3 and 0 <= x <= 1 and -3 + d0 <= 4x <= d0 and 0 <= y <= 1 and -1 + d1 <= 2y <= d1 }
    "#]].assert_eq(&lower("relations"));
    expect![[r#"
        fn summa(A: [f32; 8, 6], B: [f32; 6, 4]) -> C: [f32; 8, 4] { C[m, n] += A[m, k] * B[k, n] }
        .distribute([m, n], [mo, no], [mi, ni], mesh(x: 2, y: 2))
        .divide(k, ko, ki, 2)
        .reorder([mo, no, ko, mi, ni, ki])
        .shard(A, m @ x, k @ y)
        .shard(B, k @ x, n @ y)
        .shard(C, m @ x, n @ y)
        .communicate(A, ko)
        .communicate(B, ko)
        .tensorize([mi, ni, ki])
    "#]]
    .assert_eq(&lower("chain"));
    // What is printed as a chain is a file of kernels again.
    let again = folder.poly(&lower("chain"));
    assert_eq!(COMMAND_LINE.said(Start::Plain, &["lower", &again]), program);
    let main = lower("main");
    assert!(main.contains("mpirun -n 4 target/release/compute-summa A.npy B.npy C.npy"), "{main}");
    let crate_folder = folder.path("summa");
    let _ = fs::remove_dir_all(&crate_folder);
    COMMAND_LINE
        .said(Start::Plain, &[&["lower", &summa][..], &sizes, &["--print", "main", "--out", &crate_folder]].concat());
    let written = fs::read_to_string(Path::new(&crate_folder).join("src/main.rs")).expect("it was written");
    assert!(main.ends_with(&written));
    folder.refused(
        &[&["lower", &summa][..], &sizes, &["--print", "main", "--out", &crate_folder]].concat(),
        expect![[r#"
            error: `summa` exists already; name a folder that does not
        "#]],
    );
    folder.refused(
        &[&["lower", &summa][..], &sizes, &["--out", &crate_folder]].concat(),
        expect![[r#"
        error: `--out` is for `--print main`; leave it out, or print `main`
    "#]],
    );
    folder.refused(
        &["lower", &summa, "--type", "f32"],
        expect![[r#"
            error: `m` has no value
             --> summa.poly:3:17
              |
            3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
              |                 ^
              |
              = help: declare an input with the extent `m`, or set it: `--let m=10`

            error: `k` has no value
             --> summa.poly:3:20
              |
            3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
              |                    ^
              |
              = help: declare an input with the extent `k`, or set it: `--let k=10`

            error: `n` has no value
             --> summa.poly:3:34
              |
            3 | fn summa(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] {
              |                                  ^
              |
              = help: declare an input with the extent `n`, or set it: `--let n=10`
        "#]],
    );
}
