//! Runs that are disturbed by signals, or by writes to their input files.

use polyshard::ndarray::{ArrayD, Ix2};
use polyshard::runtime::NpyFile;
use polyshard_testing::command_line::CommandLine;
use polyshard_testing::start::{Ended, Start, run_with};
use polyshard_testing::test_folder;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_polyshard");

const COMMAND_LINE: CommandLine = CommandLine::new(PROGRAM, env!("CARGO_TARGET_TMPDIR"));

const LIMIT: Duration = Duration::from_secs(60);

/// A machine that need not be measured.
const MACHINE: &str = r#"
    name = "test"
    [device]
    memory_bandwidth = 1e11
    memory_capacity = 100_000_000_000
    flops = { f64 = 1e10, i64 = 1e10 }
    [[level]]
    name = "rank"
    count = 2
    interconnect = "switch"
    bandwidth = 1e9
    latency = 1e-6
"#;

/// Writes the machine to a file of the folder.
fn machine(folder: &Path) -> PathBuf {
    let path = folder.join("machine.toml");
    fs::write(&path, MACHINE).expect("the folder is ours");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("cargo's folder has a plain name")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is ours");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Makes a random array in `folder`.
fn random(folder: &Path, name: &str, shape: &str, dtype: &str) -> PathBuf {
    let path = folder.join(name);
    COMMAND_LINE.said(Start::Plain, &["random", "--shape", shape, "--type", dtype, "--out", text(&path)]);
    path
}

/// Begins to write a large file, sends a signal as soon as some of it exists, and returns the exit code.
fn interrupted(folder: &Path, signal: &str, variables: &[&str]) -> Option<i32> {
    let out = folder.join("A.npy");
    // The test's parent process may ignore some of these signals.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,TERM,HUP").args(variables).arg(PROGRAM);
    command.args(["random", "--shape", "40000,40000", "--out", text(&out)]).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let files = format!("/proc/{}/fd", child.id());
    let began = Instant::now();
    // `env` becomes the program, whose file is one of those that it has open.
    let is_written = || {
        let files = fs::read_dir(&files).expect("it runs").filter_map(|file| Some(file.ok()?.path()));
        let mut files = files.filter(|file| fs::read_link(file).is_ok_and(|target| target.starts_with(folder)));
        files.any(|file| fs::metadata(file).is_ok_and(|there| there.len() > 1 << 20))
    };
    while !is_written() {
        assert!(began.elapsed() < LIMIT, "it does not begin to write");
        thread::sleep(Duration::from_millis(5));
    }
    kill(signal, &child.id().to_string());
    child.wait().expect("it ends").code()
}

#[test]
fn a_run_that_is_interrupted_while_it_writes_leaves_nothing() {
    let folder = test_folder!("interrupted").canonicalize().expect("it was just made");
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for variables in [&[][..], &["POLYSHARD_PARTIAL=named"]] {
            assert_eq!(interrupted(&folder, signal, variables), Some(code), "{signal} {variables:?}");
            assert_eq!(names(&folder), [""; 0], "{signal} {variables:?}");
        }
    }
}

/// Starts a command on two processes, with variables for them.
fn mpirun(variables: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "-n", "2", "env", "--default-signal=INT,TERM,HUP"]).args(variables);
    command.arg(PROGRAM).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// The folders of all processes.
fn processes() -> impl Iterator<Item = PathBuf> {
    fs::read_dir("/proc").expect("Linux has it").filter_map(|process| Some(process.ok()?.path()))
}

fn kill(signal: &str, process: &str) {
    assert!(Command::new("kill").args(["-s", signal, process]).status().expect("kill starts").success());
}

/// Waits until a condition holds.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The second result is written to a pipe without a reader, so that the first is complete but not yet renamed when the
/// run ends.
#[test]
fn mpirun_that_is_ended_while_a_result_is_written_leaves_nothing() {
    let folder = test_folder!("ended").canonicalize().expect("it was just made");
    let (kernels, pipe) = (folder.join("kernels.poly"), folder.join("pipe"));
    let kernel = |[from, to]: [&str; 2]| {
        let schedule = format!("mesh(x: 2).distribute([i], [io], [ii]).shard({from}, i @ x).shard({to}, i @ x)");
        format!("fn to_{to}({from}: [T; n]) -> {to}: [T; n] {{ {to}[i] = 2 * {from}[i] }} {schedule}\n")
    };
    fs::write(&kernels, [["A", "B"], ["B", "C"]].map(kernel).concat()).expect("the folder is ours");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    let a = random(&folder, "A.npy", "10000", "f64");
    let [out, last] = ["B=out.npy", "C=pipe"].map(|file| file.replace('=', &format!("={}/", folder.display())));
    let arguments = ["run", text(&kernels), text(&a), "--out", &out, "--out", &last];
    let mut child = mpirun(&["POLYSHARD_PARTIAL=named"], &arguments).spawn().expect("mpirun starts");
    let partial = || names(&folder).into_iter().find(|name| name.ends_with(".partial"));
    let len = |name: String| fs::metadata(folder.join(name)).map_or(0, |there| there.len());
    wait_until("the first result is written", || partial().is_some_and(|name| len(name) > 80_000));
    kill("TERM", &child.id().to_string());
    assert!(!child.wait().expect("it ends").success());
    wait_until("the file is removed", || partial().is_none());
    assert!(!folder.join("out.npy").exists(), "no result is put in its place before all are complete");
}

