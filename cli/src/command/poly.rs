//! `.poly` files: parsed, bound to arrays, and lowered by the schedules in them or by chosen ones. Tests: `cli/tests/it/poly.rs`.

use crate::command::compute::{Found, Target};
use crate::command::files::{ArrayFile, array_file};
use crate::error::{CliError, Result};
use polyshard::layout::{DType, Mesh, Name, joined};
use polyshard::machine::Machine;
use polyshard::planner::cost::Cost;
use polyshard::planner::{Sequence, SequenceError};
use polyshard::program::{Number, Program};
use polyshard::runtime::{NpyFile, wider};
use polyshard::schedule::{Clause, LowerError, Schedule, Step};
use polyshard::search::{Choose, Limits, Member, PANEL, Passes, Refused, Search, SequenceSearch, in_rounds};
use polyshard::text::{Definitions, Given, Kept, Left, Mistake, Operand, ParseError, Rounds, Scheduled, Stage};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Limit on the bytes of a file: kernels are written by hand.
const LONGEST: u64 = 1 << 20;

/// A `.poly` file, its arrays and its values.
#[derive(clap::Args)]
pub(crate) struct Source {
    /// The file of kernels, each followed by a mesh and steps, or by `auto` for all or the rest of it.
    #[arg(value_name = "FILE.poly")]
    pub(crate) file: PathBuf,
    /// One `.npy` file per input, an array that no earlier kernel writes: all by name, A=A.npy, or in the order of declaration.
    #[arg(value_name = "[NAME=]FILE.npy", value_parser = array_file())]
    inputs: Vec<ArrayFile>,
    /// Value of a name that the file leaves open: an extent, a modulus, a scalar, a number of rounds or their bound.
    #[arg(long = "let", value_name = "NAME=VALUE", value_parser = value)]
    pub(crate) values: Vec<(Name, Number, String)>,
}

/// Parses `n=10` or `alpha=0.5`.
fn value(text: &str) -> Result<(Name, Number, String)> {
    let unreadable = || CliError::unreadable(format!("`{text}`"), "a name and a number, such as n=10 or alpha=0.5");
    let (name, value) = text.split_once('=').ok_or_else(unreadable)?;
    let (name, value) = (Name::new(name.trim()), value.trim());
    let number = match value.parse::<i64>() {
        Ok(number) => Number::Int(number),
        Err(_) => Number::Float(value.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(unreadable)?),
    };
    if name.is_identifier() { Ok((name, number, value.to_owned())) } else { Err(unreadable()) }
}

/// The kernels of a file, bound to arrays.
pub(crate) struct Kernels {
    path: PathBuf,
    text: String,
    pub(crate) opened: Vec<NpyFile>,
    stages: Vec<Stage>,
    rounds: Vec<Rounds>,
    schedules: Vec<Schedule>,
    /// The input arrays in the order of declaration, and their files; `A.npy` for `A` by default.
    pub(crate) inputs: Vec<(Name, PathBuf)>,
    /// The arrays that exist at the end.
    results: Vec<Left>,
    /// The requested results.
    asked: Vec<Left>,
    /// Whether it has blocks of several statements.
    pub(crate) has_blocks: bool,
}

/// Shardings, by the value that has them.
type Homes = Vec<(Name, Vec<Clause>)>;

/// A program of a file.
pub(crate) struct Lowered {
    pub(crate) program: Program,
    /// The schedule of each kernel.
    pub(crate) schedules: Vec<Schedule>,
    /// The rounds around kernels.
    pub(crate) rounds: Vec<Rounds>,
    /// If schedules were chosen: the machine, the cost of the program there, and the optimality gap.
    pub(crate) chosen: Option<(Found, Cost, f64)>,
    /// Lower bound on the elements that a rank receives, of one kernel.
    pub(crate) bound: Option<u64>,
}

