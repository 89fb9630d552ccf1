//! What a program costs on a machine: seconds of each of its parts, and the memory that it takes.
//!
//! What is priced is what runs. A transfer is priced by its legs, each as the collective that it is, and what few ranks exchange between
//! arrays as the messages that they send; where all ranks of its
//! groups read one another's memory, by what they read there besides what a leaf reads anyway. A leaf takes as long as its operations at the device's
//! rates, of products of matrices and of nests, and what it touches takes to be read and written: so thin products are slower
//! (S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance model for multicore
//! architectures", CACM 52(4), 2009). Parts follow one another, but for transfers that begin some iterations ahead, or end some later:
//! of what they take by messages, as much is hidden as is computed meanwhile. Every figure is the machine's.

mod alone;
mod legs;

use crate::placement::PlacedMesh;
use legs::{Action, Groups, Operation};
use polyshard_layout::{DType, Mesh, Neighbours, Sharding};
use polyshard_machine::units::{scaled, seconds as shown, table};
use polyshard_machine::{Algorithm, GroupedCollective, Machine, MachineError, Seconds, seconds, seconds_of_messages};
use polyshard_program::{
    Body, Brought, Direction, InRounds, LeafOp, Leg, Nest, NestId, Owners, Part, Priced, Program, Role, Statement,
    TileId, Transfer, TransferId, Work,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;

/// Why a program has no price on a machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields of variants are named by what they are; the messages say it in full")]
pub enum CostError {
    /// The machine is too small.
    #[error(
        "the program is of {ranks} ranks, but {machine} has {devices} devices; take a larger machine, or fewer ranks"
    )]
    Devices { ranks: usize, machine: String, devices: usize },
    /// The placement is of another mesh.
    #[error("the program is of the mesh ({program}), but ({placed}) is placed; place the mesh of the program")]
    Mesh { program: String, placed: String },
    /// Nothing is known of how fast the machine computes.
    #[error("{machine} states no operations per second for {dtype}, but for {stated}; add `{dtype}` to its `flops`")]
    Rate { machine: String, dtype: DType, stated: String },
    /// The machine refuses what is asked of it.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// What a part of a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostedPart {
    /// A transfer, from its beginning until it is awaited.
    Transfer(TransferId),
    /// The leaf of a nest.
    Compute(NestId),
}

/// How the time of a part passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spent {
    /// By operations on elements.
    Computing,
    /// By reading and writing what the rank's own memory holds.
    Memory,
    /// By reading what other ranks hold, in memory that they share.
    InPlace,
    /// By messages; the slowest resource, as text.
    Messages(String),
}

/// What one part costs the slowest rank.
#[derive(Clone, Debug, PartialEq)]
pub struct PartCost {
    /// The part.
    pub part: CostedPart,
    /// The part as people know it: `A, broadcast(y)`.
    pub name: String,
    /// How often it is carried out.
    pub times: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Those of them that pass while a leaf computes.
    pub hidden: f64,
    /// Bytes that one rank receives in all.
    pub received: u64,
    /// How the time passes.
    pub spent: Spent,
}

/// What a program costs: its parts in the order in which they begin first.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// The parts that take time, or by which something is received.
    pub parts: Vec<PartCost>,
    /// The most bytes that one rank holds: a bound.
    pub memory: u64,
    /// The most bytes that one rank receives.
    pub received: u64,
}

impl Cost {
    /// Returns the seconds of all parts.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.parts.iter().map(PartCost::added).sum()
    }

    /// Returns the seconds of leaves.
    #[must_use]
    pub fn computing(&self) -> f64 {
        let leaves = self.parts.iter().filter(|part| matches!(part.part, CostedPart::Compute(_)));
        leaves.map(|part| part.seconds).sum()
    }

    /// Returns the seconds of transfers that do not pass while a leaf computes.
    #[must_use]
    pub fn moving(&self) -> f64 {
        self.seconds() - self.computing()
    }

    /// Returns the part that takes the most of the time, if any takes some.
    #[must_use]
    pub fn dominant(&self) -> Option<&PartCost> {
        let parts = self.parts.iter().filter(|part| part.added() > 0.0);
        parts.max_by(|one, other| one.added().total_cmp(&other.added()))
    }
}

