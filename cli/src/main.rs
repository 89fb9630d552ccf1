//! The binary `polyshard`; the commands are in `cli/src/command.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    polyshard_cli::command::main()
}
