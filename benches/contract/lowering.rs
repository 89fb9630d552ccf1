//! The cost of the analysis: the time of `lower()`, and the number of ranks that a rank examines at run time.

use crate::schedules::{heat, on_64_ranks};
use polyshard_testing::bench::record::{Case, Record, median};
use std::time::Instant;

/// Prints the median seconds of `runs` runs for each algorithm on 64 ranks, with divisible sizes and with others.
pub(crate) fn measure(runs: usize) -> polyshard::Result<()> {
    for (ragged, size) in [(false, "divides"), (true, "ragged")] {
        for (algorithm, grid, schedule) in on_64_ranks(ragged) {
            let mut seconds = Vec::new();
            for _ in 0..runs.max(1) {
                // A clone shares only the steps that were checked already; lowering is not shared.
                let schedule = schedule.clone();
                let start = Instant::now();
                schedule.lower()?;
                seconds.push(start.elapsed().as_secs_f64());
            }
            print("seconds", "lower", grid, size, algorithm, median(seconds));
        }
    }
    Ok(())
}

/// Prints the maximum number of ranks that a rank of a stencil examines, on 16, 1024 and 65,536 ranks.
pub(crate) fn count_partners() -> polyshard::Result<()> {
    for extents in [[4, 4], [32, 32], [256, 256]] {
        let grid = format!("{}x{}", extents[0], extents[1]);
        let program = heat::<f64>(extents, 64).lower()?;
        print("partners", "lower", &grid, "divides", "heat", program.nest().partners() as f64);
    }
    Ok(())
}

fn print(quantity: &str, backend: &str, grid: &str, size: &str, contestant: &str, value: f64) {
    let case = Case { backend: backend.into(), grid: grid.into(), dtype: "f64".into(), size: size.into() };
    println!("{}", Record { quantity: quantity.into(), case, contestant: contestant.into(), value });
}
