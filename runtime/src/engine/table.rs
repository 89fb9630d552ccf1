//! The tables of an engine: kernels and their transfers, as data and as functions of a rank's coordinates and of loop counters.

use crate::Region;
use crate::layout::{Mesh, Name, Neighbours, Sharding, Stages, SumAlgorithm};
use crate::leaf::SlicesOf;
use polyshard_program::{Algorithm, Assign, Buffers, InPlace, Leg, LegId, Owners, Route, Tile, TileId, Written};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::fmt;

/// A function of a rank's coordinates and of the counters of the loops.
type Find<'a, F> = Box<dyn Fn(&[i64], &[i64]) -> F + 'a>;

/// Coordinates of a rank, as a function of those of another rank and of the counters of the loops; see [`coordinates`].
pub struct Coordinates<'a>(Find<'a, SmallVec<[i64; 6]>>);

impl<'a> Coordinates<'a> {
    pub(crate) fn new(find: impl Fn(&[i64], &[i64]) -> SmallVec<[i64; 6]> + 'a) -> Self {
        Self(Box::new(find))
    }

    pub(crate) fn at(&self, coordinates: &[i64], counters: &[i64]) -> SmallVec<[i64; 6]> {
        (self.0)(coordinates, counters)
    }
}

impl fmt::Debug for Coordinates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("coordinates")
    }
}

/// Returns the coordinates that `find` returns from a rank's coordinates and the counters of the loops.
///
/// ```
/// use polyshard::runtime::engine::{Coordinates, Leg, Owners, coordinates};
/// // In iteration `ko`, the rank at `ko` along axis 1 of a mesh of two axes owns the region.
/// let root = coordinates(|_: [i64; 2], [ko]: [i64; 1]| [ko]);
/// let leg: Leg<Coordinates<'_>> = Leg::collective([1], Owners::One(root));
/// ```
///
/// # Panics
/// In a run, if a mesh does not have `A` axes, or a kernel not `L` loops.
pub fn coordinates<'a, const A: usize, const L: usize, const N: usize>(
    find: impl Fn([i64; A], [i64; L]) -> [i64; N] + 'a,
) -> Coordinates<'a> {
    Coordinates::new(move |coordinates, counters| {
        let (coordinates, counters) = fixed(coordinates, counters);
        SmallVec::from_slice(&find(coordinates, counters))
    })
}

/// A region, as a function of a rank's coordinates and of the counters of the loops.
pub(crate) type RegionOf<'a> = Find<'a, Region>;

fn region<'a, const A: usize, const L: usize>(find: impl Fn([i64; A], [i64; L]) -> Region + 'a) -> RegionOf<'a> {
    Box::new(move |coordinates, counters| {
        let (coordinates, counters) = fixed(coordinates, counters);
        find(coordinates, counters)
    })
}

/// Coordinates and counters of fixed numbers. Counters of inner loops may be left out: nothing outside of them depends on them.
#[track_caller]
fn fixed<const A: usize, const L: usize>(coordinates: &[i64], counters: &[i64]) -> ([i64; A], [i64; L]) {
    let Ok(coordinates) = coordinates.try_into() else {
        panic!("a function of {A} coordinates is called with {}: it needs one for each axis", coordinates.len())
    };
    assert!(counters.len() <= L, "a function of {L} counters is called with {}", counters.len());
    (coordinates, std::array::from_fn(|number| counters.get(number).copied().unwrap_or(0)))
}

/// A transfer: how a region of an input gets to a rank's tile, or the tile of an output to its owners.
///
/// Without [legs](Self::by), the leaf reads or writes the rank's own shard, or reads [the tile of another kernel](Self::reuses).
pub struct Transfer<'a> {
    pub(crate) name: Name,
    /// The number of the input; `None` for the output.
    pub(crate) input: Option<usize>,
    pub(crate) any_order: bool,
    pub(crate) region: RegionOf<'a>,
    pub(crate) route: Route<Coordinates<'a>, RegionOf<'a>>,
    pub(crate) tile: Tile,
    pub(crate) ahead: usize,
    pub(crate) interior_first: bool,
    /// The kernel and the transfer whose tile the leaf reads instead.
    pub(crate) reused: Option<(usize, TileId)>,
    /// The kernel of the same run that writes what the leaf reads.
    pub(crate) writer: Option<usize>,
}

