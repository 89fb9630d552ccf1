//! Programs: arrays over a mesh of ranks, and the statements that compute and move them.
//!
//! ```text
//! program   = mesh, element type; arrays, transfers, loops, kernels, rounds, statements
//! array     = name, shape, sharding; input, output or temporary
//! transfer  = between an array and a tile | a move, between two arrays
//! kernel    = arrays, loops, the transfers that it uses, a leaf
//! statement = Rounds | Loop | Fill | Begin | End | Compute | Free; see [`Statement`](crate::Statement)
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | `body`, `rounds`, `moves` | tables and statements, repetitions, moves between arrays |
//! | `place`, `beside`, `kept`, `in_stages` | the order of statements, kernels that run together, reused tiles, staged collectives |
//! | `check`, `placed`, `flow` | whether statements and arrays fit together, whether their order is legal, what is written before it is read |
//! | `rooms`, `report`, `text` | memory, bounds and proofs, the printed program |
//!
//! A program leaves nothing to decide: printing, pricing, emitting and running are recursions over it. All ranks run the same
//! statements; they differ only in the values of their coordinates. Tests: `program/tests/it/refused.rs`.

mod beside;
mod body;
mod check;
mod flow;
mod in_stages;
mod kept;
mod moves;
mod place;
mod placed;
mod report;
mod rooms;
mod rounds;
mod text;

use body::Numbered;
pub use body::{Body, Span};
pub use check::ProgramError;
pub use in_stages::StagedLeg;
pub use moves::MoveView;
pub use report::InRounds;
pub use rooms::Rooms;
pub use rounds::{Carried, MOST_ROUNDS, Rounds, Until};

use crate::hint::Hint;
use crate::ids::{ArrayId, KernelId, TransferId};
use crate::kernel::{Assign, Kernel};
use crate::nest::{Loop, LoweredKernel, NestView, Route, Transfer};
use crate::pattern::Pattern;
use crate::proof::Report;
use crate::reduction::Procedure;
use crate::statement::Statement;
use crate::volume::Volume;
use polyshard_layout::{DType, Mesh, Name, Sharding, each_once, joined};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};

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
    /// It is an intermediate result that never exists as a whole: the kernel that writes it has it in its tile, panel by panel, and only
    /// kernels that run together with that one read it.
    Panels,
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
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct Program {
    body: Body,
    report: Report,
    hints: Vec<Hint>,
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
        self.body == other.body
    }
}

/// The version of the form in which programs are stored in files.
const VERSION: u64 = 1;

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, file: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Versioned<'a> {
            version: u64,
            #[serde(flatten)]
            body: &'a Body,
        }
        Versioned { version: VERSION, body: &self.body }.serialize(file)
    }
}

/// A program as stored in a file, without the parts derived from its tables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    version: u64,
    mesh: Mesh,
    dtype: DType,
    arrays: Vec<Array>,
    #[serde(default)]
    transfers: Vec<Transfer>,
    #[serde(default)]
    loops: Vec<Loop>,
    #[serde(default)]
    kernels: Vec<LoweredKernel>,
    #[serde(default)]
    rounds: Vec<Rounds>,
    #[serde(default)]
    statements: Vec<Statement>,
    /// The tables of programs before files had versions.
    body: Option<IgnoredAny>,
}

impl TryFrom<Written> for Program {
    type Error = ProgramError;

    fn try_from(written: Written) -> Result<Self, ProgramError> {
        let Written { version, mesh, dtype, arrays, transfers, loops, kernels, rounds, statements, body: old } =
            written;
        if version != VERSION || old.is_some() {
            return Err(ProgramError::Version { version: if old.is_some() { 0 } else { version } });
        }
        dtype.native()?;
        let mut body = Body { mesh, dtype, arrays, transfers, loops, kernels, rounds, statements };
        body.forget_frees();
        let program = Self::new(body)?;
        let mut is_gone_through = true;
        for Numbered { number, span, .. } in program.body.numbered() {
            for kernel in program.body.kernels_of(span) {
                let nest = program.body.nest(kernel);
                let why = |why| format!("`{}` {why}", nest.kernel.name());
                let done = nest.go_through().map_err(why);
                is_gone_through &= done.map_err(|why| ProgramError::Misfit { statement: number, why })?;
            }
        }
        Ok(Self { origin: Origin::File { is_gone_through }, ..program })
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

    /// Returns the program that closes partial results of an array of `dtype` named `array` by this operation, `+=`, `*=`, `max=` or
    /// `min=`, and this procedure, whose ranks are those of the mesh.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::program::Assign;
    /// use polyshard::program::reduction::{Collective, Lowered, LoweredStep, Procedure};
    /// let mesh = Mesh::new([("x", 2)]);
    /// let by = |placements: &[Placement]| Sharding::new(&mesh, &[7], placements).expect("a sharding");
    /// let step = |collective, parts| LoweredStep { collective, groups: vec![vec![0, 1]].into(), parts };
    /// let halves = vec![step(Collective::ReduceScatter, 1), step(Collective::AllGather, 2)];
    /// let procedure = Procedure::by_steps(Lowered::from_steps(vec![vec![0, 1]], 2, halves)?)?;
    /// let shardings = [&by(&[Placement::partial("x")]), &by(&[])];
    /// let program = Program::reduction("A", shardings, DType::F64, Assign::Add, procedure)?;
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
        op: Assign,
        by: Procedure,
    ) -> Result<Self, ProgramError> {
        Self::of_move(array.into(), shardings, dtype, Some((op, by)))
    }

