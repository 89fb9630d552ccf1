//! Prints a program, and explains its transfers. Tests: `tests/it/sequence.rs`.

use super::body::Numbered;
use super::{Array, ArrayKind, MoveView, Origin, Program, Rounds, Span, Until};
use crate::between::common_mesh;
use crate::display;
use crate::expr::Expr;
use crate::ids::{ArrayId, StatementId};
use crate::kernel::Assign;
use crate::leg_text::LegText;
use crate::nest::{Continued, NestView, Packing};
use crate::number::Number;
use crate::proof;
use crate::reduction::Procedure;
use crate::statement::Statement;
use crate::value::Value;
use polyshard_layout::{counted, joined};
use std::fmt::{self, Write as _};

/// A program of one kernel prints as the kernel's loops. Other programs print their arrays, and a line per statement; a temporary
/// that holds an array in another sharding has a prime.
///
/// ```text
/// program over (x: 2), f32
///     input         X[4, 4]: [0 @ x]
///     input         W[4, 4]: replicated
///  1  run           Y = rows(X, W), C[m, n] += A[m, k] * B[k, n]
///  2  move          Y' = Y: [0 @ x] to [1 @ x], all_to_all(x)
///  3  run           Z = columns(Y', W), C[m, n] += A[m, k] * B[k, n]
///     output        Z[4, 4]: [0 @ x]
/// ```
///
/// Repeated statements are indented below their rounds.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nest) = self.body.only_nest() {
            return display::page(&nest, &self.body.statements, f);
        }
        writeln!(f, "program over ({}), {}", self.mesh(), self.dtype())?;
        let mut arrays = |kind: ArrayKind, word: &str| {
            self.of_kind(kind).into_iter().try_for_each(|id| writeln!(f, "    {word:13} {}", self.described(id)))
        };
        arrays(ArrayKind::Input, "input")?;
        for Line { number, depth, span, what, text } in self.lines() {
            let indent = "  ".repeat(depth);
            match number {
                Some(number) => writeln!(f, "{:>2}  {indent}{what:13} {text}", number.0)?,
                None => writeln!(f, "    {indent}{what:13} {text}")?,
            }
            if let [Statement::Rounds(id, _)] = span.statements {
                let lines = self.carried(&self.body.rounds[id.0]);
                lines.iter().try_for_each(|line| writeln!(f, "    {indent}{:13} {line}", ""))?;
            }
            let mut continued = self.continued(span).into_iter();
            continued.try_for_each(|line| writeln!(f, "    {indent}{:13} {line}", ""))?;
        }
        let mut outputs = self.of_kind(ArrayKind::Output).into_iter();
        outputs.try_for_each(|id| writeln!(f, "    {:13} {}", "output", self.described(id)))
    }
}