impl<'a> Transfer<'a> {
    /// Returns the transfer of the input number `input`, called `name` in messages.
    #[must_use]
    pub fn input(name: &str, input: usize) -> Self {
        Self { input: Some(input), ..Self::output(name) }
    }

    /// Returns the transfer of the output.
    #[must_use]
    pub fn output(name: &str) -> Self {
        Self {
            name: Name::new(name),
            input: None,
            any_order: false,
            region: Box::new(|_, _| unreachable!("a transfer that moves something has a region")),
            route: Leg::InPlace.into(),
            tile: Tile::default(),
            ahead: 0,
            interior_first: false,
            reused: None,
            writer: None,
        }
    }

    /// Returns the transfer of an input that is no argument of the kernel: the leaf reads what another kernel of the same run has
    /// written in the same iteration of the loops, on the same rank.
    #[must_use]
    pub fn written_by(name: &str, kernel: usize) -> Self {
        Self { writer: Some(kernel), ..Self::output(name) }
    }

    /// Returns the transfer of the region that `find` returns from a rank's coordinates and the counters of the loops.
    ///
    /// # Panics
    /// In a run, if the mesh does not have `A` axes, or the kernel more than `L` loops.
    #[must_use]
    pub fn region<const A: usize, const L: usize>(self, find: impl Fn([i64; A], [i64; L]) -> Region + 'a) -> Self {
        Self { region: region(find), ..self }
    }

    /// Returns the transfer by these legs, the first one at the owners.
    #[must_use]
    pub fn by(mut self, legs: impl Into<Vec<Leg<Coordinates<'a>>>>) -> Self {
        self.route.legs = legs.into();
        self
    }

    /// Returns the transfer, the first of whose two legs leaves the region that `find` returns in tiles.
    ///
    /// # Panics
    /// As for [`region`](Self::region).
    #[must_use]
    pub fn holding<const A: usize, const L: usize>(mut self, find: impl Fn([i64; A], [i64; L]) -> Region + 'a) -> Self {
        self.route.held = Some(region(find));
        self
    }

    /// Returns the transfer with a tile of `capacity` elements.
    #[must_use]
    pub fn tile(mut self, capacity: usize) -> Self {
        (self.tile.capacity, self.tile.buffers) = (capacity, Buffers::One);
        self
    }

    /// Returns the transfer with two tiles of `capacity` elements in turns: one is forwarded while the other receives.
    #[must_use]
    pub fn relay(mut self, capacity: usize) -> Self {
        (self.tile.capacity, self.tile.buffers) = (capacity, Buffers::Relay);
        self
    }

    /// Returns the transfer, which is in flight for this many iterations of the innermost loop around it, with a tile of `capacity`
    /// elements for each of them and another one.
    #[must_use]
    pub fn ahead(mut self, iterations: usize, capacity: usize) -> Self {
        (self.tile.capacity, self.tile.buffers, self.ahead) = (capacity, Buffers::Ahead(iterations), iterations);
        self
    }

    /// Returns the transfer of a region that is the same in all iterations.
    #[must_use]
    pub fn fixed(mut self) -> Self {
        self.tile.is_fixed = true;
        self
    }

    /// Returns the transfer, of which a rank reads its own part in place.
    #[must_use]
    pub fn own_in_place(mut self) -> Self {
        self.tile.own_in_place = true;
        self
    }

    /// Returns the transfer, which is in flight while the interior of the leaf is computed.
    #[must_use]
    pub fn interior_first(self) -> Self {
        Self { interior_first: true, ..self }
    }

    /// Returns the transfer of an output, of which the communication library adds up partial sums, in any order.
    #[must_use]
    pub fn in_any_order(self) -> Self {
        Self { any_order: true, ..self }
    }

    /// Returns the transfer, which moves nothing: the leaf reads the tile of this transfer of an earlier kernel.
    #[must_use]
    pub fn reuses(self, kernel: usize, tile: TileId) -> Self {
        Self { reused: Some((kernel, tile)), ..self }
    }

    pub(super) fn is_input(&self) -> bool {
        self.input.is_some() || self.writer.is_some()
    }

