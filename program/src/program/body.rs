//! The body of a program: nests and moves in tables, and one tree of statements that carries them out.
//! Tests: `program/tests/it/refused/flow.rs`.

use super::{Array, ArrayKind, Carried, Move, Repeat};
use crate::ids::{ArrayId, Depth, LoopId, MoveId, NestId, RepeatId, RoomId, StatementId, TileId, TransferId};
use crate::nest::{Direction, Nest, Transfer};
use crate::statement::{Iteration, Statement};
use serde::{Deserialize, Serialize};

/// The nests, moves and repetitions of a program by number, and the statements in the order in which they run.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::{Array, ArrayId, ArrayKind, Body, Move};
/// let mesh = Mesh::new([("x", 2)]);
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
/// let array = |kind, dim| Array { name: "A".into(), sharding: by(dim), kind };
/// let mut body = Body::default();
/// body.transfer(Move::direct([ArrayId(0), ArrayId(1)], [&by(0), &by(1)], DType::F64, Vec::new()));
/// let program = Program::new(&mesh, DType::F64, vec![array(ArrayKind::Input, 0), array(ArrayKind::Output, 1)], body)?;
/// assert_eq!(program.body().parts().count(), 2, "it begins, and is awaited");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The nests.
    pub nests: Vec<Nest>,
    /// The moves.
    pub moves: Vec<Move>,
    /// The repetitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<Repeat>,
    /// The statements.
    pub statements: Vec<Statement>,
}

