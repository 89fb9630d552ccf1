//! The cost of a program on a machine, statement by statement: its transfers and its leaves.
//! Tests: `planner/tests/it/cost.rs`.

use super::legs::{self, Action};
use super::{CostError, CostedPart, PartCost, Prices, Spent};
use polyshard_layout::{DType, Mesh};
use polyshard_program::{Direction, InPlace, InRounds, LeafOp, NestView, Program, Role, Statement, TransferView, Work};

/// A program on its machine.
pub(super) struct Pricing<'a> {
    prices: &'a Prices<'a>,
    mesh: &'a Mesh,
    /// Bytes per second between a rank and its memory.
    memory: f64,
}

impl<'a> Pricing<'a> {
    pub(super) fn new(program: &'a Program, prices: &'a Prices<'a>) -> Result<Self, CostError> {
        let machine = prices.machine;
        let (ranks, devices, name) = (program.mesh().size(), machine.devices(), || machine.name().to_owned());
        if ranks > devices {
            return Err(CostError::Devices { ranks, machine: name(), devices });
        }
        Ok(Self { prices, mesh: program.mesh(), memory: machine.memory_bandwidth(ranks) })
    }

    /// Operations per second, of matrix products and element by element.
    fn rates(&self, dtype: DType) -> Result<[f64; 2], CostError> {
        let (machine, device) = (self.prices.machine.name().to_owned(), self.prices.machine.device());
        let Some(&rate) = device.flops.get(dtype.name()) else {
            let types = Vec::from_iter(device.flops.keys().cloned()).join(", ");
            let stated = if types.is_empty() { "no type".to_owned() } else { types };
            return Err(CostError::Rate { machine, dtype, stated });
        };
        Ok([rate, device.nests.get(dtype.name()).copied().unwrap_or(rate)])
    }

    /// Adds the cost of statements, and returns the maximum of the bytes that one rank receives.
    pub(super) fn statements(
        &self,
        program: &Program,
        statements: &[Statement],
        parts: &mut Vec<PartCost>,
    ) -> Result<InRounds, CostError> {
        let (body, first) = (program.body(), program.body().in_first_round());
        let mut received = InRounds::default();
        for span in body.spans(statements) {
            let more = match span.statements {
                _ if span.kernel.is_some() => {
                    let kernels = body.kernels_of(span);
                    // Kernels that run together find panels of each other's arrays in the cache.
                    let moved = match kernels.len() {
                        0 | 1 => 1.0,
                        _ => {
                            let [pass, apart] = body.through_memory(&kernels);
                            pass as f64 / apart.max(1) as f64
                        }
                    };
                    let of_kernels = kernels
                        .into_iter()
                        .map(|kernel| self.nest(&body.nest(kernel), body.in_place(kernel), moved, &first, parts));
                    of_kernels.collect::<Result<Vec<_>, _>>()?.into_iter().fold(InRounds::default(), InRounds::and)
                }
                [Statement::Begin(id, _)] => {
                    let moved = body.moved(*id).expect("it is of no kernel; this is a bug in polyshard");
                    let [target, source] = [moved.target, moved.source].map(|id| program.shown(id));
                    let (name, of_move) =
                        (format!("{target} = {source}, {}", moved.pattern()), moved.volume().received);
                    let priced = legs::of_move(program, &moved, of_move as f64, self.prices)?;
                    parts.extend(self.transfer(CostedPart::Move(*id), name, 1, of_move, &priced)?);
                    InRounds::alike(of_move)
                }
                [Statement::Rounds(id, round)] => {
                    let mut inside = Vec::new();
                    let of_round = self.statements(program, round, &mut inside)?;
                    let times = body.rounds[id.0].times;
                    let here: Vec<_> = body.spans(round).flat_map(|span| body.kernels_of(span)).collect();
                    for part in &mut inside {
                        // A tile that is reused is fetched in the first round.
                        let is_once = matches!(part.part, CostedPart::Transfer(id)
                            if first[id.0] && body.transfers[id.0].kernel().is_some_and(|kernel| here.contains(&kernel)));
                        part.repeat(if is_once { times.min(1) } else { times });
                    }
                    parts.extend(inside);
                    InRounds::alike(of_round.in_all(times))
                }
                _ => InRounds::default(),
            };
            received = received.and(more);
        }
        Ok(received)
    }

