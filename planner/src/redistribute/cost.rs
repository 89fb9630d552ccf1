//! The cost model of plans: elements, or seconds on a machine.

use super::plan::Plan;
use crate::PlanError;
use crate::cost::Prices;
use crate::placement::PlacedMesh;
use polyshard_layout::{DType, Mesh};
use polyshard_program::Program;
use std::sync::Arc;

/// How plans are compared.
#[derive(Clone, Debug, PartialEq)]
pub enum CostModel {
    /// By the elements that a device sends (Rink et al., figure 11).
    Elements,
    /// By the seconds of their programs on a machine with the mesh placed on it, as [`cost_on`](crate::cost_on) returns
    /// them.
    Seconds(Arc<PlacedMesh>),
}

impl CostModel {
    /// Checks that the model is for this mesh.
    pub(super) fn check(&self, mesh: &Mesh) -> Result<(), PlanError> {
        match self {
            Self::Seconds(placed) if placed.mesh() != mesh => {
                let (mesh, placed) = (mesh.to_string(), placed.mesh().to_string());
                Err(PlanError::Placed { mesh, placed })
            }
            _ => Ok(()),
        }
    }

    /// Returns the cheapest of plans for arrays of `dtype`; of equally cheap ones the first.
    pub(super) fn cheapest(&self, plans: impl Iterator<Item = Plan>, dtype: DType) -> Option<Plan> {
        match self {
            Self::Elements => plans.min_by_key(Plan::total_cost),
            Self::Seconds(placed) => {
                let prices = Prices::on(placed);
                let priced = plans.map(|plan| (prices.moves(&plan.program("A", dtype)), plan));
                priced.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, plan)| plan)
            }
        }
    }

    /// Returns the cost of a program of moves: its seconds, or the maximum of the bytes that a rank receives.
    pub(super) fn of_program(&self, program: &Program) -> f64 {
        match self {
            Self::Elements => program.report().traffic_bytes as f64,
            Self::Seconds(placed) => Prices::on(placed).moves(program),
        }
    }
}
