//! Programs as a user starts them, with and without `mpirun`, and their output.

use crate::nodes::Nodes;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended.
pub struct Ended {
    /// Whether the exit code is 0.
    pub success: bool,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

/// Who starts the ranks of a program.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// The program itself: threads.
    Plain,
    /// `mpirun`: this many processes.
    Mpi(usize),
    /// `mpirun` on these nodes, which exist while it runs.
    Nodes(Nodes),
}

/// Runs a program to its end.
///
/// # Panics
/// If it cannot be started, or runs longer than `limit`; it is ended then.
pub fn run(start: Start, program: &Path, arguments: &[&str], limit: Duration) -> Ended {
    // There is one set of nodes. Other programs run in parallel as tests do, one test per core.
    static NODES: Mutex<()> = Mutex::new(());
    let _nodes = matches!(start, Start::Nodes(_)).then(|| NODES.lock().unwrap_or_else(PoisonError::into_inner));
    let mut command = match start {
        Start::Plain => Command::new(program),
        Start::Mpi(processes) => {
            let mut command = Command::new("mpirun");
            command.args(["--oversubscribe", "-n", &processes.to_string()]).arg(program);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command
        }
        Start::Nodes(nodes) => {
            let mut command = nodes.mpirun();
            command.arg(program);
            command
        }
    };
    // Measurements taken while tests run are useless to others.
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_MANIFEST_DIR"), "/../target/cache"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let stdout = read(child.stdout.take());
    let stderr = read(child.stderr.take());
    let success = wait(&mut child, began + limit);
    let took = began.elapsed();
    let (stdout, stderr) = (stdout.join().expect("reading is no work"), stderr.join().expect("reading is no work"));
    let success = success.unwrap_or_else(|| panic!("{command:?} hangs after {limit:?}:\n{stdout}\n{stderr}"));
    Ended { success, stdout, stderr, took }
}

/// As [`run`], with variables set in the environment, each as `NAME=value`.
///
/// # Panics
/// As [`run`].
pub fn run_with(variables: &[&str], start: Start, program: &Path, arguments: &[&str], limit: Duration) -> Ended {
    let program = program.to_str().expect("paths of tests are text");
    // `env` sets them for its program only; setting them in this process would affect all tests.
    run(start, Path::new("env"), &[variables, &[program], arguments].concat(), limit)
}

/// What a program of laws prints on this many ranks, on which the laws must hold.
///
/// # Panics
/// If it fails, or as [`run`].
#[track_caller]
pub fn laws(start: Start, program: &Path, ranks: usize, limit: Duration) -> String {
    let ended = run(start, program, &[&format!("--ranks={ranks}")], limit);
    assert!(ended.success, "{start:?}, {ranks} ranks, after {:?}:\n{}", ended.took, ended.stderr);
    ended.stdout
}

/// Returns whether the child succeeded; ends it at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> Option<bool> {
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status.success());
        }
        if Instant::now() > deadline {
            // `mpirun` ends its processes only on a termination signal.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            thread::sleep(Duration::from_secs(2));
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn read(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    let mut pipe = pipe.expect("the stream is piped");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Returns the path of an example of the package under test, built beside this test with its features and profile.
#[macro_export]
macro_rules! example_path {
    ($name:expr) => {
        $crate::start::example($name, concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), cfg!(feature = "mpi"))
    };
}

/// Returns an empty folder for the files of one test, in cargo's own folder for them.
#[macro_export]
macro_rules! test_folder {
    ($name:expr) => {
        $crate::start::folder($name, env!("CARGO_TARGET_TMPDIR"))
    };
}

/// The function behind [`example_path!`](crate::example_path) for the package of this manifest, with or without MPI.
///
/// A test that was built alone has no examples, or old ones, so cargo builds them. It considers those of
/// `cargo test --workspace` stale, since the features of dependencies differ between one package and all; hence the variable, by
/// which `scripts/test` says that it has just built them.
pub fn example(name: &str, manifest: &str, mpi: bool) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("--examples", manifest, mpi).join("examples")).join(name)
}

/// Returns the path of the command line, built as examples are.
pub fn command_line(mpi: bool) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/Cargo.toml");
    BUILT.get_or_init(|| built("--bins", manifest, mpi)).join("polyshard")
}

/// Builds these targets of a package, and returns the folder in which they and this test are built.
fn built(targets: &str, manifest: &str, mpi: bool) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its path");
    let profile = test.parent().and_then(Path::parent).expect("tests are in `deps`");
    if std::env::var_os("POLYSHARD_EXAMPLES_ARE_BUILT").is_some() {
        return profile.into();
    }
    let target = profile.parent().expect("profiles are in the target directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--manifest-path", manifest, targets]).env("CARGO_TARGET_DIR", target);
    if !mpi {
        cargo.arg("--no-default-features");
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo starts").success(), "`cargo build {targets}` fails for {manifest}");
    profile.into()
}

/// The function behind [`test_folder!`](crate::test_folder), in this folder.
pub fn folder(name: &str, inside: &str) -> PathBuf {
    let folder = Path::new(inside).join(name);
    // It does not exist the first time.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("cargo's folder can be written");
    folder
}
