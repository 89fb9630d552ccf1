//! A process that feeds one target, and that an input may kill.
//!
//! Before each input it saves the input, with the results so far, so that its supervisor can tell which input killed
//! it. The allocator counts and limits memory per input: an allocation beyond the limit fails, and the process aborts.
//! Panics are caught, and each source location that panics is reported once.

use crate::mutate::{Pool, minimised, mutated};
use crate::{Options, Target};
use cap::Cap;
use fastrand::Rng;
use std::alloc::System;
use std::backtrace::Backtrace;
use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Maximum number of inputs of each kind, valid and refused, that are kept as material.
const POOL: usize = 2048;
/// Maximum number of tries to minimise an input.
const TRIES: usize = 600;

/// The source location and the message of the last panic.
static PANIC: Mutex<Option<(String, String)>> = Mutex::new(None);

/// The record that a worker saves before each input.
#[derive(Clone, Copy, Default)]
pub(crate) struct Progress {
    /// The number of this input; all are done if it equals the number of inputs.
    pub(crate) input: u64,
    /// The number of earlier inputs that were accepted.
    pub(crate) accepted: u64,
    /// The maximum number of bytes that one of them used.
    pub(crate) bytes: u64,
    /// The maximum number of microseconds that one of them took.
    pub(crate) micros: u64,
}

impl Progress {
    pub(crate) const LEN: usize = 32;

    fn to_bytes(self) -> [u8; Self::LEN] {
        let words = [self.input, self.accepted, self.bytes, self.micros].map(u64::to_le_bytes);
        std::array::from_fn(|at| words[at / 8][at % 8])
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |nth: usize| Some(u64::from_le_bytes(bytes.get(8 * nth..8 * nth + 8)?.try_into().ok()?));
        Some(Self { input: word(0)?, accepted: word(1)?, bytes: word(2)?, micros: word(3)? })
    }
}

/// The folder for the files of a worker of this target.
pub(crate) fn scratch(options: &Options, target: &Target) -> PathBuf {
    options.out.join(target.name).join("scratch")
}

/// Feeds the first target in `options`, starting at input number `from`.
pub(crate) fn feed(options: &Options, from: u64) -> Result<(), String> {
    let target = options.target[0];
    remember_panics();
    let (seeds, found) = (inputs("seeds", target)?, inputs("found", target)?);
    let valid = seeds.len();
    let mut pool = Pool { valid: seeds.clone(), refused: found.clone() };
    let first: Vec<_> = seeds.into_iter().chain(found).collect();
    let mut feeder = Feeder::new(options, target)?;
    let (mut answers, mut progress) = (HashSet::new(), Progress { input: from, ..Progress::default() });
    let all = first.len() as u64 + options.inputs;
    while progress.input < all {
        let given = first.get(progress.input as usize);
        let mut rng = Rng::with_seed(hash(&(options.seed, progress.input)));
        let input = given.cloned().unwrap_or_else(|| mutated(&mut rng, &pool, target.longest));
        let fed = feeder.feed(progress, &input);
        progress.accepted += u64::from(fed.answer.is_ok());
        progress.bytes = progress.bytes.max(fed.bytes);
        progress.micros = progress.micros.max(fed.micros);
        if progress.input < valid as u64
            && let Err(why) = &fed.answer
        {
            let path = failure(&options.out, target, "refused", progress.input);
            report(&path, &format!("a seed must be accepted, but: {why}"), &input)?;
        }
        if let Some((place, said)) = fed.panic {
            feeder.panicked(progress, place, &said, &input)?;
        } else if given.is_none() {
            let pool = if fed.answer.is_ok() { &mut pool.valid } else { &mut pool.refused };
            if pool.len() < POOL && answers.insert(kind(&fed.answer)) {
                pool.push(input);
            }
        }
        progress.input += 1;
    }
    feeder.write_down(progress, &[]);
    Ok(())
}

/// Feeds one input to the first target in `options`.
///
/// # Errors
/// If it panics.
pub(crate) fn feed_one(options: &Options, path: &Path) -> Result<(), String> {
    let target = options.target[0];
    remember_panics();
    let input = fs::read(path).map_err(|why| format!("cannot read `{}`: {why}", path.display()))?;
    let fed = Feeder::new(options, target)?.feed(Progress::default(), &input);
    println!("{} us, {} bytes: {:?}", fed.micros, fed.bytes, fed.answer);
    fed.panic.map_or(Ok(()), |(place, said)| Err(format!("panic at {place}: {said}")))
}

struct Feeder<'a> {
    options: &'a Options,
    target: &'static Target,
    folder: PathBuf,
    /// The file with the current input.
    current: File,
    /// The source locations that have panicked.
    panics: HashSet<String>,
}

/// The outcome of an input.
struct Fed {
    answer: Result<String, String>,
    panic: Option<(String, String)>,
    bytes: u64,
    micros: u64,
}

