//! The flags of every kernel, and what follows from them.

use super::launch::Stop;
use super::mesh::mesh;
use super::run::Measuring;
use clap::{Args, ValueEnum};
use polyshard::cli::axes::Axes;
use polyshard::cli::dtypes::dtype_parser;
use polyshard::cli::numbers::whole;
use polyshard::cli::values::{self, Number};
use polyshard::prelude::*;
use polyshard::{DType, SourceOptions, rust_source};
use std::ops::Deref;

/// The flags of every kernel.
#[derive(Args)]
pub struct Options {
    /// The mesh, as 2x2 or with names of its axes, as x=2,y=2 [default: one that suits the algorithm; under an MPI
    /// launcher, of as many ranks as it started].
    #[arg(long, value_name = "MESH")]
    mesh: Option<Axes>,
    /// The element type [default: that of the files if there are any, or f32].
    #[arg(long = "type", value_parser = dtype_parser(), value_name = "TYPE")]
    pub dtype: Option<DType>,
    /// Makes up the first input as `polyshard random` does with this seed, the others with the next ones.
    #[arg(long, value_parser = whole::<u64>, default_value = "1", allow_negative_numbers = true)]
    seed: u64,
    /// Print this instead of running.
    #[arg(long, value_enum)]
    pub print: Option<Print>,
    #[command(flatten)]
    measuring: Measuring,
}

impl Deref for Options {
    type Target = Measuring;

    fn deref(&self) -> &Measuring {
        &self.measuring
    }
}

/// What to print instead of running.
#[derive(Clone, Copy, ValueEnum)]
pub enum Print {
    /// The program as a page of pseudo-code.
    Program,
    /// The program as Rust source.
    Source,
    /// Why each transfer has its pattern.
    Explain,
    /// The schedule as JSON, for `polyshard show`.
    Trace,
}

impl Options {
    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype.unwrap_or(DType::F32)
    }

    /// Returns the mesh of the example `name`: as asked for, or of the shape that is made of the ranks that an MPI
    /// launcher started, else of so many.
    pub fn mesh<const N: usize>(
        &self,
        name: &str,
        axes: [&str; N],
        ranks: usize,
        shape: impl Fn(usize) -> [usize; N],
    ) -> Result<Mesh, String> {
        mesh(name, self.mesh.as_ref(), axes, ranks, shape)
    }

    /// Lowers the schedule; if something is to be printed instead of running, that is the end.
    pub fn lower(&self, schedule: &Schedule) -> Result<Program, Stop> {
        self.lower_all([schedule]).map(|[program]| program)
    }

    /// As [`lower`](Self::lower), of schedules that run one after the other.
    pub fn lower_all<const N: usize>(&self, schedules: [&Schedule; N]) -> Result<[Program; N], Stop> {
        let mut programs = Vec::with_capacity(N);
        for schedule in schedules {
            programs.push(schedule.lower()?);
        }
        let print = |print: Print| {
            let texts = programs.iter().zip(schedules).map(|(program, schedule)| match print {
                Print::Program => Ok(program.to_string()),
                Print::Source => Ok(rust_source(program, &SourceOptions::default())),
                Print::Explain => Ok(program.explain()),
                Print::Trace => {
                    let json = serde_json::to_string_pretty(&schedule.trace()?);
                    Ok(json.expect("a trace is plain data") + "\n")
                }
            });
            texts.collect::<Result<Vec<_>, Stop>>()
        };
        match self.print {
            Some(what) => Err(Stop::Said(print(what)?.join("\n"))),
            None => Ok(programs.try_into().expect("there is a program per schedule")),
        }
    }

    /// Returns an element of the input with this position, made of its index and the seed.
    pub fn element<T: Number>(&self, input: u64, index: &[usize]) -> T {
        values::element(self.seed.wrapping_add(input), index)
    }
}
