//! Legs as collectives in groups: what a machine is asked the time of.

use polyshard_layout::{Collective, DType, Mesh, Reach, Sharding, Stages};
use polyshard_program::reduction::{Lowered, LoweredStep};
use polyshard_program::{CollectiveBy, Direction, Leg, Move, Nest, Owners, Program, Transfer, Volume, Way};

/// What is done for a transfer, all of it in a run.
pub(super) enum Action {
    /// A rank copies bytes within its own memory, this number of times.
    Copy { times: u64, bytes: f64 },
    /// Ranks communicate `times` times, with `bytes` bytes on each before. Where they see one another's memory, they read and write
    /// `touched` bytes there and in their own, besides what a leaf reads anyway.
    Together { times: u64, operation: Operation, groups: Groups, bytes: f64, touched: f64 },
}

/// What ranks do together.
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

/// Who communicates.
#[derive(Clone)]
pub(super) enum Groups {
    /// The ranks that differ along these axes alone.
    Along(Vec<usize>),
    /// These ranks.
    Of(Vec<Vec<usize>>),
}

/// What is carried by a leg, and how: between the tiles of a nest and the shards of their owners, or between two arrays, of which what a
/// rank has on the other side is its tile.
struct Carried<'a> {
    /// The mesh of which the leg names axes.
    mesh: &'a Mesh,
    /// The program's, which may be a coarser one.
    program: &'a Mesh,
    dtype: DType,
    direction: Direction,
    /// How often it goes between owners and tiles, how often of these some rank receives something, and how often from tile to tile.
    times: u64,
    busy: u64,
    shifts: u64,
    /// The bytes of a tile, and the most of them that a rank receives at a time.
    tile: f64,
    received: f64,
    /// Whether parts are broadcast one by one, or sums taken in pieces.
    in_pieces: bool,
    /// Whether sums leave while others are computed: then no library sums them up.
    is_ahead: bool,
}

/// The legs of a transfer of a nest.
pub(super) fn of_transfer(nest: &Nest, transfer: &Transfer, volume: &Volume) -> Vec<Action> {
    if transfer.kept_by().is_some() {
        return Vec::new();
    }
    let dtype = nest.kernel.dtype();
    // A tile that travels comes from its owner once in each round of its loop.
    let round = transfer.route.shift().map_or(1, |shift| nest.loops[shift.counter.0].extent.max(1) as u64);
    let times = volume.times.div_ceil(round);
    let carried = Carried {
        mesh: &nest.mesh,
        program: &nest.mesh,
        dtype,
        direction: transfer.direction,
        times,
        // Where nobody receives anything, nobody waits.
        busy: if round == 1 { volume.busy } else { times },
        shifts: volume.times - times,
        tile: transfer.tile.capacity as f64 * dtype.size() as f64,
        received: volume.each as f64,
        in_pieces: transfer.tile.in_pieces,
        is_ahead: transfer.ahead > 0,
    };
    transfer.route.legs.iter().flat_map(|leg| carried.by(leg)).collect()
}

/// The legs of a move between two arrays, by which no rank receives more bytes than `received`.
pub(super) fn of_move(program: &Program, moved: &Move, received: f64) -> Vec<Action> {
    let [from, to] = [moved.source, moved.target].map(|id| &program.array(id).sharding);
    let bytes_of = |sharding: &Sharding| sharding.largest_shard() as f64 * program.dtype().size() as f64;
    if received == 0.0 && moved.way.procedure().is_none() {
        return vec![Action::Copy { times: 1, bytes: bytes_of(from) }];
    }
    let mesh = Way::mesh(moved.kept.as_ref().unwrap_or(from), to);
    let then = if moved.way.closes_sums() && moved.way.legs.len() > 1 { received.min(bytes_of(to)) } else { 0.0 };
    let leg = |(leg, direction): (&Leg, Direction)| {
        let carried = Carried {
            mesh: &mesh,
            program: program.mesh(),
            dtype: program.dtype(),
            direction,
            times: 1,
            busy: 1,
            shifts: 0,
            tile: bytes_of(if direction == Direction::In { to } else { from }),
            received: if direction == moved.way.direction { received - then } else { then },
            in_pieces: moved.way.in_pieces,
            is_ahead: false,
        };
        carried.by(leg)
    };
    moved.way.taken().into_iter().flat_map(leg).collect()
}

