//! Which ranks are on which node, found by host names, independently of the runtime's queries to MPI.

use polyshard_runtime::comm::exchange_words;
use polyshard_runtime::{Error, RedistributionError, Result, World};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Returns for each rank of the world the lowest rank on its node.
pub fn nodes(world: &World) -> Result<Vec<usize>> {
    let mut hasher = DefaultHasher::new();
    sysinfo::System::host_name().expect("a host has a name").hash(&mut hasher);
    let told = exchange_words(world.comm(), "the name of the host", [hasher.finish()])?;
    let least = |name| told.iter().position(|header| header[0] == name).expect("a rank has its own name");
    Ok(told.iter().map(|header| least(header[0])).collect())
}

/// Whether all ranks are on one node, and share memory.
pub fn is_one_node(world: &World) -> Result<bool> {
    Ok(nodes(world)?.iter().all(|&node| node == 0))
}

/// Returns the ranks of each node, if all nodes have the same number.
#[must_use]
pub fn even(nodes: &[usize]) -> Option<Vec<Vec<usize>>> {
    let on = |node: usize| (0..nodes.len()).filter(|&rank| nodes[rank] == node).collect();
    let members: Vec<Vec<usize>> = (0..nodes.len()).filter(|&rank| nodes[rank] == rank).map(on).collect();
    members.iter().all(|ranks| ranks.len() == members[0].len()).then_some(members)
}

/// Returns the result of a move through shared memory, or none if it was refused because ranks are on different nodes.
/// Either all ranks are refused, in the same way, or none; collective.
pub fn unless_apart<T>(world: &World, nodes: &[usize], result: Result<T>) -> Result<Option<T>> {
    let apart = match result.as_ref().map_err(Error::cause) {
        Err(&Error::Redistribution(RedistributionError::Apart { rank, other })) => Some((rank, other)),
        _ => None,
    };
    let (header, result) = match apart {
        Some((rank, other)) => {
            assert_ne!(nodes[rank], nodes[other], "ranks {rank} and {other} share a node");
            ([1, rank as u64, other as u64], Ok(None))
        }
        None => ([0; 3], result.map(Some)),
    };
    let told = exchange_words(world.comm(), "a refusal", header)?;
    assert!(told.iter().all(|other| *other == header), "ranks are refused differently: {told:?}");
    result
}
