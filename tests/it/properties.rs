//! The main law: whatever the schedule, mesh and sizes, the result is the sequential one, or `lower` refuses with a
//! reason.

mod bounds;
mod by_hand;

use ndarray::ArrayD;
use polyshard::prelude::*;
use polyshard::program::{Direction, Leg, NestView, TransferView};
use polyshard::schedule::ErrorKind;
use polyshard_testing::laws::program::{run_every_way, sequential, versions_hold};
use polyshard_testing::program::{ByExchange, IsAs};
use polyshard_testing::random::Choices;
use polyshard_testing::random::algorithms::algorithm_of;
use polyshard_testing::random::by_procedures::by_procedure;
use polyshard_testing::random::cyclic::cyclic_of;
use polyshard_testing::random::kernels::kernel_of;
use polyshard_testing::random::pipelined::{in_time_steps, interior_first, pipelined};
use polyshard_testing::random::schedules::{mesh_of, schedule_of};
use polyshard_testing::random::staged::staged;
use polyshard_testing::random::stencils::stencil_of;
use polyshard_testing::random::sums::summed_of;
use polyshard_testing::written::read_back;
use proptest::prelude::*;

/// A random schedule of a random kernel.
fn anything<T: Element>(choices: &[u32]) -> Schedule {
    let mut choices = Choices::new(choices);
    let kernel = kernel_of::<T>(&mut choices);
    let mesh = mesh_of(&mut choices);
    schedule_of(kernel, &mesh, &mut choices)
}

/// A random relative of the classical matrix products.
fn algorithm<T: Element>(choices: &[u32]) -> Schedule {
    algorithm_of::<T>(&mut Choices::new(choices)).0
}

/// A random product with sums over ranks.
fn summed<T: Element>(choices: &[u32]) -> Schedule {
    summed_of::<T>(&mut Choices::new(choices))
}

/// A random kernel whose loops are distributed block-cyclically.
fn cyclic<T: Element>(choices: &[u32]) -> Schedule {
    let mut choices = Choices::new(choices);
    let kernel = kernel_of::<T>(&mut choices);
    let mesh = mesh_of(&mut choices);
    cyclic_of(kernel, &mesh, &mut choices)
}

/// A random stencil on a mesh of two axes.
fn stencil<T: Element>(choices: &[u32]) -> Schedule {
    stencil_of(T::DTYPE, &mut Choices::new(choices))
}

/// Whether a program has more ranks times steps than are all enumerated for an unproved program, which is a guess then.
fn is_guessed(program: &Program) -> bool {
    let steps = |nest: &NestView<'_>| nest.loops.iter().map(|counter| counter.extent).product::<i64>();
    program.nests().any(|nest| program.mesh().size() as i64 * steps(&nest) > 512)
}

/// Runs a schedule and compares it with the sequential result, or checks that it is refused with a reason.
fn check<T: Element>(schedule: &Schedule) -> Result<(), TestCaseError> {
    let program = match (schedule.lower(), schedule.unproved()) {
        (Ok(program), Ok(unproved)) => {
            prop_assert!(
                unproved.is_as(&program) || is_guessed(&program),
                "{schedule}\n{program}\n{}",
                unproved.explain()
            );
            read_back(&program)
        }
        (Ok(_), Err(error)) => {
            return Err(TestCaseError::fail(format!("lowered, but not without proofs: {error}\n{schedule}")));
        }
        (Err(error), unproved) => {
            prop_assert_eq!(unproved.err().map(|error| error.to_string()), Some(error.to_string()));
            let ours = matches!(error.kind(), ErrorKind::Unproved { .. } | ErrorKind::Isl { .. });
            prop_assert!(!ours, "{error}\n{schedule}");
            return Ok(());
        }
    };
    polyshard::spmd(program.mesh().size(), |world| versions_hold::<T>(world, &program))
        .map_err(|error| TestCaseError::fail(format!("{error}\n{schedule}\n{program}")))?;
    let expected = sequential::<T>(&program, true);
    let mut programs = vec![(program.clone(), "as derived"), (program.by_exchange(), "by exchange alone")];
    let depth = 1 + schedule.steps().count() % 4;
    if let Some(ahead) = pipelined(schedule, depth).map_err(|error| TestCaseError::fail(format!("{error}")))? {
        let exchanged = ahead.by_exchange();
        programs.extend([(read_back(&ahead), "pipelined"), (exchanged, "pipelined, by exchange alone")]);
    }
    if let Some(first) = interior_first(schedule) {
        let first_program = first.lower().map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(
            first.unproved().is_ok_and(|unproved| unproved.is_as(&first_program) || is_guessed(&first_program)),
            "{}",
            first_program
        );
        programs.push((read_back(&first_program), "the interior first"));
    }
    // Different stages for each schedule, the same in each run.
    let seed: Vec<u32> = schedule.to_string().bytes().map(u32::from).collect();
    programs.extend(staged(&program, &mut Choices::new(&seed)).map(|staged| (read_back(&staged), "in stages")));
    let by_procedure = by_procedure(&program, &mut Choices::new(&seed));
    programs.extend(by_procedure.map(|program| (read_back(&program), "by a procedure")));
    for steps in [2, 3] {
        if let Some(stepped) = in_time_steps(schedule, steps) {
            let stepped_program = stepped.lower().map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert!(
                stepped
                    .unproved()
                    .is_ok_and(|unproved| unproved.is_as(&stepped_program) || is_guessed(&stepped_program)),
                "{}",
                stepped_program
            );
            let expected = sequential::<T>(&stepped_program, true);
            for program in [read_back(&stepped_program), stepped_program.by_exchange()] {
                let found = distributed::<T>(&program, true)
                    .map_err(|error| TestCaseError::fail(format!("{error}\n{program}")))?;
                prop_assert_eq!(&found, &expected, "{} steps\n{}", steps, &program);
            }
        }
    }
    for (program, how) in programs {
        let found = distributed::<T>(&program, true)
            .map_err(|error| TestCaseError::fail(format!("{how}: {error}\n{schedule}\n{program}")))?;
        prop_assert_eq!(&found, &expected, "{}\n{}\n{}", how, schedule, &program);
    }
    Ok(())
}

