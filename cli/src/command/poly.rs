//! Files of kernels: read, bound to arrays, and lowered by the schedules that they have, or by one that is chosen.

use crate::command::compute::{Choosing, Found};
use crate::error::{CliError, Result};
use polyshard::planner::cost::Cost;
use polyshard::runtime::NpyFile;
use polyshard::{
    Choose, DType, Definitions, Given, LowerError, Mistake, Name, Number, Operand, ParseError, Program, Rounds,
    Schedule, Scheduled, SequenceError, SequenceSearch, Stage, Step, in_rounds,
};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most bytes of a file: kernels are written by hand.
const LONGEST: u64 = 1 << 20;

/// What a file of kernels is given.
#[derive(clap::Args)]
pub(crate) struct Source {
    /// The file of kernels, each with its mesh and its steps behind it, or `auto`.
    #[arg(value_name = "FILE.poly")]
    pub(crate) file: PathBuf,
    /// A `.npy` file for each array that the kernels read and none before writes, in the order in which they are declared.
    #[arg(value_name = "FILE.npy")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The value of a name that the file leaves open: an extent, a modulus or a scalar.
    #[arg(long = "let", value_name = "NAME=VALUE", value_parser = value)]
    pub(crate) values: Vec<(Name, Number, String)>,
}

/// Reads `n=10` or `alpha=0.5`.
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
    stages: Vec<Stage>,
    rounds: Vec<Rounds>,
    schedules: Vec<Schedule>,
}

/// A program of a file.
pub(crate) struct Lowered {
    pub(crate) program: Program,
    /// The schedule of each kernel.
    pub(crate) schedules: Vec<Schedule>,
    /// The rounds around kernels.
    pub(crate) rounds: Vec<Rounds>,
    /// The machine for which schedules were chosen, what the program costs there, and by which part another may be faster.
    pub(crate) chosen: Option<(Found, Cost, f64)>,
    /// The elements that a rank has to receive at least, of one kernel.
    pub(crate) bound: Option<u64>,
}

impl Source {
    /// Reads the file, and the headers of the arrays if there are some; without them, `dtype` is the type where the file leaves it open.
    ///
    /// # Errors
    /// All mistakes of the file, each where it stands, or that a file cannot be read.
    pub(crate) fn read(&self, dtype: Option<DType>, needs_arrays: bool) -> Result<Kernels> {
        let failed = |why| CliError::File { doing: "read", path: self.file.clone(), why };
        if fs::metadata(&self.file).map_err(failed)?.len() > LONGEST {
            let what = format!("`{}` is longer than a MiB", self.file.display());
            return Err(CliError::refused(what, "write fewer kernels"));
        }
        let text = fs::read_to_string(&self.file).map_err(failed)?;
        let text = text.trim_start_matches('\u{feff}').to_owned();
        let said = |error: ParseError| mistaken(&self.file, &text, error.mistakes);
        let file = Definitions::parse(&text).map_err(said)?;
        self.check_values(&file)?;
        let opened = self.inputs.iter().map(NpyFile::open).collect::<Result<Vec<_>, _>>()?;
        let shapes: Vec<Vec<usize>> = opened.iter().map(|file| file.shape().to_vec()).collect();
        let sources: Vec<String> = self.inputs.iter().map(|path| path.display().to_string()).collect();
        let operands: Vec<_> = sources.iter().zip(&shapes).map(|(source, shape)| Operand { source, shape }).collect();
        let first = opened.first().map(NpyFile::dtype);
        if let Some((other, first)) = opened.iter().position(|file| Some(file.dtype()) != first).zip(first) {
            let what = format!(
                "`{}` is of {first} and `{}` of {}; kernels in sequence compute in one type",
                sources[0],
                sources[other],
                opened[other].dtype()
            );
            return Err(CliError::refused(what, "convert one of them"));
        }
        let arrays = (needs_arrays || !operands.is_empty()).then_some(&operands[..]);
        let values: Vec<_> = self.values.iter().map(|(name, number, _)| (*name, *number)).collect();
        let given = Given { arrays, values: &values, dtype: first.or(dtype) };
        let (stages, rounds) = file.bind(&given).and_then(|stages| Ok((stages, file.rounds(&given)?))).map_err(said)?;
        let other = stages.iter().filter(|stage| first.is_some_and(|first| stage.kernel.dtype != first));
        let other: Vec<_> = other
            .map(|stage| {
                let (name, dtype) = (stage.kernel.name, stage.kernel.dtype);
                let found = first.map_or_else(String::new, |first| first.to_string());
                let what = format!("`{name}` computes in {dtype}, but `{}` is of {found}", sources[0]);
                let help = "write `T` for the type that the arrays have, or convert them";
                Mistake::new(&text, stage.at.clone(), what, Some(help.into()))
            })
            .collect();
        if !other.is_empty() {
            return Err(mistaken(&self.file, &text, other));
        }
        let schedules = stages.iter().map(Schedule::from).collect();
        Ok(Kernels { path: self.file.clone(), text, stages, rounds, schedules })
    }

