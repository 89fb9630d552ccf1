//! Checks that statements and arrays fit together. Tests: `program/tests/it/refused.rs`.

use super::body::Id;
use super::{Array, ArrayKind, Body, Carried, MOST_ROUNDS, MoveView, Rounds, Span, placed};
use crate::between::RouteError;
use crate::ids::{ArrayId, KernelId, StatementId, TransferId};
use crate::kernel::Assign;
use crate::nest::{Continued, Direction, LoweredKernel, NestView, Route, Transfer};
use crate::reduction::Procedure;
use crate::statement::Statement;
use polyshard_layout::{Name, NotNative, Sharding, counted};
use std::collections::BTreeSet;

/// Why statements are not a program. Statements, which are kernels, moves and rounds here, are numbered from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum ProgramError {
    /// Programs do not compute in the element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// The file is from an earlier release.
    #[error("the program is stored {}, but this release reads version 1 alone; lower its schedules again", form(*version))]
    Version { version: u64 },
    /// A row or a statement names a row that does not exist.
    #[error("{by} names {kind} {number}, but the program has {}, numbered from 0", counted(*rows, kind))]
    NoRow { by: String, kind: &'static str, number: usize, rows: usize },
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
    /// A kernel, a move or rounds are left out, or a move does not end.
    #[error("{what}")]
    Unfinished { what: String },
    /// An output is not written.
    #[error("no statement writes the output `{array}`")]
    NoOutput { array: Name },
}

/// The form of a stored program, as text; 0 stands for that before there were versions.
fn form(version: u64) -> String {
    if version == 0 { "without a version, as by an earlier release".into() } else { format!("in version {version}") }
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
    body: &'a Body,
    /// By array.
    states: Vec<State>,
    /// By array, how many rounds are around the statement that wrote it.
    depths: Vec<usize>,
    /// Which kernels have run, which moves have begun, and which rounds have run.
    kernels: Vec<bool>,
    moves: Vec<bool>,
    rounds: Vec<bool>,
    /// By transfer, whether it is in the first round only.
    first: Vec<bool>,
    /// The transfers whose tiles have been fetched so far in this round, or outside of rounds.
    fetched: BTreeSet<TransferId>,
    /// The number of the current statement.
    statement: StatementId,
    /// How many rounds are around it.
    depth: usize,
}

/// Checks that statements and arrays fit together, whose numbers are those of rows.
pub(super) fn check(body: &Body) -> Result<(), ProgramError> {
    let is_input = |array: &Array| array.kind == ArrayKind::Input;
    let state = |array| if is_input(array) { State::Written } else { State::Unwritten };
    let mut check = Check {
        body,
        states: body.arrays.iter().map(state).collect(),
        depths: vec![0; body.arrays.len()],
        kernels: vec![false; body.kernels.len()],
        moves: vec![false; body.transfers.len()],
        rounds: vec![false; body.rounds.len()],
        first: body.in_first_round(),
        fetched: BTreeSet::new(),
        statement: StatementId(0),
        depth: 0,
    };
    check.statements(&body.statements)?;
    check.end()?;
    if let Some((row, carried)) = body.kernels.iter().find_map(|row| Some((row, body.lost_rim(row)?))) {
        let [value, carried] = [row.writes(), carried.value].map(|id| body.arrays[id.0].name);
        return Err(ProgramError::LostRim { kernel: row.kernel.name(), value, carried });
    }
    match body.arrays.iter().zip(&check.states).find(|(_, state)| !matches!(state, State::Written | State::Gone)) {
        Some((array, _)) => Err(ProgramError::NoOutput { array: array.name }),
        None => Ok(()),
    }
}

