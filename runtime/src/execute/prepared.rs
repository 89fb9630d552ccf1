//! Programs with everything made that any number of runs use: groups, tiles, leaves, and the arrays in between.

use super::kernel::PreparedKernel;
use super::scalars::Scalars;
use crate::block::Block;
use crate::memory::Seen;
use crate::{DistArray, Element, Error, Redistribution, ReduceOp, Reduction, Result, RunError, Transport, World};
use polyshard_layout::{Name, Sharding};
use polyshard_program::{ArrayId, ArrayKind, Move, Program, Statement};
use smallvec::SmallVec;

/// A program that is ready to run on one rank of a world, any number of times; made by
/// [`Execute::prepare`](super::Execute::prepare).
///
/// It holds the groups of ranks that communicate, the tiles and staging of all statements, and the arrays that the program
/// makes on the way, so that runs make none of them.
///
/// ```
/// use polyshard_program::{DType, Program};
/// use polyshard_runtime::layout::{Mesh, Placement, Sharding};
/// use polyshard_runtime::{DistArray, Error, Execute, spmd};
/// let mesh = Mesh::new([("x", 2)]);
/// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
/// let program = Program::redistribution("A", [&by(0), &by(1)], DType::F32)?;
/// spmd(2, |world| -> Result<_, Error> {
///     let mut prepared = program.prepare(world)?;
///     for step in 0..3 {
///         let rows = DistArray::filled(world, program.sharding("A"), step as f32)?;
///         let columns = prepared.run(&[&rows])?;
///         assert_eq!(columns.block(), [step as f32; 12]);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Prepared<'a, T: Element> {
    program: &'a Program,
    world: &'a World,
    /// By statement.
    steps: Vec<PreparedStatement<'a, T>>,
    inputs: Vec<ArrayId>,
    outputs: Vec<ArrayId>,
    /// By array: what a run makes; nothing between runs.
    made: Vec<Option<DistArray<T>>>,
    /// By array: which slot a temporary has.
    slots: Vec<Option<usize>>,
    /// The memory of temporaries, where none is in it.
    memory: Vec<Option<Block<T>>>,
    transport: Transport,
}

/// A statement, prepared.
enum PreparedStatement<'a, T: Element> {
    Kernel(Box<PreparedKernel<'a, T>>),
    Move(Box<Redistribution>),
    /// A move by a reduction, on the elements where they are.
    Reduce(Box<Reduction<T>>, ReduceOp),
    Free,
}

/// The arrays that a statement may read.
struct Arrays<'r, T> {
    inputs: &'r [&'r DistArray<T>],
    /// What the inputs are, ascending.
    ids: &'r [ArrayId],
    /// By array; inputs are not here.
    made: &'r [Option<DistArray<T>>],
}

impl<'r, T: Element> Arrays<'r, T> {
    fn get(&self, id: ArrayId) -> &'r DistArray<T> {
        match self.ids.binary_search(&id) {
            Ok(position) => self.inputs[position],
            Err(_) => self.made[id.0].as_ref().expect("what is read was written; this is a bug of polyshard"),
        }
    }
}

impl<'a, T: Element> Prepared<'a, T> {
    pub(crate) fn new(program: &'a Program, world: &'a World) -> Result<Self> {
        world.check_mesh(program.mesh())?;
        super::check_type::<T>(program)?;
        let steps = program.body().iter().map(|statement| {
            Ok(match statement {
                Statement::Nest { nest, .. } => PreparedStatement::Kernel(Box::new(PreparedKernel::new(nest, world)?)),
                Statement::Move(moved) => moving(program, moved, world)?,
                Statement::Free(_) => PreparedStatement::Free,
            })
        });
        let steps = steps.collect::<Result<_>>()?;
        let slots = program.slots();
        let made = program.arrays().iter().map(|_| None).collect();
        let [inputs, outputs] = [ArrayKind::Input, ArrayKind::Output].map(|kind| program.of_kind(kind));
        let transport = world.transport();
        let mut prepared = Self { program, world, steps, inputs, outputs, made, slots, memory: Vec::new(), transport };
        prepared.make_memory()?;
        Ok(prepared)
    }

