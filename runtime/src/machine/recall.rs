//! Machines that were measured before: a file for each host, kind of ranks, and how many of them.

use super::{Survey, Topology, survey_of};
use crate::{Backend, Output, Result, World};
use polyshard_machine::Machine;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use sysinfo::System;

/// A machine, and where its figures are from.
#[derive(Clone, Debug, PartialEq)]
pub struct Recalled {
    /// The machine.
    pub machine: Machine,
    /// How long ago it was measured; none if just now.
    pub age: Option<Duration>,
    /// The file that keeps it, or why none does.
    pub kept: Result<PathBuf, String>,
}

/// Returns the machine that the ranks of `world` are: as it was measured before, if `folder` has a file of it, else as [`survey`](super::survey) finds it.
/// What is found is kept in `folder`, unless other work disturbed it. Without a folder, or if `anew`, it is measured in any case.
///
/// A file is of a host (that of rank 0), the cores that ranks may run on, threads or processes, nodes, and ranks on each. Whoever
/// changes a network deletes the file or measures anew. Collective, and the same on all ranks.
///
/// ```
/// use polyshard_runtime::{Error, machine::recall, spmd};
/// let folder = tempfile::tempdir().expect("a folder");
/// let recall = || spmd(2, |world| -> Result<_, Error> { recall(world, Some(folder.path()), false) });
/// let (first, second) = (recall()?, recall()?);
/// assert_eq!(first[0].age, None);
/// assert_eq!(first[0], first[1]);
/// if first[0].kept.is_ok() {
///     assert_eq!(second[0].machine, first[0].machine);
///     assert!(second[0].age.is_some());
/// }
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As for [`detect`](super::detect).
pub fn recall(world: &World, folder: Option<&Path>, anew: bool) -> Result<Recalled> {
    let topology = Topology::find(world)?;
    let file = folder.map(|folder| folder.join(name(world, &topology)));
    // Rank 0 alone looks at files, so that all find the same.
    let before = file.as_deref().filter(|_| world.is_root() && !anew).and_then(|file| read(file, &topology));
    let told =
        world.broadcast_text(&before.map_or_else(String::new, |(text, age)| format!("{}\n{text}", age.as_secs())))?;
    if let Some((age, text)) = told.split_once('\n') {
        let machine = Machine::from_toml(text).map_err(super::probe::refused)?;
        let age = Duration::from_secs(age.parse().unwrap_or_default());
        return Ok(Recalled { machine, age: Some(age), kept: file.ok_or_else(String::new) });
    }
    let Survey { machine, noise, .. } = survey_of(world, topology)?;
    let failed = match (&file, noise.warnings(&machine).into_iter().next()) {
        (None, _) => "there is no folder for it".to_owned(),
        (Some(_), Some(warning)) => warning,
        (Some(file), None) if world.is_root() => write(file, &machine).err().unwrap_or_default(),
        (Some(_), None) => String::new(),
    };
    let failed = world.broadcast_text(&failed)?;
    let kept = file.filter(|_| failed.is_empty()).ok_or(failed);
    Ok(Recalled { machine, age: None, kept })
}

/// The name of the file of a machine.
fn name(world: &World, topology: &Topology) -> String {
    let host = System::host_name().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let host: String = host.chars().map(plain).collect();
    let kind = match world.backend() {
        Backend::Mpi => "mpi",
        Backend::Threads => "threads",
    };
    let Topology { nodes, ranks_per_node, cores, .. } = topology;
    format!("{host}-{cores}-cores-{kind}-{nodes}x{ranks_per_node}-{}.toml", env!("CARGO_PKG_VERSION"))
}

/// What a file holds, and how long ago it was written; none unless it is a machine of these ranks.
fn read(file: &Path, topology: &Topology) -> Option<(String, Duration)> {
    let text = fs::read_to_string(file).ok()?;
    let machine = Machine::from_toml(&text).ok()?;
    let written = fs::metadata(file).and_then(|about| about.modified()).ok()?;
    let age = SystemTime::now().duration_since(written).unwrap_or_default();
    (machine.devices() == topology.ranks()).then_some((text, age))
}

/// Writes a file, and the folder that it is in.
fn write(file: &Path, machine: &Machine) -> Result<(), String> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|why| format!("cannot make the folder `{}`: {why}", folder.display()))?;
    }
    Output::new(file).and_then(|output| output.write(machine.to_toml().as_bytes())).map_err(|why| why.to_string())
}
