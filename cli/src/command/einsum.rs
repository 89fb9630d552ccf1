//! `polyshard einsum`: an einsum of `.npy` files, by the schedule predicted to be fastest.
//!
//! `dsl` parses the text, `search` chooses the schedule and `runtime` runs it; this module handles options, files and output. Under an
//! MPI launcher all processes run this code; only the first prints. Tests: `cli/tests/it/einsum.rs`.

mod homes;
mod report;
mod why;

use crate::axes;
use crate::command::compute::{Choosing, Files, Found, Shared, Target, compute, ran, remark_gap, remark_hints};
use crate::command::files::{ArrayFile, array_file, check_npy};
use crate::command::lower::chains;
use crate::command::print::{Print, printed};
use crate::error::{CliError, Result};
use crate::numbers::count;
use crate::say::say;
use crate::with_type;
use polyshard::layout::{DType, Mesh, Name};
use polyshard::machine::Machine;
use polyshard::program::KernelError;
use polyshard::runtime::{Element, NpyFile, wider};
use polyshard::schedule::Schedule;
use polyshard::search::{Choose, Contraction, ContractionSearch, Limits, Order, Search};
use polyshard::text::{EinsumError, Operand, einsum, einsum_broadcast};
use std::path::PathBuf;

/// Arguments of `polyshard einsum`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard random --shape 300,200 --seed 1 --out A.npy
  polyshard random --shape 200,100 --seed 2 --out B.npy
  polyshard einsum 'ij,jk->ik' A.npy B.npy --out product.npy --ranks 2
  polyshard einsum 'C[m, n] = A[m, k] * B[k, n]' A.npy B.npy --dry-run --ranks 36 --machine a100 --top 3
  polyshard einsum 'ij,jk,lk->il' A.npy B.npy B.npy --dry-run --ranks 4 --order 'jk,lk; ij,jl'
  polyshard einsum 'ij,jk->ik' A.npy B.npy --dry-run --mesh x=2,y=2 --shard 'A=i.at(x)' --shard 'B=k.at(y)'
  mpirun -n 3 polyshard einsum 'ik,jk->ij' A.npy A.npy --out S.npy --check")]
pub(crate) struct Arguments {
    /// The einsum in NumPy's notation, 'ij,jk->ik', or one statement, 'C[i, k] = A[i, j] * B[j, k]'.
    einsum: String,
    /// One `.npy` file per term, or per array of the statement, in the order of their first use.
    #[arg(required = true, value_name = "FILE.npy")]
    inputs: Vec<PathBuf>,
    /// Write the result to this `.npy` file, whole or not at all; NAME is the name of the array [default: that of the file]. Required
    /// unless `--dry-run`, `--print` or `--why` is given. With `--print main`, the new folder for the crate.
    #[arg(long, value_name = "[NAME=]FILE.npy", required_unless_present_any = ["dry_run", "print", "why"], value_parser = array_file())]
    out: Option<ArrayFile>,
    #[command(flatten)]
    choosing: Choosing,
    /// Order of contraction: the terms of the first step, then those of the next, and so on, as in 'ij,jk; ik,kl'. With all terms in one
    /// step there is one kernel, and each rank contracts its part [default: the fastest order].
    #[arg(long, value_name = "TERMS;..", conflicts_with_all = ["mesh", "all_ranks", "top", "why"])]
    order: Option<String>,
    /// Use all ranks, even if fewer would be faster.
    #[arg(long)]
    all_ranks: bool,
    /// Use this mesh of ranks.
    #[arg(long, value_name = "X=N,..", value_parser = mesh, allow_hyphen_values = true)]
    mesh: Option<Mesh>,
    /// Fix the sharding of an array over `--mesh`: 'A=i @ x, j @ y', or 'A=i.at(x), j.at(y)'; 'A=' replicates it. Repeat it for each array.
    #[arg(long, value_name = "NAME=CLAUSES", requires = "mesh")]
    shard: Vec<String>,
    /// List the N fastest schedules.
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    top: Option<usize>,
    /// Explain why this schedule was not chosen: a chain such as 'distribute([i], [io], [ii], mesh(x: 2)).tensorize([ii, k, j])', or the
    /// output of `--print chain`.
    #[arg(long, value_name = "CHAIN")]
    why: Option<String>,
    /// Choose a schedule and report it, but run nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print this instead of running.
    #[arg(long, value_parser = Print::of(&FORMS))]
    print: Option<Print>,
    /// Compare 8 rows of the result with a sequential computation.
    #[arg(long)]
    check: bool,
    /// Repeat dimensions of extent 1 where the index has another extent elsewhere, as NumPy does.
    #[arg(long)]
    broadcast: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

const FORMS: [Print; 6] = [Print::Chain, Print::Program, Print::Explain, Print::Cost, Print::Source, Print::Main];

/// Reads the mesh of `--mesh`.
fn mesh(text: &str) -> Result<Mesh> {
    let names = ["x", "y", "z", "u", "v"];
    axes::mesh(text, |nth| names.get(nth).map_or_else(|| format!("w{nth}"), ToString::to_string))
}

/// The einsum to compute.
struct Problem {
    schedule: Schedule,
    dtype: DType,
    /// The input files with their tensors, in the kernel's order.
    inputs: Vec<(Name, PathBuf)>,
    opened: Vec<NpyFile>,
}

/// Runs the command and returns the text to print at the end.
pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    if let Some(out) = arguments.array() {
        check_npy(&out.path)?;
    }
    let needed = arguments.mesh.as_ref().map(Mesh::size);
    let ranks = arguments.choosing.ranks(!arguments.only_chooses(), needed)?;
    let problem = problem(arguments)?;
    if let Some(mesh) = &arguments.mesh {
        let kernel = problem.schedule.kernel()?;
        homes::check_axes(kernel, mesh)?;
        let writes = !arguments.only_chooses();
        arguments.shard.iter().try_for_each(|text| homes::check(text, kernel, mesh, writes))?;
    }
    if arguments.only_chooses() {
        let found = arguments.choosing.machine(ranks, |machine, limits| {
            Ok(arguments.find(&problem.schedule, ranks, machine, limits)?.choice.cost().seconds())
        })?;
        let limits = arguments.choosing.limits()?;
        let contraction = arguments.find(&problem.schedule, ranks, &found.machine, limits)?;
        return arguments.chosen(&problem, &contraction, ranks, &found);
    }
    with_type!(problem.dtype, T => run_chosen::<T>(arguments, &problem, ranks))
}

