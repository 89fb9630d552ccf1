//! Programs with all resources that their runs reuse: groups, tiles, leaves, and intermediate arrays. Tests: `tests/it/properties.rs`.

use super::arrays::{Arrays, of_array};
use super::kernel::{PreparedKernel, Walk};
use super::leaf::LeafPlan;
use super::leaves::Leaves;
use super::scalars::Scalars;
use crate::comm::Work;
use crate::engine::Engine;
use crate::instances::Instances;
use crate::operation::Operation;
use crate::room::as_float;
use crate::tile::When;
use crate::{DistArray, Element, Error, Redistribution, ReduceOp, Result, Room, RunError, Transport, World};
use polyshard_layout::{Name, Sharding};
use polyshard_program::{
    Array, ArrayId, ArrayKind, Body, KernelId, Program, RoomId, Rooms, Rounds, Span, Statement, TransferId,
};
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;

/// A program that is ready to run on one rank of a world, any number of times; made by
/// [`Execute::prepare`](super::Execute::prepare).
///
/// It holds the groups of ranks that communicate, the tiles and staging of all statements, and the intermediate arrays of the program, so
/// that runs make none of them.
///
/// ```
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 2)]);
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
/// let program = Program::redistribution("A", [&by(0), &by(1)], DType::F32)?;
/// spmd(2, |world| {
///     let mut prepared = program.prepare(world)?;
///     for step in 0..3 {
///         let rows = DistArray::filled(world, program.sharding("A"), step as f32)?;
///         let columns = prepared.run(&[&rows])?;
///         assert_eq!(columns.block(), [step as f32; 12]);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct Prepared<'a, T: Element> {
    program: &'a Program,
    world: &'a World,
    /// What the runs of all kernels need.
    engine: Engine<'a, T>,
    /// By kernel.
    kernels: Vec<PreparedKernel<'a, T>>,
    inputs: Vec<ArrayId>,
    outputs: Vec<ArrayId>,
    /// By array: the array that a run makes; `None` between runs.
    made: Vec<Option<DistArray<T>>>,
    /// By array: another array of which it is an alias, since no round has written it yet.
    names: Vec<Option<ArrayId>>,
    /// By kernel: the previous version of the array that it writes.
    versions: Vec<Option<ArrayId>>,
    /// By transfer: of a move, its number in the engine.
    moves: Vec<usize>,
    /// By the first kernel of a span: the kernels of that span, ascending.
    together: Vec<Arc<[KernelId]>>,
    /// By array: its room, if it is a temporary or carried from round to round.
    room_of: Vec<Option<RoomId>>,
    /// The rooms.
    rooms: Vec<Room<T>>,
    /// By row of the rounds: their number in the last run.
    rounds: Vec<u64>,
    /// By row of the rounds: the scalar that could have ended them, after the last one.
    scalars: Vec<Option<f64>>,
    /// The number of leaves that runs have computed, and the callback.
    leaves: Leaves<'a>,
}

impl<'a, T: Element> Prepared<'a, T> {
    pub(crate) fn new(program: &'a Program, world: &'a World) -> Result<Self> {
        world.check_mesh(program.mesh())?;
        super::check_type::<T>(program)?;
        let (mut kernels, mut tables) = (Vec::new(), Vec::new());
        for nest in program.nests() {
            let (kernel, table) = PreparedKernel::new(nest, world)?;
            kernels.push(kernel);
            tables.push(table);
        }
        let mut engine = Engine::new(world, tables)?;
        let moves = program.moves().map(|moved| {
            let [source, target] = moved.shardings;
            let there = Redistribution::by(world, source, moved.row.kept.as_ref(), target, &moved.row.route)?;
            Ok(there.with_op(ReduceOp::of(moved.op)))
        });
        engine.add_moves(moves.collect::<Result<Vec<_>>>()?);
        let made = program.arrays().iter().map(|_| None).collect();
        let names = vec![None; program.arrays().len()];
        let body = program.body();
        let versions = body.kernels.iter().map(|row| body.version_before(row)).collect();
        let (rounds, scalars) = (vec![0; body.rounds.len()], vec![None; body.rounds.len()]);
        let numbers = (0..body.transfers.len()).map(TransferId);
        let before = |id: TransferId| body.moves().take_while(|moved| moved.id < id).count();
        let (moves, mut together) = (numbers.map(before).collect(), vec![Arc::from([]); body.kernels.len()]);
        find_together(body, &body.statements, &mut together);
        let [inputs, outputs] = [ArrayKind::Input, ArrayKind::Output].map(|kind| program.of_kind(kind));
        let Rooms { of: room_of, most } = program.rooms();
        let (rooms, leaves) = (Vec::with_capacity(most.len()), Leaves::default());
        let mut prepared = Self {
            program,
            world,
            engine,
            kernels,
            inputs,
            outputs,
            made,
            names,
            versions,
            moves,
            together,
            room_of,
            rooms,
            rounds,
            scalars,
            leaves,
        };
        prepared.make_rooms(&most)?;
        Ok(prepared)
    }

