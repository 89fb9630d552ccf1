//! Options of the commands that choose a schedule.

use crate::command::hardware::find;
use crate::command::mesh::numbers;
use crate::error::{CliError, Result};
use crate::numbers::{count, real, size};
use crate::say::remark;
use indicatif::HumanDuration;
use polyshard::Error;
use polyshard::lab::{Keep, Origin, Recalled, recall};
use polyshard::machine::units::counted;
use polyshard::machine::{Machine, PRESETS};
use polyshard::runtime::{World, launched_ranks};
use polyshard::search::{Limits, SearchError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Predicted seconds of a program above which it pays to measure the machine first.
const PAYS: f64 = 0.05;
/// Time limit of the search that predicts whether it pays to measure.
const DRY: Duration = Duration::from_millis(250);
/// The variable that names a machine, or the file to keep one in.
const VARIABLE: &str = "POLYSHARD_MACHINE";

/// Options for choosing a schedule.
#[derive(clap::Args)]
pub(crate) struct Choosing {
    /// Maximum number of ranks: threads or, under `mpirun`, its processes [default: all processes, or one thread per core].
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    ranks: Option<usize>,
    /// Memory limit per rank, such as 512MiB or 2GB [default: its share of the machine's memory].
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    memory: Option<usize>,
    /// Choose the schedule for this machine: a preset of `polyshard machine list`, or a file [default: the environment variable
    /// `POLYSHARD_MACHINE`, else this machine].
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: Option<String>,
    /// Counts of the levels of `--machine`, outermost first: 4,16 is 4 nodes of 16 devices [default: those of the machine; for a preset,
    /// as many nodes as the ranks need].
    #[arg(long, value_name = "COUNTS", requires = "machine")]
    hierarchy: Option<String>,
    /// Measure this machine again, for some seconds, and save the figures [default: measure once, for a second, before the first
    /// computation that is predicted to take 50 ms or more].
    #[arg(long, conflicts_with = "machine")]
    measure: bool,
    /// Search time limit in seconds; the remaining gap is reported.
    #[arg(long, value_name = "SECONDS", value_parser = real, default_value = "10", allow_negative_numbers = true)]
    at_most: f64,
}

/// The machine to choose for.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) machine: Machine,
    /// The origin of its figures, if they are measured.
    pub(crate) measured: Option<String>,
}

impl From<Recalled> for Found {
    fn from(recalled: Recalled) -> Self {
        let Recalled { machine, origin } = recalled;
        let mut measured = match origin {
            Origin::Assumed => {
                "not measured, since the program is too short to matter; `--measure` measures it".to_owned()
            }
            Origin::Kept(age, file) => {
                let age = HumanDuration(age);
                format!("measured {age} ago, from {}; `--measure` measures it again", file.display())
            }
            Origin::Measured(Ok(file)) => format!("measured now, and saved in {}", file.display()),
            Origin::Measured(Err(why)) => format!("measured now, but not saved: {why}"),
        };
        if let Some(what) = machine.disturbed() {
            measured += &format!(" ({what})");
        }
        Self { machine, measured: Some(measured) }
    }
}