impl Carried<'_> {
    /// What ranks do by a leg.
    fn by(&self, leg: &Leg) -> Vec<Action> {
        let Self { mesh, times, tile, received, in_pieces, .. } = *self;
        let members = |axes: &[usize]| mesh.group_size(axes) as f64;
        match (leg, self.direction) {
            (
                Leg::Collective {
                    owners: Owners::One(_) | Owners::Parts, by: Some(CollectiveBy::Stages(stages)), ..
                },
                Direction::In,
            ) => spread(times, leg, stages, mesh, tile),
            (Leg::Collective { by: Some(CollectiveBy::Stages(stages)), .. }, Direction::Out { any_order }) => {
                met(times, leg, stages, mesh, tile, !any_order && meets_in_order(self.dtype))
            }
            (Leg::Collective { axes, by: Some(CollectiveBy::Procedure(procedure)), .. }, Direction::Out { .. }) => {
                match procedure.steps() {
                    Some(lowered) => by_steps(times, lowered, tile),
                    None => {
                        let (groups, members) = (self.groups(axes), members(axes));
                        sums(times, Collective::AllReduce, &groups, members, [tile, received], Some(true))
                    }
                }
            }
            (Leg::InPlace, _) | (Leg::Collective { owners: Owners::All, .. }, Direction::In) => Vec::new(),
            (Leg::Copy, _) => vec![Action::Copy { times, bytes: tile }],
            (Leg::Collective { axes, owners, .. }, Direction::In) => {
                let is_broadcast = matches!(owners, Owners::One(_)) || in_pieces;
                let operation = if is_broadcast { Collective::Broadcast } else { Collective::AllGather };
                vec![self.together(self.busy, operation, axes)]
            }
            (Leg::Collective { axes, owners, .. }, Direction::Out { any_order }) => {
                let in_order = !any_order && meets_in_order(self.dtype) || self.is_ahead;
                let in_pieces = in_order.then_some(in_pieces);
                sums(times, summing(owners), &self.groups(axes), members(axes), [tile, received], in_pieces)
            }
            (Leg::Shift(shift), _) => vec![self.together(self.shifts, Collective::Permute, &[shift.axis.0])],
            (Leg::Permute { .. }, _) => vec![self.together(self.busy, Collective::Exchange, &all(mesh))],
            (Leg::Halo { reach } | Leg::Exchange { reach }, _) => {
                let far: Vec<_> = all(mesh).into_iter().filter(|&axis| reach.along[axis] != Reach::OWN).collect();
                vec![self.together(self.busy, Collective::Exchange, &far)]
            }
        }
    }

    /// A collective of ranks that differ along these axes alone.
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
            // One box of another's shard, which the leaf reads where it is.
            (Direction::In, Collective::Broadcast | Collective::Permute) => 0.0,
            (Direction::In, _) => 2.0 * received,
        };
        Action::Together { times, operation: operation.into(), groups: self.groups(axes), bytes, touched }
    }

    /// The ranks that differ along these axes alone.
    fn groups(&self, axes: &[usize]) -> Groups {
        match self.mesh == self.program {
            true => Groups::Along(axes.to_vec()),
            false if axes.len() == self.mesh.ndim() => Groups::Along(all(self.program)),
            false => Groups::Of(self.mesh.groups_along(axes)),
        }
    }
}

/// Each stage of a broadcast or an all-gather.
fn spread(times: u64, leg: &Leg, stages: &Stages, mesh: &Mesh, tile: f64) -> Vec<Action> {
    let is_broadcast = matches!(leg, Leg::Collective { owners: Owners::One(_), .. });
    let all: f64 = stages.sizes().map(|size| size as f64).product();
    let mut held = tile / all;
    let mut actions = Vec::new();
    for (stage, size) in stages.sizes().enumerate() {
        let (operation, bytes) =
            if is_broadcast { (Collective::Broadcast, tile) } else { (Collective::AllGather, held) };
        // Of a broadcast, those have a part who got it in the stage before.
        let (operation, groups) = (operation.into(), Groups::Of(groups_in(stages, stage, mesh, is_broadcast)));
        // Where a rank sees the others of a stage, but not those of all stages, what they got by messages is copied.
        let copied = if is_broadcast { tile } else { held * size as f64 };
        let touched = if stage == 0 { 0.0 } else { 2.0 * copied };
        actions.push(Action::Together { times, operation, groups, bytes, touched });
        held *= size as f64;
    }
    actions
}