impl PartCost {
    /// Returns the seconds by which the program takes longer.
    #[must_use]
    pub fn added(&self) -> f64 {
        self.seconds - self.hidden
    }

    /// Makes it one that is done `times` times.
    fn repeat(&mut self, times: u64) {
        self.times = self.times.saturating_mul(times);
        self.seconds *= times as f64;
        self.hidden *= times as f64;
        self.received = self.received.saturating_mul(times);
    }

    /// What takes less of what this part is spent on.
    fn remedy(&self) -> &'static str {
        let is_leaf = matches!(self.part, CostedPart::Compute(_));
        match &self.spent {
            Spent::Computing => "divide the loops over more ranks",
            Spent::Memory if is_leaf && self.times > 1 => {
                "touch fewer elements again and again, in fewer and larger tiles"
            }
            Spent::Memory if is_leaf => "divide the loops over more ranks, whose memories are read at once",
            Spent::Memory => "let the array lie as the leaf reads it",
            Spent::InPlace => "shard the array so that each rank has more of what it reads",
            Spent::Messages(bottleneck) if bottleneck == "latency" => "move it in fewer and larger messages",
            Spent::Messages(_) => {
                "divide the loops so that less of it moves, or lay the axes along which it does inside of a node"
            }
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overlaps = self.parts.iter().any(|part| part.hidden > 0.0);
        let mut rows = vec![["part", "times", "seconds", "received", "spent on"].map(String::from).to_vec()];
        if overlaps {
            rows[0].insert(3, "hidden".to_owned());
        }
        rows.extend(self.parts.iter().map(|part| {
            let spent = match &part.spent {
                Spent::Computing => "operations",
                Spent::Memory => "memory",
                Spent::InPlace => "memory of other ranks",
                Spent::Messages(bottleneck) => bottleneck,
            };
            let received = if part.received == 0 { String::new() } else { scaled(part.received as f64, "B") };
            let mut row =
                vec![part.name.clone(), part.times.to_string(), shown(part.seconds), received, spent.to_owned()];
            if overlaps {
                row.insert(3, if part.hidden > 0.0 { shown(part.hidden) } else { String::new() });
            }
            row
        }));
        f.write_str(&table(&rows, if overlaps { &[0, 5] } else { &[0, 4] }))?;
        let [all, computing] = [self.seconds(), self.computing()].map(shown);
        writeln!(
            f,
            "in all {all}, of which {computing} computing; at most {} of memory",
            scaled(self.memory as f64, "B")
        )?;
        let Some(most) = self.dominant() else { return Ok(()) };
        let percent = 100.0 * most.added() / self.seconds();
        writeln!(f, "{} takes {percent:.0} % of it; what would help: {}", most.name, most.remedy())
    }
}

/// Returns what a program costs on a machine, whose devices `0..` its ranks are.
///
/// ```
/// # use polyshard_dsl::*;
/// # use polyshard_layout::Mesh;
/// # use polyshard_machine::Machine;
/// # use polyshard_polyhedral::*;
/// # use polyshard_program::example;
/// use polyshard_planner::cost;
/// # let matmul = Schedule::from_spec(example::matmul(4096, 4096, 4096));
/// let mesh = Mesh::new([("x", 4)]);
/// let [x] = mesh.axes();
/// let [m, k] = ["m", "k"].map(Var::new);
/// let rows = matmul.distribute(["m"], ["mo"], ["mi"], &mesh);
/// let program = rows.shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]).lower()?;
/// let cost = cost(&program, &Machine::preset("a100")?.with_counts(&[4, 1])?)?;
/// // Each node receives three quarters of B from the others, through its one network card at 8 GB/s.
/// assert_eq!(cost.received, 3 * 4096 * 4096);
/// assert!(cost.moving() > cost.computing());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`CostError::Devices`] if the machine has fewer devices than the program has ranks, [`CostError::Rate`] if it does not say how fast
/// they compute.
pub fn cost(program: &impl Priced, machine: &Machine) -> Result<Cost, CostError> {
    Prices::new(machine).of(program)
}