    /// The program that moves one array, by a reduction if one is given.
    fn of_move(
        name: Name,
        [source, target]: [&Sharding; 2],
        dtype: DType,
        by: Option<(Assign, Procedure)>,
    ) -> Result<Self, ProgramError> {
        let array = |sharding: &Sharding, kind| Array { name, sharding: sharding.clone(), kind };
        let mut body = Body::new(source.mesh(), dtype);
        body.arrays = vec![array(source, ArrayKind::Input), array(target, ArrayKind::Output)];
        let moved = Transfer::between([ArrayId(0), ArrayId(1)], [source, target], dtype, Vec::new());
        body.transfer(match by {
            Some((op, procedure)) => {
                let axes = source.closed_axes(target).unwrap_or_default();
                Transfer { op, route: Route::by_procedure(axes, procedure), ..moved }
            }
            None => moved,
        });
        Self::new(body)
    }

    /// Returns the program of the one kernel of a body, whose arrays are its tensors, as a schedule was lowered to it; nothing is checked.
    #[doc(hidden)]
    #[must_use]
    pub fn lowered(body: Body) -> Self {
        let (report, hints) = (body.kernels[0].report.clone(), body.kernels[0].hints.clone());
        Self { body, report, hints, origin: Origin::Derived }
    }

    /// Returns the program of these tables, whose temporaries are freed after the last statement that reads them.
    ///
    /// # Errors
    /// - [`NoRow`](ProgramError::NoRow) if a row or a statement names a row that does not exist;
    /// - [`Unwritten`](ProgramError::Unwritten) if a statement reads an array before a statement writes it;
    /// - [`Overwritten`](ProgramError::Overwritten) if it writes an input, or an array that was written before;
    /// - [`Misfit`](ProgramError::Misfit) if the parts of a kernel do not fit together, the shapes of a move differ, a move is by a
    ///   reduction that does not close its sums, or a transfer does not begin and end where the rules of
    ///   [statements](crate::Statement) allow it;
    /// - [`Unfinished`](ProgramError::Unfinished) if a kernel or a move is left out, or a move does not end;
    /// - [`NoOutput`](ProgramError::NoOutput) if no statement writes an array.
    pub fn new(mut body: Body) -> Result<Self, ProgramError> {
        body.check_numbers()?;
        check::check(&body)?;
        body.free_temporaries();
        let flow = body.flow();
        let report = Report::of_program(&body, flow.proofs);
        let hints = body.kernels.iter().flat_map(|row| row.hints.iter().cloned()).chain(flow.hints).collect();
        Ok(Self { body, report, hints, origin: Origin::Derived })
    }

    /// Returns the program in which kernels of each of these lists run together as far as this is legal, and those that do not, with
    /// reasons; see [`Body::run_together`].
    ///
    /// # Panics
    /// If the result is not a program: a bug in polyshard.
    #[must_use]
    pub fn together(
        self,
        lists: &[Vec<KernelId>],
        is_proved: impl Fn(KernelId, KernelId) -> bool,
    ) -> (Self, Vec<(KernelId, String)>) {
        let mut body = self.body;
        body.forget_frees();
        let refused = body.run_together(lists, is_proved);
        let program = Self::new(body);
        let program =
            program.unwrap_or_else(|error| panic!("passes make no program: {error}; this is a bug in polyshard"));
        (program, refused)
    }

    /// Returns the mesh.
    #[must_use]
    pub fn mesh(&self) -> &Mesh {
        &self.body.mesh
    }