fn distributed<T: Element>(program: &Program, into: bool) -> polyshard::Result<ArrayD<T>> {
    let shards = polyshard::spmd(program.mesh().size(), |world| run_every_way::<T>(world, program, into))?;
    let received = shards.iter().map(|(received, _)| *received).max().unwrap_or(0);
    let stated = program.report().traffic_bytes;
    assert!(received <= stated, "{received} bytes received, {stated} stated\n{program}");
    // With few steps, the stated bytes are counted exactly. A sum of integers is carried out by the library.
    let levels = program.body().transfers.iter().map(|transfer| transfer.level);
    let steps =
        levels.map(|level| program.nest().loops[..level.0].iter().map(|l| l.extent as usize).product::<usize>());
    let most_partners = program.mesh().size();
    if steps.sum::<usize>() * program.mesh().size() * most_partners <= 8192 {
        // Blocks are visited one by one, which may be too many.
        let is_counted = program.nest().volumes().iter().all(|volume| volume.is_counted);
        assert!(
            is_counted || program.nest().transfers.iter().any(|transfer| transfer.region.has_blocks()),
            "{program}"
        );
        assert!(!is_counted || received == stated, "{received} bytes received, {stated} counted\n{program}");
    }
    Ok(shards.into_iter().find_map(|(_, array)| array).expect("rank 0 gathers"))
}

fn choices() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..5040, 0..90)
}

/// More than `least` of the random schedules with these numbers are legal, and their programs show all of `wanted`. The
/// properties would hold even if all schedules were refused.
fn all_are_shown(
    [cases, least]: [usize; 2],
    schedule: impl Fn(usize, &[u32]) -> Schedule,
    shown: impl Fn(&Program) -> Vec<String>,
    wanted: &[&str],
) {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut found = std::collections::BTreeMap::<String, usize>::new();
    let mut lowered = 0;
    for case in 0..cases {
        let drawn = choices().new_tree(&mut runner).expect("choices need no filter").current();
        let kinds = match schedule(case, &drawn).lower() {
            Ok(program) => {
                lowered += 1;
                shown(&program)
            }
            Err(error) => {
                let kind = format!("{:?}", error.kind());
                vec![format!("refused: {}", kind.split([' ', '{', '(']).next().unwrap_or_default())]
            }
        };
        kinds.into_iter().for_each(|kind| *found.entry(kind).or_default() += 1);
    }
    println!("{lowered} of {cases} lowered: {found:#?}");
    assert!(lowered > least, "only {lowered} of {cases} are legal: {found:?}");
    for pattern in wanted {
        assert!(found.contains_key(*pattern), "no {pattern} among {found:?}");
    }
}

/// The name of a pattern.
fn name(pattern: &Pattern) -> String {
    pattern.to_string().split('(').next().unwrap_or_default().to_owned()
}