/// Parses the einsum and reads the headers of the files.
fn problem(arguments: &Arguments) -> Result<Problem> {
    let opened = arguments.inputs.iter().map(NpyFile::open).collect::<Result<Vec<_>, _>>()?;
    let sources: Vec<String> = arguments.inputs.iter().map(|path| path.display().to_string()).collect();
    let dtype = opened.iter().map(NpyFile::dtype).fold(opened[0].dtype(), wider);
    let operands = sources.iter().zip(&opened).map(|(source, file)| Operand { source, shape: file.shape() });
    let operands: Vec<_> = operands.collect();
    let out = arguments.array();
    let named = out.and_then(|out| out.name);
    let stem = out.and_then(|out| out.path.file_stem()).and_then(|stem| stem.to_str()).unwrap_or("out");
    let output = named.map_or(stem, |name| name.as_str());
    let einsum = if arguments.broadcast { einsum_broadcast } else { einsum };
    let spec = einsum(&arguments.einsum, &operands, dtype, output).map_err(|why| match why {
        EinsumError::Statement(error) => CliError::mistaken("einsum", &arguments.einsum, error, |at| at),
        why => why.into(),
    })?;
    // A file that is given twice may be one tensor.
    let given = &arguments.inputs;
    let is_shared = spec.inputs.len() < given.len();
    let inputs = (0..given.len()).filter(|&nth| !is_shared || !given[..nth].contains(&given[nth]));
    let kernel = spec.check().map_err(|error: KernelError| EinsumError::Kernel(Box::new(error)))?;
    let result = kernel.output().name;
    if let Some(name) = named.filter(|name| *name != result) {
        return Err(CliError::unknown(format!("result `{name}`"), format!("the result is `{result}`")));
    }
    let inputs = kernel.inputs().iter().map(|tensor| tensor.name).zip(inputs.map(|nth| given[nth].clone())).collect();
    Ok(Problem { schedule: Schedule::new(kernel), dtype, inputs, opened })
}

impl Arguments {
    /// The file for the result, unless `--out` is the folder for a crate.
    fn array(&self) -> Option<&ArrayFile> {
        self.out.as_ref().filter(|_| self.print != Some(Print::Main))
    }

    /// Whether to choose a schedule without running it.
    fn only_chooses(&self) -> bool {
        self.dry_run || self.print.is_some() || self.why.is_some()
    }

