//! Starts workers, restarts them after failures, and reports the results.

use crate::mutate::minimised;
use crate::worker::{Progress, failure, report, scratch};
use crate::{Options, Target};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The number of workers that may die before no further one is started.
const DEATHS: usize = 8;
/// Limit on a worker's memory, including memory that its own allocator does not count: isl has a separate allocator.
const RESIDENT: u64 = 3 << 30;
/// Maximum number of tries to minimise an input: each takes a process.
const TRIES: usize = 300;

/// Feeds all targets, and returns whether all passed.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let mut all_right = true;
    for target in &options.target {
        let folder = options.out.join(target.name);
        // Results of an earlier run must not count as results of this one.
        let _ = fs::remove_dir_all(&folder);
        let scratch = scratch(options, target);
        fs::create_dir_all(&scratch).map_err(|why| format!("cannot make `{}`: {why}", scratch.display()))?;
        let start = Instant::now();
        let total = feed(options, target)?;
        let failed = failures(&folder)?;
        println!(
            "{:<10} {:>8} inputs, {:>7} accepted, {failed} failed, {:>5} s, at most {} KiB and {} ms for one",
            target.name,
            total.input,
            total.accepted,
            start.elapsed().as_secs(),
            total.bytes >> 10,
            total.micros / 1000
        );
        fs::remove_dir_all(&scratch).map_err(|why| format!("cannot remove `{}`: {why}", scratch.display()))?;
        all_right &= failed == 0;
    }
    Ok(all_right)
}

/// How a worker ended.
enum End {
    Done,
    Died,
    Hung,
    TooLarge(u64),
}

fn feed(options: &Options, target: &'static Target) -> Result<Progress, String> {
    let folder = scratch(options, target);
    let mut total = Progress::default();
    for _ in 0..DEATHS {
        let end = watch(options, &mut start(options, target, &["--worker", &total.input.to_string()])?, &folder)?;
        let note = fs::read(folder.join("current")).map_err(|why| why.to_string())?;
        let progress = Progress::from_bytes(&note).ok_or("a worker died before its first input")?;
        total.input = progress.input;
        total.accepted += progress.accepted;
        total.bytes = total.bytes.max(progress.bytes);
        total.micros = total.micros.max(progress.micros);
        let input = &note[Progress::LEN..];
        let failure = |kind: &str| failure(&options.out, target, kind, progress.input);
        match end {
            // The notes are the worker's own, unless another run uses the same folder.
            End::Done if total.input < options.inputs => {
                return Err(format!(
                    "`{}` has notes of {} inputs, not of {}: another run writes there, too; give each a folder by `--out`",
                    folder.display(),
                    total.input,
                    options.inputs
                ));
            }
            End::Done => return Ok(total),
            End::Hung => {
                let why = format!("it takes more than {} s", options.seconds);
                report(&failure("hang"), &why, input)?;
            }
            End::TooLarge(bytes) => {
                report(&failure("memory"), &format!("it takes {bytes} bytes of memory"), input)?;
            }
            End::Died => {
                let why = fs::read_to_string(folder.join("stderr")).map_err(|why| why.to_string())?;
                let dies = |input: &[u8]| dies(options, target, &folder, input);
                // The lines after it are a stack trace.
                let why = why.lines().find(|line| !line.is_empty()).unwrap_or("it ended the process");
                report(&failure("death"), why, &minimised(input, TRIES, dies))?;
            }
        }
        total.input += 1;
    }
    println!("{}: {DEATHS} workers died; no further one is started", target.name);
    Ok(total)
}

/// Starts a worker.
fn start(options: &Options, target: &Target, arguments: &[&str]) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    let stderr = File::create(scratch(options, target).join("stderr")).map_err(|why| why.to_string())?;
    let [inputs, seed, memory] = [options.inputs, options.seed, options.memory as u64].map(|number| number.to_string());
    let mut command = Command::new(program);
    command.args(["--target", target.name, "--inputs", &inputs, "--seed", &seed, "--memory", &memory]);
    command.arg("--out").arg(&options.out).args(arguments).stdin(Stdio::null()).stderr(stderr);
    if arguments[0] == "--one" {
        command.stdout(Stdio::null());
    }
    command.spawn().map_err(|why| format!("cannot start a worker: {why}"))
}

/// Waits for a worker to end, and kills it if one input takes too long or too much memory.
fn watch(options: &Options, worker: &mut Child, folder: &Path) -> Result<End, String> {
    let current = folder.join("current");
    let (mut input, mut since) = (None, (Instant::now(), Duration::ZERO));
    loop {
        if let Some(status) = worker.try_wait().map_err(|why| why.to_string())? {
            return Ok(if status.success() { End::Done } else { End::Died });
        }
        let now = fs::read(&current).ok();
        let busy = busy(worker.id());
        if now != input {
            (input, since) = (now, (Instant::now(), busy));
        }
        let resident = resident(worker.id());
        // The machine may be busy, so the limit is on processor time, or on 20 times as much elapsed time.
        let limit = Duration::from_secs(options.seconds);
        let end = if busy.saturating_sub(since.1) > limit || since.0.elapsed() > 20 * limit {
            Some(End::Hung)
        } else if resident > RESIDENT {
            Some(End::TooLarge(resident))
        } else {
            None
        };
        if let Some(end) = end {
            worker.kill().and_then(|()| worker.wait()).map_err(|why| why.to_string())?;
            return Ok(end);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// The processor time of a process; 0 if the system does not report it.
fn busy(process: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, may contain anything; the ticks are the 12th and 13th word after it.
    let words = text.rsplit_once(')').map_or("", |(_, words)| words).split_whitespace();
    let ticks: u64 = words.skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// The resident memory of a process in bytes; 0 if the system does not report it.
fn resident(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    line.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Whether an input kills a worker: by a signal, not by a panic.
fn dies(options: &Options, target: &Target, folder: &Path, input: &[u8]) -> bool {
    let path = folder.join("tried");
    let tried = fs::write(&path, input).map_err(|why| why.to_string());
    let worker = tried.and_then(|()| start(options, target, &["--one", &path.to_string_lossy()]));
    let ended = worker.and_then(|mut worker| watch(options, &mut worker, folder).map(|end| (end, worker)));
    ended.is_ok_and(|(end, mut worker)| {
        matches!(end, End::Died) && worker.wait().is_ok_and(|status| status.code().is_none())
    })
}

/// The number of inputs that have failed.
fn failures(folder: &Path) -> Result<usize, String> {
    let entries = fs::read_dir(folder).map_err(|why| why.to_string())?;
    Ok(entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "why")).count())
}
