//! Programs on machines of several levels: which collectives are carried out in stages.
//!
//! The ranks of a collective whose axes cross levels are near some of the others and far from the rest. A placement divides the axes
//! into digits, one for each level, so a stage is along the digits of one level or of several that follow one another. All such
//! divisions are tried, and the program is priced with each; at once is one of them.

use crate::cost::{CostError, CostedPart, Prices};
use crate::placement::PlacedMesh;
use polyshard_layout::{AxisPart, Stages};
use polyshard_machine::units::seconds as shown;
use polyshard_program::{CollectiveBy, Direction, Leg, LegId, NestId, Owners, Program, StagedLeg, TileId, TransferId};

/// Returns the program with each collective that crosses levels of the machine carried out in the stages in which the program takes
/// the least time there, or at once; [`explain`](Program::explain) says which, and why.
///
/// ```
/// # use polyshard_dsl::*;
/// # use polyshard_polyhedral::*;
/// # use polyshard_program::example;
/// use polyshard_layout::Mesh;
/// use polyshard_machine::Machine;
/// use polyshard_planner::placement::{ParallelismMatrix, PlacedMesh};
/// use polyshard_planner::{cost_on, staged_on};
/// # let matmul = Schedule::from_spec(example::matmul(512, 512, 4096));
/// // The sum over k meets along an axis of 2 nodes of 4 devices.
/// let mesh = Mesh::new([("z", 8)]);
/// let [z] = mesh.axes();
/// let [m, n, k] = ["m", "n", "k"].map(Var::new);
/// let split = matmul.distribute(["k"], ["ko"], ["ki"], &mesh).shard("A", [k.at(z)]).shard("B", [k.at(z)]).shard("C", []);
/// let machine = Machine::preset("a100")?.with_counts(&[2, 4])?;
/// let placed = PlacedMesh::new(&mesh, &machine, &ParallelismMatrix::new(vec![vec![2, 4]])?)?;
/// let program = split.lower()?;
/// let staged = staged_on(&program, &placed)?;
/// assert!(staged.to_string().contains("all-reduce along z in stages: z%4, then z/4, then back along z%4"), "{staged}");
/// assert!(cost_on(&staged, &placed)?.moving() < 0.5 * cost_on(&program, &placed)?.moving());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What is moved, and what the program computes, stay the same; sums and products of floats are taken in the order of the stages, which is
/// the same on all ranks and in each run, so that results differ from those at once by rounding. What is pipelined is not carried out in
/// stages, and what is carried out by a procedure stays so.
///
/// # Errors
/// [`CostError::Mesh`] if the program is of another mesh than the placement, and as [`cost_on`](crate::cost_on).
///
/// # Panics
/// If a placement's digits are no stages: a bug of polyshard.
pub fn staged_on(program: &Program, placed: &PlacedMesh) -> Result<Program, CostError> {
    if program.mesh() != placed.mesh() {
        let [program, placed] = [program.mesh(), placed.mesh()].map(ToString::to_string);
        return Err(CostError::Mesh { program, placed });
    }
    let prices = Prices::on(placed);
    let mut chosen = Vec::new();
    for (number, nest) in program.nests().enumerate() {
        let brought = nest.transfers.iter().enumerate().filter(|(_, transfer)| transfer.kept_by().is_none());
        for (tile, transfer) in brought {
            let (nest, tile) = (NestId(number), TileId(tile));
            for (leg, route) in (0..).map(LegId).zip(&transfer.route.legs) {
                let Leg::Collective { axes, owners, .. } = route else { continue };
                let levels = levels_of(placed, axes);
                let is_given = route.procedure().is_some();
                if is_given || levels.len() < 2 || (*owners == Owners::All && transfer.direction == Direction::In) {
                    continue;
                }
                let staged = |stages: Option<Stages>, why| StagedLeg {
                    nest,
                    tile,
                    leg,
                    by: stages.map(CollectiveBy::Stages),
                    why,
                };
                if transfer.ahead > 0 {
                    chosen.push(staged(None, "at once, since it is pipelined".into()));
                    continue;
                }
                let priced = |stages: Option<Stages>| -> Result<_, CostError> {
                    let program = made(program, &[staged(stages.clone(), String::new())]);
                    let cost = prices.of(&program)?;
                    let part = CostedPart::Transfer(TransferId::Tile { nest, tile });
                    let seconds = cost.parts.iter().filter(|costed| costed.part == part).map(|part| part.seconds).sum();
                    Ok((cost.seconds(), seconds, stages))
                };
                let at_once: (f64, f64, _) = priced(None)?;
                let mut best = at_once.clone();
                for stages in divisions(placed, axes, &levels) {
                    let other = priced(Some(stages))?;
                    if other.0 < best.0 {
                        best = other;
                    }
                }
                let [of_best, of_one] = [best.1, at_once.1].map(shown);
                let machine = placed.machine().name();
                let why = match best.2 {
                    Some(_) => format!("{of_best} in all on {machine}, where it would take {of_one} at once"),
                    None => format!("at once, {of_one} in all on {machine}: no stages take less"),
                };
                chosen.push(staged(best.2, why));
            }
        }
    }
    Ok(made(program, &chosen))
}

fn made(program: &Program, legs: &[StagedLeg]) -> Program {
    let made = program.in_stages(legs);
    made.unwrap_or_else(|error| panic!("a placement gives no stages: {error}; this is a bug of polyshard"))
}

/// The levels that groups along the axes cross, outermost first.
fn levels_of(placed: &PlacedMesh, axes: &[usize]) -> Vec<usize> {
    let rows = placed.matrix().rows();
    let levels = 0..rows.first().map_or(0, Vec::len);
    levels.filter(|&level| axes.iter().any(|&axis| rows[axis][level] > 1)).collect()
}

/// All divisions of these levels, which follow one another, into stages, two or more.
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
        stages.unwrap_or_else(|error| panic!("{placed} gives no stages: {error}; this is a bug of polyshard"))
    };
    (1..1 << gaps).map(division).collect()
}

/// The digits of the axes at levels that follow one another.
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
