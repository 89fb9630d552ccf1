//! The command line of Polyshard; what it does is in `src/cli/command/mod.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    polyshard::cli::command::main()
}
