//! `polyshard einsum`, as a user runs it: results on threads and processes, output, and errors.

use expect_test::expect;
use polyshard::layout::DType;
use polyshard::ndarray::ArrayD;
use polyshard::runtime::{NpyFile, reference};
use polyshard::text::{Operand, einsum};
use polyshard_testing::command_line::{CommandLine, json};
use polyshard_testing::start::{Ended, Start, run_with};
use polyshard_testing::test_folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod homes;
mod networks;
mod out;
mod why;

const COMMAND_LINE: CommandLine = CommandLine::new(env!("CARGO_BIN_EXE_polyshard"), env!("CARGO_TARGET_TMPDIR"));

/// A machine whose messages take much longer than its operations.
#[cfg(feature = "mpi")]
const SLOW: &str = r#"
    name = "slow"
    [device]
    memory_bandwidth = 1e11
    memory_capacity = 100_000_000_000
    flops = { f64 = 1e10 }
    [[level]]
    name = "rank"
    count = 8
    interconnect = "switch"
    bandwidth = 2e7
    latency = 1e-6
"#;

/// Arrays in files of a folder.
struct Files {
    folder: PathBuf,
}

impl Files {
    /// Writes random arrays of these shapes, `A.npy`, `B.npy` and so on.
    fn new(folder: PathBuf, dtype: DType, shapes: &[&[usize]]) -> Self {
        let files = Self { folder };
        for (nth, shape) in shapes.iter().enumerate() {
            let name = char::from(b'A' + nth as u8);
            let shape: Vec<_> = shape.iter().map(usize::to_string).collect();
            let (out, seed) = (files.path(&format!("{name}.npy")), (nth + 1).to_string());
            let shape = shape.join(",");
            let arguments = ["random", "--shape", &shape, "--type", dtype.name(), "--seed", &seed, "--out", &out];
            COMMAND_LINE.said(Start::Plain, &arguments);
        }
        files
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("cargo's folder has a plain name").to_owned()
    }

    fn arguments(&self, text: &str, names: &[&str], more: &[&str]) -> Vec<String> {
        let files = names.iter().map(|name| self.path(name));
        ["einsum".to_owned(), text.to_owned()]
            .into_iter()
            .chain(files)
            .chain(more.iter().map(ToString::to_string))
            .collect()
    }

