//! Sweeps: every dimension of an array made local in turn, on a mesh of fewer axes than dimensions.
//!
//! What works along whole lines, such as a Fourier transform of several dimensions, needs each dimension whole
//! once. A sweep starts with as many dimensions distributed as the mesh has axes. Each move then takes one mesh
//! axis from the dimension that is wanted next to one that is done, so it is an all-to-all inside the groups of
//! that axis, and no rank hears of any other. With one axis these are slabs, with two pencils.
//!
//! T. Birkeland and T. Sorevik, "Parallel Redistribution of Multidimensional Data", ParCo 2007; the moves are its
//! section 3.2. Extents need not divide: tiles are short or empty then, where the paper pads.
//!
//! It does nothing to the elements, and does not know what is done between the moves.

pub use crate::layout::SweepStage as Stage;

use crate::layout::Mesh;
use crate::redistribute::Redistribution;
use crate::transport::Transport;
use crate::{DistArray, Element, RedistributionError, Result, World};
use std::panic::Location;

/// The stages of a sweep, and the moves between them, there and back.
///
/// ```text
/// 3 dimensions on pencils (x, y)          on slabs (x)
///
/// stage 0   [0 @ x, 1 @ y]   2 is new     [0 @ x]   1 and 2 are new
///   | along y                               | along x
/// stage 1   [0 @ x, 2 @ y]   1 is new     [1 @ x]   0 is new
///   | along x
/// stage 2   [1 @ x, 2 @ y]   0 is new
/// ```
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::runtime::Sweep;
/// let mesh = Mesh::new([("x", 2), ("y", 2)]);
/// let largest = spmd(4, |world| {
///     let sweep = Sweep::new(world, &mesh, &[3, 4, 5], 3)?;
///     let mut array = sweep.array::<f64>(world, 0)?;
///     array.block_mut().fill(world.rank() as f64);
///     for stage in 0..sweep.stages().len() - 1 {
///         // Here the dimensions of `sweep.stages()[stage].new_dims()` are whole for the first time.
///         array = sweep.forward(stage).run(world, &array)?;
///     }
///     assert_eq!(array.sharding().to_string(), "[1 @ x, 2 @ y]");
///     assert_eq!(array.local_shape()[0], 3);
///     Ok(array.block().to_vec())
/// })?;
/// assert_eq!(largest[0][0], 0.0);
/// # Ok::<(), polyshard::Error>(())
/// ```
pub struct Sweep {
    stages: Vec<Stage>,
    moves: Vec<Move>,
}

/// What is between two stages.
struct Move {
    axis: usize,
    forward: Redistribution,
    backward: Redistribution,
}

impl Sweep {
    /// Returns the sweep of dimensions `0..swept` of arrays of `shape` over `mesh`. Dimensions from `swept` on,
    /// such as one of two for real and imaginary parts, stay whole.
    ///
    /// The mesh has fewer axes than dimensions are swept; any extents do, more ranks than rows included.
    /// Collective, as the groups of its moves are made here (MPI 3.1, section 6.4.2).
    ///
    /// # Errors
    /// [`RedistributionError`] if the mesh has too many axes or the array has not that many dimensions. If the mesh has
    /// not as many ranks as the world; each is said before any communication. As [`Redistribution::new`] besides.
    #[track_caller]
    pub fn new(world: &World, mesh: &Mesh, shape: &[usize], swept: usize) -> Result<Self> {
        let at = Location::caller();
        Self::planned(world, mesh, shape, swept).map_err(|error| error.at(at))
    }

    fn planned(world: &World, mesh: &Mesh, shape: &[usize], swept: usize) -> Result<Self> {
        world.check_mesh(mesh)?;
        let (stages, axes) = plan(mesh, shape, swept)?;
        let mut moves = Vec::with_capacity(axes.len());
        for (pair, axis) in stages.windows(2).zip(axes) {
            let between = |from: &Stage, to: &Stage| Redistribution::new(world, from.sharding(), to.sharding());
            moves.push(Move { axis, forward: between(&pair[0], &pair[1])?, backward: between(&pair[1], &pair[0])? });
        }
        Ok(Self { stages, moves })
    }

