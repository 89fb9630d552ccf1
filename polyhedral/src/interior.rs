//! Leaves that compute their interior while a halo is in flight. The nest gives the iterations of the interior in closed form; isl
//! decides whether they read nothing that another rank owns.

use crate::ahead::SAME_ORDER;
use crate::conditions::{Conditions, Form};
use crate::context::Context;
use crate::error::{ErrorKind, LowerError};
use crate::isl::IslResult;
use crate::nest::Depth;
use crate::planned::Planned;
use crate::proofs::proof;
use crate::range::position;
use crate::relation::owned;
use polyshard_program::{Access, Affine, Interior, NestView, Proof, Property, TileId};

/// Marks the halos that are to be in flight while the interior is computed.
pub(crate) fn begin(context: &Context<'_>, transfers: &mut [Planned]) {
    for &(tensor, _) in &context.state.interiors {
        let number = context.kernel().tensors().position(|other| other.name == tensor);
        let is_halo = |transfer: &Planned| {
            number == Some(transfer.tensor.0) && !transfer.route.is_local() && !context.kernel().is_empty()
        };
        transfers.iter_mut().filter(|transfer| is_halo(transfer)).for_each(|halo| halo.interior_first = true);
    }
}

/// Rejects a leaf that cannot compute its interior first; otherwise returns the proofs.
pub(crate) fn proved(context: &Context<'_>, nest: &NestView<'_>) -> Result<Vec<Proof>, LowerError> {
    let mut proofs = Vec::new();
    for &(tensor, step) in &context.state.interiors {
        let number = context.kernel().tensors().position(|other| other.name == tensor);
        let coming = nest.transfers.iter().enumerate().filter(|(_, transfer)| Some(transfer.tensor.0) == number);
        let coming: Vec<_> = coming.filter(|(_, transfer)| transfer.interior_first).collect();
        if coming.is_empty() {
            // Nothing is fetched, so nothing is hidden.
            continue;
        }
        let interior =
            nest.interior().map_err(|why| context.blame(Some(step), ErrorKind::NoInterior { tensor, why }))?;
        let interior = interior.expect("a halo comes first; this is a bug in polyshard");
        let what = format!("that the interior reads only elements of `{tensor}` that its rank owns");
        for (tile, _) in coming {
            context.proved(&what, || reads_its_own(context, nest, &interior, TileId(tile)))?;
        }
        let claim = "the interior of the leaf reads only elements that its rank owns, so it is computed while the \
                     rest is in flight";
        proofs.push(Proof { of_route: true, ..proof(Property::Residency, tensor, claim) });
        let claim = "nothing is read while in flight: it is awaited once, after the interior and before the rims";
        proofs.push(Proof { of_route: true, ..proof(Property::Flow, tensor, claim) });
        proofs.push(proof(Property::Flow, None, SAME_ORDER));
    }
    Ok(proofs)
}

/// Whether all elements of a transfer that the interior reads are the rank's own, or outside of the array.
fn reads_its_own(context: &Context<'_>, nest: &NestView<'_>, interior: &Interior, tile: TileId) -> IslResult<bool> {
    let transfer = &nest.transfers[tile.0];
    let sharding = nest.shardings[transfer.tensor.0];
    let accesses = context.kernel().value().accesses();
    for operand in transfer.operands {
        let access = accesses[operand.0];
        let mut reads = iterations(context, nest, interior);
        let element = element(context, access);
        if access.outside.is_some() {
            for (index, &extent) in element.iter().zip(sharding.shape()) {
                reads.within(index, extent as i64);
            }
        }
        let rank: Vec<_> = (0..sharding.mesh().ndim()).map(Form::input).collect();
        let mut owns = reads.clone();
        owned(&mut owns, sharding, &element, &rank);
        for (index, period) in element.iter().zip(&transfer.region.periods) {
            // Beyond the period, an index means another element.
            period.iter().for_each(|&period| owns.within(index, period));
        }
        if !context.relation(&reads)?.is_subset(&context.relation(&owns)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Iterations around the leaf to the values that the kernel's indices have in its interior.
fn iterations(context: &Context<'_>, nest: &NestView<'_>, interior: &Interior) -> Conditions {
    let indices: Vec<_> = nest.leaf.loops.iter().map(|l| Affine::new([(l.var, 1)], 0)).collect();
    let relations = &context.relations;
    let mut conditions = relations.exact(Depth(nest.loops.len()), &indices);
    for (number, (l, (low, high))) in nest.leaf.loops.iter().zip(&interior.ranges).enumerate() {
        let first = relations.value(&mut conditions, &l.low);
        let moved = Form::output(number).subtract(&first);
        let iteration = match l.stride {
            1 => moved,
            stride => {
                let iteration = conditions.witness();
                conditions.equal(&moved, &iteration.multiply(stride));
                iteration
            }
        };
        relations.between(&mut conditions, &iteration, low, high);
    }
    conditions
}

/// The element that an access reads, by the kernel's indices; a periodic index is not wrapped.
fn element(context: &Context<'_>, access: &Access) -> Vec<Form> {
    let kernel = context.kernel();
    let form = |index: &Affine| {
        let terms = index.terms.iter().map(|&(name, factor)| Form::output(position(kernel, name)).multiply(factor));
        terms.fold(Form::constant(index.constant), |sum, term| sum.add(&term))
    };
    access.unwrapped().index.iter().map(form).collect()
}