    /// Adds the parts of a nest: its input transfers, the leaf, of whose elements this share moves through memory, and
    /// its output transfers; returns the maximum of the bytes that one rank receives.
    fn nest(
        &self,
        nest: &NestView<'_>,
        in_place: Option<InPlace>,
        moved: f64,
        once: &[bool],
        parts: &mut Vec<PartCost>,
    ) -> Result<InRounds, CostError> {
        let (volumes, received) = nest.traffic();
        let first = parts.len();
        let all = || nest.transfers.iter().zip(&volumes);
        let priced: Vec<_> =
            all().map(|(transfer, volume)| legs::of_transfer(nest, in_place, transfer, volume)).collect();
        let transfers = |direction: fn(Direction) -> bool| -> Result<Vec<PartCost>, CostError> {
            let mut found = Vec::new();
            for ((transfer, volume), priced) in all().zip(&priced) {
                if direction(transfer.direction) {
                    let name = format!("{}, {}", nest.tensor_name(transfer.tensor), nest.pattern_of(transfer));
                    found.extend(self.transfer(
                        CostedPart::Transfer(transfer.id),
                        name,
                        volume.times,
                        volume.received,
                        priced,
                    )?);
                }
            }
            Ok(found)
        };
        parts.extend(transfers(|direction| direction == Direction::In)?);
        let work = nest.work();
        let bytes = |elements: u64| elements as f64 * nest.kernel.dtype().size() as f64;
        let device = self.prices.machine.device();
        // A matrix product packs its operands piece by piece, wherever their rows are.
        let packs = match &nest.leaf.op {
            LeafOp::Contraction { roles, .. } => roles.contains(&Role::M) && roles.contains(&Role::N),
            LeafOp::Products { .. } | LeafOp::Named { .. } => true,
            LeafOp::Nest => false,
        };
        let matters = !packs || nest.sums_over_several();
        let is_read = |(transfer, priced): (&TransferView<'_>, &Vec<Action>)| {
            Ok(matters && transfer.direction == Direction::In && self.is_read_where_it_lies(transfer, priced)?)
        };
        let in_shards = nest.transfers.iter().zip(&priced).map(is_read).collect::<Result<Vec<_>, CostError>>()?;
        let apart = nest.transfers.iter().zip(&in_shards).filter(|(_, is_read)| !packs && **is_read);
        let rows: u64 = apart.map(|(transfer, _)| nest.rows(transfer).saturating_mul(work.times)).sum();
        // Where in-place reads would change the order of a sum's terms, other ranks' data are copied first; for a
        // rank's own data, no piece is fetched while the one before it is packed.
        let copied = nest.copied(|number| in_shards[number]).saturating_mul(2);
        let again = copied.saturating_add(nest.piecewise()).saturating_mul(work.times);
        let computing = self.computing(nest, &work)?;
        // A leaf computes while its rows are loaded, but waits for packing, unless the device packs nothing.
        let at_once = device.streams || !packs;
        // With more memory bandwidth per rank, packing and overwriting are faster by the same factor.
        let share = self.memory / device.memory_bandwidth;
        let packing = device.packing_bandwidth.filter(|_| !at_once).map_or(self.memory, |alone| alone * share);
        let turned = device.transposing_bandwidth.filter(|_| !at_once).map_or(packing, |alone| alone * share);
        // Rows are not counted for a device without packing latency.
        let waits = !at_once && device.packing_latency > 0.0;
        let packed_rows =
            if waits { nest.packed_rows(|number| in_shards[number]).saturating_mul(work.times) } else { 0 };
        let written = device.write_bandwidth.map_or(self.memory, |alone| alone * share);
        let added = work.touched - work.read - work.overwritten;
        let through_memory = bytes(work.read - work.transposed) / packing
            + bytes(work.transposed) / turned
            + bytes(added) / self.memory
            + bytes(work.overwritten) / written;
        let memory = moved * through_memory
            + bytes(again) / self.memory
            + rows as f64 * device.row_latency
            + packed_rows as f64 * device.packing_latency;
        let seconds = if at_once { computing.max(memory) } else { computing + memory };
        parts.push(PartCost {
            part: CostedPart::Compute(nest.id),
            name: nest.kernel.name().to_string(),
            times: work.times,
            seconds,
            hidden: 0.0,
            received: 0,
            spent: if memory > computing { Spent::Memory } else { Spent::Computing },
        });
        parts.extend(transfers(|direction| direction != Direction::In)?);
        hide(nest, &mut parts[first..], seconds);
        Ok(InRounds::of_nest(nest, &volumes, received, once))
    }

