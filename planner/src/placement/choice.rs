//! The best placement for a workload.
//!
//! A workload is a list of collectives along axes of the mesh with their bytes; they run in sequence, as often as they
//! are listed, at the prices of programs. All matrices are tried, and for each of them every all-reduce uses its
//! fastest program, since a placement that is bad for the direct one may be good for a program (Xie et al., result 4).

use super::{ParallelismMatrix, matrices};
use crate::cost::Prices;
use crate::reduce::{self, ReduceError, ReduceOptions};
use polyshard_machine::{Collective, GroupedCollective, Machine};

/// One collective of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The operation.
    pub operation: Collective,
    /// The axes of the mesh along which it runs.
    pub axes: Vec<usize>,
    /// The bytes that each rank holds before it.
    pub bytes: f64,
}

/// A placement with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The placement.
    pub matrix: ParallelismMatrix,
    /// The seconds of each collective, in the workload's order.
    pub each: Vec<f64>,
    /// The seconds of all.
    pub seconds: f64,
}

/// Returns all placements of a mesh with these axes, best first; equally fast ones in the order of [`matrices`].
/// All-reduces use programs of at most [`max_steps`](ReduceOptions::max_steps) steps; with 1, they are direct.
///
/// ```
/// use polyshard::layout::Collective;
/// use polyshard::planner::placement::{Traffic, best};
/// use polyshard::planner::reduce::ReduceOptions;
/// use polyshard::prelude::*;
/// // 4 replicas of a model in 16 shards: little between the replicas, much between the shards.
/// let gradients = Traffic { operation: Collective::AllReduce, axes: vec![0], bytes: 1e8 };
/// let activations = Traffic { operation: Collective::AllReduce, axes: vec![1], bytes: 1e9 };
/// let traffic = [gradients, activations];
/// let placements = best(&Machine::preset("a100")?, &[4, 16], &traffic, &ReduceOptions::default())?;
/// assert_eq!(placements[0].matrix.to_string(), "[[4 1] [1 16]]"); // a node holds a replica
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the axes cannot be placed on the machine, a collective names an axis that does not exist or the same one twice,
/// or its bytes are negative or not finite.
pub fn best(
    machine: &Machine,
    axes: &[usize],
    traffic: &[Traffic],
    options: &ReduceOptions,
) -> Result<Vec<Ranked>, ReduceError> {
    let mut ranked = Vec::new();
    for matrix in matrices(&machine.hierarchy(), axes)? {
        let each = traffic.iter().map(|traffic| one(machine, &matrix, traffic, options));
        let each = each.collect::<Result<Vec<_>, _>>()?;
        let seconds = each.iter().sum();
        ranked.push(Ranked { matrix, each, seconds });
    }
    ranked.sort_by(|left, right| left.seconds.total_cmp(&right.seconds));
    Ok(ranked)
}

/// The seconds of one collective.
fn one(
    machine: &Machine,
    matrix: &ParallelismMatrix,
    traffic: &Traffic,
    options: &ReduceOptions,
) -> Result<f64, ReduceError> {
    let &ReduceOptions { algorithm, max_steps, .. } = options;
    if traffic.operation == Collective::AllReduce && max_steps > 1 {
        let programs = reduce::best(machine, matrix, &traffic.axes, traffic.bytes, options)?;
        let Some(fastest) = programs.first() else {
            panic!("{matrix} has no program of {max_steps} steps over axes {:?}: a bug in polyshard", traffic.axes)
        };
        return Ok(fastest.simulation.total());
    }
    let (operation, mut groups, bytes) = (traffic.operation, matrix.groups(&traffic.axes)?, traffic.bytes);
    if operation != Collective::AllReduce {
        // In mesh order, the order of the parts in programs.
        groups.iter_mut().for_each(|group| group.sort_by_cached_key(|&device| matrix.coordinates(device)));
    }
    let collective = GroupedCollective { operation, groups, bytes };
    Ok(Prices::new(machine).by(algorithm).collective(&collective)?.total())
}
