//! What a device and its links can do: the numbers that products are planned by.
//!
//! J. Austin et al., "How to Scale Your Model", parts 2 and 3, Google DeepMind, 2025.
//! A roofline holds no more than plans need, one number each; it knows nothing of hosts or of what is measured.

use super::ProductError;
use polyshard_layout::{Mesh, Name};

/// How the ranks along an axis are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wiring {
    /// To both neighbours, the last to the first: a ring, or one dimension of a torus.
    Ring,
    /// To both neighbours, the ends to one.
    Line,
    /// Each to all others through a switch, with a port of its own.
    Switch,
}

/// The links along one axis of a mesh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// How ranks are connected.
    pub wiring: Wiring,
    /// Bytes per second that one link carries in one direction, and in the other at the same time.
    pub bandwidth: f64,
    /// Seconds that a hop takes at least.
    pub latency: f64,
}

/// A device, and the links along each axis of a mesh of them.
///
/// ```
/// use polyshard_planner::product::{Link, Roofline, Wiring};
/// let link = Link { wiring: Wiring::Switch, bandwidth: 1e10, latency: 2e-6 };
/// let nodes = Roofline { flops: 1e12, memory_bandwidth: 1e11, memory_bytes: 64 << 30, links: vec![] }
///     .with_link("rows", link)
///     .with_link("columns", link);
/// assert_eq!(nodes.links.len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// Floating-point operations per second for the type in question; a multiplication and an addition are two.
    pub flops: f64,
    /// Bytes per second between a device and its memory.
    pub memory_bandwidth: f64,
    /// Bytes of memory that a device has for the arrays.
    pub memory_bytes: u128,
    /// Each axis that is connected, by name, and how.
    pub links: Vec<(Name, Link)>,
}

impl Roofline {
    /// Returns this roofline with links along an axis, in place of those it had.
    #[must_use]
    pub fn with_link(mut self, axis: impl Into<Name>, link: Link) -> Self {
        let axis = axis.into();
        self.links.retain(|(other, _)| *other != axis);
        self.links.push((axis, link));
        self
    }

    /// Checks the numbers, and that each axis with ranks to connect has links.
    pub(super) fn check(&self, mesh: &Mesh) -> Result<(), ProductError> {
        let refuse = |why: String| Err(ProductError::Machine(why));
        for (what, value) in [("flops", self.flops), ("memory_bandwidth", self.memory_bandwidth)] {
            if !(value > 0.0 && value.is_finite()) {
                return refuse(format!("`{what}` must be positive, found {value}"));
            }
        }
        for (axis, link) in &self.links {
            if !(link.bandwidth > 0.0 && link.bandwidth.is_finite()) {
                return refuse(format!("`{axis}`: bandwidth must be positive, found {}", link.bandwidth));
            }
            if !(link.latency >= 0.0 && link.latency.is_finite()) {
                return refuse(format!("`{axis}`: latency must be 0 or more, found {}", link.latency));
            }
        }
        match mesh.as_slice().iter().find(|axis| axis.extent > 1 && self.find(axis.name).is_none()) {
            Some(axis) => {
                let there: Vec<_> = self.links.iter().map(|(name, _)| format!("`{name}`")).collect();
                let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
                refuse(format!("no links along axis `{}` of ({mesh}); there are {there}: add `with_link`", axis.name))
            }
            None => Ok(()),
        }
    }

    /// The links along an axis by its position, which [`check`](Self::check) has found to be there.
    pub(super) fn link(&self, mesh: &Mesh, axis: usize) -> Link {
        self.find(mesh.as_slice()[axis].name).expect("axes with ranks have links: this is a bug of polyshard")
    }

    fn find(&self, axis: Name) -> Option<Link> {
        self.links.iter().find(|(name, _)| *name == axis).map(|(_, link)| *link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_layout::DType;

    #[test]
    fn machines_that_do_not_fit_are_refused() {
        let said = |refused: Result<_, ProductError>| refused.map(|_| ()).expect_err("refused").to_string();
        let cube = Mesh::new([("X", 4), ("Y", 4), ("Z", 4)]);
        assert_eq!(
            said(Roofline::preset("tpu-v5e", &cube, DType::Bf16)),
            "tpu-v5e is a torus of 2 dimensions, but [4, 4, 4] has 3; join some"
        );
        assert_eq!(
            said(Roofline::preset("tpu-v5p", &cube, DType::F64)),
            "tpu-v5p states no FLOP/s for f64, but for bf16, i8; plan for such a type, or add it"
        );
        let v5p = Roofline::preset("tpu-v5p", &cube, DType::Bf16).expect("it fits");
        let other = Mesh::new([("X", 4), ("W", 2)]);
        assert_eq!(
            v5p.check(&other).expect_err("no links").to_string(),
            "no links along axis `W` of (X: 4, W: 2); there are `X`, `Y`, `Z`: add `with_link`"
        );
        let link = Link { wiring: Wiring::Ring, bandwidth: 0.0, latency: 1e-6 };
        assert_eq!(
            v5p.clone().with_link("Z", link).check(&cube).expect_err("no bandwidth").to_string(),
            "`Z`: bandwidth must be positive, found 0"
        );
        let slow = Roofline { flops: f64::NAN, ..v5p };
        assert_eq!(slow.check(&cube).expect_err("no rate").to_string(), "`flops` must be positive, found NaN");
    }
}
