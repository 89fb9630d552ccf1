//! Programs on machines of several levels: collectives carried out in stages, or by procedures that combine sums.
//!
//! A rank of a collective whose axes cross levels is near some of the other ranks and far from the rest. A placement
//! divides the axes into digits, one per level, and a stage runs along the digits of one level or of several adjacent
//! ones. All such divisions, including a single call, are tried, and the program is priced with each. Where sums that
//! all ranks receive may be rounded in any order, the fastest of all procedures that [`reduce`](crate::reduce) finds is
//! tried too.

use crate::cost::{CostError, CostedPart, Prices};
use crate::placement::PlacedMesh;
use crate::reduce::{ReduceError, Strategy};
use polyshard_layout::{AxisPart, Stages};
use polyshard_machine::units::seconds as shown;
use polyshard_program::{Algorithm, Direction, NestView, Owners, Program, StagedLeg, TransferView};

/// Makes a program as fast as possible on a machine of several levels.
///
/// ```
/// use polyshard::planner::cost_on;
/// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
/// use polyshard::prelude::*;
/// # let matmul = kernel! {
/// #     fn matmul(A: [f32; 512, 4096], B: [f32; 4096, 512]) -> C: [f32; 512, 512] { C[m, n] += A[m, k] * B[k, n] }
/// # };
/// // The sum over k meets along an axis of 2 nodes of 4 devices.
/// let mesh = Mesh::new([("z", 8)]);
/// let [z] = mesh.axes();
/// let [m, n, k] = ["m", "n", "k"].map(Var::new);
/// let split = matmul.distribute(["k"], ["ko"], ["ki"], &mesh).shard("A", [k.at(z)]).shard("B", [k.at(z)]).shard("C", []);
/// let machine = Machine::preset("a100")?.with_counts(&[2, 4])?;
/// let placed = PlacedMesh::new(&mesh, &machine, &ParallelismMatrix::new(vec![vec![2, 4]])?)?;
/// let program = split.lower()?;
/// let staged = program.on(&placed)?;
/// assert!(staged.to_string().contains("all-reduce along z in stages: z%4, then z/4, then back along z%4"), "{staged}");
/// assert!(cost_on(&staged, &placed)?.moving() < 0.5 * cost_on(&program, &placed)?.moving());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait OnMachine {
    /// Returns the program with each collective that crosses levels of the machine carried out so that the program is
    /// fastest there: in stages, by a [procedure](polyshard_program::reduction::Procedure), or as one call;
    /// [`explain`](Program::explain) says which, and why.
    ///
    /// The transfers and the results stay the same, up to rounding: in stages, sums and products of floats are taken in
    /// the order of the stages, which is the same on all ranks and in each run but differs from that of a single call.
    /// Procedures combine in an order that the communication library chooses, so they are tried only where that is
    /// allowed: for outputs that are [reassociated](polyshard_program::Direction::Out), and for operations with the
    /// same bits in any order. Pipelined transfers remain one call, and transfers that already have a procedure keep
    /// it.
    ///
    /// # Errors
    /// [`CostError::Mesh`] if the program is for another mesh than the placement, otherwise as
    /// [`cost_on`](crate::cost_on).
    ///
    /// # Panics
    /// If a placement's digits are not stages, or a procedure that was found is not one of the program: a bug in
    /// polyshard.
    fn on(&self, placed: &PlacedMesh) -> Result<Program, CostError>;
}