impl Source {
    /// Reads the file and the headers of the arrays. Without arrays, `dtype` is the element type where the file leaves it open.
    ///
    /// # Errors
    /// All mistakes of the file, each shown in place, or a file that cannot be read.
    pub(crate) fn read(&self, dtype: Option<DType>, needs_arrays: bool) -> Result<Kernels> {
        let failed = |why| CliError::File { doing: "read", path: self.file.clone(), why };
        if fs::metadata(&self.file).map_err(failed)?.len() > LONGEST {
            let what = format!("`{}` is longer than 1 MiB", self.file.display());
            return Err(CliError::refused(what, "write fewer kernels"));
        }
        let text = fs::read_to_string(&self.file).map_err(failed)?;
        let text = text.trim_start_matches('\u{feff}').to_owned();
        let said = |error: ParseError| mistaken(&self.file, &text, error.mistakes);
        let file = Definitions::parse(&text).map_err(said)?;
        self.check_values(&file)?;
        let names = file.inputs();
        let paths = self.placed(&names)?;
        let opened = paths.iter().map(NpyFile::open).collect::<Result<Vec<_>, _>>()?;
        let sources: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let operands = sources.iter().zip(&opened).map(|(source, file)| Operand { source, shape: file.shape() });
        let operands: Vec<_> = operands.collect();
        let found = opened.iter().map(NpyFile::dtype).reduce(wider);
        let arrays = (needs_arrays || !operands.is_empty()).then_some(&operands[..]);
        let values: Vec<_> = self.values.iter().map(|(name, number, _)| (*name, *number)).collect();
        let given = Given { arrays, values: &values, dtype: found.or(dtype) };
        let (stages, rounds) = file.bind(&given).and_then(|stages| Ok((stages, file.rounds(&given)?))).map_err(said)?;
        let mut mistakes = Vec::new();
        for stage in stages.iter().filter(|stage| found.is_some_and(|found| stage.kernel.dtype != found)) {
            let (name, dtype) = (stage.kernel.name, stage.kernel.dtype);
            let file = opened.iter().position(|file| file.dtype() != dtype).unwrap_or(0);
            let what = format!("`{name}` computes in {dtype}, but `{}` holds {}", sources[file], opened[file].dtype());
            let help = "write `T` for the type that the arrays have, or convert them";
            mistakes.push(Mistake::new(&text, stage.at.clone(), what, Some(help.into())));
        }
        if !mistakes.is_empty() {
            return Err(mistaken(&self.file, &text, mistakes));
        }
        let schedules = stages.iter().map(Schedule::from).collect();
        let called = |name: &Name| PathBuf::from(format!("{name}.npy"));
        let path = |nth: usize| paths.get(nth).copied().cloned().unwrap_or_else(|| called(&names[nth]));
        let inputs = names.iter().copied().zip((0..names.len()).map(path)).collect();
        let (path, results, asked) = (self.file.clone(), file.results(), Vec::new());
        let has_blocks = file.has_blocks();
        let mut kernels = Kernels { has_blocks, path, text, opened, stages, rounds, schedules, inputs, results, asked };
        kernels.asked = kernels.last().into_iter().collect();
        Ok(kernels)
    }

    /// The files in the order of the arrays `names` if they are given by name, else in the given order.
    fn placed(&self, names: &[Name]) -> Result<Vec<&PathBuf>> {
        let Some(first) = self.inputs.iter().find_map(|input| input.name) else {
            return Ok(self.inputs.iter().map(|input| &input.path).collect());
        };
        for (nth, ArrayFile { name, path }) in self.inputs.iter().enumerate() {
            let path = path.display();
            let Some(name) = name else {
                let what = format!("`{first}` is given by name, but `{path}` is not");
                return Err(CliError::refused(what, format!("write `NAME={path}`, or leave out all names")));
            };
            if !names.contains(name) {
                let known = format!("the arrays that it reads are {}", quoted(names));
                return Err(CliError::unknown(format!("array `{name}` is read in `{}`", self.file.display()), known));
            }
            if self.inputs[..nth].iter().any(|other| other.name == Some(*name)) {
                return Err(CliError::Twice { what: "files", subject: format!("`{name}`") });
            }
        }
        let place = |name: &Name| {
            let input = self.inputs.iter().find(|input| input.name == Some(*name));
            let missing = || CliError::missing(format!("no file for `{name}`"), format!("give `{name}=FILE.npy`"));
            input.map(|input| &input.path).ok_or_else(missing)
        };
        names.iter().map(place).collect()
    }