    /// Checks that values are of names in the file, one of each, and whole where they have to be.
    fn check_values(&self, file: &Definitions) -> Result<()> {
        let open = file.open();
        for (nth, (name, value, written)) in self.values.iter().enumerate() {
            let Some((_, is_whole)) = open.iter().find(|(other, _)| other == name) else {
                let names: Vec<_> = open.iter().map(|(name, _)| format!("`{name}`")).collect();
                let known = match names.is_empty() {
                    true => "the file has no names that stand for numbers".to_owned(),
                    false => format!("the names that stand for numbers are {}", names.join(", ")),
                };
                let what = format!("name `{name}` in `{}`, to which `--let` gives a value", self.file.display());
                return Err(CliError::unknown(what, known));
            };
            if self.values[..nth].iter().any(|(other, ..)| other == name) {
                return Err(CliError::Twice { what: "values", subject: format!("`{name}`") });
            }
            if let (Number::Float(_), true) = (value, is_whole) {
                let what =
                    format!("`--let {name}={written}`, but extents, moduli and rounds are whole numbers of 64 bits");
                return Err(CliError::refused(what, "give such a number"));
            }
        }
        Ok(())
    }
}

fn mistaken(path: &Path, text: &str, mistakes: Vec<Mistake>) -> CliError {
    CliError::Mistakes { path: path.into(), text: text.to_owned(), mistakes }
}

impl Kernels {
    /// The element type, and the elements of what the file computes.
    pub(crate) fn output(&self) -> Result<(DType, u128)> {
        // What rounds carry first is like what becomes of it.
        let mut written = self.schedules.len().saturating_sub(1);
        if let Some((_, next)) = self.kept().and_then(|rounds| rounds.carried.first()) {
            written = self.stages.iter().position(|stage| stage.kernel.output.0 == *next).unwrap_or(written);
        }
        let last = self
            .schedules
            .get(written)
            .ok_or_else(|| CliError::Bug { what: "a file without kernels was read".into() })?;
        let kernel = last.kernel()?;
        Ok((kernel.dtype(), kernel.output().shape.iter().map(|&extent| extent as u128).product()))
    }

