//! Kernels for the tests of the search, and laws that hold for random ones.

use polyshard::text::{self, Operand};
use polyshard_layout::DType;
use polyshard_polyhedral::Schedule;
use polyshard_testing::example;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// A product of square matrices.
pub(crate) fn square(extent: usize) -> Schedule {
    Schedule::from_spec(example::matmul(extent, extent, extent))
}

/// The einsum of arrays with these names and shapes.
pub(crate) fn einsum<S: AsRef<[usize]>>(
    formula: &str,
    names: &[impl AsRef<str>],
    shapes: &[S],
    dtype: DType,
    output: &str,
) -> Schedule {
    let named = names.iter().map(AsRef::as_ref).zip(shapes.iter().map(AsRef::as_ref));
    let operands: Vec<_> = named.map(|(source, shape)| Operand { source, shape }).collect();
    Schedule::from_spec(text::einsum(formula, &operands, dtype, output).expect("an einsum"))
}

/// The einsum of arrays `A0`, `A1`, .. with these shapes.
pub(crate) fn numbered(formula: &str, shapes: &[Vec<usize>], dtype: DType) -> Schedule {
    let names: Vec<_> = (0..shapes.len()).map(|nth| format!("A{nth}")).collect();
    einsum(formula, &names, shapes, dtype, "C")
}

/// The product of terms with these indices, summed over all indices but those whose bits are set, ascending; with bit 8,
/// descending.
pub(crate) fn formula(terms: &[Vec<char>], bits: u16) -> String {
    let mut letters = terms.concat();
    letters.sort_unstable();
    letters.dedup();
    let chosen = letters.into_iter().enumerate().filter(|(nth, _)| bits >> nth & 1 == 1);
    let mut output: Vec<char> = chosen.map(|(_, index)| index).collect();
    if bits >> 8 & 1 == 1 {
        output.reverse();
    }
    let terms: Vec<String> = terms.iter().map(|term| term.iter().collect()).collect();
    format!("{}->{}", terms.join(","), output.into_iter().collect::<String>())
}

/// Checks a law for this many problems, the same in each run.
pub(crate) fn hold<S: Strategy>(cases: u32, problems: &S, law: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    runner.run(problems, law).unwrap_or_else(|error| panic!("{error}"));
}
