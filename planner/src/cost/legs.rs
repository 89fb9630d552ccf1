//! Legs as collectives in groups: what a machine is asked the time of.

use polyshard_layout::{Collective, DType, Mesh, Name, Reach, Sharding, Stages};
use polyshard_program::reduction::{Lowered, LoweredStep};
use polyshard_program::{CollectiveBy, Direction, Leg, Move, Nest, Owners, Pattern, Program, Transfer, Volume};

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

/// The legs of a transfer of a nest.
pub(super) fn of_transfer(nest: &Nest, transfer: &Transfer, volume: &Volume) -> Vec<Action> {
    let mesh = &nest.mesh;
    let tile = transfer.tile.capacity as f64 * nest.kernel.dtype().size() as f64;
    let received = volume.each as f64;
    // A tile that travels comes from its owner once in each round of its loop.
    let round = transfer.route.shift().map_or(1, |shift| nest.loops[shift.counter.0].extent.max(1) as u64);
    let at_owners = volume.times.div_ceil(round);
    // Where nobody receives anything, nobody waits.
    let busy = if round == 1 { volume.busy } else { at_owners };
    let together = |times: u64, operation: Collective, axes: &[usize]| {
        let members = mesh.group_size(axes) as f64;
        let bytes = match operation {
            Collective::AllGather => tile / members,
            Collective::Exchange => exchanged(received, members, tile),
            _ => tile,
        };
        let touched = match (transfer.direction, operation) {
            (Direction::Out { .. }, _) => combined(received, 2.0),
            // One box of another's shard, which the leaf reads where it is.
            (Direction::In, Collective::Broadcast | Collective::Permute) => 0.0,
            (Direction::In, _) => 2.0 * received,
        };
        Action::Together { times, operation: operation.into(), groups: Groups::Along(axes.to_vec()), bytes, touched }
    };
    let dtype = nest.kernel.dtype();
    let (along, members) =
        (|axes: &[usize]| Groups::Along(axes.to_vec()), |axes: &[usize]| mesh.group_size(axes) as f64);
    let leg = |leg: &Leg| match (leg, transfer.direction) {
        (
            Leg::Collective { owners: Owners::One(_) | Owners::Parts, by: Some(CollectiveBy::Stages(stages)), .. },
            Direction::In,
        ) => spread(at_owners, leg, stages, mesh, tile),
        (Leg::Collective { by: Some(CollectiveBy::Stages(stages)), .. }, Direction::Out { any_order }) => {
            met(at_owners, leg, stages, mesh, tile, !any_order && meets_in_order(dtype))
        }
        (Leg::Collective { axes, by: Some(CollectiveBy::Procedure(procedure)), .. }, Direction::Out { .. }) => {
            match procedure.steps() {
                Some(lowered) => by_steps(at_owners, lowered, tile),
                None => {
                    sums(at_owners, Collective::AllReduce, &along(axes), members(axes), [tile, received], Some(true))
                }
            }
        }
        (Leg::InPlace, _) | (Leg::Collective { owners: Owners::All, .. }, Direction::In) => Vec::new(),
        (Leg::Copy, _) => vec![Action::Copy { times: at_owners, bytes: tile }],
        (Leg::Collective { axes, owners, .. }, Direction::In) => {
            let is_broadcast = matches!(owners, Owners::One(_)) || transfer.tile.in_pieces;
            let operation = if is_broadcast { Collective::Broadcast } else { Collective::AllGather };
            vec![together(busy, operation, axes)]
        }
        (Leg::Collective { axes, owners, .. }, Direction::Out { any_order }) => {
            // What leaves while others are computed, no library sums up.
            let in_order = !any_order && meets_in_order(dtype) || transfer.ahead > 0;
            let in_pieces = in_order.then_some(transfer.tile.in_pieces);
            sums(at_owners, summing(owners), &along(axes), members(axes), [tile, received], in_pieces)
        }
        (Leg::Shift(shift), _) => vec![together(volume.times - at_owners, Collective::Permute, &[shift.axis.0])],
        (Leg::Permute { .. }, _) => vec![together(busy, Collective::Exchange, &all(mesh))],
        (Leg::Halo { reach } | Leg::Exchange { reach }, _) => {
            let far: Vec<_> = all(mesh).into_iter().filter(|&axis| reach.along[axis] != Reach::OWN).collect();
            vec![together(busy, Collective::Exchange, &far)]
        }
    };
    transfer.route.legs.iter().flat_map(leg).collect()
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

/// What a move between two arrays is; no rank receives more bytes by it than `received`.
pub(super) fn of_move(program: &Program, moved: &Move, received: f64) -> Vec<Action> {
    let [from, to] = [moved.source, moved.target].map(|id| &program.array(id).sharding);
    let bytes_of = |sharding: &Sharding| sharding.largest_shard() as f64 * program.dtype().size() as f64;
    let source = bytes_of(from);
    if received == 0.0 && moved.way.procedure().is_none() {
        return vec![Action::Copy { times: 1, bytes: source }];
    }
    // Legs name axes of the array's mesh, which may be the program's in finer digits.
    let mesh = from.mesh();
    let along = |axes: &[usize]| match mesh == program.mesh() {
        true => Groups::Along(axes.to_vec()),
        false => Groups::Of(mesh.groups_along(axes)),
    };
    // In the order of the ranks, a procedure takes pieces.
    let in_pieces = moved.way.in_pieces || moved.way.procedure().is_some();
    let in_pieces = meets_in_order(program.dtype()).then_some(in_pieces);
    // What is summed up moves on.
    let then = if moved.way.legs.len() > 1 { received.min(bytes_of(to)) } else { 0.0 };
    let leg = |leg: &Leg| match (leg, moved.way.closes_sums()) {
        (Leg::Collective { by: Some(CollectiveBy::Procedure(procedure)), .. }, _)
            if let Some(lowered) = procedure.steps() =>
        {
            by_steps(1, lowered, source)
        }
        (Leg::Collective { .. }, false) => {
            let groups = moved.kept.as_ref().unwrap_or(from).gathered_groups(to).unwrap_or_default();
            let bytes = received / (groups.iter().map(Vec::len).max().unwrap_or(2) as f64 - 1.0);
            let (operation, groups) = (Collective::AllGather.into(), Groups::Of(groups));
            vec![Action::Together { times: 1, operation, groups, bytes, touched: 2.0 * received }]
        }
        (Leg::Collective { axes, owners, .. }, true) => {
            let members = mesh.group_size(axes) as f64;
            sums(1, summing(owners), &along(axes), members, [source, received - then], in_pieces)
        }
        _ => {
            let received = if then > 0.0 { then } else { received };
            // Who has something for whom, the route's name tells.
            let axes = match &moved.pattern {
                Pattern::AllGather { axes } | Pattern::AllToAll { axes } | Pattern::Broadcast { axes } => {
                    axes_of(program.mesh(), axes)
                }
                _ => all(program.mesh()),
            };
            let members = program.mesh().group_size(&axes) as f64;
            let bytes = exchanged(received, members, source);
            let (operation, groups) = (Collective::Exchange.into(), Groups::Along(axes));
            vec![Action::Together { times: 1, operation, groups, bytes, touched: 2.0 * received }]
        }
    };
    moved.way.taken().into_iter().flat_map(leg).collect()
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

/// Returns the positions of the axes that these are names of, or of digits of them such as `y%3`, each once. Groups along digits are
/// parts of those along the axis.
///
/// ```
/// use polyshard_layout::Mesh;
/// use polyshard_planner::cost::axes_of;
/// let mesh = Mesh::new([("x", 2), ("y", 4)]);
/// let axes = axes_of(&mesh, &["y/2".into(), "y%2".into()]);
/// assert_eq!(mesh.groups_along(&axes), [[0, 1, 2, 3], [4, 5, 6, 7]]);
/// ```
#[must_use]
pub fn axes_of(mesh: &Mesh, names: &[Name]) -> Vec<usize> {
    let axis = |name: &Name| name.as_str().split(['/', '%']).next().and_then(|axis| mesh.position(axis.into()));
    let mut axes: Vec<usize> = names.iter().filter_map(axis).collect();
    axes.sort_unstable();
    axes.dedup();
    axes
}