    /// The ranks that written schedules need, if there are some.
    pub(crate) fn needed(&self) -> Option<usize> {
        let of_stage = |stage: &Stage| match &stage.schedule {
            Scheduled::Auto => None,
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

    /// Whether a schedule is to be chosen.
    pub(crate) fn has_auto(&self) -> bool {
        self.stages.iter().any(|stage| stage.schedule == Scheduled::Auto)
    }

    /// Lowers what is written, checks that the kernels fit together, and returns their program if no schedule is to be chosen.
    ///
    /// # Errors
    /// The first step that cannot be applied, or the kernel that does not fit those before it, where it stands.
    pub(crate) fn written(&self) -> Result<Option<Lowered>> {
        let lowered = self.stages.iter().zip(&self.schedules).map(|(stage, schedule)| match &stage.schedule {
            // Kernels that do not fit together do not fit by any schedule.
            Scheduled::Auto => Ok(Schedule::new(schedule.kernel()?.clone()).lower()?),
            Scheduled::Steps(steps) => schedule.lower().map_err(|error| self.illegal(&error, steps, stage.at.clone())),
        });
        let lowered = lowered.collect::<Result<Vec<_>>>()?;
        let has_auto = self.has_auto();
        let program = match &lowered[..] {
            [program] if self.rounds.is_empty() => program.clone(),
            // A mesh that is to be chosen fits those that are written.
            programs if has_auto && programs.iter().any(|program| program.mesh().size() > 1) => return Ok(None),
            programs => self.in_sequence(programs)?,
        };
        let nest = program.body().only_nest();
        let bound = nest.map(|nest| nest.lower_bounds()[0].elements());
        Ok((!has_auto).then(|| Lowered {
            program,
            schedules: self.schedules.clone(),
            rounds: self.rounds.clone(),
            chosen: None,
            bound,
        }))
    }

    /// Chooses schedules where none is written, on at most this many ranks of a machine.
    ///
    /// # Errors
    /// That none is found, or kernels do not fit together.
    pub(crate) fn chosen(&self, choosing: &Choosing, ranks: usize, found: Found) -> Result<Lowered> {
        if let ([schedule], true) = (&self.schedules[..], self.rounds.is_empty()) {
            let choice = schedule.auto(ranks, &found.machine).limits(choosing.limits()?).find()?;
            let (program, schedules) = (choice.program().clone(), vec![choice.schedule().clone()]);
            let (cost, bound) = (choice.cost().clone(), Some(choice.bound().elements()));
            let chosen = Some((found, cost, choice.gap()));
            return Ok(Lowered { program, schedules, rounds: Vec::new(), chosen, bound });
        }
        let mut search = SequenceSearch::new(ranks, &found.machine).limits(choosing.limits()?);
        for (stage, schedule) in self.stages.iter().zip(&self.schedules) {
            let [inputs, output] = values(stage);
            search = search.stage(schedule, inputs, output[0]);
        }
        let kept = self.kept().and_then(|rounds| rounds.carried.first());
        let choice = kept
            .into_iter()
            .fold(search.rounds(self.rounds.clone()), |search, (value, _)| search.keep(*value))
            .find()?;
        let (program, schedules) = (choice.program().clone(), choice.schedules().to_vec());
        let chosen = Some((found, choice.cost().clone(), choice.gap()));
        Ok(Lowered { program, schedules, rounds: self.rounds.clone(), chosen, bound: None })
    }

    /// The outermost rounds with which the file ends, of which what is carried first is the output.
    fn kept(&self) -> Option<&Rounds> {
        self.rounds.iter().find(|rounds| rounds.kernels.end == self.stages.len())
    }

    /// The program of all kernels.
    ///
    /// # Errors
    /// That a kernel does not fit those before it, where it stands.
    fn in_sequence(&self, programs: &[Program]) -> Result<Program> {
        let stage = |nth: usize| {
            let [inputs, output] = values(&self.stages[nth]);
            (&programs[nth], inputs, output[0])
        };
        if let Some(around) = self.rounds.first() {
            let mut sequence = in_rounds(stage, 0..programs.len(), &self.rounds);
            if let Some((value, _)) = self.kept().and_then(|rounds| rounds.carried.first()) {
                sequence = sequence.keep(*value);
            }
            return sequence.build().map_err(|error| self.mistake(around.at.clone(), error.to_string()));
        }
        let first = |count: usize| in_rounds(stage, 0..count, &[]).build();
        let wrong = |all: Box<SequenceError>| {
            // The first that does not fit those before it.
            let failed = (1..=programs.len()).find_map(|count| Some((count, first(count).err()?)));
            let (count, error) = failed.unwrap_or((programs.len(), all));
            self.mistake(self.stages[count - 1].at.clone(), error.to_string())
        };
        first(programs.len()).map_err(wrong)
    }

    /// An error at a place of the file.
    fn mistake(&self, at: Range<usize>, message: String) -> CliError {
        self.mistake_with(at, message, None)
    }

    fn mistake_with(&self, at: Range<usize>, message: String, help: Option<String>) -> CliError {
        mistaken(&self.path, &self.text, vec![Mistake::new(&self.text, at, message, help)])
    }

    /// The error on a schedule that is not legal, at the step that is to blame.
    fn illegal(&self, error: &LowerError, steps: &[(Step, Range<usize>)], kernel: Range<usize>) -> CliError {
        let step = error.step().and_then(|number| steps.get(number - 1));
        let place = step.map_or(kernel, |(_, place)| place.clone());
        self.mistake_with(place, error.message(), error.help())
    }
}

/// The values that a kernel reads and writes: those that are called as its tensors.
fn values(stage: &Stage) -> [Vec<Name>; 2] {
    [stage.kernel.inputs.iter().map(|(name, _)| *name).collect(), vec![stage.kernel.output.0]]
}
