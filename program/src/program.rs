//! Programs: arrays over a mesh of ranks, and the statements that compute and move them.
//!
//! ```text
//! program   = mesh, element type, arrays; nests, moves, repetitions, statements
//! array     = name, shape, sharding; input, output or temporary
//! nest      = a kernel: arrays, loops, transfers and their tiles, a leaf; see [`Nest`]
//! move      = array -> array of another sharding
//! transfer  = of a nest, between an array and a tile | a move, between two arrays
//! statement = Repeat | Loop | Fill | Begin | Await | Compute | Free; see [`Statement`](crate::Statement)
//! ```
//!
//! A program leaves nothing to decide: printing, pricing, emitting and running are recursions over it. All ranks run the same
//! statements; they differ only in the values of their coordinates. Tests: `program/tests/it/refused.rs`.

mod body;
mod check;
mod flow;
mod in_stages;
mod kept;
mod moves;
mod repeat;
mod report;
mod rooms;
mod text;

use body::Numbered;
pub use body::{Body, Part};
pub use check::ProgramError;
pub use in_stages::StagedLeg;
pub use moves::Move;
pub use repeat::{Carried, MOST_ROUNDS, Repeat, Until};
pub use report::InRounds;
pub use rooms::Rooms;

use crate::hint::Hint;
use crate::ids::{ArrayId, NestId, RoomId, TransferId};
use crate::kernel::Kernel;
use crate::nest::{Nest, Route};
use crate::pattern::Pattern;
use crate::proof::Report;
use crate::reduction::MoveReduction;
use crate::statement::Statement;
use crate::volume::Volume;
use polyshard_layout::{DType, Mesh, Name, Sharding};
use serde::{Deserialize, Serialize};

/// The role of an array in a program.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// use polyshard::program::ArrayKind;
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// assert_eq!(program.of_kind(ArrayKind::Input).len(), 2); // A and B
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ArrayKind {
    /// It is given by the caller, and never written.
    Input,
    /// The program computes and returns it.
    Output,
    /// It is an intermediate result.
    Temporary,
}

/// An array of a program.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// let names: Vec<_> = program.arrays().iter().map(|array| array.name.as_str()).collect();
/// assert_eq!(names, ["A", "B", "C"]);
/// assert_eq!(program.arrays()[0].sharding.to_string(), "[0 @ x]");
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Array {
    /// Its name; a temporary may have that of the array whose elements it holds in another sharding.
    pub name: Name,
    /// Its sharding, and with it its shape.
    pub sharding: Sharding,
    /// Its role in the program.
    pub kind: ArrayKind,
}

/// The program of every rank: proved, and ready to be executed or emitted.
///
/// A program that is read from a file is checked as [`new`](Self::new) does, its reductions are proved again, and the steps of all
/// ranks are checked if they are few. All other proofs about its kernels are taken from the file, and printed as such; if others may
/// have changed the file, keep traces and lower them again.
///
/// ```
/// use polyshard::prelude::*;
/// let matmul = kernel! {
///     fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// vars!(m, k, mo, mi);
/// let mesh = Mesh::new([("x", 2)]);
/// let [x] = mesh.axes();
/// let rows = matmul.distribute([m], [mo], [mi], &mesh);
/// let rows = rows.shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// let program = rows.lower()?;
/// assert_eq!(program.pattern("B"), Some(Pattern::all_gather([x])));
/// assert_eq!(program.report().traffic_bytes, 3 * 8 * 8); // the rows of B that a rank lacks
/// println!("{program}\n{}", program.explain());
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Program {
    mesh: Mesh,
    dtype: DType,
    arrays: Vec<Array>,
    body: Body,
    #[serde(skip_serializing)]
    report: Report,
    #[serde(skip_serializing)]
    hints: Vec<Hint>,
    #[serde(skip_serializing)]
    origin: Origin,
}

/// The origin of a program's proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The pass that made it proved it.
    Derived,
    /// It was read from a file, and the steps of all ranks were checked if there were few.
    File { is_gone_through: bool },
}

impl PartialEq for Program {
    /// Whether ranks run the same; everything else follows from that, or states the program's origin.
    fn eq(&self, other: &Self) -> bool {
        let Self { mesh, dtype, arrays, body, report: _, hints: _, origin: _ } = self;
        (mesh, dtype, arrays, body) == (&other.mesh, &other.dtype, &other.arrays, &other.body)
    }
}

/// A program as stored in a file, without the parts derived from its body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    mesh: Mesh,
    dtype: DType,
    arrays: Vec<Array>,
    body: Body,
}

