//! What a plan is judged by: elements, or seconds on a machine.

use super::step::PlanStep;
use crate::PlanError;
use crate::placement::PlacedMesh;
use polyshard_layout::{Collective, Mesh};
use polyshard_machine::{Algorithm, GroupedCollective, seconds};
use std::sync::Arc;

/// How plans are compared.
#[derive(Clone, Debug, PartialEq)]
pub enum CostModel {
    /// By the elements that a device sends (Rink et al., figure 11).
    Elements,
    /// By the seconds that their steps take on a machine on which the mesh is placed, one after the other.
    Seconds(Arc<PlacedMesh>),
}

impl CostModel {
    /// Checks that it is of this mesh.
    pub(super) fn check(&self, mesh: &Mesh) -> Result<(), PlanError> {
        match self {
            Self::Seconds(placed) if placed.mesh() != mesh => {
                let (mesh, placed) = (mesh.to_string(), placed.mesh().to_string());
                Err(PlanError::Placed { mesh, placed })
            }
            _ => Ok(()),
        }
    }
}

/// The seconds that a step takes: those of an all-gather whose pieces follow one another, or else of the messages between pairs of devices
/// that carry it out.
pub(super) fn step_seconds(placed: &PlacedMesh, step: &PlanStep, element_bytes: usize) -> f64 {
    let bytes = |elements: f64| elements * element_bytes as f64;
    let (operation, bytes) = match step.op() {
        Collective::Slice => return 0.0,
        Collective::Permute => (Collective::Permute, bytes(step.elements() as f64)),
        Collective::AllGather if step.is_gathered() => (Collective::AllGather, bytes(step.from().tile_len() as f64)),
        _ => {
            // Of what is held, the own part stays.
            let members = step.group_size() as f64;
            (Collective::Exchange, bytes(step.received_at_most() as f64) * members / (members - 1.0).max(1.0))
        }
    };
    let on_devices = |group: Vec<usize>| group.into_iter().map(|rank| placed.ranks()[rank]).collect();
    let groups = step.groups().into_iter().map(on_devices).collect();
    let taken = seconds(placed.machine(), &GroupedCollective { operation, groups, bytes }, Algorithm::Ring);
    taken
        .unwrap_or_else(|error| panic!("a placed mesh does not do `{step}`: {error}; this is a bug of polyshard"))
        .total()
}
