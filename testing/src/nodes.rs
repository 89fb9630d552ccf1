//! Nodes that `scripts/nodes` emulates on one machine, for programs under `mpirun`.

use std::fmt;
use std::process::Command;

/// How ranks are assigned to nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapBy {
    /// The first node gets all of its ranks first, then the next.
    Slot,
    /// Each node with free slots gets a rank in turn.
    Node,
}

/// Nodes, each with its number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The ranks of each node.
    pub ranks: &'static [usize],
    /// Which rank is on which node.
    pub map_by: MapBy,
}

/// Two and three nodes of equal and of different sizes, with ranks by slot and by node.
///
/// ```text
/// by slot   {0 1} {2 3}     {0 1} {2}     {0} {1 2 3}     {0 1} {2 3} {4 5}
/// by node   {0 2} {1 3}     {0 2} {1}                     {0 3 5} {1} {2 4}
/// ```
pub const LAYOUTS: [Nodes; 7] = [
    Nodes { ranks: &[2, 2], map_by: MapBy::Slot },
    Nodes { ranks: &[2, 2], map_by: MapBy::Node },
    Nodes { ranks: &[2, 1], map_by: MapBy::Slot },
    Nodes { ranks: &[2, 1], map_by: MapBy::Node },
    Nodes { ranks: &[1, 3], map_by: MapBy::Slot },
    Nodes { ranks: &[2, 2, 2], map_by: MapBy::Slot },
    Nodes { ranks: &[3, 1, 2], map_by: MapBy::Node },
];

impl Nodes {
    /// Returns the number of ranks on all nodes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.ranks.iter().sum()
    }

    /// Returns the command that makes the nodes and starts the appended program on all of their ranks.
    pub(crate) fn mpirun(&self) -> Command {
        let ranks: Vec<_> = self.ranks.iter().map(usize::to_string).collect();
        let map_by = if self.map_by == MapBy::Slot { "slot" } else { "node" };
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/nodes"));
        command.args(["--map-by", map_by, &ranks.join(","), "mpirun"]);
        command
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let map_by = if self.map_by == MapBy::Slot { "slot" } else { "node" };
        write!(f, "nodes of {:?} ranks by {map_by}", self.ranks)
    }
}
