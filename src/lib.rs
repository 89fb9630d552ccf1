//! Tensor kernels over a mesh of ranks: the communication is derived, proved and run.
//!
//! Write a kernel in index notation, state *separately* how its loops and its data are laid out over a mesh of ranks,
//! and get an SPMD program whose communication is derived and proved by polyhedral analysis. The same program runs on
//! MPI, or as threads inside one process.
//!
//! ```
//! use polyshard::prelude::*;
//!
//! fn main() -> polyshard::Result<()> {
//!     let matmul = kernel! {
//!         fn matmul(A: [f64; 6, 8], B: [f64; 8, 5]) -> C: [f64; 6, 5] {
//!             C[m, n] += A[m, k] * B[k, n]
//!         }
//!     };
//!     vars!(m, n, k, mo, mi, no, ni, ko, ki);
//!     let mesh = Mesh::new([("x", 2), ("y", 2)]);
//!     let [x, y] = mesh.axes();
//!
//!     let summa = matmul
//!         .distribute([m, n], [mo, no], [mi, ni], &mesh)
//!         .divide(k, ko, ki, 2)
//!         .reorder([mo, no, ko, mi, ni, ki])
//!         .shard("A", [m.at(x), k.at(y)])
//!         .shard("B", [k.at(x), n.at(y)])
//!         .shard("C", [m.at(x), n.at(y)])
//!         .communicate("A", ko)
//!         .communicate("B", ko)
//!         .tensorize([mi, ni, ki])
//!         .lower()?; // every check happens here, and names the step and its call site
//!
//!     let shards = polyshard::spmd(mesh.size(), |world| {
//!         let a = DistArray::from_fn(world, summa.sharding("A"), |i| (8 * i[0] + i[1]) as f64)?;
//!         let b = DistArray::from_fn(world, summa.sharding("B"), |i| (i[0] * i[1]) as f64)?;
//!         Ok(summa.run(world, &[&a, &b])?)
//!     })?;
//!     assert_eq!(shards[0].get(&[0, 1]), Some(140.0)); // 0*0 + 1*1 + .. + 7*7
//!     Ok(())
//! }
//! ```
//!
//! | you want to | look at |
//! | --- | --- |
//! | install it, start a crate, copy an example | guides: [building](guide::building), [examples](guide::examples) |
//! | write a kernel and a schedule for it | [`kernel!`], [`vars!`], [`schedule::Schedule`]; [guide](guide::schedules) |
//! | state which rank owns what | [`layout::Mesh`], [`layout::Sharding`]; [guide](guide::shardings) |
//! | make, read, write and gather arrays | [`runtime::DistArray`] |
//! | run on threads or MPI processes | [`spmd`], [`runtime::World`]; [guide](guide::cluster) |
//! | have the schedule chosen for a machine | [`auto`](search::Choose::auto), [`machine`]; [guide](guide::search) |
//! | run several kernels, time steps, a solver | [`planner::Sequence`]; [guide](guide::sequences) |
//! | read einsums or kernels from text | [`text::einsum`], [`text::Definitions`]; [guide](guide::poly) |
//! | see each transfer, its bytes and the proofs | [`explain`](program::Program::explain); [guide](guide::reading) |
//! | overlap communication with computation | [`pipeline`](schedule::Schedule::pipeline); [guide](guide::overlap) |
//! | move an array to another sharding | [`runtime::Redistribution`]; [guide](guide::redistribution) |
//! | broadcast, gather or reduce by hand | [`runtime::Collectives`], [`runtime::Group`] |
//! | place ranks on nodes, sum gradients | [`planner::placement`], [`planner::reduce`]; [guide](guide::placement) |
//! | call BLAS or your own function on tiles | [`leaf`]; [guide](guide::leaves) |
//! | emit the program as Rust | [`source`]; or a schedule inside [`kernel!`], compiled with your crate |
//! | translate from NumPy, JAX, ScaLAPACK or DISTAL | [guide](guide::coming_from) |
//! | know its limits | [guide](guide::limits) |

mod error;
mod reduce;
mod world;

use polyshard_runtime::World;

