//! The time to find all programs.

use polyshard::planner::reduce::{AllowedMasters, Hierarchy, synthesize};
use polyshard_testing::bench::record::{Case, Record};
use std::hint::black_box;
use std::time::Instant;

/// Prints the seconds to find all programs of two and of three levels, and their number, for levels of few and of many
/// members.
pub(crate) fn measure(runs: usize) {
    for levels in [2, 3] {
        for factor in [2, 3, 1000] {
            let names = ["rack", "node", "device"];
            let hierarchy =
                Hierarchy::new(names[3 - levels..].iter().map(|name| (*name, factor))).expect("few devices");
            let programs = || black_box(synthesize(black_box(&hierarchy), 5, AllowedMasters::OthersIdle)).len();
            let print = |quantity: &str, value| {
                let [backend, dtype, contestant] = ["planner", "-", "synthesize"].map(String::from);
                let case = Case { backend, grid: levels.to_string(), dtype, size: factor.to_string() };
                println!("{}", Record { quantity: quantity.into(), case, contestant, value });
            };
            print("programs", programs() as f64);
            for _ in 0..runs {
                let start = Instant::now();
                programs();
                print("seconds", start.elapsed().as_secs_f64());
            }
        }
    }
}
