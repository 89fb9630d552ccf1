//! Partial sums: which ranks hold the terms, and whether they may become those of another sharding.

use super::Sharding;
use crate::{Name, in_order, joined};

impl Sharding {
    /// Returns the positions of the axes along which each coordinate holds a term of the sum, ascending; none if the
    /// array is not a sum.
    ///
    /// ```
    /// use polyshard::layout::AxisExpr;
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("z", 3)]);
    /// let open = Sharding::new(&mesh, &[4], &[Placement::block(0, AxisExpr::axis("x")), Placement::partial("z")])?;
    /// assert_eq!((open.partial(), open.to_string()), (&[1][..], "[0 @ x, partial(z)]".into()));
    /// assert_eq!(open.closed().to_string(), "[0 @ x]");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn partial(&self) -> &[usize] {
        &self.partial
    }

    /// Returns the names of the axes along which each coordinate holds a term of the sum.
    #[must_use]
    pub fn partial_axes(&self) -> Vec<Name> {
        self.partial.iter().map(|&axis| self.mesh.as_slice()[axis].name).collect()
    }

    /// Returns the sharding of the reduced sum if each coordinate of the axes that now hold terms owns it.
    #[must_use]
    pub fn closed(&self) -> Self {
        self.closed_along(&self.partial)
    }

    /// As [`closed`](Self::closed), along these axes, given as positions; sums along others stay open.
    #[must_use]
    pub fn closed_along(&self, axes: &[usize]) -> Self {
        let partial = self.partial.iter().copied().filter(|axis| !axes.contains(axis)).collect();
        Self { partial, ..self.clone() }
    }

    /// Returns the sharding of partial sums of which each coordinate along these axes, given as positions, holds a term, on the
    /// ranks that own the array now. Along each of these axes, all coordinates own the same elements.
    #[must_use]
    pub fn opened_along(&self, axes: &[usize]) -> Self {
        Self { partial: in_order([&self.partial[..], axes].concat()), ..self.clone() }
    }

    /// Returns the positions of the axes along which `target`, a sharding of the same array over as many ranks, closes the sums
    /// that are open here.
    ///
    /// Sums stay open where the target has partial sums too, and each term must then stay on the ranks that hold it. This holds
    /// on one mesh, and on two meshes if the axes of the terms divide the ranks in the same way:
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let open = |extents: &[(&str, usize)]| {
    ///     Sharding::new(&Mesh::new(extents.iter().copied()), &[8], &[Placement::partial("z")])
    /// };
    /// let source = open(&[("x", 2), ("y", 2), ("z", 4)])?;
    /// assert_eq!(source.closed_axes(&source.closed()), Ok(vec![2]));
    /// assert_eq!(source.closed_axes(&open(&[("x", 4), ("z", 4)])?), Ok(vec![]));
    /// assert_eq!(
    ///     source.closed_axes(&open(&[("x", 8), ("z", 2)])?).expect_err("other ranks hold the terms").to_string(),
    ///     "partial sums along z of the mesh (x: 2, y: 2, z: 4) have their terms on other ranks than those along z of the \
    ///      mesh (x: 8, z: 2), so terms would be lost or count twice; add them up first, by a sharding over the first mesh \
    ///      without `partial`"
    /// );
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`SumsError`] if the target has sums where none are open, closes some on another mesh, or has their terms on other ranks.
    pub fn closed_axes(&self, target: &Self) -> Result<Vec<usize>, SumsError> {
        if self.mesh == target.mesh {
            if let Some(&axis) = target.partial.iter().find(|axis| !self.partial.contains(axis)) {
                return Err(self.opens(target, axis));
            }
            return Ok(self.partial.iter().copied().filter(|axis| !target.partial.contains(axis)).collect());
        }
        if self.term_digits() == target.term_digits() {
            return Ok(Vec::new());
        }
        let [from, to] = [self, target].map(|sharding| Box::new(sharding.clone()));
        match (&self.partial[..], &target.partial[..]) {
            ([], [axis, ..]) => Err(self.opens(target, *axis)),
            (_, []) => Err(SumsError::ClosedAcrossMeshes { from, to }),
            _ => Err(SumsError::OtherRanks { from, to }),
        }
    }

    fn opens(&self, target: &Self, axis: usize) -> SumsError {
        let [from, to] = [self, target].map(|sharding| Box::new(sharding.clone()));
        SumsError::Opens { from, to, axis: target.mesh.as_slice()[axis].name }
    }

    /// The digits `rank / stride % extent` that number the terms, as strides and extents: two shardings have the terms on the
    /// same ranks if these are equal.
    fn term_digits(&self) -> Vec<(usize, usize)> {
        let mut digits: Vec<(usize, usize)> = Vec::new();
        let mut stride = 1;
        for (axis, &extent) in self.mesh.extents().iter().enumerate().rev() {
            if self.partial.contains(&axis) {
                match digits.last_mut() {
                    // Adjacent digits are merged.
                    Some((start, count)) if *start * *count == stride => *count *= extent,
                    _ => digits.push((stride, extent)),
                }
            }
            stride *= extent;
        }
        digits
    }
}

/// Why the partial sums of one sharding cannot become those of another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum SumsError {
    /// The target has partial sums along an axis where the source has none.
    #[error(
        "an array sharded {from} cannot be redistributed to {to}: its elements are not partial sums along {axis}, and \
         a redistribution does not make any; leave that `partial` out"
    )]
    Opens { from: Box<Sharding>, to: Box<Sharding>, axis: Name },
    /// Partial sums are to be closed, but source and target are on different meshes.
    #[error(
        "partial sums of an array on the mesh ({}) cannot be added up on the mesh ({}); write both shardings over one \
         mesh",
        .from.mesh,
        .to.mesh
    )]
    ClosedAcrossMeshes { from: Box<Sharding>, to: Box<Sharding> },
    /// Source and target are on different meshes, of which the target's has the terms on other ranks.
    #[error(
        "partial sums along {} of the mesh ({}) have their terms on other ranks than those along {} of the mesh ({}), \
         so terms would be lost or count twice; add them up first, by a sharding over the first mesh without `partial`",
        joined(.from.partial_axes(), ", "),
        .from.mesh,
        joined(.to.partial_axes(), ", "),
        .to.mesh
    )]
    OtherRanks { from: Box<Sharding>, to: Box<Sharding> },
}