/// Statements that belong together, outside of nests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// Those of a nest.
    Nest(NestId, &'a [Statement]),
    /// Begins a move.
    Begin(MoveId),
    /// Awaits a move.
    Await(MoveId),
    /// Frees an array.
    Free(ArrayId),
    /// Repeats statements, whose parts [`Body::parts_of`] returns.
    Repeat(RepeatId, &'a [Statement]),
}

impl Body {
    /// Adds a kernel that reads and writes the arrays that its nest names.
    pub fn run(&mut self, nest: Nest) {
        let id = NestId(self.nests.len());
        self.statements.extend(statements(id, &nest));
        self.nests.push(nest);
    }

    /// Adds a move, which is awaited immediately.
    pub fn transfer(&mut self, moved: Move) {
        let id = TransferId::Array(MoveId(self.moves.len()));
        self.statements.extend([Statement::Begin(id), Statement::Await(id)]);
        self.moves.push(moved);
    }

    /// Adds rounds of these statements.
    pub fn repeat(&mut self, repeat: Repeat, body: Vec<Statement>) {
        self.statements.push(Statement::Repeat { id: RepeatId(self.repeats.len()), body });
        self.repeats.push(repeat);
    }

    /// Returns the nest, if the body is one nest and nothing else.
    #[must_use]
    pub fn only_nest(&self) -> Option<&Nest> {
        match (&self.nests[..], &self.moves[..], &self.repeats[..]) {
            ([nest], [], []) => Some(nest),
            _ => None,
        }
    }

    /// Returns the outermost statements, those of a nest together.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        Self::parts_of(&self.statements)
    }

    /// Groups statements outside of nests into parts: those of a nest are together.
    pub fn parts_of(statements: &[Statement]) -> impl Iterator<Item = Part<'_>> {
        statements.chunk_by(|one, next| one.nest().is_some() && one.nest() == next.nest()).map(|together| {
            match (together[0].nest(), &together[0]) {
                (Some(nest), _) => Part::Nest(nest, together),
                (None, Statement::Begin(TransferId::Array(moved))) => Part::Begin(*moved),
                (None, Statement::Await(TransferId::Array(moved))) => Part::Await(*moved),
                (None, Statement::Free(array)) => Part::Free(*array),
                (None, Statement::Repeat { id, body }) => Part::Repeat(*id, body),
                (None, _) => unreachable!("all other statements are of nests; this is a bug in polyshard"),
            }
        })
    }

    /// Returns the arrays that exist after a part and did not before.
    ///
    /// # Panics
    /// If the part names a nest, a move or a repetition that does not exist.
    #[must_use]
    pub fn writes(&self, part: Part<'_>) -> Vec<ArrayId> {
        match part {
            Part::Nest(nest, _) => vec![self.nests[nest.0].writes()],
            Part::Begin(moved) => vec![self.moves[moved.0].target],
            Part::Repeat(id, _) => self.repeats[id.0].carried.iter().map(|carried| carried.value).collect(),
            Part::Await(_) | Part::Free(_) => Vec::new(),
        }
    }

    /// Returns the previous version of the array that a nest writes, if the rounds around the nest carry it to the next one, perhaps
    /// after inner rounds have continued from it: elements that the nest does not write have the values of that version. None if the nest
    /// writes all elements.
    #[must_use]
    pub fn version_before(&self, nest: &Nest) -> Option<ArrayId> {
        nest.kernel.written()?;
        let around = self.repeat_around(&self.statements, None, nest.writes())?;
        let mut carried = self.carried_on(nest.writes(), &[]);
        carried.find(|carried| around.carried.contains(carried)).map(|carried| carried.value)
    }

    /// A carried array that a nest does not write completely, if the other elements have no previous version: a move in between, to inner
    /// rounds that continue from it in another sharding, does not move the elements that were not written.
    pub(super) fn lost_rim(&self, nest: &Nest) -> Option<&Carried> {
        nest.kernel.written()?;
        // Only rounds have a previous round.
        self.repeat_around(&self.statements, None, nest.writes())?;
        if self.version_before(nest).is_some() { None } else { self.carried_on(nest.writes(), &self.moves).next() }
    }

    /// The arrays that are carried to a next round with the elements of an array, also through inner rounds that continue from it and
    /// through these moves.
    fn carried_on(&self, array: ArrayId, moves: &[Move]) -> impl Iterator<Item = &Carried> + use<'_> {
        let carried = || self.repeats.iter().flat_map(|repeat| &repeat.carried);
        let mut versions = vec![array];
        let mut at = 0;
        while let Some(&version) = versions.get(at) {
            versions.extend(carried().filter(|carried| carried.first == version).map(|carried| carried.value));
            versions.extend(moves.iter().filter(|moved| moved.source == version).map(|moved| moved.target));
            at += 1;
        }
        carried().filter(move |carried| versions.contains(&carried.next))
    }

    /// The innermost repetition around the nest that writes an array.
    fn repeat_around<'a>(
        &'a self,
        statements: &'a [Statement],
        around: Option<&'a Repeat>,
        written: ArrayId,
    ) -> Option<&'a Repeat> {
        Self::parts_of(statements).find_map(|part| match part {
            Part::Nest(nest, _) if self.nests[nest.0].writes() == written => around,
            Part::Repeat(id, round) => self.repeat_around(round, self.repeats.get(id.0), written),
            _ => None,
        })
    }

    /// All parts, those of rounds after their repetition, each with its number on a page and the number of repetitions around it. Numbers
    /// count nests, repetitions, and moves where they begin, from 1.
    pub(super) fn numbered(&self) -> Vec<Numbered<'_>> {
        fn add<'a>(statements: &'a [Statement], depth: usize, all: &mut Vec<Numbered<'a>>) {
            for part in Body::parts_of(statements) {
                let before = all.last().map_or(0, |last| last.number.0);
                let is_counted = matches!(part, Part::Nest(..) | Part::Begin(_) | Part::Repeat(..));
                all.push(Numbered { number: StatementId(before + usize::from(is_counted)), depth, part });
                if let Part::Repeat(_, body) = part {
                    add(body, depth + 1, all);
                }
            }
        }
        let mut all = Vec::new();
        add(&self.statements, 0, &mut all);
        all
    }

    /// The same with other nests instead of these, whose transfers begin and are awaited at the same places.
    pub(super) fn with_nests(&self, changed: impl Fn(&Nest) -> Nest, arrays: &[Array]) -> Self {
        let nests = self.nests.iter().map(changed).collect();
        let mut body = Self { nests, ..self.clone() }.with_derived_statements();
        body.free_temporaries(arrays);
        body
    }

    /// The same with the statements derived from its nests; nothing is freed.
    pub(super) fn with_derived_statements(self) -> Self {
        fn again(nests: &[Nest], of: &[Statement]) -> Vec<Statement> {
            let statements = Body::parts_of(of).flat_map(|part| match part {
                Part::Nest(id, _) => statements(id, &nests[id.0]),
                Part::Begin(id) => vec![Statement::Begin(TransferId::Array(id))],
                Part::Await(id) => vec![Statement::Await(TransferId::Array(id))],
                Part::Repeat(id, body) => vec![Statement::Repeat { id, body: again(nests, body) }],
                Part::Free(_) => Vec::new(),
            });
            statements.collect()
        }
        Self { statements: again(&self.nests, &self.statements), ..self }
    }

    /// Removes the statements that free arrays.
    pub(super) fn forget_frees(&mut self) {
        fn forget(statements: &mut Vec<Statement>) {
            statements.retain(|statement| !matches!(statement, Statement::Free(_)));
            for statement in statements {
                if let Statement::Repeat { body, .. } = statement {
                    forget(body);
                }
            }
        }
        forget(&mut self.statements);
    }

    /// Frees each temporary after the last part that touches it.
    pub(super) fn free_temporaries(&mut self, arrays: &[Array]) {
        let mut is_done: Vec<bool> = arrays.iter().map(|array| array.kind != ArrayKind::Temporary).collect();
        let statements = std::mem::take(&mut self.statements);
        self.statements = self.freed(&statements, &mut is_done);
    }

    /// The statements, each temporary freed after the last part that touches it, if it is not `is_done`.
    fn freed(&self, statements: &[Statement], is_done: &mut [bool]) -> Vec<Statement> {
        let parts: Vec<_> = Self::parts_of(statements).collect();
        let mut all = Vec::with_capacity(parts.len());
        for &part in parts.iter().rev() {
            let mut own = match part {
                Part::Nest(_, together) => together.to_vec(),
                Part::Begin(id) => vec![Statement::Begin(TransferId::Array(id))],
                Part::Await(id) => vec![Statement::Await(TransferId::Array(id))],
                Part::Free(_) => continue,
                Part::Repeat(id, body) => {
                    // Arrays that a round writes only for itself, also in inner rounds, are freed in the round; all others after the last
                    // round.
                    let leaves = self.repeats[id.0].leaves();
                    let mut is_elsewhere = vec![true; is_done.len()];
                    for id in self.makes_inside(body) {
                        is_elsewhere[id.0] = is_done[id.0] || leaves.contains(&id);
                    }
                    is_done.iter_mut().zip(&is_elsewhere).for_each(|(done, elsewhere)| *done |= !elsewhere);
                    vec![Statement::Repeat { id, body: self.freed(body, &mut is_elsewhere) }]
                }
            };
            let mut touched = self.touches(part);
            touched.retain(|id| !std::mem::replace(&mut is_done[id.0], true));
            own.extend(touched.into_iter().rev().map(Statement::Free));
            all.push(own);
        }
        all.into_iter().rev().flatten().collect()
    }

    /// For each array, the number of the memory that holds it, if it is a temporary. Arrays that are renamed from round to round do not
    /// share memory.
    pub(super) fn slots(&self, arrays: &[Array]) -> Vec<Option<RoomId>> {
        let mut slots = Slots { of: vec![None; arrays.len()], free: Vec::new(), count: 0 };
        for id in self.repeats.iter().flat_map(Repeat::renamed) {
            slots.take(id, arrays);
        }
        let alone = slots.count;
        for Numbered { part, .. } in self.numbered() {
            if let Part::Free(id) = part {
                slots.free.extend(slots.of[id.0].filter(|slot| slot.0 >= alone));
            }
            self.writes(part).into_iter().for_each(|id| slots.take(id, arrays));
        }
        slots.of
    }

    /// The arrays that a part makes; for rounds, those that outlast a round.
    fn makes(&self, part: Part<'_>) -> Vec<ArrayId> {
        match part {
            Part::Repeat(id, _) => self.repeats[id.0].leaves(),
            part => self.writes(part),
        }
    }

    /// The arrays that statements make, at any depth.
    fn makes_inside(&self, statements: &[Statement]) -> Vec<ArrayId> {
        let made = Self::parts_of(statements).flat_map(|part| match part {
            Part::Repeat(_, body) => [self.makes(part), self.makes_inside(body)].concat(),
            part => self.makes(part),
        });
        made.collect()
    }

    /// The arrays that must exist for a part.
    fn touches(&self, part: Part<'_>) -> Vec<ArrayId> {
        match part {
            Part::Nest(nest, _) => self.nests[nest.0].arrays.clone(),
            Part::Begin(moved) | Part::Await(moved) => {
                let Move { source, target, .. } = self.moves[moved.0];
                vec![source, target]
            }
            Part::Free(_) => Vec::new(),
            Part::Repeat(id, body) => {
                let repeat = &self.repeats[id.0];
                let first = repeat.carried.iter().map(|carried| carried.first);
                let inside = Self::parts_of(body).flat_map(|part| self.touches(part));
                first.chain(repeat.leaves()).chain(inside).collect()
            }
        }
    }
}

