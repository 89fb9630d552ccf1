//! Prints a program, and explains its transfers. Tests: `tests/it/sequence.rs`.

use super::body::Numbered;
use super::{Array, ArrayKind, Move, Origin, Part, Program, Repeat};
use crate::between::common_mesh;
use crate::display;
use crate::expr::Expr;
use crate::ids::{ArrayId, StatementId};
use crate::leg_text::LegText;
use crate::nest::{Leg, Packing};
use crate::proof;
use crate::reduction::Procedure;
use polyshard_layout::counted;
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
/// Repeated statements are indented below their repetition.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nest) = self.body.only_nest() {
            return display::page(nest, &self.body.statements, f);
        }
        writeln!(f, "program over ({}), {}", self.mesh, self.dtype)?;
        let mut arrays = |kind: ArrayKind, word: &str| {
            self.of_kind(kind).into_iter().try_for_each(|id| writeln!(f, "    {word:13} {}", self.described(id)))
        };
        arrays(ArrayKind::Input, "input")?;
        for Line { number, depth, part, what, text } in self.lines() {
            let indent = "  ".repeat(depth);
            match part {
                Part::Await(_) => writeln!(f, "    {indent}{what:13} {text}")?,
                _ => writeln!(f, "{:>2}  {indent}{what:13} {text}", number.0)?,
            }
            if let Part::Repeat(id, _) = part {
                let lines = self.carried(&self.body.repeats[id.0]);
                lines.iter().try_for_each(|line| writeln!(f, "    {indent}{:13} {line}", ""))?;
            }
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
        for Line { number, part, what, text: line, .. } in self.lines() {
            if !alone && !matches!(part, Part::Await(_)) {
                writeln!(text, "{}. {what} {line}", number.0)?;
            }
            match part {
                Part::Nest(id, _) => self.body.nests[id.0].explain_transfers(text, &self.body.nests)?,
                Part::Begin(id) => {
                    let moved = &self.body.moves[id.0];
                    let bytes = moved.volume(&self.arrays, self.dtype).received;
                    if bytes > 0 {
                        writeln!(text, "    {}", self.shown_legs(moved))?;
                    }
                    writeln!(text, "    at most {bytes} bytes received per rank")?;
                    let lines = moved.route.procedure().into_iter().flat_map(Procedure::lines);
                    (1..).zip(lines).try_for_each(|(step, line)| writeln!(text, "    {step}. {line}"))?;
                    moved.tests.iter().try_for_each(|test| writeln!(text, "    - {test}"))?;
                    if bytes > 0 {
                        decided(moved).into_iter().try_for_each(|line| writeln!(text, "    - {line}"))?;
                    }
                }
                Part::Repeat(id, _) => {
                    let repeat = &self.body.repeats[id.0];
                    self.carried(repeat).iter().try_for_each(|line| writeln!(text, "    {line}"))?;
                    if !repeat.carried.is_empty() {
                        writeln!(text, "    carried arrays are renamed, not copied")?;
                    }
                }
                Part::Await(_) | Part::Free(_) => {}
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
                let decided: Vec<_> = calls.chain(self.body.flow(&self.arrays).proofs).collect();
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

    /// A line for each part, except arrays that are freed and moves that are awaited where they begin.
    fn lines(&self) -> Vec<Line<'_>> {
        let parts = self.body.numbered();
        let lines = parts.iter().enumerate().filter_map(|(nth, &Numbered { number, depth, part })| {
            let before = nth.checked_sub(1).map(|before| parts[before].part);
            let after = parts.get(nth + 1).map(|after| after.part);
            let (what, text) = match part {
                Part::Nest(id, _) => {
                    let nest = &self.body.nests[id.0];
                    let inputs: Vec<_> = nest.reads().iter().map(|&id| self.shown(id)).collect();
                    let (kernel, output) = (&nest.kernel, self.shown(nest.writes()));
                    let called = format!("{output} = {}({})", kernel.name(), inputs.join(", "));
                    ("run", format!("{called}, {}", kernel.statement()))
                }
                Part::Begin(id) => {
                    let moved = &self.body.moves[id.0];
                    let [source, target] = [moved.source, moved.target].map(|id| &self.array(id).sharding);
                    let names = (self.shown(moved.target), self.shown(moved.source));
                    let by = moved.shown_sums();
                    let what = if after == Some(Part::Await(id)) { "move" } else { "begin move" };
                    (what, format!("{} = {}: {source} to {target}, {}{by}", names.0, names.1, moved.pattern))
                }
                Part::Await(id) if before == Some(Part::Begin(id)) => return None,
                Part::Await(id) => ("await", self.shown(self.body.moves[id.0].target)),
                Part::Repeat(id, _) => ("repeat", self.shown_rounds(&self.body.repeats[id.0])),
                Part::Free(_) => return None,
            };
            Some(Line { number, depth, part, what, text })
        });
        lines.collect()
    }

    /// The legs of a move as text.
    fn shown_legs(&self, moved: &Move) -> String {
        let [source, target] = [moved.source, moved.target].map(|id| &self.array(id).sharding);
        let mesh = common_mesh(moved.kept.as_ref().unwrap_or(source), target);
        // In moves, these expressions are numbers.
        let expr = |expr: &Expr| expr.offset().to_string();
        let shown = |(leg, direction)| LegText { mesh: &mesh, direction, expr: &expr }.of(leg);
        moved.route.taken(moved.direction).into_iter().map(shown).collect::<Vec<_>>().join("; then ")
    }

    /// Returns how often statements are repeated, as printed: `at most 100 rounds, until rr < 1e-9`.
    #[must_use]
    pub fn shown_rounds(&self, Repeat { times, until, .. }: &Repeat) -> String {
        let rounds = counted(times, "round");
        match until {
            None => rounds,
            Some(until) => format!("at most {rounds}, until {} < {:e}", self.shown(until.scalar), until.below),
        }
    }

    /// The arrays that rounds carry, a line each.
    fn carried(&self, repeat: &Repeat) -> Vec<String> {
        let line = |carried: &super::Carried| {
            let [first, value, next] = [carried.first, carried.value, carried.next].map(|id| self.shown(id));
            let written = format!("{value} is first {first}, then {next} of the round before");
            let of_nests = self.nests().filter(|nest| self.body.version_before(nest) == Some(carried.value));
            let kept = of_nests.map(|nest| {
                let (output, kernel) = (self.shown(nest.writes()), nest.kernel.name());
                format!("elements of {output} that `{kernel}` does not write are copied from {value}")
            });
            let kept: Vec<_> = kept.collect();
            std::iter::once(written).chain(kept)
        };
        repeat.carried.iter().flat_map(line).collect()
    }

    /// Returns the name of an array, with a prime for each array before it that has the same name.
    #[must_use]
    pub fn shown(&self, id: ArrayId) -> String {
        let name = self.array(id).name;
        let primes = self.arrays[..id.0].iter().filter(|other| other.name == name).count();
        format!("{name}{}", "'".repeat(primes))
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

/// A line of a printed program, for one part.
struct Line<'a> {
    number: StatementId,
    /// How many repetitions are around it.
    depth: usize,
    part: Part<'a>,
    what: &'static str,
    text: String,
}

/// How elements are sent: a line for each decision that the legs do not show.
fn decided(moved: &Move) -> Vec<&'static str> {
    let rows = |packing: &Packing| match packing {
        Packing::LaidOut => "rows are long: they are sent without packing, where the library can",
        Packing::Packed => "rows are short: they are packed into messages",
    };
    match (&moved.route.legs[..], moved.closes_sums()) {
        ([Leg::Exchange { packing, .. }], true) => {
            vec!["the terms of each coordinate in turn are sent, and added on arrival", rows(packing)]
        }
        ([Leg::Exchange { packing, .. }, ..], _) => vec![rows(packing)],
        _ => Vec::new(),
    }
}