impl TryFrom<Written> for Program {
    type Error = ProgramError;

    fn try_from(Written { mesh, dtype, arrays, mut body }: Written) -> Result<Self, ProgramError> {
        dtype.native()?;
        body.forget_frees();
        let program = Self::new(&mesh, dtype, arrays, body)?;
        let mut is_gone_through = true;
        for Numbered { number, part, .. } in program.body.numbered() {
            if let Part::Nest(id, _) = part {
                let nest = &program.body.nests[id.0];
                let why = |why| format!("`{}` {why}", nest.kernel.name());
                let done = nest.go_through().map_err(why);
                is_gone_through &= done.map_err(|why| ProgramError::Misfit { statement: number, why })?;
            }
        }
        Ok(Self { origin: Origin::File { is_gone_through }, ..program })
    }
}

impl From<Nest> for Program {
    /// The program of one kernel: its tensors are the arrays.
    fn from(nest: Nest) -> Self {
        let inputs = nest.kernel.inputs().len();
        let nest = Nest { arrays: (0..=inputs).map(ArrayId).collect(), ..nest };
        let arrays = nest.kernel.tensors().zip(&nest.shardings).enumerate().map(|(number, (tensor, sharding))| {
            let kind = if number == inputs { ArrayKind::Output } else { ArrayKind::Input };
            Array { name: tensor.name, sharding: sharding.clone(), kind }
        });
        let (mesh, dtype, arrays) = (nest.mesh.clone(), nest.kernel.dtype(), arrays.collect());
        let (report, hints) = (nest.report.clone(), nest.hints.clone());
        let mut body = Body::default();
        body.run(nest);
        Self { mesh, dtype, arrays, body, report, hints, origin: Origin::Derived }
    }
}

impl Program {
    /// Returns the program that moves an array of `dtype` named `array` from one sharding to another directly: each rank receives the
    /// elements that it lacks, once, and partial sums that the target does not keep open are closed.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
    /// let program = Program::redistribution("A", [&by(0), &by(1)], DType::F64)?;
    /// assert_eq!(program.report().traffic_bytes, 6 * 8);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Misfit`](ProgramError::Misfit) if the shapes or the numbers of ranks differ.
    pub fn redistribution(
        array: impl Into<Name>,
        shardings: [&Sharding; 2],
        dtype: DType,
    ) -> Result<Self, ProgramError> {
        Self::of_move(array.into(), shardings, dtype, None)
    }

    /// Returns the program that closes partial results of an array of `dtype` named `array` by this reduction, whose ranks
    /// are those of the mesh.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::program::reduction::{Collective, Lowered, LoweredStep, Procedure};
    /// let mesh = Mesh::new([("x", 2)]);
    /// let by = |placements: &[Placement]| Sharding::new(&mesh, &[7], placements).expect("a sharding");
    /// let step = |collective, parts| LoweredStep { collective, groups: vec![vec![0, 1]].into(), parts };
    /// let halves = vec![step(Collective::ReduceScatter, 1), step(Collective::AllGather, 2)];
    /// let procedure = Procedure::by_steps(Lowered::from_steps(vec![vec![0, 1]], 2, halves)?)?;
    /// let program = Program::reduction("A", [&by(&[Placement::partial("x")]), &by(&[])], DType::F64, procedure.into())?;
    /// assert_eq!(program.to_string(), "\
    /// program over (x: 2), f64
    ///     input         A[7]: [partial(x)]
    ///  1  move          A' = A: [partial(x)] to replicated, all_reduce(x) by ReduceScatter-AllGather
    ///     output        A'[7]: replicated
    /// ");
    /// assert_eq!(program.report().traffic_bytes, 7 * 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Misfit`](ProgramError::Misfit) if the array moves as well, the reduction combines other groups than those along the
    /// axes that are closed, or its operation is `=`.
    pub fn reduction(
        array: impl Into<Name>,
        shardings: [&Sharding; 2],
        dtype: DType,
        by: MoveReduction,
    ) -> Result<Self, ProgramError> {
        Self::of_move(array.into(), shardings, dtype, Some(by))
    }

