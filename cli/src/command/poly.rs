//! Files of kernels: read, bound to arrays, and lowered by the schedules that they have, or by one that is chosen.

use crate::command::compute::{Choosing, Found};
use crate::error::{CliError, Result};
use polyshard::planner::cost::Cost;
use polyshard::runtime::NpyFile;
use polyshard::{
    Choice, Choose, DType, Definitions, Given, LowerError, Mistake, Name, Number, Operand, ParseError, Program,
    Schedule, Scheduled, Sequence, SequenceChoice, SequenceError, SequenceSearch, Stage, Step,
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
    pub(crate) values: Vec<(Name, Number)>,
}

/// Reads `n=10` or `alpha=0.5`.
fn value(text: &str) -> Result<(Name, Number)> {
    let unreadable = || CliError::unreadable(format!("`{text}`"), "a name and a number, such as n=10 or alpha=0.5");
    let (name, value) = text.split_once('=').ok_or_else(unreadable)?;
    let (name, value) = (Name::new(name.trim()), value.trim());
    let number = match value.parse::<i64>() {
        Ok(number) => Number::Int(number),
        Err(_) => Number::Float(value.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(unreadable)?),
    };
    if name.is_identifier() { Ok((name, number)) } else { Err(unreadable()) }
}

/// The kernels of a file, bound to arrays.
pub(crate) struct Kernels {
    path: PathBuf,
    text: String,
    stages: Vec<Stage>,
    schedules: Vec<Schedule>,
}

/// A program of a file.
pub(crate) struct Lowered {
    pub(crate) program: Program,
    /// The schedule of each kernel.
    pub(crate) schedules: Vec<Schedule>,
    /// What was chosen, and for which machine.
    pub(crate) chosen: Option<(Chosen, Found)>,
}

/// What was chosen.
pub(crate) enum Chosen {
    Kernel(Box<Choice>),
    Sequence(Box<SequenceChoice>),
}

impl Chosen {
    /// What it costs.
    pub(crate) fn cost(&self) -> &Cost {
        match self {
            Self::Kernel(choice) => choice.cost(),
            Self::Sequence(choice) => choice.cost(),
        }
    }
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
        let given = Given { arrays, values: &self.values, dtype: first.or(dtype) };
        let said = |error: ParseError| mistaken(&self.file, &text, error.mistakes);
        let stages = Definitions::parse(&text).and_then(|file| file.bind(&given)).map_err(said)?;
        let other = stages.iter().filter(|stage| first.is_some_and(|first| stage.kernel.dtype != first));
        let other: Vec<_> = other
            .map(|stage| {
                let (name, dtype) = (stage.kernel.name, stage.kernel.dtype);
                let found = first.map_or_else(String::new, |first| first.to_string());
                let what = format!("`{name}` computes in {dtype}, but `{}` is of {found}", sources[0]);
                Mistake::new(
                    &text,
                    stage.at.clone(),
                    what + "\nhelp: write `T` for the type that the arrays have, or convert them",
                )
            })
            .collect();
        if !other.is_empty() {
            return Err(mistaken(&self.file, &text, other));
        }
        let schedules = stages.iter().map(Schedule::from).collect();
        Ok(Kernels { path: self.file.clone(), text, stages, schedules })
    }
}

fn mistaken(path: &Path, text: &str, mistakes: Vec<Mistake>) -> CliError {
    CliError::Mistakes { path: path.into(), text: text.to_owned(), mistakes }
}

impl Kernels {
    /// The element type, and the elements that the last kernel writes.
    pub(crate) fn output(&self) -> Result<(DType, u128)> {
        let last =
            self.schedules.last().ok_or_else(|| CliError::Bug { what: "a file without kernels was read".into() })?;
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
            [program] => program.clone(),
            // A mesh that is to be chosen fits those that are written.
            programs if has_auto && programs.iter().any(|program| program.mesh().size() > 1) => return Ok(None),
            programs => self.in_sequence(programs)?,
        };
        Ok((!has_auto).then(|| Lowered { program, schedules: self.schedules.clone(), chosen: None }))
    }

    /// Chooses schedules where none is written, on at most so many ranks of a machine.
    ///
    /// # Errors
    /// That none is found, or kernels do not fit together.
    pub(crate) fn chosen(&self, choosing: &Choosing, ranks: usize, found: Found) -> Result<Lowered> {
        if let [schedule] = &self.schedules[..] {
            let choice = schedule.auto(ranks, &found.machine).limits(choosing.limits()?).find()?;
            let (program, schedules) = (choice.program().clone(), vec![choice.schedule().clone()]);
            return Ok(Lowered { program, schedules, chosen: Some((Chosen::Kernel(Box::new(choice)), found)) });
        }
        let mut search = SequenceSearch::new(ranks, &found.machine).limits(choosing.limits()?);
        for (stage, schedule) in self.stages.iter().zip(&self.schedules) {
            let [inputs, output] = values(stage);
            search = search.stage(schedule, inputs, output[0]);
        }
        let choice = search.find()?;
        let (program, schedules) = (choice.program().clone(), choice.schedules().to_vec());
        Ok(Lowered { program, schedules, chosen: Some((Chosen::Sequence(Box::new(choice)), found)) })
    }

    /// The program of all kernels.
    ///
    /// # Errors
    /// That a kernel does not fit those before it, where it stands.
    fn in_sequence(&self, programs: &[Program]) -> Result<Program> {
        let first = |count: usize| {
            let stages = programs.iter().zip(&self.stages).take(count);
            let append = |sequence: Sequence, (program, stage): (&Program, &Stage)| {
                let [inputs, output] = values(stage);
                sequence.stage(program, inputs, output[0])
            };
            stages.fold(Sequence::new(), append).build()
        };
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
        mistaken(&self.path, &self.text, vec![Mistake::new(&self.text, at, message)])
    }

    /// The error on a schedule that is not legal, at the step that is to blame.
    fn illegal(&self, error: &LowerError, steps: &[(Step, Range<usize>)], kernel: Range<usize>) -> CliError {
        let step = error.step().and_then(|number| steps.get(number - 1));
        let place = step.map_or(kernel, |(_, place)| place.clone());
        let message = match error.help() {
            Some(help) => format!("{}\nhelp: {help}", error.message()),
            None => error.message(),
        };
        self.mistake(place, message)
    }
}

/// The values that a kernel reads and writes: those that are called as its tensors.
fn values(stage: &Stage) -> [Vec<Name>; 2] {
    [stage.kernel.inputs.iter().map(|(name, _)| *name).collect(), vec![stage.kernel.output.0]]
}
