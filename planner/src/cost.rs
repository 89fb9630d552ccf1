//! The cost of a program on a machine: the seconds of each of its parts, and its memory.
//!
//! The price is that of the program as it runs. A transfer is priced by its legs, each as its collective, and an
//! exchange between arrays by its messages if they are few; where all ranks of its groups read each other's memory, by
//! the bytes that they read and write there in addition to a leaf's own accesses. A leaf takes the time of its
//! operations, at the device's rates for matrix products and for nests, and of reading and writing its operands, so
//! thin products are slower (S. Williams, A. Waterman and D. Patterson, "Roofline: an insightful visual performance model for
//! multicore architectures", CACM 52(4), 2009). Parts run in sequence, except transfers that begin some iterations
//! ahead or end some later: of their time in messages, as much is hidden as is computed meanwhile. Every figure is the
//! machine's.

mod alone;
mod legs;
mod parts;
mod pricing;

use crate::placement::PlacedMesh;
use legs::{Action, Groups, Operation, Shared};
pub use parts::{Cost, CostedPart, PartCost, Spent};
use polyshard_layout::{DType, Mesh, Neighbours, Sharding};
use polyshard_machine::units::counted;
use polyshard_machine::{Algorithm, GroupedCollective, Machine, MachineError, Seconds, seconds, seconds_of_messages};
use polyshard_program::{Priced, Program};
use pricing::Pricing;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// Why a program has no price on a machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum CostError {
    /// The machine has too few devices.
    #[error(
        "the program is for {}, but {machine} has {}; use a larger one, or fewer ranks",
        counted(.ranks, "rank"), counted(.devices, "device")
    )]
    Devices { ranks: usize, machine: String, devices: usize },
    /// The placement is for another mesh.
    #[error("the program runs on the mesh ({program}), but the placement is of ({placed}); place the program's mesh")]
    Mesh { program: String, placed: String },
    /// The machine states no rate for the element type.
    #[error("{machine} has no operations per second for {dtype}, only for {stated}; add `{dtype}` to its `flops`")]
    Rate { machine: String, dtype: DType, stated: String },
    /// The machine returns an error.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// Returns the cost of a program on a machine; the ranks are the machine's first devices, in order.
///
/// ```
/// use polyshard::planner::cost;
/// use polyshard::prelude::*;
/// # let matmul = kernel! {
/// #     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
/// # };
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
/// [`CostError::Devices`] if the machine has fewer devices than the program has ranks, [`CostError::Rate`] if it states
/// no rate for the element type.
pub fn cost(program: &impl Priced, machine: &Machine) -> Result<Cost, CostError> {
    Prices::new(machine).of(program)
}

/// Returns the cost of a program on a placed mesh: its ranks are the devices in [`PlacedMesh::ranks`].
///
/// ```
/// use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh};
/// use polyshard::planner::{cost_on, redistribution};
/// use polyshard::prelude::*;
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

/// The prices of any number of programs on one machine; equal collectives and exchanges are priced once.
///
/// ```
/// use polyshard::planner::cost::Prices;
/// use polyshard::planner::{cost, redistribution};
/// use polyshard::prelude::*;
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
    /// The device of each rank, if devices are numbered differently.
    devices: Option<&'a [usize]>,
    algorithm: Algorithm,
    known: RefCell<HashMap<Alike, Asked>>,
    exchanges: RefCell<HashMap<Exchange, ExchangePrice>>,
}

/// The shardings of an array before and after, the ranks that may have elements for a rank, and the element type.
type Exchange = ([Sharding; 2], Neighbours, DType);

/// The price of an exchange between two arrays.
#[derive(Clone)]
enum ExchangePrice {
    /// That of a collective of all ranks in reach: there are too many messages to list one by one, or several ranks in
    /// reach own the same elements.
    AsCollective,
    /// No messages: all pairs of sender and receiver share memory.
    InPlace,
    /// The time of the messages.
    ByMessages(Seconds),
}

/// An operation, the extents of the mesh, and the axes of the groups.
type Alike = (Operation, Vec<usize>, Vec<usize>);

