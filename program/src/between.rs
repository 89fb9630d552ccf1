//! Routes between two arrays of different shardings. Tests: `program/tests/it/refused/moves.rs`.
//!
//! Ranks redistribute an array, and add up partial sums that the target does not keep, by the same legs as transfers between arrays and
//! tiles. Terms are added in the order of their coordinates, or as a procedure does.
//!
//! | sums are closed | legs, the first one at the owners | action of the ranks |
//! | --- | --- | --- |
//! | no | exchange | each sends the ranks in reach the elements that they lack |
//! | no | collective, each owns a part | each member of a group wants the shards of the group, one after the other, and they are gathered |
//! | yes | collective, one or all own it | the terms meet in a group along their axes |
//! | yes | exchange, collective | then the sums move on to the ranks that have them in the target |
//! | yes | collective, each owns a part | each rank of a group gets its part of all terms, and sums it up |
//! | yes | exchange | the terms of one coordinate after the other are sent to the target, and added up there |
//!
//! Axes of legs are positions in the [common mesh](common_mesh). An exchange reaches the [owners](Sharding::owners_of) of the
//! elements that ranks want, or more ranks, which exchange nothing.

use crate::nest::{Algorithm, Direction, Leg, Owners, Packing, Route};
use crate::pattern::Pattern;
use crate::reduction::Procedure;
use crate::staged::{CHUNK, Parts, Staging, staged};
use polyshard_layout::{DimLayout, Mesh, Reach, Sharding, SumAlgorithm};
use std::collections::BTreeMap;

/// Minimum bytes of a row for which a library sends without packing as fast as with packing.
const LONG: usize = 256;

/// Why a route is invalid for an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The target places dimensions along the axes of the sums.
    #[error("it leaves sums on all ranks of a group, but the target divides them among these ranks")]
    Divided,
    /// A rank's part of the sums is not one block of its group's terms.
    #[error("a reduce-scatter needs each rank's part to be one block of its group's terms")]
    Outside,
    /// The shards of no group make up a rank's part of the target.
    #[error("an all-gather needs groups whose shards, in order, make up each rank's part of the target")]
    Scattered,
    /// The legs do not lead from one sharding to the other.
    #[error("its legs do not lead from the source's sharding to the target's")]
    Legs,
    /// Only an array with rows sends rows without packing.
    #[error("rows are to be sent without packing, but there are no rows")]
    NoRows,
    /// The procedure combines other ranks.
    #[error("its procedure does not combine the ranks along the axes of the sums that are closed, once")]
    Procedure,
    /// The algorithm is not one of such a collective.
    #[error("its collective cannot be carried out by the algorithm that it names")]
    Algorithm,
}

impl Route {
    /// Returns the route between arrays by these legs.
    pub fn between_arrays(legs: impl Into<Vec<Leg>>) -> Self {
        Self { legs: legs.into(), held: None }
    }

    /// Returns the route on which terms meet along these axes, given as positions, by a procedure.
    pub(crate) fn by_procedure(axes: Vec<usize>, procedure: Procedure) -> Self {
        Leg::collective(axes, Owners::All).by(Algorithm::Procedure(procedure)).into()
    }

