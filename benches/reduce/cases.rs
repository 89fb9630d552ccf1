//! The emulated machine, and the reductions on it.

use polyshard::machine::{Algorithm, Collective, Device, GroupedCollective, Interconnect, Level, Machine, seconds};
use polyshard::planner::placement::{ParallelismMatrix, matrices};
use std::num::ParseIntError;
use std::str::FromStr;

/// The slowdown of the emulated machine: messages of kilobytes then take milliseconds, much longer than a thread takes
/// to wake up and to add their elements.
pub(crate) const SLOWDOWN: f64 = 100.0;

/// Two nodes of `inside` devices each: 1 GB/s for each device inside, and one port for the whole node that is slower by
/// this factor.
pub(crate) fn nodes(inside: usize, factor: f64) -> Machine {
    let level = |name: &str, count, bandwidth, shared_ports| Level {
        shared_ports,
        ..Level::new(name, count, Interconnect::Switch, bandwidth, 1e-6)
    };
    let device = Device { memory_bandwidth: 1e12, memory_capacity: 1 << 36, ..Device::default() };
    let levels = vec![level("node", 2, 1e9 / factor, Some(1)), level("device", inside, 1e9, None)];
    Machine::new(format!("2x{inside}/{factor}"), levels, device).expect("the levels and the device are valid")
}

/// A reduction over axes of a placed mesh.
pub(crate) struct Case {
    pub(crate) matrix: ParallelismMatrix,
    /// Positions of the axes, ascending.
    pub(crate) axes: Vec<usize>,
}

impl Case {
    /// The matrix and the axes as a single word.
    pub(crate) fn name(&self) -> String {
        let axes: Vec<_> = self.axes.iter().map(usize::to_string).collect();
        format!("{}/{}", self.matrix, axes.join("+")).replace(' ', ",")
    }

    /// The number of `f64` elements for which an all-reduce takes about `direct` seconds on the emulated machine.
    pub(crate) fn elements(&self, machine: &Machine, direct: f64) -> usize {
        const BYTES: f64 = 1e6;
        let groups = self.matrix.groups(&self.axes).expect("the axes exist");
        let collective = GroupedCollective { operation: Collective::AllReduce, groups, bytes: BYTES };
        let simulated = seconds(machine, &collective, Algorithm::Ring).expect("the groups are of the machine");
        (direct / SLOWDOWN / simulated.transfer * BYTES) as usize / size_of::<f64>()
    }
}

/// The extents of a mesh's axes.
#[derive(Clone)]
pub(crate) struct Extents(Vec<usize>);

impl FromStr for Extents {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split('x').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// All non-trivial reductions over axes of these meshes, in all placements; those with equal groups of ranks once.
pub(crate) fn reductions(machine: &Machine, meshes: &[Extents]) -> Vec<Case> {
    let mut seen = Vec::new();
    let mut cases = Vec::new();
    for Extents(extents) in meshes {
        for matrix in matrices(&machine.hierarchy(), extents).expect("the axes fit the machine") {
            for chosen in 1..1usize << extents.len() {
                let axes: Vec<usize> = (0..extents.len()).filter(|axis| chosen >> axis & 1 == 1).collect();
                let groups = matrix.groups(&axes).expect("the axes exist");
                if groups[0].len() > 1 && !seen.contains(&groups) {
                    seen.push(groups);
                    cases.push(Case { matrix: matrix.clone(), axes });
                }
            }
        }
    }
    cases
}
