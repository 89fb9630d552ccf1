//! A redistribution problem: an array, and its grids of ranks before and after.

use polyshard::layout::AxisExpr;
use polyshard::prelude::*;
use polyshard_testing::bench::record::Case;
use std::fmt;
use std::str::FromStr;

/// An array of `f64`, filled from its global index, laid out by one grid and then by another.
pub(crate) struct Problem {
    /// The layout before.
    pub(crate) source: Sharding,
    /// The layout after.
    pub(crate) target: Sharding,
    grids: [Grid; 2],
    size: String,
}

impl Problem {
    /// Returns the problem for an array of `shape`, with the name `size` in the table. Dimensions that the grids lack
    /// stay whole.
    ///
    /// # Errors
    /// If `to` has another number of ranks than `from`, or ranks over several dimensions.
    pub(crate) fn new(from: Grid, to: Grid, shape: Vec<usize>, size: String) -> polyshard::Result<Self> {
        let ranks: usize = from.0.iter().product();
        // One axis for each dimension that the first grid cuts; the second grid uses all of them for one dimension.
        let cut: Vec<_> = (0..from.0.len()).filter(|&dim| from.0[dim] > 1).collect();
        let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(cut.iter().map(|&dim| from.0[dim])));
        let axes: Vec<_> = mesh.as_slice().iter().map(|axis| axis.name).collect();
        let dim = to.0.iter().position(|&over| over == ranks).filter(|_| ranks > 1 && to.0.len() == from.0.len());
        let dim = dim.ok_or_else(|| format!("`{to}` should have all ranks of `{from}`, at least 2, in one place"));
        let dim = dim.map_err(|message| polyshard::Error::Other(message.into()))?;
        let before = cut.iter().zip(&axes).map(|(&dim, &axis)| Placement::block(dim, AxisExpr::Axis(axis)));
        let before: Vec<_> = before.collect();
        let after = [Placement::block(dim, AxisExpr::List(axes))];
        let source = Sharding::new(&mesh, &shape, &before)?;
        let target = Sharding::new(&mesh, &shape, &after)?;
        Ok(Self { source, target, grids: [from, to], size })
    }

    /// Returns the problem of a transposition of slabs of complex numbers.
    ///
    /// # Errors
    /// If `ranks` is 0.
    pub(crate) fn slabs(ranks: usize, extent: usize) -> polyshard::Result<Self> {
        let [from, to] = [[ranks, 1, 1], [1, ranks, 1]].map(|extents| Grid(extents.to_vec()));
        Self::new(from, to, vec![extent, extent, extent, 2], format!("{extent}x{extent}x{extent}x2"))
    }

    /// Returns the element at a global index: its number in row-major order, from 1.
    pub(crate) fn element(&self, index: &[usize]) -> f64 {
        let shape = self.source.shape();
        1.0 + index.iter().zip(shape).fold(0.0, |number, (&i, &extent)| number * extent as f64 + i as f64)
    }

    /// Returns the array before.
    ///
    /// # Errors
    /// If the world has another number of ranks.
    pub(crate) fn before(&self, world: &World) -> polyshard::Result<DistArray<f64>> {
        Ok(DistArray::from_fn(world, &self.source, |index| self.element(index))?)
    }

    /// Returns whether this rank has its part of the array after.
    ///
    /// # Errors
    /// If the world has another number of ranks.
    pub(crate) fn arrived(&self, world: &World, array: &DistArray<f64>) -> polyshard::Result<bool> {
        let expected = DistArray::from_fn(world, &self.target, |index| self.element(index))?;
        Ok(*array.sharding() == self.target && expected.block() == array.block())
    }

    /// Returns the name of the problem in the table.
    pub(crate) fn case(&self, world: &World) -> Case {
        let [from, to] = &self.grids;
        Case::on(world, format_args!("{from}-{to}"), "f64", &self.size)
    }
}

/// Ranks over each dimension.
#[derive(Clone, Debug)]
pub(crate) struct Grid(Vec<usize>);

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(usize::to_string).collect::<Vec<_>>().join("x"))
    }
}

impl FromStr for Grid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let extents: Option<Vec<usize>> = text.split('x').map(|extent| extent.parse().ok()).collect();
        let two = extents.filter(|extents| extents.len() == 2);
        two.map(Self).ok_or_else(|| format!("`{text}` is no grid of two axes; write it as 2x2"))
    }
}
