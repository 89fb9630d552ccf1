//! Checks that statements and arrays fit together. Tests: `program/tests/it/refused.rs`.

use super::body::{awaits_fit, statements};
use super::{Array, ArrayKind, Body, Carried, MOST_ROUNDS, Move, Part, Repeat};
use crate::between::RouteError;
use crate::ids::{ArrayId, MoveId, NestId, RepeatId, StatementId};
use crate::kernel::Assign;
use crate::nest::{Brought, Direction, Nest, Route};
use crate::reduction::Procedure;
use crate::statement::Statement;
use polyshard_layout::{DType, Mesh, Name, NotNative, Sharding, counted};

/// Why statements are not a program. Statements, which are kernels, moves and repetitions here, are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ProgramError {
    /// Programs do not compute in the element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// A statement names an array that does not exist.
    #[error(
        "statement {} names array {}, but the program has {}, numbered from 0",
        .statement.0, .array.0, counted(*arrays, "array")
    )]
    NoArray { statement: StatementId, array: ArrayId, arrays: usize },
    /// An array is read that nothing has written.
    #[error("statement {} reads `{array}`, which no statement before it writes", .statement.0)]
    Unwritten { statement: StatementId, array: Name },
    /// An array is written that is an input or was written before.
    #[error("statement {} writes `{array}`, which is an input or was written before", .statement.0)]
    Overwritten { statement: StatementId, array: Name },
    /// An array does not have the sharding, type or shape that a statement needs.
    #[error("statement {}: {why}", .statement.0)]
    Misfit { statement: StatementId, why: String },
    /// Rounds end by a scalar that ranks may round differently.
    #[error(
        "statement {}: `{scalar}` ends the rounds, but the terms of `{of}` are added in any order, so ranks might end \
         after different rounds", .statement.0
    )]
    AnyOrder { statement: StatementId, scalar: Name, of: Name },
    /// Rounds carry an array that a kernel writes in part, moved to another sharding.
    #[error(
        "`{kernel}` does not write all of `{value}`, which is moved and then the next version of `{carried}`: the other elements of \
         `{carried}` would be lost; give all of them one sharding"
    )]
    LostRim { kernel: Name, value: Name, carried: Name },
    /// A nest, a move or a repetition is left out, or a move is not awaited.
    #[error("{what}")]
    Unfinished { what: String },
    /// An output is not written.
    #[error("no statement writes the output `{array}`")]
    NoOutput { array: Name },
}

/// The state of an array during the check.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Unwritten,
    /// A move to it has begun.
    UnderWay,
    Written,
    /// It belongs to rounds that are over.
    Gone,
}

/// The state of the check of a program.
struct Check<'a> {
    mesh: &'a Mesh,
    dtype: DType,
    arrays: &'a [Array],
    body: &'a Body,
    /// By array.
    states: Vec<State>,
    /// By array, how many repetitions are around the statement that wrote it.
    depths: Vec<usize>,
    /// Which nests have run, which moves have begun, and which repetitions have run.
    nests: Vec<bool>,
    moves: Vec<bool>,
    repeats: Vec<bool>,
    /// The nests that have run so far in this round, or outside of rounds.
    together: Vec<NestId>,
    /// The number of the current statement.
    statement: StatementId,
    /// How many repetitions are around it.
    depth: usize,
}

pub(super) fn check(mesh: &Mesh, dtype: DType, arrays: &[Array], body: &Body) -> Result<(), ProgramError> {
    let is_input = |array: &Array| array.kind == ArrayKind::Input;
    let states = arrays.iter().map(|array| if is_input(array) { State::Written } else { State::Unwritten }).collect();
    let [nests, moves, repeats] =
        [body.nests.len(), body.moves.len(), body.repeats.len()].map(|count| vec![false; count]);
    let depths = vec![0; arrays.len()];
    let (together, statement) = (Vec::new(), StatementId(0));
    let mut check =
        Check { mesh, dtype, arrays, body, states, depths, nests, moves, repeats, together, statement, depth: 0 };
    check.parts(&body.statements)?;
    check.end()?;
    if let Some((nest, carried)) = body.nests.iter().find_map(|nest| Some((nest, body.lost_rim(nest)?))) {
        let [value, carried] = [nest.writes(), carried.value].map(|id| arrays[id.0].name);
        return Err(ProgramError::LostRim { kernel: nest.kernel.name(), value, carried });
    }
    match arrays.iter().zip(&check.states).find(|(_, state)| !matches!(state, State::Written | State::Gone)) {
        Some((array, _)) => Err(ProgramError::NoOutput { array: array.name }),
        None => Ok(()),
    }
}

