//! Many inputs in one expected text, each followed by its answer; also for the unit tests of the macros, and for the
//! command line.

use expect_test::Expect;

/// Compares a transcript: a line at its margin is an input, in which `⏎` stands for a line break, and the indented lines
/// that follow are what `of` makes of it.
pub(crate) fn check_all(transcript: Expect, of: impl Fn(&str) -> String) {
    let lines = || transcript.data().lines().filter(|line| !line.trim().is_empty());
    let margin = lines().map(|line| line.len() - line.trim_start().len()).min().expect("a transcript has inputs");
    let inputs = lines().map(|line| &line[margin..]).filter(|line| !line.starts_with(' '));
    let answers = inputs.map(|input| {
        let answer = of(&input.replace('⏎', "\n"));
        format!("{input}\n{}", answer.lines().map(|line| format!("    {line}\n")).collect::<String>())
    });
    transcript.assert_eq(&answers.collect::<String>());
}