impl Body {
    /// Checks that every number in its tables and statements is that of a row.
    pub(super) fn check_numbers(&mut self) -> Result<(), ProgramError> {
        let [arrays, transfers] = [self.arrays.len(), self.transfers.len()];
        let [loops, kernels, rounds] = [self.loops.len(), self.kernels.len(), self.rounds.len()];
        let mut wrong = None;
        self.each_id(&mut |by, id| {
            let (kind, number, rows) = match id {
                Id::Array(id) => ("array", id.0, arrays),
                Id::Transfer(id) => ("transfer", id.0, transfers),
                Id::Loop(id) => ("loop", id.0, loops),
                Id::Kernel(id) => ("kernel", id.0, kernels),
                Id::Rounds(id) => ("repetition", id.0, rounds),
            };
            if number >= rows && wrong.is_none() {
                wrong = Some(ProgramError::NoRow { by: by.to_string(), kind, number, rows });
            }
        });
        wrong.map_or(Ok(()), Err)
    }
}

impl<'a> Check<'a> {
    fn statements(&mut self, statements: &[Statement]) -> Result<(), ProgramError> {
        self.body.spans(statements).try_for_each(|span| self.span(span))
    }

    fn span(&mut self, span: Span<'_>) -> Result<(), ProgramError> {
        self.statement.0 += usize::from(span.is_counted());
        // Statements before the first counted one belong to it.
        let statement = self.statement.max(StatementId(1));
        let misfit = |why| ProgramError::Misfit { statement, why };
        match span.statements {
            _ if span.kernel.is_some() => self.kernels(statement, span),
            [Statement::Begin(id, at)] => {
                let moved = Self::moved(self.body, *id).map_err(misfit)?;
                if at.first_round || std::mem::replace(&mut self.moves[id.0], true) {
                    return Err(misfit(format!(
                        "transfer {}, numbered from 0, moves an array, so it begins once",
                        id.0
                    )));
                }
                self.reads(statement, &[moved.source])?;
                self.writes(statement, moved.target, State::UnderWay)?;
                move_fits(self.body, &moved).map_err(misfit)
            }
            [Statement::End(id, _)] => {
                let target = Self::moved(self.body, *id).map_err(misfit)?.target;
                let is_in_flight = self.moves[id.0] && self.states[target.0] == State::UnderWay;
                if !is_in_flight {
                    return Err(misfit(format!(
                        "transfer {}, numbered from 0, ends, but is not in flight there",
                        id.0
                    )));
                }
                self.states[target.0] = State::Written;
                Ok(())
            }
            [Statement::Rounds(id, body)] => {
                if std::mem::replace(&mut self.rounds[id.0], true) {
                    return Err(misfit(format!("repetition {}, numbered from 0, runs twice", id.0)));
                }
                self.rounds(statement, &self.body.rounds[id.0], body)
            }
            [Statement::Free(_)] => {
                Err(misfit("the program frees arrays after their last use; leave `Free` out".into()))
            }
            _ => Err(misfit("a loop or a fill is of no kernel".into())),
        }
    }

