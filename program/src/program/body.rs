//! What a program does: nests and moves in tables, and one tree of statements that carries them out.

use super::{Array, ArrayKind, Move};
use crate::ids::{ArrayId, LoopId, MoveId, NestId, TileId, TransferId};
use crate::nest::{Direction, Nest, Transfer};
use crate::statement::{Iteration, Statement};
use serde::{Deserialize, Serialize};

/// The nests and moves of a program by number, and the statements in the order in which they run.
///
/// ```
/// use polyshard_layout::{Mesh, Placement, Sharding};
/// use polyshard_program::{Array, ArrayId, ArrayKind, Body, DType, Move, Program};
/// let mesh = Mesh::new([("x", 2)]);
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
/// let array = |kind, dim| Array { name: "A".into(), sharding: by(dim), kind };
/// let mut body = Body::default();
/// body.transfer(Move::direct(ArrayId(0), ArrayId(1), [&by(0), &by(1)], Vec::new()));
/// let program = Program::new(&mesh, DType::F64, vec![array(ArrayKind::Input, 0), array(ArrayKind::Output, 1)], body)?;
/// assert_eq!(program.body().parts().count(), 2, "it begins, and is awaited");
/// # Ok::<(), polyshard_program::ProgramError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Body {
    /// The nests.
    pub nests: Vec<Nest>,
    /// The moves.
    pub moves: Vec<Move>,
    /// The statements.
    pub statements: Vec<Statement>,
}

/// Statements that belong together at the outermost level of a program.
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
}

impl Body {
    /// Adds a kernel that reads and writes the arrays that its nest names.
    pub fn run(&mut self, nest: Nest) {
        let id = NestId(self.nests.len());
        self.statements.extend(statements(id, &nest));
        self.nests.push(nest);
    }

    /// Adds a move, which is awaited at once.
    pub fn transfer(&mut self, moved: Move) {
        let id = TransferId::Array(MoveId(self.moves.len()));
        self.statements.extend([Statement::Begin(id), Statement::Await(id)]);
        self.moves.push(moved);
    }

    /// Returns the nest if there is one, and nothing else.
    #[must_use]
    pub fn only_nest(&self) -> Option<&Nest> {
        match (&self.nests[..], &self.moves[..]) {
            ([nest], []) => Some(nest),
            _ => None,
        }
    }

    /// Returns the outermost statements, those of a nest together.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.statements.chunk_by(|one, next| one.nest().is_some() && one.nest() == next.nest()).map(|together| {
            match (together[0].nest(), &together[0]) {
                (Some(nest), _) => Part::Nest(nest, together),
                (None, Statement::Begin(TransferId::Array(moved))) => Part::Begin(*moved),
                (None, Statement::Await(TransferId::Array(moved))) => Part::Await(*moved),
                (None, Statement::Free(array)) => Part::Free(*array),
                (None, _) => unreachable!("all other statements are of nests; this is a bug of polyshard"),
            }
        })
    }

    /// Returns the array that a part writes, if it writes one.
    ///
    /// # Panics
    /// If it is of a nest or a move that there is not.
    #[must_use]
    pub fn writes(&self, part: Part<'_>) -> Option<ArrayId> {
        match part {
            Part::Nest(nest, _) => Some(self.nests[nest.0].writes()),
            Part::Begin(moved) => Some(self.moves[moved.0].target),
            Part::Await(_) | Part::Free(_) => None,
        }
    }

    /// The parts with the number that each has on a page, from 1: nests, and moves where they begin, are counted.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, Part<'_>)> {
        let mut number = 0;
        self.parts().map(move |part| {
            number += usize::from(matches!(part, Part::Nest(..) | Part::Begin(_)));
            (number, part)
        })
    }

    /// Frees each temporary after the last part that touches it.
    pub(super) fn free_temporaries(&mut self, arrays: &[Array]) {
        let mut is_freed: Vec<bool> = arrays.iter().map(|array| array.kind != ArrayKind::Temporary).collect();
        // By part, from the last one, what is freed after it.
        let parts: Vec<_> = self.parts().collect();
        let mut freed = Vec::new();
        for &part in parts.iter().rev() {
            let mut touched = self.touches(part);
            touched.retain(|id| !std::mem::replace(&mut is_freed[id.0], true));
            let count = if let Part::Nest(_, together) = part { together.len() } else { 1 };
            freed.push((count, touched));
        }
        let mut statements = std::mem::take(&mut self.statements).into_iter();
        for (count, mut ids) in freed.into_iter().rev() {
            self.statements.extend(statements.by_ref().take(count));
            ids.reverse();
            self.statements.extend(ids.into_iter().map(Statement::Free));
        }
    }

    /// For each array, the number of the memory that holds it, if it is a temporary.
    pub(super) fn slots(&self, arrays: &[Array]) -> Vec<Option<usize>> {
        let mut slots = vec![None; arrays.len()];
        let (mut free, mut count) = (Vec::new(), 0);
        for part in self.parts() {
            if let Part::Free(id) = part {
                free.extend(slots[id.0]);
            }
            if let Some(id) = self.writes(part).filter(|id| arrays[id.0].kind == ArrayKind::Temporary) {
                slots[id.0] = Some(free.pop().unwrap_or_else(|| {
                    count += 1;
                    count - 1
                }));
            }
        }
        slots
    }

    /// The arrays that a part needs to be there.
    fn touches(&self, part: Part<'_>) -> Vec<ArrayId> {
        match part {
            Part::Nest(nest, _) => self.nests[nest.0].arrays.clone(),
            Part::Begin(moved) | Part::Await(moved) => {
                let Move { source, target, .. } = self.moves[moved.0];
                vec![source, target]
            }
            Part::Free(_) => Vec::new(),
        }
    }
}

