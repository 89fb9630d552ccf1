//! Mistakes in kernels and schedules do not compile, and the errors stand where the mistakes are.
//!
//! Each file of `tests/ui` is one mistake, with the compiler's words beside it. After a change that is
//! meant, `TRYBUILD=overwrite cargo test --test compile_errors` writes them anew: read every one as the
//! user who made the mistake.
//!
//! What is left to rustc, such as the name of a scalar that does not exist, has no case here: its words
//! change from one release to the next. Nor has what compiles, since one such case would make each of the
//! others a build of its own; see `dsl-macros/tests`.
//!
//! A program of its own: it starts cargo, beside which no other test would get a processor.

#[test]
fn mistakes_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/kernel/*.rs");
    cases.compile_fail("tests/ui/schedule/*.rs");
}