    /// Whether it is in flight during computation.
    pub(super) fn is_in_flight(&self) -> bool {
        self.ahead > 0 || self.interior_first
    }

    /// How members of a group add up the terms of an output: in rank order, unless it says that any order will do.
    pub(super) fn sums(&self) -> SumAlgorithm {
        match self.route.algorithm().map_or(SumAlgorithm::GatherTerms, Algorithm::of_sums) {
            _ if self.any_order => SumAlgorithm::Library,
            SumAlgorithm::Library => SumAlgorithm::GatherTerms,
            by => by,
        }
    }

    /// The axes along which members of a group exchange messages during computation: for a tile that a group gets by one collective, whose
    /// members may forward it, and for sums of which each member adds up a piece.
    pub(super) fn group_ahead(&self) -> Option<&[usize]> {
        let mut first = self.route.collectives().filter(|(leg, ..)| self.ahead > 0 && *leg == LegId(0));
        let (_, axes, owners, by) = first.next()?;
        let is_of_group = match self.is_input() {
            true => matches!(owners, Owners::One(_) | Owners::Parts),
            false => *by == Algorithm::ReduceScatterGather,
        };
        is_of_group.then_some(axes)
    }

    /// The offsets of the peers from which a rank receives the region, or to which it sends the output, during computation; without the
    /// messages of a [group](Self::group_ahead), and without permutations.
    pub(super) fn peers_ahead(&self, mesh: &Mesh) -> Vec<Neighbours> {
        if !self.is_in_flight() || self.group_ahead().is_some() {
            return Vec::new();
        }
        let is_local = |leg: &&Leg<Coordinates<'_>>| match leg {
            Leg::InPlace | Leg::Copy => true,
            Leg::Collective { .. } => self.is_input(),
            Leg::Halo { .. } | Leg::Exchange { .. } | Leg::Shift(_) | Leg::Permute { .. } => false,
        };
        self.route.legs.iter().filter(|leg| !is_local(leg)).filter_map(|leg| leg.reach(mesh)).collect()
    }
}

impl fmt::Debug for Transfer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("name", &self.name).field("tile", &self.tile).finish_non_exhaustive()
    }
}

/// A kernel: its arrays, its loops and its transfers.
#[derive(Debug)]
pub struct Kernel<'a> {
    pub(crate) name: Name,
    pub(crate) statement: String,
    pub(crate) mesh: Mesh,
    pub(crate) assign: Assign,
    /// The shardings of the inputs, then that of the output.
    pub(crate) shardings: Vec<Sharding>,
    /// The iterations of its serial loops, the outermost first.
    pub(crate) loops: Vec<i64>,
    /// Those of inputs, then that of the output.
    pub(crate) transfers: Vec<Transfer<'a>>,
    pub(crate) written: Option<Written>,
    pub(crate) overwrites: bool,
    pub(crate) in_place: InPlace,
    /// The loop of the leaf that is sliced while transfers are in flight, and the unit of the slices.
    pub(crate) slices: Option<(usize, SlicesOf)>,
    pub(crate) time_steps: Option<TimeSteps<'a>>,
}

/// Iterations of a loop that apply the kernel again and again, without communication.
pub(crate) struct TimeSteps<'a> {
    pub(crate) counter: usize,
    pub(crate) capacity: usize,
    /// The region that a step computes.
    pub(crate) region: RegionOf<'a>,
}

impl fmt::Debug for TimeSteps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeSteps").field("counter", &self.counter).finish_non_exhaustive()
    }
}

