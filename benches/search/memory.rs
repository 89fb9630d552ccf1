//! The memory of a rank, compared with its program's figure.

use super::kernels::timed;
use super::time;
use polyshard::machine::{detect, units};
use polyshard::prelude::*;
use polyshard::runtime::Transport;
use polyshard::search::Candidate;
use polyshard_testing::bench::peak::{forget_peak, of_all_ranks, peak};
use polyshard_testing::filled::inputs;

/// Runs, by messages, the schedule that moves most of the four fastest for a kernel. Prints the program's figure, the
/// bytes that matrix products may copy in addition, the maximum over ranks of the bytes above those before any arrays
/// existed, and their ratio to the figure. One kernel per process, since an allocator keeps freed memory.
///
/// # Panics
/// If no kernel has the name.
pub(crate) fn measure(ranks: usize, name: &str) -> polyshard::Result<()> {
    let kernels = timed(1);
    let kernel = kernels.iter().find(|kernel| kernel.name == name).expect("a kernel of benches/search/kernels.rs");
    polyshard::spmd(ranks, |world| {
        let machine = detect(world)?;
        let choice = kernel.schedule(DType::F64)?.auto(world.size(), &machine).all_ranks().at_least(4).find()?;
        let moves = |candidate: &&Candidate| candidate.words();
        let most =
            [choice.best()].into_iter().chain(choice.others()).take(4).max_by_key(moves).unwrap_or(choice.best());
        let program = most.schedule().lower()?;
        world.release_memory();
        world.comm().barrier()?;
        forget_peak();
        let before = peak();
        let inputs = inputs(world, &program, |_, at| at[0] as f64)?;
        let mut prepared = program.prepare::<f64>(world)?.with_transport(Transport::Messages);
        let mut output = prepared.output()?;
        for _ in 0..2 {
            prepared.run_into(&inputs.iter().collect::<Vec<_>>(), &mut output)?;
        }
        world.comm().barrier()?;
        let [has, before] = of_all_ranks(world, [peak(), before])?;
        let more = has.iter().zip(&before).map(|(has, before)| has - before).max().unwrap_or(0);
        if world.is_root() {
            let bound = most.cost().memory as f64;
            println!(
                "{name:8} {ranks:>4}  {:20} {:>10} {:>10} {:>10} {:>6.2}",
                time::name(most),
                units::scaled(bound, "B"),
                units::scaled(program.packed_bytes() as f64, "B"),
                units::scaled(more as f64, "B"),
                more as f64 / bound
            );
        }
        Ok(())
    })?;
    Ok(())
}
