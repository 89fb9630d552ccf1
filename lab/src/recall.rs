//! Machines measured before: a file for each host, processor, vectors in use, kind of ranks, and number of ranks.

use super::{Survey, Topology, assumed, survey_of};
use polyshard_machine::Machine;
use polyshard_runtime::leaf::Vectors;
use polyshard_runtime::{Backend, Output, Result, World};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use sysinfo::{CpuRefreshKind, RefreshKind, System};

/// How long disturbed figures are used: commands in this time make the same choices.
const AGAIN: Duration = Duration::from_secs(600);

/// Where files of machines are stored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep<'a> {
    /// The folders of files: all are searched, and the first that can be written receives the file. A folder may be read-only, or shared by
    /// hosts.
    pub folders: &'a [PathBuf],
    /// The file, instead of one in a folder.
    pub file: Option<&'a Path>,
}

/// A machine, and the origin of its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// The machine.
    pub machine: Machine,
    /// The origin of its figures.
    pub origin: Origin,
}

/// The origin of a machine's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Typical of similar processors: measuring does not pay.
    Assumed,
    /// Measured this long ago, and read from this file.
    Kept(Duration, PathBuf),
    /// Measured now, and written to this file, or not written for this reason.
    Measured(Result<PathBuf, String>),
}

/// Returns the machine that the ranks of `world` form: as measured before, if a file has it; otherwise as a measurement of a second finds
/// it, if `pays`, given a machine with figures of similar processors, returns that measuring pays. If `anew`, it is measured in any case,
/// as [`survey`](super::survey) does. Only rank 0 calls `pays`, and `begin` before it measures.
///
/// Measured figures are stored. If other work disturbed them, the machine [says so](Machine::disturbed): a call ten minutes later
/// measures again, and stores figures that were not disturbed. Two programs that find no file do not measure at once: the second uses the
/// figures of the first.
///
/// A file belongs to a host and its processor (those of rank 0), the cores that ranks may run on, the vectors that they
/// [use](polyshard_runtime::leaf::Vectors::in_use), threads or processes, nodes, and ranks on each. After changing a network, delete the file or
/// measure anew. Collective, and the same on all ranks.
///
/// ```
/// use polyshard_lab::{Keep, Origin, recall};
/// use polyshard::prelude::*;
/// let folders = [tempfile::tempdir().expect("a folder").keep()];
/// let keep = Keep { folders: &folders, file: None };
/// let recall = |pays| spmd(2, move |world| Ok(recall(world, keep, false, |_| pays, || ())?));
/// assert_eq!(recall(false)?[0].origin, Origin::Assumed);
/// let (measured, kept) = (recall(true)?, recall(true)?);
/// assert!(matches!(measured[0].origin, Origin::Measured(Ok(_))));
/// assert!(matches!(kept[1].origin, Origin::Kept(..)));
/// assert_eq!(kept[1].machine, measured[0].machine);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// As for [`detect`](super::detect).
pub fn recall(
    world: &World,
    keep: Keep<'_>,
    anew: bool,
    pays: impl FnOnce(&Machine) -> bool,
    begin: impl FnOnce(),
) -> Result<Recalled> {
    let topology = Topology::find(world)?;
    let assumed = assumed::machine(world, &topology)?;
    let name = name(world, &topology, Vectors::in_use());
    let files = match keep.file {
        Some(file) => vec![file.to_owned()],
        None => keep.folders.iter().map(|folder| folder.join(&name)).collect(),
    };
    // Only rank 0 reads files, so that all find the same.
    let (plan, before, lock) = match world.is_root() {
        true => plan(&files, &topology, anew, || pays(&assumed)),
        false => (String::new(), None, None),
    };
    let plan = world.broadcast_text(&plan)?;
    if plan == ASSUMED {
        return Ok(Recalled { machine: assumed, origin: Origin::Assumed });
    }
    if plan != MEASURE {
        return kept(&plan);
    }
    if world.is_root() {
        begin();
    }
    let Survey { machine, .. } = survey_of(world, topology, !anew)?;
    let outcome = match before.filter(|_| machine.disturbed().is_some()) {
        Some(before) => before.said(),
        None if world.is_root() => match write(&files, &machine) {
            Ok(file) => format!("{MEASURE}{}", file.display()),
            Err(why) => format!("{ASSUMED}{why}"),
        },
        None => String::new(),
    };
    drop(lock);
    let outcome = world.broadcast_text(&outcome)?;
    let origin = match (outcome.strip_prefix(MEASURE), outcome.strip_prefix(ASSUMED)) {
        (Some(file), _) => Ok(PathBuf::from(file)),
        (_, Some(why)) => Err(why.to_owned()),
        _ => return kept(&outcome),
    };
    Ok(Recalled { machine, origin: Origin::Measured(origin) })
}

