//! `polyshard einsum`: an einsum of `.npy` files, by the schedule that is fastest on the machine that it runs on.
//!
//! The text is the language's, the schedule the search's, and running it the runtime's; here is what comes between them, files
//! and a terminal. Under an MPI launcher all processes come here, and the first alone prints.

mod check;
mod report;

use crate::command::hardware::find;
use crate::error::{CliError, Result};
use crate::numbers::{real, size, whole};
use crate::say::say;
use crate::with_type;
use clap::ValueEnum;
use polyshard::machine::{Machine, detect};
use polyshard::runtime::{NpyFile, Output, launched_ranks};
use polyshard::search::Search;
use polyshard::{
    Choice, Choose, DType, DistArray, Element, Execute, KernelError, Operand, Program, Schedule, SearchError,
    SourceOptions, World, einsum, parse_chain, runtime, rust_source,
};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Arguments of `polyshard einsum`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard random --shape 300,200 --seed 1 --out A.npy
  polyshard random --shape 200,100 --seed 2 --out B.npy
  polyshard einsum 'ij,jk->ik' A.npy B.npy --out product.npy --ranks 2
  polyshard einsum 'C[m, n] = A[m, k] * B[k, n]' A.npy B.npy --dry-run --ranks 36 --machine a100 --top 3
  mpirun -n 3 polyshard einsum 'ik,jk->ij' A.npy A.npy --out S.npy --check")]
pub(crate) struct Arguments {
    /// The einsum in numpy's notation, 'ij,jk->ik', or one statement, 'C[i, k] = A[i, j] * B[j, k]'.
    einsum: String,
    /// A `.npy` file for each term, or for each array of the statement in the order in which it is read first.
    #[arg(required = true, value_name = "FILE.npy")]
    inputs: Vec<PathBuf>,
    /// The `.npy` file to write; it is written whole or not at all.
    #[arg(long, value_name = "FILE.npy", required_unless_present_any = ["dry_run", "print", "why"])]
    out: Option<PathBuf>,
    /// The most ranks to use: threads, or the processes that `mpirun` has started [default: those, or one for each core].
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    ranks: Option<usize>,
    /// Leave no rank idle.
    #[arg(long)]
    all_ranks: bool,
    /// The bytes that a rank may hold, such as 512MiB [default: its share of the memory].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<usize>,
    /// Choose for this machine, a name that `polyshard machine list` knows or a file, instead of the one that it runs on.
    #[arg(long, value_name = "NAME|FILE.toml")]
    machine: Option<String>,
    /// End the search after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = real, allow_negative_numbers = true)]
    at_most: Option<f64>,
    /// List so many schedules, the fastest first.
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true)]
    top: Option<usize>,
    /// Say why not this schedule, a chain such as 'distribute([i], [io], [ii], mesh(x: 2)).tensorize([ii, k, j])'.
    #[arg(long, value_name = "CHAIN")]
    why: Option<String>,
    /// Choose, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print this instead of running.
    #[arg(long, value_enum)]
    print: Option<Print>,
    /// Compare rows of the result with a sequential computation.
    #[arg(long)]
    check: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Print {
    /// The schedule as a chain of steps.
    Chain,
    /// The program as a page of pseudo-code.
    Program,
    /// Why each transfer has its pattern.
    Explain,
    /// What each part costs.
    Cost,
    /// The program as Rust source.
    Source,
}

/// What there is to compute.
struct Problem {
    schedule: Schedule,
    dtype: DType,
    /// The files that tensors are read from, in the kernel's order.
    inputs: Vec<PathBuf>,
    text: String,
    /// The files as they are given.
    sources: Vec<String>,
}

/// Does what the command line asks for, and returns what to print at the end.
///
/// # Errors
/// What is wrong with the text, the files or the ranks, or that nothing fits into the memory.
pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let prepared = problem(arguments).and_then(|problem| Ok((problem, arguments.ranks()?)));
    let (problem, ranks) = match prepared {
        // All processes find the same mistake.
        Err(error) if launched_ranks().is_some() => polyshard::exit(1, format_args!("error: {error}")),
        prepared => prepared?,
    };
    if arguments.only_chooses() {
        let machine = arguments.machine(ranks)?;
        let choice = arguments.search(&problem.schedule, ranks, &machine)?.find()?;
        return arguments.chosen(&problem, &choice, &machine);
    }
    with_type!(problem.dtype, T => compute::<T>(arguments, &problem, ranks))
}