impl Check<'_> {
    fn parts(&mut self, statements: &[Statement]) -> Result<(), ProgramError> {
        Body::parts_of(statements).try_for_each(|part| self.part(part))
    }

    fn part(&mut self, part: Part<'_>) -> Result<(), ProgramError> {
        self.statement.0 += usize::from(matches!(part, Part::Nest(..) | Part::Begin(_) | Part::Repeat(..)));
        // Parts before the first counted one belong to it.
        let statement = self.statement.max(StatementId(1));
        let misfit = |why| ProgramError::Misfit { statement, why };
        self.order(part).map_err(misfit)?;
        match part {
            Part::Nest(id, body) => {
                let nest = &self.body.nests[id.0];
                self.exist(statement, &nest.arrays)?;
                self.reads(statement, nest.reads())?;
                nest.arrays.last().map_or(Ok(()), |&output| self.writes(statement, output, State::Written))?;
                let given: Vec<_> = nest.arrays.iter().map(|id| &self.arrays[id.0]).collect();
                nest_fits(self.mesh, self.dtype, nest, &given).map_err(misfit)?;
                let why = |why| misfit(format!("`{}` {why}", nest.kernel.name()));
                awaits_fit(&statements(id, nest), body).map_err(why)?;
                self.brings_once(nest).map_err(why)?;
                self.is_kept(nest).map_err(why)?;
                self.together.push(id);
                Ok(())
            }
            Part::Begin(id) => {
                let moved = &self.body.moves[id.0];
                self.exist(statement, &[moved.source, moved.target])?;
                self.reads(statement, &[moved.source])?;
                self.writes(statement, moved.target, State::UnderWay)?;
                move_fits(self.mesh, self.arrays, moved).map_err(misfit)
            }
            Part::Await(id) => {
                self.states[self.body.moves[id.0].target.0] = State::Written;
                Ok(())
            }
            Part::Free(_) => Ok(()),
            Part::Repeat(id, body) => self.repeat(statement, &self.body.repeats[id.0], body),
        }
    }

    /// Checks that data fetched in the first round only is the same in all rounds.
    fn brings_once(&self, nest: &Nest) -> Result<(), String> {
        for transfer in nest.transfers.iter().filter(|transfer| transfer.brought == Brought::Once) {
            let id = nest.arrays[transfer.tensor.0];
            if self.depth == 0 || self.depths[id.0] >= self.depth {
                let (tensor, array) = (nest.tensor_name(transfer.tensor), self.arrays[id.0].name);
                return Err(format!(
                    "fetches `{tensor}` in the first round only, but is not inside rounds that leave `{array}` \
                     unchanged"
                ));
            }
        }
        Ok(())
    }

    /// Checks that reused data is in the tiles of other nests.
    fn is_kept(&self, nest: &Nest) -> Result<(), String> {
        for transfer in &nest.transfers {
            let Some((id, tile)) = transfer.kept_by() else { continue };
            let other = self.together.contains(&id).then(|| &self.body.nests[id.0]);
            if !other.is_some_and(|other| other.keeps(tile, nest, transfer)) {
                let tensor = nest.tensor_name(transfer.tensor);
                return Err(format!(
                    "reads `{tensor}` from tile {} of nest {}, but no run of that nest in the same round leaves it there",
                    tile.0, id.0
                ));
            }
        }
        Ok(())
    }

    /// Checks that rounds write all arrays that they carry, and otherwise only temporaries.
    fn repeat(&mut self, statement: StatementId, repeat: &Repeat, body: &[Statement]) -> Result<(), ProgramError> {
        let Repeat { times, until, carried } = repeat;
        let misfit = |why| ProgramError::Misfit { statement, why };
        if *times > MOST_ROUNDS {
            return Err(misfit(format!("it has {times} rounds, but at most {MOST_ROUNDS} are allowed")));
        }
        if carried.is_empty() {
            return Err(misfit("it carries nothing, so each round repeats the first".into()));
        }
        let ids = |carried: &Carried| [carried.first, carried.value, carried.next];
        carried.iter().try_for_each(|carried| self.exist(statement, &ids(carried)))?;
        for (nth, carrying) in carried.iter().enumerate() {
            self.reads(statement, &[carrying.first])?;
            let [first, value, next] = ids(carrying).map(|id| &self.arrays[id.0]);
            if first.sharding != value.sharding || next.sharding != value.sharding {
                let why = format!(
                    "`{}`, {}, becomes `{}`, {}, and then `{}`, {}; all three need the same sharding",
                    first.name, first.sharding, value.name, value.sharding, next.name, next.sharding
                );
                return Err(misfit(why));
            }
            let is_carried = carried.iter().any(|other| other.value == carrying.next);
            if next.kind != ArrayKind::Temporary && !is_carried {
                return Err(misfit(format!("`{}` is written in each round, so it must be a temporary", next.name)));
            }
            if carried[..nth].iter().any(|other| other.value == carrying.value || other.next == carrying.next) {
                return Err(misfit(format!("`{}` or `{}` is carried twice", value.name, next.name)));
            }
        }
        let before = self.states.clone();
        self.depth += 1;
        for carried in carried {
            self.writes(statement, carried.value, State::Written)?;
        }
        let outside = std::mem::take(&mut self.together);
        self.parts(body)?;
        self.together = outside;
        let is_new = |id: ArrayId| before[id.0] == State::Unwritten;
        for carried in carried {
            self.reads(statement, &[carried.next])?;
            if !is_new(carried.next) {
                let name = self.arrays[carried.next.0].name;
                return Err(misfit(format!(
                    "`{name}` is carried to the next round, but no statement of a round writes it"
                )));
            }
        }
        if let Some(until) = until {
            self.exist(statement, &[until.scalar])?;
            self.reads(statement, &[until.scalar])?;
            let Array { name, sharding, .. } = &self.arrays[until.scalar.0];
            if let Some(of) = rounded_apart(self.dtype, self.arrays, self.body)[until.scalar.0] {
                return Err(ProgramError::AnyOrder { statement, scalar: *name, of });
            }
            let is_everywhere = *sharding == Sharding::replicated(sharding.mesh(), &[]);
            if !is_new(until.scalar) || !is_everywhere || until.below.is_nan() {
                return Err(misfit(format!(
                    "`{name}` ends the rounds, so each round must write it, and every rank must hold it, a single \
                     element"
                )));
            }
        }
        let is_value = |id: usize| carried.iter().any(|carried| carried.value.0 == id);
        for (id, then) in before.into_iter().enumerate() {
            let (now, name) = (self.states[id], self.arrays[id].name);
            if (then == State::UnderWay) != (now == State::UnderWay) {
                return Err(misfit(format!("the move to `{name}` does not begin and end in one round")));
            }
            if then == now || is_value(id) {
                continue;
            }
            if self.arrays[id].kind != ArrayKind::Temporary {
                return Err(misfit(format!("each round writes the output `{name}`; carry it instead")));
            }
            self.states[id] = State::Gone;
        }
        self.depth -= 1;
        carried.iter().for_each(|carried| self.depths[carried.value.0] = self.depth);
        Ok(())
    }

    /// Checks that a part may come next: each nest, each move and each repetition occurs once.
    fn order(&mut self, part: Part<'_>) -> Result<(), String> {
        let once = |what: &str, done: &mut Vec<bool>, number: usize| {
            let count = done.len();
            match done.get_mut(number).map(|done| std::mem::replace(done, true)) {
                Some(false) => Ok(()),
                Some(true) => {
                    Err(format!("{what} {number}, numbered from 0, runs twice, or its statements are not adjacent"))
                }
                None => Err(format!("there is no {what} {number}; the program has {count}, numbered from 0")),
            }
        };
        match part {
            Part::Nest(NestId(number), _) => once("nest", &mut self.nests, number),
            Part::Begin(MoveId(number)) => once("move", &mut self.moves, number),
            Part::Await(MoveId(number)) => {
                let has_begun = self.moves.get(number) == Some(&true);
                match has_begun && self.states[self.body.moves[number].target.0] == State::UnderWay {
                    true => Ok(()),
                    false => Err(format!("move {number}, numbered from 0, is awaited, but not in flight there")),
                }
            }
            Part::Repeat(RepeatId(number), _) => once("repetition", &mut self.repeats, number),
            Part::Free(_) => Err("the program frees arrays after their last use; leave `Free` out".into()),
        }
    }

    /// Checks that all nests, moves and repetitions have run.
    fn end(&self) -> Result<(), ProgramError> {
        let left_out = |done: &[bool]| done.iter().position(|done| !done);
        let what = if let Some(target) = self.states.iter().position(|state| *state == State::UnderWay) {
            format!("no statement awaits the move to `{}`", self.arrays[target].name)
        } else if let Some(number) = left_out(&self.nests) {
            format!("no statement runs nest {number} of {}, numbered from 0", self.nests.len())
        } else if let Some(number) = left_out(&self.moves) {
            format!("no statement begins move {number} of {}, numbered from 0", self.moves.len())
        } else if let Some(number) = left_out(&self.repeats) {
            format!("no statement has the rounds of repetition {number} of {}, numbered from 0", self.repeats.len())
        } else {
            return Ok(());
        };
        Err(ProgramError::Unfinished { what })
    }

    fn exist(&self, statement: StatementId, ids: &[ArrayId]) -> Result<(), ProgramError> {
        match ids.iter().find(|id| id.0 >= self.arrays.len()) {
            Some(id) => Err(ProgramError::NoArray { statement, array: *id, arrays: self.arrays.len() }),
            None => Ok(()),
        }
    }

    fn reads(&self, statement: StatementId, ids: &[ArrayId]) -> Result<(), ProgramError> {
        match ids.iter().find(|id| self.states[id.0] != State::Written) {
            Some(id) => Err(ProgramError::Unwritten { statement, array: self.arrays[id.0].name }),
            None => Ok(()),
        }
    }

    fn writes(&mut self, statement: StatementId, id: ArrayId, state: State) -> Result<(), ProgramError> {
        self.depths[id.0] = self.depth;
        match std::mem::replace(&mut self.states[id.0], state) {
            State::Unwritten => Ok(()),
            State::UnderWay | State::Written | State::Gone => {
                Err(ProgramError::Overwritten { statement, array: self.arrays[id.0].name })
            }
        }
    }
}