    /// Returns the route from `source` to `target` for elements of `element` bytes. Takes time in proportion to the number of ranks if
    /// shards are gathered, or the target divides sums that are closed.
    ///
    /// ```
    /// use polyshard::layout::Reach;
    /// use polyshard::prelude::*;
    /// use polyshard::program::{Algorithm, Leg, Owners, Route};
    /// let mesh = Mesh::new([("x", 4)]);
    /// let [x] = mesh.axes();
    /// let by = |dim| Sharding::new(&mesh, &[64, 64], &[Placement::block(dim, x)]).expect("a sharding");
    /// // Rows of 16 elements, which are 128 bytes.
    /// assert_eq!(Route::between(&by(0), &by(1), 8), Leg::exchange([Reach::All]).into());
    /// let parts = Leg::collective(vec![0], Owners::Parts);
    /// assert_eq!(Route::between(&by(0), &Sharding::replicated(&mesh, &[64, 64]), 8), parts.clone().into());
    /// let open = Sharding::new(&mesh, &[64, 64], &[Placement::partial(x)]).expect("a sharding");
    /// assert_eq!(Route::between(&open, &by(0), 8), parts.by(Algorithm::GatherTerms).into());
    /// ```
    #[must_use]
    pub fn between(source: &Sharding, target: &Sharding, element: usize) -> Self {
        let closed = source.closed_axes(target).unwrap_or_default();
        let legs = if closed.is_empty() {
            gathering(source, target).unwrap_or_else(|| vec![exchange(source, target)])
        } else if !closed.iter().any(|&axis| target.places(axis)) {
            let bytes = source.largest_shard().saturating_mul(element as u64);
            let sums = SumAlgorithm::in_order(bytes, source.mesh().group_size(&closed));
            meeting(source, target, closed).into_iter().map(|leg| leg.by(sums)).collect()
        } else if are_parts(source, target, &closed) {
            vec![Leg::collective(closed, Owners::Parts).by(SumAlgorithm::GatherTerms)]
        } else {
            vec![exchange(source, target)]
        };
        // Most rows are long on both sides.
        let is_long = source.common_row(target).saturating_mul(element) >= LONG && !source.shape().is_empty();
        let legs: Vec<_> = legs.into_iter().map(|leg| if is_long { leg.laid_out() } else { leg }).collect();
        Self::between_arrays(legs)
    }

    /// Checks that an array can take this route from `source` to `target`, which have the same shape.
    ///
    /// # Errors
    /// [`RouteError`] if it cannot.
    pub fn check_between(&self, source: &Sharding, target: &Sharding) -> Result<(), RouteError> {
        let closed = source.closed_axes(target).unwrap_or_default();
        let closes = !closed.is_empty();
        if let [Leg::Collective { axes, owners: Owners::All, by: Algorithm::Procedure(procedure) }] = &self.legs[..] {
            let is_all = axes[..] == closed && source.closed_along(&closed) == *target;
            return match is_all && procedure.check_along(source.mesh(), axes).is_ok() {
                true => Ok(()),
                false => Err(RouteError::Procedure),
            };
        }
        let divided = closed.iter().any(|&axis| target.places(axis));
        let legs = match (&self.legs[..], closes) {
            ([Leg::Exchange { .. }], _) => vec![exchange(source, target)],
            ([Leg::Collective { .. }], false) => gathering(source, target).ok_or(RouteError::Scattered)?,
            ([Leg::Collective { owners: Owners::Parts, .. }], true) => {
                if !divided || !are_parts(source, target, &closed) {
                    return Err(RouteError::Outside);
                }
                vec![Leg::collective(closed, Owners::Parts)]
            }
            // Nothing else moves an array without sums.
            (_, false) => return Err(RouteError::Legs),
            _ if divided => return Err(RouteError::Divided),
            _ => meeting(source, target, closed),
        };
        let leads =
            self.legs.len() == legs.len() && self.legs.iter().zip(&legs).all(|(leg, least)| is_at_least(leg, least));
        if !leads || self.held.is_some() {
            return Err(RouteError::Legs);
        }
        for leg in &self.legs {
            let fits = match leg {
                Leg::Exchange { packing: Packing::LaidOut, .. } if source.shape().is_empty() => {
                    return Err(RouteError::NoRows);
                }
                Leg::Collective { by: Algorithm::Library, .. } => !closes,
                Leg::Collective { by: Algorithm::GatherTerms, .. } => closes,
                Leg::Collective { by: Algorithm::ReduceScatterGather, owners, .. } => {
                    closes && *owners != Owners::Parts
                }
                Leg::Collective { .. } => false,
                _ => true,
            };
            if !fits {
                return Err(RouteError::Algorithm);
            }
        }
        Ok(())
    }