/// The machine's answers for an operation in some groups.
#[derive(Clone)]
struct Asked {
    /// Whether the members of each group share memory.
    visible: bool,
    /// The time of one byte, if time is proportional to bytes.
    each: Option<Seconds>,
}

impl<'a> Prices<'a> {
    /// Returns the prices on a machine; the ranks are the machine's first devices, in order.
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

    /// Returns the prices on a placed mesh.
    #[must_use]
    pub fn on(placed: &'a PlacedMesh) -> Self {
        Self { devices: Some(placed.ranks()), ..Self::new(placed.machine()) }
    }

    /// Returns the cost of a program.
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

    /// The seconds to carry out an action once while this many ranks are at work, and how they are spent.
    fn once(&self, mesh: &Mesh, action: &Action, ranks: usize) -> Result<(Seconds, Spent), MachineError> {
        let in_memory = |touched: f64, bandwidth: f64, latency: f64| {
            let bottleneck = Some("memory".to_owned()).filter(|_| touched > 0.0);
            Seconds { transfer: touched / bandwidth, latency, bottleneck }
        };
        let (messages, touched, shared) = match action {
            Action::Copy { bytes, .. } => {
                // A copy reads and writes its bytes.
                return Ok((in_memory(2.0 * bytes, self.machine.memory_bandwidth(ranks), 0.0), Spent::Memory));
            }
            Action::Together { operation, groups, bytes, touched, shared, .. } => {
                (self.messages(mesh, *operation, groups, *bytes, *shared)?, *touched, *shared)
            }
            Action::Exchanged { seconds, touched } => (seconds.clone(), *touched, Shared::Meets),
        };
        let Some(seconds) = messages else {
            let latency =
                if shared == Shared::Meets && touched > 0.0 { self.machine.device().in_place_latency } else { 0.0 };
            return Ok((in_memory(touched, self.machine.bandwidth_of_others(ranks), latency), Spent::InPlace));
        };
        let bottleneck = seconds.bottleneck.clone().unwrap_or_else(|| "latency".to_owned());
        Ok((seconds, Spent::Messages(bottleneck)))
    }

    /// The price of an exchange between two arrays.
    fn exchange(
        &self,
        ends: [&Sharding; 2],
        mesh: &Mesh,
        reach: &Neighbours,
        dtype: DType,
    ) -> Result<ExchangePrice, MachineError> {
        let key = (ends.map(Sharding::clone), reach.clone(), dtype);
        let device = |rank: usize| self.devices.map_or(rank, |devices| devices[rank]);
        known(&mut self.exchanges.borrow_mut(), key, || {
            let Some(messages) = legs::messages(ends, mesh, reach, dtype) else {
                return Ok(ExchangePrice::AsCollective);
            };
            let sent: Vec<_> = messages.iter().map(|&(from, to, bytes)| (device(from), device(to), bytes)).collect();
            Ok(match sent.iter().all(|&(from, to, _)| self.machine.shares_memory(&[from, to])) {
                true => ExchangePrice::InPlace,
                false => ExchangePrice::ByMessages(seconds_of_messages(self.machine, &sent)?),
            })
        })
    }

    /// Seconds of an operation in groups of ranks by messages; none if the members of each group share memory, and use it.
    fn messages(
        &self,
        mesh: &Mesh,
        operation: Operation,
        groups: &Groups,
        bytes: f64,
        shared: Shared,
    ) -> Result<Option<Seconds>, MachineError> {
        let asked = match groups {
            Groups::Along(axes) => {
                let key = (operation, mesh.extents(), axes.clone());
                known(&mut self.known.borrow_mut(), key, || self.ask(operation, mesh.groups_along(axes)))?
            }
            Groups::Of(groups) => self.ask(operation, groups.clone())?,
        };
        if asked.visible && shared != Shared::Messages {
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
        // Profiles have other factors for other sizes.
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

/// What is known for a key, made at the first use.
pub(crate) fn known<K: Eq + Hash, V: Clone, E>(
    all: &mut HashMap<K, V>,
    key: K,
    make: impl FnOnce() -> Result<V, E>,
) -> Result<V, E> {
    Ok(match all.entry(key) {
        Entry::Occupied(known) => known.get().clone(),
        Entry::Vacant(new) => new.insert(make()?).clone(),
    })
}
