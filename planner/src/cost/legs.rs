//! Legs as collectives in groups, to be priced by a machine. Tests: `planner/tests/it/cost.rs`.

use super::{ExchangePrice, Prices};
use polyshard_layout::{Collective, DType, Mesh, Neighbours, Reach, Sharding, Stages, SumAlgorithm};
use polyshard_machine::{GroupedCollective, MachineError, Seconds};
use polyshard_program::reduction::{LoweredStep, Procedure};
use polyshard_program::{
    Algorithm, Direction, InPlace, Leg, MoveView, NestView, Owners, Program, TransferView, Volume, common_mesh,
};

/// One action of a transfer, with all its repetitions in a run.
#[derive(Clone)]
pub(super) enum Action {
    /// A rank copies bytes within its own memory, this number of times.
    Copy { times: u64, bytes: f64 },
    /// Ranks communicate `times` times, with `bytes` bytes on each before. Where they share memory, they read and write
    /// `touched` bytes instead, in others' memory and their own and in addition to a leaf's own accesses.
    Together { times: u64, operation: Operation, groups: Groups, bytes: f64, touched: f64, shared: Shared },
    /// Ranks exchange once: in `seconds` by messages; none where they share memory, touch bytes as above, and
    /// synchronise.
    Exchanged { seconds: Option<Seconds>, touched: f64 },
}

/// The maximum number of pairs of ranks to examine one by one.
const PAIRS: usize = 4096;

impl Action {
    /// How often it is carried out.
    pub(super) fn times(&self) -> u64 {
        match self {
            Self::Copy { times, .. } | Self::Together { times, .. } => *times,
            Self::Exchanged { .. } => 1,
        }
    }
}

/// How ranks that share memory carry out an action.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shared {
    /// They read what is published once a run, as often as needed.
    Published,
    /// They read and write in place, and wait for each other each time.
    Meets,
    /// By messages.
    Messages,
}

/// An operation of several ranks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    /// A collective.
    Collective(Collective),
    /// Each but the first sends what it holds to the first.
    Gather,
}

impl From<Collective> for Operation {
    fn from(collective: Collective) -> Self {
        Self::Collective(collective)
    }
}

/// The groups of ranks that communicate.
#[derive(Clone)]
pub(super) enum Groups {
    /// The ranks that differ along these axes alone.
    Along(Vec<usize>),
    /// These ranks.
    Of(Vec<Vec<usize>>),
}

/// The data that a leg carries, and how: between the tiles of a nest and the shards of their owners, or between two
/// arrays; then a rank's part of the other array is its tile.
struct Carried<'a> {
    /// The mesh whose axes the leg names.
    mesh: &'a Mesh,
    /// The program's mesh, which may be coarser.
    program: &'a Mesh,
    dtype: DType,
    direction: Direction,
    /// How often data moves between owners and tiles, how many of these times some rank receives any, and how often data
    /// moves from tile to tile.
    times: u64,
    busy: u64,
    shifts: u64,
    /// The bytes of a tile, and the maximum of them that a rank receives at a time.
    tile: f64,
    received: f64,
    /// Whether sums are sent while others are computed: then no library adds them.
    is_ahead: bool,
    shared: Shared,
}

/// The legs of a transfer of a nest, whose inputs these ranks read in place. They are processes, each with a device.
pub(super) fn of_transfer(
    nest: &NestView<'_>,
    in_place: Option<InPlace>,
    transfer: &TransferView<'_>,
    volume: &Volume,
) -> Vec<Action> {
    if transfer.reused.is_some() {
        return Vec::new();
    }
    let dtype = nest.kernel.dtype();
    // A tile that is shifted between ranks is received from its owner once per round of its loop.
    let round = transfer.route.shift().map_or(1, |shift| nest.loops[shift.counter.0].extent.max(1) as u64);
    let times = volume.times.div_ceil(round);
    let carried = Carried {
        mesh: nest.mesh,
        program: nest.mesh,
        dtype,
        direction: transfer.direction,
        times,
        // Where no rank receives anything, none waits.
        busy: if round == 1 { volume.busy } else { times },
        shifts: volume.times - times,
        tile: transfer.tile.capacity as f64 * dtype.size() as f64,
        received: volume.each as f64,
        is_ahead: transfer.ahead > 0,
        shared: match (transfer.direction, in_place) {
            (Direction::Out { .. }, _) => Shared::Meets,
            (Direction::In, Some(InPlace::Threads)) => Shared::Messages,
            (Direction::In, _) => Shared::Published,
        },
    };
    transfer.route.legs.iter().flat_map(|leg| carried.by(leg)).collect()
}

