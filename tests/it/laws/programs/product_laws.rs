//! Runs sharded products on all ranks that `mpirun` started, or on 4 threads without it, and checks every answer.
//!
//! ```text
//! mpirun -n 6 target/debug/examples/product_laws --ranks=6
//! ```
//!
//! Products and sizes are drawn from a fixed sequence, so all ranks and all runs see the same ones.

use polyshard::layout::DType;
use polyshard::runtime::spmd;
use polyshard::{Error, Result};
use polyshard_testing::laws;
use polyshard_testing::laws::product::{Draw, held, hold, meshes, reshardings_hold};

/// Products drawn per mesh.
const CASES: usize = 4;

fn main() -> Result<()> {
    spmd(laws::ranks(), |world| {
        let mut draw = Draw(11);
        for mesh in meshes(world.size()) {
            for case in 0..CASES {
                let problem = draw.problem(&mesh, case % 2 == 1);
                let dtype = [DType::F64, DType::I32, DType::I64, DType::F32][case % 4];
                let held = held(&mesh, &problem, dtype)?;
                match dtype {
                    DType::F64 => hold::<f64>(world, &held)?,
                    DType::I32 => hold::<i32>(world, &held)?,
                    DType::I64 => hold::<i64>(world, &held)?,
                    _ => hold::<f32>(world, &held)?,
                }
                reshardings_hold::<f32>(world, &mesh, &mut draw)?;
            }
        }
        if world.rank() == 0 {
            println!("sharded products hold on {} ranks", world.size());
        }
        Ok::<(), Error>(())
    })
    .map(drop)
}