    /// Makes the memory of temporaries: shared with other ranks where they write into it.
    fn make_memory(&mut self) -> Result<()> {
        let count = self.slots.iter().flatten().max().map_or(0, |last| last + 1);
        self.memory = Vec::with_capacity(count);
        for slot in 0..count {
            let held = |id: &ArrayId| self.slots[id.0] == Some(slot);
            let arrays: Vec<_> = (0..self.slots.len()).map(ArrayId).filter(held).collect();
            let most = arrays.iter().map(|id| self.local_len(&self.program.array(*id).sharding)).max().unwrap_or(0);
            let moved = self.program.moves().any(|moved| moved.by.is_none() && arrays.contains(&moved.target));
            self.memory.push(Some(self.allocate(most, moved)?));
        }
        Ok(())
    }

    /// Memory for this many elements, where other ranks can write into it if it is to be shared.
    fn allocate(&self, elements: usize, shared: bool) -> Result<Block<T>> {
        let what = "an array between two statements of a program";
        match self.world.seen() {
            Seen::OnTheNode if shared && self.transport != Transport::Messages => Block::in_segment(elements, what),
            seen => Block::new(elements, what, seen),
        }
    }

    fn local_len(&self, sharding: &Sharding) -> usize {
        sharding.local_len(&sharding.mesh().coordinates(self.world.rank()))
    }

    /// Sets how kernels get their inputs from rank to rank, and moves the elements of arrays, which is [as for the
    /// world](World::transport) otherwise. All ranks must set the same.
    ///
    /// # Errors
    /// If there is too little memory of the kind that it takes, or another rank failed.
    pub fn with_transport(self, transport: Transport) -> Result<Self> {
        T::with_transport(self, transport)
    }

    pub(crate) fn transported(self, transport: Transport) -> Result<Self> {
        let steps = self.steps.into_iter().map(|step| match step {
            PreparedStatement::Move(moved) => PreparedStatement::Move(Box::new(moved.with_transport(transport))),
            PreparedStatement::Kernel(kernel) => PreparedStatement::Kernel(Box::new(kernel.with_transport(transport))),
            other => other,
        });
        let mut prepared = Self { steps: steps.collect(), transport, memory: Vec::new(), ..self };
        prepared.make_memory()?;
        Ok(prepared)
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &'a Program {
        self.program
    }

    /// Returns the bytes that this rank holds for runs besides inputs and outputs, of moves and of arrays in between.
    #[must_use]
    pub fn staging_bytes(&self) -> usize {
        let slots = self.memory.iter().flatten().map(|block| size_of_val(&block[..])).sum::<usize>();
        let moves = self.steps.iter().map(|step| match step {
            PreparedStatement::Move(moved) => moved.staging_bytes(size_of::<T>()),
            PreparedStatement::Reduce(reduction, _) => reduction.staging_bytes(),
            PreparedStatement::Kernel(_) | PreparedStatement::Free => 0,
        });
        slots + moves.sum::<usize>()
    }

    /// Returns an array for [`run_into`](Self::run_into) to write, with what its kernel starts from in it; in memory that ranks
    /// share, where that saves a copy, and then collective over the world.
    ///
    /// # Errors
    /// If there is too little memory of the kind that it takes, or another rank failed.
    ///
    /// # Panics
    /// If the program writes no array: a bug of polyshard.
    pub fn output(&mut self) -> Result<DistArray<T>> {
        T::output(self)
    }

    pub(crate) fn make_output(&mut self) -> Result<DistArray<T>> {
        let writes =
            |statement: &Statement| statement.writes().filter(|id| self.program.array(*id).kind == ArrayKind::Output);
        let last =
            self.program.body().iter().enumerate().rev().find_map(|(n, statement)| Some((n, writes(statement)?)));
        let (number, id) = last.expect("a program has an output; this is a bug of polyshard");
        let mut output = self.target(number, id)?;
        if matches!(self.steps[number], PreparedStatement::Move(_)) {
            output.block_mut().fill(T::ZERO);
        }
        Ok(output)
    }

