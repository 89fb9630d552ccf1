//! Pictures are well-formed, complete and readable.

#[cfg(feature = "chart")]
mod pictures;
mod programs;
