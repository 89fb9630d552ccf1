//! How long a collective takes: the slowest resource, plus latency.
//!
//! ```text
//! seconds = max over resources of (bytes that all groups send through it / bandwidth) + latency
//! ```
//!
//! times the factor of the machine's [`Profile`](super::Profile) for the operation, ranks and bytes, if it has
//! one.
//!
//! All groups run at once and share ports, so one placement of a mesh can be hundreds of times slower than another.
//! Nothing else is modelled: arithmetic and protocols are in the factors of a measured machine, which do not
//! distinguish the two variants of [`Algorithm`].

use super::flow::send;
use super::route::{Loads, Part, Resource, Router};
use super::{Algorithm, Collective, GroupedCollective, Machine, MachineError};
use std::fmt;

/// The time of a collective, and its bottleneck.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Seconds {
    /// Seconds in which the slowest resource carries its bytes.
    pub transfer: f64,
    /// Seconds even without bytes.
    pub latency: f64,
    /// The slowest resource, as text; none if nothing is sent.
    pub bottleneck: Option<String>,
}

impl Seconds {
    /// Returns transfer and latency together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.transfer + self.latency
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3e} s", self.total())?;
        match &self.bottleneck {
            Some(bottleneck) => write!(f, ", {bottleneck}"),
            None => Ok(()),
        }
    }
}

/// Returns how long a collective takes on a machine.
///
/// ```
/// use polyshard::layout::Collective;
/// use polyshard::machine::{Algorithm, GroupedCollective, seconds};
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?;
/// // The first GPUs of two nodes add up 8 GB: each node sends and receives 8 GB at 8 GB/s.
/// let collective = GroupedCollective { operation: Collective::AllReduce, groups: vec![vec![0, 16]], bytes: 8e9 };
/// let alone = seconds(&machine, &collective, Algorithm::Ring)?;
/// assert_eq!(alone.transfer, 1.0);
/// // All sixteen GPUs do: they share the network card.
/// let groups = (0..16).map(|gpu| vec![gpu, 16 + gpu]).collect();
/// let all = seconds(&machine, &GroupedCollective { groups, ..collective }, Algorithm::Ring)?;
/// assert_eq!(all.transfer, 16.0);
/// assert_eq!(all.bottleneck.as_deref(), Some("the ports out of node 0"));
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If a rank is not on the machine or twice in the groups, or the bytes are negative or not finite.
pub fn seconds(
    machine: &Machine,
    collective: &GroupedCollective,
    algorithm: Algorithm,
) -> Result<Seconds, MachineError> {
    collective.check(machine)?;
    let router = Router::new(machine);
    let (mut loads, mut latency) = (Loads::default(), 0.0f64);
    for group in &collective.groups {
        latency = latency.max(send(&router, &mut loads, collective.operation, group, collective.bytes, algorithm));
    }
    Ok(slowest(machine, &loads, latency, machine.factor(collective)))
}

/// Returns how long messages between devices take if all are sent at once, each given as (sender, receiver, bytes). The
/// machine's profiles of exchanges apply to messages.
///
/// ```
/// use polyshard::machine::seconds_of_messages;
/// use polyshard::prelude::*;
/// let machine = Machine::preset("a100")?;
/// // Two devices of a node send 8 GB each to one of another node: through its network card of 8 GB/s.
/// let taken = seconds_of_messages(&machine, &[(0, 16, 8e9), (1, 16, 8e9)])?;
/// assert_eq!(taken.transfer, 2.0);
/// # Ok::<(), polyshard::Error>(())
/// ```
///
/// # Errors
/// If a device is not on the machine, or bytes are negative or not finite.
pub fn seconds_of_messages(machine: &Machine, messages: &[(usize, usize, f64)]) -> Result<Seconds, MachineError> {
    let router = Router::new(machine);
    let (mut loads, mut latency) = (Loads::default(), 0.0f64);
    for &(from, to, bytes) in messages {
        let groups = vec![if from == to { vec![from] } else { vec![from, to] }];
        GroupedCollective { operation: Collective::Exchange, groups, bytes }.check(machine)?;
        latency = latency.max(router.load(&mut loads, from, to, bytes));
    }
    Ok(slowest(machine, &loads, latency, machine.factor_of_messages(messages)))
}

/// The time of the slowest resource, and the latency, times a factor.
fn slowest(machine: &Machine, loads: &Loads, latency: f64, factor: f64) -> Seconds {
    let mut slowest: Option<(Resource, f64)> = None;
    for (&resource, &bytes) in loads {
        let seconds = bytes / bandwidth(machine, resource);
        // Sums in another order differ in their last bits; the first of equals is named.
        if slowest.is_none_or(|(_, most)| seconds > most * (1.0 + 1e-12)) {
            slowest = Some((resource, seconds));
        }
    }
    let (transfer, latency) = (factor * slowest.map_or(0.0, |(_, seconds)| seconds), factor * latency);
    let bottleneck = slowest.filter(|(_, seconds)| *seconds > 0.0).map(|(resource, _)| describe(machine, resource));
    Seconds { transfer, latency, bottleneck }
}

/// Bytes per second of a resource: of all its ports together where a member has several.
pub(crate) fn bandwidth(machine: &Machine, resource: Resource) -> f64 {
    let level = &machine.levels()[resource.level];
    let each = match (resource.part, level.bypass) {
        (Part::BypassIn | Part::BypassOut, Some(bypass)) => bypass,
        (Part::BypassIn | Part::BypassOut, None) => {
            panic!("a message took the bypass of `{}`, which has none: a bug in polyshard", level.name)
        }
        _ => level.bandwidth,
    };
    each * level.shared_ports.unwrap_or(1) as f64
}

/// A resource as text.
fn describe(machine: &Machine, resource: Resource) -> String {
    let level = &machine.levels()[resource.level];
    let owner = match level.shared_ports {
        Some(_) => format!("{} {}", level.name, resource.member),
        None => format!("rank {} at level `{}`", resource.member, level.name),
    };
    match resource.part {
        Part::Out => format!("the ports out of {owner}"),
        Part::In => format!("the ports into {owner}"),
        Part::BypassOut => format!("the bypass out of {owner}"),
        Part::BypassIn => format!("the bypass into {owner}"),
        Part::Next(_) => format!("the link after {owner}"),
        Part::Previous(_) => format!("the link before {owner}"),
    }
}
