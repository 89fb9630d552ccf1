//! Strategies: which groups reduce in which steps.
//!
//! Whatever a strategy names becomes a program lowered to the machine's devices, or one fixed order. A program from
//! elsewhere is proved before anything is made for it: a wrong one would be a wrong sum, and nobody would see it. All
//! ranks come to the same choice by themselves, since choosing is arithmetic.

use super::words::{listed, over, usage};
use crate::{Error, Result};
use polyshard_machine::{Algorithm, Exchange, Operation, seconds};
use polyshard_planner::placement::PlacedMesh;
use polyshard_planner::reduce::{Collective, Lowered, LoweredStep, Program, ReduceError, Simulation, best, simulate};

/// How a reduction runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Strategy {
    /// In one all-reduce of each group.
    Direct,
    /// By the program of at most five steps that takes least time on the machine of the placement, by the model of
    /// the machine ([`best`]).
    #[default]
    Best,
    /// By this program, lowered for the placement and proved.
    Program(Program),
    /// By these steps, which may be written by hand or for no hierarchy at all; they are proved.
    Lowered(Lowered),
    /// In the order of the mesh's coordinates: the same bits for every placement, every number of ranks per node and
    /// on threads as on MPI, at the price of a step in which all talk to all.
    Deterministic,
}

/// What was chosen.
pub(super) struct Choice {
    pub(super) strategy: Strategy,
    pub(super) course: Course,
    /// How long it takes, step by step.
    pub(super) simulation: Simulation,
    /// How long one all-reduce takes.
    pub(super) direct: Simulation,
}

/// What is to be done, in the machine's ranks.
pub(super) enum Course {
    /// Steps; with the program that they are from, if there is one.
    Program { program: Option<Program>, lowered: Lowered },
    /// Groups that reduce in their order.
    InOrder { groups: Vec<Vec<usize>> },
}

impl Choice {
    /// Returns the choice for a reduction of `bytes` bytes over axes, given by their positions.
    pub(super) fn new(placed: &PlacedMesh, axes: &[usize], bytes: f64, strategy: Strategy) -> Result<Self> {
        let (machine, matrix) = (placed.machine(), placed.matrix());
        let groups = matrix.groups(axes).map_err(usage)?;
        let simulated = |lowered: &Lowered| simulate(machine, lowered, bytes, Algorithm::default()).map_err(usage);
        let one = direct(groups.clone())?;
        let time_of_one = simulated(&one)?;
        let (course, simulation) = match &strategy {
            Strategy::Direct => (Course::Program { program: None, lowered: one }, time_of_one.clone()),
            Strategy::Best => {
                let fastest = best(machine, matrix, axes, bytes).map_err(usage)?.into_iter().next();
                let Some(fastest) = fastest else {
                    panic!("{matrix} has no program for axes {axes:?}: this is a bug of polyshard")
                };
                let (program, lowered) = (Some(fastest.program), fastest.lowered);
                if let Err(error) = lowered.prove() {
                    panic!("a program of the planner is wrong: {error}; this is a bug of polyshard");
                }
                (Course::Program { program, lowered }, fastest.simulation)
            }
            Strategy::Program(program) => {
                let refused = |error: ReduceError| {
                    let over = over(placed, axes);
                    Error::Usage(format!("the program `{program}` does not reduce over {over} of {placed}: {error}"))
                };
                let lowered = Lowered::new(program, matrix, axes).map_err(refused)?;
                lowered.prove().map_err(refused)?;
                let simulation = simulated(&lowered)?;
                (Course::Program { program: Some(program.clone()), lowered }, simulation)
            }
            Strategy::Lowered(lowered) => {
                same_groups(placed, axes, lowered.reduced(), &groups)?;
                lowered.prove().map_err(|error| {
                    let over = over(placed, axes);
                    Error::Usage(format!("the steps do not reduce over {over} of {placed}: {error}"))
                })?;
                let simulation = simulated(lowered)?;
                (Course::Program { program: None, lowered: lowered.clone() }, simulation)
            }
            Strategy::Deterministic => {
                let groups = placed.groups(axes).map_err(usage)?;
                let mut simulation = Simulation::default();
                // All-to-all of the data, then the pieces back.
                let size = groups[0].len();
                for (operation, bytes) in [(Operation::AllToAll, bytes), (Operation::AllGather, bytes / size as f64)]
                    .into_iter()
                    .take(2 * usize::from(size > 1))
                {
                    let exchange = Exchange { operation, groups: groups.clone(), bytes };
                    simulation.steps.push(seconds(machine, &exchange, Algorithm::default()).map_err(usage)?);
                }
                (Course::InOrder { groups }, simulation)
            }
        };
        Ok(Self { strategy, course, simulation, direct: time_of_one })
    }
}

/// One all-reduce; nothing at all if no group has two ranks.
fn direct(groups: Vec<Vec<usize>>) -> Result<Lowered> {
    let step = LoweredStep { collective: Collective::AllReduce, groups: groups.clone().into(), parts: 1 };
    let steps = if groups.iter().any(|group| group.len() > 1) { vec![step] } else { vec![] };
    Lowered::from_steps(groups, 1, steps).map_err(usage)
}

/// Checks that steps given are for the groups of these axes, in whatever order.
fn same_groups(placed: &PlacedMesh, axes: &[usize], given: &[Vec<usize>], wanted: &[Vec<usize>]) -> Result<()> {
    let ascending = |groups: &[Vec<usize>]| {
        let mut groups = groups.to_vec();
        groups.iter_mut().for_each(|group| group.sort_unstable());
        groups.sort_unstable();
        groups
    };
    if ascending(given) == ascending(wanted) {
        return Ok(());
    }
    let over = over(placed, axes);
    Err(Error::Usage(format!(
        "the steps reduce in the groups {}, but over {over} of {placed} these are {}; make them for these groups",
        listed(given),
        listed(wanted)
    )))
}
