//! What a sharded product refuses, said before anything moves.
//!
//! Ranks refuse alike: an array is judged by what all ranks have of it, not by this rank's tile.

use super::Partial;
use super::tile::Held;
use crate::layout::Sharding;
use crate::{DistArray, Element, ElementKind, Error, Result};
use polyshard_planner::product::{Element as Planned, Operand, Product, Sequence, Sharded, Step};

/// Refuses elements that are not as many bytes as those that the plan counted.
pub(super) fn element<T: Element>(product: &Product) -> Result<()> {
    let runs = match T::KIND {
        ElementKind::F32 | ElementKind::I32 => Planned::F32,
        ElementKind::F64 | ElementKind::I64 => Planned::F64,
    };
    let planned = product.element();
    match planned {
        _ if planned == runs => Ok(()),
        Planned::Int8 | Planned::Bf16 => Err(Error::Usage(format!(
            "the plan is for {planned}, which no leaf multiplies; plan the product for f32, which runs on f32 and i32, or \
             for f64, which runs on f64 and i64"
        ))),
        _ => Err(Error::Usage(format!(
            "the plan is for {planned}, whose bytes it counts, but runs on {}; plan the product for {runs}",
            T::NAME
        ))),
    }
}

/// Returns the factors and the product of a sequence's multiplication; refuses one that leads to another result, or from
/// other factors, than the product's.
pub(super) fn sequence<'a>(product: &Product, sequence: &'a Sequence) -> Result<[&'a Sharded; 3]> {
    let alike = |one: &Sharded, other: &Sharded| {
        let (mine, theirs) = (one.dist_type(), other.dist_type());
        one.names() == other.names() && mine.mesh() == theirs.mesh() && mine.shape() == theirs.shape()
    };
    let multiplied = sequence.steps().iter().find_map(|step| match step {
        Step::Multiply { left, right, out } => Some([left, right, out]),
        Step::Move { .. } => None,
    });
    let last = |step: &&Step| !matches!(step, Step::Move { operand: Operand::Left | Operand::Right, .. });
    let result = sequence.steps().iter().rev().find(last).map(Step::result);
    match (multiplied, result) {
        (Some(multiplied), Some(result))
            if alike(sequence.left(), product.left())
                && alike(sequence.right(), product.right())
                && result == product.out() =>
        {
            Ok(multiplied)
        }
        _ => Err(Error::Usage(format!(
            "the sequence from `{}` and `{}` to `{}` is not one of the product `{product}` over ({}); take one from its plan",
            sequence.left(),
            sequence.right(),
            result.map_or_else(String::new, Sharded::to_string),
            product.mesh()
        ))),
    }
}

/// Steps in words, in one line.
pub(super) fn steps<'a>(steps: impl IntoIterator<Item = &'a Step>) -> String {
    format!("the steps {}", steps.into_iter().map(|step| format!("`{step}`")).collect::<Vec<_>>().join(", "))
}

/// Refuses an array that does not lie as `held` says, which the plan `takes` or `makes`.
pub(super) fn array<T>(array: &DistArray<T>, held: &Held, wanted: &Sharding, does: &str) -> Result<()> {
    let (name, lies) = (held.array.tensor(), array.sharding());
    let message = if lies.mesh() != wanted.mesh() {
        format!(
            "`{name}` lies on the mesh ({}), but the product is planned on ({}); make the array on that mesh",
            lies.mesh(),
            wanted.mesh()
        )
    } else if lies.shape() != wanted.shape() {
        format!(
            "`{name}` has shape {:?}, but the plan {does} `{}` of shape {:?}; plan the product for these sizes",
            lies.shape(),
            held.array,
            wanted.shape()
        )
    } else if !lies.has_same_owners(wanted) && !same_blocks(lies, wanted) {
        format!(
            "`{name}` is sharded {lies}, but the plan {does} `{}`, sharded {wanted}; redistribute it, or plan the product \
             for an array that lies so",
            held.array
        )
    } else {
        return Ok(());
    };
    Err(Error::Usage(message))
}

/// Whether every rank has the same indices by both shardings, however they are written.
fn same_blocks(left: &Sharding, right: &Sharding) -> bool {
    let mesh = left.mesh();
    (0..mesh.size()).map(|rank| mesh.coordinates(rank)).all(|at| {
        let pieces = |sharding: &Sharding, dim| {
            sharding.pieces(dim, &at, 0..sharding.shape()[dim]).flat_map(|(range, _)| range).collect::<Vec<_>>()
        };
        let none = left.local_len(&at) == 0 && right.local_len(&at) == 0;
        let alike = left.keeps(&at) == right.keeps(&at);
        none || alike && (0..left.shape().len()).all(|dim| pieces(left, dim) == pieces(right, dim))
    })
}

/// Refuses terms of other sums than the plan `takes` or `makes`.
pub(super) fn unreduced<T>(partial: &Partial<T>, held: &Held, does: &str) -> Result<()> {
    let wanted = held.array.unreduced();
    if partial.unreduced == wanted {
        return Ok(());
    }
    let axes = |axes: &[usize]| {
        let names: Vec<_> = axes.iter().map(|&axis| format!("`{}`", held.mesh().as_slice()[axis].name)).collect();
        if names.is_empty() { "no axis".into() } else { names.join(" and ") }
    };
    Err(Error::Usage(format!(
        "`{}` is unreduced along {}, but the plan {does} `{}`, unreduced along {}; give terms of these sums",
        held.array.tensor(),
        axes(&partial.unreduced),
        held.array,
        axes(wanted)
    )))
}

/// Refuses sizes of arrays that the product does not cover, or of dimensions that it does not have.
pub(super) fn sizes(product: &Product, sizes: &[(&str, usize)]) -> Result<()> {
    let mut names: Vec<&String> = product.left().names().iter().chain(product.right().names()).collect();
    names.sort_unstable();
    names.dedup();
    if let Some((name, _)) = sizes.iter().find(|(name, _)| !names.iter().any(|other| other == name)) {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        return Err(Error::Usage(format!("the size of `{name}` is of no dimension; the dimensions are {names}")));
    }
    covered(&names.into_iter().map(|name| (name, product.size(name))).collect::<Vec<_>>(), sizes)
}

/// Refuses two sizes of one dimension, and sizes that are more than the `whole` ones.
pub(super) fn covered(whole: &[(&String, usize)], sizes: &[(&str, usize)]) -> Result<()> {
    for (nth, &(name, size)) in sizes.iter().enumerate() {
        let refuse = |why: String| Err(Error::Usage(format!("the size of `{name}` {why}")));
        if sizes[..nth].iter().any(|(other, _)| *other == name) {
            return refuse("is given twice; give it once".into());
        }
        match whole.iter().find(|(other, _)| *other == name) {
            Some(&(_, whole)) if size > whole => {
                return refuse(format!("is {size}, but the plan covers {whole}; plan the product for {size} or more"));
            }
            _ => {}
        }
    }
    Ok(())
}
