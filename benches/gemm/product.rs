//! The algorithms and their bounds, timed in turns.

use crate::bound::Bound;
use crate::{Problem, Type};
use polyshard::prelude::*;
use polyshard::runtime::Transport;
use polyshard_testing::bench::clock::together;
use polyshard_testing::bench::products::{Algorithm, schedule};
use polyshard_testing::bench::record::{Case, Record};

/// Times each algorithm every way `runs` times, in turns with its bound, and prints the seconds of each run on rank 0.
///
/// | way | timed |
/// | --- | --- |
/// | `summa` | a run into an existing array, after one `prepare` |
/// | `summa:first` | `prepare`, a new output and a run, without reuse of memory |
/// | `summa:messages` | as `summa`, by messages |
/// | `bound(summa)` | its leaves alone |
pub(crate) fn measure<T: Element>(problem: &Problem) -> polyshard::Result<()> {
    polyshard::spmd(problem.grid.size(), |world| {
        let mut contestants = Vec::new();
        for &algorithm in &problem.algorithms {
            contestants.push(Contestant::<T>::new(world, problem, algorithm)?);
        }
        for run in 0..=problem.runs {
            for contestant in &mut contestants {
                let seconds = contestant.turn(world)?;
                // The first turn of each maps its memory, and is not counted.
                if world.rank() == 0 && run > 0 {
                    let name = &contestant.name;
                    let ways =
                        [name.clone(), format!("{name}:first"), format!("{name}:messages"), format!("bound({name})")];
                    for (contestant, value) in ways.into_iter().zip(seconds) {
                        let case = case(world, problem);
                        println!("{}", Record { quantity: "seconds".into(), case, contestant, value });
                    }
                }
            }
        }
        contestants.iter().try_for_each(Contestant::check)
    })?;
    Ok(())
}

/// The name of a problem in the table.
pub(crate) fn case(world: &World, problem: &Problem) -> Case {
    let dtype = match problem.dtype {
        Type::F32 => "f32",
        Type::F64 => "f64",
    };
    Case::on(world, &problem.grid, dtype, problem.size)
}

/// The element of operand `A` at row `m` and term `k`: small integers, so that sums are exact.
pub(crate) fn a(m: usize, k: usize) -> i64 {
    (m % 5) as i64 * ((k * 7 % 11) as i64 - 4)
}

/// The element of operand `B` at term `k` and column `n`.
pub(crate) fn b(k: usize, n: usize) -> i64 {
    ((k * 3 % 11) as i64 - 4) * ((n % 3) as i64 + 1)
}

/// Makes the operands of a program, whose `A` is transposed for the all-gather product.
pub(crate) fn operands<T: Element>(
    world: &World,
    program: &Program,
    algorithm: Algorithm,
) -> polyshard::Result<[DistArray<T>; 2]> {
    let element = |value: i64| T::from(value).expect("a small integer");
    let turned = algorithm == Algorithm::AgGemm;
    let [first, second] = ["A", "B"].map(|name| program.sharding(name));
    Ok([
        DistArray::from_fn(world, first, |i| element(if turned { a(i[1], i[0]) } else { a(i[0], i[1]) }))?,
        DistArray::from_fn(world, second, |i| element(b(i[0], i[1])))?,
    ])
}

/// An algorithm with its operands, and its bound.
struct Contestant<'a, T: Element> {
    name: String,
    program: &'static Program,
    prepared: [Prepared<'a, T>; 2],
    operands: [DistArray<T>; 2],
    output: DistArray<T>,
    bound: Bound<T>,
    bound_output: DistArray<T>,
    terms: usize,
    runs: i64,
}

impl<'a, T: Element> Contestant<'a, T> {
    fn new(world: &'a World, problem: &Problem, algorithm: Algorithm) -> polyshard::Result<Self> {
        // It lives as long as the process, which ends after measuring.
        let program: &'static Program =
            Box::leak(Box::new(schedule::<T>(algorithm, &problem.grid, problem.size).lower()?));
        let output = DistArray::filled(world, program.sharding("C"), T::ZERO)?;
        let [in_place, messages] = [Transport::Auto, Transport::Messages]
            .map(|transport| Ok::<_, polyshard::Error>(program.prepare(world)?.with_transport(transport)));
        Ok(Self {
            name: algorithm.to_string(),
            operands: operands(world, program, algorithm)?,
            bound: Bound::new(world, program)?,
            bound_output: output.clone(),
            prepared: [in_place?, messages?],
            output,
            program,
            terms: problem.size.k,
            runs: 0,
        })
    }

    /// Runs the program every way, then its bound, and returns the seconds of each.
    fn turn(&mut self, world: &World) -> polyshard::Result<[f64; 4]> {
        let Self { program, prepared: [in_place, messages], operands: [a, b], output, bound, bound_output, .. } = self;
        let product = together(world, || in_place.run_into(&[a, b], output))?;
        let by_messages = together(world, || messages.run_into(&[a, b], output))?;
        let least = together(world, || {
            bound.run(program, bound_output);
            Ok(())
        })?;
        world.release_memory();
        let mut new = None;
        let first = together(world, || {
            new = Some(program.run(world, &[a, b])?);
            Ok(())
        })?;
        drop(new);
        self.runs += 2;
        Ok([product, first, by_messages, least])
    }

    /// Checks this rank's part of the result, which has grown by one product with each run.
    fn check(&self) -> polyshard::Result<()> {
        // Both operands have rank one, so one sum gives all elements.
        let sum: i64 = (0..self.terms).map(|k| a(1, k) * b(k, 0)).sum();
        let (coordinates, shape) = (self.output.coordinates(), self.output.shape());
        let sharding = self.output.sharding();
        let [rows, columns] = [0, 1].map(|dim| {
            let pieces = sharding.pieces(dim, coordinates, 0..shape[dim]);
            pieces.flat_map(|(range, _)| range).collect::<Vec<_>>()
        });
        let expected = rows.iter().flat_map(|row| columns.iter().map(move |column| (row, column)));
        let wrong = expected.zip(self.output.block()).find(|&((row, column), &found)| {
            let expected = self.runs * sum * (row % 5 * (column % 3 + 1)) as i64;
            T::from(expected).is_none_or(|expected| expected != found)
        });
        match wrong {
            None => Ok(()),
            Some(((row, column), found)) => {
                panic!("{}: C[{row}, {column}] is {found:?}: the product is wrong", self.name)
            }
        }
    }
}
