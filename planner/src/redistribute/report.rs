//! Plans as data for other programs.

use super::plan::Plan;
use super::problem::Cost;
use polyshard_layout::Collective;
use serde::Serialize;

/// A plan's figures and steps, to be written as JSON or TOML. Elements, not bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// See [`Plan::weak_cost`].
    pub weak_cost: Cost,
    /// See [`Plan::total_cost`].
    pub total_cost: Cost,
    /// See [`Plan::peak`].
    pub peak: usize,
    /// See [`Plan::naive_cost`].
    pub naive_cost: Cost,
    /// See [`Plan::exchange_total`].
    pub exchange_total: Cost,
    /// Whether a step permutes tiles.
    pub permute: bool,
    /// The steps.
    pub steps: Vec<StepReport>,
}

/// One step of a [`Report`].
#[derive(Clone, Debug, Serialize)]
pub struct StepReport {
    /// The operation.
    pub op: Collective,
    /// The type before.
    pub from: String,
    /// The type after.
    pub to: String,
    /// The axes, or digits of axes, that leave or come.
    pub axes: Vec<String>,
    /// The groups of ranks in which something moves; the cycles of a permutation, each rank before the one that it
    /// gives its tile to.
    pub groups: Vec<Vec<usize>>,
    /// See [`PlanStep::elements`](super::PlanStep::elements).
    pub elements: Cost,
}

impl Plan {
    /// Returns the plan's figures and steps as data.
    #[must_use]
    pub fn report(&self) -> Report {
        let steps = self.steps().iter().map(|step| StepReport {
            op: step.op(),
            from: step.from().to_string(),
            to: step.to().to_string(),
            axes: step.axes().iter().map(|part| part.display(self.source().mesh()).to_string()).collect(),
            groups: step.groups(),
            elements: step.elements(),
        });
        Report {
            weak_cost: self.weak_cost(),
            total_cost: self.total_cost(),
            peak: self.peak(),
            naive_cost: self.naive_cost(),
            exchange_total: self.exchange_total(),
            permute: self.permutes(),
            steps: steps.collect(),
        }
    }
}