    /// The program that moves one array, by a reduction if one is given.
    fn of_move(
        name: Name,
        [source, target]: [&Sharding; 2],
        dtype: DType,
        by: Option<MoveReduction>,
    ) -> Result<Self, ProgramError> {
        let array = |sharding: &Sharding, kind| Array { name, sharding: sharding.clone(), kind };
        let arrays = vec![array(source, ArrayKind::Input), array(target, ArrayKind::Output)];
        let mut body = Body::default();
        let moved = Move::direct([ArrayId(0), ArrayId(1)], [source, target], dtype, Vec::new());
        body.transfer(match by {
            Some(MoveReduction { op, procedure }) => {
                let axes = source.closed_axes(target).unwrap_or_default();
                Move { op, route: Route::by_procedure(axes, procedure), ..moved }
            }
            None => moved,
        });
        Self::new(source.mesh(), dtype, arrays, body)
    }

    /// Returns the program that runs this body over arrays of `dtype` on the ranks of `mesh`; temporaries are freed after the last
    /// statement that reads them.
    ///
    /// # Errors
    /// - [`NoArray`](ProgramError::NoArray) if a statement names an array that does not exist;
    /// - [`Unwritten`](ProgramError::Unwritten) if it reads one before a statement writes it;
    /// - [`Overwritten`](ProgramError::Overwritten) if it writes an input, or an array that was written before;
    /// - [`Misfit`](ProgramError::Misfit) if a kernel reads or writes an array in another sharding than its schedule says, the
    ///   shapes of a move differ, a move is by a reduction that does not close its sums, or the statements are not those of the
    ///   nests and moves;
    /// - [`Unfinished`](ProgramError::Unfinished) if a nest or a move is left out, or a move is not awaited;
    /// - [`NoOutput`](ProgramError::NoOutput) if no statement writes an array.
    pub fn new(mesh: &Mesh, dtype: DType, arrays: Vec<Array>, mut body: Body) -> Result<Self, ProgramError> {
        check::check(mesh, dtype, &arrays, &body)?;
        body.free_temporaries(&arrays);
        let flow = body.flow(&arrays);
        let report = Report::of_program(dtype, &arrays, &body, flow.proofs);
        let hints = body.nests.iter().flat_map(|nest| nest.hints.iter().cloned()).chain(flow.hints).collect();
        Ok(Self { mesh: mesh.clone(), dtype, arrays, body, report, hints, origin: Origin::Derived })
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Returns the element type of all arrays.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the arrays by number.
    #[must_use]
    pub fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    /// Returns the array with this number.
    ///
    /// # Panics
    /// If there is no such array.
    #[must_use]
    pub fn array(&self, id: ArrayId) -> &Array {
        &self.arrays[id.0]
    }

    /// Returns the volume of a transfer.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::program::{MoveId, TransferId};
    /// let mesh = Mesh::new([("x", 2)]);
    /// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
    /// let program = Program::redistribution("A", [&by(0), &by(1)], DType::F64)?;
    /// assert_eq!(program.volume(TransferId::Array(MoveId(0))).received, 6 * 8);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such transfer.
    #[must_use]
    pub fn volume(&self, id: TransferId) -> Volume {
        match id {
            TransferId::Tile { nest, tile } => self.body.nests[nest.0].volumes()[tile.0],
            TransferId::Array(moved) => self.body.moves[moved.0].volume(&self.arrays, self.dtype),
        }
    }

    /// Returns the inputs, in the order in which a run takes them.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &Array> {
        self.of_kind(ArrayKind::Input).into_iter().map(|id| self.array(id))
    }