/// Returns what a program costs on a mesh that is placed: its ranks are the devices that [`PlacedMesh::ranks`] says.
///
/// ```
/// # use polyshard_layout::{Mesh, Placement, Sharding};
/// # use polyshard_machine::Machine;
/// # use polyshard_planner::placement::{ParallelismMatrix, PlacedMesh};
/// # use polyshard_program::DType;
/// use polyshard_planner::{cost_on, redistribution};
/// let (mesh, machine) = (Mesh::new([("x", 4), ("y", 4)]), Machine::preset("a100")?.with_counts(&[4, 4])?);
/// let [x, _] = mesh.axes();
/// let rows = Sharding::new(&mesh, &[1024, 1024], &[Placement::block(0, x)])?;
/// let gathered = redistribution(&rows, &Sharding::replicated(&mesh, &[1024, 1024]), DType::F32)?;
/// let along = |matrix: [[usize; 2]; 2]| -> Result<f64, Box<dyn std::error::Error>> {
///     let matrix = ParallelismMatrix::new(matrix.map(Vec::from).into())?;
///     Ok(cost_on(&gathered, &PlacedMesh::new(&mesh, &machine, &matrix)?)?.seconds())
/// };
/// // Inside of nodes, and across them.
/// assert!(10.0 * along([[1, 4], [4, 1]])? < along([[4, 1], [1, 4]])?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`cost`].
pub fn cost_on(program: &impl Priced, placed: &PlacedMesh) -> Result<Cost, CostError> {
    Prices::on(placed).of(program)
}

/// What any number of programs cost on one machine: what their messages take is asked once for all that are alike.
///
/// ```
/// # use polyshard_layout::{Mesh, Placement, Sharding};
/// # use polyshard_machine::Machine;
/// # use polyshard_program::DType;
/// use polyshard_planner::{cost, cost::Prices, redistribution};
/// let (mesh, machine) = (Mesh::new([("x", 64)]), Machine::preset("a100")?);
/// let prices = Prices::new(&machine);
/// let [x] = mesh.axes();
/// for rows in [64, 128, 256] {
///     let [by_rows, by_columns] = [0, 1].map(|dim| Sharding::new(&mesh, &[rows, 64], &[Placement::block(dim, x)]));
///     let program = redistribution(&by_rows?, &by_columns?, DType::F32)?;
///     assert_eq!(prices.of(&program)?.received, cost(&program, &machine)?.received);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Prices<'a> {
    machine: &'a Machine,
    /// The device of each rank, if it has not the rank's number.
    devices: Option<&'a [usize]>,
    algorithm: Algorithm,
    known: RefCell<HashMap<Alike, Asked>>,
    exchanges: RefCell<HashMap<Exchange, Option<Option<Seconds>>>>,
}

/// How an array lies before and after, where those are that have something for a rank, and the type of elements.
type Exchange = ([Sharding; 2], Neighbours, DType);

/// An operation, the extents of the mesh, and the axes of the groups.
type Alike = (Operation, Vec<usize>, Vec<usize>);

/// What a machine says of an operation in some groups.
#[derive(Clone)]
struct Asked {
    /// Whether the members of each group see one another's memory.
    visible: bool,
    /// The time of one byte, if it grows with them.
    each: Option<Seconds>,
}

impl<'a> Prices<'a> {
    /// Returns the prices on a machine, whose devices `0..` the ranks are.
    #[must_use]
    pub fn new(machine: &'a Machine) -> Self {
        Self {
            machine,
            devices: None,
            algorithm: Algorithm::default(),
            known: RefCell::default(),
            exchanges: RefCell::default(),
        }
    }

