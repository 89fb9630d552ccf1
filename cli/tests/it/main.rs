//! The command line as a user runs it.

mod einsum;
#[cfg(target_os = "linux")]
mod faults;
mod guide;
mod help;
mod machine;
mod placement;
mod poly;
mod redistribute;
mod traces;