    /// Checks that values are for names in the file, one for each, and whole where they have to be.
    fn check_values(&self, file: &Definitions) -> Result<()> {
        let open = file.open();
        for (nth, (name, value, written)) in self.values.iter().enumerate() {
            let Some((_, is_whole)) = open.iter().find(|(other, _)| other == name) else {
                let known = match open.is_empty() {
                    true => "all numbers in the file are written out".to_owned(),
                    false => format!("the names for numbers are {}", quoted(open.iter().map(|(name, _)| name))),
                };
                let what = format!("name `{name}` in `{}` for `--let` to set", self.file.display());
                return Err(CliError::unknown(what, known));
            };
            if self.values[..nth].iter().any(|(other, ..)| other == name) {
                return Err(CliError::Twice { what: "values", subject: format!("`{name}`") });
            }
            if let (Number::Float(_), true) = (value, is_whole) {
                let what = format!("`--let {name}={written}`: extents, moduli and rounds are whole numbers of 64 bits");
                return Err(CliError::refused(what, "give such a number"));
            }
        }
        Ok(())
    }
}

/// Names, quoted for a message.
fn quoted<'a>(names: impl IntoIterator<Item = &'a Name>) -> String {
    joined(names.into_iter().map(|name| format!("`{name}`")), ", ")
}

fn mistaken(path: &Path, text: &str, mistakes: Vec<Mistake>) -> CliError {
    CliError::Mistakes { path: path.into(), text: text.to_owned(), mistakes }
}

impl Kernels {
    /// The element type.
    pub(crate) fn dtype(&self) -> Result<DType> {
        let first = self.stages.first().ok_or_else(|| CliError::Bug { what: "a file without kernels was read".into() });
        Ok(first?.kernel.dtype)
    }

    /// The array written last of those that exist at the end, or `None` if there are several and no kernel writes any.
    fn last(&self) -> Option<Left> {
        let last = self.results.iter().max_by_key(|left| left.writer)?;
        (last.writer.is_some() || self.results.len() == 1).then_some(*last)
    }

    /// Returns the arrays to write and their files, and makes these arrays outputs of the programs.
    pub(crate) fn targets(&mut self, files: &[ArrayFile]) -> Result<Vec<Target>> {
        let names: Vec<Name> = self.results.iter().map(|left| left.name).collect();
        self.asked.clear();
        for ArrayFile { name, path } in files {
            let left = match name.as_ref().map(|name| (name, self.results.iter().find(|left| left.name == *name))) {
                Some((_, Some(left))) => *left,
                Some((name, None)) => {
                    let known = format!("the results are {}", quoted(&names));
                    return Err(CliError::unknown(format!("result `{name}` in `{}`", self.path.display()), known));
                }
                None => self.last().filter(|_| files.len() == 1).ok_or_else(|| {
                    let what =
                        format!("`--out {}` does not say which of the results {}", path.display(), quoted(&names));
                    CliError::refused(what, format!("write `--out NAME={}`", path.display()))
                })?,
            };
            if self.asked.contains(&left) {
                return Err(CliError::Twice { what: "files", subject: format!("the result `{}`", left.name) });
            }
            self.asked.push(left);
        }
        let target = |(&Left { name, value, .. }, file): (&Left, &ArrayFile)| {
            let elements = self.shape(value).iter().map(|extent| extent.unsigned_abs()).product();
            Target { name, path: file.path.clone(), elements }
        };
        Ok(self.asked.iter().zip(files).map(target).collect())
    }

    /// The declared shape of an array, or that of its next version if it is only carried.
    fn shape(&self, name: Name) -> &[i128] {
        let declared = |name: Name| {
            let mut tensors = self.stages.iter().flat_map(|stage| {
                let shapes = stage.kernel.inputs.iter().chain([&stage.kernel.output]).map(|(_, shape)| &shape[..]);
                stage.inputs.iter().chain([&stage.output]).zip(shapes)
            });
            tensors.find(|(other, _)| **other == name).map(|(_, shape)| shape)
        };
        let carried = || {
            let mut carried = self.rounds.iter().flat_map(|rounds| &rounds.carried);
            carried.find(|carry| carry.value == name).and_then(|carry| declared(carry.next))
        };
        declared(name).or_else(carried).unwrap_or_default()
    }

