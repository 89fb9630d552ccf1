//! What a plan is judged by: elements, or seconds.

use super::problem::Cost;
use super::step::PlanStep;
use crate::PlanError;
use polyshard_layout::{Collective, Mesh, Name};

/// How plans are compared.
#[derive(Clone, Debug, PartialEq)]
pub enum CostModel {
    /// By the elements that a device sends (Rink et al., figure 11).
    Elements,
    /// By the seconds that links of this latency and bandwidth take.
    Links(Links),
}

/// Latency and bandwidth of the links between ranks.
///
/// A ring all-gather and a pairwise all-to-all of `n` ranks take `n - 1` messages, a permutation takes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    latency: f64,
    bandwidth: f64,
    along: Vec<(Name, f64)>,
}

impl Links {
    /// Returns links of this latency in seconds per message and bandwidth in bytes per second and rank.
    #[must_use]
    pub fn new(latency: f64, bandwidth: f64) -> Self {
        Self { latency, bandwidth, along: Vec::new() }
    }

    /// Sets the bandwidth of messages between ranks that differ along `axis`, more or less than that of the others.
    /// Where they differ along several, the lowest counts.
    #[must_use]
    pub fn along(mut self, axis: impl Into<Name>, bandwidth: f64) -> Self {
        self.along.push((axis.into(), bandwidth));
        self
    }

    pub(super) fn check(&self, mesh: &Mesh) -> Result<(), PlanError> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        if !(self.latency >= 0.0 && self.latency.is_finite()) {
            return Err(PlanError::Model(format!("latency must be 0 or more, found {}", self.latency)));
        }
        for (axis, bandwidth) in &self.along {
            if !positive(*bandwidth) {
                return Err(PlanError::Model(format!("`{axis}`: bandwidth must be positive, found {bandwidth}")));
            }
        }
        if !positive(self.bandwidth) {
            return Err(PlanError::Model(format!("bandwidth must be positive, found {}", self.bandwidth)));
        }
        match self.along.iter().find(|(axis, _)| mesh.position(*axis).is_none()) {
            Some((axis, _)) => {
                Err(PlanError::Model(format!("no axis `{axis}` to give a bandwidth; the mesh is ({mesh})")))
            }
            None => Ok(()),
        }
    }

    /// The seconds that a step takes.
    pub(super) fn seconds(&self, step: &PlanStep, element_bytes: usize) -> f64 {
        let mesh = step.from().mesh();
        let crossed = |axis: &usize| match step.op() {
            Collective::Permute => true,
            _ => step.axes().iter().any(|part| part.axis == *axis),
        };
        let along = |axis: usize| {
            let name = mesh.as_slice()[axis].name;
            self.along
                .iter()
                .rev()
                .find(|(given, _)| *given == name)
                .map_or(self.bandwidth, |(_, bandwidth)| *bandwidth)
        };
        let lowest = (0..mesh.ndim()).filter(crossed).map(along).reduce(f64::min);
        let bandwidth = lowest.unwrap_or(self.bandwidth);
        let (messages, elements) = match step.op() {
            Collective::Slice => (0, 0),
            Collective::Permute => (1, step.elements()),
            Collective::Exchange => (step.group_size() - 1, step.elements()),
            _ => (step.group_size() - 1, step.received(0) as Cost),
        };
        messages as f64 * self.latency + elements as f64 * element_bytes as f64 / bandwidth
    }
}
