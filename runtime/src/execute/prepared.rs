//! Programs with all resources that their runs reuse: groups, tiles, leaves, and intermediate arrays. Tests: `tests/it/properties.rs`.

mod run;

use super::arrays::{Arrays, of_array};
use super::kernel::PreparedKernel;
use super::scalars;
use super::step::Step;
use crate::engine::Engine;
use crate::instances::Instances;
use crate::leaf::op;
use crate::{DistArray, Element, Error, Redistribution, Result, Room, RunError, Transport, World};
use polyshard_layout::{Name, Sharding};
use polyshard_program::{
    Array, ArrayId, ArrayKind, KernelId, Program, RoomId, Rooms, Rounds, TileId, Transfer, TransferId,
};
use std::panic::Location;
use std::rc::Rc;

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
    steps: Rc<[Step<'a>]>,
    arrays: Arrays<T>,
    /// By kernel: the previous version of the array that it writes.
    versions: Vec<Option<ArrayId>>,
    /// By transfer between an array and a tile: the tile.
    tiles: Vec<TileId>,
    /// By array: its room, if it is a temporary or carried from round to round.
    room_of: Vec<Option<RoomId>>,
    /// The rooms.
    rooms: Vec<Room<T>>,
    /// By row of the rounds: their number in the last run.
    rounds: Vec<u64>,
    /// By row of the rounds: the scalar that could have ended them, after the last one.
    scalars: Vec<Option<f64>>,
    /// The number of leaves that runs have computed, and who is told.
    leaves: u64,
    tell: Option<Box<dyn Fn(u64) + 'a>>,
}

impl<'a, T: Element> Prepared<'a, T> {
    pub(crate) fn new(program: &'a Program, world: &'a World) -> Result<Self> {
        world.check_mesh(program.mesh())?;
        super::check_type::<T>(program)?;
        // They are large, and most programs have one.
        let count = program.body().kernels.len();
        let (mut kernels, mut tables) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for number in 0..count {
            let (kernel, table) = PreparedKernel::new(program.body(), KernelId(number), world)?;
            kernels.push(kernel);
            tables.push(table);
        }
        let mut engine = Engine::new(world, tables)?;
        let moves = program.moves().map(|moved| {
            let [source, target] = moved.shardings;
            let there = Redistribution::by(world, source, moved.row.kept.as_ref(), target, &moved.row.route)?;
            Ok(there.with_op(op(moved.op)))
        });
        engine.add_moves(moves.collect::<Result<Vec<_>>>()?);
        let body = program.body();
        let uses = |transfer: &Transfer| transfer.kernel().map_or(&[][..], |kernel| &body.kernels[kernel.0].uses);
        let tile = |(number, transfer)| uses(transfer).iter().position(|used| used.transfer == TransferId(number));
        let tiles = body.transfers.iter().enumerate().map(|of| TileId(tile(of).unwrap_or(0))).collect();
        let Rooms { of: room_of, most } = program.rooms();
        let mut prepared = Self {
            program,
            world,
            engine,
            kernels,
            steps: Step::of(body, &body.statements).into(),
            arrays: Arrays::new(program),
            versions: body.kernels.iter().map(|row| body.version_before(row)).collect(),
            tiles,
            room_of,
            rooms: Vec::with_capacity(most.len()),
            rounds: vec![0; body.rounds.len()],
            scalars: vec![None; body.rounds.len()],
            leaves: 0,
            tell: None,
        };
        prepared.make_rooms(&most)?;
        Ok(prepared)
    }

    /// Allocates the memory of temporaries and of carried arrays; each room holds at most `most` arrays at once.
    fn make_rooms(&mut self, most: &[usize]) -> Result<()> {
        for (room, &most) in most.iter().enumerate() {
            let held = self.program.arrays().iter().zip(&self.room_of).filter(|(_, of)| **of == Some(RoomId(room)));
            // The caller owns an output after each run.
            let outputs = held.clone().filter(|(array, _)| array.kind == ArrayKind::Output).count();
            let largest = held.map(|(array, _)| &array.sharding).max_by_key(|sharding| self.local_len(sharding));
            let mut made = Room::new(most);
            if let Some(sharding) = largest {
                made.reserve(self.world, most - outputs, sharding)?;
            }
            self.rooms.push(made);
        }
        Ok(())
    }

    fn local_len(&self, sharding: &Sharding) -> usize {
        sharding.local_len(&sharding.mesh().coordinates(self.world.rank()))
    }