    /// Allocates the memory of temporaries and of carried arrays; each room holds at most `most` arrays at once.
    fn make_rooms(&mut self, most: &[usize]) -> Result<()> {
        for (room, &most) in most.iter().enumerate() {
            let held = self.program.arrays().iter().zip(&self.room_of).filter(|(_, of)| **of == Some(RoomId(room)));
            let len = held.clone().map(|(array, _)| self.local_len(&array.sharding)).max().unwrap_or(0);
            // The caller owns an output after each run.
            let outputs = held.filter(|(array, _)| array.kind == ArrayKind::Output).count();
            let mut made = Room::new(most);
            made.reserve(self.world, most - outputs, len)?;
            self.rooms.push(made);
        }
        Ok(())
    }

    fn local_len(&self, sharding: &Sharding) -> usize {
        sharding.local_len(&sharding.mesh().coordinates(self.world.rank()))
    }

    /// Sets how kernels transfer their inputs between ranks, and how arrays are moved; the default is [the world's
    /// transport](World::transport). All ranks must set the same.
    ///
    /// # Errors
    /// If there is too little memory of the required kind, or another rank failed.
    pub fn with_transport(self, transport: Transport) -> Result<Self> {
        T::with_transport(self, transport)
    }

    pub(crate) fn transported(mut self, transport: Transport) -> Result<Self> {
        self.engine.set_transport(transport);
        Ok(self)
    }

