//! The subcommands: compute einsums and files of kernels over arrays; make, show and compare arrays; print programs; detect and
//! measure machines; plan redistributions, placements, reductions and sharded products.
//!
//! | module | holds |
//! | --- | --- |
//! | `einsum`, `run`, `lower`, `compute`, `poly` | programs over `.npy` files: from einsums, from files of kernels, or printed |
//! | `redistribute`, `placement`, `reduce`, `matmul` | plans |
//! | `machine`, `hardware`, `mesh`, `threads` | machines and meshes |
//! | `array`, `random`, `files`, `print`, `signals` | arrays as text, random arrays, files, JSON, and signals |
//!
//! Tests: `cli/tests/it/help.rs`.

mod array;
mod compute;
mod einsum;
mod files;
mod hardware;
mod lower;
pub mod machine;
pub mod matmul;
pub mod mesh;
pub mod placement;
mod poly;
mod print;
mod random;
pub mod redistribute;
pub mod reduce;
mod run;
mod signals;
mod threads;

use crate::command::files::is_npy;
use crate::command::print::{Print, printed};
use crate::dtypes::dtype_parser;
use crate::error::{CliError, Result};
use crate::numbers::{real, whole};
use crate::say::{complain, is_first, is_speaker, say};
use crate::with_type;
use clap::{Parser, Subcommand};
use polyshard::layout::DType;
use polyshard::ndarray::{ArrayD, Dimension};
use polyshard::program::Program;
use polyshard::runtime::{Element, NpyFile};
use polyshard::schedule::Trace;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run tensor kernels on many ranks, over arrays in `.npy` files, by schedules that you write or that are chosen for you. Also
/// plan redistributions, placements, reductions and sharded products.
#[derive(Parser)]
#[command(
    name = "polyshard",
    version,
    after_help = "Examples:
  polyshard random --shape 512,2048 --seed 1 --out A.npy
  polyshard random --shape 2048,512 --seed 2 --out B.npy
  polyshard einsum 'ij,jk->ik' A.npy B.npy --out AB.npy

`polyshard COMMAND --help` has more examples."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compute an einsum of `.npy` arrays on several ranks, by the schedule predicted to be fastest.
    Einsum(einsum::Arguments),
    /// Run the kernels of a `.poly` file over `.npy` arrays, by the schedules in the file or, for `auto`, by chosen ones.
    Run(run::Arguments),
    /// Lower the kernels of a `.poly` file and print the result: a program, its proofs, Rust source, or a whole Rust crate.
    Lower(lower::Arguments),
    /// Write a `.npy` array of random numbers: floats in [-1, 1), integers from -9 to 9.
    #[command(after_help = "Examples:
  polyshard random --shape 512,2048 --seed 1 --out A.npy
  polyshard random --shape 64,64,64 --type i32 --fortran --out cube.npy")]
    Random {
        /// Extents, separated by commas.
        #[arg(long, value_parser = shape, value_name = "M,N", allow_hyphen_values = true)]
        shape: Shape,
        /// Element type.
        #[arg(long = "type", value_parser = dtype_parser(), default_value = "f32")]
        dtype: DType,
        /// Seed of the generator: the same seed gives the same array.
        #[arg(long, value_parser = whole::<u64>, default_value = "1", allow_negative_numbers = true)]
        seed: u64,
        /// File to write.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Write it in Fortran order, first index fastest.
        #[arg(long)]
        fortran: bool,
    },
    /// Print an array, or a program that Rust code has saved as JSON.
    #[command(after_help = "Examples:
  polyshard show threads.npy
  polyshard show trace.json --print source
  polyshard show program.json --print explain")]
    Show {
        /// An array, `FILE.npy`: its type, shape and elements, with `...` for the middle of long dimensions. Or JSON of a `Program`, or of a
        /// `Schedule::trace`, which is lowered first.
        file: PathBuf,
        /// Form of a program [default: program].
        #[arg(long, value_parser = Print::of(&[Print::Program, Print::Source, Print::Explain, Print::Trace]))]
        print: Option<Print>,
    },
    /// Print the largest absolute difference of two `.npy` arrays; fail if it exceeds the tolerance.
    #[command(after_help = "Examples:
  polyshard compare threads.npy mpi.npy
  polyshard compare C.npy expected.npy --tolerance 1e-4")]
    Compare {
        /// First `.npy` file.
        left: PathBuf,
        /// Second `.npy` file.
        right: PathBuf,
        /// Largest absolute difference to accept.
        #[arg(long, value_parser = real, default_value = "0", value_name = "DIFFERENCE",
            allow_negative_numbers = true)]
        tolerance: f64,
    },
    /// Plan how an array moves from one sharding to another; print the plan, its cost and its bounds.
    Redistribute(redistribute::Arguments),
    /// List the placements of a mesh on a machine with levels, such as nodes and cores; the best for a workload first.
    Placement(placement::Arguments),
    /// List the programs of collectives that sum over axes of a placed mesh, fastest first.
    Reduce(reduce::Arguments),
    /// Compare the ways to multiply two sharded matrices on a machine, and explain the cheapest.
    Matmul(matmul::Arguments),
    /// List and show machine descriptions, and detect or measure this machine.
    Machine(machine::Arguments),
}