    /// Returns the prices on a mesh that is placed.
    #[must_use]
    pub fn on(placed: &'a PlacedMesh) -> Self {
        Self { devices: Some(placed.ranks()), ..Self::new(placed.machine()) }
    }

    /// Returns what a program costs.
    ///
    /// # Errors
    /// As [`cost`].
    pub fn of(&self, program: &impl Priced) -> Result<Cost, CostError> {
        self.program(program.priced())
    }

    fn program(&self, program: &Program) -> Result<Cost, CostError> {
        let pricing = Pricing::new(program, self)?;
        let mut parts = Vec::new();
        let received = pricing.statements(program, &program.body().statements, &mut parts)?.first;
        let report = program.report();
        Ok(Cost { parts, memory: report.shard_bytes.saturating_add(report.tile_bytes), received })
    }

    /// Seconds of what is done once, where each rank has this many bytes per second of its memory, and how they pass.
    fn once(&self, mesh: &Mesh, action: &Action, memory: f64) -> Result<(Seconds, Spent), MachineError> {
        let (messages, touched, how) = match action {
            // What is copied is read and written.
            Action::Copy { bytes, .. } => (None, 2.0 * bytes, Spent::Memory),
            Action::Together { operation, groups, bytes, touched, .. } => {
                (self.messages(mesh, *operation, groups, *bytes)?, *touched, Spent::InPlace)
            }
            Action::Exchanged { seconds, touched } => (seconds.clone(), *touched, Spent::InPlace),
        };
        let Some(seconds) = messages else {
            let bottleneck = Some("memory".to_owned()).filter(|_| touched > 0.0);
            return Ok((Seconds { transfer: touched / memory, latency: 0.0, bottleneck }, how));
        };
        let bottleneck = seconds.bottleneck.clone().unwrap_or_else(|| "latency".to_owned());
        Ok((seconds, Spent::Messages(bottleneck)))
    }

    /// Seconds of an exchange between two arrays by the messages that are sent, if there are few; of them none if all ranks that send some
    /// see one another's memory.
    fn exchange(
        &self,
        ends: [&Sharding; 2],
        mesh: &Mesh,
        reach: &Neighbours,
        dtype: DType,
    ) -> Result<Option<Option<Seconds>>, MachineError> {
        let key = (ends.map(Sharding::clone), reach.clone(), dtype);
        if let Some(known) = self.exchanges.borrow().get(&key) {
            return Ok(known.clone());
        }
        let device = |rank: usize| self.devices.map_or(rank, |devices| devices[rank]);
        let found = match legs::messages(ends, mesh, reach, dtype) {
            None => None,
            Some(messages) => {
                let sent: Vec<_> =
                    messages.iter().map(|&(from, to, bytes)| (device(from), device(to), bytes)).collect();
                match sent.iter().all(|&(from, to, _)| self.machine.shares_memory(&[from, to])) {
                    true => Some(None),
                    false => Some(Some(seconds_of_messages(self.machine, &sent)?)),
                }
            }
        };
        self.exchanges.borrow_mut().insert(key, found.clone());
        Ok(found)
    }

    /// Seconds of an operation in groups of ranks by messages; none if all see one another's memory.
    fn messages(
        &self,
        mesh: &Mesh,
        operation: Operation,
        groups: &Groups,
        bytes: f64,
    ) -> Result<Option<Seconds>, MachineError> {
        let asked = match groups {
            Groups::Along(axes) => {
                let key = (operation, mesh.extents(), axes.clone());
                let known = self.known.borrow().get(&key).cloned();
                match known {
                    Some(known) => known,
                    None => {
                        let asked = self.ask(operation, mesh.groups_along(axes))?;
                        self.known.borrow_mut().insert(key, asked.clone());
                        asked
                    }
                }
            }
            Groups::Of(groups) => self.ask(operation, groups.clone())?,
        };
        if asked.visible {
            return Ok(None);
        }
        let taken = match asked.each {
            Some(each) => Seconds { transfer: each.transfer * bytes, ..each },
            None => {
                let groups = match groups {
                    Groups::Along(axes) => mesh.groups_along(axes),
                    Groups::Of(groups) => groups.clone(),
                };
                self.seconds(operation, self.on_devices(groups), bytes)?
            }
        };
        let bottleneck = taken.bottleneck.clone().filter(|_| bytes > 0.0);
        Ok(Some(Seconds { bottleneck, ..taken }))
    }

