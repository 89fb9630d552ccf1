//! Stages of a collective: the digits of coordinates along which its ranks communicate one after the other.
//!
//! A machine of several levels divides the ranks along an axis: ranks of a node are close to each other. A collective along the axis
//! can then be split into several, each along digits of the coordinate:
//!
//! ```text
//! axis x: 8 on 2 nodes of 4        x/4   {0 4} {1 5} {2 6} {3 7}        between nodes
//!                                  x%4   {0 1 2 3} {4 5 6 7}            inside of nodes
//! ```

use crate::{AxisPart, Mesh, joined};
use serde::{Deserialize, Serialize};

/// The stages of a collective along some axes, in the order in which data spread; reductions run them backwards.
///
/// Each rank of the collective's group is one combination of digits, one per part, and each combination is a rank. So the groups of a
/// stage, whose ranks differ in its digits alone, are disjoint and of one size, and the stages, which change one digit after the
/// other, connect each rank to every other.
///
/// ```
/// use polyshard::layout::{AxisPart, Stages};
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 8), ("y", 3)]);
/// let (inside, between) = AxisPart::whole(&mesh, 0).split(4);
/// let stages = Stages::new(&mesh, &[0], vec![vec![between], vec![inside]])?;
/// assert_eq!(stages.names(&mesh), ["x/4", "x%4"]);
/// let (refined, axes) = stages.refined(&mesh);
/// assert_eq!((refined.to_string().as_str(), axes), ("x/4: 2, x%4: 4, y: 3", vec![vec![0], vec![1]]));
/// let gap = Stages::new(&mesh, &[0], vec![vec![between], vec![AxisPart { extent: 2, ..inside }]]);
/// assert_eq!(gap.unwrap_err().to_string(), "the digits of axis x in its stages (x%2, x/4) do not make up 0..8");
/// # Ok::<(), polyshard::layout::StagesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stages(Vec<Vec<AxisPart>>);

/// Why parts of axes are not stages of a collective.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum StagesError {
    /// There are fewer than two stages, or one has no digits.
    #[error("it takes two stages or more, each with digits; found {stages}, {empty} of them without digits")]
    Few { stages: usize, empty: usize },
    /// A digit is of an axis along which the collective does not communicate.
    #[error("one of its stages has a digit of axis {axis}, but it communicates along axes {axes:?}")]
    OtherAxis { axis: usize, axes: Vec<usize> },
    /// A stage has its digits in another order than that of the ranks.
    #[error("one of its stages has the digits {digits}, which are not in the order of the axes, high digits first")]
    Order { digits: String },
    /// The digits of an axis do not make up its coordinates.
    #[error("the digits of axis {axis} in its stages ({digits}) do not make up 0..{extent}")]
    Digits { axis: String, digits: String, extent: usize },
}

impl Stages {
    /// Returns the stages of a collective along `axes`, given as positions; each stage is a list of digits.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn new(mesh: &Mesh, axes: &[usize], stages: Vec<Vec<AxisPart>>) -> Result<Self, StagesError> {
        let stages = Self(stages);
        stages.check(mesh, axes)?;
        Ok(stages)
    }

    /// Proves that each coordinate along the axes of a collective is one combination of digits.
    ///
    /// # Errors
    /// If there are fewer than two stages, one is empty, out of order or along another axis, or the digits of an axis do not make up
    /// its coordinates.
    pub fn check(&self, mesh: &Mesh, axes: &[usize]) -> Result<(), StagesError> {
        let empty = self.0.iter().filter(|parts| parts.is_empty()).count();
        if self.0.len() < 2 || empty > 0 {
            return Err(StagesError::Few { stages: self.0.len(), empty });
        }
        let other = self.0.iter().flatten().find(|part| !axes.contains(&part.axis) || part.axis >= mesh.ndim());
        if let Some(&AxisPart { axis, .. }) = other {
            return Err(StagesError::OtherAxis { axis, axes: axes.to_vec() });
        }
        let is_before = |a: &AxisPart, b: &AxisPart| a.axis < b.axis || a.axis == b.axis && a.stride > b.stride;
        if let Some(parts) = self.0.iter().find(|parts| !parts.is_sorted_by(is_before)) {
            return Err(StagesError::Order { digits: list(parts, mesh) });
        }
        for &axis in axes {
            let described = mesh.as_slice()[axis];
            let digits = self.digits(axis);
            let follow = digits
                .iter()
                .try_fold(1, |stride, part| (part.stride == stride && part.extent > 1).then(|| part.end()).flatten());
            if follow != Some(described.extent) {
                let (axis, digits) = (described.name.to_string(), list(&digits, mesh));
                return Err(StagesError::Digits { axis, digits, extent: described.extent });
            }
        }
        Ok(())
    }

    /// Returns the digits of each stage.
    #[must_use]
    pub fn parts(&self) -> &[Vec<AxisPart>] {
        &self.0
    }

    /// Returns the number of ranks in a group of each stage.
    pub fn sizes(&self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator + '_ {
        self.0.iter().map(|parts| parts.iter().map(|part| part.extent).product())
    }

    /// Returns the mesh of the same ranks that has an axis for each digit, and the axes of each stage in it.
    ///
    /// # Panics
    /// If they are not the stages of a collective on `mesh`.
    #[must_use]
    pub fn refined(&self, mesh: &Mesh) -> (Mesh, Vec<Vec<usize>>) {
        let whole = |axis: usize| vec![AxisPart::whole(mesh, axis)];
        let digits: Vec<Vec<AxisPart>> = (0..mesh.ndim())
            .map(|axis| {
                let mut digits = self.digits(axis);
                digits.reverse();
                if digits.is_empty() { whole(axis) } else { digits }
            })
            .collect();
        let extents: Vec<Vec<usize>> =
            digits.iter().map(|digits| digits.iter().map(|part| part.extent).collect()).collect();
        let all: Vec<AxisPart> = digits.concat();
        let position = |part: &AxisPart| all.iter().position(|other| other == part).expect("a digit of its axis");
        let axes = self.0.iter().map(|parts| parts.iter().map(position).collect()).collect();
        (mesh.refined(&extents), axes)
    }

    /// Returns each stage as text: `x/4`, or `y, x/4` if it is along several digits.
    #[must_use]
    pub fn names(&self, mesh: &Mesh) -> Vec<String> {
        self.0.iter().map(|parts| list(parts, mesh)).collect()
    }

    /// The digits of an axis, the lowest first.
    fn digits(&self, axis: usize) -> Vec<AxisPart> {
        let mut digits: Vec<_> = self.0.iter().flatten().filter(|part| part.axis == axis).copied().collect();
        digits.sort_unstable_by_key(|part| part.stride);
        digits
    }
}

