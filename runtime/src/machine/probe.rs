//! What links and devices do, timed while all ranks do it at once.
//!
//! All at once, because ranks of one node share its memory and maybe its cores: what one rank does alone is not
//! what it does in a program. How long it takes is the caller's: a quick look, or a thorough one.

use super::calls::Buffers;
use super::clock::Clock;
use super::topology::Topology;
use crate::leaf::{Role, contract};
use crate::{DType, DetectError, Element, Error, Result, Strided, StridedMut};
use polyshard_machine::{Device, Interconnect, Level, Machine, MachineError, fit_link};
use std::collections::BTreeMap;
use std::hint::black_box;

/// The times of messages between neighbours of one level.
pub(super) struct LinkTimes {
    pub(super) level: &'static str,
    /// Ranks behind one port, which all send at once.
    pub(super) sharing: usize,
    /// For each size, bytes per rank, the seconds.
    pub(super) times: Vec<(usize, f64)>,
}

impl LinkTimes {
    /// What passes one port, in bytes, and its seconds, for each size.
    pub(super) fn of_port(&self) -> Vec<(f64, f64)> {
        self.times.iter().map(|&(bytes, seconds)| ((self.sharing * bytes) as f64, seconds)).collect()
    }
}

/// Times messages at each level of a topology, the fastest of several passes. Collective.
///
/// ```text
/// node 0 {0 1}, node 1 {2 3}     node: 0 -> 2, 1 -> 3, 2 -> 0, 3 -> 1     rank: 0 -> 1, 1 -> 0, 2 -> 3, 3 -> 2
/// ```
pub(super) fn links(
    clock: &Clock<'_>,
    topology: &Topology,
    buffers: &mut Buffers,
    sizes: &[usize],
    passes: usize,
) -> Result<Vec<LinkTimes>> {
    let (rank, ranks, inside) = (clock.comm.rank(), clock.comm.size(), topology.ranks_per_node);
    let mut links = Vec::new();
    for (level, count) in topology.levels() {
        let (sharing, [to, from]) = match level {
            "node" => (inside, [rank + inside, rank + ranks - inside].map(|to| to % ranks)),
            _ => (1, [rank + 1, rank + count - 1].map(|to| rank / count * count + to % count)),
        };
        let mut times: Vec<_> = sizes.iter().map(|&bytes| (bytes, f64::INFINITY)).collect();
        for _ in 0..passes.max(1) {
            for (bytes, seconds) in &mut times {
                *seconds = seconds.min(buffers.shift(clock, *bytes, to, from)?);
            }
        }
        links.push(LinkTimes { level, sharing, times });
    }
    Ok(links)
}

/// Returns the machine with these links and devices.
pub(super) fn machine(name: &str, topology: &Topology, links: &[LinkTimes], device: Device) -> Result<Machine> {
    let mut levels = Vec::with_capacity(links.len());
    for ((level, count), link) in topology.levels().into_iter().zip(links) {
        let fit = fit_link(&link.of_port()).map_err(refused)?;
        levels.push(Level {
            name: level.into(),
            count,
            interconnect: Interconnect::Switch,
            bandwidth: fit.bandwidth,
            latency: fit.latency,
            shared_ports: (level == "node").then_some(1),
            bypass: None,
        });
    }
    Machine::new(name, levels, device).map_err(refused)
}

/// What the planner says of figures that were measured here.
pub(super) fn refused(error: MachineError) -> Error {
    DetectError::Times(Box::new(error)).into()
}

/// Times the devices: products of square matrices of `rows` rows, and copies of `bytes` bytes. Collective.
pub(super) fn device(clock: &Clock<'_>, topology: &Topology, rows: usize, bytes: usize) -> Result<Device> {
    let mut flops = BTreeMap::new();
    flops.insert(DType::F32.name().to_owned(), product::<f32>(clock, rows)?);
    flops.insert(DType::F64.name().to_owned(), product::<f64>(clock, rows)?);
    flops.insert(DType::I32.name().to_owned(), product::<i32>(clock, rows)?);
    flops.insert(DType::I64.name().to_owned(), product::<i64>(clock, rows)?);
    let memory_capacity = topology.memory / topology.ranks_per_node as u64;
    Ok(Device { memory_bandwidth: copy(clock, bytes)?, memory_capacity, flops })
}

/// Operations per second of the leaf that programs use.
fn product<T: Element>(clock: &Clock<'_>, rows: usize) -> Result<f64> {
    let stride = rows as i64;
    let filled = |first: usize| -> Vec<T> {
        (0..rows * rows).map(|i| if (first + i).is_multiple_of(7) { T::ONE } else { T::ZERO }).collect()
    };
    let (a, b, mut c) = (filled(1), filled(2), filled(3));
    let seconds = clock.time(|| {
        let (a, b) = (Strided::new(&a, 0, vec![stride, 0, 1]), Strided::new(&b, 0, vec![0, 1, stride]));
        let c = StridedMut::new(&mut c, 0, vec![stride, 1, 0]);
        contract(&[rows; 3], &[Role::M, Role::N, Role::K], T::ONE, a, b, c);
        Ok(())
    })?;
    Ok(2.0 * (rows as f64).powi(3) / seconds)
}

/// Bytes per second between a rank and its memory: a copy reads as many as it writes.
fn copy(clock: &Clock<'_>, bytes: usize) -> Result<f64> {
    let from: Vec<u64> = (0..bytes.div_ceil(size_of::<u64>()) as u64).collect();
    let mut to = from.clone();
    let seconds = clock.time(|| {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        Ok(())
    })?;
    Ok(2.0 * size_of_val(&*from) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spmd;
    use std::time::Duration;

    #[test]
    fn nodes_are_a_level_whose_ranks_share_a_port() {
        let machines = spmd(4, |world| {
            // Threads share one node, so the two nodes are made up; times are those of threads.
            let topology = Topology { nodes: 2, ranks_per_node: 2, cores: 2, memory: 1 << 30 };
            let clock = Clock { comm: world.comm(), round: Duration::ZERO, rounds: 1, budget: Duration::ZERO };
            let links = links(&clock, &topology, &mut Buffers::new(1 << 14), &[1 << 10, 1 << 14], 1)?;
            let sharing: Vec<_> = links.iter().map(|link| (link.level, link.sharing)).collect();
            assert_eq!(sharing, [("node", 2), ("rank", 1)]);
            assert_eq!(links[0].of_port()[1].0, f64::from(1 << 15), "two ranks send through the port of their node");
            machine("made up", &topology, &links, device(&clock, &topology, 8, 1 << 12)?)
        });
        let machines = machines.unwrap();
        assert!(machines.iter().all(|machine| *machine == machines[0]), "{machines:?}");
        let ports: Vec<_> = machines[0].levels().iter().map(|level| (level.count, level.shared_ports)).collect();
        assert_eq!(ports, [(2, Some(1)), (2, None)]);
        assert_eq!(machines[0].device().memory_capacity, 1 << 29);
    }
}
