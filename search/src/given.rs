//! Shardings that a search keeps, and the meshes that have their axes. Tests: `search/tests/it/kept.rs`.

use crate::error::SearchError;
use polyshard_dsl::{Clause, Dim};
use polyshard_layout::{Mesh, Name, each_once, joined};

/// The maximum number of axes of the meshes that are examined.
const MOST_AXES: usize = 3;

/// Clauses as text.
fn shown(clauses: &[Clause]) -> String {
    joined(clauses, ", ")
}

/// The axes of shardings, in the order in which they are named.
fn axes(homes: &[(Name, Vec<Clause>)]) -> Vec<Name> {
    each_once(homes.iter().flat_map(|(_, clauses)| clauses).flat_map(Clause::axes))
}

/// Checks that each array has one sharding and is one of `known`, and that the axes are those of the mesh, if it is given.
pub(crate) fn check(homes: &[(Name, Vec<Clause>)], mesh: Option<&Mesh>, known: &[Name]) -> Result<(), SearchError> {
    for (nth, (tensor, clauses)) in homes.iter().enumerate() {
        if let Some((_, first)) = homes[..nth].iter().find(|(other, _)| other == tensor) {
            return Err(SearchError::Homes { tensor: *tensor, first: shown(first), second: shown(clauses) });
        }
        if !known.contains(tensor) {
            return Err(SearchError::NoTensor { tensor: *tensor, tensors: joined(known, ", ") });
        }
        if mesh.is_none() && axes(homes).len() > MOST_AXES {
            return Err(SearchError::NoMeshOf { tensor: *tensor, home: shown(clauses) });
        }
    }
    Ok(())
}

/// The meshes of these extents, in any order: of the axes that shardings name, some of which may have one rank, or else of
/// `names`.
pub(crate) fn meshes(homes: &[(Name, Vec<Clause>)], names: &[Name], extents: &[Vec<usize>]) -> Vec<Mesh> {
    let named = axes(homes);
    let fit = extents.iter().filter(|extents| named.is_empty() || extents.len() <= named.len());
    let ordered = fit.flat_map(|extents| {
        let ones = vec![1; named.len().saturating_sub(extents.len())];
        permutations(&[&extents[..], &ones].concat())
    });
    let mut ordered: Vec<Vec<usize>> = ordered.collect();
    ordered.sort_unstable();
    ordered.dedup();
    let names = if named.is_empty() { names } else { &named };
    ordered.into_iter().map(|extents| Mesh::new(names.iter().copied().zip(extents))).collect()
}

/// All orders of these items.
pub(crate) fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |nth: usize| {
        let mut rest = items.to_vec();
        let first = rest.remove(nth);
        permutations(&rest).into_iter().map(move |rest| [&[first], &rest[..]].concat())
    };
    (0..items.len()).flat_map(with_first).collect()
}

/// A clause with its dimension by number, if the index is one of the array's.
pub(crate) fn numbered(clause: &Clause, number: impl Fn(Name) -> Option<usize>) -> Clause {
    match clause {
        Clause::Divided { dim: Dim::Var(index), levels } => match number(*index) {
            Some(dim) => Clause::Divided { dim: Dim::Number(dim), levels: levels.clone() },
            None => clause.clone(),
        },
        clause => clause.clone(),
    }
}