impl<'a> Feeder<'a> {
    fn new(options: &'a Options, target: &'static Target) -> Result<Self, String> {
        let folder = scratch(options, target);
        let current = File::create(folder.join("current")).map_err(|why| why.to_string())?;
        Ok(Self { options, target, folder, current, panics: HashSet::new() })
    }

    fn write_down(&self, progress: Progress, input: &[u8]) {
        let note = [&progress.to_bytes(), input].concat();
        let written = self.current.write_all_at(&note, 0).and_then(|()| self.current.set_len(note.len() as u64));
        written.expect("the folder is ours");
    }

    fn feed(&self, progress: Progress, input: &[u8]) -> Fed {
        self.write_down(progress, input);
        *last_panic() = None;
        let before = ALLOCATOR.allocated();
        let most = before + (self.options.memory << 20);
        ALLOCATOR.set_limit(most).expect("more than is taken now");
        let peak = ALLOCATOR.max_allocated();
        let start = Instant::now();
        let read = || (self.target.read)(input, &self.folder);
        let answer = panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("it panics".into()));
        let micros = start.elapsed().as_micros() as u64;
        // The allocator keeps only the overall maximum; if that has not grown, the bytes of this input are unknown.
        let bytes = if ALLOCATOR.max_allocated() > peak { ALLOCATOR.max_allocated() - before } else { 0 };
        ALLOCATOR.set_limit(usize::MAX).expect("more than is taken now");
        // Parsed tokens are kept for their spans, which are no longer needed.
        proc_macro2::extra::invalidate_current_thread_spans();
        Fed { answer, panic: last_panic().take(), bytes: bytes as u64, micros }
    }

    /// Reports a panic, unless one at the same location was reported before.
    fn panicked(&mut self, progress: Progress, place: String, said: &str, input: &[u8]) -> Result<(), String> {
        if !self.panics.insert(place.clone()) {
            return Ok(());
        }
        // An earlier worker may have reported it.
        let key = hash(&place);
        if failure(&self.options.out, self.target, "panic", key).exists() {
            return Ok(());
        }
        let again = |input: &[u8]| self.feed(progress, input).panic.is_some_and(|(other, _)| other == place);
        let least = minimised(input, TRIES, again);
        report(&failure(&self.options.out, self.target, "panic", key), &format!("panic at {place}: {said}"), &least)
    }
}

/// The file for a failing input; inputs with the same key are the same failure.
pub(crate) fn failure(out: &Path, target: &Target, kind: &str, key: u64) -> PathBuf {
    out.join(target.name).join(format!("{kind}-{key:016x}"))
}

/// Writes a failing input to a file, with a note of the reason.
pub(crate) fn report(path: &Path, why: &str, input: &[u8]) -> Result<(), String> {
    println!("{}: {why}", path.display());
    fs::write(path, input)
        .and_then(|()| fs::write(path.with_extension("why"), format!("{why}\n")))
        .map_err(|error| format!("cannot write `{}`: {error}", path.display()))
}

fn remember_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        // A panic in the standard library is attributed to its caller.
        let place = if place.starts_with("/rustc/") { caller().unwrap_or(place) } else { place };
        let text = info.payload().downcast_ref::<&str>().map(ToString::to_string);
        let said = text.or_else(|| info.payload().downcast_ref::<String>().cloned()).unwrap_or_default();
        *last_panic() = Some((place, said));
    }));
}

/// The innermost location on the stack that is neither in the standard library nor in this file.
fn caller() -> Option<String> {
    let stack = Backtrace::force_capture().to_string();
    let mut places = stack.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    let elsewhere = |place: &&str| !place.starts_with("/rustc/") && !place.contains("fuzz/src/worker.rs:");
    let place = places.find(|place| place.contains(".rs:") && elsewhere(place));
    // Drop the column, which is that of a part of the expression.
    Some(place?.rsplit_once(':')?.0.to_owned())
}

fn last_panic() -> std::sync::MutexGuard<'static, Option<(String, String)>> {
    PANIC.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The saved inputs of a target, by name.
fn inputs(folder: &str, target: &Target) -> Result<Vec<Vec<u8>>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(target.name);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let wrong = |why: std::io::Error| format!("cannot read `{}`: {why}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).map_err(wrong)? {
        paths.push(entry.map_err(wrong)?.path());
    }
    paths.sort();
    paths.iter().map(|path| fs::read(path).map_err(wrong)).collect()
}

/// A hash of the kind of answer, which tells inputs with new answers apart: the message without quoted text and digits.
fn kind(answer: &Result<String, String>) -> u64 {
    let text = answer.as_ref().unwrap_or_else(|message| message);
    let unquoted: String = text.split(['`', '\'', '"']).step_by(2).take(4).collect();
    let words: String = unquoted.chars().filter(|c| !c.is_ascii_digit()).take(120).collect();
    hash(&(answer.is_ok(), words))
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
