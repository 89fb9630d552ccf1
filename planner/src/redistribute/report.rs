//! Plans as data for other programs.
//!
//! Units are in the fields' names.

use super::plan::Plan;
use super::problem::Cost;
use polyshard_layout::Collective;
use serde::Serialize;

/// A plan's figures and steps for elements of one size, to be written as JSON or TOML.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Bytes of an element.
    pub element_bytes: usize,
    /// See [`Plan::total_cost`].
    pub cost_bytes: Cost,
    /// See [`Plan::weak_cost`].
    pub weak_cost_bytes: Cost,
    /// See [`Plan::naive_cost`].
    pub naive_cost_bytes: Cost,
    /// The maximum that any device receives.
    pub received_bytes_max: Cost,
    /// The sum that all devices receive.
    pub received_bytes_total: Cost,
    /// The minimum that all devices must receive together, by any plan: see [`Plan::exchange_total`].
    pub lacking_bytes_total: Cost,
    /// See [`Plan::peak`].
    pub peak_bytes: Cost,
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
    /// The source type.
    pub from: String,
    /// The target type.
    pub to: String,
    /// The axes, or digits of axes, along which the ranks of a group differ.
    pub axes: Vec<String>,
    /// The groups of ranks between which elements move; for a permutation its cycles, each rank before the receiver of
    /// its tile.
    pub groups: Vec<Vec<usize>>,
    /// See [`PlanStep::elements`](super::PlanStep::elements).
    pub cost_bytes: Cost,
    /// The maximum that any device receives.
    pub received_bytes_max: Cost,
}

impl Plan {
    /// Returns the plan's figures and steps as data, for elements of `element_bytes` bytes.
    #[must_use]
    pub fn report(&self, element_bytes: usize) -> Report {
        let bytes = |elements: Cost| elements * element_bytes as Cost;
        let steps = self.steps().iter().map(|step| StepReport {
            op: step.op(),
            from: step.from().to_string(),
            to: step.to().to_string(),
            axes: step.axis_names(),
            groups: step.groups(),
            cost_bytes: bytes(step.elements()),
            received_bytes_max: bytes(step.received_at_most()),
        });
        let [_, received_max] = self.received_range();
        Report {
            element_bytes,
            cost_bytes: bytes(self.total_cost()),
            weak_cost_bytes: bytes(self.weak_cost()),
            naive_cost_bytes: bytes(self.naive_cost()),
            received_bytes_max: bytes(received_max as Cost),
            received_bytes_total: bytes(self.received_by_all()),
            lacking_bytes_total: bytes(self.exchange_total()),
            peak_bytes: bytes(self.peak() as Cost),
            permute: self.permutes(),
            steps: steps.collect(),
        }
    }
}
