//! Which ranks share a node, and the resources of a node.
//!
//! Ranks share a node if they share memory (MPI 3.1, section 6.4.2); threads of one process do. These figures are
//! counted, not timed. The levels of a machine nest, so its nodes must have equal numbers of ranks, and the ranks of a
//! node must be consecutive; other arrangements are refused, since an incomplete machine would give wrong placements.

use polyshard_layout::counted;
use polyshard_runtime::comm::exchange_words;
use polyshard_runtime::{DetectError, Result, World};
use serde::Serialize;
use std::fmt;
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

/// The nodes and ranks of a world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// The number of nodes.
    pub nodes: usize,
    /// The ranks on each node.
    pub ranks_per_node: usize,
    /// The number of cores that a rank may run on, the minimum over ranks: a launcher may bind each rank to a part of its node's.
    pub cores: usize,
    /// Bytes of memory of a node, or of a container's share of it; the minimum over nodes.
    pub memory: u64,
}

impl Topology {
    /// Finds the topology. Collective over the world, and the same on all ranks.
    ///
    /// ```
    /// # use polyshard_lab::Topology;
    /// # use polyshard::runtime::{Result, spmd};
    /// let found = spmd(4, |world| Topology::find(world))?;
    /// assert_eq!((found[0].nodes, found[0].ranks_per_node), (1, 4)); // threads share one node
    /// # Ok::<(), polyshard::runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`DetectError`] if nodes have different numbers of ranks, or the ranks of a node are not consecutive; if the
    /// memory cannot be found; or as for [`Communicator::barrier`](polyshard_runtime::comm::Communicator::barrier).
    pub fn find(world: &World) -> Result<Self> {
        let node = world.node_root()?;
        // On systems that do not report it, the error is raised after the exchange, so that all ranks fail in the same way.
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        let told =
            exchange_words(world.comm(), "the nodes of the machine", [node as u64, cores as u64, installed_memory()])?;
        let least = |field: usize| told.iter().map(|note| note[field]).min().unwrap_or(0);
        let nodes: Vec<usize> = told.iter().map(|note| note[0] as usize).collect();
        let [nodes, ranks_per_node] = nested(&nodes)?;
        let (cores, memory) = (least(1) as usize, least(2));
        if cores == 0 || memory == 0 {
            return Err(DetectError::Unknown.into());
        }
        Ok(Self { nodes, ranks_per_node, cores, memory })
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.nodes * self.ranks_per_node
    }

    /// Returns the levels of the machine with their counts, outermost first: those that have more than one member,
    /// or `rank` if none has.
    #[must_use]
    pub fn levels(&self) -> Vec<(&'static str, usize)> {
        let mut levels = vec![("node", self.nodes), ("rank", self.ranks_per_node)];
        // A single member has no link to measure.
        levels.retain(|(_, count)| *count > 1);
        if levels.is_empty() {
            levels.push(("rank", 1));
        }
        levels
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = self.memory as f64 / f64::from(1 << 30);
        let each = if self.nodes == 1 { "" } else { " each" };
        write!(f, "{} with {}{each}, ", counted(self.nodes, "node"), counted(self.ranks_per_node, "rank"))?;
        write!(f, "{memory:.1} GiB per node, {} that a rank may run on", counted(self.cores, "core"))
    }
}

/// Returns the number of nodes and of ranks on each, given the node of each rank.
///
/// ```text
/// [a, a, b, b]   2 nodes of 2 ranks
/// [a, a, a, b]   refused: levels nest only with the same number of ranks on each node
/// [a, b, a, b]   refused: rank 2 is not the neighbour of rank 0
/// ```
fn nested(nodes: &[usize]) -> Result<[usize; 2]> {
    let mut sizes: Vec<usize> = Vec::new();
    for run in nodes.chunk_by(|left, right| left == right) {
        let rank: usize = sizes.iter().sum();
        if let Some(before) = nodes[..rank].iter().rposition(|other| *other == run[0]) {
            return Err(DetectError::Interleaved { rank: before, other: rank, between: rank - 1 }.into());
        }
        sizes.push(run.len());
    }
    let first = sizes.first().copied().unwrap_or(0);
    if let Some(node) = sizes.iter().position(|ranks| *ranks != first) {
        let fewest = sizes.iter().copied().min().unwrap_or(1);
        return Err(DetectError::Uneven { first, node, ranks: sizes[node], fewest }.into());
    }
    Ok([sizes.len(), first])
}