/// By array, the sum for which ranks that each have the array may round it differently, if any: one that the communication library adds
/// up in any order, or on which the array's values depend.
fn rounded_apart(dtype: DType, arrays: &[Array], body: &Body) -> Vec<Option<Name>> {
    let mut found: Vec<Option<Name>> = vec![None; arrays.len()];
    loop {
        let known = |id: &ArrayId| found.get(id.0).copied().flatten();
        let mut next = found.clone();
        let mut tell = |id: ArrayId, of: Option<Name>| {
            if let Some(at) = next.get_mut(id.0) {
                *at = at.or(of);
            }
        };
        for nest in &body.nests {
            let own = nest.sums_may_differ().then(|| nest.kernel.output().name);
            let of = own.or_else(|| nest.arrays.iter().find_map(known));
            nest.arrays.last().into_iter().for_each(|&output| tell(output, of));
        }
        for moved in &body.moves {
            let by_library = moved.route.procedure().is_some_and(|procedure| procedure.steps().is_some());
            let own = arrays.get(moved.source.0).filter(|_| by_library && moved.op.depends_on_order(dtype));
            tell(moved.target, own.map(|array| array.name).or_else(|| known(&moved.source)));
        }
        for Carried { first, value, next } in body.repeats.iter().flat_map(|repeat| &repeat.carried) {
            tell(*value, known(first).or_else(|| known(next)));
        }
        if next == found {
            return found;
        }
        found = next;
    }
}

