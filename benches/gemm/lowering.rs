//! The time of `lower()`, by size of the mesh.

use polyshard_testing::bench::products::{Algorithm, Grid, Sizes, schedule};
use polyshard_testing::bench::record::{Case, Record, median};
use std::time::Instant;

/// Prints the median seconds of `runs` runs for each algorithm and mesh.
///
/// Each rank's tiles are those of the notebook's case, whose extents are for the mesh 8x8.
pub(crate) fn measure(runs: usize) -> polyshard::Result<()> {
    for extent in [2, 8, 64, 1024] {
        let grid = Grid { extents: vec![extent; 2] };
        let size = Sizes { m: 64 * extent, k: 256 * extent, n: 128 * extent };
        for algorithm in [Algorithm::Summa, Algorithm::Pumma, Algorithm::Cannon, Algorithm::AgGemm] {
            let schedule = schedule::<f32>(algorithm, &grid, size);
            let mut seconds = Vec::new();
            for _ in 0..runs.max(1) {
                let start = Instant::now();
                schedule.lower()?;
                seconds.push(start.elapsed().as_secs_f64());
            }
            let [backend, dtype] = ["lower", "f32"].map(String::from);
            let case = Case { backend, grid: grid.to_string(), dtype, size: size.to_string() };
            let (quantity, contestant, value) = ("seconds".into(), algorithm.to_string(), median(seconds));
            println!("{}", Record { quantity, case, contestant, value });
        }
    }
    Ok(())
}
