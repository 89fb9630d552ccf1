//! `polyshard run` and `polyshard lower`, as a user runs them: the files under `examples/poly` on threads and
//! processes, output, and errors shown in place.

use expect_test::expect;
use polyshard_testing::command_line::CommandLine;
use polyshard_testing::start::Start;
use polyshard_testing::test_folder;
use std::fs;
use std::path::{Path, PathBuf};

mod auto;
mod names;
mod refused;
mod results;
mod rounds;
mod running;

const COMMAND_LINE: CommandLine = CommandLine::new(env!("CARGO_BIN_EXE_polyshard"), env!("CARGO_TARGET_TMPDIR"));

/// Each file, the shapes of its inputs, and the number of ranks that it needs.
const EXAMPLES: [(&str, &[&str], usize); 21] = [
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
    ("restarted", &["7,7", "7"], 4),
    ("wave", &["9,14", "9,14"], 4),
    ("mlp", &["13,6", "6,7", "7", "7,3", "3", "13,3"], 4),
    ("attention", &["2,9,4", "2,7,4", "2,7,3"], 4),
    ("layernorm", &["9,14", "14", "14"], 4),
    ("ring", &["2,9,4", "2,7,4", "2,7,3"], 4),
    ("kmeans", &["13,2", "5,2"], 4),
];

/// The names that files leave open, except extents.
fn values(name: &str) -> &'static [&'static str] {
    match name {
        "steps" | "power" => &["--let", "steps=5"],
        "heat" => &["--let", "steps=5", "--let", "tolerance=1e-3"],
        "wave" => &["--let", "steps=5", "--let", "c=0.1"],
        "cg" | "jacobi" => &["--let", "rounds=7", "--let", "tolerance=1e-9"],
        "restarted" => &["--let", "restarts=2", "--let", "steps=3", "--let", "tolerance=1e-9"],
        "attention" => &["--let", "scale=0.5"],
        "ring" => &["--let", "scale=0.5", "--let", "causal=1"],
        "kmeans" => &["--let", "rounds=20"],
        "layernorm" => &["--let", "eps=1e-5"],
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

    /// Returns the error of a command, with the folder left out.
    #[track_caller]
    fn refusal(&self, arguments: &[&str]) -> String {
        COMMAND_LINE.refusal(arguments, &[&self.0, Path::new(example("").trim_end_matches("/.poly"))])
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
            // Files that compute means or roots need floats.
            let of_integers = ["summa", "pumma", "cannon", "ag_gemm", "cosma", "mttkrp", "syrk", "chain", "tucker"];
            if dtype == "i32" && !of_integers.contains(&name) {
                continue;
            }
            let (file, arrays) = (example(name), folder.arrays(dtype, shapes));
            let mut written: Vec<Vec<u8>> = Vec::new();
            for start in starts(ranks) {
                let out = folder.path("out.npy");
                let count = ranks.to_string();
                // Under a launcher, the ranks are the started processes.
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
            // Chosen schedules may differ, since measured machines do.
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
            Some(("read" | "wrote", _)) => format!("{}\n", line.replace(&format!("{}/", folder.0.display()), "")),
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
        memory   at most 36.58 kB a rank, and up to 86.86 kB that products of matrices copy
        read     X from 0.npy, W from 1.npy, V from 2.npy
        ran ..
        checked  53 of 53 rows against a sequential computation: largest error 1.8e-7, relative to the largest element
        wrote    out.npy: Z, 53 x 29, f32
    "#]]
    .assert_eq(&said);
}

#[test]
fn fewer_or_more_ranks_than_the_mesh_has() {
    let folder = Folder(test_folder!("poly_ranks"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let file = example("summa");
    expect![[r#"
        error: the mesh has 4 ranks, but the program runs on 3 ranks; give `--ranks 4`, or leave the mesh out to have one chosen
    "#]].assert_eq(&folder.refusal(&words(&["run", &file], &arrays, &["--out", &out, "--ranks", "3"])));
    // Two are idle.
    let said = COMMAND_LINE.said(Start::Plain, &words(&["run", &file], &arrays, &["--out", &out, "--ranks", "6"]));
    assert!(said.contains("ranks    4 of 6 (threads)\n"), "{said}");
}

#[test]
fn written_schedules_keep_to_the_memory_that_is_allowed() {
    let folder = Folder(test_folder!("poly_memory"));
    let (arrays, out) = (folder.arrays("f32", &["6,7", "7,5"]), folder.path("out.npy"));
    let run =
        |more: &[&str]| words(&["run", &example("summa")], &arrays, &[&["--out", &out], more].concat()).join("\n");
    let refused = run(&["--memory", "100B"]);
    expect![[r#"
        error: the schedules in the file need up to 228 B a rank, but `--memory` allows 100 B; raise `--memory`, or write `auto` to have schedules chosen that fit
    "#]].assert_eq(&folder.refusal(&refused.split('\n').collect::<Vec<_>>()));
    assert!(!Path::new(&out).exists());
    COMMAND_LINE.said(Start::Plain, &run(&["--memory", "1.5kB"]).split('\n').collect::<Vec<_>>());
    // For chosen schedules, the error states how many ranks would be enough.
    let product = "(A: [f32; 6, 7], B: [f32; 7, 5]) -> C: [f32; 6, 5] { C[i, j] = A[i, k] * B[k, j] }\nauto\n";
    let other = "(C: [f32; 6, 5], D: [f32; 5, 4]) -> E: [f32; 6, 4] { E[i, j] = C[i, k] * D[k, j] }\nauto\n";
    let chain = folder.poly(&format!("fn first{product}\nfn second{other}"));
    let arrays = folder.arrays("f32", &["6,7", "7,5", "5,4"]);
    let run = |ranks| {
        let more = ["--out", &out, "--machine", "a100", "--memory", "200B", "--ranks", ranks];
        words(&["run", &chain], &arrays, &more).join("\n")
    };
    expect![[r#"
        error: no schedule of `first`, `second` on up to 2 ranks fits into 200 B a rank; the smallest needs 372 B: allow that, or use 8 ranks, the fewest that would be enough
    "#]].assert_eq(&folder.refusal(&run("2").split('\n').collect::<Vec<_>>()));
    COMMAND_LINE.said(Start::Plain, &run("8").split('\n').collect::<Vec<_>>());
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
    expect![[r#"
        error: `pad` has no value
         --> kernels.poly:1:31
          |
        1 | fn f(A: [T; n]) -> B: [T; n + pad] { B[i] = alpha * A[(i - 1) % n] for i in pad..n }
          |                               ^^^
          |
          = help: declare an input with the extent `pad`, or set it: `--let pad=10`
    "#]]
    .assert_eq(&folder.refusal(&run));
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
        // files in this order: A=A.npy B=B.npy
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
    // The printed chain is again a file of kernels.
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
    let refusals = [
        folder.refusal(&[&["lower", &summa][..], &sizes, &["--print", "main", "--out", &crate_folder]].concat()),
        folder.refusal(&[&["lower", &summa][..], &sizes, &["--out", &crate_folder]].concat()),
        folder.refusal(&["lower", &summa, "--type", "f32"]),
    ]
    .concat();
    expect![[r#"
        error: `summa` exists already; give a new folder
        error: `--out` is for `--print main`; leave it out, or add `--print main`
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
    "#]]
    .assert_eq(&refusals);
}