/// Checks that a move is between arrays that fit.
fn move_fits(mesh: &Mesh, arrays: &[Array], moved: &Move) -> Result<(), String> {
    let [source, target] = [moved.source, moved.target].map(|id| &arrays[id.0]);
    if source.sharding.shape() != target.sharding.shape() {
        let shapes = (source.sharding.shape(), target.sharding.shape());
        return Err(format!("an array of shape {:?} cannot be moved to one of {:?}", shapes.0, shapes.1));
    }
    let elsewhere = |array: &&Array| array.sharding.mesh().size() != mesh.size();
    if let Some(Array { name, sharding, .. }) = [source, target].into_iter().find(elsewhere) {
        let ranks = sharding.mesh().size();
        return Err(format!("`{name}` is on {ranks} ranks, but the program runs on {}", mesh.size()));
    }
    if let Some(kept) = &moved.kept
        && (kept.shape() != source.sharding.shape() || kept.mesh().size() != mesh.size())
    {
        let (name, held) = (source.name, source.sharding.shape());
        return Err(format!(
            "the sharding to keep of `{name}` has {:?} on ({}), not {held:?} on ({mesh})",
            kept.shape(),
            kept.mesh()
        ));
    }
    let closed = source.sharding.closed_axes(&target.sharding).map_err(|error| error.to_string())?;
    let from = moved.kept.as_ref().unwrap_or(&source.sharding);
    if moved.direction != Direction::between(&source.sharding, &target.sharding) {
        return Err(format!("`{}` has an invalid route: {}", source.name, RouteError::Legs));
    }
    match moved.route.procedure() {
        None => {
            let fits = moved.route.check_between(from, &target.sharding);
            fits.map_err(|why| format!("`{}` has an invalid route: {why}", source.name))?;
            if moved.op != Assign::Add {
                let (name, op) = (source.name, moved.op);
                return Err(format!(
                    "the terms of `{name}` are combined by `{op}`, but only `+` works without a procedure"
                ));
            }
        }
        Some(procedure) => reduction_fits(moved, procedure, [source, target], closed)?,
    }
    match moved.called_otherwise([from, &target.sharding]) {
        None => Ok(()),
        Some(is) => Err(format!("the move of `{}` is called {}, but is {is}", source.name, moved.pattern)),
    }
}

