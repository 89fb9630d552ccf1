//! The laws of memory that ranks read of each other, on all ranks that `mpirun` started, or on 4 threads without it.
//!
//! ```text
//! mpirun -n 3 target/debug/examples/memory_laws --ranks=3 --arrays=1200
//! ```

use polyshard_runtime::{Error, spmd};
use polyshard_testing::laws::{self, memory};

fn main() -> Result<(), Error> {
    let number = |name: &str| std::env::args().find_map(|argument| argument.strip_prefix(name)?.parse::<usize>().ok());
    let (ranks, arrays) = (laws::ranks(), number("--arrays=").unwrap_or(100));
    spmd(ranks, |world| {
        memory::what_differs_is_told(world, ranks << 20)?;
        memory::short_inputs_are_read_in_place(world)?;
        memory::many_arrays_live(world, arrays)?;
        if world.is_root() {
            println!("the laws of memory hold on {ranks} ranks");
        }
        Ok(())
    })
    .map(drop)
}
