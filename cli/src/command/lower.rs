//! `polyshard lower`: prints the program of the kernels in a file.

use crate::command::compute::{Choosing, remark_gap};
use crate::command::files;
use crate::command::poly::{Lowered, Source};
use crate::dtypes::dtype_parser;
use crate::error::{CliError, Result};
use clap::ValueEnum;
use polyshard::draw::Draw;
use polyshard::layout::{DType, Name, joined};
use polyshard::runtime::Output;
use polyshard::schedule::Schedule;
use polyshard::source::{SourceOptions, rust_main, rust_source};
use polyshard::text::Rounds;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `polyshard lower`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  polyshard lower examples/poly/summa.poly --let m=512 --let k=2048 --let n=1024 --type f32
  polyshard lower examples/poly/summa.poly --let m=512 --let k=2048 --let n=1024 --type f32 --draw summa.svg
  polyshard lower examples/poly/heat.poly --let rows=100 --let columns=80 --type f64 --print explain
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
    #[arg(long, value_enum, default_value_t = Print::Program)]
    print: Print,
    /// Write the crate of `--print main` into this new folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Draw the program to this SVG file: the sharding of each array, each transfer with its pattern and bytes, and the lower bound.
    #[arg(long, value_name = "FILE.svg")]
    draw: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Print {
    /// The program of one rank, as pseudo-code.
    Program,
    /// Each transfer with its pattern and the reason, proofs, bytes, bounds and hints.
    Explain,
    /// The relations that are proved equal, in isl's notation.
    Relations,
    /// The schedule of each kernel as a chain of steps.
    Chain,
    /// The program as Rust source.
    Source,
    /// A whole Rust crate that reads the arrays, runs the program and, with `--check`, checks the result.
    Main,
}

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
    Ok(match arguments.print {
        Print::Program => program.to_string(),
        Print::Explain => program.explain(),
        Print::Source => rust_source(program, &SourceOptions::default()),
        Print::Relations => {
            let texts = schedules.iter().map(|schedule| Ok(schedule.relations()?)).collect::<Result<Vec<_>>>()?;
            texts.join("\n")
        }
        Print::Chain => chains(schedules, rounds, &kernels.inputs)?,
        Print::Main => match &arguments.out {
            Some(folder) => write(folder, &rust_main(program))?,
            None => listed(&rust_main(program)),
        },
    })
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

/// The texts of files, each after its name.
pub(crate) fn listed(files: &[(&str, String)]) -> String {
    joined(files.iter().map(|(name, text)| format!("// {name}\n\n{text}")), "\n")
}

/// Writes files into a new folder.
pub(crate) fn write(folder: &Path, files: &[(&str, String)]) -> Result<String> {
    let failed = |why| CliError::File { doing: "write into", path: folder.into(), why };
    if folder.exists() {
        let what = format!("`{}` exists already", folder.display());
        return Err(CliError::refused(what, "give a new folder"));
    }
    fs::create_dir_all(folder.join("src")).map_err(failed)?;
    for (name, text) in files {
        Output::new(folder.join(name))?.write(text.as_bytes())?;
    }
    Ok(format!("wrote {0}/Cargo.toml and {0}/src/main.rs\n", folder.display()))
}