    /// Returns the outputs, in the order in which a run returns them.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &Array> {
        self.of_kind(ArrayKind::Output).into_iter().map(|id| self.array(id))
    }

    /// Returns the numbers of the arrays of this kind, ascending.
    #[must_use]
    pub fn of_kind(&self, kind: ArrayKind) -> Vec<ArrayId> {
        let found = self.arrays.iter().enumerate().filter(|(_, array)| array.kind == kind);
        found.map(|(number, _)| ArrayId(number)).collect()
    }

    /// Returns its body: its nests, moves and statements.
    #[must_use]
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Returns the sharding of the array named `name`: that in which an input is given, or in which a computed array is first written.
    ///
    /// # Panics
    /// If there is no such array.
    #[track_caller]
    #[must_use]
    pub fn sharding(&self, name: impl AsRef<str>) -> &Sharding {
        let name = name.as_ref();
        match self.arrays.iter().find(|array| array.name == *name) {
            Some(array) => &array.sharding,
            None => {
                let mut names = Vec::new();
                for array in &self.arrays {
                    if !names.contains(&array.name.as_str()) {
                        names.push(array.name.as_str());
                    }
                }
                panic!("no array `{name}`; the arrays are {}", names.join(", "))
            }
        }
    }

    /// Returns the shardings: of the inputs, then of the outputs.
    pub fn shardings(&self) -> impl Iterator<Item = &Sharding> {
        self.inputs().chain(self.outputs()).map(|array| &array.sharding)
    }

    /// Returns, for each temporary, the number of the memory that holds it: temporaries that are not alive together may share memory.
    #[must_use]
    pub fn slots(&self) -> Vec<Option<RoomId>> {
        self.body.slots(&self.arrays)
    }

    /// Returns the nests that write elements of an array, the one that starts it first; none if other elements of it have values from
    /// an input, or if a nest writes all of them. Elements that none of these nests writes hold the initial value of the first one's
    /// sums.
    #[must_use]
    pub fn writers(&self, id: ArrayId) -> Option<Vec<NestId>> {
        self.body.writers(id, &self.arrays)
    }

    /// Returns whether an array has another name in the next round.
    #[must_use]
    pub fn is_carried(&self, id: ArrayId) -> bool {
        self.body.repeats.iter().any(|repeat| repeat.renamed().contains(&id))
    }

    /// Returns, by nest, the maximum number of its runs.
    #[must_use]
    pub fn runs(&self) -> Vec<u64> {
        fn add(body: &Body, statements: &[Statement], times: u64, runs: &mut [u64]) {
            for part in Body::parts_of(statements) {
                match part {
                    Part::Nest(id, _) => runs[id.0] = times,
                    Part::Repeat(id, round) => {
                        add(body, round, times.saturating_mul(body.repeats[id.0].times), runs);
                    }
                    Part::Begin(_) | Part::Await(_) | Part::Free(_) => {}
                }
            }
        }
        let mut runs = vec![0; self.body.nests.len()];
        add(&self.body, &self.body.statements, 1, &mut runs);
        runs
    }

    /// Returns the nests by number.
    pub fn nests(&self) -> impl ExactSizeIterator<Item = &Nest> {
        self.body.nests.iter()
    }

    /// Returns the moves between arrays by number.
    pub fn moves(&self) -> impl ExactSizeIterator<Item = &Move> {
        self.body.moves.iter()
    }

    /// Returns the nest of a program that is one kernel.
    ///
    /// # Panics
    /// If the program is not one kernel and nothing else; [`nests`](Self::nests) returns those of any program.
    #[track_caller]
    #[must_use]
    pub fn nest(&self) -> &Nest {
        self.body.only_nest().unwrap_or_else(|| {
            let (nests, moves) = (self.body.nests.len(), self.body.moves.len());
            panic!("a program of {nests} kernels and {moves} moves is not one kernel; go through its `nests`")
        })
    }

    /// Returns the kernel of a program that is one kernel.
    ///
    /// # Panics
    /// As [`nest`](Self::nest).
    #[track_caller]
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.nest().kernel
    }

    /// Returns the steps of the schedule of a program that is one kernel, as they print.
    ///
    /// # Panics
    /// As [`nest`](Self::nest).
    #[track_caller]
    #[must_use]
    pub fn steps(&self) -> &[String] {
        &self.nest().steps
    }

    /// Returns the proofs and bounds.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Returns hints at what would likely make the program faster; none concerns correctness.
    #[must_use]
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }

    /// Returns the pattern by which a tensor is transferred: an input to its readers, the output to its owners. For an input with
    /// several transfers it is the first that moves anything; see [`patterns`](Self::patterns).
    #[must_use]
    pub fn pattern(&self, tensor: &str) -> Option<Pattern> {
        let patterns = self.patterns(tensor);
        patterns.iter().find(|pattern| **pattern != Pattern::Local).or(patterns.first()).cloned()
    }

    /// Returns the patterns of all transfers of a tensor of a kernel, in the order in which its accesses are written; none
    /// if no kernel has such a tensor.
    #[must_use]
    pub fn patterns(&self, tensor: &str) -> Vec<Pattern> {
        self.nests().flat_map(|nest| nest.patterns(tensor)).collect()
    }

    /// Returns the same program with every transfer of a tile as an exchange, which is correct for any region and sharding: the
    /// reference that other patterns are tested against.
    ///
    /// # Panics
    /// If ranks would not agree on an exchange: a bug in polyshard.
    #[doc(hidden)]
    #[must_use]
    pub fn by_exchange(&self) -> Self {
        let body = self.body.with_nests(Nest::by_exchange, &self.arrays);
        let mut program = Self { body, ..self.clone() };
        program.report = program.body.report(program.dtype, &program.arrays);
        program
    }
}
