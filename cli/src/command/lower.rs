//! `polyshard lower`: prints the program of the kernels in a file.

use crate::command::compute::{Choosing, remark_gap};
use crate::command::files;
use crate::command::poly::{Lowered, Source};
use crate::command::print::{Print, printed};
use crate::dtypes::dtype_parser;
use crate::error::{CliError, Result};
use polyshard::draw::Draw;
use polyshard::layout::{DType, Name, joined};
use polyshard::schedule::Schedule;
use polyshard::text::Rounds;
use std::path::PathBuf;

/// Arguments of `polyshard lower`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard lower examples/poly/summa.poly --let m=512 --let k=2048 --let n=1024 --type f32
  polyshard lower examples/poly/summa.poly --let m=512 --let k=2048 --let n=1024 --type f32 --draw summa.svg
  polyshard lower examples/poly/wave.poly --let rows=100 --let columns=80 --let steps=9 --let c=0.1 --type f64 --print explain
  polyshard lower examples/poly/summa.poly --let m=64 --let k=64 --let n=64 --type f64 --print main --out summa_program")]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Element type, if the file leaves it open and no array is given.
    #[arg(long = "type", value_parser = dtype_parser())]
    dtype: Option<DType>,
    #[command(flatten)]
    choosing: Choosing,
    /// What to print.
    #[arg(long, value_parser = Print::of(&FORMS), default_value = "program")]
    print: Print,
    /// Write the crate of `--print main` into this new folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Draw the program to this SVG file: the sharding of each array, each transfer with its pattern and bytes, and the lower bound.
    #[arg(long, value_name = "FILE.svg")]
    draw: Option<PathBuf>,
}

const FORMS: [Print; 6] = [Print::Program, Print::Explain, Print::Relations, Print::Chain, Print::Source, Print::Main];

/// Lowers the file and returns the text to print.
pub(crate) fn lower(arguments: &Arguments) -> Result<String> {
    if arguments.out.is_some() && arguments.print != Print::Main {
        return Err(CliError::refused("`--out` is for `--print main`", "leave it out, or add `--print main`"));
    }
    files::check(arguments.draw.as_deref())?;
    let kernels = arguments.source.read(arguments.dtype, false)?;
    let choosing = &arguments.choosing;
    let ranks = choosing.ranks(false, kernels.needed())?;
    let lowered = match kernels.written()? {
        Some(lowered) => lowered,
        None => {
            let found = choosing.machine(ranks, |machine, limits| kernels.seconds(ranks, machine, limits))?;
            kernels.chosen(ranks, found, choosing.limits()?)?
        }
    };
    let Lowered { program, schedules, rounds, chosen, .. } = &lowered;
    chosen.iter().for_each(|(.., gap)| remark_gap(*gap));
    files::draw(arguments.draw.as_deref(), || program.draw())?;
    match arguments.print {
        Print::Relations => {
            let texts = schedules.iter().map(|schedule| Ok(schedule.relations()?)).collect::<Result<Vec<_>>>()?;
            Ok(texts.join("\n"))
        }
        Print::Chain if kernels.has_blocks => {
            let what = "`--print chain` prints kernels of one statement, but the file has a block of several";
            Err(CliError::refused(what, "print the program or its source"))
        }
        Print::Chain => chains(schedules, rounds, &kernels.inputs),
        form => printed(program, form, arguments.out.as_deref()),
    }
}

/// Kernels with their chains and rounds as a `.poly` file, after a comment that lists the input files in order.
pub(crate) fn chains(schedules: &[Schedule], rounds: &[Rounds], inputs: &[(Name, PathBuf)]) -> Result<String> {
    let mut text = String::new();
    if !inputs.is_empty() {
        let files = joined(inputs.iter().map(|(name, path)| format!("{name}={}", path.display())), " ");
        // A line break would end the comment.
        text = format!("// files in this order: {}\n", files.replace(char::is_control, "?"));
    }
    for (number, schedule) in schedules.iter().enumerate() {
        let begun = rounds.iter().filter(|rounds| rounds.kernels.start == number);
        let around = |number: usize| rounds.iter().filter(|rounds| rounds.kernels.contains(&number)).count();
        let before = around(number) - begun.clone().count();
        if number > 0 {
            text += "\n";
        }
        for (nth, rounds) in begun.enumerate() {
            text += &format!("{}{rounds} {{\n", "    ".repeat(before + nth));
        }
        let indent = "    ".repeat(around(number));
        text += &format!("{indent}{}\n", schedule.kernel()?.definition());
        schedule.steps().for_each(|step| text += &format!("{indent}.{step}\n"));
        let ended = rounds.iter().filter(|rounds| rounds.kernels.end == number + 1).count();
        (1..=ended).for_each(|nth| text += &format!("{}}}\n", "    ".repeat(around(number) - nth)));
    }
    Ok(text)
}
