//! The command line of Polyshard; what it does is in `cli/src/command.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    polyshard_cli::command::main()
}
