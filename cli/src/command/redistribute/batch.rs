//! `--batch`: many problems, one per line, each answered by one line.

use super::judge::Judge;
use super::problem::{Problem, Types};
use super::{Answer, uneven};
use crate::command::files::failed;
use crate::command::print;
use crate::error::{CliError, Result};
use polyshard::machine::units::counted;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::Path;

/// Plans the problem on each line of a file, or of standard input if it is `-`, and prints an object for each, in
/// order. Blank lines are skipped.
///
/// # Errors
/// If the file cannot be read; and, after all lines, if some of them had no plan.
pub(crate) fn plan_all(path: &Path, judge: &Judge) -> Result<()> {
    let mut lines: Box<dyn BufRead> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(|why| failed("open", path, why))?))
    };
    let mut out = io::stdout().lock();
    let (mut number, mut problems, mut refused) = (0, 0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        number += 1;
        if lines.read_until(b'\n', &mut line).map_err(|why| failed("read", path, why))? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        problems += 1;
        let text = match plan(&line, judge) {
            Ok(answer) => answer,
            Err(error) => {
                refused += 1;
                print::json(&json!({ "error": error.to_string(), "line": number }))
            }
        };
        match writeln!(out, "{text}") {
            // The reader closed the pipe.
            Err(why) if why.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(CliError::Stdout)?,
        }
    }
    match refused {
        0 => Ok(()),
        _ => Err(CliError::Batch { refused, problems: counted(problems, "problem") }),
    }
}

fn plan(line: &[u8], judge: &Judge) -> Result<String> {
    let problem: Problem = serde_json::from_slice(line).map_err(|why| {
        // The answer has the number of the line.
        let why = why.to_string().replace(" at line 1 column ", " at column ");
        let instead = r#"a problem is {"mesh": [["x", 4]], "source": "[2{x}8]", "target": "[8]"}"#;
        CliError::refused(why, instead)
    })?;
    match problem.types()? {
        Types::Equal([source, target]) => {
            let plan = judge.plan(&source, &target)?;
            let seconds = judge.seconds(&plan.program("A", judge.dtype))?;
            Ok(print::json(&Answer { report: plan.report(judge.dtype.size()), seconds, run: None }))
        }
        Types::Uneven(shardings) => Ok(print::json(&uneven::answer(&shardings, judge, false)?.1)),
    }
}