/// The legs of a move between two arrays, by which no rank receives more bytes than `received`.
pub(super) fn of_move(
    program: &Program,
    moved: &MoveView<'_>,
    received: f64,
    prices: &Prices<'_>,
) -> Result<Vec<Action>, MachineError> {
    let [from, to] = moved.shardings;
    let bytes_of = |sharding: &Sharding| sharding.largest_shard() as f64 * program.dtype().size() as f64;
    if received == 0.0 && moved.route.procedure().is_none() {
        return Ok(vec![Action::Copy { times: 1, bytes: bytes_of(to) }]);
    }
    let mesh = common_mesh(moved.kept.as_ref().unwrap_or(from), to);
    let then = if moved.closes_sums() && moved.route.legs.len() > 1 { received.min(bytes_of(to)) } else { 0.0 };
    let leg = |(leg, direction): (&Leg, Direction)| {
        if let (Leg::Exchange { reach, .. }, false) = (leg, moved.closes_sums()) {
            let from = moved.kept.as_ref().unwrap_or(from);
            let exchanged = |seconds| Ok(vec![Action::Exchanged { seconds, touched: 2.0 * received }]);
            match prices.exchange([from, to], &mesh, reach, program.dtype())? {
                ExchangePrice::ByMessages(seconds) => return exchanged(Some(seconds)),
                ExchangePrice::InPlace => return exchanged(None),
                ExchangePrice::AsCollective => {}
            }
        }
        let carried = Carried {
            mesh: &mesh,
            program: program.mesh(),
            dtype: program.dtype(),
            direction,
            times: 1,
            busy: 1,
            shifts: 0,
            tile: bytes_of(if direction == Direction::In { to } else { from }),
            received: if direction == moved.direction { received - then } else { then },
            is_ahead: false,
            shared: Shared::Meets,
        };
        Ok(carried.by(leg))
    };
    let legs = moved.route.taken(moved.direction).into_iter().map(leg).collect::<Result<Vec<_>, MachineError>>()?;
    Ok(legs.concat())
}

/// The messages of an exchange, if few: ranks may reach others that have nothing for them. None also where several
/// ranks in reach own the same elements.
pub(super) fn messages(
    [from, to]: [&Sharding; 2],
    mesh: &Mesh,
    reach: &Neighbours,
    dtype: DType,
) -> Option<Vec<(usize, usize, f64)>> {
    let ranks = mesh.size();
    if ranks.saturating_mul(mesh.others_in_reach(reach)) > PAIRS {
        return None;
    }
    let at = |sharding: &Sharding| (0..ranks).map(|rank| sharding.mesh().coordinates(rank)).collect::<Vec<_>>();
    let (owners, readers) = (at(from), at(to));
    let mut messages = Vec::new();
    for (rank, reader) in readers.iter().enumerate() {
        let mut found = 0;
        for owner in mesh.in_reach(&mesh.coordinates(rank), reach).map(|at| mesh.rank(&at)) {
            let common = from.common_len(&owners[owner], to, reader);
            if owner != rank && common > 0 {
                messages.push((owner, rank, common as f64 * dtype.size() as f64));
            }
            found += common;
        }
        if found != to.local_len(reader) {
            return None;
        }
    }
    Some(messages)
}