impl Program {
    /// Returns, for each transfer and move, the pattern found, the reasons for it and the bytes per rank and step; then the proofs,
    /// the bounds per rank, and hints at what would likely be faster.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_explanation(&mut text);
        text
    }

    fn write_explanation(&self, text: &mut String) -> fmt::Result {
        let alone = self.body.only_nest().is_some();
        if !alone {
            write!(text, "{self}")?;
        }
        let first = self.body.in_first_round();
        for Line { number, span, what, text: line, .. } in self.lines() {
            if let Some(number) = number.filter(|_| !alone) {
                writeln!(text, "{}. {what} {line}", number.0)?;
            } else if !alone && span.kernel.is_some() {
                writeln!(text, "   {what} {line}")?;
            }
            self.continued(span).into_iter().try_for_each(|line| writeln!(text, "    {line}"))?;
            self.passed(span).into_iter().try_for_each(|line| writeln!(text, "    {line}"))?;
            match (span.kernel, span.statements) {
                (Some(kernel), _) => self.body.nest(kernel).explain_transfers(text, &self.body, &first)?,
                (None, [Statement::Begin(id, _)]) => {
                    let Some(moved) = self.body.moved(*id) else { continue };
                    let bytes = moved.volume().received;
                    if bytes > 0 {
                        writeln!(text, "    {}", shown_legs(&moved))?;
                    }
                    writeln!(text, "    at most {bytes} bytes received per rank")?;
                    let lines = moved.route.procedure().into_iter().flat_map(Procedure::lines);
                    (1..).zip(lines).try_for_each(|(step, line)| writeln!(text, "    {step}. {line}"))?;
                    moved.tests.iter().try_for_each(|test| writeln!(text, "    - {test}"))?;
                    if bytes > 0 {
                        decided(&moved).into_iter().try_for_each(|line| writeln!(text, "    - {line}"))?;
                    }
                }
                (None, [Statement::Rounds(id, _)]) => {
                    let rounds = &self.body.rounds[id.0];
                    self.carried(rounds).iter().try_for_each(|line| writeln!(text, "    {line}"))?;
                    if !rounds.carried.is_empty() {
                        writeln!(text, "    carried arrays are renamed, not copied")?;
                    }
                }
                _ => {}
            }
        }
        match self.origin {
            Origin::Derived => list(text, "proved", &proof::lines(&self.report.proofs))?,
            Origin::File { is_gone_through } => {
                let steps = "in every step, each rank receives all that it reads, and writes only elements that it \
                             owns or sends on";
                // Whether calls match, and arrays are written before they are read, is decided when a program is read, whatever the
                // file states.
                let calls = self.nests().flat_map(|nest| nest.matches().unwrap_or_default());
                let decided: Vec<_> = calls.chain(self.body.flow().proofs).collect();
                let stated = self.report.proofs.iter().filter(|proof| !decided.contains(proof));
                let stated: Vec<_> = stated.cloned().collect();
                let steps = is_gone_through.then(|| steps.to_owned());
                let checked: Vec<_> = steps.into_iter().chain(proof::lines(&decided)).collect();
                list(text, "checked when it was read", &checked)?;
                list(text, "not proved here, but stated by the file", &proof::lines(&stated))?;
            }
        }
        let report = &self.report;
        writeln!(text, "bounds per rank")?;
        writeln!(text, "    - shards {} bytes", report.shard_bytes)?;
        writeln!(text, "    - tiles and staging {} bytes", report.tile_bytes)?;
        let packed = self.packed_bytes();
        if packed > 0 {
            writeln!(text, "    - packed copies of matrix products {packed} bytes")?;
        }
        writeln!(text, "    - received {} bytes", report.traffic_bytes)?;
        if !self.hints.is_empty() {
            writeln!(text, "hints")?;
        }
        self.hints.iter().try_for_each(|hint| writeln!(text, "    - {hint}"))
    }

    /// A line for each kernel and for each other span, except arrays that are freed and moves that end where they begin.
    fn lines(&self) -> Vec<Line<'_>> {
        let spans = self.body.numbered();
        let mut lines = Vec::new();
        for (nth, &Numbered { number, depth, span }) in spans.iter().enumerate() {
            let neighbour = |nth: Option<usize>| nth.and_then(|nth| spans.get(nth)).map(|found| found.span);
            let (before, after) = (neighbour(nth.checked_sub(1)), neighbour(Some(nth + 1)));
            for (nth, kernel) in self.body.kernels_of(span).into_iter().enumerate() {
                let row = &self.body.kernels[kernel.0];
                let inputs = joined(row.reads().iter().map(|&id| self.shown(id)), ", ");
                let called = format!("{} = {}({inputs})", self.shown(row.writes()), row.kernel.name());
                let (what, number) = if nth == 0 { ("run", Some(number)) } else { ("together with", None) };
                let (span, text) =
                    (Span { kernel: Some(kernel), ..span }, format!("{called}, {}", row.kernel.statement()));
                lines.push(Line { number, depth, span, what, text });
            }
            let (number, what, text) = match (span.kernel, span.statements) {
                (None, [Statement::Begin(id, _)]) => {
                    let Some(moved) = self.body.moved(*id) else { continue };
                    let [source, target] = moved.shardings;
                    let names = (self.shown(moved.target), self.shown(moved.source));
                    let (by, pattern) = (moved.shown_sums(), moved.pattern());
                    let what = if span.is_ended_by(after.as_ref()) { "move" } else { "begin move" };
                    (Some(number), what, format!("{} = {}: {source} to {target}, {pattern}{by}", names.0, names.1))
                }
                (None, [Statement::End(..)]) if before.is_some_and(|before| before.is_ended_by(Some(&span))) => {
                    continue;
                }
                (None, [Statement::End(id, _)]) => {
                    let Some(moved) = self.body.moved(*id) else { continue };
                    (None, "await", self.shown(moved.target))
                }
                (None, [Statement::Rounds(id, _)]) => {
                    (Some(number), "repeat", self.shown_rounds(&self.body.rounds[id.0]))
                }
                _ => continue,
            };
            lines.push(Line { number, depth, span, what, text });
        }
        lines
    }

    /// Returns how often statements are repeated, as printed: `at most 100 rounds, until rr < 1e-9`.
    #[must_use]
    pub fn shown_rounds(&self, rounds: &Rounds) -> String {
        let times = counted(rounds.times, "round");
        let until = rounds.until.map(|Until { scalar, below }| {
            self.condition(rounds).unwrap_or_else(|| format!("{} < {below:e}", self.shown(scalar)))
        });
        until.map_or(times.clone(), |until| format!("at most {times}, until {until}"))
    }

    /// Returns the condition that ends rounds, if a kernel computes it: a scalar that is 0 where it holds, and elsewhere 1.
    #[must_use]
    pub fn condition(&self, rounds: &Rounds) -> Option<String> {
        let Until { scalar, below } = rounds.until?;
        let nest = self.nests().find(|nest| nest.writes() == scalar && below == 0.5)?;
        match nest.kernel.value() {
            Value::If(choice) if choice.then == Value::Literal(Number::Int(0)) => {
                Some(format!("{} {} {}", choice.left, choice.compare, choice.right))
            }
            _ => None,
        }
    }

    /// The arrays that rounds carry, a line each.
    fn carried(&self, rounds: &Rounds) -> Vec<String> {
        let line = |carried: &super::Carried| {
            let [first, value, next] = [carried.first, carried.value, carried.next].map(|id| self.shown(id));
            let written = format!("{value} is first {first}, then {next} of the round before");
            let implied = |nest: &NestView<'_>| {
                nest.continues.is_none() && self.body.version_before(nest.row) == Some(carried.value)
            };
            let of_nests = self.nests().filter(implied);
            let kept = of_nests.map(|nest| {
                let (output, kernel) = (self.shown(nest.writes()), nest.kernel.name());
                format!("elements of {output} that `{kernel}` does not write are copied from {value}")
            });
            let kept: Vec<_> = kept.collect();
            std::iter::once(written).chain(kept)
        };
        rounds.carried.iter().flat_map(line).collect()
    }

    /// The previous version of the output of the kernel of a line.
    fn continued(&self, span: Span<'_>) -> Option<String> {
        let row = &self.body.kernels[span.kernel?.0];
        let Continued { array, adds } = row.continues?;
        let (output, before, kernel) = (self.shown(row.writes()), self.shown(array), row.kernel.name());
        Some(match (adds, row.kernel.assign()) {
            (true, Assign::Add) => format!("{output} begins as {before}, and `{kernel}` adds to it"),
            (true, by) => format!("{output} begins as {before}, and `{kernel}` combines it with its terms, `{by}`"),
            (false, _) => format!("{output} keeps the elements of {before} that `{kernel}` does not write"),
        })
    }

    /// What the kernels of a line share with those that run together with it; for the first of them, what this saves.
    fn passed(&self, span: Span<'_>) -> Vec<String> {
        let Some(kernel) = span.kernel else { return Vec::new() };
        let together = self.body.kernels_of(span);
        let row = &self.body.kernels[kernel.0];
        let mut lines = Vec::new();
        if together.len() > 1 && together[0] == kernel {
            let [pass, apart] = self.body.through_memory(&together);
            let of = joined(row.loops.iter().map(|id| format!("`{}`", self.body.loops[id.0].name)), ", ");
            lines.push(format!(
                "a pass of {}, panel by panel along {of}: at most {pass} bytes through memory per rank, {apart} if they ran apart",
                counted(together.len(), "kernel")
            ));
        }
        for array in row.reads() {
            if self.body.writer_beside(kernel, *array).is_some() {
                lines.push(format!("{} is read where the same iteration has written it", self.shown(*array)));
            }
        }
        let output = row.writes();
        if self.body.is_in_panels(output) {
            lines.push(format!("{} is in a tile, panel by panel, and never exists as a whole", self.shown(output)));
        }
        lines
    }

    /// Returns the name of an array, with a prime for each array before it that has the same name; of more than three, with their
    /// number: `A`, `A'`, `A''`, `A'''`, `A'4`.
    #[must_use]
    pub fn shown(&self, id: ArrayId) -> String {
        let name = self.array(id).name;
        match self.arrays()[..id.0].iter().filter(|other| other.name == name).count() {
            before @ 0..=3 => format!("{name}{}", "'".repeat(before)),
            before => format!("{name}'{before}"),
        }
    }

    fn described(&self, id: ArrayId) -> String {
        let Array { sharding, .. } = self.array(id);
        format!("{}{:?}: {sharding}", self.shown(id), sharding.shape())
    }
}

