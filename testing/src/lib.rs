//! What tests, benchmarks and examples of several packages share. Not published, so no package depends on it but for
//! these.
//!
//! | module | feature | for |
//! | --- | --- | --- |
//! | [`example`] | `polyshard` | the examples: flags, what is said of a run, and the judgement of its answer |
#![allow(
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "what fails a test panics, and errors are those of what is tested"
)]

#[cfg(feature = "polyshard")]
pub mod example;