/// Prefixes of rank 0's messages to the others: figures are assumed, or are to be measured; a message without one holds the contents of a
/// file. After a measurement, the file that holds the figures, or the reason why none does.
const ASSUMED: &str = "assumed";
const MEASURE: &str = "measure";

/// A machine in a file.
struct Found {
    file: PathBuf,
    text: String,
    age: Duration,
    is_disturbed: bool,
}

impl Found {
    fn said(&self) -> String {
        format!("{}\n{}\n{}", self.age.as_secs(), self.file.display(), self.text)
    }

    /// Whether it need not be measured again yet.
    fn is_enough(&self) -> bool {
        let tried = fs::metadata(lock_of(&self.file)).and_then(|about| about.modified());
        !self.is_disturbed || tried.map_or(self.age, age) < AGAIN
    }
}

/// Parses the text of [`Found::said`].
fn kept(said: &str) -> Result<Recalled> {
    let mut parts = said.splitn(3, '\n');
    let mut part = || parts.next().unwrap_or_default();
    let (age, file) = (Duration::from_secs(part().parse().unwrap_or_default()), PathBuf::from(part()));
    let machine = Machine::from_toml(part()).map_err(super::probe::refused)?;
    Ok(Recalled { machine, origin: Origin::Kept(age, file) })
}

/// Returns the message to the others, the machine to use if nothing better is found, and the lock under which to measure.
fn plan(
    files: &[PathBuf],
    topology: &Topology,
    anew: bool,
    pays: impl FnOnce() -> bool,
) -> (String, Option<Found>, Option<File>) {
    let find = || files.iter().find_map(|file| read(file, topology)).filter(|_| !anew);
    match find() {
        Some(found) if found.is_enough() => return (found.said(), None, None),
        found if !anew && !pays() => return (found.map_or(ASSUMED.to_owned(), |found| found.said()), None, None),
        _ => {}
    }
    let lock = files.iter().find_map(|file| lock(file));
    // Another program may have measured while this one waited.
    match find() {
        Some(found) if found.is_enough() => (found.said(), None, None),
        found => {
            if let Some(lock) = &lock {
                // Its time records this attempt; if it cannot be set, nothing is lost.
                let _ = lock.set_modified(SystemTime::now());
            }
            (MEASURE.to_owned(), found, lock)
        }
    }
}

/// The file name of a machine whose products use these vectors.
fn name(world: &World, topology: &Topology, vectors: Vectors) -> String {
    let host = System::host_name().unwrap_or_default();
    let system = System::new_with_specifics(RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing()));
    let processor = system.cpus().first().map_or("", |cpu| cpu.brand());
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let [host, processor] = [&*host, processor].map(|text| text.trim().chars().map(plain).collect::<String>());
    let kind = match world.backend() {
        Backend::Mpi => "mpi",
        Backend::Threads => "threads",
    };
    let Topology { nodes, ranks_per_node, cores, .. } = topology;
    let version = env!("CARGO_PKG_VERSION");
    format!("{host}-{processor}-{cores}-cores-{vectors}-{kind}-{nodes}x{ranks_per_node}-{version}.toml")
}

/// Returns the machine in a file; none unless it is one of these ranks.
fn read(file: &Path, topology: &Topology) -> Option<Found> {
    let text = fs::read_to_string(file).ok()?;
    let machine = Machine::from_toml(&text).ok().filter(|machine| machine.devices() == topology.ranks())?;
    let age = age(fs::metadata(file).and_then(|about| about.modified()).ok()?);
    Some(Found { file: file.to_owned(), text, age, is_disturbed: machine.disturbed().is_some() })
}

fn age(written: SystemTime) -> Duration {
    SystemTime::now().duration_since(written).unwrap_or_default()
}

fn lock_of(file: &Path) -> PathBuf {
    file.with_extension("lock")
}

/// Waits for the lock of a file; none if it cannot be made.
fn lock(file: &Path) -> Option<File> {
    make_folder(file).ok()?;
    let lock = File::options().create(true).append(true).open(lock_of(file)).ok()?;
    lock.lock().ok()?;
    Some(lock)
}