    /// Calls `tell` after each leaf that this rank computes, with the number of leaves computed in all runs: for progress reports. The
    /// leaves of a run are the sum of [`NestView::work`](polyshard_program::NestView::work)'s `times`.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # let mesh = Mesh::new([("x", 2)]);
    /// # let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
    /// use std::cell::Cell;
    /// let program = Program::redistribution("A", [&by(0), &by(1)], DType::F32)?;
    /// spmd(2, |world| {
    ///     let (rows, computed) = (DistArray::filled(world, program.sharding("A"), 1.0f32)?, Cell::new(0));
    ///     program.prepare(world)?.told(|leaves| computed.set(leaves)).run(&[&rows])?;
    ///     assert_eq!(computed.get(), 0); // a redistribution computes nothing
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use = "a prepared program is a value: run it"]
    pub fn told(self, tell: impl Fn(u64) + 'a) -> Self {
        Self { leaves: self.leaves.told(Box::new(tell)), ..self }
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &'a Program {
        self.program
    }

    /// Returns the bytes that this rank holds for runs besides inputs and outputs, of moves and of intermediate arrays.
    #[must_use]
    pub fn staging_bytes(&self) -> usize {
        let rooms = self.rooms.iter().map(Room::bytes).sum::<usize>();
        rooms + self.engine.moves().map(|there| there.staging_bytes(size_of::<T>())).sum::<usize>()
    }

    /// Returns the number of rounds of each repetition of the program in the last run, at its last execution.
    #[must_use]
    pub fn rounds(&self) -> &[u64] {
        &self.rounds
    }

    /// Returns each repetition of the last run that took all its rounds although a scalar could have ended it, with that scalar's last
    /// value: not below its bound, or not a number.
    #[must_use]
    pub fn unended(&self) -> Vec<(&'a Rounds, f64)> {
        let repeats = self.program.body().rounds.iter().zip(&self.scalars);
        let last = repeats.filter_map(|(repeat, &scalar)| Some((repeat, repeat.until?, scalar?)));
        let is_open = |below: f64, scalar: f64| scalar.is_nan() || scalar >= below;
        last.filter(|(_, until, scalar)| is_open(until.below, *scalar))
            .map(|(repeat, _, scalar)| (repeat, scalar))
            .collect()
    }

    /// Returns an array for [`run_into`](Self::run_into) to write, with its kernel's initial values; in shared memory if that saves a copy,
    /// and then collective over the world.
    ///
    /// # Errors
    /// If there is too little memory of the required kind, or another rank failed.
    ///
    /// # Panics
    /// If the program writes no array: a bug in polyshard.
    #[track_caller]
    pub fn output(&mut self) -> Result<DistArray<T>> {
        let (program, at) = (self.program, Location::caller());
        T::output(self).map_err(|error| error.in_program(at, program))
    }

    pub(crate) fn make_output(&mut self) -> Result<DistArray<T>> {
        let body = self.program.body();
        let is_output = |id: &ArrayId| self.program.array(*id).kind == ArrayKind::Output;
        let spans = body.spans(&body.statements);
        let written = spans.filter_map(|span| Some((span, body.writes(span).into_iter().rfind(is_output)?)));
        let (span, id) = written.last().expect("a program has an output; this is a bug in polyshard");
        if let Some(kernel) = body.kernels_of(span).into_iter().find(|kernel| body.kernels[kernel.0].writes() == id) {
            return self.target_of_kernel(kernel, id);
        }
        let mut output = match span.moved() {
            Some(moved) => self.target_of_move(self.moves[moved.0], id)?,
            None => self.target(id, None)?,
        };
        let writers = self.program.writers(id).unwrap_or_default();
        let identity = writers.first().and_then(|kernel| self.engine.identity(kernel.0));
        output.block_mut().fill(identity.unwrap_or(T::ZERO));
        Ok(output)
    }

    /// Runs the program and returns its output; collective over the world. The output starts from the identity of its kernel's
    /// operation: zeros for `=` and `+=`.
    ///
    /// # Errors
    /// [`RunError`] if the number or the shardings of the inputs are not those that the program expects; [`RunError::Outputs`] if the
    /// program has several outputs: use [`run_all`](Self::run_all) or [`run_named`](Self::run_named). If communication fails.
    #[track_caller]
    pub fn run(&mut self, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        self.run_with(inputs, &[])
    }

    /// As [`run`](Self::run), with these values for scalars by name, the same on all ranks. Other scalars keep the values that the kernels
    /// captured; [`Execute::run_with`](super::Execute::run_with) explains the names of scalars in programs of several kernels.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and [`RunError`] if no kernel has such a scalar, one is given twice, or one that
    /// divides integers is 0; on threads and in [checked programs](crate::spmd_checked), if the ranks give different values.
    ///
    /// # Panics
    /// If the program writes no array: a bug in polyshard.
    #[track_caller]
    pub fn run_with(&mut self, inputs: &[&DistArray<T>], scalars: &[(&str, T)]) -> Result<DistArray<T>> {
        let (program, at) = (self.program, Location::caller());
        let ran = self.only_output("run").and_then(|_| T::run_program(self, inputs, None, scalars, at));
        let mut outputs = ran.map_err(|error| error.in_program(at, program))?;
        Ok(outputs.pop().expect("a program has an output; this is a bug in polyshard").1)
    }

    /// As [`run`](Self::run), but returns all outputs, by name, in the order in which the program lists them.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    #[track_caller]
    pub fn run_all(&mut self, inputs: &[&DistArray<T>]) -> Result<Vec<(Name, DistArray<T>)>> {
        self.run_all_with(inputs, &[])
    }

    /// As [`run_all`](Self::run_all), with these values for scalars, as [`run_with`](Self::run_with).
    ///
    /// # Errors
    /// As for [`run_with`](Self::run_with).
    #[track_caller]
    pub fn run_all_with(
        &mut self,
        inputs: &[&DistArray<T>],
        scalars: &[(&str, T)],
    ) -> Result<Vec<(Name, DistArray<T>)>> {
        let (program, at) = (self.program, Location::caller());
        T::run_program(self, inputs, None, scalars, at).map_err(|error| error.in_program(at, program))
    }

    /// As [`run`](Self::run), but returns the outputs of these names, in this order.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and [`RunError::NoOutput`] if a name is not an output's, or is given twice.
    ///
    /// # Panics
    /// If a run does not return an output of the program: a bug in polyshard.
    #[track_caller]
    pub fn run_named<const N: usize>(
        &mut self,
        inputs: &[&DistArray<T>],
        names: [&str; N],
    ) -> Result<[DistArray<T>; N]> {
        let (program, at) = (self.program, Location::caller());
        let wrong = |(nth, name): &(usize, &&str)| {
            names[..*nth].contains(name) || program.outputs().all(|output| output.name.as_str() != **name)
        };
        if let Some((_, name)) = names.iter().enumerate().find(wrong) {
            let outputs = program.outputs().map(|output| output.name).collect();
            return Err(Error::from(RunError::NoOutput { name: Name::new(name), outputs }).in_program(at, program));
        }
        let mut outputs = self.run_all(inputs)?;
        Ok(names.map(|name| {
            let found = outputs.iter().position(|(other, _)| other.as_str() == name);
            outputs.swap_remove(found.expect("a run returns all outputs; this is a bug in polyshard")).1
        }))
    }

    /// As [`run`](Self::run), but continues from the contents of `output`; `=` overwrites the elements that the kernel writes, and no
    /// others, and a move overwrites all of them. Rounds start anew, and overwrite all elements that have a value after them.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and [`RunError::Outputs`] if the program has several outputs.
    #[track_caller]
    pub fn run_into(&mut self, inputs: &[&DistArray<T>], output: &mut DistArray<T>) -> Result<()> {
        self.run_into_with(inputs, output, &[])
    }

    /// As [`run_into`](Self::run_into), with these values for scalars, as [`run_with`](Self::run_with).
    ///
    /// # Errors
    /// As for [`run_into`](Self::run_into) and [`run_with`](Self::run_with).
    #[track_caller]
    pub fn run_into_with(
        &mut self,
        inputs: &[&DistArray<T>],
        output: &mut DistArray<T>,
        scalars: &[(&str, T)],
    ) -> Result<()> {
        let (program, at) = (self.program, Location::caller());
        let checked = self.check_output(output);
        checked
            .and_then(|()| T::run_program(self, inputs, Some(output), scalars, at))
            .map_or_else(|error| Err(error.in_program(at, program)), |_| Ok(()))
    }

    fn check_output(&self, output: &DistArray<T>) -> Result<()> {
        let wanted = self.program.array(self.only_output("run_into")?);
        output.expect(wanted.name.as_str(), &wanted.sharding)
    }

    /// The only output, for a call that expects exactly one.
    fn only_output(&self, call: &'static str) -> Result<ArrayId> {
        let outputs = || self.program.outputs().map(|array| array.name).collect();
        match self.outputs[..] {
            [only] => Ok(only),
            _ => Err(RunError::Outputs { call, outputs: outputs() }.into()),
        }
    }

    fn check_inputs(&self, inputs: &[&DistArray<T>]) -> Result<()> {
        let program = self.program;
        if inputs.len() != self.inputs.len() {
            let names = program.inputs().map(|array| array.name).collect();
            let kernel = super::only_kernel(program);
            return Err(RunError::Inputs { kernel, inputs: names, given: inputs.len() }.into());
        }
        inputs.iter().zip(&self.inputs).try_for_each(|(input, &wanted)| {
            let wanted = program.array(wanted);
            input.expect(wanted.name.as_str(), &wanted.sharding)
        })
    }

    /// Runs the program for the call at a line. An output that is not given in `into` is made and returned.
    pub(crate) fn walk(
        &mut self,
        inputs: &[&DistArray<T>],
        into: Option<&mut DistArray<T>>,
        scalars: &[(&str, T)],
        at: &'static Location<'static>,
    ) -> Result<Vec<(Name, DistArray<T>)>> {
        let program = self.program;
        self.check_inputs(inputs)?;
        let scalars = Scalars::new(program, scalars)?;
        scalars.agree(program, self.world)?;
        let run = Run { inputs, scalars: &scalars, at };
        self.engine.restart_moves();
        let renamed = self.outputs.first().is_some_and(|id| program.is_carried(*id));
        let ran = match into {
            // Arrays that are carried from round to round change their memory.
            Some(output) if renamed => self.walk_statements(&program.body().statements, &run, None, true).map(|()| {
                let made = self.made[self.outputs[0].0].take();
                let made = made.expect("rounds leave the output; this is a bug in polyshard");
                match program.writers(self.outputs[0]) {
                    None => output.block_mut().copy_from_slice(made.block()),
                    // Elements that nothing writes stay unchanged.
                    Some(writers) => {
                        writers.into_iter().for_each(|kernel| self.engine.copy_written(kernel.0, output, &made));
                    }
                }
                self.put_back(self.outputs[0], made);
            }),
            into => self.walk_statements(&program.body().statements, &run, into, true),
        };
        self.world.comm().note(None);
        // A failed run leaves arrays between statements, whose memory the next run reuses.
        if ran.is_err() {
            (0..self.made.len()).for_each(|nth| self.free(ArrayId(nth)));
        }
        ran?;
        let made = &mut self.made;
        let outputs = self.outputs.iter().filter_map(|&id| Some((program.array(id).name, made[id.0].take()?)));
        Ok(outputs.collect())
    }

    /// Runs statements, in the first round or in a later one, and leaves the arrays that they make and do not free.
    fn walk_statements(
        &mut self,
        statements: &'a [Statement],
        run: &Run<'_, T>,
        mut into: Option<&mut DistArray<T>>,
        is_first: bool,
    ) -> Result<()> {
        let &Run { inputs, at, .. } = run;
        let program = self.program;
        let body = program.body();
        let mut before: Option<Span<'_>> = None;
        let mut spans = body.spans(statements).peekable();
        while let Some(span) = spans.next() {
            let (is_whole, is_over) =
                (span.is_ended_by(spans.peek()), before.is_some_and(|before| before.is_ended_by(Some(&span))));
            before = Some(span);
            let (number, is_begin) = match span.statements {
                _ if span.kernel.is_some() => {
                    self.run_kernels(span, run, into.as_deref_mut(), is_first)?;
                    continue;
                }
                [Statement::Free(id)] => {
                    self.free(*id);
                    continue;
                }
                [Statement::Rounds(id, round)] => {
                    (self.rounds[id.0], self.scalars[id.0]) =
                        self.repeat(&body.rounds[id.0], round, run, into.as_deref_mut())?;
                    continue;
                }
                [Statement::Begin(id, _)] => (*id, true),
                // A move that ends where it begins is complete when its begin returns.
                [Statement::End(id, _)] if !is_over => (*id, false),
                _ => continue,
            };
            let Some([source, written]) = body.transfers[number.0].arrays() else { continue };
            let number = self.moves[number.0];
            let is_given = into.is_some() && self.outputs.contains(&written);
            let mut made = match is_given {
                true => None,
                false if !is_begin => self.made[written.0].take(),
                false => Some(self.target_of_move(number, written)?),
            };
            let (target, given) = match &mut made {
                Some(made) => (made, into.as_deref().map(|given| (self.outputs[0], given))),
                None => (into.as_deref_mut().expect("it is given; this is a bug in polyshard"), None),
            };
            let arrays = Arrays { inputs, ids: &self.inputs, made: &self.made, names: &self.names, given };
            self.world.comm().note(Some(Work { kernel: None, tensor: Some(program.array(written).name), at }));
            let ran = match is_begin {
                true => {
                    let when = if is_whole { When::Now } else { When::Later };
                    self.engine.begin_move(number, arrays.get(source), target, when)
                }
                false => self.engine.end_move(number, arrays.get(source), target),
            };
            self.made[written.0] = made;
            ran?;
        }
        Ok(())
    }

    /// Runs the kernels of a span.
    fn run_kernels(
        &mut self,
        span: Span<'a>,
        run: &Run<'_, T>,
        into: Option<&mut DistArray<T>>,
        is_first: bool,
    ) -> Result<()> {
        let &Run { inputs, scalars, at } = run;
        let body = self.program.body();
        let first = span.kernel.expect("it is of kernels; this is a bug in polyshard");
        let together = Arc::clone(&self.together[first.0]);
        let mut made: SmallVec<[Option<DistArray<T>>; 1]> = SmallVec::new();
        for &kernel in &*together {
            let written = body.kernels[kernel.0].writes();
            let is_given = into.is_some() && self.outputs.contains(&written);
            let target = if is_given { None } else { Some(self.target_of_kernel(kernel, written)?) };
            made.push(target);
        }
        let is_given = made.iter().any(Option::is_none);
        let (mut into, given) = match into {
            Some(array) if is_given => (Some(array), None),
            Some(array) => (None, Some((self.outputs[0], &*array))),
            None => (None, None),
        };
        let names = together.iter().map(|kernel| self.program.array(body.kernels[kernel.0].writes()).name);
        let arrays = Arrays { inputs, ids: &self.inputs, made: &self.made, names: &self.names, given };
        names.for_each(|name| self.world.comm().note(Some(Work { kernel: None, tensor: Some(name), at })));
        let reads: SmallVec<[SmallVec<[_; 4]>; 1]> = together
            .iter()
            .map(|kernel| body.kernels[kernel.0].reads().iter().map(|&id| arrays.get(id)).collect())
            .collect();
        let targets: SmallVec<[&mut DistArray<T>; 1]> = made
            .iter_mut()
            .map(|made| match made {
                Some(made) => made,
                None => into.take().expect("it is given; this is a bug in polyshard"),
            })
            .collect();
        let mut open: SmallVec<[_; 1]> = SmallVec::new();
        for ((&kernel, reads), target) in together.iter().zip(&reads).zip(targets) {
            if let Some(before) = self.versions[kernel.0] {
                self.engine.begin_version(kernel.0, target, arrays.get(before));
            }
            open.push((kernel.0, &reads[..], target));
        }
        let with_scalars = |kernel: &KernelId| {
            let given = scalars.kernel(*kernel);
            given.map(|given| LeafPlan::new(&body.nest(*kernel), given)).transpose()
        };
        let ran = together.iter().map(with_scalars).collect::<Result<_>>().and_then(|given| {
            let run = self.engine.run_together(open, at)?;
            let (kernels, leaves) = (&mut self.kernels[..], &mut self.leaves);
            let walk = Walk { body, kernels, together: &together, given, run, leaves, is_first };
            walk.finish(span.statements)
        });
        drop(reads);
        for (kernel, made) in together.iter().zip(made) {
            self.made[body.kernels[kernel.0].writes().0] = made;
        }
        ran
    }

    /// Runs rounds, and returns their number, and the scalar that could have ended them.
    fn repeat(
        &mut self,
        repeat: &'a Rounds,
        round: &'a [Statement],
        run: &Run<'_, T>,
        mut into: Option<&mut DistArray<T>>,
    ) -> Result<(u64, Option<f64>)> {
        for carried in &repeat.carried {
            self.names[carried.value.0] = Some(carried.first);
        }
        let (mut rounds, mut scalar) = (0, None);
        while rounds < repeat.times {
            self.walk_statements(round, run, into.as_deref_mut(), rounds == 0)?;
            rounds += 1;
            // It has the same bits on all ranks, so all stop here.
            scalar = repeat.until.map(|until| as_float(self.array(until.scalar, run, into.as_deref()).block()[0]));
            self.rename(repeat);
            if repeat.until.zip(scalar).is_some_and(|(until, scalar)| scalar < until.below) {
                break;
            }
        }
        // A value that is still an alias gets an array of its own afterwards.
        for carried in &repeat.carried {
            let value = carried.value;
            if self.made[value.0].is_none() {
                let mut copy = self.array_in_room(value, None)?;
                copy.block_mut().copy_from_slice(self.array(value, run, into.as_deref()).block());
                self.made[value.0] = Some(copy);
            }
            self.names[value.0] = None;
        }
        Ok((rounds, scalar))
    }

    /// Replaces each value by its next one, without a copy, and frees everything else that the round left.
    fn rename(&mut self, repeat: &Rounds) {
        let next = repeat.carried.iter().map(|carried| (self.made[carried.next.0].take(), self.names[carried.next.0]));
        let next: Vec<_> = next.collect();
        repeat.carried.iter().for_each(|carried| self.free(carried.value));
        for (carried, (made, name)) in repeat.carried.iter().zip(next) {
            (self.made[carried.value.0], self.names[carried.value.0]) = (made, name);
        }
        let is_value = |id: ArrayId| repeat.carried.iter().any(|carried| carried.value == id);
        if let Some(scalar) = repeat.until.map(|until| until.scalar).filter(|scalar| !is_value(*scalar)) {
            self.free(scalar);
        }
    }

    /// An existing array, possibly the output that was given.
    fn array<'r>(&'r self, id: ArrayId, run: &Run<'r, T>, into: Option<&'r DistArray<T>>) -> &'r DistArray<T> {
        let Self { inputs: ids, outputs, made, names, .. } = self;
        Arrays { inputs: run.inputs, ids, made, names, given: into.map(|given| (outputs[0], given)) }.get(id)
    }

    /// An array for a kernel to write, with its initial values.
    fn target_of_kernel(&mut self, kernel: KernelId, id: ArrayId) -> Result<DistArray<T>> {
        // A next version begins as the previous one.
        let identity = if self.versions[kernel.0].is_some() { None } else { self.engine.identity(kernel.0) };
        self.target(id, identity)
    }

    /// An array for a move to write.
    fn target_of_move(&mut self, number: usize, id: ArrayId) -> Result<DistArray<T>> {
        if self.room_of[id.0].is_some() {
            return self.array_in_room(id, None);
        }
        let Array { name, sharding, .. } = self.program.array(id);
        let there = self.engine.moves().nth(number).expect("it is a move; this is a bug in polyshard");
        let made = DistArray::with_any_elements(self.world, there.target());
        made.map_err(|error| of_array(*name, sharding, error))
    }

    /// An array for statements to write, with these initial values.
    fn target(&mut self, id: ArrayId, identity: Option<T>) -> Result<DistArray<T>> {
        if self.room_of[id.0].is_some() {
            return self.array_in_room(id, identity);
        }
        let Array { name, sharding, .. } = self.program.array(id);
        let made = DistArray::filled_with(self.world, sharding, identity.unwrap_or(T::ZERO));
        made.map_err(|error| of_array(*name, sharding, error))
    }

    /// An array in its room, filled with an element or with arbitrary contents.
    fn array_in_room(&mut self, id: ArrayId, filled: Option<T>) -> Result<DistArray<T>> {
        let Array { name, sharding, .. } = self.program.array(id);
        let room = self.room_of[id.0].expect("it has room; this is a bug in polyshard");
        self.rooms[room.0].array(self.world, sharding, filled).map_err(|error| of_array(*name, sharding, error))
    }

    /// Frees the memory of an array, if it has been made.
    fn free(&mut self, id: ArrayId) {
        if let Some(array) = self.made[id.0].take() {
            self.put_back(id, array);
        }
    }

    fn put_back(&mut self, id: ArrayId, array: DistArray<T>) {
        if let Some(room) = self.room_of[id.0] {
            self.rooms[room.0].give_back(array);
        }
    }
}

/// The arguments of a run.
struct Run<'r, T> {
    inputs: &'r [&'r DistArray<T>],
    scalars: &'r Scalars,
    /// The line of the call.
    at: &'static Location<'static>,
}

/// Notes the kernels of each span by the first of them.
fn find_together(body: &Body, statements: &[Statement], together: &mut [Arc<[KernelId]>]) {
    for span in body.spans(statements) {
        if let Some(first) = span.kernel {
            let mut kernels = body.kernels_of(span);
            kernels.sort_unstable();
            together[first.0] = kernels.into();
        }
        if let [Statement::Rounds(_, round)] = span.statements {
            find_together(body, round, together);
        }
    }
}