/// Each stage in which sums meet, the last one first.
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
        let carried_out = match in_order {
            true => self::in_order(operation, size, held, true),
            false => vec![(operation.into(), held)],
        };
        operations.extend(carried_out.into_iter().map(|(operation, bytes)| (stage, operation, bytes)));
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
            // Parts are packed, and go by messages even where ranks see one another.
            Operation::Collective(_) => {
                let packed = if *owners == Owners::Parts { 2.0 * bytes } else { 0.0 };
                packed + combined(bytes * others / sizes[stage], sizes[stage])
            }
        };
        Action::Together { times, operation, groups, bytes, touched }
    };
    operations.into_iter().map(action).collect()
}

/// The ranks of the groups of a stage; `from_one` leaves out those in which nobody has what a root spreads, which are those of one layer
/// as well as another: here those whose root is the first rank.
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

/// The bytes that a rank reads and writes to combine what it sees of the other members with what it has.
fn combined(received: f64, members: f64) -> f64 {
    received + 2.0 * received / f64::max(members - 1.0, 1.0)
}

/// Whether sums are taken in the order of the ranks: of floats that programs compute in. Types to plan with are for machines whose libraries
/// sum them up.
fn meets_in_order(dtype: DType) -> bool {
    dtype.is_float() && dtype.native().is_ok()
}

/// Sums of tiles in groups: by the library's collective, or in the order of the ranks, in pieces or not. No rank receives more bytes at a time
/// than the second.
fn sums(
    times: u64,
    operation: Collective,
    groups: &Groups,
    members: f64,
    [tile, received]: [f64; 2],
    in_pieces: Option<bool>,
) -> Vec<Action> {
    let operations = match in_pieces {
        None => vec![(operation.into(), tile)],
        Some(in_pieces) => in_order(operation, members, tile, in_pieces),
    };
    // Where terms are read in place, they are read once.
    let touched = combined(received, members);
    let action = |(nth, (operation, bytes)): (usize, (Operation, f64))| Action::Together {
        times,
        operation,
        groups: groups.clone(),
        bytes,
        touched: if nth == 0 { touched } else { 0.0 },
    };
    operations.into_iter().enumerate().map(action).collect()
}

/// How sums of floats meet in the order of the ranks, by messages between pairs: each rank gets a piece of all terms and hands on its sum, or
/// each rank that needs the sum gets all terms whole. Returns operations, each with the bytes that a rank holds before it; `bytes` are summed.
fn in_order(operation: Collective, members: f64, bytes: f64, in_pieces: bool) -> Vec<(Operation, f64)> {
    let piece = bytes / members;
    match (operation, in_pieces) {
        (Collective::Reduce, true) => vec![(Collective::Exchange.into(), bytes), (Operation::Gather, piece)],
        (Collective::Reduce, false) => vec![(Operation::Gather, bytes)],
        (Collective::AllReduce, true) => {
            vec![(Collective::Exchange.into(), bytes), (Collective::AllGather.into(), piece)]
        }
        (Collective::AllReduce, false) => vec![(Collective::AllGather.into(), bytes)],
        _ => vec![(Collective::Exchange.into(), bytes)],
    }
}

/// The steps of a procedure, on `bytes` bytes each time.
fn by_steps(times: u64, lowered: &Lowered, bytes: f64) -> Vec<Action> {
    let step = |step: &LoweredStep| {
        let (operation, groups) = (step.collective.into(), Groups::Of(step.groups.to_vec()));
        let bytes = bytes / step.parts as f64;
        Action::Together { times, operation, groups, bytes, touched: combined(bytes, 2.0) }
    };
    lowered.steps().iter().map(step).collect()
}

/// The bytes that a rank holds before an exchange in which no rank receives more than `received`: its own part stays. One rank alone holds
/// all of `whole`.
fn exchanged(received: f64, members: f64, whole: f64) -> f64 {
    if members > 1.0 { received * members / (members - 1.0) } else { whole }
}

/// The collective by which sums meet at those who own them.
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