    /// Sets how kernels transfer their inputs between ranks, and how arrays are moved; the default is [the world's
    /// transport](World::transport). All ranks must set the same.
    #[must_use = "a prepared program is a value: run it"]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.engine.set_transport(transport);
        self
    }

    /// Sets the values of scalars by name for all later runs, the same on all ranks. Other scalars have the values that the kernels
    /// captured; [`Execute::run_with`](super::Execute::run_with) explains the names of scalars in programs of several kernels.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let alpha = 2.0;
    /// let program = kernel! { fn scaled(X: [f64; 5]) -> Z: [f64; 5] { Z[i] = alpha * X[i] } }.lower()?;
    /// spmd(1, |world| {
    ///     let x = DistArray::filled(world, program.sharding("X"), 1.0)?;
    ///     let mut prepared = program.prepare(world)?;
    ///     for alpha in [2.0, 0.5] {
    ///         prepared.set_scalars(&[("alpha", alpha)])?;
    ///         assert_eq!(prepared.run(&[&x])?.block(), [alpha; 5]);
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`RunError`] if no kernel has such a scalar, one is given twice, or one that divides integers is 0; on threads and in [checked
    /// programs](crate::spmd_checked), if the ranks give different values. The values are then as before.
    #[track_caller]
    pub fn set_scalars(&mut self, scalars: &[(&str, T)]) -> Result<()> {
        let (program, at) = (self.program, Location::caller());
        T::set_scalars(self, scalars).map_err(|error| error.in_program(at, program))
    }

    pub(crate) fn scalars_set(&mut self, scalars: &[(&str, T)]) -> Result<()> {
        let kernels = scalars::kernels(self.program, scalars)?;
        scalars::agree(self.program, &kernels, self.world)?;
        self.kernels.iter_mut().zip(&kernels).try_for_each(|(own, kernel)| own.set_scalars(kernel.as_ref()))
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
        Self { tell: Some(Box::new(tell)), ..self }
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

    /// Returns the number of rounds of each repetition of the program in the last run, at its last execution, in the order of the
    /// program's [table](polyshard_program::Body::rounds).
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
        let steps = Rc::clone(&self.steps);
        let made = steps.iter().rev().find_map(|step| {
            let id = match step {
                Step::Kernels { together, .. } => {
                    together.iter().map(|kernel| body.kernels[kernel.0].writes()).rfind(is_output)
                }
                Step::Begin(moved, _) => Some(moved.target),
                Step::Rounds(id, _) => body.rounds[id.0].carried.iter().map(|carried| carried.value).rfind(is_output),
                Step::End(_) | Step::Free(_) => None,
            };
            Some((step, id.filter(is_output)?))
        });
        let (step, id) = made.expect("a program has an output; this is a bug in polyshard");
        let mut output = match step {
            Step::Kernels { together, .. } => {
                let kernel = together.iter().find(|kernel| body.kernels[kernel.0].writes() == id);
                let kernel = *kernel.expect("one writes it; this is a bug in polyshard");
                let made = self.target_of_kernel(kernel, id)?;
                if self.versions[kernel.0].is_none() {
                    return Ok(made);
                }
                made
            }
            Step::Begin(moved, _) => self.target_of_move(moved.number, id)?,
            _ => self.target(id, None)?,
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
    ///
    /// # Panics
    /// If the program writes no array: a bug in polyshard.
    #[track_caller]
    pub fn run(&mut self, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        let (program, at) = (self.program, Location::caller());
        let ran = self.only_output("run").and_then(|_| T::run_program(self, inputs, None, at));
        let mut outputs = ran.map_err(|error| error.in_program(at, program))?;
        Ok(outputs.pop().expect("a program has an output; this is a bug in polyshard").1)
    }

    /// As [`run`](Self::run), but returns all outputs, by name, in the order in which the program lists them.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    #[track_caller]
    pub fn run_all(&mut self, inputs: &[&DistArray<T>]) -> Result<Vec<(Name, DistArray<T>)>> {
        let (program, at) = (self.program, Location::caller());
        T::run_program(self, inputs, None, at).map_err(|error| error.in_program(at, program))
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
    /// others, and a move overwrites all of them. Rounds start anew, and so do kernels that [continue] other arrays; both overwrite all
    /// elements that have a value after them. Others keep what was there, or begin as the sums of their kernel do.
    ///
    /// [continue]: polyshard_program::LoweredKernel::continues
    ///
    /// # Errors
    /// As for [`run`](Self::run), and [`RunError::Outputs`] if the program has several outputs.
    #[track_caller]
    pub fn run_into(&mut self, inputs: &[&DistArray<T>], output: &mut DistArray<T>) -> Result<()> {
        let (program, at) = (self.program, Location::caller());
        let checked = self.check_output(output);
        checked
            .and_then(|()| T::run_program(self, inputs, Some(output), at))
            .map_or_else(|error| Err(error.in_program(at, program)), |_| Ok(()))
    }

    fn check_output(&self, output: &DistArray<T>) -> Result<()> {
        let wanted = self.program.array(self.only_output("run_into")?);
        output.expect(wanted.name.as_str(), &wanted.sharding)
    }

    /// The only output, for a call that expects exactly one.
    fn only_output(&self, call: &'static str) -> Result<ArrayId> {
        let outputs = || self.program.outputs().map(|array| array.name).collect();
        match self.arrays.outputs[..] {
            [only] => Ok(only),
            _ => Err(RunError::Outputs { call, outputs: outputs() }.into()),
        }
    }

    fn check_inputs(&self, inputs: &[&DistArray<T>]) -> Result<()> {
        let program = self.program;
        if inputs.len() != self.arrays.inputs.len() {
            let names = program.inputs().map(|array| array.name).collect();
            let kernel = super::only_kernel(program);
            return Err(RunError::Inputs { kernel, inputs: names, given: inputs.len() }.into());
        }
        inputs.iter().zip(&self.arrays.inputs).try_for_each(|(input, &wanted)| {
            let wanted = program.array(wanted);
            input.expect(wanted.name.as_str(), &wanted.sharding)
        })
    }

    /// An array for a kernel to write, with its initial values.
    fn target_of_kernel(&mut self, kernel: KernelId, id: ArrayId) -> Result<DistArray<T>> {
        if self.program.array(id).kind == ArrayKind::Panels {
            return self.engine.target_in_tile(kernel.0);
        }
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
        self.engine.made_target(number).map_err(|error| of_array(*name, sharding, error))
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
        if let Some(array) = self.arrays.made[id.0].take() {
            self.put_back(id, array);
        }
    }

    fn put_back(&mut self, id: ArrayId, array: DistArray<T>) {
        if let Some(room) = self.room_of[id.0] {
            self.rooms[room.0].give_back(array);
        }
    }
}
