//! The machine that is emulated, and what is reduced on it.

use polyshard_planner::machine::{Device, Interconnect, Level, Machine};
use polyshard_planner::placement::{ParallelismMatrix, matrices};

/// Each second of the machine lasts so many: messages of kilobytes then take milliseconds, which is long for a
/// thread to wake up in.
pub(crate) const SLOWDOWN: f64 = 1000.0;

/// Two nodes of so many devices: 100 GB/s for each device inside, and one port of 10 GB/s for all of a node.
pub(crate) fn nodes(inside: usize) -> Machine {
    let level = |name: &str, count, bandwidth, shared_ports| Level {
        name: name.into(),
        count,
        interconnect: Interconnect::Switch,
        bandwidth,
        latency: 1e-7,
        shared_ports,
        bypass: None,
    };
    let device = Device { memory_bandwidth: 1e12, memory_capacity: 1 << 36, ..Device::default() };
    let levels = vec![level("node", 2, 1e10, Some(1)), level("device", inside, 1e11, None)];
    Machine::new("emulated", levels, device).expect("the levels and the device are valid")
}

/// A reduction over axes of a placed mesh.
pub(crate) struct Case {
    pub(crate) matrix: ParallelismMatrix,
    /// Positions of the axes, ascending.
    pub(crate) axes: Vec<usize>,
}

impl Case {
    /// The matrix and the axes in one word.
    pub(crate) fn name(&self) -> String {
        let axes: Vec<_> = self.axes.iter().map(usize::to_string).collect();
        format!("{}/{}", self.matrix, axes.join("+")).replace(' ', ",")
    }
}

/// All reductions over axes of these extents, in all placements, that reduce anything; those with equal groups of
/// ranks once.
pub(crate) fn reductions(machine: &Machine, axes: &[usize]) -> Vec<Case> {
    let mut seen = Vec::new();
    let mut cases = Vec::new();
    for matrix in matrices(&machine.hierarchy(), axes).expect("the axes fit the machine") {
        for chosen in 1..1usize << axes.len() {
            let axes: Vec<usize> = (0..axes.len()).filter(|axis| chosen >> axis & 1 == 1).collect();
            let groups = matrix.groups(&axes).expect("the axes exist");
            if groups[0].len() > 1 && !seen.contains(&groups) {
                seen.push(groups);
                cases.push(Case { matrix: matrix.clone(), axes });
            }
        }
    }
    cases
}