/// Writes lines under a heading, if it is given any.
fn list(text: &mut String, heading: &str, lines: &[String]) -> fmt::Result {
    if !lines.is_empty() {
        writeln!(text, "{heading}")?;
    }
    lines.iter().try_for_each(|line| writeln!(text, "    - {line}"))
}

/// A line of a printed program.
struct Line<'a> {
    /// Its number on the page, if it has one of its own.
    number: Option<StatementId>,
    /// How many rounds are around it.
    depth: usize,
    /// Its span; of several kernels, with the one of this line.
    span: Span<'a>,
    what: &'static str,
    text: String,
}

/// The legs of a move as text.
fn shown_legs(moved: &MoveView<'_>) -> String {
    let [from, target] = moved.ends();
    let mesh = common_mesh(from, target);
    // In moves, these expressions are numbers.
    let expr = |expr: &Expr| expr.offset().to_string();
    let shown = |(leg, direction)| LegText { mesh: &mesh, direction, expr: &expr }.of(leg);
    joined(moved.route.taken(moved.direction).into_iter().map(shown), "; then ")
}

/// How elements are sent: a line for each decision that the legs do not show.
fn decided(moved: &MoveView<'_>) -> Vec<&'static str> {
    let rows = |packing: &Packing| match packing {
        Packing::LaidOut => "rows are long: they are sent without packing, where the library can",
        Packing::Packed => "rows are short: they are packed into messages",
    };
    let added = "the terms of each coordinate in turn are sent, and added on arrival";
    let is_added = moved.closes_sums() && moved.route.exchange().is_some();
    is_added.then_some(added).into_iter().chain(moved.route.packing().map(rows)).collect()
}