    fn run(&self, start: Start, text: &str, names: &[&str], more: &[&str]) -> Ended {
        let arguments = self.arguments(text, names, more);
        COMMAND_LINE.run(start, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[track_caller]
    fn said(&self, start: Start, text: &str, names: &[&str], more: &[&str]) -> String {
        let Ended { success, stdout, stderr, .. } = self.run(start, text, names, more);
        assert!(success && stderr.is_empty(), "{text} on {start:?}:\n{stdout}\n{stderr}");
        stdout
    }

    #[track_caller]
    fn refusal(&self, text: &str, names: &[&str], more: &[&str]) -> String {
        let arguments = self.arguments(text, names, more);
        COMMAND_LINE.refusal(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[&self.folder])
    }

    fn read(&self, name: &str) -> ArrayD<f64> {
        NpyFile::open(self.path(name)).expect("the file is there").read().expect("it is an array")
    }

    /// Computes an einsum of 64-bit floats and compares every element with the sequential result.
    #[track_caller]
    fn check(&self, start: Start, text: &str, names: &[&str], more: &[&str]) -> String {
        let out = self.path("out.npy");
        let _ = fs::remove_file(&out);
        let said = self.said(start, text, names, &[more, &["--out", &out, "--check"]].concat());
        let arrays: Vec<_> = names.iter().map(|name| self.read(name)).collect();
        let operands: Vec<_> =
            names.iter().zip(&arrays).map(|(source, array)| Operand { source, shape: array.shape() }).collect();
        let kernel = einsum(text, &operands, DType::F64, "out").expect("an einsum").check().expect("a kernel");
        let mut inputs: Vec<&ArrayD<f64>> = Vec::new();
        for (nth, array) in arrays.iter().enumerate() {
            if !names[..nth].contains(&names[nth]) {
                inputs.push(array);
            }
        }
        let expected = reference(&kernel, &inputs, None).expect("the kernel's arrays");
        let found = self.read("out.npy");
        assert_eq!(found.shape(), expected.shape(), "{text}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-9, "{text}: {found} is not {expected}");
        }
        said
    }
}

#[test]
fn einsums_of_all_kinds_are_computed_on_threads() {
    let shapes: [&[usize]; 4] = [&[13, 7], &[7, 9], &[9, 13], &[7, 7]];
    let files = Files::new(test_folder!("einsum_threads"), DType::F64, &shapes);
    let cases: [(&str, &[&str]); 9] = [
        ("ij,jk->ik", &["A.npy", "B.npy"]),
        ("ij,jk,kl->il", &["A.npy", "B.npy", "C.npy"]),
        ("ij,jk,ki->", &["A.npy", "B.npy", "C.npy"]),
        ("ik,jk->ij", &["A.npy", "A.npy"]),
        ("ij->ji", &["A.npy"]),
        ("ii->i", &["D.npy"]),
        ("ii", &["D.npy"]),
        ("i...->...", &["A.npy"]),
        ("out[i, k] = A[i, j] * B[j, k] + 2.0", &["A.npy", "B.npy"]),
    ];
    for (text, names) in cases {
        for ranks in ["1", "2", "5"] {
            files.check(Start::Plain, text, names, &["--ranks", ranks]);
        }
    }
}

#[test]
fn all_types_are_computed() {
    for dtype in [DType::F32, DType::I32, DType::I64] {
        let files = Files::new(test_folder!(&format!("einsum_{dtype}")), dtype, &[&[20, 30], &[30, 10]]);
        let out = files.path("C.npy");
        let said =
            files.said(Start::Plain, "ij,jk->ik", &["A.npy", "B.npy"], &["--ranks", "3", "--out", &out, "--check"]);
        assert!(said.contains("checked  8 of 20 rows against a sequential computation: largest error "), "{said}");
        assert!(said.ends_with(&format!("wrote    {out}: C, 20 x 10, {dtype}\n")), "{said}");
    }
}

#[test]
fn memory_makes_panels_and_other_ranks_stay_idle() {
    let files = Files::new(test_folder!("einsum_memory"), DType::F64, &[&[64, 64], &[64, 64]]);
    let names = ["A.npy", "B.npy"];
    let free = json(&files.said(Start::Plain, "ij,jk->ik", &names, &["--ranks", "4", "--dry-run", "--json"]));
    let least = 3 * 64 * 64 * 8 / 4 + 6000;
    assert!(free["memory_bytes"].as_u64() > Some(least));
    let bound = least.to_string();
    let more = ["--ranks", "4", "--memory", &bound, "--json"];
    let held = json(&files.check(Start::Plain, "ij,jk->ik", &names, &more));
    assert!(held["memory_bytes"].as_u64() <= Some(least), "{held}");
    // Three rows can use only three ranks, and a sum with one term cannot be divided.
    let files = Files::new(test_folder!("einsum_idle"), DType::F64, &[&[3, 1], &[1, 1]]);
    let few = json(&files.check(Start::Plain, "ij,jk->ik", &names, &["--ranks", "5", "--json"]));
    assert!(few["used"].as_u64() <= Some(3), "{few}");
}

#[test]
#[cfg(feature = "mpi")]
fn processes_compute_the_same_and_one_of_them_speaks() {
    let files = Files::new(test_folder!("einsum_mpi"), DType::F64, &[&[40, 30], &[30, 20]]);
    let names = ["A.npy", "B.npy"];
    for ranks in [1, 2, 3, 5] {
        let said = files.check(Start::Mpi(ranks), "ij,jk->ik", &names, &[]);
        assert_eq!(said.matches("kernel  ").count(), 1, "{said}");
        assert_eq!(said.matches("wrote   ").count(), 1, "{said}");
    }
    // With slow words and little memory, six of seven processes compute, and one is idle.
    let files = Files::new(test_folder!("einsum_mpi_idle"), DType::F64, &[&[128, 128], &[128, 128]]);
    let machine = files.path("slow.toml");
    fs::write(&machine, SLOW).expect("the folder is ours");
    let (held, more) = ((3 * 128 * 128 * 8 / 6 + 20_000).to_string(), ["--machine", &machine, "--json", "--memory"]);
    let said = json(&files.check(Start::Mpi(7), "ij,jk->ik", &names, &[&more[..], &[&held]].concat()));
    assert_eq!((&said["ranks"], &said["used"]), (&7.into(), &6.into()), "{said}");
    let Ended { success, stderr, .. } =
        files.run(Start::Mpi(3), "ij,jk->ik", &["A.npy", "none.npy"], &["--out", "x.npy"]);
    assert!(!success);
    assert_eq!(stderr.matches("error: cannot open").count(), 1, "{stderr}");
}

#[test]
fn what_is_chosen_is_printed() {
    let files = Files::new(test_folder!("einsum_printed"), DType::F32, &[&[512, 512], &[512, 512]]);
    let print = |more: &[&str]| {
        let machine = ["--ranks", "6", "--machine", "a100"];
        let said = files.said(Start::Plain, "ij,jk->ik", &["A.npy", "B.npy"], &[&machine, more].concat());
        said.replace(&format!("{}/", files.folder.display()), "")
    };
    expect![[r#"
        // files in this order: A=A.npy B=B.npy
        fn einsum(A: [f32; 512, 512], B: [f32; 512, 512]) -> out: [f32; 512, 512] { out[i, k] = A[i, j] * B[j, k] }
        .distribute([j], [jo], [ji], mesh(x: 6))
        .shard(A, j @ x)
        .shard(B, j @ x)
        .shard(out, i @ x)
        .tensorize([i, k, ji])
    "#]]
    .assert_eq(&print(&["--print", "chain"]));
    expect![[r#"
        kernel   out[i, k] = A[i, j] * B[j, k], i 512, k 512, j 512, f32, 270.5 Moperations
        ranks    6 (threads) on a100: 4 nodes x 16 gpus
        grid     j 6 (all 6 ranks; 25 grids considered, no other can be faster)
        moves    out reduce_scatter(x), 880.6 kB
        words    at most 220160 a rank; no algorithm that divides the work evenly moves fewer than 107102: 2.06
        memory   at most 2.46 MB a rank, and up to 418.5 kB that products of matrices copy
        time     8.55 us predicted: computing 2.31 us, moving 6.24 us

        grid (i k j)  ranks  steps   words  / bound  seconds   memory
        1 1 6             6      1  220160    2.056  8.55 us  2.46 MB
        1 1 5             5      1  210944    1.889  8.88 us  2.53 MB
        1 1 4             4      1  196608    1.702  9.35 us  2.62 MB
    "#]]
    .assert_eq(&print(&["--dry-run", "--top", "3"]));
    assert!(print(&["--print", "program"]).contains("einsum"));
    assert!(print(&["--print", "explain"]).contains("lower bound"));
    assert!(print(&["--print", "cost"]).contains("in all "));
    assert!(print(&["--print", "source"]).contains("pub fn run"));
    let answer = json(&print(&["--dry-run", "--json"]));
    assert_eq!(answer["kernel"], "out[i, k] = A[i, j] * B[j, k]");
    assert_eq!(answer["gap"], 0.0);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_done() {
    let files = Files::new(test_folder!("einsum_refused"), DType::F64, &[&[4, 6], &[5, 3], &[6, 3]]);
    let text = "ij,jk->ik";
    let out = ["--out", "out.npy"];
    let short = ["--dry-run", "--machine", "a100", "--memory", "100", "--ranks"];
    let refusals = [
        files.refusal(text, &["A.npy", "B.npy"], &out),
        files.refusal("ij,jk->il", &["A.npy", "C.npy"], &out),
        files.refusal(text, &["A.npy"], &out),
        files.refusal(text, &["A.npy", "none.npy"], &out),
        files.refusal(text, &["A.npy", "C.npy"], &["--out", "out.npy", "--at-most", "-1"]),
        files.refusal("C[i, k] = A[i, j] * B[j, k", &["A.npy", "C.npy"], &out),
        files.refusal(text, &["A.npy", "C.npy"], &[&short[..], &["2"]].concat()),
    ]
    .concat();
    expect![[r#"
        error: index `j` is 6 in A.npy (4 x 6) and 5 in B.npy (5 x 3); an index has one extent
        error: index `l` is only in the output; the operands have i, j, k
        error: 2 terms for 1 array; write one term for each array, such as `ij,jk->ik` for two
        error: cannot open `none.npy`: No such file or directory (os error 2)
        error: `--at-most` must be 0 seconds or more, found -1
        error: `[` is not closed
         --> einsum:1:22
          |
        1 | C[i, k] = A[i, j] * B[j, k
          |                      ^
          |
          = help: write `]` where it ends
        error: no schedule of `einsum` on up to 2 ranks fits into 100 B a rank; the smallest needs 272 B: allow that, or use 6 ranks, the fewest that would be enough
    "#]].assert_eq(&refusals);
    let said = files.said(Start::Plain, text, &["A.npy", "C.npy"], &[&short[..], &["6"]].concat());
    assert!(said.contains("(all 6 ranks; "), "{said}");
    let smaller = ["--dry-run", "--ranks", "65", "--machine", "a100", "--hierarchy", "4,16"];
    expect![[r#"
        error: a100: 4 nodes x 16 gpus has 64 devices, too few for 65 ranks; use fewer ranks, or raise the counts of its levels with `--hierarchy`
    "#]].assert_eq(&files.refusal(text, &["A.npy", "C.npy"], &smaller));
    let grown = files.said(Start::Plain, text, &["A.npy", "C.npy"], &smaller[..5]);
    assert!(grown.contains("ranks    65 (threads) on a100: 5 nodes x 16 gpus\n"), "{grown}");
    assert!(!Path::new("out.npy").exists());
}

#[test]
fn products_of_several_arrays_are_computed_in_the_order_that_is_asked_for() {
    let files = Files::new(test_folder!("einsum_order"), DType::F64, &[&[13, 7], &[7, 9], &[9, 13]]);
    let (text, names) = ("ij,jk,kl->il", ["A.npy", "B.npy", "C.npy"]);
    for order in ["ij,jk; ik,kl", "jk,kl", "C,B; A,jl", ""] {
        for ranks in ["1", "3"] {
            let said = files.check(Start::Plain, text, &names, &["--ranks", ranks, "--order", order]);
            assert_eq!(said.matches("kernel ").count(), if order.is_empty() { 1 } else { 2 }, "{order}:\n{said}");
            let first_received = said.lines().find_map(|line| line.split_once("; the first rank received "));
            let received = first_received.map(|(_, received)| received.contains(" MB"));
            assert_eq!(received, Some(false), "what came before the run is not of it:\n{said}");
        }
    }
    #[cfg(feature = "mpi")]
    files.check(Start::Mpi(2), text, &names, &["--order", "jk,kl"]);
    // The words of all kernels next to the sum of their lower bounds.
    let more = ["--dry-run", "--ranks", "64", "--machine", "a100", "--order", "ij,jk"];
    let files = Files::new(test_folder!("einsum_words"), DType::F64, &[&[512, 512], &[512, 512], &[512, 512]]);
    let said = files.said(Start::Plain, text, &names, &more);
    let words = said.lines().find(|line| line.starts_with("words")).expect("words are said");
    assert!(
        words.contains(" a rank; the kernels one by one, as their arrays lie and evenly divided, move no fewer than "),
        "{words}"
    );
    let files = Files::new(test_folder!("einsum_order"), DType::F64, &[&[13, 7], &[7, 9], &[9, 13]]);
    // The printed chain is a file of kernels that gives the same program.
    let more = ["--dry-run", "--ranks", "4", "--machine", "a100", "--order", "ij,jk"];
    let chain = files.said(Start::Plain, text, &names, &[&more[..], &["--print", "chain"]].concat());
    let poly = files.path("order.poly");
    fs::write(&poly, chain).expect("the folder is there");
    let program = COMMAND_LINE.said(Start::Plain, &["lower", &poly, "--print", "program"]);
    assert_eq!(files.said(Start::Plain, text, &names, &[&more[..], &["--print", "program"]].concat()), program);
    let answer = json(&files.said(Start::Plain, text, &names, &[&more[..], &["--json"]].concat()));
    assert_eq!(answer["order"], "ij,jk; kl,ik");
    assert_eq!(answer["chains"].as_array().map(Vec::len), Some(2));
    // For the kernels of an order, the error also states how many ranks would be enough.
    let short = |ranks| ["--dry-run", "--machine", "a100", "--memory", "1500", "--order", "ij,jk", "--ranks", ranks];
    let refusals =
        [files.refusal(text, &names, &["--dry-run", "--order", "ij,jl"]), files.refusal(text, &names, &short("2"))]
            .concat();
    expect![[r#"
        error: cannot contract `ij,jl`: there is no `jl`; what is left is jk, kl
        error: no schedule of `einsum_1`, `einsum` on up to 2 ranks fits into 1.50 kB a rank; the smallest needs 2.85 kB: allow that, or use 5 ranks, the fewest that would be enough
    "#]].assert_eq(&refusals);
    files.said(Start::Plain, text, &names, &short("5"));
    expect![[r#"
        error: `out[j, i] = A[i, j]` is not a summed product of several tensors with plain indices; leave the order out
    "#]]
    .assert_eq(&files.refusal("ij->ji", &["A.npy"], &["--dry-run", "--order", "ij,jk"]));
}

/// The outcome of a command with these environment variables: the line that names the machine of the figures, and
/// standard error.
#[track_caller]
fn of_machine(files: &Files, variables: &[&str], start: Start, more: &[&str]) -> (String, Ended) {
    let out = files.path("C.npy");
    let arguments = files.arguments("ij,jk->ik", &["A.npy", "B.npy"], &[&["--out", &out], more].concat());
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let program = Path::new(env!("CARGO_BIN_EXE_polyshard"));
    let ended = run_with(variables, start, program, &arguments, Duration::from_secs(120));
    assert!(ended.success, "{}", ended.stderr);
    let line = ended.stdout.lines().find(|line| line.starts_with("machine")).expect("it is said").to_owned();
    (line, ended)
}

#[test]
fn a_machine_is_measured_once_and_kept_and_not_for_little_work() {
    let folder = test_folder!("einsum_machine");
    let files = Files::new(folder, DType::F64, &[&[3, 4], &[4, 3]]);
    let cache = files.path("cache");
    let _ = fs::remove_dir_all(&cache);
    let cache_of = format!("XDG_CACHE_HOME={cache}");
    // Figures that others have measured and saved in another folder are not found.
    let elsewhere = format!("TMPDIR={}", files.path(""));
    let in_cache = || fs::read_dir(Path::new(&cache).join("polyshard")).map_or(0, Iterator::count);
    let run =
        |more: &[&str]| of_machine(&files, &[&cache_of, &elsewhere], Start::Plain, &[&["--ranks", "2"], more].concat());
    for _ in 0..2 {
        let (line, ended) = run(&[]);
        assert_eq!(line, "machine  not measured, since the program is too short to matter; `--measure` measures it");
        assert_eq!((&*ended.stderr, in_cache()), ("", 0));
    }
    let (line, ended) = run(&["--measure"]);
    assert!(line.starts_with(&format!("machine  measured now, and saved in {cache}/polyshard/")), "{line}");
    assert_eq!(ended.stderr, "measuring this machine again, for some seconds\n");
    let chain = |of: &[&str]| of_machine(&files, &[&cache_of], Start::Plain, &[&["--ranks", "2"], of].concat());
    let (again, ended) = chain(&[]);
    assert!(again.starts_with("machine  measured ") && again.contains(" ago, from "), "{again}");
    assert_eq!(ended.stderr, "");
    // A named file is read, or written if it does not exist.
    let own = files.path("own.toml");
    let named = format!("POLYSHARD_MACHINE={own}");
    let _ = fs::remove_file(&own);
    let (line, _) = of_machine(&files, &[&cache_of, &named], Start::Plain, &["--ranks", "2", "--measure"]);
    assert!(line.starts_with(&format!("machine  measured now, and saved in {own}")), "{line}");
    let arguments = files.arguments("ij,jk->ik", &["A.npy", "B.npy"], &["--dry-run", "--ranks", "2"]);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    for (machine, is_on) in [(&*own, "on detected: 2 ranks\n"), ("v100", "on v100: 4 nodes x 8 gpus\n")] {
        let variable = format!("POLYSHARD_MACHINE={machine}");
        let program = Path::new(env!("CARGO_BIN_EXE_polyshard"));
        let said = run_with(&[&variable], Start::Plain, program, &arguments, Duration::from_secs(60)).stdout;
        assert!(said.contains(is_on), "{said}");
    }
}

/// Work of several seconds is worth a measurement of one second; the next command finds its figures, and chooses the
/// same schedule.
#[test]
fn two_commands_that_follow_one_another_choose_alike() {
    let files = Files::new(test_folder!("einsum_machine_alike"), DType::F64, &[&[2000, 2000]]);
    let cache = files.path("cache");
    let _ = fs::remove_dir_all(&cache);
    let cache_of = format!("XDG_CACHE_HOME={cache}");
    let arguments = files.arguments("ij,jk->ik", &["A.npy", "A.npy"], &["--dry-run", "--ranks", "2"]);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let program = Path::new(env!("CARGO_BIN_EXE_polyshard"));
    let elsewhere = format!("TMPDIR={}", files.path(""));
    let run = || run_with(&[&cache_of, &elsewhere], Start::Plain, program, &arguments, Duration::from_secs(120));
    let [first, second] = [run(), run()];
    let measuring = "measuring this machine for a second: it was not measured before, or only while other work ran\n";
    assert_eq!((&*first.stderr, &*second.stderr), (measuring, ""), "{}", first.stdout);
    let rest =
        |said: &Ended| said.stdout.lines().filter(|line| !line.starts_with("machine")).collect::<Vec<_>>().join("\n");
    assert_eq!(rest(&first), rest(&second));
}

#[test]
fn one_process_of_a_launcher_has_threads_for_its_ranks() {
    let files = Files::new(test_folder!("einsum_one_process"), DType::F64, &[&[3, 4], &[4, 3]]);
    let [cache, elsewhere] = ["XDG_CACHE_HOME", "TMPDIR"].map(|name| format!("{name}={}", files.path("")));
    let variables = ["PMI_RANK=0", "PMI_SIZE=1", &cache, &elsewhere];
    let (_, ended) = of_machine(&files, &variables, Start::Plain, &["--ranks", "2", "--all-ranks", "--check"]);
    assert!(ended.stdout.contains("ranks    2 (threads) on assumed: 2 ranks\n"), "{}", ended.stdout);
}
