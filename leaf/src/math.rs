//! Functions of floats, at most 1 ulp from the exact value, with the same bits on every processor.
//!
//! They are written without branches and tables, so that a loop over a row of any kernel is vectorised, and gives the same result as each
//! point alone. A product is fused with a sum only by `mul_add`, which is an instruction with AVX2 or NEON, and otherwise a call with the
//! same bits. The C library's functions differ by its version and by the processor, and are calls.

#[macro_use]
mod elementary;

mod angle;
pub(crate) mod double;
pub(crate) mod single;

#[cfg(test)]
mod tests;