/// The statements of a nest, each transfer awaited where it begins, but for those that begin for later iterations.
pub(super) fn statements(id: NestId, nest: &Nest) -> Vec<Statement> {
    inside(id, nest, 0)
}

/// The statements inside the first `level` serial loops.
fn inside(id: NestId, nest: &Nest, level: usize) -> Vec<Statement> {
    let of_level = |level| {
        let transfers = (0..).map(TileId).zip(&nest.transfers);
        transfers.filter(move |(_, transfer)| transfer.level == level).collect::<Vec<_>>()
    };
    let (fetched, sent): (Vec<_>, Vec<_>) =
        of_level(level).into_iter().partition(|(_, transfer)| transfer.direction == Direction::In);
    let (ahead, fetched): (Vec<_>, Vec<_>) = fetched.into_iter().partition(|(_, transfer)| transfer.ahead > 0);
    let sent: Vec<_> = sent.into_iter().filter(|(_, transfer)| !transfer.route.is_in_place()).collect();
    let transfer = |tile| TransferId::Tile { nest: id, tile };
    let begin_for = |tile, counter, iteration| Statement::BeginFor { nest: id, tile, counter, iteration };
    let moved = |&(tile, _): &(TileId, &Transfer)| [Statement::Begin(transfer(tile)), Statement::Await(transfer(tile))];
    let mut statements: Vec<_> = fetched.iter().flat_map(moved).collect();
    // What travels is sent on when it is here.
    statements.extend(ahead.iter().map(|&(tile, _)| Statement::Await(transfer(tile))));
    let later =
        |&(tile, ahead): &(TileId, &Transfer)| begin_for(tile, LoopId(level - 1), Iteration::Later(ahead.ahead as i64));
    statements.extend(ahead.iter().map(later));
    statements.extend(sent.iter().map(|&(tile, _)| Statement::Fill { nest: id, tile }));
    match nest.loops.get(level) {
        None => statements.push(Statement::Compute(id)),
        Some(next) => {
            let (counter, inner) = (LoopId(level), of_level(level + 1));
            let most = inner.iter().map(|(_, transfer)| transfer.ahead as i64).max().unwrap_or(0);
            for iteration in 0..next.extent.min(most) {
                let begun = inner.iter().filter(|(_, transfer)| iteration < transfer.ahead as i64);
                statements.extend(begun.map(|&(tile, _)| begin_for(tile, counter, Iteration::At(iteration))));
            }
            statements.push(Statement::Loop { nest: id, counter, body: inside(id, nest, level + 1) });
        }
    }
    statements.extend(sent.iter().flat_map(moved));
    statements
}

/// Checks that statements are the derived ones in their order, but for where they await what they have begun for the same iteration: once,
/// in the same loop, and before anything inside reads it.
///
/// # Errors
/// What they have otherwise, as a clause after the kernel's name.
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
    let is_inner = |statement: &Statement| matches!(statement, Statement::Loop { .. } | Statement::Compute(_));
    let inner = body.iter().position(is_inner).unwrap_or(body.len());
    for (began, statement) in body.iter().enumerate() {
        let Statement::Begin(transfer) = *statement else { continue };
        let awaited: Vec<_> = (0..body.len()).filter(|&at| body[at] == Statement::Await(transfer)).collect();
        if !matches!(awaited[..], [at] if began < at && (inner < began || at < inner)) {
            let TransferId::Tile { tile: TileId(number), .. } = transfer else { return differs() };
            return Err(format!("does not await its transfer, number {number}, once between its begin and its use"));
        }
    }
    Ok(())
}