    fn ask(&self, operation: Operation, groups: Vec<Vec<usize>>) -> Result<Asked, MachineError> {
        let groups = self.on_devices(groups);
        let visible = groups.iter().all(|group| self.machine.shares_memory(group));
        // Profiles say other factors for other sizes.
        let grows = !visible && self.machine.profiles().is_empty();
        let each = if grows { Some(self.seconds(operation, groups, 1.0)?) } else { None };
        Ok(Asked { visible, each })
    }

    fn seconds(&self, operation: Operation, groups: Vec<Vec<usize>>, bytes: f64) -> Result<Seconds, MachineError> {
        let Operation::Collective(operation) = operation else {
            let to_first =
                |group: &Vec<usize>| group.iter().skip(1).map(|&from| (from, group[0], bytes)).collect::<Vec<_>>();
            let messages: Vec<_> = groups.iter().flat_map(to_first).collect();
            return seconds_of_messages(self.machine, &messages);
        };
        seconds(self.machine, &GroupedCollective { operation, groups, bytes }, self.algorithm)
    }

    fn on_devices(&self, groups: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        let Some(devices) = self.devices else { return groups };
        let of_group = |group: Vec<usize>| group.iter().filter_map(|&rank| devices.get(rank).copied()).collect();
        groups.into_iter().map(of_group).collect()
    }
}

struct Pricing<'a> {
    prices: &'a Prices<'a>,
    mesh: &'a Mesh,
    /// Bytes per second between a rank and its memory.
    memory: f64,
}

impl<'a> Pricing<'a> {
    fn new(program: &'a Program, prices: &'a Prices<'a>) -> Result<Self, CostError> {
        let machine = prices.machine;
        let (ranks, devices, name) = (program.mesh().size(), machine.devices(), || machine.name().to_owned());
        if ranks > devices {
            return Err(CostError::Devices { ranks, machine: name(), devices });
        }
        Ok(Self { prices, mesh: program.mesh(), memory: machine.memory_bandwidth(ranks) })
    }

    /// Operations per second, of products of matrices and element by element.
    fn rates(&self, dtype: DType) -> Result<[f64; 2], CostError> {
        let (machine, device) = (self.prices.machine.name().to_owned(), self.prices.machine.device());
        let Some(&rate) = device.flops.get(dtype.name()) else {
            let types = Vec::from_iter(device.flops.keys().cloned()).join(", ");
            let stated = if types.is_empty() { "no type".to_owned() } else { types };
            return Err(CostError::Rate { machine, dtype, stated });
        };
        Ok([rate, device.nests.get(dtype.name()).copied().unwrap_or(rate)])
    }