/// The extents of an array; a newtype because clap takes a `Vec` for several arguments.
#[derive(Clone)]
struct Shape(Vec<usize>);

fn shape(text: &str) -> Result<Shape> {
    mesh::numbers("shape", text, "512,2048").map(Shape)
}

/// Parses the command line, runs the command and prints its output or its error.
pub fn main() -> ExitCode {
    signals::install();
    // The einsum of arrays without dimensions, `->`, looks like an option; a leading space has no meaning in it.
    let words = std::env::args_os().map(|word| match word.to_str() {
        Some(text) if text.starts_with("->") => format!(" {text}").into(),
        _ => word,
    });
    let command = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments.command,
        Err(error) => return without_command(&error),
    };
    let done = match command {
        Command::Random { shape, dtype, seed, out, fortran } => {
            with_type!(dtype, T => random::random::<T>(&shape.0, seed, &out, fortran))
        }
        Command::Show { file, print: None } if is_npy(&file) => array::show(&file),
        Command::Show { file, print: Some(_) } if is_npy(&file) => {
            let what = format!("`{}` is an array, but `--print` is for programs", file.display());
            Err(CliError::refused(what, "leave `--print` out"))
        }
        Command::Show { file, print } => show(&file, print.unwrap_or(Print::Program)),
        Command::Compare { left, right, tolerance } => compare(&left, &right, tolerance),
        Command::Einsum(arguments) => einsum::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Lower(arguments) => lower::lower(&arguments),
        Command::Redistribute(arguments) => redistribute::redistribute(&arguments),
        Command::Placement(arguments) => placement::placement(&arguments),
        Command::Reduce(arguments) => reduce::reduce(&arguments),
        Command::Matmul(arguments) => matmul::matmul(&arguments),
        Command::Machine(arguments) => machine::machine(&arguments),
    };
    match done.and_then(|text| say(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The first rank prints an error that all ranks have, however long that takes.
            let is_shared = matches!(message, CliError::Said { .. }) && !is_first();
            if is_speaker(true) && !is_shared {
                complain(&message);
            }
            ExitCode::FAILURE
        }
    }
}

/// Prints help, the version or a parse error, and returns the exit code.
fn without_command(error: &clap::Error) -> ExitCode {
    let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
    if !is_speaker(error.exit_code() != 0) {
        return code;
    }
    match error.print() {
        // The reader closed the pipe.
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            complain(&CliError::Stdout(why));
            ExitCode::FAILURE
        }
        _ => code,
    }
}