    /// Searches as the options ask.
    fn find(&self, schedule: &Schedule, ranks: usize, machine: &Machine, limits: Limits) -> Result<Contraction> {
        // These options are about the schedules of one kernel.
        if self.mesh.is_some() || self.all_ranks || self.top.is_some() || self.why.is_some() {
            let choice = self.search(schedule, ranks, machine, limits)?.find()?;
            return Ok(Contraction { order: None, choice });
        }
        let search = ContractionSearch::new(schedule, ranks, machine).limits(limits);
        Ok(match &self.order {
            Some(order) => search.order(Order::parse(schedule.kernel()?, order)?).find()?,
            None => search.find()?,
        })
    }

    /// The search for a schedule of one kernel.
    fn search<'a>(&self, of: &Schedule, ranks: usize, machine: &'a Machine, limits: Limits) -> Result<Search<'a>> {
        let mut search = of.auto(ranks, machine).limits(limits).at_least(self.top.unwrap_or(1));
        if let Some(mesh) = &self.mesh {
            search = search.on(mesh);
        }
        for text in &self.shard {
            let (tensor, clauses) = homes::read(text)?;
            search = search.shard(tensor, clauses);
        }
        Ok(if self.all_ranks { search.all_ranks() } else { search })
    }

    /// Returns the text to print for a choice.
    fn chosen(&self, problem: &Problem, chosen: &Contraction, ranks: usize, found: &Found) -> Result<String> {
        let choice = &chosen.choice;
        let program = choice.program();
        if let Some(chain) = &self.why {
            return why::why_not(chain, &problem.schedule, choice, &found.machine, self.choosing.memory());
        }
        if self.print.is_some() {
            remark_gap(choice.gap());
        }
        // An explanation includes the hints.
        if self.print != Some(Print::Explain) {
            remark_hints(program, true);
        }
        Ok(match self.print {
            Some(Print::Chain) => {
                let read = first_read(choice.schedules(), &problem.inputs)?;
                chains(choice.schedules(), &[], &read)?
            }
            Some(Print::Cost) => choice.cost().to_string(),
            Some(form) => printed(program, form, self.out.as_ref().map(|folder| &*folder.path))?,
            None if self.json => report::json(problem.schedule.kernel()?, chosen, ranks, found, None),
            None => report::head(chosen, ranks, found) + &report::top(chosen, self.top),
        })
    }
}

/// The files in the order in which the kernels first read their arrays.
fn first_read(schedules: &[Schedule], files: &[(Name, PathBuf)]) -> Result<Vec<(Name, PathBuf)>> {
    let mut read: Vec<(Name, PathBuf)> = Vec::new();
    for schedule in schedules {
        for tensor in schedule.kernel()?.inputs() {
            let file = files.iter().find(|(name, _)| *name == tensor.name);
            read.extend(file.filter(|file| !read.contains(file)).cloned());
        }
    }
    Ok(read)
}

/// Chooses, computes and writes.
fn run_chosen<T: Element>(arguments: &Arguments, problem: &Problem, ranks: usize) -> Result<String> {
    let missing = || CliError::missing("no file to write", "give `--out C.npy`");
    let path = arguments.array().ok_or_else(missing)?.path.clone();
    let kernel = problem.schedule.kernel()?;
    let elements = kernel.output().shape.iter().map(|&extent| extent as u128).product();
    let outs = [Target { name: kernel.output().name, path, elements }];
    let files = Files {
        inputs: &problem.inputs,
        opened: &problem.opened,
        outs: &outs,
        check: arguments.check,
        kernel: Some(kernel),
    };
    let shared: Shared<(Contraction, Found)> = Shared::new();
    let of_run = compute::<T>(&files, ranks, |world| {
        let of_limits = |machine: &Machine, limits| arguments.find(&problem.schedule, ranks, machine, limits);
        let found = arguments
            .choosing
            .machine_of(world, |machine, limits| Ok(of_limits(machine, limits)?.choice.cost().seconds()))?;
        let find = || Ok((of_limits(&found.machine, arguments.choosing.limits()?)?, found.clone()));
        let program = shared.get(world, find, |(chosen, _)| chosen.choice.program())?;
        if let Some((chosen, found)) = shared.found().filter(|_| world.is_root()) {
            if !arguments.json {
                say(&(report::head(chosen, ranks, found) + &report::top(chosen, arguments.top)))?;
            }
            remark_hints(chosen.choice.program(), true);
        }
        Ok(program)
    })?;
    Ok(match (of_run, shared.found()) {
        (Some(of_run), Some((chosen, found))) if arguments.json => {
            report::json(kernel, chosen, ranks, found, Some(&of_run))
        }
        (Some(of_run), Some((chosen, _))) => ran(&of_run, Some(chosen.choice.cost().seconds())),
        _ => String::new(),
    })
}
