//! The options by which a schedule is chosen, which all commands that choose have in common.

use crate::command::hardware::find;
use crate::error::{CliError, Result};
use crate::numbers::{count, real, size};
use indicatif::HumanDuration;
use polyshard::machine::Machine;
use polyshard::runtime::launched_ranks;
use polyshard::runtime::machine::{Recalled, recall};
use polyshard::{Limits, World};
use std::time::Duration;

/// How a schedule is chosen.
#[derive(clap::Args)]
pub(crate) struct Choosing {
    /// The most ranks to use: threads, or the processes that `mpirun` has started [default: those, or one for each core].
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    ranks: Option<usize>,
    /// The bytes that a rank may hold, such as 512MiB or 2GB [default: its share of the memory].
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    memory: Option<usize>,
    /// Choose for this machine, a name that `polyshard machine list` knows or a file, instead of the one that it runs on.
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: Option<String>,
    /// Measure the machine that it runs on anew, and keep that, instead of taking what was measured before.
    #[arg(long, conflicts_with = "machine")]
    measure: bool,
    /// Stop searching after this many seconds, and say by how much another schedule could be faster.
    #[arg(long, value_name = "SECONDS", value_parser = real, default_value = "10", allow_negative_numbers = true)]
    at_most: f64,
}

/// A machine to choose for.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) machine: Machine,
    /// Where its figures are from, if they are measured.
    pub(crate) measured: Option<String>,
}

impl From<Recalled> for Found {
    fn from(recalled: Recalled) -> Self {
        let Recalled { machine, age, kept } = recalled;
        let measured = match (age, kept) {
            (Some(age), _) => format!("measured {} ago on this host; `--measure` measures it anew", HumanDuration(age)),
            (None, Ok(file)) => format!("measured now, and kept in {}", file.display()),
            (None, Err(why)) => format!("measured now, and not kept: {why}"),
        };
        Self { machine, measured: Some(measured) }
    }
}

/// The cores that threads may run on.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Choosing {
    /// The ranks that there are. Of a program whose schedule is written, `needed` are enough.
    pub(crate) fn ranks(&self, runs: bool, needed: Option<usize>) -> Result<usize> {
        let ranks = match (self.ranks, launched_ranks()) {
            (_, Some(_)) if !runs => {
                let what = "an MPI launcher has started processes, and nothing is to be run";
                return Err(CliError::refused(what, "start it without, and say `--ranks`"));
            }
            (Some(ranks), Some(started)) if ranks != started => {
                let what = format!("`--ranks {ranks}` under a launcher that has started {started}");
                return Err(CliError::refused(what, "leave `--ranks` out, or start as many"));
            }
            (Some(ranks), _) => ranks,
            (None, Some(started)) => started,
            (None, None) => needed.unwrap_or_else(cores),
        };
        if let Some(needed) = needed.filter(|needed| *needed > ranks) {
            let what = format!("the mesh needs {needed} ranks, but there are {ranks}");
            return Err(CliError::refused(what, "start as many as it needs, or leave the mesh out to have one chosen"));
        }
        // What is wrong with the others is said before anything is run, too.
        self.limits()?;
        self.machine.as_ref().map(|name| named(name, ranks)).transpose()?;
        Ok(ranks)
    }

    /// The bytes that a rank may hold, if they are given.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory.map(|bytes| bytes as u64)
    }

    /// What the search may take, and what it may find.
    pub(crate) fn limits(&self) -> Result<Limits> {
        let at_most = match Duration::try_from_secs_f64(self.at_most) {
            Ok(at_most) => Some(at_most),
            // Longer than any clock goes.
            Err(_) if self.at_most > 0.0 => None,
            Err(_) => {
                let (what, range) = ("the seconds of `--at-most`", "0 or more");
                return Err(CliError::OutOfRange { what, range, found: self.at_most });
            }
        };
        Ok(Limits { memory: self.memory(), at_most })
    }

    /// The machine that is named, or this host as if it had this many ranks.
    pub(crate) fn machine(&self, ranks: usize) -> Result<Found> {
        if let Some(name) = &self.machine {
            return named(name, ranks);
        }
        let found = polyshard::spmd(ranks.min(cores()), |world| self.recalled(world))?;
        let found = found.into_iter().next();
        let Found { machine, measured } =
            found.ok_or_else(|| CliError::Bug { what: "no rank found its machine".into() })?;
        let machine = if machine.devices() == ranks { machine } else { machine.with_counts(&[ranks])? };
        Ok(Found { machine, measured })
    }

    /// The machine that is named, or the one that these ranks run on.
    pub(crate) fn machine_of(&self, world: &World) -> Result<Found> {
        match &self.machine {
            Some(name) => named(name, world.size()),
            None => Ok(self.recalled(world)?),
        }
    }

    fn recalled(&self, world: &World) -> polyshard::Result<Found> {
        let folder = dirs::cache_dir().map(|folder| folder.join("polyshard"));
        Ok(recall(world, folder.as_deref(), self.measure)?.into())
    }
}

/// A machine by its name or file, which has a device for each rank.
fn named(name: &str, ranks: usize) -> Result<Found> {
    let machine = find(name, None)?;
    if machine.devices() < ranks {
        let what = format!("{machine} has {} devices, and {ranks} ranks are asked for", machine.devices());
        return Err(CliError::refused(what, "ask for fewer ranks, or describe a larger machine in a file"));
    }
    Ok(Found { machine, measured: None })
}