fn show(path: &Path, print: Print) -> Result<String> {
    let text = fs::read_to_string(path).map_err(|why| files::failed("read", path, why))?;
    if path.extension().is_some_and(|end| end == "poly") {
        let path = path.display();
        let what = format!("`{path}` has kernels, where a program or a trace is expected");
        return Err(CliError::refused(what, format!("`polyshard lower {path}` shows the program of these kernels")));
    }
    // Of the two, only a program has arrays.
    #[derive(Deserialize)]
    struct Contents {
        arrays: Option<IgnoredAny>,
    }
    let is_program = serde_json::from_str::<Contents>(&text).is_ok_and(|contents| contents.arrays.is_some());
    let program: Program = match is_program {
        true => read(path, &text, "program", "Program")?,
        false => {
            let trace: Trace = read(path, &text, "trace", "Schedule::trace")?;
            if let Print::Trace = print {
                return Ok(trace.to_string());
            }
            trace.replay().lower().map_err(|why| {
                // The call site is in this file, which does not help the user.
                let step = why.step().map(|number| format!("schedule step {number}, `{}`: ", trace.steps[number - 1]));
                CliError::Trace { step: step.unwrap_or_default(), why: Box::new(why) }
            })?
        }
    };
    match print {
        Print::Trace => {
            let what = format!("`{}` is a program, which does not record its schedule", path.display());
            Err(CliError::refused(what, "print `program`, `source` or `explain`, or show the trace"))
        }
        form => printed(&program, form, None),
    }
}

/// Parses the text of a file as a `noun`, which users have as a `type`.
fn read<T: DeserializeOwned>(path: &Path, text: &str, noun: &str, r#type: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|why| {
        let (line, column, said) = (why.line(), why.column(), why.to_string());
        let said = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
        let place = if line == 0 { String::new() } else { format!(":{line}:{column}") };
        let what = format!("`{}{place}` is not a {noun}: {said}", path.display());
        CliError::refused(what, format!("write a `{}` with `serde_json`", r#type))
    })
}

fn compare(left: &Path, right: &Path, tolerance: f64) -> Result<String> {
    let (one, other) = (NpyFile::open(left)?, NpyFile::open(right)?);
    let ((dtype, shape), (other_dtype, other_shape)) = ((one.dtype(), one.shape()), (other.dtype(), other.shape()));
    if (dtype, shape) != (other_dtype, other_shape) {
        let (left, right) = (left.display(), right.display());
        let what = format!("`{left}` is {dtype} of shape {shape:?}, but `{right}` is {other_dtype} of {other_shape:?}");
        return Err(CliError::Different { what });
    }
    with_type!(dtype, T => compare_elements::<T>(&one.read()?, &other.read()?, tolerance))
}

fn compare_elements<T: Element>(one: &ArrayD<T>, other: &ArrayD<T>, tolerance: f64) -> Result<String> {
    let mut worst = (0.0, None);
    for ((index, &a), &b) in one.indexed_iter().zip(other) {
        let distance = a.distance(b);
        if distance > worst.0 {
            worst = (distance, Some((index, a, b)));
        }
    }
    let (distance, at) = worst;
    let mut text = format!("largest difference {}", short(distance));
    if let Some((index, a, b)) = at {
        // Writing to a string cannot fail.
        let _ = write!(text, " at {:?}: {a} and {b}", Dimension::slice(&index));
    }
    if distance > tolerance {
        return Err(CliError::Different { what: format!("{text}; at most {} is allowed", short(tolerance)) });
    }
    Ok(text + "\n")
}

/// A number in four digits, without an exponent where that is as short.
fn short(number: f64) -> String {
    let rounded: f64 = format!("{number:.3e}").parse().expect("a number reads as it prints");
    if rounded == 0.0 || (1e-3..1e6).contains(&rounded) { rounded.to_string() } else { format!("{rounded:e}") }
}
