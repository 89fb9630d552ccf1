//! Tests of the library as a whole. They are one program, which links the library once; `tests/README.md` lists the
//! contents of each file.

mod bad_input;
mod blocks;
#[cfg(feature = "mpi")]
mod checked;
mod examples;
mod explained;
mod golden;
mod language;
mod laws;
mod named_leaves;
#[cfg(feature = "mpi")]
mod nodes;
mod passes;
mod periodic;
mod pipelined;
mod placed;
mod procedures;
mod properties;
mod run_into;
mod running;
mod scalars;
mod sequence;
mod several_operands;
mod stages;
mod tidy;
mod time_steps;