impl Carried<'_> {
    /// The actions of a leg.
    fn by(&self, leg: &Leg) -> Vec<Action> {
        let Self { mesh, times, tile, received, .. } = *self;
        let members = |axes: &[usize]| mesh.group_size(axes) as f64;
        match (leg, self.direction) {
            (
                Leg::Collective { owners: Owners::One(_) | Owners::Parts, by: Algorithm::Stages(stages), .. },
                Direction::In,
            ) => spread(times, leg, stages, mesh, tile, self.shared),
            (Leg::Collective { by: Algorithm::Stages(stages), .. }, Direction::Out { any_order }) => {
                met(times, leg, stages, mesh, tile, !any_order && meets_in_order(self.dtype))
            }
            (Leg::Collective { by: Algorithm::Procedure(procedure), .. }, Direction::Out { .. }) => {
                of_procedure(times, procedure, tile)
            }
            (Leg::InPlace, _) | (Leg::Collective { owners: Owners::All, .. }, Direction::In) => Vec::new(),
            (Leg::Copy, _) => vec![Action::Copy { times, bytes: tile }],
            (Leg::Collective { axes, owners, by }, Direction::In) => {
                let is_broadcast = matches!(owners, Owners::One(_)) || *by == Algorithm::EachPart;
                let operation = if is_broadcast { Collective::Broadcast } else { Collective::AllGather };
                vec![self.together(self.busy, operation, axes)]
            }
            (Leg::Collective { axes, owners, by }, Direction::Out { any_order }) => {
                let in_order = !any_order && meets_in_order(self.dtype) || self.is_ahead;
                let by = if in_order { by.of_sums() } else { SumAlgorithm::Library };
                sums(times, summing(owners), &self.groups(axes), members(axes), [tile, received], by)
            }
            (Leg::Shift(shift), _) => vec![self.together(self.shifts, Collective::Permute, &[shift.axis.0])],
            (Leg::Permute { .. }, _) => vec![self.together(self.busy, Collective::Exchange, &all(mesh))],
            (Leg::Halo { reach } | Leg::Exchange { reach, .. }, _) => {
                let far: Vec<_> = all(mesh).into_iter().filter(|&axis| reach.along[axis] != Reach::OWN).collect();
                vec![self.together(self.busy, Collective::Exchange, &far)]
            }
        }
    }

    /// A collective of the ranks that differ along these axes only.
    fn together(&self, times: u64, operation: Collective, axes: &[usize]) -> Action {
        let Self { mesh, tile, received, .. } = *self;
        let members = mesh.group_size(axes) as f64;
        let bytes = match operation {
            Collective::AllGather => tile / members,
            Collective::Exchange => exchanged(received, members, tile),
            _ => tile,
        };
        let touched = match (self.direction, operation) {
            (Direction::Out { .. }, _) => combined(received, 2.0),
            // One box of another rank's shard, which the leaf reads in place.
            (Direction::In, Collective::Broadcast | Collective::Permute) => 0.0,
            (Direction::In, _) => 2.0 * received,
        };
        let (operation, shared) = (operation.into(), self.shared);
        Action::Together { times, operation, groups: self.groups(axes), bytes, touched, shared }
    }

    /// The ranks that differ along these axes only.
    fn groups(&self, axes: &[usize]) -> Groups {
        match self.mesh == self.program {
            true => Groups::Along(axes.to_vec()),
            false if axes.len() == self.mesh.ndim() => Groups::Along(all(self.program)),
            false => Groups::Of(self.mesh.groups_along(axes)),
        }
    }
}

/// Each stage of a broadcast or an all-gather.
fn spread(times: u64, leg: &Leg, stages: &Stages, mesh: &Mesh, tile: f64, first: Shared) -> Vec<Action> {
    let is_broadcast = matches!(leg, Leg::Collective { owners: Owners::One(_), .. });
    let all: f64 = stages.sizes().map(|size| size as f64).product();
    let mut held = tile / all;
    let mut actions = Vec::new();
    for (stage, size) in stages.sizes().enumerate() {
        let (operation, bytes) =
            if is_broadcast { (Collective::Broadcast, tile) } else { (Collective::AllGather, held) };
        // In a broadcast, the ranks that received in the stage before have the data.
        let (operation, groups) = (operation.into(), Groups::Of(groups_in(stages, stage, mesh, is_broadcast)));
        // Where a rank shares memory with the others of a stage, but not with those of all stages, it copies the data
        // received by messages.
        let copied = if is_broadcast { tile } else { held * size as f64 };
        let (touched, shared) = if stage == 0 { (0.0, first) } else { (2.0 * copied, Shared::Meets) };
        actions.push(Action::Together { times, operation, groups, bytes, touched, shared });
        held *= size as f64;
    }
    actions
}

