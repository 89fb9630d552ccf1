//! What the examples share: the command line, the run, and the check of the answer.
//!
//! An example is an [`Algorithm`]: a kernel and its schedule. Everything else is here, and nothing here
//! knows which algorithm it runs.

#[path = "../../src/bin/polyshard/axes.rs"]
pub(crate) mod axes;
pub(crate) mod check;
#[path = "../../src/bin/polyshard/dtypes.rs"]
pub(crate) mod dtypes;
pub(crate) mod launch;
pub(crate) mod mesh;
#[path = "../../src/bin/polyshard/npy.rs"]
mod npy;
#[allow(dead_code, reason = "each example reads some of these numbers")]
#[path = "../../src/bin/polyshard/numbers.rs"]
pub(crate) mod numbers;
pub(crate) mod operand;
mod options;
pub(crate) mod progress;
pub(crate) mod room;
pub(crate) mod run;
#[path = "../../src/bin/polyshard/say.rs"]
pub(crate) mod say;
pub(crate) mod size;
#[path = "../../src/bin/polyshard/values.rs"]
pub(crate) mod values;

use dtypes::with_type;
use launch::{Stop, finish};
use options::{Options, Print};
use polyshard::prelude::*;
use polyshard::{Element, SourceOptions, rust_source};
use run::{Case, measure};
use std::process::ExitCode;
use values::Number;

/// The extents of a matrix product: C\[m, n\] = sum over k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// A matrix product and how it is laid over a mesh; its fields are command line flags of its own.
pub(crate) trait Algorithm: clap::Args {
    /// The example's name.
    const NAME: &'static str;
    /// The size without `--size`.
    const SIZE: Size = Size { m: 512, k: 2048, n: 1024 };
    /// The extents of the mesh without `--mesh` and without an MPI launcher.
    const MESH: &'static [usize] = &[2, 2];
    /// Whether the first operand is stored as A\[k, m\].
    const TRANSPOSED: bool = false;

    /// Returns the schedule of the kernel of this size on this mesh.
    fn schedule<T: Element>(&self, mesh: &Mesh, size: Size) -> Schedule;
}

/// Does what the command line asks of an algorithm.
pub(crate) fn main<A: Algorithm>() -> ExitCode {
    finish(options::parse::<A>().and_then(|options| with_type!(options.dtype()?, T => perform::<A, T>(&options))))
}

fn perform<A: Algorithm, T: Number>(options: &Options<A>) -> Result<(), Stop> {
    let mesh = options.mesh()?;
    let schedule = options.algorithm.schedule::<T>(&mesh, options.size()?);
    let program = schedule.lower()?;
    if let Some(print) = options.print {
        let text = match print {
            Print::Program => program.to_string(),
            Print::Source => rust_source(&program, &SourceOptions::default()),
            Print::Explain => program.explain(),
            Print::Trace => {
                let json = serde_json::to_string_pretty(&schedule.trace()?);
                json.expect("a trace is plain data") + "\n"
            }
        };
        return Err(Stop::Said(text));
    }
    let case = Case {
        name: A::NAME,
        program: &program,
        operands: options.operands(),
        transposed: A::TRANSPOSED,
        out: options.out.as_deref(),
        run: &|world, a: &DistArray<T>, b| program.run(world, &[a, b]),
    };
    let how = &options.measuring;
    polyshard::spmd(mesh.size(), |world| measure(world, &case, how))?;
    Ok(())
}