    /// Returns the legs between two arrays in the order in which ranks take them, each with its direction, if the first one has this
    /// direction: complete sums move on like any array.
    pub fn taken(&self, direction: Direction) -> Vec<(&Leg, Direction)> {
        match (direction, &self.legs[..]) {
            (Direction::Out { .. }, [then, meet]) => vec![(meet, direction), (then, Direction::In)],
            (direction, legs) => legs.iter().map(|leg| (leg, direction)).collect(),
        }
    }

    /// Returns the pattern of a route between arrays, with axes by name.
    #[must_use]
    pub fn pattern_between(&self, direction: Direction, mesh: &Mesh) -> Pattern {
        let patterns = self.taken(direction).into_iter().map(|(leg, direction)| leg.pattern(direction, mesh));
        patterns.reduce(Pattern::then).unwrap_or(Pattern::Local)
    }

    /// Returns the maximum bytes that a rank holds during the move from `source` to `target` in addition to these arrays, with `element`
    /// bytes for each element. The packed copy of a part of a shard ([`Transfer::kept`](crate::Transfer::kept)) that is gathered is not counted
    /// here.
    #[must_use]
    pub fn staged_between(&self, source: &Sharding, target: &Sharding, element: usize) -> u64 {
        let bytes = |sharding: &Sharding| sharding.largest_shard().saturating_mul(element as u64);
        let [from, to] = [source, target].map(bytes);
        let of_leg = |(leg, direction): (&Leg, Direction)| {
            let is_in = direction == Direction::In;
            let staging = Staging {
                mesh: source.mesh(),
                tile: if is_in { to } else { from },
                part: if is_in { from.min(to) } else { to },
                is_under_way: false,
                are_whole: false,
                // One pair of ranks after the other exchanges its pieces.
                at_once: Some(1),
                parts_along: &|_| if is_in { Parts::Together } else { Parts::Interleaved },
                elements: usize::try_from(source.largest_shard()).unwrap_or(usize::MAX),
                element: element as u64,
            };
            let besides = match leg {
                _ if is_in || leg.procedure().is_some() => 0,
                // The terms of one coordinate are received next to the sum of those before.
                Leg::Exchange { .. } => to.min(CHUNK),
                // Terms are summed up in a copy.
                _ => from,
            };
            staged(leg, direction, &staging).saturating_add(besides)
        };
        let direction = Direction::between(source, target);
        self.taken(direction).into_iter().map(of_leg).fold(0, u64::saturating_add)
    }
}

impl Direction {
    /// Returns the direction of the transfer from an array to another one: outwards if it closes sums.
    #[must_use]
    pub fn between(source: &Sharding, target: &Sharding) -> Self {
        match source.closed_axes(target).unwrap_or_default()[..] {
            [] => Self::In,
            _ => Self::Out { any_order: false },
        }
    }
}

/// Returns the mesh whose axes the legs between these shardings name: that of both, or the coarsest one whose axes are digits of
/// theirs; that of the source if there is no such mesh.
///
/// ```
/// use polyshard::prelude::*;
/// use polyshard::program::common_mesh;
/// let everywhere = |axes: &[(&str, usize)]| Sharding::replicated(&Mesh::new(axes.iter().copied()), &[8]);
/// let mesh = common_mesh(&everywhere(&[("x", 4), ("y", 2)]), &everywhere(&[("p", 2), ("q", 4)]));
/// assert_eq!(mesh.to_string(), "x/2: 2, x%2: 2, y: 2");
/// ```
#[must_use]
pub fn common_mesh(source: &Sharding, target: &Sharding) -> Mesh {
    source.mesh().common_refinement(target.mesh()).unwrap_or_else(|| source.mesh().clone())
}

/// The leg by which ranks receive the elements that they want from their owners.
fn exchange(source: &Sharding, target: &Sharding) -> Leg {
    let mesh = common_mesh(source, target);
    let [source, target] = [source, target].map(|sharding| sharding.over(&mesh).unwrap_or_else(|| sharding.clone()));
    match source.mesh() == target.mesh() {
        true => Leg::exchange_with(source.owners_of(&target)),
        false => Leg::exchange(vec![Reach::All; mesh.ndim()]),
    }
}