    /// The number of ranks that the schedules in the file need, if it has schedules.
    pub(crate) fn needed(&self) -> Option<usize> {
        let of_stage = |stage: &Stage| match &stage.schedule {
            Scheduled::Auto(kept) => kept.mesh.as_ref().map(Mesh::size),
            Scheduled::Steps(steps) => {
                let sizes = steps.iter().map(|(step, _)| match step {
                    Step::Distribute { mesh, .. } | Step::Replicate { mesh } => mesh.size(),
                    _ => 1,
                });
                Some(sizes.fold(1, usize::saturating_mul))
            }
        };
        self.stages.iter().filter_map(of_stage).max()
    }

    /// The parts of schedules that are kept, of kernels with `auto`.
    fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.stages.iter().filter_map(|stage| match &stage.schedule {
            Scheduled::Auto(kept) => Some(kept),
            Scheduled::Steps(_) => None,
        })
    }

    /// The mesh that is kept, if any, and the shardings by value.
    fn homes(&self) -> Result<(Option<&Mesh>, Homes)> {
        let mut meshes = self.kept().filter_map(|kept| Some((kept.mesh.as_ref()?, kept)));
        let first = meshes.next().map(|(mesh, _)| mesh);
        if let Some((mesh, kept)) = meshes.find(|(mesh, _)| first.is_some_and(|first| first != *mesh)) {
            let message =
                format!("this schedule is on mesh({mesh}), an earlier one on mesh({})", first.unwrap_or(mesh));
            let help = "all kernels of a file run on one mesh: write the same, or leave it out";
            return Err(self.mistake(kept.at.clone(), message, Some(help.to_owned())));
        }
        let mut homes = Homes::new();
        for (kept, (name, clauses)) in self.kept().flat_map(|kept| kept.shards.iter().map(move |shard| (kept, shard))) {
            match homes.iter().find(|(other, _)| other == name) {
                None => homes.push((*name, clauses.clone())),
                Some((_, first)) if first == clauses => {}
                Some(_) => {
                    let help = "`.auto` keeps one sharding of an array in the whole file: write it once";
                    let message = format!("`{name}` has two shardings");
                    return Err(self.mistake(kept.at.clone(), message, Some(help.to_owned())));
                }
            }
        }
        Ok((first, homes))
    }

    /// Lowers the schedules in the file, checks that the kernels fit together, and returns their program unless a schedule is to be chosen.
    ///
    /// # Errors
    /// The first step that cannot be applied, or the kernel that does not fit the earlier ones, shown in place.
    pub(crate) fn written(&self) -> Result<Option<Lowered>> {
        let mut members: Vec<Member> = self.stages.iter().map(Member::from).collect();
        let passes = Passes::planned(&mut members, &self.rounds, PANEL);
        let own = self.stages.iter().zip(&members);
        let lowered = own.map(|(stage, Member { schedule, .. })| match &stage.schedule {
            // Kernels that do not fit together fit by no schedule.
            Scheduled::Auto(_) => Ok(Schedule::new(schedule.kernel()?.clone()).lower()?),
            Scheduled::Steps(steps) => schedule.lower().map_err(|error| self.illegal(&error, steps, stage.at.clone())),
        });
        let lowered = lowered.collect::<Result<Vec<_>>>()?;
        let has_auto = self.kept().next().is_some();
        let program = match &lowered[..] {
            [program] if self.only_kernel().is_some() => program.clone(),
            // The search chooses meshes that fit those in the file.
            programs if has_auto && programs.iter().any(|program| program.mesh().size() > 1) => return Ok(None),
            programs => {
                let program = self.in_sequence(programs)?;
                passes.run_together(&members, program).map_err(|refused| self.refused(refused))?
            }
        };
        let nest = program.body().only_nest();
        let bound = nest.map(|nest| nest.lower_bounds()[0].elements());
        let (schedules, rounds) = (members.into_iter().map(|member| member.schedule).collect(), self.rounds.clone());
        Ok((!has_auto).then_some(Lowered { program, schedules, rounds, chosen: None, bound }))
    }

    /// The schedule of a file that is one kernel and nothing else.
    fn only_kernel(&self) -> Option<&Schedule> {
        let ([schedule], [stage]) = (&self.schedules[..], &self.stages[..]) else { return None };
        let is_renamed = self.results.iter().any(|left| left.name != left.value);
        (self.rounds.is_empty() && stage.previous.is_none() && !is_renamed).then_some(schedule)
    }

    /// The predicted seconds of chosen schedules on a machine.
    pub(crate) fn seconds(&self, ranks: usize, machine: &Machine, limits: Limits) -> Result<f64> {
        let found = Found { machine: machine.clone(), measured: None };
        Ok(self.chosen(ranks, found, limits)?.chosen.map_or(0.0, |(_, cost, _)| cost.seconds()))
    }

    /// Chooses schedules for kernels with `auto`, on at most this many ranks of a machine.
    pub(crate) fn chosen(&self, ranks: usize, found: Found, limits: Limits) -> Result<Lowered> {
        let (mesh, homes) = self.homes()?;
        let (choice, bound) = match self.only_kernel() {
            Some(schedule) => {
                let search = schedule.auto(ranks, &found.machine).limits(limits);
                let search = mesh.into_iter().fold(search, Search::on);
                let choice = homes.into_iter().fold(search, |search, (name, home)| search.shard(name, home)).find()?;
                let bound = choice.bound().elements();
                (choice, Some(bound))
            }
            _ => {
                let search = SequenceSearch::new(ranks, &found.machine).limits(limits);
                let search = mesh.into_iter().fold(search, SequenceSearch::on);
                let mut search = homes.into_iter().fold(search, |search, (name, home)| search.shard(name, home));
                for (stage, schedule) in self.stages.iter().zip(&self.schedules) {
                    let inputs = stage.inputs.iter().copied();
                    search =
                        search.continued(schedule, inputs, stage.output, stage.previous).statement(stage.statement);
                }
                search = search.rounds(self.rounds.clone());
                for left in &self.asked {
                    search = search.keep(left.value).call(left.value, left.name);
                }
                (search.find()?, None)
            }
        };
        let (program, schedules) = (choice.program().clone(), choice.schedules().to_vec());
        let chosen = Some((found, choice.cost().clone(), choice.gap()));
        Ok(Lowered { program, schedules, rounds: self.rounds.clone(), chosen, bound })
    }

    /// The program of all kernels.
    ///
    /// # Errors
    /// The kernel that does not fit the earlier ones, shown in place.
    fn in_sequence(&self, programs: &[Program]) -> Result<Program> {
        let append = |sequence: Sequence, nth: usize| {
            let Stage { inputs, output, previous, .. } = &self.stages[nth];
            sequence.continued(&programs[nth], inputs.iter().copied(), *output, *previous)
        };
        let sequence = in_rounds(append, 0..programs.len(), &self.rounds);
        let keep = |sequence: Sequence, left: &Left| sequence.keep(left.value).call(left.value, left.name);
        let sequence = self.asked.iter().fold(sequence, keep);
        if let Some(around) = self.rounds.first() {
            return sequence.build().map_err(|error| self.mistake(around.at.clone(), error.to_string(), None));
        }
        let first = |count: usize| in_rounds(append, 0..count, &[]).build();
        let wrong = |all: Box<SequenceError>| {
            // The first that does not fit the earlier ones.
            let failed = (1..=programs.len()).find_map(|count| Some((count, first(count).err()?)));
            let (count, error) = failed.unwrap_or((programs.len(), all));
            self.mistake(self.stages[count - 1].at.clone(), error.to_string(), None)
        };
        sequence.build().map_err(wrong)
    }

    /// An error at a place in the file.
    fn mistake(&self, at: Range<usize>, message: String, help: Option<String>) -> CliError {
        mistaken(&self.path, &self.text, vec![Mistake::new(&self.text, at, message, help)])
    }

    /// The error for kernels that cannot run together as a step says.
    fn refused(&self, refused: Refused) -> CliError {
        match refused {
            Refused::Isl(error) => error.into(),
            Refused::Step { kernel, step, why } => {
                let stage = &self.stages[kernel];
                let place = match &stage.schedule {
                    Scheduled::Steps(steps) => steps.get(step.0 - 1).map(|(_, place)| place.clone()),
                    Scheduled::Auto(_) => None,
                };
                self.mistake(place.unwrap_or_else(|| stage.at.clone()), why, Some(Passes::HELP.into()))
            }
        }
    }

    /// The error for an illegal schedule, at the step to blame.
    fn illegal(&self, error: &LowerError, steps: &[(Step, Range<usize>)], kernel: Range<usize>) -> CliError {
        let step = error.step().and_then(|number| steps.get(number - 1));
        let place = step.map_or(kernel, |(_, place)| place.clone());
        self.mistake(place, error.message(), error.help())
    }
}