pub use error::{Error, Result};
/// Arrays in the memory of one rank: the argument of [`DistArray::from_array`](runtime::DistArray::from_array) and the
/// result of [`DistArray::gather`](runtime::DistArray::gather).
pub use ndarray;
pub use polyshard_dsl_macros::{kernel, vars};
pub use polyshard_runtime::{exit, launched_ranks};

#[cfg(feature = "draw")]
#[doc(inline)]
pub use polyshard_draw as draw;
#[doc(inline)]
pub use polyshard_layout as layout;
#[doc(inline)]
pub use polyshard_program as program;
/// Ranks, their arrays, and running programs on them.
///
/// Most programs need only [`World`], [`DistArray`](runtime::DistArray), [`Execute`](runtime::Execute) and
/// [`Collectives`](runtime::Collectives); emitted source calls the rest.
#[doc(inline)]
pub use polyshard_runtime as runtime;
#[doc(inline)]
pub use polyshard_search as search;

/// Schedules: where and when the iterations of a kernel run, written as steps on it.
///
/// A [`kernel!`] is a [`Schedule`](schedule::Schedule) without steps, on one rank. Steps take variables made by
/// [`vars!`]; clauses place an array: `m.at(x)`, [`pin`](schedule::pin), [`partial`](schedule::partial).
pub mod schedule {
    pub use polyshard_dsl::{Clause, Dim, Share, Step, Var, dim, partial, pin};
    pub use polyshard_polyhedral::{Block, ErrorKind, LowerError, OneKernel, Schedule, Subject, Trace};
}

/// Kernels, schedules and einsums read from text, as from `.poly` files.
pub mod text {
    pub use polyshard_dsl::{
        BlockKernel, BlockMistake, BlockSpec, Carry, Definitions, EinsumError, Given, IndexExtent, Kept, KernelSteps,
        Left, Mistake, Operand, ParseError, Rounds, Scheduled, Stage, Statement, einsum, einsum_broadcast, parse_chain,
        parse_kernel,
    };
}

/// Plans and prices: sequences of kernels, redistributions, placements and reductions.
pub mod planner {
    pub use polyshard_planner::*;

    /// Meshes placed on machines: which rank runs on which device, chosen and applied.
    pub mod placement {
        pub use crate::world::place;
        pub use polyshard_planner::placement::*;
    }

    /// Reductions along axes of a placed mesh: synthesised for its machine, and run.
    pub mod reduce {
        pub use crate::reduce::{Reduction, all_reduce};
        pub use polyshard_planner::reduce::*;
    }
}

/// Machines: described in TOML, named, or, with the feature `lab`, measured where a program runs.
pub mod machine {
    #[cfg(feature = "lab")]
    pub use polyshard_lab::detect;
    pub use polyshard_machine::*;
}

/// Measurements of the machine that a program runs on.
#[cfg(feature = "lab")]
pub mod lab {
    pub use polyshard_lab::*;
}

/// Functions on tiles that programs call as their leaves: see [`tensorize_with`](schedule::Schedule::tensorize_with).
pub mod leaf {
    pub use polyshard_runtime::leaf::register;
}

/// Programs as Rust source that depends on this crate alone.
pub mod source {
    pub use polyshard_codegen::{SourceOptions, rust_main, rust_source};
}

/// Runs `f` once per rank, on `ranks` ranks: on MPI's if the process was started by an MPI launcher,
/// otherwise on threads. Returns the results of this process' ranks, in rank order.
///
/// ```
/// let ranks = polyshard::spmd(3, |world| Ok(world.rank()))?;
/// assert_eq!(ranks, [0, 1, 2]);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// The first failure of a rank, on threads. On MPI, a failure is reported once and ends all processes. A deadlock is a
/// failure too; [`runtime::spmd()`] describes how it is found.
pub fn spmd<R: Send>(ranks: usize, f: impl Fn(&World) -> Result<R> + Sync) -> Result<Vec<R>> {
    polyshard_runtime::spmd(ranks, f)
}

