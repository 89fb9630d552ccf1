//! Plans: the groups of a placed mesh that reduce, and their steps.
//!
//! Every strategy becomes a program lowered to the machine's devices, or one fixed order. A program from elsewhere is
//! proved before anything is made for it: a wrong one would silently give a wrong sum. All ranks choose the same plan
//! without communication, since choosing is arithmetic.

use super::choice::{ReduceOptions, Simulation, best};
use super::error::ReduceError;
use super::instruction::ReductionProgram;
use crate::cost::Prices;
use crate::placement::{AxisRef, PlacedMesh};
use polyshard_layout::{Name, Placement, Sharding};
use polyshard_machine::Collective;
use polyshard_program::reduction::{Lowered, LoweredStep, Procedure, listed};
use polyshard_program::{self as data, DType};

/// How a reduction runs.
///
/// ```
/// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
/// use polyshard::planner::reduce::Strategy;
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?.with_counts(&[2, 2])?;
/// let placed = PlacedMesh::new(&Mesh::new([("data", 4)]), &machine, &ParallelismMatrix::new(vec![vec![2, 2]])?)?;
/// let seconds = |strategy| {
///     let sum = placed.reduction(&["data"], 1 << 20, DType::F32, strategy)?;
///     Ok::<_, polyshard::Error>(sum.simulation().total())
/// };
/// assert!(seconds(Strategy::Best)? < seconds(Strategy::Direct)?);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Strategy {
    /// In one all-reduce of each group.
    Direct,
    /// By the fastest program of at most five steps on the machine of the placement, by the machine's model
    /// ([`best`](super::best)).
    #[default]
    Best,
    /// By this program, lowered for the placement and proved.
    Program(ReductionProgram),
    /// By these steps, which may be written by hand or for no hierarchy at all; they are proved.
    Lowered(Lowered),
    /// In the order of the mesh's coordinates: the same bits for every placement and every number of ranks per node, on
    /// threads and on MPI, at the price of a step in which all ranks exchange with all.
    Deterministic,
}

/// A reduction of arrays of one length over axes of a placed mesh; made by [`PlacedMesh::reduction`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReductionPlan {
    pub(super) placed: PlacedMesh,
    /// Positions in the mesh, ascending.
    pub(super) axes: Vec<usize>,
    pub(super) elements: usize,
    pub(super) dtype: DType,
    pub(super) strategy: Strategy,
    /// The program of which the steps were lowered, if any.
    pub(super) instructions: Option<ReductionProgram>,
    /// In the machine's ranks.
    pub(super) procedure: Procedure,
    pub(super) simulation: Simulation,
    /// The time of one all-reduce.
    pub(super) direct: Simulation,
}

impl PlacedMesh {
    /// Plans the reduction of arrays of `elements` elements of `dtype` over `axes`, each a name or a position.
    ///
    /// ```
    /// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
    /// use polyshard::planner::reduce::Strategy;
    /// use polyshard::prelude::*;
    /// let machine = Machine::preset("a100")?.with_counts(&[2, 2])?;
    /// let matrix = ParallelismMatrix::new(vec![vec![2, 2]])?;
    /// let placed = PlacedMesh::new(&Mesh::new([("data", 4)]), &machine, &matrix)?;
    /// let sum = placed.reduction(&["data"], 1 << 20, DType::F32, Strategy::Best)?;
    /// assert!(sum.explain().contains("ReduceScatter(node, InsideGroup)"), "{}", sum.explain());
    /// assert_eq!(sum.program("G").to_string(), "\
    /// program over (data: 4), f32
    ///     input         G[1048576]: [partial(data)]
    ///  1  move          G' = G: [partial(data)] to replicated, all_reduce(data) by ReduceScatter-AllReduce-AllGather
    ///     output        G'[1048576]: replicated
    /// ");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, the elements exceed any memory, or a given program cannot be
    /// lowered, does not compute the reduction or is for other groups.
    ///
    /// # Panics
    /// If a synthesised program cannot be proved: a bug in polyshard.
    pub fn reduction<A: AxisRef>(
        &self,
        axes: &[A],
        elements: usize,
        dtype: DType,
        strategy: Strategy,
    ) -> Result<ReductionPlan, ReduceError> {
        let most = isize::MAX as usize / dtype.size();
        if elements > most {
            return Err(ReduceError::TooLong { elements, dtype, most });
        }
        let axes = self.positions(axes)?;
        let bytes = elements as f64 * dtype.size() as f64;
        let (machine, matrix) = (self.machine(), self.matrix());
        let groups = matrix.groups(&axes)?;
        let prices = Prices::new(machine);
        let priced = |procedure: &Procedure| -> Result<Simulation, ReduceError> {
            Ok(Simulation { steps: prices.procedure(procedure, bytes)? })
        };
        let one = Procedure::by_steps(direct(groups.clone())?)?;
        let direct = priced(&one)?;
        let mut instructions = None;
        let procedure = match &strategy {
            Strategy::Direct => one,
            Strategy::Best => {
                let Some(fastest) = best(machine, matrix, &axes, bytes, &ReduceOptions::default())?.into_iter().next()
                else {
                    panic!("{matrix} has no program for axes {axes:?}: this is a bug in polyshard")
                };
                instructions = Some(fastest.program);
                Procedure::by_steps(fastest.lowered).unwrap_or_else(|error| {
                    panic!("a program of the planner is wrong: {error}; this is a bug in polyshard")
                })
            }
            Strategy::Program(program) => {
                let refused = |why: ReduceError| ReduceError::WrongProgram {
                    program: program.to_string(),
                    over: self.named(&axes),
                    placed: self.to_string(),
                    why: Box::new(why),
                };
                let lowered = program.lower(matrix, &axes).map_err(refused)?;
                instructions = Some(program.clone());
                Procedure::by_steps(lowered).map_err(|error| refused(error.into()))?
            }
            Strategy::Lowered(lowered) => {
                self.same_groups(&axes, lowered.reduced(), &groups)?;
                Procedure::by_steps(lowered.clone()).map_err(|why| ReduceError::WrongSteps {
                    over: self.named(&axes),
                    placed: self.to_string(),
                    why: Box::new(why),
                })?
            }
            // An all-to-all of the data, then an all-gather of the pieces.
            Strategy::Deterministic => Procedure::in_order(self.groups(&axes)?)?,
        };
        let (simulation, placed) = (priced(&procedure)?, self.clone());
        Ok(ReductionPlan { placed, axes, elements, dtype, strategy, instructions, procedure, simulation, direct })
    }