    /// The move that begins or ends.
    fn moved(body: &'a Body, id: TransferId) -> Result<MoveView<'a>, String> {
        let moved = body.moved(id);
        moved.ok_or_else(|| format!("transfer {}, numbered from 0, is between two tiles", id.0))
    }

    /// Checks the kernels of a span, and then their statements.
    fn kernels(&mut self, statement: StatementId, span: Span<'_>) -> Result<(), ProgramError> {
        let misfit = |why| ProgramError::Misfit { statement, why };
        let body = self.body;
        let kernels = body.kernels_of(span);
        if let Some(first) = span.kernel.filter(|first| !kernels.contains(first)) {
            let name = body.kernels[first.0].kernel.name();
            return Err(misfit(format!("`{name}` does not run its leaf between the ends of its transfers")));
        }
        for &id in &kernels {
            let row = &body.kernels[id.0];
            if std::mem::replace(&mut self.kernels[id.0], true) {
                let why = "runs twice, or its statements are not adjacent";
                return Err(misfit(format!("kernel {}, numbered from 0, {why}", id.0)));
            }
            let tensors = row.kernel.tensors().count();
            if row.arrays.len() != tensors {
                let (name, given) = (row.kernel.name(), row.arrays.len());
                return Err(misfit(format!(
                    "`{name}` reads and writes {tensors} arrays, but the statement names {given}"
                )));
            }
            let from_before = body.reads_from_before(id).map(|(_, array)| array);
            let continued = row.continues.map(|continued| continued.array);
            let continued = continued.filter(|array| body.writer_beside(id, *array).is_none());
            self.reads(statement, &from_before.chain(continued).collect::<Vec<_>>())?;
        }
        for &id in &kernels {
            let row = &body.kernels[id.0];
            self.writes(statement, row.writes(), State::Written)?;
            let why = |why| misfit(format!("`{}` {why}", row.kernel.name()));
            if row.kernel.dtype() != body.dtype {
                return Err(why(format!(
                    "computes {}, but the program's arrays are {}",
                    row.kernel.dtype(),
                    body.dtype
                )));
            }
            let nest = body.nest(id);
            nest.check().map_err(why)?;
            continues(body, row).map_err(why)?;
            body.check_beside(id, &kernels).map_err(why)?;
            self.is_kept(&nest, &kernels).map_err(why)?;
        }
        let checked = placed::check(body, span, &kernels, &self.fetched);
        checked.map_err(|(kernel, why)| misfit(format!("`{}` {why}", body.kernels[kernel.0].kernel.name())))?;
        for &id in &kernels {
            let nest = body.nest(id);
            for transfer in nest.inputs().iter().filter(|transfer| transfer.reused.is_none()) {
                if self.first[transfer.id.0] {
                    self.fetches_once(&nest, transfer.tensor.0, transfer)
                        .map_err(|why| misfit(format!("`{}` {why}", nest.kernel.name())))?;
                }
                if transfer.can_stay() && nest.time_steps.is_none() {
                    self.fetched.insert(transfer.id);
                }
            }
        }
        Ok(())
    }

    /// Checks that data fetched in the first round only is the same in all rounds.
    fn fetches_once(&self, nest: &NestView<'_>, tensor: usize, transfer: &Transfer) -> Result<(), String> {
        let id = nest.arrays[tensor];
        if transfer.can_stay() && self.depth > 0 && self.depths[id.0] < self.depth {
            return Ok(());
        }
        let (tensor, array) = (nest.tensor_name(crate::ids::TensorId(tensor)), self.body.arrays[id.0].name);
        Err(format!(
            "fetches `{tensor}` in the first round only, but is not inside rounds that leave `{array}` unchanged, or its tile \
             does not hold it"
        ))
    }

    /// Checks that reused data is in the tiles of other kernels, which ran before in the same round or run together with it.
    fn is_kept(&self, nest: &NestView<'_>, together: &[KernelId]) -> Result<(), String> {
        for transfer in nest.transfers.iter().filter(|transfer| transfer.reused.is_some()) {
            let is_together = transfer.kernel().is_some_and(|owner| {
                let (loops, level) = (&self.body.kernels[owner.0].loops, transfer.level.0);
                together.contains(&owner) && loops.get(..level).is_some_and(|loops| nest.row.loops.starts_with(loops))
            });
            let is_there = is_together || self.fetched.contains(&transfer.id);
            if !is_there || !transfer.tile.is_read_by(nest) {
                let (tensor, id) = (nest.tensor_name(transfer.tensor), transfer.id.0);
                return Err(format!(
                    "reads `{tensor}` from the tile of transfer {id}, but no kernel before it in the same round leaves it there"
                ));
            }
        }
        Ok(())
    }

    /// Checks that rounds write all arrays that they carry, and otherwise only temporaries.
    fn rounds(&mut self, statement: StatementId, rounds: &Rounds, body: &[Statement]) -> Result<(), ProgramError> {
        let Rounds { times, until, carried } = rounds;
        let misfit = |why| ProgramError::Misfit { statement, why };
        if *times > MOST_ROUNDS {
            return Err(misfit(format!("it has {times} rounds, but at most {MOST_ROUNDS} are allowed")));
        }
        if carried.is_empty() {
            return Err(misfit("it carries nothing, so each round repeats the first".into()));
        }
        let ids = |carried: &Carried| [carried.first, carried.value, carried.next];
        for (nth, carrying) in carried.iter().enumerate() {
            self.reads(statement, &[carrying.first])?;
            let [first, value, next] = ids(carrying).map(|id| &self.body.arrays[id.0]);
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
        let outside = std::mem::take(&mut self.fetched);
        self.statements(body)?;
        self.fetched = outside;
        let is_new = |id: ArrayId| before[id.0] == State::Unwritten;
        for carried in carried {
            self.reads(statement, &[carried.next])?;
            if !is_new(carried.next) {
                let name = self.body.arrays[carried.next.0].name;
                return Err(misfit(format!(
                    "`{name}` is carried to the next round, but no statement of a round writes it"
                )));
            }
        }
        if let Some(until) = until {
            self.reads(statement, &[until.scalar])?;
            let Array { name, sharding, .. } = &self.body.arrays[until.scalar.0];
            if let Some(of) = rounded_apart(self.body)[until.scalar.0] {
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
            let (now, name) = (self.states[id], self.body.arrays[id].name);
            if (then == State::UnderWay) != (now == State::UnderWay) {
                return Err(misfit(format!("the move to `{name}` does not begin and end in one round")));
            }
            if then == now || is_value(id) {
                continue;
            }
            if self.body.arrays[id].kind == ArrayKind::Output {
                return Err(misfit(format!("each round writes the output `{name}`; carry it instead")));
            }
            self.states[id] = State::Gone;
        }
        self.depth -= 1;
        carried.iter().for_each(|carried| self.depths[carried.value.0] = self.depth);
        Ok(())
    }

    /// Checks that all kernels, moves and rounds have run.
    fn end(&self) -> Result<(), ProgramError> {
        let left_out = |done: &[bool]| done.iter().position(|done| !done);
        let moves = self.body.moves().find(|moved| !self.moves[moved.id.0]);
        let what = if let Some(target) = self.states.iter().position(|state| *state == State::UnderWay) {
            format!("no statement ends the move to `{}`", self.body.arrays[target].name)
        } else if let Some(number) = left_out(&self.kernels) {
            format!("no statement runs kernel {number} of {}, numbered from 0", self.kernels.len())
        } else if let Some(moved) = moves {
            format!("no statement begins transfer {}, numbered from 0, a move", moved.id.0)
        } else if let Some((number, kernel)) = self.body.unused() {
            let name = self.body.kernels[kernel.0].kernel.name();
            format!(
                "transfer {number}, numbered from 0, is between an array and a tile of `{name}`, which does not use it"
            )
        } else if let Some(number) = left_out(&self.rounds) {
            format!("no statement has the rounds of repetition {number} of {}, numbered from 0", self.rounds.len())
        } else {
            return Ok(());
        };
        Err(ProgramError::Unfinished { what })
    }

    fn reads(&self, statement: StatementId, ids: &[ArrayId]) -> Result<(), ProgramError> {
        let is_here =
            |id: &ArrayId| self.states[id.0] == State::Written && self.body.arrays[id.0].kind != ArrayKind::Panels;
        match ids.iter().find(|id| !is_here(id)) {
            Some(id) => Err(ProgramError::Unwritten { statement, array: self.body.arrays[id.0].name }),
            None => Ok(()),
        }
    }

    fn writes(&mut self, statement: StatementId, id: ArrayId, state: State) -> Result<(), ProgramError> {
        self.depths[id.0] = self.depth;
        match std::mem::replace(&mut self.states[id.0], state) {
            State::Unwritten => Ok(()),
            State::UnderWay | State::Written | State::Gone => {
                Err(ProgramError::Overwritten { statement, array: self.body.arrays[id.0].name })
            }
        }
    }
}

/// By array, the sum for which ranks that each have the array may round it differently, if any: one that the communication library adds
/// up in any order, or on which the array's values depend.
fn rounded_apart(body: &Body) -> Vec<Option<Name>> {
    let mut found: Vec<Option<Name>> = vec![None; body.arrays.len()];
    loop {
        let known = |id: &ArrayId| found.get(id.0).copied().flatten();
        let mut next = found.clone();
        let mut tell = |id: ArrayId, of: Option<Name>| {
            if let Some(at) = next.get_mut(id.0) {
                *at = at.or(of);
            }
        };
        for nest in body.nests() {
            let own = nest.sums_may_differ().then(|| nest.kernel.output().name);
            let of = own.or_else(|| nest.needs().find_map(|id| known(&id)));
            tell(nest.writes(), of);
        }
        for moved in body.moves() {
            let by_library = moved.route.procedure().is_some_and(|procedure| procedure.steps().is_some());
            let own = (by_library && moved.op.depends_on_order(body.dtype)).then(|| body.arrays[moved.source.0].name);
            tell(moved.target, own.or_else(|| known(&moved.source)));
        }
        for Carried { first, value, next } in body.rounds.iter().flat_map(|rounds| &rounds.carried) {
            tell(*value, known(first).or_else(|| known(next)));
        }
        if next == found {
            return found;
        }
        found = next;
    }
}

/// Checks that the output of a kernel can continue its previous version.
fn continues(body: &Body, row: &LoweredKernel) -> Result<(), String> {
    let Some(Continued { array, adds }) = row.continues else { return Ok(()) };
    let [before, output] = [array, row.writes()].map(|id| &body.arrays[id.0]);
    if before.sharding != output.sharding {
        return Err(format!(
            "continues `{}`, {:?} {}, but writes `{}`, {:?} {}; both need the same shape and sharding",
            before.name,
            before.sharding.shape(),
            before.sharding,
            output.name,
            output.sharding.shape(),
            output.sharding
        ));
    }
    if row.time_steps.is_some() {
        return Err(format!("is applied several times, so it cannot continue `{}`", before.name));
    }
    if adds && row.kernel.assign() == Assign::Set {
        return Err(format!(
            "writes by `=`, which adds nothing to `{}`; write `+=`, `*=`, `max=` or `min=`",
            before.name
        ));
    }
    if adds && !output.sharding.partial().is_empty() {
        return Err(format!(
            "leaves the sums of `{}` open, {}, so it cannot add to `{}`; close them first",
            output.name, output.sharding, before.name
        ));
    }
    Ok(())
}

/// Checks that a move is between arrays that fit.
fn move_fits(body: &Body, moved: &MoveView<'_>) -> Result<(), String> {
    let mesh = &body.mesh;
    let [source, target] = [moved.source, moved.target].map(|id| &body.arrays[id.0]);
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
    let whole = Transfer::between([moved.source, moved.target], moved.shardings, body.dtype, Vec::new());
    let Transfer { route, direction, op, kept, tests, called, .. } = moved.row.clone();
    if (Transfer { route, direction, op, kept, tests, called, ..whole }) != *moved.row {
        return Err(format!("the move of `{}` is not of the whole array, outside of loops", source.name));
    }
    match &moved.called {
        Some(called) if !moved.may_be_called([from, &target.sharding], called) => {
            let is = MoveView { row: &Transfer { called: None, ..moved.row.clone() }, ..*moved }.pattern();
            if is == *called {
                return Ok(());
            }
            Err(format!("the move of `{}` is called {called}, but is {is}", source.name))
        }
        _ => Ok(()),
    }
}

/// Checks that a move that is carried out by a procedure closes sums along `axes` in its groups, and does nothing else.
fn reduction_fits(moved: &MoveView<'_>, by: &Procedure, arrays: [&Array; 2], axes: Vec<usize>) -> Result<(), String> {
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
