//! The four cases of the literature, for each axis of the mesh.
//!
//! The literature names cases for one axis at a time; a product over several axes is of the last case that any
//! of them is of, since that is where something must be done first. Cases describe a product as it is written.
//! What is done about it is up to the search, which does not ask for them.

use super::Product;
use polyshard_layout::Name;
use polyshard_planner::{Sharded, subscript};
use std::fmt;

/// How the factors of a product are cut (J. Austin et al., "How to Scale Your Model", part 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Case {
    /// Case 1: no factor is sharded along a contracted dimension; local products are the result.
    NotContracted,
    /// Case 3: both factors are sharded in the same way along a contracted dimension; local products are terms of a sum.
    BothContracted,
    /// Case 2: a dimension of both factors is cut in one and not, or otherwise, in the other.
    OneContracted,
    /// Case 4: one axis cuts a dimension of one factor alone and another of the other alone.
    SameAxis,
}

impl Case {
    /// Returns its number in the literature.
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            Self::NotContracted => 1,
            Self::OneContracted => 2,
            Self::BothContracted => 3,
            Self::SameAxis => 4,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::NotContracted => "no factor is sharded along a contracted dimension",
            Self::OneContracted => "the factors shard a dimension that they share differently",
            Self::BothContracted => "both factors are sharded in the same way along a contracted dimension",
            Self::SameAxis => "one axis shards a dimension of each factor that the other lacks",
        };
        write!(f, "case {}: {what}", self.number())
    }
}

impl Product {
    /// Returns the case of the product: of its axes' cases the one that asks for most, 4 before 2 before 3 before 1.
    #[must_use]
    pub fn case(&self) -> Case {
        self.cases().into_iter().map(|(_, case)| case).max().unwrap_or(Case::NotContracted)
    }

    /// Returns the case of each axis that cuts a factor.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::search::product::{Case, Product};
    /// let mesh = Mesh::new([("X", 2), ("Y", 2)]);
    /// let sizes = [("I", 4), ("J", 4), ("K", 4)];
    /// let product = Product::new("A[I_X, J_Y] * B[J_Y, K_X] -> C[I_X, K]", &mesh, &sizes, DType::F64)?;
    /// let cases: Vec<_> = product.cases().iter().map(|(axis, case)| (axis.as_str(), case.number())).collect();
    /// assert_eq!(cases, [("X", 4), ("Y", 3)]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn cases(&self) -> Vec<(Name, Case)> {
        let axes = self.mesh.as_slice().iter().enumerate().filter(|(_, axis)| axis.extent > 1);
        axes.filter_map(|(position, axis)| Some((axis.name, self.case_of(position)?))).collect()
    }

    fn case_of(&self, axis: usize) -> Option<Case> {
        let (left, right) = (cut(&self.left, axis), cut(&self.right, axis));
        let shared = |name: &String| self.left.names().contains(name) && self.right.names().contains(name);
        if left.is_none() && right.is_none() {
            return None;
        }
        Some(if left == right {
            let contracts = left.is_some_and(|(name, _)| self.contracts(name));
            if contracts { Case::BothContracted } else { Case::NotContracted }
        } else if [&left, &right].iter().any(|cut| cut.as_ref().is_some_and(|(name, _)| shared(name))) {
            Case::OneContracted
        } else if left.is_some() && right.is_some() {
            Case::SameAxis
        } else {
            Case::NotContracted
        })
    }

    /// Says which shared dimension the factors do not cut alike, if one is.
    pub(super) fn disagreement(&self) -> Option<String> {
        let (left, right) = (self.left.axes(), self.right.axes());
        let written = |axes: &[usize]| match axes {
            [] => "not at all".to_owned(),
            axes => format!("by `{}`", subscript(&self.mesh, axes)),
        };
        self.left.names().iter().zip(&left).find_map(|(name, here)| {
            let there = &right[self.right.names().iter().position(|other| other == name)?];
            let (a, b) = (self.left.tensor(), self.right.tensor());
            let said = || format!("`{name}` is cut {} in `{a}` and {} in `{b}`", written(here), written(there));
            (here != there).then(said)
        })
    }
}

/// The dimension that an axis cuts, and all axes that do.
fn cut(array: &Sharded, axis: usize) -> Option<(&String, Vec<usize>)> {
    let dims = array.axes();
    let at = dims.iter().position(|axes| axes.contains(&axis))?;
    Some((&array.names()[at], dims[at].clone()))
}