/// The number of cores that threads may run on.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Choosing {
    /// The number of ranks. A program whose schedule is written has `needed` by default.
    pub(crate) fn ranks(&self, runs: bool, needed: Option<usize>) -> Result<usize> {
        // A single process under a launcher can have threads.
        let launched = launched_ranks().filter(|started| *started > 1);
        let ranks = match (self.ranks, launched) {
            (_, Some(_)) if !runs => {
                let what = "an MPI launcher has started processes, but this command runs nothing on them";
                return Err(CliError::refused(what, "start it without a launcher, and give `--ranks`"));
            }
            (Some(ranks), Some(started)) if ranks != started => {
                let what = format!("`--ranks {ranks}`, but the launcher has started {}", counted(started, "process"));
                return Err(CliError::refused(what, "leave `--ranks` out, or start as many"));
            }
            (Some(ranks), _) => ranks,
            (None, Some(started)) => started,
            (None, None) => needed.or_else(launched_ranks).unwrap_or_else(cores),
        };
        if let Some(needed) = needed.filter(|needed| *needed > ranks) {
            let cure = match launched {
                Some(_) => format!("start {needed} processes"),
                None => format!("give `--ranks {needed}`"),
            };
            let what =
                format!("the mesh has {}, but the program runs on {}", counted(needed, "rank"), counted(ranks, "rank"));
            return Err(CliError::refused(what, format!("{cure}, or leave the mesh out to have one chosen")));
        }
        // Errors in the other options are reported before anything runs, too.
        self.limits()?;
        self.named(ranks)?;
        Ok(ranks)
    }

    /// The bytes that a rank may hold, if they are given.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.memory.map(|bytes| bytes as u64)
    }

    /// Limits on the search and on the memory of its result.
    pub(crate) fn limits(&self) -> Result<Limits> {
        let at_most = match Duration::try_from_secs_f64(self.at_most) {
            Ok(at_most) => Some(at_most),
            // More than any clock can count.
            Err(_) if self.at_most > 0.0 => None,
            Err(_) => {
                let range = "0 seconds or more";
                return Err(CliError::OutOfRange { what: "`--at-most`", range, found: self.at_most });
            }
        };
        Ok(Limits { memory: self.memory(), at_most })
    }

    /// The named machine, or this host as if it had this many ranks; `seconds` predicts the time of the program on a machine.
    pub(crate) fn machine(
        &self,
        ranks: usize,
        seconds: impl Fn(&Machine, Limits) -> Result<f64> + Sync,
    ) -> Result<Found> {
        if let Some(found) = self.named(ranks)? {
            return Ok(found);
        }
        let sized = |machine: Machine| match machine.devices() == ranks {
            true => Ok(machine),
            false => machine.with_counts(&[ranks]),
        };
        let seconds = |machine: &Machine, limits| seconds(&sized(machine.clone())?, limits);
        let found = polyshard::spmd(ranks.min(cores()), |world| self.recalled(world, seconds))?;
        let found = found.into_iter().next();
        let Found { machine, measured } =
            found.ok_or_else(|| CliError::Bug { what: "no rank found its machine".into() })?;
        Ok(Found { machine: sized(machine)?, measured })
    }

    /// The named machine, or the one that these ranks run on; `seconds` predicts the time of the program on a machine.
    pub(crate) fn machine_of(&self, world: &World, seconds: impl Fn(&Machine, Limits) -> Result<f64>) -> Result<Found> {
        match self.named(world.size())? {
            Some(found) => Ok(found),
            None => Ok(self.recalled(world, seconds)?),
        }
    }

    fn recalled(&self, world: &World, seconds: impl Fn(&Machine, Limits) -> Result<f64>) -> polyshard::Result<Found> {
        // Without a writable home, figures are kept in the temporary folder, so that the next command has the same ones.
        let folders = dirs::cache_dir().into_iter().chain([std::env::temp_dir()]);
        let folders: Vec<PathBuf> = folders.map(|folder| folder.join("polyshard")).collect();
        let file = of_environment().map(PathBuf::from);
        let keep = Keep { folders: &folders, file: file.as_deref() };
        let pays = |machine: &Machine| self.pays(|limits| seconds(machine, limits));
        let begin = || match self.measure {
            true => remark(&"measuring this machine again, for some seconds"),
            false => {
                remark(&"measuring this machine for a second: it was not measured before, or only while other work ran")
            }
        };
        Ok(recall(world, keep, self.measure, pays, begin)?.into())
    }

    /// Whether it pays to measure the machine before choosing; `seconds` predicts the time of a program found within limits.
    fn pays(&self, seconds: impl Fn(Limits) -> Result<f64>) -> bool {
        let (asked, start) = (self.limits().unwrap_or_default(), Instant::now());
        let at_most = asked.at_most.map_or(DRY, |most| most.min(DRY));
        match seconds(Limits { at_most: Some(at_most), ..asked }) {
            Ok(seconds) => seconds >= PAYS,
            // A search that was cut short may find a schedule with more time; other errors do not depend on the figures.
            Err(CliError::Library(Error::Search(why))) => {
                let is_cut = matches!(*why, SearchError::Memory { is_least: false, .. }) && start.elapsed() >= DRY / 2;
                is_cut && asked.at_most != Some(at_most)
            }
            Err(_) => false,
        }
    }

    /// The machine that a flag or the environment names, if one does, with a device for each rank.
    fn named(&self, ranks: usize) -> Result<Option<Found>> {
        let named = self.machine.clone().or_else(|| {
            let is_there = |name: &String| PRESETS.contains(&&**name) || Path::new(name).exists();
            of_environment().filter(|name| is_there(name) && !self.measure)
        });
        let Some(name) = named else { return Ok(None) };
        let counts = self.hierarchy.as_deref().map(|text| numbers("hierarchy", text, "4,16")).transpose()?;
        let machine = match &counts {
            None if PRESETS.contains(&&*name) => Machine::grown(&name, ranks)?,
            counts => find(&name, counts.as_deref())?,
        };
        if machine.devices() < ranks {
            let (devices, ranks) = (counted(machine.devices(), "device"), counted(ranks, "rank"));
            let what = format!("{machine} has {devices}, too few for {ranks}");
            return Err(CliError::refused(
                what,
                "use fewer ranks, or raise the counts of its levels with `--hierarchy`",
            ));
        }
        Ok(Some(Found { machine, measured: None }))
    }
}

/// The machine, or its file, that the environment names.
fn of_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use polyshard::layout::DType;
    use polyshard::machine::Machine;
    use polyshard::schedule::Schedule;
    use polyshard::search::Choose;
    use polyshard::text::{Operand, einsum};

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        choosing: Choosing,
    }

    /// A short search that finds nothing is inconclusive; one that refuses is not.
    #[test]
    fn what_a_dry_search_is_too_short_for_is_measured_and_what_it_refuses_is_not() {
        let shapes = [("A", &[64, 64][..]), ("B", &[64, 64][..])];
        let operands = shapes.map(|(source, shape)| Operand { source, shape });
        let product = Schedule::from_spec(einsum("ij,jk->ik", &operands, DType::F64, "C").expect("an einsum"));
        let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[16, 1])).expect("a machine");
        let find = |at_most: Option<Duration>| -> Result<f64> {
            let limits = Limits { memory: Some(1), at_most };
            Ok(product.auto(16, &machine).limits(limits).find()?.cost().seconds())
        };
        let choosing = |at_most: &str| Options::parse_from(["", "--at-most", at_most]).choosing;
        let is_cut = |limits: Limits| {
            std::thread::sleep(limits.at_most.expect("a limit"));
            find(Some(Duration::ZERO))
        };
        assert!(choosing("10").pays(is_cut) && !choosing("0.1").pays(is_cut));
        assert!(!choosing("10").pays(|_| find(None)));
        assert!(!choosing("10").pays(|_| Ok(PAYS / 2.0)) && choosing("10").pays(|_| Ok(PAYS)));
    }
}
