//! Functions of floats, at most 1 ulp from the exact value, with the same bits on every processor.
//!
//! They are written without branches and tables, so that a loop over a row of any kernel becomes a loop over vectors, and
//! gives what one point alone gives. A product is fused with a sum only where `mul_add` says so, which is an instruction
//! where there is AVX2 or NEON, and a call with the same bits elsewhere. The C library's functions differ by its version
//! and by the processor, and are calls.

#[macro_use]
mod elementary;

mod angle;
pub(crate) mod double;
pub(crate) mod single;

#[cfg(test)]
mod tests;
