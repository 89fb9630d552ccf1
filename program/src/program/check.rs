//! Whether statements and arrays fit together.

use super::{Array, ArrayId, ArrayKind, Move, Statement};
use crate::kernel::Assign;
use crate::nest::Nest;
use crate::reduction::{Reduction, counted, listed};
use polyshard_layout::{DType, Mesh, Name, NotNative};

/// Why statements are not a program. A statement is given by its number, from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum ProgramError {
    /// Programs do not compute in the element type.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// A statement names an array that does not exist.
    #[error("statement {statement} names array {array}, but the program has {arrays} arrays, numbered from 0")]
    NoArray { statement: usize, array: usize, arrays: usize },
    /// An array is read that nothing has written.
    #[error("statement {statement} reads `{array}`, which no statement before it writes")]
    Unwritten { statement: usize, array: Name },
    /// An array is written that is an input or was written before.
    #[error("statement {statement} writes `{array}`, which is an input or was written before")]
    Overwritten { statement: usize, array: Name },
    /// An array is not sharded, or has not the type or shape, that a statement needs.
    #[error("statement {statement}: {why}")]
    Misfit { statement: usize, why: String },
    /// An output is not written.
    #[error("no statement writes the output `{array}`")]
    NoOutput { array: Name },
}

pub(super) fn check(mesh: &Mesh, dtype: DType, arrays: &[Array], statements: &[Statement]) -> Result<(), ProgramError> {
    dtype.native()?;
    let mut written: Vec<bool> = arrays.iter().map(|array| array.kind == ArrayKind::Input).collect();
    for (number, statement) in (1..).zip(statements) {
        let reads = statement.reads();
        let named = reads.iter().copied().chain(statement.writes());
        if let Some(id) = named.clone().find(|id| id.0 >= arrays.len()) {
            return Err(ProgramError::NoArray { statement: number, array: id.0, arrays: arrays.len() });
        }
        let name = |id: ArrayId| arrays[id.0].name;
        if let Some(&id) = reads.iter().find(|id| !written[id.0]) {
            return Err(ProgramError::Unwritten { statement: number, array: name(id) });
        }
        if let Some(id) = statement.writes()
            && std::mem::replace(&mut written[id.0], true)
        {
            return Err(ProgramError::Overwritten { statement: number, array: name(id) });
        }
        fits(mesh, dtype, arrays, statement).map_err(|why| ProgramError::Misfit { statement: number, why })?;
    }
    match arrays.iter().zip(&written).find(|(_, written)| !**written) {
        Some((array, _)) => Err(ProgramError::NoOutput { array: array.name }),
        None => Ok(()),
    }
}

/// Whether the arrays are sharded as the statement needs them.
fn fits(mesh: &Mesh, dtype: DType, arrays: &[Array], statement: &Statement) -> Result<(), String> {
    match statement {
        Statement::Nest { nest, inputs, output } => {
            let given: Vec<_> = inputs.iter().chain([output]).map(|id| &arrays[id.0]).collect();
            nest_fits(mesh, dtype, nest, &given)
        }
        Statement::Move(moved) => {
            let [source, target] = [moved.source, moved.target].map(|id| &arrays[id.0]);
            if source.sharding.shape() != target.sharding.shape() {
                let shapes = (source.sharding.shape(), target.sharding.shape());
                return Err(format!("an array of shape {:?} cannot be moved to one of {:?}", shapes.0, shapes.1));
            }
            let elsewhere = |array: &&Array| array.sharding.mesh().size() != mesh.size();
            if let Some(Array { name, sharding, .. }) = [source, target].into_iter().find(elsewhere) {
                let ranks = sharding.mesh().size();
                return Err(format!("`{name}` is on {ranks} ranks, but the program runs on {}", mesh.size()));
            }
            if let Some(kept) = &moved.kept
                && (kept.shape() != source.sharding.shape() || kept.mesh().size() != mesh.size())
            {
                let (name, held) = (source.name, source.sharding.shape());
                return Err(format!(
                    "what is kept of `{name}` is of {:?} on ({}), not of {held:?} on ({mesh})",
                    kept.shape(),
                    kept.mesh()
                ));
            }
            let closed = source.sharding.closed_axes(&target.sharding).map_err(|error| error.to_string())?;
            moved.by.as_ref().map_or(Ok(()), |by| reduction_fits(moved, by, [source, target], &closed))
        }
        Statement::Free(_) => Err("the program frees arrays after their last use; leave `Free` out".into()),
    }
}

/// Whether a move that is carried out by a reduction closes sums along `axes` in its groups, and does nothing else.
fn reduction_fits(moved: &Move, by: &Reduction, arrays: [&Array; 2], axes: &[usize]) -> Result<(), String> {
    let [(name, source), (_, target)] = arrays.map(|array| (array.name, &array.sharding));
    if source.closed_along(axes) != *target || moved.kept.is_some() {
        return Err(format!(
            "a reduction moves no elements, but `{name}` goes from {source} to {target}; move it before or after"
        ));
    }
    if by.op == Assign::Set {
        return Err(format!("`=` combines nothing; reduce `{name}` by `+=`, `*=`, `max=` or `min=`"));
    }
    let (ranks, size) = (by.procedure.ranks(), source.mesh().size());
    if ranks != size {
        return Err(format!(
            "the reduction of `{name}` is for {}, but the mesh ({}) has {size}",
            counted(ranks, "rank"),
            source.mesh()
        ));
    }
    let wanted = groups_along(source.mesh(), axes);
    let in_mesh_order = || by.procedure.groups().iter().all(|group| group.is_sorted());
    if ascending(by.procedure.groups()) != wanted || by.procedure.steps().is_none() && !in_mesh_order() {
        return Err(format!(
            "the reduction of `{name}` from {source} to {target} combines the groups {}; it must combine {}",
            listed(by.procedure.groups()),
            listed(&wanted)
        ));
    }
    Ok(())
}

/// The ranks that differ along these axes only, in groups by their first rank.
fn groups_along(mesh: &Mesh, axes: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); mesh.size()];
    for rank in 0..mesh.size() {
        let mut first = mesh.coordinates(rank);
        axes.iter().for_each(|&axis| first[axis] = 0);
        groups[mesh.rank(&first)].push(rank);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

fn ascending(groups: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut groups = groups.to_vec();
    groups.iter_mut().for_each(|group| group.sort_unstable());
    groups.sort_unstable();
    groups
}

fn nest_fits(mesh: &Mesh, dtype: DType, nest: &Nest, given: &[&Array]) -> Result<(), String> {
    let kernel = &nest.kernel;
    if nest.mesh != *mesh {
        return Err(format!("`{}` runs on the mesh ({}), but the program runs on ({mesh})", kernel.name(), nest.mesh));
    }
    if kernel.dtype() != dtype {
        return Err(format!("`{}` computes {}, but the program's arrays are {dtype}", kernel.name(), kernel.dtype()));
    }
    let (name, tensors) = (kernel.name(), kernel.tensors().count());
    if given.len() != tensors {
        let given = given.len();
        return Err(format!("`{name}` reads and writes {tensors} arrays, but the statement names {given}"));
    }
    nest.check().map_err(|why| format!("`{name}` {why}"))?;
    for ((tensor, wanted), array) in kernel.tensors().zip(&nest.shardings).zip(given) {
        let held = &array.sharding;
        if held != wanted {
            return Err(format!(
                "`{}` is sharded {held}, but the kernel takes it as `{}` {wanted}",
                array.name, tensor.name
            ));
        }
    }
    Ok(())
}