/// Each of the processes reads half of the file, which was truncated.
#[test]
fn a_file_that_is_cut_while_processes_read_it_is_named_once() {
    let folder = test_folder!("cut").canonicalize().expect("it was just made");
    let (machine, a, out) = (machine(&folder), random(&folder, "A.npy", "40000,3000", "f64"), folder.join("out.npy"));
    let arguments = ["einsum", "ij->i", text(&a), "--ranks", "2", "--machine", text(&machine), "--out", text(&out)];
    let child = mpirun(&[], &arguments).spawn().expect("mpirun starts");
    let maps = |process: PathBuf| fs::read_to_string(process.join("maps")).unwrap_or_default();
    wait_until("both map it", || processes().filter(|process| maps(process.clone()).contains(text(&a))).count() == 2);
    File::options().write(true).open(&a).and_then(|file| file.set_len(4096)).expect("the folder is ours");
    let ended = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && !out.exists(), "{stderr}");
    assert_eq!(stderr.matches(&format!("cannot read `{}`", a.display())).count(), 1, "{stderr}");
    assert_eq!(stderr.matches("error: ").count(), 1, "{stderr}");
}

#[test]
fn what_a_killed_run_leaves_over_is_named_by_the_next() {
    let folder = test_folder!("killed").canonicalize().expect("it was just made");
    assert_eq!(interrupted(&folder, "KILL", &[]), None);
    assert_eq!(names(&folder), [""; 0], "a file without a name goes with its process");
    assert_eq!(interrupted(&folder, "KILL", &["POLYSHARD_PARTIAL=named"]), None);
    let [left] = &names(&folder)[..] else { panic!("one file: {:?}", names(&folder)) };
    let out = folder.join("A.npy");
    let arguments = ["random", "--shape", "3,4", "--out", text(&out)];
    let Ended { success, stderr, .. } = COMMAND_LINE.run(Start::Plain, &arguments);
    let left = folder.join(left);
    let said = format!("`{}` is left over from a run that was killed while it wrote; remove it\n", left.display());
    assert_eq!((success, stderr), (true, said));
    fs::remove_file(left).expect("it is ours");
    let Ended { stderr, .. } =
        run_with(&["POLYSHARD_PARTIAL=named"], Start::Plain, Path::new(PROGRAM), &arguments, LIMIT);
    assert_eq!((names(&folder), &*stderr), (vec!["A.npy".to_owned()], ""));
}

/// The result is written to a pipe, so that the run waits for this test after reading its input.
#[test]
fn an_input_that_changes_while_a_run_reads_it_is_an_error() {
    let folder = test_folder!("changed");
    let (machine, pipe) = (machine(&folder), folder.join("out.npy"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    for (start, changes) in [(Start::Plain, false), (Start::Plain, true), (Start::Mpi(2), true)] {
        // The result has more bytes than a pipe holds.
        let (a, read) = (random(&folder, "A.npy", "200,100", "f64"), pipe.clone());
        let reader = thread::spawn(move || {
            // Opening it waits for the run to write.
            let mut pipe = File::open(read).expect("a pipe");
            if changes {
                let bytes = fs::read(&a).expect("it was just made");
                fs::write(a, [&bytes[..], &[0]].concat()).expect("the folder is ours");
            }
            pipe.read_to_end(&mut Vec::new()).expect("it is written")
        });
        let path = folder.join("A.npy");
        let arguments =
            ["einsum", "ij->ji", text(&path), "--ranks", "2", "--machine", text(&machine), "--out", text(&pipe)];
        let Ended { success, stderr, .. } = COMMAND_LINE.run(start, &arguments);
        reader.join().expect("it reads");
        let message = format!(
            "cannot use `{}`: it has changed since it was opened; run again when nothing writes to it",
            path.display()
        );
        assert_eq!((!success, stderr.matches(&message).count()), (changes, changes.into()), "{stderr}");
    }
}

/// Types of input files may differ: like NumPy, runs compute in the wider one.
#[test]
fn files_of_several_types_are_computed_in_the_wider_one() {
    let folder = test_folder!("mixed");
    let (machine, poly) = (machine(&folder), folder.join("product.poly"));
    let product = "fn product(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[m, n] += A[m, k] * B[k, n] }\nauto";
    fs::write(&poly, product).expect("the folder is ours");
    let out = folder.join("C.npy");
    for (left, right, dtype) in
        [("f32", "f64", "f64"), ("i64", "f32", "f64"), ("i32", "f32", "f64"), ("i64", "i32", "i64")]
    {
        let files = [random(&folder, "A.npy", "7,9", left), random(&folder, "B.npy", "9,4", right)];
        let wide = |path: &Path| -> ArrayD<f64> {
            let file = NpyFile::open(path).expect("a file");
            match file.dtype().name() {
                "i64" => file.read::<i64>().expect("an array").mapv(|element| element as f64),
                "i32" => file.read::<i32>().expect("an array").mapv(f64::from),
                "f32" => file.read::<f32>().expect("an array").mapv(f64::from),
                _ => file.read().expect("an array"),
            }
        };
        let [a, b] = files.each_ref().map(|path| wide(path).into_dimensionality::<Ix2>().expect("a matrix"));
        let expected = a.dot(&b).into_dyn();
        for command in [["einsum", "ij,jk->ik"], ["run", text(&poly)]] {
            let more = ["--ranks", "2", "--machine", text(&machine), "--check", "--out", text(&out)];
            let said =
                COMMAND_LINE.said(Start::Plain, &[&command[..], &[text(&files[0]), text(&files[1])], &more].concat());
            for (path, of) in files.iter().zip([left, right]) {
                let line = format!("convert  {} from {of} to {dtype}\n", path.display());
                assert_eq!(said.contains(&line), of != dtype, "{said}");
            }
            assert_eq!(NpyFile::open(&out).expect("it was written").dtype().name(), dtype);
            let error = (&wide(&out) - &expected).iter().fold(0.0, |most: f64, error| most.max(error.abs()));
            assert!(error < 1e-12, "{left} {right}: {error}");
        }
    }
}
