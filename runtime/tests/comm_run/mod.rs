//! Running the example binaries, with `mpirun` and without, and reading what they say.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended.
pub(crate) struct Ended {
    /// Whether the exit code is 0.
    pub(crate) success: bool,
    /// What it wrote to standard output.
    pub(crate) stdout: String,
    /// What it wrote to standard error.
    pub(crate) stderr: String,
    /// How long it ran.
    pub(crate) took: Duration,
}

/// Runs an example of this package to its end: on `processes` MPI processes, or by itself.
///
/// # Panics
/// If it cannot be built or started, or runs longer than `limit`; it is ended then.
pub(crate) fn run(example: &str, arguments: &[&str], processes: Option<usize>, limit: Duration) -> Ended {
    // Programs that wait by polling starve each other, so they run one at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let binary = built(example);
    let mut command = match processes {
        Some(processes) => {
            let mut command = Command::new("mpirun");
            command.args(["--oversubscribe", "-n", &processes.to_string()]).arg(binary);
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            command
        }
        None => Command::new(binary),
    };
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

/// Returns whether the child succeeded; ends it at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> Option<bool> {
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status.success());
        }
        if Instant::now() > deadline {
            // `mpirun` passes its end on to the processes only if it is asked politely.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            thread::sleep(Duration::from_secs(2));
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(20));
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

/// Builds an example beside this test, with its features and profile, and returns its path.
///
/// A test that was built alone has no examples, or old ones, so cargo is asked. It finds those of `cargo test --workspace`
/// stale, since the features of dependencies are others for one package than for all; hence the variable, by which
/// `scripts/test` says that it has just built them.
pub(crate) fn built(example: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests are in `deps`");
    let path = profile.join("examples").join(example);
    if std::env::var_os("POLYSHARD_EXAMPLES_ARE_BUILT").is_some() {
        return path;
    }
    let target = profile.parent().expect("profiles are in the target directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    cargo.args(["--example", example]).env("CARGO_TARGET_DIR", target);
    if !cfg!(feature = "mpi") {
        cargo.arg("--no-default-features");
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo starts").success(), "example `{example}` does not build");
    path
}
