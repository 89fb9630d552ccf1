//! Emits Rust source from a program.
//!
//! Plain recursion over a [`Program`](polyshard_program::Program), which emits the calls to the runtime that its
//! executor makes, in the same order, so that both give the same bits. Nothing is analysed here: emitted source does
//! only what the program says.
//!
//! For `C[m, n] += A[m, k] * B[k, n]` in panels of `k`, a program and the source emitted for it:
//!
//! ```text
//! for ko in 0..2:                                   for ko in 0..2i64 {
//!     A_tile[7, 9] = A[..]: broadcast along y           let a_region = Region::new([..]);
//!                                                       a_tile.broadcast(along_y, &[ko], a, &a_region)?;
//!     B_tile[9, 6] = B[..]: broadcast along x           let b_region = Region::new([..]);
//!                                                       b_tile.broadcast(along_x, &[ko], b, &b_region)?;
//!     C[m, n] += A[m, k] * B[k, n]    // product        contract(&[count(..), count(..), count(..)], ..);
//!                                                   }
//! ```
//!
//! There are three outputs: a module for programs that lower first ([`rust_source`]), a package with files and `main`
//! around the kernels ([`rust_main`]), and expressions that build a kernel's data ([`Data`]), which `kernel!` expands to.
//! The modules of `tests/golden` are outputs of the first kind, and are compiled and run by the tests.

mod data;
mod main_program;
mod source;

pub use data::Data;
pub use main_program::rust_main;
pub use source::{SourceOptions, rust_source, scalar_parameters};
