//! Functions of floats, at most 1 ulp from the exact value, with the same bits on every processor.
//!
//! They are written without branches and tables, so that a loop over a row of any kernel becomes a loop over vectors, and
//! gives what one point alone gives. Where a product is fused with a sum, `mul_add` says so: an instruction of every
//! processor with 256-bit vectors, and elsewhere a call with the same bits. The C library's functions differ by
//! its version and by the processor, and are calls.

#[macro_use]
mod elementary;

mod angle;
pub(crate) mod double;
pub(crate) mod single;

#[cfg(test)]
mod tests;