#[test]
fn random_schedules_are_mostly_legal_and_show_every_pattern() {
    let schedule = |case: usize, drawn: &[u32]| match case % 3 {
        0 => anything::<i64>(drawn),
        1 => algorithm::<i64>(drawn),
        _ => summed::<i64>(drawn),
    };
    let shown = |program: &Program| {
        let nest = program.nest();
        let levels = |sharding: &Sharding| sharding.dims().iter().any(|dim| dim.levels().len() > 1);
        let moved = |t: &&TransferView<'_>| t.route.shift().is_some() && t.route.at_owners() != [Leg::InPlace];
        let others = [
            ("blocks of blocks", program.shardings().any(levels)),
            ("partial sums", program.shardings().any(|sharding| !sharding.partial().is_empty())),
            ("shift of sums", nest.output().route.shift().is_some()),
            ("shift after a first step", nest.inputs().iter().any(|input| moved(&input))),
        ];
        let tensors = program.kernel().tensors();
        let patterns =
            tensors.map(|tensor| name(&program.pattern(tensor.name.as_str()).expect("a tensor of the kernel")));
        let others = others.into_iter().filter(|other| other.1).map(|other| other.0.to_owned());
        patterns.chain([nest.leaf.op.kind().to_string()]).chain(others).collect()
    };
    all_are_shown(
        [900, 450],
        schedule,
        shown,
        &[
            "local",
            "broadcast",
            "shift",
            "permute",
            "all_gather",
            "reduce",
            "all_reduce",
            "reduce_scatter",
            "halo",
            "permute, broadcast",
            "exchange",
            "contraction",
            "nest",
            "shift after a first step",
            "shift of sums",
            "partial sums",
            "blocks of blocks",
        ],
    );
}

/// Some stencils read corners, some do not.
#[test]
fn random_stencils_are_mostly_legal_and_leave_out_corners_or_do_not() {
    let shown = |program: &Program| {
        let nest = program.nest();
        let kind = |input: &TransferView<'_>| {
            let corners = if input.route.star().is_some() { "without corners" } else { "with all" };
            format!("{} {corners}", name(&nest.pattern_of(input)))
        };
        nest.inputs().iter().map(kind).collect()
    };
    let wanted = ["halo with all", "halo without corners", "exchange with all", "exchange without corners"];
    all_are_shown([200, 150], |_, drawn| stencil::<i64>(drawn), shown, &wanted);
}

#[test]
fn random_block_cyclic_loops_are_mostly_legal_and_move_blocks() {
    let shown = |program: &Program| {
        let nest = program.nest();
        let kind = |transfer: &TransferView<'_>| {
            let of = if transfer.direction == Direction::In { "input" } else { "output" };
            format!("{of} {}", name(&nest.pattern_of(transfer)))
        };
        nest.transfers.iter().filter(|transfer| transfer.region.has_blocks()).map(kind).collect()
    };
    let wanted = ["input local", "input exchange", "input all_gather", "output local", "output exchange"];
    all_are_shown([400, 200], |_, drawn| cyclic::<i64>(drawn), shown, &wanted);
}

/// This many schedules of each kind give the sequential result.
macro_rules! give_the_sequential_result {
    ($($cases:literal $name:ident $schedule:ident $type:ty;)*) => {$(
        proptest! {
            #![proptest_config(ProptestConfig { cases: $cases, max_shrink_iters: 4000, ..ProptestConfig::default() })]

            #[test]
            fn $name(choices in choices()) {
                check::<$type>(&$schedule::<$type>(&choices))?;
            }
        }
    )*};
}
give_the_sequential_result! {
    700 random_schedules_of_i64_kernels_give_the_sequential_result anything i64;
    700 random_schedules_of_f64_kernels_give_the_sequential_result anything f64;
    300 random_schedules_of_f32_kernels_give_the_sequential_result anything f32;
    300 random_schedules_of_i32_kernels_give_the_sequential_result anything i32;
    300 random_stencils_of_i64_give_the_sequential_result stencil i64;
    300 random_stencils_of_f64_give_the_sequential_result stencil f64;
    500 random_matrix_products_of_i64_give_the_sequential_result algorithm i64;
    500 random_matrix_products_of_f64_give_the_sequential_result algorithm f64;
    1000 random_sums_of_i64_give_the_sequential_result summed i64;
    1000 random_sums_of_f64_give_the_sequential_result summed f64;
    600 random_block_cyclic_loops_of_i64_kernels_give_the_sequential_result cyclic i64;
    600 random_block_cyclic_loops_of_f32_kernels_give_the_sequential_result cyclic f32;
}