/// Each stage of a sum over ranks, the last one first.
fn met(times: u64, leg: &Leg, stages: &Stages, mesh: &Mesh, tile: f64, in_order: bool) -> Vec<Action> {
    let Leg::Collective { owners, .. } = leg else { return Vec::new() };
    let sizes: Vec<f64> = stages.sizes().map(|size| size as f64).collect();
    let (mut held, mut operations) = (tile, Vec::new());
    for (stage, &size) in sizes.iter().enumerate().rev() {
        let (operation, next) = match owners {
            Owners::One(_) => (Collective::Reduce, held),
            Owners::All if stage == 0 => (Collective::AllReduce, held),
            Owners::All | Owners::Parts => (Collective::ReduceScatter, held / size),
        };
        let by = if in_order { SumAlgorithm::ReduceScatterGather } else { SumAlgorithm::Library };
        let carried_out = self::operations(operation, size, held, by).into_iter();
        operations.extend(carried_out.map(|(operation, bytes)| (stage, operation, bytes)));
        held = next;
    }
    if *owners == Owners::All {
        for (stage, &size) in sizes.iter().enumerate().skip(1) {
            operations.push((stage, Collective::AllGather.into(), held));
            held *= size;
        }
    }
    let to_one = matches!(owners, Owners::One(_));
    let action = |(stage, operation, bytes): (usize, Operation, f64)| {
        let groups = Groups::Of(groups_in(stages, stage, mesh, to_one));
        let others = sizes[stage] - 1.0;
        let touched = match operation {
            Operation::Gather | Operation::Collective(Collective::AllGather) => 2.0 * bytes * others,
            // Parts are packed, and sent as messages even between ranks that share memory.
            Operation::Collective(_) => {
                let packed = if *owners == Owners::Parts { 2.0 * bytes } else { 0.0 };
                packed + combined(bytes * others / sizes[stage], sizes[stage])
            }
        };
        Action::Together { times, operation, groups, bytes, touched, shared: Shared::Meets }
    };
    operations.into_iter().map(action).collect()
}

/// The groups of ranks of a stage. `from_one` leaves out groups without the root's data; any layer of ranks could be
/// the one with data, and here it is that of the first rank.
fn groups_in(stages: &Stages, stage: usize, mesh: &Mesh, from_one: bool) -> Vec<Vec<usize>> {
    let (refined, along) = stages.refined(mesh);
    let mut groups = refined.groups_along(&along[stage]);
    let later: Vec<usize> = along[stage + 1..].concat();
    let has_part = |group: &Vec<usize>| {
        let at = refined.coordinates(group[0]);
        !from_one || later.iter().all(|&axis| at[axis] == 0)
    };
    groups.retain(has_part);
    groups
}

/// The bytes that a rank reads and writes to combine the other members' data, read in place, with its own.
fn combined(received: f64, members: f64) -> f64 {
    received + 2.0 * received / f64::max(members - 1.0, 1.0)
}

/// Whether sums are taken in rank order, as sums of floats that programs can compute in. Planning-only types are for
/// machines whose libraries sum them.
fn meets_in_order(dtype: DType) -> bool {
    dtype.is_float() && dtype.native().is_ok()
}

/// Sums of tiles in groups. No rank receives more bytes at a time than the second of `bytes` and `received`.
fn sums(
    times: u64,
    operation: Collective,
    groups: &Groups,
    members: f64,
    [tile, received]: [f64; 2],
    by: SumAlgorithm,
) -> Vec<Action> {
    let operations = operations(operation, members, tile, by);
    // Terms that are read in place are read once.
    let touched = combined(received, members);
    let action = |(nth, (operation, bytes)): (usize, (Operation, f64))| Action::Together {
        times,
        operation,
        groups: groups.clone(),
        bytes,
        touched: if nth == 0 { touched } else { 0.0 },
        shared: Shared::Meets,
    };
    operations.into_iter().enumerate().map(action).collect()
}

