//! Checks reductions and placements on all ranks that `mpirun` started, or on as many threads as asked for.
//!
//! ```text
//! mpirun -n 6 target/debug/examples/reduce_laws --ranks=6
//! ```
//!
//! All hierarchies of one to three levels with as many devices as ranks, all meshes of one or two axes, all their
//! placements and all sets of axes; of each reduction's programs a few, with lengths, types and operations in turn.

use polyshard::runtime::spmd;
use polyshard::{Error, Result};
use polyshard_testing::laws::reduce;

/// Programs of each reduction: MPI's processes take turns on a few cores.
const PROGRAMS: usize = 6;

fn main() -> Result<()> {
    let mut ranks = std::env::args().filter_map(|argument| argument.strip_prefix("--ranks=").map(String::from));
    let ranks = match ranks.next() {
        Some(ranks) => ranks.parse().unwrap_or_else(|_| panic!("`{ranks}` is not a number of ranks")),
        None => 4,
    };
    spmd(ranks, |world| {
        let reductions = reduce::hold(world, PROGRAMS)?;
        if world.rank() == 0 {
            println!("{reductions} reductions hold on {ranks} ranks");
        }
        Ok::<(), Error>(())
    })
    .map(drop)
}