/// The cores that threads may run on.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Reads the text and the headers of the files.
fn problem(arguments: &Arguments) -> Result<Problem> {
    let opened = arguments.inputs.iter().map(NpyFile::open).collect::<Result<Vec<_>, _>>()?;
    let shapes: Vec<Vec<usize>> = opened.iter().map(|file| file.shape().to_vec()).collect();
    let sources: Vec<String> = arguments.inputs.iter().map(|path| path.display().to_string()).collect();
    let dtype = opened[0].dtype();
    if let Some(other) = opened.iter().position(|file| file.dtype() != dtype) {
        let what = format!(
            "`{}` is of {dtype} and `{}` of {}; a kernel computes in one type",
            sources[0],
            sources[other],
            opened[other].dtype()
        );
        return Err(CliError::refused(what, "convert one of them"));
    }
    let operands: Vec<_> = sources.iter().zip(&shapes).map(|(source, shape)| Operand { source, shape }).collect();
    let output = arguments.out.as_deref().and_then(Path::file_stem).and_then(|stem| stem.to_str()).unwrap_or("out");
    let spec = einsum(&arguments.einsum, &operands, dtype, output)?;
    // One file that is given twice may be one tensor.
    let mut inputs: Vec<PathBuf> = arguments.inputs.clone();
    if spec.inputs.len() < inputs.len() {
        let mut seen: Vec<PathBuf> = Vec::new();
        inputs.retain(|path| {
            !seen.contains(path) && {
                seen.push(path.clone());
                true
            }
        });
    }
    let kernel = spec.check().map_err(|error: KernelError| polyshard::EinsumError::Kernel(Box::new(error)))?;
    let text = arguments.einsum.clone();
    Ok(Problem { schedule: Schedule::new(kernel), dtype, inputs, text, sources })
}

impl Arguments {
    /// Whether nothing is to be computed.
    fn only_chooses(&self) -> bool {
        self.dry_run || self.print.is_some() || self.why.is_some()
    }

    /// The ranks that there are.
    fn ranks(&self) -> Result<usize> {
        match (self.ranks, launched_ranks()) {
            (_, Some(_)) if self.only_chooses() => {
                let what = "an MPI launcher has started processes, and nothing is to be run";
                Err(CliError::refused(what, "start it without, and say `--ranks`"))
            }
            (Some(0), _) => Err(CliError::refused("`--ranks` is 0", "give 1 or more")),
            (Some(ranks), Some(started)) if ranks != started => {
                let what = format!("`--ranks {ranks}` under a launcher that has started {started}");
                Err(CliError::refused(what, "leave `--ranks` out, or start as many"))
            }
            (Some(ranks), _) => Ok(ranks),
            (None, Some(started)) => Ok(started),
            (None, None) => Ok(cores()),
        }
    }

    /// The search that is asked for.
    fn search<'a>(&self, schedule: &Schedule, ranks: usize, machine: &'a Machine) -> Result<Search<'a>> {
        let mut search = schedule.auto(ranks, machine).at_least(self.top.unwrap_or(1));
        if let Some(memory) = self.memory {
            search = search.memory(memory as u64);
        }
        if let Some(seconds) = self.at_most {
            let range = || CliError::OutOfRange { what: "`--at-most`", range: "0 or more", found: seconds };
            search = search.at_most(Duration::try_from_secs_f64(seconds).map_err(|_| range())?);
        }
        Ok(if self.all_ranks { search.all_ranks() } else { search })
    }

    /// The machine that is named, or this host as if it had so many ranks.
    fn machine(&self, ranks: usize) -> Result<Machine> {
        if let Some(name) = &self.machine {
            return named(name, ranks);
        }
        let found = polyshard::spmd(ranks.min(cores()), |world| Ok(detect(world)?))?;
        let machine =
            found.into_iter().next().ok_or_else(|| CliError::Bug { what: "no rank found its machine".into() })?;
        Ok(if machine.devices() == ranks { machine } else { machine.with_counts(&[ranks])? })
    }

    /// What is printed of a choice.
    fn chosen(&self, problem: &Problem, choice: &Choice, machine: &Machine) -> Result<String> {
        let program = choice.program();
        if let Some(chain) = &self.why {
            let steps = parse_chain(chain, None).map_err(|error| CliError::invalid("`--why`", error))?;
            return Ok(choice.why_not(&steps.into_iter().fold(problem.schedule.clone(), Schedule::apply))?);
        }
        Ok(match self.print {
            Some(Print::Chain) => choice.chain(),
            Some(Print::Program) => program.to_string(),
            Some(Print::Explain) => program.explain(),
            Some(Print::Cost) => choice.cost().to_string(),
            Some(Print::Source) => rust_source(program, &SourceOptions::default()),
            None if self.json => report::json(choice, machine, None),
            None => report::head(choice, machine, problem.dtype) + &report::top(choice, self.top),
        })
    }
}

