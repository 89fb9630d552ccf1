//! What can be wrong with a redistribution or a sweep.

use crate::comm::plural;
use crate::layout::{Mesh, Sharding, SumsError};
use polyshard_program::WayError;

/// Why an array cannot be redistributed or swept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum RedistributionError {
    /// Source and target have different shapes.
    #[error(
        "an array of shape {source_shape:?} cannot be redistributed to a sharding of shape {target_shape:?}; a \
         redistribution keeps the shape"
    )]
    Shape { source_shape: Vec<usize>, target_shape: Vec<usize> },
    /// The partial sums of the source cannot become those of the target.
    #[error(transparent)]
    Sums(#[from] SumsError),
    /// An array cannot go the way that it is to go.
    #[error("an array cannot be redistributed so: {0}; use `Redistribution::new`, which finds a way")]
    Way(#[from] WayError),
    /// Part of an array is to be moved, but elements are partial sums.
    #[error(
        "a part of an array is moved, but one sharded {sharding} holds terms of sums; use `Redistribution::new`, which \
         closes them"
    )]
    PartOfSums { sharding: Box<Sharding> },
    /// A rank is to keep elements that it does not hold.
    #[error(
        "rank {rank} is to keep {len} elements by {kept}, but does not hold all of them by {held}; give a sharding of \
         which each rank owns part of what it holds"
    )]
    NotHeld { rank: usize, len: usize, kept: Box<Sharding>, held: Box<Sharding> },
    /// The array to redistribute is not laid out as the redistribution takes it.
    #[error(
        "an array {}, is given to a redistribution that takes arrays {}; make one for this array's sharding",
        layout(.given),
        layout(.wanted)
    )]
    Input { given: Box<Sharding>, wanted: Box<Sharding> },
    /// The array to write is not laid out as the redistribution makes it.
    #[error(
        "an array {}, is given to a redistribution that makes arrays {}; get the array from `output`",
        layout(.given),
        layout(.wanted)
    )]
    Output { given: Box<Sharding>, wanted: Box<Sharding> },
    /// Ranks that have elements for each other share no memory.
    #[error("cannot redistribute through shared memory: ranks {rank} and {other} share none; use `Transport::Auto`")]
    Apart {
        rank: usize,
        /// One that it has elements for, or gets elements from.
        other: usize,
    },
    /// The output of a rank is not in shared memory.
    #[error(
        "cannot redistribute through shared memory: the output of rank {rank} is its own; get it from \
         `Redistribution::output`, or use `Transport::Auto`"
    )]
    PrivateOutput { rank: usize },
    /// A sweep of no dimensions, or of more than the array has.
    #[error(
        "cannot sweep {swept} dimensions of an array of shape {shape:?}; give 1 to {}, the first ones", .shape.len()
    )]
    SweptDimensions { swept: usize, shape: Vec<usize> },
    /// The mesh has too many axes for one of the dimensions to be whole.
    #[error("{}", sweep_mesh(*.swept, .mesh))]
    SweepMesh { swept: usize, mesh: Mesh },
}

fn layout(sharding: &Sharding) -> String {
    format!("of shape {:?} over ({}), sharded {sharding}", sharding.shape(), sharding.mesh())
}

fn sweep_mesh(swept: usize, mesh: &Mesh) -> String {
    let (most, ranks) = (swept - 1, plural(mesh.size(), "rank"));
    let cure = match most {
        0 => "sweep more dimensions than one, or run on 1 rank with a mesh without axes".into(),
        1 => format!("put its {ranks} on 1 axis, `{}`", mesh.size()),
        _ => format!("put its {ranks} on at most {most} axes"),
    };
    format!(
        "a sweep of {} keeps at least one whole, so the mesh has at most {most} {}, but the mesh ({mesh}) has {}; {cure}",
        plural(swept, "dimension"),
        if most == 1 { "axis" } else { "axes" },
        mesh.ndim(),
    )
}