/// Writes the first of these files that can be written, and returns it.
fn write(files: &[PathBuf], machine: &Machine) -> Result<PathBuf, String> {
    let mut failed = "there is no folder for it".to_owned();
    for file in files {
        let output = make_folder(file).and_then(|()| Output::new(file).map_err(|why| why.to_string()));
        match output.and_then(|output| output.write(machine.to_toml().as_bytes()).map_err(|why| why.to_string())) {
            Ok(()) => return Ok(file.clone()),
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

/// Makes the folder that a file is in.
fn make_folder(file: &Path) -> Result<(), String> {
    let Some(folder) = file.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|why| format!("cannot make the folder `{}`: {why}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_runtime::spmd;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// The result on one rank, and how often `pays` and `begin` were called.
    fn find(keep: Keep<'_>, anew: bool, pays: bool) -> (Recalled, [usize; 2]) {
        let [asked, begun] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let count = |count: &AtomicUsize| count.fetch_add(1, Ordering::Relaxed);
        let found = spmd(1, |world| {
            let pays = |assumed: &Machine| {
                count(&asked);
                assert!(assumed.device().flops["f64"] > 1e9, "{}", assumed.to_toml());
                pays
            };
            recall(world, keep, anew, pays, || {
                count(&begun);
            })
        });
        (found.expect("a machine").remove(0), [asked, begun].map(AtomicUsize::into_inner))
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    #[track_caller]
    fn file(found: &Recalled) -> PathBuf {
        match &found.origin {
            Origin::Kept(_, file) | Origin::Measured(Ok(file)) => file.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn nothing_is_measured_that_does_not_pay_and_what_is_measured_is_kept_however_busy_the_machine_is() {
        let folder = folder();
        let folders = [folder.path().join("machines")];
        let keep = Keep { folders: &folders, file: None };
        let (small, counts) = find(keep, false, false);
        assert_eq!((small.origin, counts), (Origin::Assumed, [1, 0]));
        assert!(!folders[0].exists(), "nothing is written");
        let (first, counts) = find(keep, false, true);
        assert_eq!((matches!(first.origin, Origin::Measured(Ok(_))), counts), (true, [1, 1]), "{:?}", first.origin);
        for pays in [true, false] {
            let (again, counts) = find(keep, false, pays);
            assert_eq!((matches!(again.origin, Origin::Kept(..)), counts), (true, [0, 0]), "{:?}", again.origin);
            assert_eq!((file(&again), again.machine), (file(&first), first.machine.clone()));
        }
        // A file with other contents is replaced by a measurement.
        fs::write(file(&first), "no machine").expect("it is ours");
        assert_eq!(find(keep, false, true).1, [1, 1]);
    }

    #[test]
    fn figures_that_were_disturbed_are_measured_again_after_a_while_and_not_before() {
        let folder = folder();
        let file = folder.path().join("machine.toml");
        let keep = Keep { folders: &[], file: Some(&file) };
        let (measured, _) = find(keep, false, true);
        let made_up = measured.machine.with_disturbance("made up").to_toml();
        fs::write(&file, &made_up).expect("it is ours");
        let (kept, counts) = find(keep, false, true);
        assert_eq!((kept.machine.disturbed(), counts), (Some("made up"), [0, 0]), "it was tried just now");
        let tried = File::options().append(true).open(lock_of(&file)).expect("it was locked");
        let earlier = || tried.set_modified(SystemTime::now() - 2 * AGAIN).expect("it is ours");
        earlier();
        assert_eq!(find(keep, false, false).1, [1, 0], "small work does not pay for it");
        let (again, counts) = find(keep, false, true);
        assert_eq!(counts, [1, 1]);
        // Tests run beside others: if it is disturbed again, it is not stored.
        match again.origin {
            Origin::Measured(_) => assert_eq!(again.machine.disturbed(), None),
            _ => assert_eq!(again.machine.to_toml(), made_up),
        }
        assert_eq!(find(keep, false, true).1, [0, 0], "not again at once");
    }

    #[test]
    fn a_machine_is_another_one_with_other_vectors() {
        let names = spmd(1, |world| {
            let topology = Topology::find(world)?;
            Ok::<_, polyshard_runtime::Error>(
                [Vectors::Avx2, Vectors::Avx512].map(|vectors| name(world, &topology, vectors)),
            )
        });
        let [without, with] = names.expect("a world").remove(0);
        assert_eq!(without, with.replace("AVX-512", "AVX2"));
        assert_ne!(without, with);
    }

    #[test]
    fn folders_that_cannot_be_written_are_no_error() {
        let folder = folder();
        let taken = folder.path().join("a file");
        fs::write(&taken, "").expect("it is ours");
        let folders = [taken.join("machines"), folder.path().join("b")];
        let (found, _) = find(Keep { folders: &folders, file: None }, false, true);
        assert!(file(&found).starts_with(&folders[1]), "{:?}", found.origin);
        let (found, _) = find(Keep { folders: &folders[..1], file: None }, false, true);
        assert!(matches!(&found.origin, Origin::Measured(Err(why)) if why.contains("a file")), "{:?}", found.origin);
    }

    #[test]
    fn of_two_that_find_nothing_one_measures() {
        let folder = folder();
        let file = folder.path().join("machine.toml");
        let keep = Keep { folders: &[], file: Some(&file) };
        let found = std::thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| find(keep, false, true)));
            both.map(|one| one.join().expect("a machine"))
        });
        assert_eq!(found.iter().map(|(_, [_, begun])| begun).sum::<usize>(), 1);
        assert_eq!(found[0].0.machine, found[1].0.machine);
    }
}