    /// Adds what statements cost, and returns the bytes that one rank receives at most.
    fn statements(
        &self,
        program: &Program,
        statements: &[Statement],
        parts: &mut Vec<PartCost>,
    ) -> Result<InRounds, CostError> {
        let body = program.body();
        let mut received = InRounds::default();
        for part in Body::parts_of(statements) {
            let more = match part {
                Part::Nest(id, _) => self.nest(id, &body.nests[id.0], parts)?,
                Part::Begin(id) => {
                    let (transfer, moved) = (TransferId::Array(id), &body.moves[id.0]);
                    let name =
                        format!("{} = {}, {}", program.shown(moved.target), program.shown(moved.source), moved.pattern);
                    let of_move = program.volume(transfer).received;
                    let priced = legs::of_move(program, moved, of_move as f64, self.prices)?;
                    parts.extend(self.transfer(transfer, name, 1, of_move, &priced)?);
                    InRounds::alike(of_move)
                }
                Part::Repeat(id, round) => {
                    let mut inside = Vec::new();
                    let of_round = self.statements(program, round, &mut inside)?;
                    let times = body.repeats[id.0].times;
                    let is_here = |nest: NestId| {
                        Body::parts_of(round).any(|part| matches!(part, Part::Nest(id, _) if id == nest))
                    };
                    for part in &mut inside {
                        // What a tile keeps is brought in the first round.
                        let is_once = matches!(part.part, CostedPart::Transfer(TransferId::Tile { nest, tile })
                            if body.nests[nest.0].transfers[tile.0].brought == Brought::Once && is_here(nest));
                        part.repeat(if is_once { times.min(1) } else { times });
                    }
                    parts.extend(inside);
                    InRounds::alike(of_round.in_all(times))
                }
                Part::Await(_) | Part::Free(_) => InRounds::default(),
            };
            received = received.and(more);
        }
        Ok(received)
    }

    /// Adds the parts of a nest: what is brought, the leaf, and what is taken away; returns the bytes that one rank receives at most.
    fn nest(&self, id: NestId, nest: &Nest, parts: &mut Vec<PartCost>) -> Result<InRounds, CostError> {
        let (volumes, received) = nest.traffic();
        let first = parts.len();
        let all = || nest.transfers.iter().zip(&volumes);
        let priced: Vec<_> = all().map(|(transfer, volume)| legs::of_transfer(nest, transfer, volume)).collect();
        let transfers = |direction: fn(Direction) -> bool| -> Result<Vec<PartCost>, CostError> {
            let mut found = Vec::new();
            for (number, ((transfer, volume), priced)) in all().zip(&priced).enumerate() {
                if direction(transfer.direction) {
                    let what = TransferId::Tile { nest: id, tile: TileId(number) };
                    let name = format!("{}, {}", nest.tensor_name(transfer.tensor), nest.pattern_of(transfer));
                    found.extend(self.transfer(what, name, volume.times, volume.received, priced)?);
                }
            }
            Ok(found)
        };
        parts.extend(transfers(|direction| direction == Direction::In)?);
        let work = nest.work();
        let touched = work.touched as f64 * nest.kernel.dtype().size() as f64;
        let device = self.prices.machine.device();
        // A product of matrices packs what it reads, piece by piece, wherever its rows lie.
        let packs = match &nest.leaf.op {
            LeafOp::Contraction { roles, .. } => roles.contains(&Role::M) && roles.contains(&Role::N),
            LeafOp::Products { .. } | LeafOp::Named { .. } => true,
            LeafOp::Nest => false,
        };
        let mut rows = 0;
        for (transfer, priced) in nest.transfers.iter().zip(&priced) {
            if !packs && transfer.direction == Direction::In && self.is_read_where_it_lies(transfer, priced)? {
                rows += nest.rows(transfer).saturating_mul(work.times);
            }
        }
        let memory = touched / self.memory + rows as f64 * device.row_latency;
        let computing = self.computing(nest, &work)?;
        // A leaf computes while its rows come, but waits for what it packs, unless the device packs nothing.
        let at_once = device.streams || !packs;
        let seconds = if at_once { computing.max(memory) } else { computing + memory };
        parts.push(PartCost {
            part: CostedPart::Compute(id),
            name: nest.kernel.name().to_string(),
            times: work.times,
            seconds,
            hidden: 0.0,
            received: 0,
            spent: if memory > computing { Spent::Memory } else { Spent::Computing },
        });
        parts.extend(transfers(|direction| direction != Direction::In)?);
        hide(nest, &mut parts[first..], seconds);
        Ok(InRounds::of_nest(nest, &volumes, received))
    }

