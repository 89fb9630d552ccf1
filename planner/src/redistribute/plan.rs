//! Plans: the steps of a redistribution, and their cost.

use super::problem::Cost;
use super::step::PlanStep;
use super::volume;
use crate::DistType;
use crate::cost::Prices;
use crate::part::extent;
use crate::placement::PlacedMesh;
use polyshard_layout::{Collective, DType, Sharding};

/// How an array gets from one distributed type to another.
///
/// A plan is a value: it can be printed, stored and run many times.
///
/// ```
/// use polyshard::planner::{Plan, PlanOptions};
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 4)]);
/// let [rows, columns] = [0, 1].map(|dim| Sharding::new(&mesh, &[8, 8], &[Placement::block(dim, "x")]));
/// let plan = Plan::between(&rows?, &columns?, &PlanOptions::default())?;
/// assert_eq!(plan.steps().len(), 1); // one all-to-all
/// assert_eq!(plan.received(0), 12); // of the 16 elements of a tile
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(super) source: DistType,
    pub(super) target: DistType,
    pub(super) steps: Vec<PlanStep>,
    pub(super) weak_cost: Cost,
    /// The source and target shardings, where they differ from the types.
    pub(super) shardings: Option<Box<[Sharding; 2]>>,
}

impl Plan {
    pub(super) fn from_steps(source: &DistType, target: &DistType, steps: Vec<PlanStep>, weak_cost: Cost) -> Self {
        Self { source: source.clone(), target: target.clone(), steps, weak_cost, shardings: None }
    }

    /// Returns the type that the array has before.
    #[must_use]
    pub fn source(&self) -> &DistType {
        &self.source
    }

    /// Returns the type that the array has afterwards.
    #[must_use]
    pub fn target(&self) -> &DistType {
        &self.target
    }

    /// Returns the steps; none if every rank already has its tile.
    #[must_use]
    pub fn steps(&self) -> &[PlanStep] {
        &self.steps
    }

    /// Returns the cost of the cheapest sequence of operations if tiles may end on any ranks, in elements as
    /// [`total_cost`](Self::total_cost). For a direct exchange, its own cost.
    #[must_use]
    pub fn weak_cost(&self) -> Cost {
        self.weak_cost
    }

    /// Returns the cost of all steps, in elements (Rink et al., figure 11): the sum of each step's
    /// [`elements`](PlanStep::elements). A device [receives](Self::received) less, since whole tiles count, including
    /// the part that stays.
    #[must_use]
    pub fn total_cost(&self) -> Cost {
        self.steps.iter().map(PlanStep::elements).sum()
    }

    /// Returns the elements of the largest tile, intermediate tiles included.
    #[must_use]
    pub fn peak(&self) -> usize {
        let tiles = self.source.tile_len().max(self.target.tile_len());
        self.steps.iter().map(PlanStep::peak).fold(tiles, usize::max)
    }

    /// Returns the cost of gathering the whole array on every rank, dimension after dimension, and slicing it.
    #[must_use]
    pub fn naive_cost(&self) -> Cost {
        let factors = self.source.dims().iter().map(|dim| extent(&dim.parts)).filter(|&factor| factor > 1);
        let tiles = factors.scan(self.source.tile_len() as Cost, |tile, factor| {
            *tile *= factor as Cost;
            Some(*tile)
        });
        tiles.sum()
    }

    /// Returns the elements that devices need and lack, summed over all devices: a lower bound of the transfer.
    #[must_use]
    pub fn exchange_total(&self) -> Cost {
        volume::total_received(&self.source, &self.target)
    }

    /// Returns whether a step permutes tiles.
    #[must_use]
    pub fn permutes(&self) -> bool {
        self.steps.iter().any(|step| step.op() == Collective::Permute)
    }

    /// Returns the elements that `rank` receives from other ranks, over all steps.
    ///
    /// # Panics
    /// If the mesh has no such rank.
    #[must_use]
    pub fn received(&self, rank: usize) -> usize {
        self.steps.iter().map(|step| step.received(rank)).sum()
    }

    /// Returns the minimum and the maximum, over ranks, of the elements received from others in all steps.
    pub(super) fn received_range(&self) -> [usize; 2] {
        let received = (0..self.source.mesh().size()).map(|rank| self.received(rank));
        received.fold([usize::MAX, 0], |[min, max], elements| [min.min(elements), max.max(elements)])
    }

    /// Returns the elements that all ranks receive from others, over all steps.
    pub(super) fn received_by_all(&self) -> Cost {
        self.steps.iter().map(PlanStep::received_by_all).sum()
    }

    /// Returns the seconds that the plan's [program](Self::program) takes for an array of `dtype` on a machine on which
    /// the mesh is placed, as [`cost_on`](crate::cost_on) returns them; slices that end a plan are copied.
    ///
    /// # Panics
    /// If another mesh is placed.
    #[must_use]
    pub fn seconds(&self, placed: &PlacedMesh, dtype: DType) -> f64 {
        assert_eq!(placed.mesh(), self.source.mesh(), "the plan's mesh is to be placed");
        Prices::on(placed).moves(&self.program("A", dtype))
    }
}