/// Checks that a move that is carried out by a procedure closes sums along `axes` in its groups, and does nothing else.
fn reduction_fits(moved: &Move, by: &Procedure, arrays: [&Array; 2], axes: Vec<usize>) -> Result<(), String> {
    let [(name, source), (_, target)] = arrays.map(|array| (array.name, &array.sharding));
    if source.closed_along(&axes) != *target || moved.kept.is_some() {
        return Err(format!(
            "a reduction moves no elements, but `{name}` changes from {source} to {target}; move it before or after"
        ));
    }
    if moved.op == Assign::Set {
        return Err(format!("`=` combines nothing; reduce `{name}` by `+=`, `*=`, `max=` or `min=`"));
    }
    let checked = by.check_along(source.mesh(), &axes);
    checked.map_err(|why| format!("the reduction of `{name}` from {source} to {target} {why}"))?;
    match moved.route == Route::by_procedure(axes, by.clone()) {
        true => Ok(()),
        false => Err(format!("`{name}` has an invalid route: {}", RouteError::Legs)),
    }
}

fn nest_fits(mesh: &Mesh, dtype: DType, nest: &Nest, given: &[&Array]) -> Result<(), String> {
    let kernel = &nest.kernel;
    if nest.mesh != *mesh {
        return Err(format!("`{}` runs on the mesh ({}), but the program runs on ({mesh})", kernel.name(), nest.mesh));
    }
    if kernel.dtype() != dtype {
        return Err(format!("`{}` computes {}, but the program's arrays are {dtype}", kernel.name(), kernel.dtype()));
    }
    let (name, tensors) = (kernel.name(), kernel.tensors().count());
    if given.len() != tensors {
        let given = given.len();
        return Err(format!("`{name}` reads and writes {tensors} arrays, but the statement names {given}"));
    }
    nest.check().map_err(|why| format!("`{name}` {why}"))?;
    for ((tensor, wanted), array) in kernel.tensors().zip(&nest.shardings).zip(given) {
        let held = &array.sharding;
        if held != wanted {
            return Err(format!(
                "`{}` is sharded {held}, but the kernel takes it as `{}` {wanted}",
                array.name, tensor.name
            ));
        }
    }
    Ok(())
}