    /// The seconds that leaves compute.
    fn computing(&self, nest: &Nest, work: &Work) -> Result<f64, CostError> {
        let [rate, elementwise] = self.rates(nest.kernel.dtype())?;
        let elementwise = work.elementwise as f64 / elementwise;
        let others = work.operations.saturating_sub(work.elementwise) as f64;
        let (products, dtype) = (nest.products(), nest.kernel.dtype().name());
        let Some(thin) = self.prices.machine.device().products.get(dtype) else {
            return Ok(others / rate + elementwise);
        };
        let all: f64 = products.iter().map(|product| product.operations as f64).sum();
        // Operations are those of the rank that has most, in all steps; what is no product of two matrices is as fast as large ones.
        let seconds = products.iter().map(|product| {
            let operations = others * product.operations as f64 / all;
            let times = work.times.saturating_mul(product.times) as f64;
            let shape = product.shape.map(|extent| usize::try_from(extent).unwrap_or(usize::MAX));
            times * thin.latency + operations / (rate * thin.part_of(rate, shape))
        });
        let products = if all > 0.0 { seconds.sum() } else { others / rate };
        Ok(products + elementwise)
    }

    /// Whether a leaf reads it in a shard of this rank, or of another whose memory this one sees.
    fn is_read_where_it_lies(&self, transfer: &Transfer, priced: &[Action]) -> Result<bool, CostError> {
        for leg in &transfer.route.legs {
            let is_of_one = matches!(leg, Leg::InPlace | Leg::Permute { .. } | Leg::Shift(_))
                || matches!(leg, Leg::Collective { owners: Owners::One(_), .. });
            if !is_of_one {
                return Ok(false);
            }
        }
        for action in priced {
            let Action::Together { operation, groups, bytes, .. } = action else { return Ok(false) };
            if self.prices.messages(self.mesh, *operation, groups, *bytes)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is done one after the other; nothing if it takes no time, and nothing is received.
    fn transfer(
        &self,
        part: TransferId,
        name: String,
        times: u64,
        received: u64,
        priced: &[Action],
    ) -> Result<Option<PartCost>, CostError> {
        let (mut all, mut spent, mut longest) = (0.0, None, 0.0);
        for leg in priced {
            let (once, how) = self.prices.once(self.mesh, leg, self.memory)?;
            let seconds = leg.times() as f64 * once.total();
            all += seconds;
            if seconds > longest || (spent.is_none() && received > 0) {
                (longest, spent) = (seconds, Some(how));
            }
        }
        let part = CostedPart::Transfer(part);
        Ok(spent.map(|spent| PartCost { part, name, times, seconds: all, hidden: 0.0, received, spent }))
    }
}

/// Hides what of a nest's transfers comes or leaves by messages while the leaf takes `computing` seconds: in equal parts of each, if it
/// does not suffice for all. What iterations of other loops compute is not counted.
fn hide(nest: &Nest, parts: &mut [PartCost], computing: f64) {
    let most = |part: &PartCost| match part.part {
        CostedPart::Transfer(TransferId::Tile { tile, .. }) if matches!(part.spent, Spent::Messages(_)) => {
            part.seconds * nest.hidden_part(&nest.transfers[tile.0])
        }
        _ => 0.0,
    };
    let all: f64 = parts.iter().map(most).sum();
    // While the last iteration is computed, nothing comes; while the first is, nothing leaves; while rims are, the halo is there.
    let ahead = nest.transfers.iter().filter(|transfer| !transfer.interior_first);
    let longest = ahead.map(|transfer| nest.overlap(transfer).hidden).max().unwrap_or(0) as f64;
    let available = computing * f64::max(longest / (longest + 1.0), nest.interior_part());
    let part_of_it = if all > available { available / all } else { 1.0 };
    parts.iter_mut().for_each(|part| part.hidden = most(part) * part_of_it);
}
