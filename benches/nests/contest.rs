//! The contestants of each kernel, timed in turns.

use crate::hand;
use crate::kernels::SIZE;
use polyshard::prelude::*;
use polyshard_testing::bench::clock::together;
use polyshard_testing::bench::record::{Case, Record};
use polyshard_testing::filled::inputs_and_output;

/// Makes a compiled program's `Prepared`, and returns its `run_into`, on the program's inputs.
pub(crate) type Compiled<T> = for<'world> fn(&'world World) -> polyshard::runtime::Result<Run<'world, T>>;

/// A prepared compiled program.
pub(crate) type Run<'world, T> =
    Box<dyn FnMut(&[DistArray<T>], &mut DistArray<T>) -> polyshard::runtime::Result<()> + 'world>;

/// A hand-written loop over the block of the only input itself, for the points that have all their neighbours in it.
pub(crate) type Inner<T> = fn(&[T], &mut [T]);

/// A kernel in its three forms.
pub(crate) struct Kernel<T> {
    pub(crate) name: &'static str,
    /// To be lowered and executed.
    pub(crate) schedule: Schedule,
    /// Emitted at compile time of this benchmark.
    pub(crate) compiled: Compiled<T>,
    /// Written by hand, over the blocks of both inputs, or over the block of the only input with one more point on
    /// either side.
    pub(crate) hand: fn(&[T], &[T], &mut [T]),
    /// The same loop over the input itself.
    pub(crate) inner: Option<Inner<T>>,
}

/// Times the contestants of each kernel `runs` times and prints the seconds of each run on rank 0.
///
/// The hand-written loop computes a rank's share alone: it does not receive the rims of its neighbours.
pub(crate) fn measure<T: Element>(ranks: usize, kernels: &[Kernel<T>], runs: usize) -> polyshard::Result<()> {
    for kernel in kernels {
        let program = kernel.schedule.lower()?;
        polyshard::spmd(ranks, |world| {
            let (arrays, mut executed) = inputs_and_output(world, &program, |_, index| value::<T>(index))?;
            let mut compiled = executed.clone();
            let mut by_hand = executed.block().to_vec();
            let inputs: Vec<_> = arrays.iter().collect();
            let rows = SIZE / ranks;
            let padded = hand::padded(world.rank() * rows, rows, |[i, j]| value::<T>(&[i, j]));
            let [a, b] = match &inputs[..] {
                [a, b] => [a.block(), b.block()],
                _ => [&padded[..], &[]],
            };
            let mut inside = by_hand.clone();
            let mut prepared = program.prepare(world)?;
            let mut prepared_compiled = (kernel.compiled)(world)?;
            for run in 0..=runs {
                // Executed and compiled programs write separate arrays, in turns, so that neither finds its output in a
                // cache.
                let seconds = [
                    ("first", together(world, || program.run_into(world, &inputs, &mut executed))?),
                    ("compiled-first", together(world, || (kernel.compiled)(world)?(&arrays, &mut compiled))?),
                    ("prepared", together(world, || prepared.run_into(&inputs, &mut executed))?),
                    ("compiled", together(world, || prepared_compiled(&arrays, &mut compiled))?),
                    (
                        "hand",
                        together(world, || {
                            (kernel.hand)(a, b, &mut by_hand);
                            Ok(())
                        })?,
                    ),
                ];
                let inner = match kernel.inner {
                    Some(inner) => {
                        let seconds = together(world, || {
                            inner(arrays[0].block(), &mut inside);
                            Ok(())
                        })?;
                        Some(("inner", seconds))
                    }
                    None => None,
                };
                // The first run of each maps its memory, and is not counted.
                for (form, value) in seconds.into_iter().chain(inner).filter(|_| run > 0 && world.is_root()) {
                    let contestant = format!("{}:{form}", kernel.name);
                    let case = Case::on(world, world.size(), T::DTYPE.name(), SIZE);
                    println!("{}", Record { quantity: "seconds".into(), case, contestant, value });
                }
            }
            assert!(executed.block() == compiled.block(), "{}: executed and compiled differ", kernel.name);
            check(kernel.name, executed.block(), &by_hand);
            Ok(())
        })?;
    }
    Ok(())
}

/// Compares the results of the hand-written loop with those of the executor, except at the edges, which some stencils
/// do not write.
fn check<T: Element>(name: &str, executed: &[T], by_hand: &[T]) {
    let rows = executed.chunks_exact(SIZE).zip(by_hand.chunks_exact(SIZE));
    let inner = rows
        .skip(1)
        .take(executed.len() / SIZE - 2)
        .flat_map(|(executed, by_hand)| executed[1..SIZE - 1].iter().zip(&by_hand[1..SIZE - 1]));
    let small = T::from(1e-5).expect("a float");
    let differ = |&(&a, &b): &(&T, &T)| a.subtract(b).absolute() > small.multiply(T::ONE.maximum(b.absolute()));
    let wrong = inner.clone().filter(differ).count();
    assert!(wrong == 0, "{name}: {wrong} points differ from the loop by hand");
}

/// Small numbers, all of them positive.
fn value<T: Element>(index: &[usize]) -> T {
    let sum: usize = index.iter().zip([3, 1]).map(|(i, by)| i * by).sum();
    T::from((sum % 7) as f64 / 8.0).expect("a float")
}