impl<'a> Kernel<'a> {
    /// Returns a kernel called `name`, which computes this statement on arrays with these shardings, the inputs first. All ranks must
    /// give the same.
    #[must_use]
    pub fn new<'s>(
        name: &str,
        statement: &str,
        mesh: &Mesh,
        assign: Assign,
        shardings: impl IntoIterator<Item = &'s Sharding>,
    ) -> Self {
        Self {
            name: Name::new(name),
            statement: statement.into(),
            mesh: mesh.clone(),
            assign,
            shardings: shardings.into_iter().cloned().collect(),
            loops: Vec::new(),
            transfers: Vec::new(),
            written: None,
            overwrites: false,
            in_place: InPlace::Always,
            slices: None,
            time_steps: None,
        }
    }

    /// Returns the kernel with these transfers: of inputs, in the order of their tiles' numbers, and last that of the output.
    #[must_use]
    pub fn transfers(self, transfers: impl Into<Vec<Transfer<'a>>>) -> Self {
        Self { transfers: transfers.into(), ..self }
    }

    /// Returns the kernel with serial loops of these numbers of iterations, the outermost first.
    #[must_use]
    pub fn loops(self, extents: impl Into<Vec<i64>>) -> Self {
        Self { loops: extents.into(), ..self }
    }

    /// Returns the kernel, whose leaf gives each element that it writes one value.
    #[must_use]
    pub fn overwrites(self) -> Self {
        Self { overwrites: true, ..self }
    }

    /// Returns the kernel, whose inputs these ranks read in place, where they share memory. Without this call, all do.
    #[must_use]
    pub fn in_place(self, in_place: InPlace) -> Self {
        Self { in_place, ..self }
    }

    /// Returns the kernel, which writes only the elements of its output at the indices
    /// `base[d] + strides[d][0] * v[0] + strides[d][1] * v[1] + ..`, where each variable `v[l]` runs over `0..counts[l]`.
    #[must_use]
    pub fn writes(self, base: &[i64], strides: &[&[i64]], counts: &[usize]) -> Self {
        let strides = strides.iter().map(|strides| strides.to_vec()).collect();
        Self { written: Some(Written { base: base.to_vec(), strides, counts: counts.to_vec() }), ..self }
    }

    /// Returns the kernel, whose leaf is cut into slices along this loop of the leaf while transfers are in flight.
    #[must_use]
    pub fn sliced(self, along: usize, of: SlicesOf) -> Self {
        Self { slices: Some((along, of)), ..self }
    }

    /// Returns the kernel, which is applied in each iteration of a loop to what it computed in the iteration before: the region that
    /// `find` returns, of at most `capacity` elements.
    ///
    /// # Panics
    /// As for [`Transfer::region`].
    #[must_use]
    pub fn time_steps<const A: usize, const L: usize>(
        self,
        counter: usize,
        capacity: usize,
        find: impl Fn([i64; A], [i64; L]) -> Region + 'a,
    ) -> Self {
        Self { time_steps: Some(TimeSteps { counter, capacity, region: region(find) }), ..self }
    }

    /// The transfers of inputs.
    pub(super) fn inputs(&self) -> &[Transfer<'a>] {
        self.transfers.split_last().map_or(&[], |(_, inputs)| inputs)
    }

    pub(super) fn output(&self) -> &Transfer<'a> {
        self.transfers.last().expect("a kernel has the transfer of its output")
    }

    pub(super) fn output_sharding(&self) -> &Sharding {
        self.shardings.last().expect("a kernel has an output")
    }

    /// Whether the leaf writes a tile that is never sent: other kernels of the same run read it there.
    pub(super) fn keeps_in_tile(&self) -> bool {
        let output = self.output();
        output.route.is_in_place() && output.tile.buffers != Buffers::Shard
    }

    /// Whether a rank reads input elements that others own.
    pub(super) fn reads_others(&self) -> bool {
        !self.inputs().iter().all(|transfer| transfer.route.is_local() && transfer.reused.is_none())
    }

    /// The sets of axes along which ranks communicate as groups, with the stages of their collectives, in ascending order, which is the
    /// same on all ranks.
    pub(super) fn groups(&self) -> BTreeSet<(Vec<usize>, Option<Stages>)> {
        let sent = self.transfers.iter().filter(|transfer| transfer.reused.is_none());
        sent.flat_map(|transfer| &transfer.route.legs).filter_map(Leg::group).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_inner_loops_are_zero() {
        let find = coordinates(|[x]: [i64; 1], [ko, ki]: [i64; 2]| [x + ko, ki]);
        assert_eq!(find.at(&[3], &[4])[..], [7, 0]);
        assert_eq!(find.at(&[3], &[4, 5])[..], [7, 5]);
    }

    #[test]
    #[should_panic(expected = "a function of 1 coordinates is called with 2: it needs one for each axis")]
    fn a_function_of_another_mesh_is_refused() {
        let _ = coordinates(|[x]: [i64; 1], _: [i64; 0]| [x]).at(&[1, 2], &[]);
    }
}
