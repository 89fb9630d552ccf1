//! Inputs of several lengths, read in place and by messages: the length above which the first is faster.

use polyshard::prelude::*;
use polyshard::runtime::Transport;
use polyshard_testing::bench::clock::together;
use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::bench::tabulate::{first_seen, median_of};

/// The quantity in the records of this part.
pub(crate) const QUANTITY: &str = "reading";

/// The number of elements of the input, over all ranks.
const LENGTHS: [usize; 11] =
    [1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 17, 1 << 19, 1 << 21];

/// The number of panels of an input that is not read at once.
const PANELS: usize = 4;

/// Runs that are timed together, since one alone takes little longer than the clock.
const BATCH: usize = 50;

const WAYS: [(&str, Transport); 3] =
    [("in-place", Transport::Shared), ("messages", Transport::Messages), ("auto", Transport::Auto)];

/// Times `runs` batches of programs that read an input of each length, at once or in panels, and prints the seconds of a run on
/// rank 0.
pub(crate) fn measure(ranks: usize, runs: usize) -> polyshard::Result<()> {
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    vars!(i, k, io, ii, ko, ki);
    for length in LENGTHS {
        let sum = kernel! { fn sum(A: [f64; length]) -> C: [f64; ranks] { C[i] = A[k] for i in 0..ranks } };
        let sum = sum.distribute([i], [io], [ii], &mesh).shard("A", [k.at(x)]).shard("C", [i.at(x)]);
        let panels = sum.clone().divide(k, ko, ki, PANELS).reorder([ko, ii, ki]).communicate("A", ko);
        for (name, program) in [("all-gather", sum.lower()?), ("broadcasts", panels.lower()?)] {
            polyshard::spmd(ranks, |world| {
                let a = DistArray::from_fn(world, program.sharding("A"), |index| (index[0] % 7) as f64)?;
                let mut sums = DistArray::filled(world, program.sharding("C"), 0.0)?;
                let mut ways = Vec::new();
                for (way, transport) in WAYS {
                    ways.push((way, program.prepare(world)?.with_transport(transport)));
                }
                for run in 0..=runs {
                    for (way, prepared) in &mut ways {
                        let batch = || (0..BATCH).try_for_each(|_| prepared.run_into(&[&a], &mut sums));
                        let value = together(world, batch)? / BATCH as f64;
                        // The first batch makes tiles and maps memory.
                        if run > 0 && world.is_root() {
                            let case = Case::on(world, ranks, "f64", length * size_of::<f64>());
                            let contestant = format!("{name}:{way}");
                            println!("{}", Record { quantity: QUANTITY.into(), case, contestant, value });
                        }
                    }
                }
                let expected: f64 = (0..length).map(|k| (k % 7) as f64).sum();
                assert!(sums.block().iter().all(|&sum| sum == expected), "sums of {length} elements are wrong");
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Prints the table of these records.
pub(crate) fn print(records: &[Record]) {
    if records.is_empty() {
        return;
    }
    println!(
        "inputs: median microseconds of a run that reads one by an all-gather, and in {PANELS} broadcasts; `auto` chooses"
    );
    let columns = ["all-gather", "broadcasts"].map(|name| WAYS.map(|(way, _)| format!("{name}:{way}")));
    print!("{:<8} {:<6} {:>10}", "on", "ranks", "bytes");
    columns.iter().flatten().for_each(|column| print!(" {column:>19}"));
    println!();
    for case in first_seen(records.iter().map(|record| record.case.clone())) {
        print!("{:<8} {:<6} {:>10}", case.backend, case.grid, case.size);
        for column in columns.iter().flatten() {
            print!(" {:>19.1}", median_of(records, &case, column).unwrap_or(f64::NAN) * 1e6);
        }
        println!();
    }
    println!();
}