/// Like [`spmd`], but MPI ranks that call different collectives end, as threads do, with an error that names the call
/// of each rank. `POLYSHARD_CHECK=1` in the environment has the same effect on programs that call [`spmd`];
/// [`runtime::spmd_checked`] lists the checks and their cost.
///
/// ```
/// use polyshard::prelude::*;
/// let error = polyshard::spmd_checked(2, |world| match world.rank() {
///     0 => Ok(world.barrier()?),
///     _ => Ok(world.all_reduce(&mut [1.0], ReduceOp::Sum)?),
/// });
/// assert_eq!(
///     error.unwrap_err().to_string(),
///     "rank 0 calls barrier, rank 1 calls all-reduce of 8 bytes (sum of f64): ranks of one group must call the same"
/// );
/// ```
///
/// # Errors
/// As [`spmd`].
pub fn spmd_checked<R: Send>(ranks: usize, f: impl Fn(&World) -> Result<R> + Sync) -> Result<Vec<R>> {
    polyshard_runtime::spmd_checked(ranks, f)
}

/// Everything that most programs use: `use polyshard::prelude::*`.
pub mod prelude {
    pub use crate::{kernel, spmd, vars};
    #[cfg(feature = "draw")]
    pub use polyshard_draw::Draw;
    pub use polyshard_dsl::{Step, Var, dim, partial, pin};
    pub use polyshard_layout::{Axis, DType, Mesh, Placement, Sharding};
    pub use polyshard_machine::Machine;
    pub use polyshard_planner::{OnMachine, Sequence};
    pub use polyshard_polyhedral::Schedule;
    pub use polyshard_program::{Pattern, Program};
    pub use polyshard_runtime::{Collectives, DistArray, Element, Execute, Prepared, Redistribution, ReduceOp, World};
    pub use polyshard_search::Choose;
}

/// Items that the macros expand to; not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use polyshard_dsl::{BlockKernel, BlockSpec, IndexExtent, Rounds, Var};
    pub use polyshard_layout::Name;
    pub use polyshard_polyhedral::Schedule;
    pub use polyshard_program::{
        Access, Affine, Assign, Comparison, Conditional, Continued, DType, Extent, Field, Function, KernelSpec,
        Modulus, Number, Running, RunningForm, ScalarType, Value, extent,
    };

    /// Returns a number of rounds; one that does not fit is refused later.
    #[must_use]
    pub fn rounds(times: i128) -> u64 {
        u64::try_from(times).unwrap_or(u64::MAX)
    }

    /// Returns an extent as the value of a scalar.
    #[must_use]
    pub fn whole(value: impl Extent) -> Number {
        i64::try_from(extent(value)).map_or(Number::Float(f64::INFINITY), Number::Int)
    }

    /// Returns the bound below which a scalar ends rounds.
    #[must_use]
    pub fn bound(below: impl ScalarType) -> f64 {
        match below.number() {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        }
    }

    /// Returns the step that prints as `text`.
    #[must_use]
    pub fn step(text: &str) -> polyshard_dsl::Step {
        text.parse().expect("a step reads as it prints; this is a bug in polyshard")
    }
}

/// The guide: a page per subject, whose code runs as tests.
pub mod guide {
    macro_rules! pages {
        ($($name:ident $file:literal),* $(,)?) => {$(
            #[doc = include_str!(concat!(env!("OUT_DIR"), "/", $file))]
            pub mod $name {}
        )*};
    }
    pages!(
        blocks "blocks.md",
        passes "passes.md",
        building "building.md",
        cluster "cluster.md",
        coming_from "coming-from.md",
        examples "examples.md",
        leaves "leaves.md",
        limits "limits.md",
        overlap "overlap.md",
        placement "placement.md",
        poly "poly.md",
        reading "reading.md",
        redistribution "redistribution.md",
        reductions "reductions.md",
        schedules "schedules.md",
        search "search.md",
        sequences "sequences.md",
        shardings "shardings.md",
    );
}

/// The README's program compiles, and so do the macros' examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../dsl-macros/src/kernel.md")]
#[doc = include_str!("../dsl-macros/src/vars.md")]
struct Readme;