/// A part of a program, with its number on a page.
pub(super) struct Numbered<'a> {
    pub number: StatementId,
    /// How many repetitions are around it.
    pub depth: usize,
    pub part: Part<'a>,
}

/// The memory of temporaries.
struct Slots {
    /// By array.
    of: Vec<Option<RoomId>>,
    /// Memory that is free.
    free: Vec<RoomId>,
    count: usize,
}

impl Slots {
    fn take(&mut self, id: ArrayId, arrays: &[Array]) {
        if arrays[id.0].kind != ArrayKind::Temporary || self.of[id.0].is_some() {
            return;
        }
        self.of[id.0] = Some(self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            RoomId(self.count - 1)
        }));
    }
}

/// The statements of a nest, each transfer awaited where it begins, except those that begin for later iterations or are in flight during
/// these.
pub(super) fn statements(id: NestId, nest: &Nest) -> Vec<Statement> {
    inside(id, nest, Depth(0))
}

/// The statements at a depth.
fn inside(id: NestId, nest: &Nest, level: Depth) -> Vec<Statement> {
    let of_level = |level| {
        let transfers = (0..).map(TileId).zip(&nest.transfers);
        let is_here = move |transfer: &Transfer| transfer.level == level && transfer.kept_by().is_none();
        transfers.filter(move |(_, transfer)| is_here(transfer)).collect::<Vec<_>>()
    };
    let (fetched, sent): (Vec<_>, Vec<_>) =
        of_level(level).into_iter().partition(|(_, transfer)| transfer.direction == Direction::In);
    let (ahead, fetched): (Vec<_>, Vec<_>) = fetched.into_iter().partition(|(_, transfer)| transfer.ahead > 0);
    let sent: Vec<_> = sent.into_iter().filter(|(_, transfer)| !transfer.route.is_in_place()).collect();
    let transfer = |tile| TransferId::Tile { nest: id, tile };
    let begin_for = |tile, counter, iteration| Statement::BeginFor { nest: id, tile, counter, iteration };
    let await_for = |tile, counter, iteration| Statement::AwaitFor { nest: id, tile, counter, iteration };
    let moved = |&(tile, _): &(TileId, &Transfer)| [Statement::Begin(transfer(tile)), Statement::Await(transfer(tile))];
    let (coming, fetched): (Vec<_>, Vec<_>) = fetched.into_iter().partition(|(_, transfer)| transfer.interior_first);
    let mut statements: Vec<_> = coming.iter().map(|&(tile, _)| Statement::Begin(transfer(tile))).collect();
    statements.extend(fetched.iter().flat_map(moved));
    // A tile that travels is forwarded once it has arrived.
    statements.extend(ahead.iter().map(|&(tile, _)| Statement::Await(transfer(tile))));
    let later = |&(tile, ahead): &(TileId, &Transfer)| {
        begin_for(tile, LoopId(level.0 - 1), Iteration::Later(ahead.ahead as i64))
    };
    statements.extend(ahead.iter().map(later));
    statements.extend(sent.iter().map(|&(tile, _)| Statement::Fill { nest: id, tile }));
    match nest.loops.get(level.0) {
        None if coming.is_empty() => statements.push(Statement::Compute(id)),
        None => {
            statements.push(Statement::ComputeInterior(id));
            statements.extend(coming.iter().map(|&(tile, _)| Statement::Await(transfer(tile))));
            statements.push(Statement::ComputeRims(id));
        }
        Some(next) => {
            let counter = LoopId(level.0);
            let inside_it = Depth(level.0 + 1);
            let (inner, leaving): (Vec<_>, Vec<_>) =
                of_level(inside_it).into_iter().partition(|(_, transfer)| transfer.direction == Direction::In);
            let most = inner.iter().map(|(_, transfer)| transfer.ahead as i64).max().unwrap_or(0);
            for iteration in 0..next.extent.min(most) {
                let begun = inner.iter().filter(|(_, transfer)| iteration < transfer.ahead as i64);
                statements.extend(begun.map(|&(tile, _)| begin_for(tile, counter, Iteration::At(iteration))));
            }
            statements.push(Statement::Loop { nest: id, counter, body: inside(id, nest, inside_it) });
            for (tile, transfer) in leaving {
                let last = (next.extent - transfer.ahead as i64).max(0)..next.extent;
                statements.extend(last.map(|iteration| await_for(tile, counter, Iteration::At(iteration))));
            }
        }
    }
    for taken @ &(tile, transfer) in &sent {
        let [begin, awaited] = moved(taken);
        let awaited = match transfer.ahead as i64 {
            0 => awaited,
            ahead => await_for(tile, LoopId(level.0 - 1), Iteration::Earlier(ahead)),
        };
        statements.extend([begin, awaited]);
    }
    statements
}

