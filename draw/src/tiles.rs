//! The contents of a picture of a plan: the part of the array that each rank holds, and its first owner.
//!
//! A page has two directions. They are the first two dimensions that are ever cut; of the others,
//! text says which part a rank holds.

use crate::shapes::drawn_dims;
use polyshard_layout::joined;
use polyshard_planner::{DistType, Plan};
use std::iter;
use std::ops::Range;

/// The array as drawn.
pub(crate) struct Tiles<'a> {
    plan: &'a Plan,
    /// The dimensions drawn downwards and across; `None` if the array has too few.
    dims: [Option<usize>; 2],
    /// The other dimensions that are ever cut.
    others: Vec<usize>,
    /// For each tile of the source, by number, the first rank that has it.
    owners: Vec<usize>,
}

/// A part of a tile that one rank held at first.
pub(crate) struct Cell {
    /// Indices drawn downwards and across.
    pub(crate) ranges: [Range<usize>; 2],
    /// The tile of the source that it belongs to.
    pub(crate) tile: usize,
    /// The first rank that had that tile.
    pub(crate) owner: usize,
}

impl<'a> Tiles<'a> {
    /// Returns the tiles of the array that a plan moves.
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let types = || [plan.source(), plan.target()].into_iter().chain(plan.steps().iter().map(|step| step.to()));
        let ndim = plan.source().ndim();
        let is_cut = |dim: usize| types().any(|dist_type| !dist_type.dims()[dim].parts.is_empty());
        // Dimensions that are never cut are drawn if there is room.
        let dims = drawn_dims(ndim, is_cut);
        let others = (0..ndim).filter(|&dim| is_cut(dim) && !dims.contains(&Some(dim))).collect();
        let source = plan.source();
        let mut found = Self { plan, dims, others, owners: vec![0; tiles(source)] };
        for rank in (0..source.mesh().size()).rev() {
            let coordinates = source.mesh().coordinates(rank);
            let tile = found.source_tile(|dim| source.tile_number(dim, &coordinates));
            found.owners[tile] = rank;
        }
        found
    }

    /// Returns the number of tiles of the source.
    pub(crate) fn count(&self) -> usize {
        self.owners.len()
    }

    /// Returns the extents of the array downwards and across, 1 for a missing dimension.
    pub(crate) fn extents(&self) -> [usize; 2] {
        self.dims.map(|dim| dim.map_or(1, |dim| self.plan.source().dims()[dim].size))
    }

    /// Returns the part of an array of type `held` that the rank at `coordinates` holds, as a list of cells.
    pub(crate) fn cells(&self, held: &DistType, coordinates: &[usize]) -> Vec<Cell> {
        let source = self.plan.source();
        let start = held.offset(coordinates);
        if held.tile_len() == 0 {
            return Vec::new();
        }
        let cuts: [Vec<Range<usize>>; 2] = self.dims.map(|dim| {
            let Some(dim) = dim else { return iter::once(0..1).collect() };
            let (tile, end) = (source.dims()[dim].tile, start[dim] + held.dims()[dim].tile);
            let from = |number: usize| start[dim].max(number * tile)..end.min((number + 1) * tile);
            (start[dim] / tile..end.div_ceil(tile)).map(from).collect()
        });
        let [down, across] = &cuts;
        let cells = down.iter().flat_map(|rows| across.iter().map(move |columns| [rows.clone(), columns.clone()]));
        let cell = |ranges: [Range<usize>; 2]| {
            let index = |dim: usize| match self.dims.iter().position(|drawn| *drawn == Some(dim)) {
                Some(direction) => ranges[direction].start,
                None => start[dim],
            };
            let tile = self.source_tile(|dim| index(dim) / source.dims()[dim].tile);
            Cell { ranges, tile, owner: self.owners[tile] }
        };
        cells.map(cell).collect()
    }

    /// Returns the part of the dimensions not drawn that the rank at `coordinates` holds, as text; empty if all are
    /// drawn.
    pub(crate) fn others(&self, held: &DistType, coordinates: &[usize]) -> String {
        let start = held.offset(coordinates);
        let part = |&dim: &usize| format!("dim {dim}: {}..{}", start[dim], start[dim] + held.dims()[dim].tile);
        joined(self.others.iter().map(part), ", ")
    }

    /// The number of the source's tile with these numbers along the dimensions.
    fn source_tile(&self, number: impl Fn(usize) -> usize) -> usize {
        let source = self.plan.source();
        (0..source.ndim()).fold(0, |tile, dim| tile * pieces(source, dim) + number(dim))
    }
}

fn pieces(dist_type: &DistType, dim: usize) -> usize {
    dist_type.dims()[dim].parts.iter().map(|part| part.extent).product()
}

fn tiles(dist_type: &DistType) -> usize {
    (0..dist_type.ndim()).map(|dim| pieces(dist_type, dim)).product()
}