/// Sums by the library's collective, or in rank order, by messages between pairs: each rank receives a piece of all terms
/// and sends on its sum, or each rank that needs the sum receives all terms whole. Returns operations, each with the bytes
/// that a rank holds before it; `bytes` are summed.
fn operations(operation: Collective, members: f64, bytes: f64, by: SumAlgorithm) -> Vec<(Operation, f64)> {
    let piece = bytes / members;
    match (by, operation) {
        (SumAlgorithm::Library, operation) => vec![(operation.into(), bytes)],
        (SumAlgorithm::GatherTerms, Collective::Reduce) => vec![(Operation::Gather, bytes)],
        (SumAlgorithm::GatherTerms, Collective::AllReduce) => vec![(Collective::AllGather.into(), bytes)],
        (SumAlgorithm::ReduceScatterGather, Collective::Reduce) => {
            vec![(Collective::Exchange.into(), bytes), (Operation::Gather, piece)]
        }
        (SumAlgorithm::ReduceScatterGather, Collective::AllReduce) => {
            vec![(Collective::Exchange.into(), bytes), (Collective::AllGather.into(), piece)]
        }
        _ => vec![(Collective::Exchange.into(), bytes)],
    }
}

/// The actions of a procedure that combines `bytes` bytes each time.
pub(super) fn of_procedure(times: u64, procedure: &Procedure, bytes: f64) -> Vec<Action> {
    if let Some(lowered) = procedure.steps() {
        return lowered.steps().iter().map(|step| of_step(times, step, bytes)).collect();
    }
    let members = procedure.groups().iter().map(Vec::len).max().unwrap_or(1) as f64;
    if members < 2.0 {
        return Vec::new();
    }
    // Each rank receives its piece of all other ranks' terms, and the sums of the other pieces.
    let received = 2.0 * bytes * (members - 1.0) / members;
    let groups = Groups::Of(procedure.groups().to_vec());
    sums(times, Collective::AllReduce, &groups, members, [bytes, received], SumAlgorithm::ReduceScatterGather)
}

/// The action of one of several steps that combine `bytes` bytes each time.
pub(super) fn of_step(times: u64, step: &LoweredStep, bytes: f64) -> Action {
    let (operation, groups) = (step.collective, step.groups.to_vec());
    of_collective(times, GroupedCollective { operation, groups, bytes: bytes / step.parts as f64 })
}

/// The action of a collective that is in no program of a kernel.
pub(super) fn of_collective(times: u64, collective: GroupedCollective) -> Action {
    let GroupedCollective { operation, groups, bytes } = collective;
    let members = groups.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let touched = touched(operation, members, bytes);
    let (operation, groups) = (operation.into(), Groups::Of(groups));
    Action::Together { times, operation, groups, bytes, touched, shared: Shared::Meets }
}

/// The bytes that a rank reads and writes where it shares memory with the other members of its group, each of which
/// holds `bytes` before.
fn touched(operation: Collective, members: f64, bytes: f64) -> f64 {
    let others = members - 1.0;
    match operation {
        Collective::Slice => 0.0,
        Collective::Permute | Collective::Broadcast => 2.0 * bytes,
        Collective::AllGather => 2.0 * bytes * others,
        Collective::AllToAll | Collective::Exchange => 2.0 * bytes * others / members,
        Collective::Reduce => combined(bytes * others, members),
        Collective::ReduceScatter => combined(bytes * others / members, members),
        // Each sums up a piece, and reads all other sums.
        Collective::AllReduce => combined(bytes * others / members, members) + 2.0 * bytes * others / members,
    }
}

/// The bytes that a rank holds before an exchange in which no rank receives more than `received`: its own part stays. A
/// single rank holds all of `whole`.
fn exchanged(received: f64, members: f64, whole: f64) -> f64 {
    if members > 1.0 { received * members / (members - 1.0) } else { whole }
}

/// The collective that sums at the owners of the sums.
fn summing(owners: &Owners) -> Collective {
    match owners {
        Owners::One(_) => Collective::Reduce,
        Owners::Parts => Collective::ReduceScatter,
        Owners::All => Collective::AllReduce,
    }
}

fn all(mesh: &Mesh) -> Vec<usize> {
    (0..mesh.ndim()).collect()
}