    /// Runs the program and returns what it computes: its output, or the last one if it has several; collective over the
    /// world. The output starts from the identity of its kernel's operation: zeros for `=` and `+=`.
    ///
    /// # Errors
    /// [`RunError`] if the inputs are not as many or do not lie as the program wants them. If communication fails.
    pub fn run(&mut self, inputs: &[&DistArray<T>]) -> Result<DistArray<T>> {
        self.run_with(inputs, &[])
    }

    /// As [`run`](Self::run), with these values for scalars by name, the same on all ranks. Those that are not given are as
    /// the kernels captured them.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and [`RunError`] if no kernel has such a scalar, one is given twice, or one that
    /// divides integers is 0.
    ///
    /// # Panics
    /// If the program writes no array: a bug of polyshard.
    pub fn run_with(&mut self, inputs: &[&DistArray<T>], scalars: &[(&str, T)]) -> Result<DistArray<T>> {
        let mut outputs = T::run_program(self, inputs, None, scalars)?;
        Ok(outputs.pop().expect("a program has an output; this is a bug of polyshard").1)
    }

    /// As [`run`](Self::run), but returns all outputs, by name, in the order in which the program lists them.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_all(&mut self, inputs: &[&DistArray<T>]) -> Result<Vec<(Name, DistArray<T>)>> {
        T::run_program(self, inputs, None, &[])
    }

    /// As [`run`](Self::run), but goes on from what `output` holds; `=` overwrites the elements that the kernel writes, and
    /// no others, and a move overwrites all of them.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and [`RunError::Outputs`] if the program has several outputs.
    pub fn run_into(&mut self, inputs: &[&DistArray<T>], output: &mut DistArray<T>) -> Result<()> {
        self.run_into_with(inputs, output, &[])
    }

    /// As [`run_into`](Self::run_into), with these values for scalars, as [`run_with`](Self::run_with).
    ///
    /// # Errors
    /// As for [`run_into`](Self::run_into) and [`run_with`](Self::run_with).
    pub fn run_into_with(
        &mut self,
        inputs: &[&DistArray<T>],
        output: &mut DistArray<T>,
        scalars: &[(&str, T)],
    ) -> Result<()> {
        let [wanted] = self.outputs[..] else {
            return Err(RunError::Outputs { outputs: self.program.outputs().map(|array| array.name).collect() }.into());
        };
        let wanted = self.program.array(wanted);
        output.expect(wanted.name.as_str(), &wanted.sharding)?;
        T::run_program(self, inputs, Some(output), scalars).map(|_| ())
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

    /// Runs the statements. An output that is not given in `into` is made and returned.
    pub(crate) fn walk(
        &mut self,
        inputs: &[&DistArray<T>],
        into: Option<&mut DistArray<T>>,
        scalars: &[(&str, T)],
    ) -> Result<Vec<(Name, DistArray<T>)>> {
        let program = self.program;
        self.check_inputs(inputs)?;
        let scalars = Scalars::new(program, scalars)?;
        let ran = self.walk_statements(inputs, into, &scalars);
        // A run that failed leaves arrays between statements, whose memory the next run takes again.
        if ran.is_err() {
            for nth in 0..self.made.len() {
                if let Some(array) = self.made[nth].take() {
                    self.put_back(ArrayId(nth), array);
                }
            }
        }
        ran?;
        let made = &mut self.made;
        let outputs = self.outputs.iter().filter_map(|&id| Some((program.array(id).name, made[id.0].take()?)));
        Ok(outputs.collect())
    }

    /// Runs the statements, and leaves what they make and do not free.
    fn walk_statements(
        &mut self,
        inputs: &[&DistArray<T>],
        mut into: Option<&mut DistArray<T>>,
        scalars: &Scalars,
    ) -> Result<()> {
        let program = self.program;
        for (number, statement) in program.body().iter().enumerate() {
            if let Statement::Free(id) = statement {
                let freed = self.made[id.0].take().expect("what is freed was written; this is a bug of polyshard");
                self.put_back(*id, freed);
                continue;
            }
            let written = statement.writes().expect("a statement writes an array; this is a bug of polyshard");
            let given = if self.outputs.contains(&written) { into.take() } else { None };
            let mut made = match &given {
                Some(_) => None,
                None => Some(self.target(number, written)?),
            };
            let target = given.or(made.as_mut()).expect("what is not given is made; this is a bug of polyshard");
            let arrays = Arrays { inputs, ids: &self.inputs, made: &self.made };
            let ran = match (&mut self.steps[number], statement) {
                (PreparedStatement::Kernel(kernel), Statement::Nest { inputs, .. }) => {
                    let reads: SmallVec<[_; 4]> = inputs.iter().map(|&id| arrays.get(id)).collect();
                    kernel.run(&reads, target, scalars)
                }
                (PreparedStatement::Move(moved), Statement::Move(ids)) => {
                    moved.run_blocks(arrays.get(ids.source).block(), target)
                }
                (PreparedStatement::Reduce(reduction, op), Statement::Move(ids)) => {
                    let block = target.block_mut();
                    block.copy_from_slice(arrays.get(ids.source).block());
                    reduction.run(block, *op)
                }
                _ => unreachable!("a statement is prepared as what it is; this is a bug of polyshard"),
            };
            self.made[written.0] = made;
            ran?;
        }
        Ok(())
    }

    /// An array for a statement to write, with what its kernel starts from in it.
    fn target(&mut self, number: usize, id: ArrayId) -> Result<DistArray<T>> {
        let array = self.program.array(id);
        let identity = match &self.steps[number] {
            PreparedStatement::Kernel(kernel) => Some(kernel.identity()),
            PreparedStatement::Move(_) | PreparedStatement::Reduce(..) | PreparedStatement::Free => None,
        };
        if let Some(slot) = self.slots[id.0] {
            let memory = self.memory[slot].take().expect("two arrays in one slot; this is a bug of polyshard");
            let mut made = DistArray::in_block(self.world, &array.sharding, memory)?;
            if let Some(identity) = identity {
                made.block_mut().fill(identity);
            }
            return Ok(made);
        }
        let made = match (&self.steps[number], identity) {
            (PreparedStatement::Move(moved), _) => moved.allocate(self.world),
            (_, identity) => DistArray::filled(self.world, &array.sharding, identity.unwrap_or(T::ZERO)),
        };
        made.map_err(|error| of_array(array.name, &array.sharding, error))
    }

    fn put_back(&mut self, id: ArrayId, array: DistArray<T>) {
        if let Some(slot) = self.slots[id.0] {
            self.memory[slot] = Some(array.into_block());
        }
    }
}

/// A move, prepared; collective over the world.
fn moving<'a, T: Element>(program: &Program, moved: &Move, world: &World) -> Result<PreparedStatement<'a, T>> {
    let [source, target] = [moved.source, moved.target].map(|id| &program.array(id).sharding);
    let Some(by) = &moved.by else {
        return Ok(PreparedStatement::Move(Box::new(match &moved.kept {
            None => Redistribution::new(world, source, target)?,
            Some(kept) => Redistribution::of_part(world, source, kept, target)?,
        })));
    };
    Ok(PreparedStatement::Reduce(
        Box::new(Reduction::between(world, source, target, &by.procedure)?),
        super::reduce_op(by.op),
    ))
}

/// The array goes by its name in what is said of too little memory.
fn of_array(name: Name, sharding: &Sharding, error: Error) -> Error {
    match error {
        Error::Memory { bytes, why, .. } => {
            let what = format!("a rank's block of `{name}`, of shape {:?}", sharding.shape()).into();
            Error::Memory { what, bytes, why }
        }
        error => error,
    }
}
