//! The tables of a program, and one tree of statements over their rows. Tests: `program/tests/it/refused/flow.rs`.

use super::{Array, ArrayKind, Carried, Rounds};
use crate::ids::{ArrayId, KernelId, LoopId, RoomId, RoundsId, StatementId, TransferId};
use crate::nest::{End, Loop, LoweredKernel, Transfer};
use crate::statement::Statement;
use polyshard_layout::{DType, Mesh, Name};
use serde::Serialize;
use std::fmt;

/// The arrays, transfers, loops, kernels and rounds of a program by number, and the statements in the order in which they run.
///
/// [`Program::new`](crate::Program::new) checks that they fit together.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::{Array, ArrayId, ArrayKind, Body, Transfer};
/// let mesh = Mesh::new([("x", 2)]);
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
/// let array = |kind, dim| Array { name: "A".into(), sharding: by(dim), kind };
/// let mut body = Body::new(&mesh, DType::F64);
/// body.arrays = vec![array(ArrayKind::Input, 0), array(ArrayKind::Output, 1)];
/// body.transfer(Transfer::between([ArrayId(0), ArrayId(1)], [&by(0), &by(1)], DType::F64, Vec::new()));
/// let program = Program::new(body)?;
/// assert_eq!(program.body().statements.len(), 2, "it begins, and ends");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Body {
    /// The mesh of ranks.
    pub mesh: Mesh,
    /// The element type of all arrays.
    pub dtype: DType,
    /// The arrays.
    pub arrays: Vec<Array>,
    /// The transfers between arrays and tiles, and between arrays.
    pub transfers: Vec<Transfer>,
    /// The serial loops of kernels.
    pub loops: Vec<Loop>,
    /// The kernels.
    pub kernels: Vec<LoweredKernel>,
    /// How often statements are repeated, and which arrays are carried from one round to the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Rounds>,
    /// The statements.
    pub statements: Vec<Statement>,
}

/// Neighbouring statements between which no kernel is running: those of one kernel, or of several that share loops, or a single one of
/// no kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span<'a> {
    /// The first kernel, if it is of kernels.
    pub kernel: Option<KernelId>,
    /// The statements.
    pub statements: &'a [Statement],
}

/// What the statements of a span have in common: the outermost loop of its kernels, or its only kernel.
#[derive(Clone, Copy, PartialEq)]
enum Common {
    Loop(LoopId),
    Kernel(KernelId),
}