/// Whether a leg does at least what the other one does: an exchange may reach more ranks.
fn is_at_least(leg: &Leg, least: &Leg) -> bool {
    match (leg, least) {
        (Leg::Exchange { reach, .. }, Leg::Exchange { reach: least, .. }) => {
            let alike = reach.stencil == least.stencil && reach.along.len() == least.along.len();
            alike && reach.along.iter().zip(&least.along).all(|(along, least)| *along == Reach::All || along == least)
        }
        (Leg::Collective { axes, owners, .. }, Leg::Collective { axes: least, owners: wanted, .. }) => {
            (axes, owners) == (least, wanted)
        }
        _ => leg == least,
    }
}

/// The legs by which shards are gathered in groups whose members each want all of them, if there are such groups.
fn gathering(source: &Sharding, target: &Sharding) -> Option<Vec<Leg>> {
    let (groups, mesh) = (source.gathered_groups(target)?, common_mesh(source, target));
    let at = |rank: usize, axis: usize| mesh.coordinates(rank)[axis];
    let differ = |group: &Vec<usize>, axis: usize| group.iter().any(|&rank| at(rank, axis) != at(group[0], axis));
    let axes = (0..mesh.ndim()).filter(|&axis| groups.iter().any(|group| differ(group, axis)));
    let axes: Vec<usize> = axes.collect();
    // Over meshes that do not nest, groups may differ from those along axes.
    let along = mesh.groups_along(&axes);
    let are_along = groups.iter().all(|group| along.binary_search(group).is_ok());
    are_along.then(|| vec![Leg::collective(axes, Owners::Parts)])
}

/// The legs by which terms meet in groups along these axes, and move on to the ranks that have the sums in the target.
fn meeting(source: &Sharding, target: &Sharding, closed: Vec<usize>) -> Vec<Leg> {
    let pinned = |axis: &usize| target.pins().iter().find(|pin| pin.0 == *axis).map(|pin| pin.1);
    // If only some of several axes are pinned, all ranks get the sums, and those that have none in the target drop them.
    let owner: Option<Vec<usize>> = closed.iter().map(pinned).collect();
    let summed = summed_up(source, target, &closed);
    let stays = summed == *target;
    let exchange = (!stays).then(|| exchange(&summed, target));
    let meet = match owner {
        Some(owner) => Leg::with_one(closed, &owner),
        None => Leg::collective(closed, Owners::All),
    };
    exchange.into_iter().chain([meet]).collect()
}

/// Returns the sharding of the sums that groups along these axes make: on all members, or on those to which the target pins them.
#[must_use]
pub fn summed_up(source: &Sharding, target: &Sharding, closed: &[usize]) -> Sharding {
    let pins: Vec<_> = target.pins().iter().copied().filter(|(axis, _)| closed.contains(axis)).collect();
    if pins.len() == closed.len() { source.pinned(&pins) } else { source.closed_along(closed) }
}

/// Whether the members of each group along `axes` want only parts of their term, which is one block, and together all of it.
fn are_parts(source: &Sharding, target: &Sharding, axes: &[usize]) -> bool {
    if source.dims().iter().any(DimLayout::is_cyclic) {
        return false;
    }
    let mesh = source.mesh();
    let mut wanted: BTreeMap<Vec<usize>, (usize, usize)> = BTreeMap::new();
    (0..mesh.size()).all(|rank| {
        let [before, after] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
        let part = target.local_len(&after);
        let mut group = before.clone();
        axes.iter().for_each(|&axis| group[axis] = 0);
        let (parts, _) = wanted.entry(group).or_insert((0, source.local_len(&before)));
        *parts += part;
        source.common_len(&before, target, &after) == part
    }) && wanted.values().all(|(parts, term)| parts == term)
}
