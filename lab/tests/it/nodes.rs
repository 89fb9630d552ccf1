//! Detected machines on nodes that share no memory.
//!
//! `scripts/nodes` makes the nodes, which not every machine allows; so these tests are ignored by default:
//!
//! ```text
//! cargo test -p polyshard-lab --test it nodes -- --ignored
//! ```

use polyshard_testing::example_path;
use polyshard_testing::nodes::LAYOUTS;
use polyshard_testing::start::{Start, laws};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);

#[test]
#[ignore = "needs nodes, which scripts/nodes makes"]
fn machines_are_found_where_nodes_make_levels_and_refused_elsewhere() {
    let uneven = |ranks: usize, first: usize, second: usize| {
        format!(
            "no machine is found on {ranks} ranks: node 0 has {first} of the ranks and node 1 has {second}: all nodes \
             must have the same number; start 1 on each, with `mpirun --map-by ppr:1:node`\n"
        )
    };
    let turns = |ranks: usize, [rank, other]: [usize; 2]| {
        format!(
            "no machine is found on {ranks} ranks: ranks {rank} and {other} are on one node, but rank {} between them \
             is on another: the ranks of a node must be consecutive; start them node by node, with \
             `mpirun --map-by slot`\n",
            other - 1
        )
    };
    let expected = [
        "machines are found on 4 ranks of 2 nodes\n".into(),
        turns(4, [0, 2]),
        uneven(3, 2, 1),
        turns(3, [0, 2]),
        uneven(4, 1, 3),
        "machines are found on 6 ranks of 3 nodes\n".into(),
        turns(6, [0, 3]),
    ];
    for (nodes, expected) in LAYOUTS.into_iter().zip(expected) {
        let said = laws(Start::Nodes(nodes), &example_path!("machine_laws"), nodes.size(), LIMIT);
        assert_eq!(said, expected, "on {nodes}");
    }
}