/// The bytes of memory of this node, or of this container if it may use less; 0 if the system does not report it.
fn installed_memory() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory);
    let limit = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    system.total_memory().min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyshard_runtime::Error;
    use proptest::prelude::*;

    #[track_caller]
    fn check(nodes: &[usize], expected: Result<[usize; 2], &str>) {
        assert_eq!(nested(nodes).map_err(|error| error.to_string()), expected.map_err(Into::into));
    }

    #[test]
    fn nodes_of_as_many_neighbours_are_two_levels() {
        check(&[0], Ok([1, 1]));
        check(&[0, 0, 0], Ok([1, 3]));
        check(&[0, 0, 2, 2], Ok([2, 2]));
        check(&[0, 1, 2], Ok([3, 1]));
    }

    #[test]
    fn nodes_of_different_sizes_are_refused_with_what_to_start() {
        check(
            &[0, 0, 0, 3],
            Err("node 0 has 3 of the ranks and node 1 has 1: all nodes must have the same number; start 1 on each, \
                 with `mpirun --map-by ppr:1:node`"),
        );
        check(
            &[0, 0, 2, 2, 4, 4, 4],
            Err("node 0 has 2 of the ranks and node 2 has 3: all nodes must have the same number; start 2 on each, \
                 with `mpirun --map-by ppr:2:node`"),
        );
    }

    #[test]
    fn ranks_dealt_out_in_turns_are_refused_with_what_to_start() {
        let error = Error::Detect(DetectError::Interleaved { rank: 0, other: 2, between: 1 });
        assert_eq!(nested(&[0, 1, 0, 1]), Err(error));
        check(
            &[0, 1, 0, 1],
            Err("ranks 0 and 2 are on one node, but rank 1 between them is on another: the ranks of a node must be \
                 consecutive; start them node by node, with `mpirun --map-by slot`"),
        );
        check(
            &[0, 0, 2, 1, 2, 1],
            Err("ranks 2 and 4 are on one node, but rank 3 between them is on another: the ranks of a node must be \
                 consecutive; start them node by node, with `mpirun --map-by slot`"),
        );
    }

    #[test]
    fn levels_of_one_member_are_left_out() {
        let levels = |nodes, ranks_per_node| Topology { nodes, ranks_per_node, cores: 2, memory: 1 }.levels();
        assert_eq!(levels(2, 4), [("node", 2), ("rank", 4)]);
        assert_eq!(levels(1, 4), [("rank", 4)]);
        assert_eq!(levels(4, 1), [("node", 4)]);
        assert_eq!(levels(1, 1), [("rank", 1)]);
    }

    #[test]
    fn a_topology_reads_as_a_sentence() {
        let found = Topology { nodes: 2, ranks_per_node: 1, cores: 3, memory: 6 << 29 };
        assert_eq!(found.to_string(), "2 nodes with 1 rank each, 3.0 GiB per node, 3 cores that a rank may run on");
    }

    proptest! {
        /// Nodes of any names form levels exactly if each is a block of equally many ranks.
        #[test]
        fn only_equal_blocks_nest(nodes in prop::collection::vec(0usize..3, 1..9)) {
            let mut names: Vec<usize> = Vec::new();
            nodes.iter().for_each(|node| if !names.contains(node) { names.push(*node) });
            let ranks = nodes.len() / names.len();
            let blocks: Vec<usize> = names.iter().flat_map(|&name| vec![name; ranks]).collect();
            prop_assert_eq!(nested(&nodes).ok(), (blocks == nodes).then_some([names.len(), ranks]));
        }
    }
}