    /// Returns the sweep with all moves over this transport.
    #[must_use]
    pub fn with_transport(self, transport: Transport) -> Self {
        let over = |Move { axis, forward, backward }| Move {
            axis,
            forward: forward.with_transport(transport),
            backward: backward.with_transport(transport),
        };
        Self { moves: self.moves.into_iter().map(over).collect(), ..self }
    }

    /// Returns the stages: one more than the mesh has axes.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Returns the position in the mesh of the axis along which ranks exchange between `stage` and the next.
    ///
    /// # Panics
    /// If `stage` is the last, or none.
    #[track_caller]
    #[must_use]
    pub fn axis(&self, stage: usize) -> usize {
        self.between(stage).axis
    }

    /// Returns the move from `stage` to the next.
    ///
    /// ```text
    /// groups of one mesh axis, P = 2: dimension a was distributed and becomes whole, b the other way round
    ///
    ///             b ->                                  b ->
    /// before   a  rank 0: a0b0 a0b1       after   a  rank 0: a0b0    rank 1: a0b1
    ///          |  rank 1: a1b0 a1b1               |          a1b0            a1b1
    /// ```
    ///
    /// # Panics
    /// If `stage` is the last, or none.
    #[track_caller]
    #[must_use]
    pub fn forward(&self, stage: usize) -> &Redistribution {
        &self.between(stage).forward
    }

    /// Returns the move back to `stage` from the next: [`forward`](Self::forward) undone.
    ///
    /// # Panics
    /// If `stage` is the last, or none.
    #[track_caller]
    #[must_use]
    pub fn backward(&self, stage: usize) -> &Redistribution {
        &self.between(stage).backward
    }

    /// Returns an array of zeros laid out as `stage` has it, where the moves reach it best: in memory that the
    /// ranks of a node share, as [`Redistribution::output`] does. Collective.
    ///
    /// # Errors
    /// As [`Redistribution::output`].
    ///
    /// # Panics
    /// If there is no such stage.
    #[track_caller]
    pub fn array<T: Element>(&self, world: &World, stage: usize) -> Result<DistArray<T>> {
        let Some(laid_out) = self.stages.get(stage) else {
            panic!("no stage {stage}: the sweep has stages 0..{}", self.stages.len())
        };
        match (stage.checked_sub(1).map(|before| &self.moves[before].forward), self.moves.get(stage)) {
            (Some(arriving), _) => arriving.output(world),
            (None, Some(leaving)) => leaving.backward.output(world),
            (None, None) => DistArray::filled(world, laid_out.sharding(), T::ZERO),
        }
    }

    #[track_caller]
    fn between(&self, stage: usize) -> &Move {
        let moves = self.moves.len();
        let Some(between) = self.moves.get(stage) else {
            panic!(
                "no move between stages {stage} and {}: the sweep has stages 0..{}",
                stage.saturating_add(1),
                moves + 1
            )
        };
        between
    }
}

/// The stages, and the mesh axis of each move between them.
fn plan(mesh: &Mesh, shape: &[usize], swept: usize) -> Result<(Vec<Stage>, Vec<usize>)> {
    check(mesh, shape, swept)?;
    Ok((Stage::all(mesh, shape, swept), (0..mesh.ndim()).rev().collect()))
}

fn check(mesh: &Mesh, shape: &[usize], swept: usize) -> Result<()> {
    if swept == 0 || swept > shape.len() {
        return Err(RedistributionError::SweptDimensions { swept, shape: shape.to_vec() }.into());
    }
    if mesh.ndim() < swept { Ok(()) } else { Err(RedistributionError::SweepMesh { swept, mesh: mesh.clone() }.into()) }
}

#[cfg(test)]
mod tests;