    /// The seconds that leaves compute.
    fn computing(&self, nest: &NestView<'_>, work: &Work) -> Result<f64, CostError> {
        let [rate, elementwise] = self.rates(nest.kernel.dtype())?;
        let elementwise = work.elementwise as f64 / elementwise;
        let others = work.operations.saturating_sub(work.elementwise) as f64;
        let (products, dtype) = (nest.products(), nest.kernel.dtype().name());
        let Some(thin) = self.prices.machine.device().products.get(dtype) else {
            return Ok(others / rate + elementwise);
        };
        let all: f64 = products.iter().map(|product| product.operations as f64).sum();
        // Operations are those of the busiest rank, in all steps; all but products of two matrices run at the rate of
        // large ones.
        let seconds = products.iter().map(|product| {
            let operations = others * product.operations as f64 / all;
            let times = work.times.saturating_mul(product.times) as f64;
            let shape = product.shape.map(|extent| usize::try_from(extent).unwrap_or(usize::MAX));
            times * thin.latency + operations / (rate * thin.part_of(rate, shape))
        });
        let products = if all > 0.0 { seconds.sum() } else { others / rate };
        Ok(products + elementwise)
    }

    /// Whether a leaf reads it in place, in a shard of this rank or of one with which it shares memory.
    fn is_read_where_it_lies(&self, transfer: &TransferView<'_>, priced: &[Action]) -> Result<bool, CostError> {
        if !transfer.route.is_from_one() {
            return Ok(false);
        }
        for action in priced {
            let Action::Together { operation, groups, bytes, shared, .. } = action else { return Ok(false) };
            if self.prices.messages(self.mesh, *operation, groups, *bytes, *shared)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The cost of actions carried out in sequence; none if they take no time, and no rank receives anything.
    fn transfer(
        &self,
        part: CostedPart,
        name: String,
        times: u64,
        received: u64,
        priced: &[Action],
    ) -> Result<Option<PartCost>, CostError> {
        let (mut all, mut spent, mut longest) = (0.0, None, 0.0);
        for leg in priced {
            let (once, how) = self.prices.once(self.mesh, leg, self.mesh.size())?;
            let seconds = leg.times() as f64 * once.total();
            all += seconds;
            if seconds > longest || (spent.is_none() && received > 0) {
                (longest, spent) = (seconds, Some(how));
            }
        }
        Ok(spent.map(|spent| PartCost { part, name, times, seconds: all, hidden: 0.0, received, spent }))
    }
}

/// Hides the nest's pipelined transfers by messages behind the `computing` seconds of the leaf: the same fraction of
/// each, if the seconds do not suffice for all. Computation in iterations of other loops does not count.
fn hide(nest: &NestView<'_>, parts: &mut [PartCost], computing: f64) {
    let most = |part: &PartCost| match part.part {
        CostedPart::Transfer(id) if matches!(part.spent, Spent::Messages(_)) => {
            let found = nest.transfers.iter().find(|transfer| transfer.id == id);
            part.seconds * found.map_or(0.0, |transfer| nest.hidden_part(transfer))
        }
        _ => 0.0,
    };
    let all: f64 = parts.iter().map(most).sum();
    // The last iteration has no fetch to hide, the first has no send, and while rims are computed the halo has arrived.
    let ahead = nest.transfers.iter().filter(|transfer| !transfer.is_interior_first());
    let longest = ahead.map(|transfer| nest.overlap(transfer).hidden).max().unwrap_or(0) as f64;
    let available = computing * f64::max(longest / (longest + 1.0), nest.interior_part());
    let part_of_it = if all > available { available / all } else { 1.0 };
    parts.iter_mut().for_each(|part| part.hidden = most(part) * part_of_it);
}