impl OnMachine for Program {
    fn on(&self, placed: &PlacedMesh) -> Result<Program, CostError> {
        if self.mesh() != placed.mesh() {
            let [program, placed] = [self.mesh(), placed.mesh()].map(ToString::to_string);
            return Err(CostError::Mesh { program, placed });
        }
        let prices = Prices::on(placed);
        let mut chosen = Vec::new();
        for nest in self.nests() {
            for transfer in nest.transfers.iter().filter(|transfer| transfer.reused.is_none()) {
                for (leg, axes, owners, by) in transfer.route.collectives() {
                    let levels = levels_of(placed, axes);
                    let is_given = matches!(by, Algorithm::Procedure(_));
                    if is_given || levels.len() < 2 || (*owners == Owners::All && transfer.direction == Direction::In) {
                        continue;
                    }
                    let by = |by, why| StagedLeg { transfer: transfer.id, leg, by, why };
                    if transfer.ahead > 0 {
                        chosen.push(by(Algorithm::Library, "as one call, since it is pipelined".into()));
                        continue;
                    }
                    let stages = divisions(placed, axes, &levels).into_iter().map(Algorithm::Stages);
                    let procedure = procedure(placed, &nest, transfer, axes, owners).map(Algorithm::Procedure);
                    let priced = |how: Algorithm| -> Result<Priced, CostError> {
                        let program = made(self, &[by(how.clone(), String::new())]);
                        let cost = prices.of(&program)?;
                        let part = CostedPart::Transfer(transfer.id);
                        let of_part = cost.parts.iter().filter(|costed| costed.part == part);
                        Ok(Priced { program: cost.seconds(), part: of_part.map(|part| part.seconds).sum(), by: how })
                    };
                    let at_once = priced(Algorithm::Library)?;
                    let of_one = at_once.part;
                    let mut best = at_once;
                    for how in stages.chain(procedure) {
                        let other = priced(how)?;
                        if other.program < best.program {
                            best = other;
                        }
                    }
                    let [of_best, of_one] = [best.part, of_one].map(shown);
                    let machine = placed.machine().name();
                    let why = match best.by.is_derived() {
                        false => format!("{of_best} in all on {machine}, against {of_one} as one call"),
                        true => format!("as one call, {of_one} in all on {machine}: no stages take less"),
                    };
                    chosen.push(by(best.by, why));
                }
            }
        }
        Ok(made(self, &chosen))
    }
}

/// A way to carry out a collective, and its time.
struct Priced {
    /// Seconds of the whole program.
    program: f64,
    /// Seconds of the transfer alone.
    part: f64,
    by: Algorithm,
}

/// The fastest procedure for the sums of a transfer; none if they must be taken in rank order, or not all ranks receive
/// them.
fn procedure(
    placed: &PlacedMesh,
    nest: &NestView<'_>,
    transfer: &TransferView<'_>,
    axes: &[usize],
    owners: &Owners,
) -> Option<polyshard_program::reduction::Procedure> {
    let (kernel, elements) = (&nest.kernel, transfer.tile.capacity);
    let any_order = match transfer.direction {
        Direction::In => return None,
        Direction::Out { any_order } => any_order || !kernel.assign().depends_on_order(kernel.dtype()),
    };
    if !any_order || *owners != Owners::All {
        return None;
    }
    match placed.reduction(axes, elements, kernel.dtype(), Strategy::Best) {
        Ok(plan) => Some(plan.procedure_in_mesh()),
        // No memory holds such a tile, so the program cannot run.
        Err(ReduceError::TooLong { .. }) => None,
        Err(error) => panic!("{placed} has no reduction along {axes:?}: {error}; this is a bug in polyshard"),
    }
}

fn made(program: &Program, legs: &[StagedLeg]) -> Program {
    let made = program.in_stages(legs);
    made.unwrap_or_else(|error| panic!("a placement gives no stages: {error}; this is a bug in polyshard"))
}

/// The levels that groups along the axes cross, outermost first.
fn levels_of(placed: &PlacedMesh, axes: &[usize]) -> Vec<usize> {
    let rows = placed.matrix().rows();
    let levels = 0..rows.first().map_or(0, Vec::len);
    levels.filter(|&level| axes.iter().any(|&axis| rows[axis][level] > 1)).collect()
}

/// All divisions of these adjacent levels into two or more stages.
fn divisions(placed: &PlacedMesh, axes: &[usize], levels: &[usize]) -> Vec<Stages> {
    let gaps = levels.len() - 1;
    let division = |cuts: u32| {
        let mut stages: Vec<Vec<usize>> = vec![vec![levels[0]]];
        for (gap, &level) in levels[1..].iter().enumerate() {
            match cuts >> gap & 1 {
                1 => stages.push(vec![level]),
                _ => stages.last_mut().expect("there is a first one").push(level),
            }
        }
        let parts = stages.iter().map(|levels| parts_of(placed, axes, levels)).collect();
        let stages = Stages::new(placed.mesh(), axes, parts);
        stages.unwrap_or_else(|error| panic!("{placed} gives no stages: {error}; this is a bug in polyshard"))
    };
    (1..1 << gaps).map(division).collect()
}

/// The digits of the axes at adjacent levels.
fn parts_of(placed: &PlacedMesh, axes: &[usize], levels: &[usize]) -> Vec<AxisPart> {
    let (first, last) = (levels[0], levels[levels.len() - 1]);
    let part = |&axis: &usize| {
        let row = &placed.matrix().rows()[axis];
        let product = |factors: &[usize]| factors.iter().product::<usize>();
        let part = AxisPart { axis, stride: product(&row[last + 1..]), extent: product(&row[first..=last]) };
        (part.extent > 1).then_some(part)
    };
    axes.iter().filter_map(part).collect()
}