    /// Returns the element type of all arrays.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.body.dtype
    }

    /// Returns the arrays by number.
    #[must_use]
    pub fn arrays(&self) -> &[Array] {
        &self.body.arrays
    }

    /// Returns the array with this number.
    ///
    /// # Panics
    /// If there is no such array.
    #[must_use]
    pub fn array(&self, id: ArrayId) -> &Array {
        &self.body.arrays[id.0]
    }

    /// Returns the volume of a transfer.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::program::TransferId;
    /// let mesh = Mesh::new([("x", 2)]);
    /// let by = |dim| Sharding::new(&mesh, &[4, 6], &[Placement::block(dim, mesh.axes::<1>()[0])]).expect("a sharding");
    /// let program = Program::redistribution("A", [&by(0), &by(1)], DType::F64)?;
    /// assert_eq!(program.volume(TransferId(0)).received, 6 * 8);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such transfer.
    #[must_use]
    pub fn volume(&self, id: TransferId) -> Volume {
        if let Some(moved) = self.body.moved(id) {
            return moved.volume();
        }
        let (nest, position) =
            self.body.of_tile(id).expect("a transfer is a move or of a tile; this is a bug in polyshard");
        nest.volumes()[position]
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
        let found = self.body.arrays.iter().enumerate().filter(|(_, array)| array.kind == kind);
        found.map(|(number, _)| ArrayId(number)).collect()
    }

    /// Returns its tables and statements.
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
        match self.body.arrays.iter().find(|array| array.name == *name) {
            Some(array) => &array.sharding,
            None => {
                let names = each_once(self.body.arrays.iter().map(|array| array.name));
                panic!("no array `{name}`; the arrays are {}", joined(names, ", "))
            }
        }
    }

    /// Returns the shardings: of the inputs, then of the outputs.
    pub fn shardings(&self) -> impl Iterator<Item = &Sharding> {
        self.inputs().chain(self.outputs()).map(|array| &array.sharding)
    }

    /// Returns the kernels that write elements of an array, the one that starts it first; none if other elements of it have values from
    /// an input, or if a kernel writes all of them. Elements that none of these kernels writes hold the initial value of the first one's
    /// sums.
    #[must_use]
    pub fn writers(&self, id: ArrayId) -> Option<Vec<KernelId>> {
        self.body.writers(id)
    }

    /// Returns whether an array has another name in the next round.
    #[must_use]
    pub fn is_carried(&self, id: ArrayId) -> bool {
        self.body.rounds.iter().any(|rounds| rounds.renamed().contains(&id))
    }

    /// Returns, by kernel, the maximum number of its runs.
    #[must_use]
    pub fn runs(&self) -> Vec<u64> {
        fn add(body: &Body, statements: &[Statement], times: u64, runs: &mut [u64]) {
            for span in body.spans(statements) {
                body.kernels_of(span).into_iter().for_each(|kernel| runs[kernel.0] = times);
                if let [Statement::Rounds(id, round)] = span.statements {
                    add(body, round, times.saturating_mul(body.rounds[id.0].times), runs);
                }
            }
        }
        let mut runs = vec![0; self.body.kernels.len()];
        add(&self.body, &self.body.statements, 1, &mut runs);
        runs
    }

    /// Returns the kernels by number, with their loops and transfers.
    pub fn nests(&self) -> impl ExactSizeIterator<Item = NestView<'_>> {
        self.body.nests()
    }

    /// Returns the moves between arrays, in the order of their numbers.
    pub fn moves(&self) -> impl Iterator<Item = MoveView<'_>> {
        self.body.moves()
    }

    /// Returns the kernel of a program that is one kernel, with its loops and transfers.
    ///
    /// # Panics
    /// If the program is not one kernel and nothing else; [`nests`](Self::nests) returns those of any program.
    #[track_caller]
    #[must_use]
    pub fn nest(&self) -> NestView<'_> {
        self.body.only_nest().unwrap_or_else(|| {
            let (kernels, moves) = (self.body.kernels.len(), self.moves().count());
            let continues =
                if self.body.kernels.iter().any(|row| row.continues.is_some()) { ", and versions," } else { "" };
            panic!(
                "a program of {kernels} kernels and {moves} moves{continues} is not one kernel; go through its `nests`"
            )
        })
    }

    /// Returns the kernel of a program that is one kernel.
    ///
    /// # Panics
    /// As [`nest`](Self::nest).
    #[track_caller]
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.nest().row.kernel
    }

    /// Returns the steps of the schedule of a program that is one kernel, as they print.
    ///
    /// # Panics
    /// As [`nest`](Self::nest).
    #[track_caller]
    #[must_use]
    pub fn steps(&self) -> &[String] {
        &self.nest().row.steps
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
}