    /// The axes, as text.
    pub(super) fn named(&self, axes: &[usize]) -> String {
        match axes {
            [] => "no axis".into(),
            axes => {
                let names = axes.iter().map(|&axis| format!("`{}`", self.mesh().as_slice()[axis].name));
                names.collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// Checks that given steps are for the groups of these axes, in any order.
    fn same_groups(&self, axes: &[usize], given: &[Vec<usize>], wanted: &[Vec<usize>]) -> Result<(), ReduceError> {
        let ascending = |groups: &[Vec<usize>]| {
            let mut groups = groups.to_vec();
            groups.iter_mut().for_each(|group| group.sort_unstable());
            groups.sort_unstable();
            groups
        };
        if ascending(given) == ascending(wanted) {
            return Ok(());
        }
        let [given, wanted] = [given, wanted].map(|groups| listed(groups).into());
        let (over, placed) = (self.named(axes).into(), self.to_string().into());
        Err(ReduceError::OtherGroups { given, over, placed, wanted })
    }
}

/// One all-reduce; nothing if no group has two ranks.
fn direct(groups: Vec<Vec<usize>>) -> Result<Lowered, ReduceError> {
    let step = LoweredStep { collective: Collective::AllReduce, groups: groups.clone().into(), parts: 1 };
    let steps = if groups.iter().any(|group| group.len() > 1) { vec![step] } else { vec![] };
    Ok(Lowered::from_steps(groups, 1, steps)?)
}

impl ReductionPlan {
    /// Returns the program of the reduction: it closes an array named `array` of partial sums along the axes. Its ranks
    /// are those of the mesh.
    ///
    /// # Panics
    /// If the groups are not those along the axes: a bug in polyshard.
    #[must_use]
    pub fn program(&self, array: impl Into<Name>) -> data::Program {
        let mesh = self.placed.mesh();
        let along: Vec<_> = self.axes.iter().map(|&axis| Placement::partial(mesh.as_slice()[axis].name)).collect();
        let [source, target] = [&along[..], &[]].map(|placements| {
            Sharding::new(mesh, &[self.elements], placements)
                .unwrap_or_else(|error| panic!("an array has no sharding: {error}; this is a bug in polyshard"))
        });
        data::Program::reduction(array, [&source, &target], self.dtype, data::Assign::Add, self.procedure_in_mesh())
            .unwrap_or_else(|error| panic!("a reduction is no program: {error}; this is a bug in polyshard"))
    }

    /// Returns the groups and steps of the reduction, in the machine's ranks.
    #[must_use]
    pub fn procedure(&self) -> &Procedure {
        &self.procedure
    }

    /// Returns the same procedure in the ranks of the mesh.
    ///
    /// # Panics
    /// If devices are not ranks of the mesh: a bug in polyshard.
    #[must_use]
    pub fn procedure_in_mesh(&self) -> Procedure {
        let procedure = self.procedure.renumbered(|device| self.placed.mesh_rank(device));
        procedure.unwrap_or_else(|error| panic!("devices have no ranks: {error}; this is a bug in polyshard"))
    }

    /// Returns the placed mesh.
    #[must_use]
    pub fn placed(&self) -> &PlacedMesh {
        &self.placed
    }

    /// Returns the positions in the mesh of the axes that are reduced over, ascending.
    #[must_use]
    pub fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Returns the axes that are reduced over, as text: `x`, `y`, each in backticks.
    #[must_use]
    pub fn axis_names(&self) -> String {
        self.placed.named(&self.axes)
    }

    /// Returns the number of elements of the arrays.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// Returns the element type of the arrays.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the strategy.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Returns the steps, in groups of devices; none for [`Deterministic`](Strategy::Deterministic).
    #[must_use]
    pub fn lowered(&self) -> Option<&Lowered> {
        self.procedure.steps()
    }

    /// Returns the reduction's time on the machine of the placement, by its model.
    #[must_use]
    pub fn simulation(&self) -> &Simulation {
        &self.simulation
    }
}