fn list(parts: &[AxisPart], mesh: &Mesh) -> String {
    let shown = joined(parts.iter().map(|part| part.display(mesh)), ", ");
    if parts.is_empty() { "none".into() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(axis: usize, stride: usize, extent: usize) -> AxisPart {
        AxisPart { axis, stride, extent }
    }

    #[test]
    fn what_does_not_make_up_the_coordinates_is_refused() {
        let mesh = Mesh::new([("x", 8), ("y", 3)]);
        let refused = |axes: &[usize], stages: Vec<Vec<AxisPart>>| {
            Stages::new(&mesh, axes, stages).expect_err("it should be refused").to_string()
        };
        let [low, high] = [part(0, 1, 4), part(0, 4, 2)];
        for (axes, stages, why) in [
            (&[0][..], vec![vec![part(0, 1, 8)]], "found 1, 0 of them"),
            (&[0], vec![vec![high], vec![low], vec![]], "found 3, 1 of them without digits"),
            (&[0], vec![vec![high], vec![part(1, 1, 3)]], "a digit of axis 1, but it communicates along axes [0]"),
            (&[0, 7], vec![vec![high], vec![low, part(7, 1, 2)]], "a digit of axis 7"),
            (&[0, 1], vec![vec![part(1, 1, 3), high], vec![low]], "has the digits y, x/4, which are not in the order"),
            (&[0], vec![vec![part(0, 2, 4)], vec![low]], "x%4, x/2) do not make up 0..8"),
            (&[0, 1], vec![vec![high], vec![low]], "the digits of axis y in its stages (none) do not make up"),
            (&[0], vec![vec![part(0, usize::MAX, 2)], vec![low]], "do not make up 0..8"),
            (&[0], vec![vec![high], vec![low], vec![part(0, 1, 1)]], "do not make up 0..8"),
            (&[0], vec![vec![high], vec![low], vec![low]], "do not make up 0..8"),
        ] {
            let said = refused(axes, stages);
            assert!(said.contains(why), "{said}");
        }
    }

    proptest! {
        /// The stages connect each rank to each rank of its group exactly once, and the groups of a stage are disjoint.
        #[test]
        fn stages_lead_from_each_rank_to_each_other_one(
            factors in prop::collection::vec((2..4usize, 0..3usize), 2..5),
            other in 1..3usize,
        ) {
            prop_assume!(factors.iter().any(|(_, stage)| *stage == 0) && factors.iter().any(|(_, stage)| *stage > 0));
            let extent = factors.iter().map(|(extent, _)| extent).product();
            let mesh = Mesh::new([("a", other), ("x", extent)]);
            let mut parts = vec![Vec::new(); 3];
            let mut stride = 1;
            for &(extent, stage) in &factors {
                parts[stage].insert(0, part(1, stride, extent));
                stride *= extent;
            }
            parts.retain(|parts: &Vec<_>| !parts.is_empty());
            let stages = Stages::new(&mesh, &[1], parts).expect("they are stages");
            let (refined, axes) = stages.refined(&mesh);
            for rank in 0..mesh.size() {
                let mut reached = vec![rank];
                for axes in &axes {
                    let next = reached.iter().flat_map(|&from| refined.members(&refined.coordinates(from), axes));
                    reached = next.map(|at| refined.rank(&at)).collect();
                }
                reached.sort_unstable();
                let group: Vec<_> = mesh.members(&mesh.coordinates(rank), &[1]).map(|at| mesh.rank(&at)).collect();
                prop_assert_eq!(reached, group);
            }
        }
    }
}
