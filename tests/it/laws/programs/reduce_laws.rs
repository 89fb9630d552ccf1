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
use polyshard_testing::laws::{self, reduce};

/// The number of programs of each reduction: MPI's processes take turns on a few cores.
const PROGRAMS: usize = 6;

fn main() -> Result<()> {
    let ranks = laws::ranks();
    spmd(ranks, |world| {
        let reductions = reduce::hold(world, PROGRAMS)?;
        if world.rank() == 0 {
            println!("{reductions} reductions hold on {ranks} ranks");
        }
        Ok::<(), Error>(())
    })
    .map(drop)
}
