//! Programs of several statements: the fields that are made once, the actions of a run in their order, and their names.
//!
//! This does not depend on a language: [`spelling`] writes each step and each action as Rust.
//!
//! Without rounds, each statement makes the array that it writes, which is dropped after its last use. In rounds this
//! would allocate repeatedly, so arrays are taken from a room (a memory pool) and are returned to it.

mod spelling;

pub(super) use spelling::module;

use super::items::writes_all;
use super::names::Wanted;
use polyshard_program::{
    ArrayId, ArrayKind, Assign, Carried, KernelId, MoveView, Program, Rooms, Rounds, RoundsId, Statement, TransferId,
};
use proc_macro2::Ident;

/// The plan of a move from one sharding to another, which is made once.
struct Step<'a> {
    name: &'a Ident,
    moved: MoveView<'a>,
    from: &'a Ident,
    to: &'a Ident,
}

/// An array as an argument.
#[derive(Clone, Copy)]
struct Argument<'a> {
    array: &'a Ident,
    /// Whether it is a parameter of the run itself.
    is_input: bool,
}

/// The next operation of a run, with the names of its operands.
enum Action<'a> {
    /// Makes an array, filled with the identity of an operation or with zeros.
    Make { array: &'a Ident, sharding: &'a Ident, identity: Option<Assign> },
    /// Makes an array in memory that rounds reuse: filled with the identity of an operation, or uninitialised.
    MakeIn { room: &'a Ident, array: &'a Ident, sharding: &'a Ident, identity: Option<Assign> },
    /// Begins the next version of an array: clears the elements that its kernel writes, unless the kernel does so
    /// itself with `=`, and copies the others from the previous version.
    Begin { kernel: KernelId, array: &'a Ident, before: Argument<'a> },
    /// Runs a kernel, which writes an existing array.
    Run {
        kernel: &'a Ident,
        inputs: Vec<Argument<'a>>,
        output: &'a Ident,
        scalars: &'a [Ident],
        /// The counter of the rounds around it, of which the first one fetches data that no round writes.
        round: Option<&'a Ident>,
    },
    /// Moves elements to a new array, or `into` an existing one.
    Redistribute { step: &'a Ident, source: Argument<'a>, target: &'a Ident, into: bool },
    /// Frees an array, and returns its memory to its room if it has one.
    Free { array: &'a Ident, room: Option<&'a Ident> },
    /// Borrows the array of the first round as the carried value, without a copy.
    Borrow { value: &'a Ident, first: Argument<'a> },
    /// Runs these actions in each round.
    Repeat { round: &'a Ident, times: u64, body: Vec<Action<'a>> },
    /// Checks whether this is the last round, before the scalar that decides is freed.
    Ask { scalar: &'a Ident, below: f64 },
    /// Takes the next round's array of a carried value: an array that this round made, or another carried value, which
    /// is its `first` array until it is renamed itself. The taken array is numbered.
    Take { nth: usize, array: &'a Ident, first: Option<Argument<'a>> },
    /// Replaces a value by the array taken for it, and returns the old array to its room unless it was borrowed.
    Rename { nth: usize, value: &'a Ident, room: &'a Ident },
    /// Leaves the loop of rounds if this was the last one.
    Leave,
    /// Turns a carried value into an owned array after the rounds.
    Own(&'a Ident),
}

/// Walks over a program, and collects its kernels and the plans of its moves.
struct Walk<'a> {
    program: &'a Program,
    names: &'a Names,
    rooms: Rooms,
    /// The steps so far, each of which has taken its name from [`Names::steps`].
    steps: Vec<Step<'a>>,
    /// The kernels so far, with their statements.
    kernels: Vec<(KernelId, &'a [Statement])>,
}

impl<'a> Walk<'a> {
    /// The actions of statements, which are those of a round if there are rounds around them.
    fn statements(&mut self, statements: &'a [Statement], around: Option<RoundsId>) -> Vec<Action<'a>> {
        // Arrays that rounds pass to the next round have no name after the rounds.
        let mut gone = Vec::new();
        let body = self.program.body();
        let actions = body.spans(statements).flat_map(|span| match (&body.kernels_of(span)[..], span.statements) {
            ([kernel], statements) => self.kernel(*kernel, statements, around),
            ([], [Statement::Begin(id, _)]) => self.moved(*id, around.is_some()),
            ([], [Statement::Free(id)]) if gone.contains(id) => Vec::new(),
            ([], [Statement::Free(id)]) => {
                let room = around.and_then(|_| self.rooms.of[id.0]);
                vec![Action::Free { array: self.array(*id), room: room.map(|room| &self.names.rooms[room.0]) }]
            }
            ([], [Statement::Rounds(id, round)]) => {
                gone.extend(self.leaves(*id));
                self.rounds(*id, round)
            }
            // The calls that begin a move return when it is done.
            ([], _) => Vec::new(),
            (several, _) => {
                let names = several.iter().map(|kernel| body.kernels[kernel.0].kernel.name().to_string());
                let names = names.collect::<Vec<_>>().join("`, `");
                panic!(
                    "statements of `{names}` stand in one loop, which only the executor runs; run the program itself"
                )
            }
        });
        actions.collect()
    }

    /// The arrays that a round writes and that are alive when it ends, but have no name after it.
    fn leaves(&self, id: RoundsId) -> Vec<ArrayId> {
        let rounds = &self.program.body().rounds[id.0];
        let is_value = |id: &ArrayId| rounds.carried.iter().any(|carried| carried.value == *id);
        rounds.leaves().into_iter().filter(|id| !is_value(id)).collect()
    }

    fn array(&self, id: ArrayId) -> &'a Ident {
        &self.names.arrays[id.0]
    }

    fn argument(&self, id: ArrayId) -> Argument<'a> {
        Argument { array: self.array(id), is_input: self.program.array(id).kind == ArrayKind::Input }
    }

    fn room(&self, id: ArrayId) -> &'a Ident {
        &self.names.rooms[self.rooms.of[id.0].expect("what a round writes has a room; this is a bug in polyshard").0]
    }

    /// Makes the array that a statement of a round writes, in memory that earlier rounds may have used.
    fn made(&self, id: ArrayId, identity: Option<Assign>) -> Action<'a> {
        Action::MakeIn { room: self.room(id), array: self.array(id), sharding: &self.names.shardings[id.0], identity }
    }

    /// A kernel's run, which writes an array that is filled with the identity first, unless the kernel overwrites all of it. Inside
    /// rounds, that is reused memory.
    fn kernel(&mut self, id: KernelId, statements: &'a [Statement], around: Option<RoundsId>) -> Vec<Action<'a>> {
        let (names, nest) = (self.names, self.program.body().nest(id));
        self.kernels.push((id, statements));
        let inputs = nest.reads().iter().map(|&id| self.argument(id)).collect();
        let (output, scalars) = (self.array(nest.writes()), &names.scalars[id.0][..]);
        let round = around.filter(|_| fetches_once(statements)).map(|around| &names.rounds[around.0]);
        let run = Action::Run { kernel: &names.kernels[id.0], inputs, output, scalars, round };
        if around.is_none() {
            let sharding = &names.shardings[nest.writes().0];
            return vec![Action::Make { array: output, sharding, identity: Some(nest.kernel.assign()) }, run];
        }
        let identity = (!writes_all(&nest)).then(|| nest.kernel.assign());
        let before = self.program.body().version_before(nest.row).filter(|_| nest.kernel.written().is_some());
        let begin = before.map(|before| Action::Begin { kernel: id, array: output, before: self.argument(before) });
        let made = self.made(nest.writes(), identity.filter(|_| begin.is_none()));
        [made].into_iter().chain(begin).chain([run]).collect()
    }

    /// A move.
    fn moved(&mut self, id: TransferId, is_of_round: bool) -> Vec<Action<'a>> {
        let moved = self.program.body().moved(id).expect("it is of no kernel; this is a bug in polyshard");
        let [from, to] = [moved.source, moved.target].map(|id| &self.names.shardings[id.0]);
        let (step, target) = (&self.names.steps[self.steps.len()], self.array(moved.target));
        self.steps.push(Step { name: step, moved, from, to });
        let made = is_of_round.then(|| self.made(moved.target, None));
        let source = self.argument(moved.source);
        made.into_iter().chain([Action::Redistribute { step, source, target, into: is_of_round }]).collect()
    }

    /// Rounds: carried values are borrowed for the first round, and then taken from the previous one.
    fn rounds(&mut self, id: RoundsId, round: &'a [Statement]) -> Vec<Action<'a>> {
        let Rounds { times, until, carried } = &self.program.body().rounds[id.0];
        let mut body = self.statements(round, Some(id));
        body.extend(until.map(|until| Action::Ask { scalar: self.array(until.scalar), below: until.below }));
        // Take all values before renaming any, since names may be swapped.
        body.extend(carried.iter().enumerate().map(|(nth, &Carried { next, .. })| {
            let other = carried.iter().find(|other| other.value == next);
            Action::Take { nth, array: self.array(next), first: other.map(|other| self.argument(other.first)) }
        }));
        body.extend(carried.iter().enumerate().map(|(nth, &Carried { value, .. })| {
            let room = self.room(value);
            Action::Rename { nth, value: self.array(value), room }
        }));
        // Free the arrays that are left by a round and not carried.
        let left = self.leaves(id).into_iter().filter(|id| !carried.iter().any(|carried| carried.next == *id));
        body.extend(left.map(|id| Action::Free { array: self.array(id), room: Some(self.room(id)) }));
        body.extend(until.map(|_| Action::Leave));
        let mut actions: Vec<_> = carried
            .iter()
            .map(|&Carried { value, first, .. }| Action::Borrow {
                value: self.array(value),
                first: self.argument(first),
            })
            .collect();
        actions.push(Action::Repeat { round: &self.names.rounds[id.0], times: *times, body });
        actions.extend(carried.iter().map(|carried| Action::Own(self.array(carried.value))));
        actions
    }
}

/// Whether some of these statements are in the first round only.
fn fetches_once(statements: &[Statement]) -> bool {
    let mut found = false;
    let mut note = |statement: &Statement| {
        found |= matches!(statement, Statement::Begin(_, at) if at.first_round);
    };
    statements.iter().for_each(|statement| statement.visit(&mut note));
    found
}

/// The placeholders of the outer module. Arrays are numbered as in the program's table, kernels and steps by their
/// position in the program, so that two arrays with the same name differ.
struct Names {
    /// By array: `sharding_a_0`.
    shardings: Vec<Ident>,
    /// By array: `a_0`, `y_3`.
    arrays: Vec<Ident>,
    /// By kernel, the method that runs it: `first_1`.
    kernels: Vec<Ident>,
    /// By kernel, the function that returns its table: `first_1_table`.
    tables: Vec<Ident>,
    /// By kernel: `scale_of_2`.
    scalars: Vec<Vec<Ident>>,
    /// By step, its field: `step_1`.
    steps: Vec<Ident>,
    /// By room of arrays of rounds: `room_0`.
    rooms: Vec<Ident>,
    /// By row of the rounds, their counter.
    rounds: Vec<Ident>,
    wanted: Wanted,
}

impl Names {
    fn new(program: &Program) -> Self {
        let mut wanted = Wanted::of_module();
        let arrays = || program.arrays().iter().enumerate().map(|(id, array)| format!("{}_{id}", array.name));
        let shardings = arrays().map(|array| wanted.name(&format!("sharding_{array}"))).collect();
        let arrays = arrays().map(|array| wanted.name(&array)).collect();
        let nests = || program.nests().map(|nest| &nest.row.kernel).zip(1..);
        let kernels = nests().map(|(kernel, number)| wanted.name(&format!("{}_{number}", kernel.name()))).collect();
        let tables =
            nests().map(|(kernel, number)| wanted.name(&format!("{}_{number}_table", kernel.name()))).collect();
        let scalars = nests().map(|(kernel, number)| {
            let scalars = kernel.scalars().iter();
            scalars.map(|scalar| wanted.name(&format!("{}_of_{number}", scalar.0))).collect()
        });
        let scalars = scalars.collect();
        let steps = (1..=program.moves().count()).map(|number| wanted.name(&format!("step_{number}"))).collect();
        let rooms = if program.body().rounds.is_empty() { 0 } else { program.rooms().most.len() };
        let rooms = (0..rooms).map(|room| wanted.name(&format!("room_{room}"))).collect();
        let rounds = program.body().rounds.iter().map(|_| wanted.name("round")).collect();
        Self { shardings, arrays, kernels, tables, scalars, steps, rooms, rounds, wanted }
    }
}