/// A machine by its name or file, which has a device for each rank.
fn named(name: &str, ranks: usize) -> Result<Machine> {
    let machine = find(name, None)?;
    if machine.devices() < ranks {
        let what = format!("{machine} has {} devices, and {ranks} ranks are asked for", machine.devices());
        return Err(CliError::refused(what, "ask for fewer ranks, or describe a larger machine in a file"));
    }
    Ok(machine)
}

/// Chooses, computes and writes.
fn compute<T: Element>(arguments: &Arguments, problem: &Problem, ranks: usize) -> Result<String> {
    let out = arguments.out.as_deref().ok_or_else(|| CliError::missing("no file to write", "give `--out C.npy`"))?;
    // Threads share one choice; processes make the same one each.
    let choice: OnceLock<Result<Choice, SearchError>> = OnceLock::new();
    let results = runtime::spmd(ranks, |world| -> Result<Option<String>> {
        if world.is_root() {
            // Looked at before the time is spent.
            let kernel = problem.schedule.kernel()?;
            let elements: u128 = kernel.output().shape.iter().map(|&extent| extent as u128).product();
            let inputs = problem.inputs.iter().map(PathBuf::as_path);
            Output::new(out)?.other_than(inputs)?.with_room(elements * size_of::<T>() as u128)?;
        }
        let machine = match &arguments.machine {
            Some(name) => named(name, ranks)?,
            None => detect(world)?,
        };
        let search = arguments.search(&problem.schedule, ranks, &machine)?;
        let choice = match choice.get_or_init(|| search.find()) {
            Ok(choice) => choice,
            Err(error) => return Err(error.clone().into()),
        };
        if world.is_root() && !arguments.json {
            say(&(report::head(choice, &machine, problem.dtype) + &report::top(choice, arguments.top)))?;
        }
        match world.leading(choice.best().ranks())? {
            Some(world) => run_on::<T>(arguments, problem, choice, &machine, &world, out),
            None => Ok(None),
        }
    })?;
    Ok(results.into_iter().flatten().next().unwrap_or_default())
}

/// Runs the best schedule on the ranks that it uses; what is to be printed comes from the first.
fn run_on<T: Element>(
    arguments: &Arguments,
    problem: &Problem,
    choice: &Choice,
    machine: &Machine,
    world: &World,
    out: &Path,
) -> Result<Option<String>> {
    let program: &Program = choice.program();
    let inputs = program
        .inputs()
        .zip(&problem.inputs)
        .map(|(array, path)| DistArray::<T>::read_npy(world, path, &array.sharding));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let inputs: Vec<_> = inputs.iter().collect();
    world.comm().barrier()?;
    let start = Instant::now();
    let result = program.run(world, &inputs)?;
    world.comm().barrier()?;
    let seconds = start.elapsed().as_secs_f64();
    let received = world.bytes_received();
    result.to_npy(world, out)?;
    if !world.is_root() {
        return Ok(None);
    }
    let ran = report::Ran { seconds, received, out: out.display().to_string(), checked: None };
    let ran = match arguments.check {
        true => report::Ran { checked: Some(check::rows::<T>(problem, out)?), ..ran },
        false => ran,
    };
    Ok(Some(if arguments.json {
        report::json(choice, machine, Some(&ran))
    } else {
        report::ran(choice, &ran, problem.dtype)
    }))
}
