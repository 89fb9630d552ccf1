//! The language of Polyshard: kernels, and chains of schedule steps, from the tokens of a macro or from text.
//!
//! ```text
//! tokens --syntax, value--> Block --check--> Checked     a kernel whose names are resolved
//!        --chain----------> Chain                        steps, each with its method
//! text   --text-----------> KernelSpec, steps            or mistakes with lines and columns
//!        --definitions----> kernels of a file, each with steps or `auto`, with the extents of arrays
//! ```
//!
//! The input of the macro `kernel!`, a kernel optionally followed by its schedule, with the file that parses each part:
//!
//! ```text
//! fn summa(A: [f64; 64, 64], B: [f64; 64, 64]) -> C: [f64; 64, 64] {      syntax
//!     C[m, n] += A[m, k] * B[k, n]                                        syntax, value
//! }
//! mesh(x: 2, y: 2)                                                        chain
//! .distribute([m, n], [mo, no], [mi, ni])                                 chain/steps, chain/arguments
//! .shard(A, m @ x, k @ y)                                                 chain/placement
//! ```
//!
//! A [`Step`] is parsed as it prints, so macros, traces and files have one grammar. Nothing here knows which steps are
//! legal: `polyhedral` decides that when they are applied.
//!
//! | module | holds |
//! | --- | --- |
//! | `syntax`, `value`, `brackets`, `name`, `constant` | what is written, not yet checked |
//! | `check`, `checked`, `errors`, `form` | what it means, or every mistake |
//! | `chain`, `step` | steps, in a chain and as data |
//! | `reductions` | running reductions |
//! | `blocks` | the statements of a block as kernels, and its schedule as theirs |
//! | `definition`, `definitions`, `rounds`, `values`, `einsum`, `text`, `spec` | kernels in macros, files, einsums and texts, and as data |

mod blocks;
mod brackets;
mod chain;
mod check;
mod checked;
mod constant;
mod definition;
mod definitions;
mod einsum;
pub mod errors;
mod form;
mod name;
mod reductions;
mod rounds;
mod spec;
mod step;
mod syntax;
#[cfg(test)]
mod tests;
mod text;
mod value;
mod values;

pub use blocks::Bound;
pub use blocks::spec::{BlockKernel, BlockMistake, BlockSpec, IndexExtent, KernelSteps, Statement};
pub use chain::{Chain, ChainEnd, ChainStep};
pub use check::index::alone;
pub use checked::{Bounds, Checked, Element};
pub use constant::evaluate;
pub use definition::{CheckedBlock, CheckedPart, Defined, Definition};
pub use definitions::{Definitions, Given, Kept, Left, Scheduled, Stage};
pub use einsum::{EinsumError, Operand, einsum, einsum_broadcast};
pub use name::name;
pub use rounds::{Carry, Repeated, Rounds};
pub use step::{Clause, Dim, Share, Step, Var, dim, partial, pin};
pub use syntax::Tensor;
pub use text::{Mistake, ParseError, parse_chain, parse_kernel};