/// The number of a row.
pub(super) enum Id<'a> {
    Array(&'a mut ArrayId),
    Transfer(&'a mut TransferId),
    Loop(&'a mut LoopId),
    Kernel(&'a mut KernelId),
    Rounds(&'a mut RoundsId),
}

impl Body {
    /// Returns the tables of a program that does nothing.
    #[must_use]
    pub fn new(mesh: &Mesh, dtype: DType) -> Self {
        Self {
            mesh: mesh.clone(),
            dtype,
            arrays: Vec::new(),
            transfers: Vec::new(),
            loops: Vec::new(),
            kernels: Vec::new(),
            rounds: Vec::new(),
            statements: Vec::new(),
        }
    }

    /// Adds the kernels and moves of another program, whose arrays are these.
    ///
    /// # Panics
    /// If it has more arrays.
    pub fn run(&mut self, other: &Self, arrays: &[ArrayId]) {
        let [transfers, loops, kernels, rounds] =
            [self.transfers.len(), self.loops.len(), self.kernels.len(), self.rounds.len()];
        let mut other = other.clone();
        other.each_id(&mut |_, id| match id {
            Id::Array(id) => *id = arrays[id.0],
            Id::Transfer(id) => id.0 += transfers,
            Id::Loop(id) => id.0 += loops,
            Id::Kernel(id) => id.0 += kernels,
            Id::Rounds(id) => id.0 += rounds,
        });
        self.transfers.append(&mut other.transfers);
        self.loops.append(&mut other.loops);
        self.kernels.append(&mut other.kernels);
        self.rounds.append(&mut other.rounds);
        self.statements.append(&mut other.statements);
    }

    /// Puts the arrays of a kind in the order of these names, those that are not named last.
    pub fn arrange(&mut self, kind: ArrayKind, names: &[Name]) {
        let places: Vec<usize> = (0..self.arrays.len()).filter(|&id| self.arrays[id].kind == kind).collect();
        let mut ordered = places.clone();
        ordered.sort_by_key(|&id| names.iter().position(|name| *name == self.arrays[id].name).unwrap_or(names.len()));
        let before = self.arrays.clone();
        let mut numbers: Vec<usize> = (0..before.len()).collect();
        for (place, id) in places.into_iter().zip(ordered) {
            self.arrays[place].clone_from(&before[id]);
            numbers[id] = place;
        }
        self.each_id(&mut |_, id| {
            if let Id::Array(id) = id {
                id.0 = numbers[id.0];
            }
        });
    }

    /// Calls `visit` with the number of each row that its tables and statements name, and with what names it, as text.
    pub(super) fn each_id(&mut self, visit: &mut dyn FnMut(&dyn fmt::Display, Id<'_>)) {
        for (nth, transfer) in self.transfers.iter_mut().enumerate() {
            for end in [&mut transfer.from, &mut transfer.to] {
                let id = match end {
                    End::Array(id) => Id::Array(id),
                    End::Tile(id) => Id::Kernel(id),
                };
                visit(&format_args!("transfer {nth}"), id);
            }
        }
        for (nth, row) in self.kernels.iter_mut().enumerate() {
            let arrays = row.arrays.iter_mut().map(Id::Array);
            let ids = arrays.chain(row.loops.iter_mut().map(Id::Loop));
            let ids = ids.chain(row.uses.iter_mut().map(|used| Id::Transfer(&mut used.transfer)));
            let ids = ids.chain(row.continues.iter_mut().map(|continued| Id::Array(&mut continued.array)));
            ids.for_each(|id| visit(&format_args!("kernel {nth}"), id));
        }
        for Rounds { carried, until, .. } in &mut self.rounds {
            let carried = carried.iter_mut().flat_map(|one| [&mut one.first, &mut one.value, &mut one.next]);
            let ids = carried.chain(until.iter_mut().map(|until| &mut until.scalar));
            ids.for_each(|id| visit(&"a repetition", Id::Array(id)));
        }
        let mut visit = |statement: &mut Statement| {
            let id = match statement {
                Statement::Rounds(id, _) => Id::Rounds(id),
                Statement::Loop(id, _) => Id::Loop(id),
                Statement::Fill(id) | Statement::Begin(id, _) | Statement::End(id, _) => Id::Transfer(id),
                Statement::Compute(id, _) => Id::Kernel(id),
                Statement::Free(id) => Id::Array(id),
            };
            visit(&"a statement", id);
        };
        self.statements.iter_mut().for_each(|statement| statement.visit_mut(&mut visit));
    }

    /// Adds a move, whose end follows its begin.
    pub fn transfer(&mut self, moved: Transfer) {
        self.statements.extend(Statement::both(TransferId(self.transfers.len())));
        self.transfers.push(moved);
    }

    /// Adds rounds of these statements.
    pub fn repeat(&mut self, rounds: Rounds, body: Vec<Statement>) {
        self.statements.push(Statement::Rounds(RoundsId(self.rounds.len()), body));
        self.rounds.push(rounds);
    }

    /// Returns, by transfer, whether it begins in the first of the rounds around it only.
    #[must_use]
    pub fn in_first_round(&self) -> Vec<bool> {
        let mut found = vec![false; self.transfers.len()];
        let mut note = |statement: &Statement| {
            if let Statement::Begin(id, at) = statement {
                found[id.0] |= at.first_round;
            }
        };
        self.statements.iter().for_each(|statement| statement.visit(&mut note));
        found
    }

    /// Groups statements outside of loops into spans.
    pub fn spans<'a>(&'a self, statements: &'a [Statement]) -> impl Iterator<Item = Span<'a>> {
        let common = |statement: &Statement| self.common(statement);
        let together = move |one: &Statement, next: &Statement| {
            let one = common(one);
            one.is_some() && one == common(next)
        };
        statements.chunk_by(together).map(|statements| Span { kernel: self.first_kernel(statements), statements })
    }

    fn common(&self, statement: &Statement) -> Option<Common> {
        if let Statement::Loop(id, _) = *statement {
            return Some(Common::Loop(id));
        }
        let kernel = self.own_kernel(statement)?;
        Some(self.kernels[kernel.0].loops.first().map_or(Common::Kernel(kernel), |&outer| Common::Loop(outer)))
    }

    /// The kernel of a statement that is no loop.
    fn own_kernel(&self, statement: &Statement) -> Option<KernelId> {
        match *statement {
            Statement::Compute(kernel, _) => Some(kernel),
            Statement::Fill(id) | Statement::Begin(id, _) | Statement::End(id, _) => self.transfers[id.0].kernel(),
            Statement::Rounds(..) | Statement::Loop(..) | Statement::Free(_) => None,
        }
    }

    /// The kernel of the first of these statements, at any depth of loops.
    fn first_kernel(&self, statements: &[Statement]) -> Option<KernelId> {
        statements.iter().find_map(|statement| match statement {
            Statement::Loop(_, body) => self.first_kernel(body),
            _ => self.own_kernel(statement),
        })
    }

    /// Returns the kernels of a span, in the order in which their leaves first run.
    #[must_use]
    pub fn kernels_of(&self, span: Span<'_>) -> Vec<KernelId> {
        let mut kernels = Vec::new();
        let mut note = |statement: &Statement| {
            if let Statement::Compute(kernel, _) = statement
                && !kernels.contains(kernel)
            {
                kernels.push(*kernel);
            }
        };
        // A statement of no kernel may be rounds, whose kernels are in spans of their own.
        let own = span.statements.iter().filter(|_| span.kernel.is_some());
        own.for_each(|statement| statement.visit(&mut note));
        kernels
    }

    /// Returns the arrays that exist after a span and did not before.
    #[must_use]
    pub fn writes(&self, span: Span<'_>) -> Vec<ArrayId> {
        match span.statements {
            _ if span.kernel.is_some() => {
                self.kernels_of(span).into_iter().map(|kernel| self.kernels[kernel.0].writes()).collect()
            }
            [Statement::Begin(id, _)] => self.transfers[id.0].arrays().iter().map(|[_, target]| *target).collect(),
            [Statement::Rounds(id, _)] => self.rounds[id.0].carried.iter().map(|carried| carried.value).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the previous version of the array that a kernel writes: elements that the kernel does not write have the values of that
    /// version. It is the array that the kernel [continues](LoweredKernel::continues), or else the one that rounds around the kernel
    /// carry to the next one, perhaps after inner rounds have continued from it. None if the kernel writes all elements and does not
    /// add to them.
    #[must_use]
    pub fn version_before(&self, row: &LoweredKernel) -> Option<ArrayId> {
        if let Some(continued) = row.continues {
            return (continued.adds || row.kernel.written().is_some()).then_some(continued.array);
        }
        row.kernel.written()?;
        let around = self.rounds_around(&self.statements, None, row.writes())?;
        let mut carried = self.carried_on(row.writes(), false);
        carried.find(|carried| around.carried.contains(carried)).map(|carried| carried.value)
    }

    /// A carried array that a kernel does not write completely, if the other elements have no previous version: a move in between, to
    /// inner rounds that continue from it in another sharding, does not move the elements that were not written.
    pub(super) fn lost_rim(&self, row: &LoweredKernel) -> Option<&Carried> {
        row.kernel.written()?;
        if row.continues.is_some() {
            return None;
        }
        // Only rounds have a previous round.
        self.rounds_around(&self.statements, None, row.writes())?;
        if self.version_before(row).is_some() { None } else { self.carried_on(row.writes(), true).next() }
    }

    /// The arrays that are carried to a next round with the elements of an array, also through inner rounds that continue from it, and
    /// through moves if asked for.
    fn carried_on(&self, array: ArrayId, through_moves: bool) -> impl Iterator<Item = &Carried> + use<'_> {
        let carried = || self.rounds.iter().flat_map(|rounds| &rounds.carried);
        let mut versions = vec![array];
        let mut at = 0;
        while let Some(&version) = versions.get(at) {
            versions.extend(carried().filter(|carried| carried.first == version).map(|carried| carried.value));
            let moves = self.transfers.iter().filter(|_| through_moves).filter_map(Transfer::arrays);
            versions.extend(moves.filter(|[source, _]| *source == version).map(|[_, target]| target));
            at += 1;
        }
        carried().filter(move |carried| versions.contains(&carried.next))
    }

    /// The innermost rounds around the kernel that writes an array.
    fn rounds_around<'a>(
        &'a self,
        statements: &'a [Statement],
        around: Option<&'a Rounds>,
        written: ArrayId,
    ) -> Option<&'a Rounds> {
        self.spans(statements).find_map(|span| match span.statements {
            [Statement::Rounds(id, round)] => self.rounds_around(round, self.rounds.get(id.0), written),
            _ if span.kernel.is_some() && self.writes(span).contains(&written) => around,
            _ => None,
        })
    }

    /// All spans, those of rounds after their statement, each with its number on a page and the number of rounds around it. Numbers
    /// count kernels, rounds, and moves where they begin, from 1.
    pub(super) fn numbered(&self) -> Vec<Numbered<'_>> {
        fn add<'a>(body: &'a Body, statements: &'a [Statement], depth: usize, all: &mut Vec<Numbered<'a>>) {
            for span in body.spans(statements) {
                let before = all.last().map_or(0, |last| last.number.0);
                all.push(Numbered { number: StatementId(before + usize::from(span.is_counted())), depth, span });
                if let [Statement::Rounds(_, inside)] = span.statements {
                    add(body, inside, depth + 1, all);
                }
            }
        }
        let mut all = Vec::new();
        add(self, &self.statements, 0, &mut all);
        all
    }

    /// Removes the statements that free arrays.
    pub(super) fn forget_frees(&mut self) {
        let forget = |statements: &mut Vec<Statement>| {
            statements.retain(|statement| !matches!(statement, Statement::Free(_)));
        };
        let mut inside = |statement: &mut Statement| {
            if let Statement::Rounds(_, body) = statement {
                forget(body);
            }
        };
        forget(&mut self.statements);
        self.statements.iter_mut().for_each(|statement| statement.visit_mut(&mut inside));
    }

    /// Frees each temporary after the last span that touches it.
    pub(crate) fn free_temporaries(&mut self) {
        let mut is_done: Vec<bool> = self.arrays.iter().map(|array| array.kind != ArrayKind::Temporary).collect();
        self.statements = self.freed(&self.statements, &mut is_done);
    }

    /// The statements, each temporary freed after the last span that touches it, if it is not `is_done`.
    fn freed(&self, statements: &[Statement], is_done: &mut [bool]) -> Vec<Statement> {
        let spans: Vec<_> = self.spans(statements).collect();
        let mut all = Vec::with_capacity(spans.len());
        for &span in spans.iter().rev() {
            let mut own = match span.statements {
                [Statement::Free(_)] => continue,
                [Statement::Rounds(id, body)] => {
                    // Arrays that a round writes only for itself, also in inner rounds, are freed in the round; all others after the last
                    // round.
                    let leaves = self.rounds[id.0].leaves();
                    let mut is_elsewhere = vec![true; is_done.len()];
                    for id in self.makes_inside(body) {
                        is_elsewhere[id.0] = is_done[id.0] || leaves.contains(&id);
                    }
                    is_done.iter_mut().zip(&is_elsewhere).for_each(|(done, elsewhere)| *done |= !elsewhere);
                    vec![Statement::Rounds(*id, self.freed(body, &mut is_elsewhere))]
                }
                statements => statements.to_vec(),
            };
            let mut touched = self.touches(span);
            touched.retain(|id| !std::mem::replace(&mut is_done[id.0], true));
            own.extend(touched.into_iter().rev().map(Statement::Free));
            all.push(own);
        }
        all.into_iter().rev().flatten().collect()
    }

    /// For each array, the number of the memory that holds it, if it is a temporary. Arrays that are renamed from round to round do not
    /// share memory.
    pub(super) fn slots(&self) -> Vec<Option<RoomId>> {
        let (mut of, mut free, mut count) = (vec![None; self.arrays.len()], Vec::new(), 0);
        let mut take = |of: &mut [Option<RoomId>], free: &mut Vec<RoomId>, id: ArrayId| {
            if self.arrays[id.0].kind == ArrayKind::Temporary && of[id.0].is_none() {
                of[id.0] = Some(free.pop().unwrap_or(RoomId(count)));
                count = count.max(of[id.0].map_or(0, |slot| slot.0 + 1));
            }
        };
        let renamed: Vec<_> = self.rounds.iter().flat_map(Rounds::renamed).collect();
        renamed.iter().for_each(|&id| take(&mut of, &mut free, id));
        for Numbered { span, .. } in self.numbered() {
            if let [Statement::Free(id)] = span.statements {
                free.extend(of[id.0].filter(|_| !renamed.contains(id)));
            }
            self.writes(span).into_iter().for_each(|id| take(&mut of, &mut free, id));
        }
        of
    }

    /// The arrays that a span makes; for rounds, those that outlast a round.
    fn makes(&self, span: Span<'_>) -> Vec<ArrayId> {
        match span.statements {
            [Statement::Rounds(id, _)] => self.rounds[id.0].leaves(),
            _ => self.writes(span),
        }
    }

    /// The arrays that statements make, at any depth.
    fn makes_inside(&self, statements: &[Statement]) -> Vec<ArrayId> {
        let made = self.spans(statements).flat_map(|span| match span.statements {
            [Statement::Rounds(_, body)] => [self.makes(span), self.makes_inside(body)].concat(),
            _ => self.makes(span),
        });
        made.collect()
    }

    /// The arrays that must exist for a span.
    fn touches(&self, span: Span<'_>) -> Vec<ArrayId> {
        match span.statements {
            _ if span.kernel.is_some() => {
                let rows = self.kernels_of(span).into_iter().map(|kernel| &self.kernels[kernel.0]);
                rows.flat_map(|row| row.needs().chain([row.writes()])).collect()
            }
            [Statement::Begin(id, _) | Statement::End(id, _)] => {
                self.transfers[id.0].arrays().map_or(Vec::new(), Vec::from)
            }
            [Statement::Rounds(id, body)] => {
                let rounds = &self.rounds[id.0];
                let first = rounds.carried.iter().map(|carried| carried.first);
                let inside = self.spans(body).flat_map(|span| self.touches(span));
                first.chain(rounds.leaves()).chain(inside).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The numbers of rows after those that do not stay are removed.
pub(super) fn numbers(stays: &[bool]) -> Vec<usize> {
    let number = |next: &mut usize, stays: &bool| {
        *next += usize::from(*stays);
        Some(*next - usize::from(*stays))
    };
    stays.iter().scan(0, number).collect()
}

impl Span<'_> {
    /// Whether it has a number on a page.
    pub(super) fn is_counted(&self) -> bool {
        self.kernel.is_some() || matches!(self.statements, [Statement::Begin(..) | Statement::Rounds(..)])
    }

    /// Returns the move that begins or ends in it, if it is a statement of one.
    #[must_use]
    pub fn moved(&self) -> Option<TransferId> {
        match (self.kernel, self.statements) {
            (None, [Statement::Begin(id, _) | Statement::End(id, _)]) => Some(*id),
            _ => None,
        }
    }

    /// Returns whether it is the begin of a move whose end is the next span.
    #[must_use]
    pub fn is_ended_by(&self, next: Option<&Self>) -> bool {
        let is_end = next.is_some_and(|next| matches!(next.statements, [Statement::End(..)]));
        matches!(self.statements, [Statement::Begin(..)])
            && is_end
            && self.moved().is_some()
            && self.moved() == next.and_then(Self::moved)
    }
}

/// A span of a program, with its number on a page.
pub(super) struct Numbered<'a> {
    pub number: StatementId,
    /// How many rounds are around it.
    pub depth: usize,
    pub span: Span<'a>,
}