/// Checks that statements are the derived ones in the same order, except for where they await transfers begun for the same iteration:
/// once, in the same loop, and before anything inside reads the tile.
///
/// # Errors
/// The difference, as a clause after the kernel's name.
pub(super) fn awaits_fit(derived: &[Statement], body: &[Statement]) -> Result<(), String> {
    fn others(body: &[Statement]) -> impl Iterator<Item = &Statement> {
        let has_begun = |transfer: &TransferId| body.contains(&Statement::Begin(*transfer));
        body.iter().filter(move |statement| !matches!(statement, Statement::Await(transfer) if has_begun(transfer)))
    }
    let differs = || Err("has statements that do not follow from its transfers".into());
    let acts = |body: &[Statement]| body.iter().filter(|statement| !matches!(statement, Statement::Await(_))).count();
    if acts(derived) != acts(body) {
        return differs();
    }
    let is_stray = |statement: &&Statement| !others(derived).any(|other| other == *statement);
    if others(body).filter(|statement| matches!(statement, Statement::Await(_))).any(|statement| is_stray(&statement)) {
        return Err("awaits a transfer that it has not begun in the same loop".into());
    }
    if others(derived).count() != others(body).count() {
        return differs();
    }
    for pair in others(derived).zip(others(body)) {
        match pair {
            (
                Statement::Loop { nest, counter, body },
                Statement::Loop { nest: other_nest, counter: other, body: inner },
            ) if (nest, counter) == (other_nest, other) => awaits_fit(body, inner)?,
            (wanted, found) if wanted == found => {}
            _ => return differs(),
        }
    }
    let is_inner = |statement: &Statement| {
        matches!(statement, Statement::Loop { .. } | Statement::Compute(_) | Statement::ComputeInterior(_))
    };
    let is_rims = |statement: &Statement| matches!(statement, Statement::ComputeRims(_));
    let place = |body: &[Statement], is: &dyn Fn(&Statement) -> bool| body.iter().position(is).unwrap_or(body.len());
    let (inner, rims) = (place(body, &is_inner), place(body, &is_rims));
    let is_last = |awaited: &Statement| place(derived, &is_inner) < place(derived, &|other| other == awaited);
    for (began, statement) in body.iter().enumerate() {
        let Statement::Begin(transfer) = *statement else { continue };
        if !derived.contains(&Statement::Await(transfer)) {
            // It is awaited for its iteration, as one of the `others`.
            continue;
        }
        let awaited: Vec<_> = (0..body.len()).filter(|&at| body[at] == Statement::Await(transfer)).collect();
        // A transfer that only the rims read may be in flight while the interior is computed.
        let read = if is_last(&Statement::Await(transfer)) && began < rims { rims } else { inner };
        if !matches!(awaited[..], [at] if began < at && (read < began || at < read)) {
            let TransferId::Tile { tile: TileId(number), .. } = transfer else { return differs() };
            return Err(format!("does not await its transfer, number {number}, once between its begin and its use"));
        }
    }
    Ok(())
}
