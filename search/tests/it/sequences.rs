//! Schedules of kernels in sequence are chosen together: programs give the sequential result, and no combination of
//! schedules for each kernel alone is faster.

use crate::kernels::{einsum, hold};
use crate::machines::{machine, nodes};
use expect_test::expect;
use polyshard::planner::Sequence;
use polyshard::runtime::Transport;
use polyshard::search::in_rounds;
use polyshard::text::Rounds;
use polyshard_dsl::parse_kernel;
use polyshard_layout::{DType, Mesh, Name};
use polyshard_machine::Machine;
use polyshard_planner::cost::cost;
use polyshard_polyhedral::Schedule;
use polyshard_program::Program;
use polyshard_search::{Candidate, Choice, Choose, SearchError, SequenceSearch};
use polyshard_testing::example;
use polyshard_testing::filled::verified;
use proptest::prelude::*;
use std::cell::Cell;
use std::time::Duration;

/// A kernel over arrays of these shapes.
fn kernel(text: &str, names: &[&str], shapes: &[&[usize]], output: &str) -> Schedule {
    einsum(text, names, shapes, DType::I64, output)
}

/// A kernel with the values that it reads and writes.
type Stage = (Schedule, Vec<Name>, Name);

fn search<'a>(stages: &[Stage], ranks: usize, machine: &'a Machine) -> SequenceSearch<'a> {
    stages.iter().fold(SequenceSearch::new(ranks, machine), |search, (schedule, inputs, output)| {
        search.stage(schedule, inputs.iter().copied(), *output)
    })
}

fn run(program: &Program) -> Result<(), String> {
    let element = |_, at: &[usize]| at.iter().fold(3, |sum, &at| (7 * sum + at as i64) % 23 - 11);
    verified(program, Transport::Auto, 0.0, element).map(drop).map_err(|error| error.to_string())
}

/// The seconds of the fastest combination of schedules that were priced for each kernel alone.
fn combined(stages: &[Stage], ranks: usize, machine: &Machine) -> f64 {
    combined_in_rounds(stages, &[], ranks, machine)
}

/// The seconds of the fastest such combination in rounds.
fn combined_in_rounds(stages: &[Stage], rounds: &[Rounds], ranks: usize, machine: &Machine) -> f64 {
    let append = |sequence: Sequence, nth: usize, program: &Program| {
        let (_, inputs, output) = &stages[nth];
        sequence.stage(program, inputs.clone(), *output)
    };
    combined_by(&append, stages, rounds, ranks, machine)
}

/// As above, where kernels are added to the sequence by a function.
fn combined_by(
    append: &dyn Fn(Sequence, usize, &Program) -> Sequence,
    stages: &[Stage],
    rounds: &[Rounds],
    ranks: usize,
    machine: &Machine,
) -> f64 {
    let found: Vec<_> = stages
        .iter()
        .map(|(schedule, ..)| schedule.auto(ranks, machine).at_least(usize::MAX).find().expect("a choice"))
        .collect();
    let lowered = |choice: &Choice| -> Vec<Program> {
        // Sequences do not rotate loops.
        let all = [choice.best()].into_iter().chain(choice.others());
        let all = all.filter(|candidate| !candidate.chain().contains(".rotate("));
        all.map(|candidate: &Candidate| candidate.schedule().lower().expect("it was priced")).collect()
    };
    let programs: Vec<Vec<Program>> = found.iter().map(lowered).collect();
    let mut chosen: Vec<Vec<&Program>> = vec![Vec::new()];
    for programs in &programs {
        chosen = chosen
            .into_iter()
            .flat_map(|chosen| programs.iter().map(move |next| chosen.iter().copied().chain([next]).collect()))
            .filter(|chosen: &Vec<&Program>| chosen.iter().all(|one| one.mesh() == chosen[0].mesh()))
            .collect();
    }
    let seconds = chosen.iter().map(|chosen| {
        let append = |sequence: Sequence, nth: usize| append(sequence, nth, chosen[nth]);
        let sequence = in_rounds(append, 0..stages.len(), rounds);
        cost(&sequence.build().expect("kernels that fit"), machine).expect("a price").seconds()
    });
    seconds.fold(f64::INFINITY, f64::min)
}

/// A random sequence: each kernel multiplies the previous result by an array, or by its own transpose.
fn stages(extents: &[usize], kinds: &[usize]) -> Vec<Stage> {
    let name = |nth: usize| format!("Y{nth}");
    let mut shapes = vec![[extents[0], extents[1]]];
    let mut found = Vec::new();
    for (nth, kind) in kinds.iter().enumerate() {
        let [rows, columns] = shapes[nth];
        let (text, other, shape, output) = match kind % 4 {
            0 => ("ij,jk->ik", format!("W{nth}"), [columns, extents[2 + nth]], [rows, extents[2 + nth]]),
            1 => ("ij,ik->jk", format!("V{nth}"), [rows, extents[2 + nth]], [columns, extents[2 + nth]]),
            2 => ("ij,ij->ji", format!("U{nth}"), [rows, columns], [columns, rows]),
            _ => ("ij,kj->ik", name(nth), [rows, columns], [rows, rows]),
        };
        let (before, after) = (name(nth), name(nth + 1));
        let schedule = kernel(text, &[&before, &other], &[&[rows, columns], &shape], &after);
        let inputs = schedule.kernel().expect("a kernel").inputs().iter().map(|tensor| tensor.name).collect();
        found.push((schedule, inputs, Name::new(&after)));
        shapes.push(output);
    }
    found
}

#[test]
fn chosen_sequences_give_the_sequential_result_and_none_is_faster() {
    let problem = (prop::collection::vec(1usize..25, 5), prop::collection::vec(0usize..4, 1..4), 1usize..9, 0usize..4);
    let machines = [machine(8, 1.0), machine(8, 1000.0), nodes(3, 1.0), nodes(3, 1000.0)];
    let law = |(extents, kinds, ranks, machine): (Vec<usize>, Vec<usize>, usize, usize)| {
        let (stages, machine) = (stages(&extents, &kinds), &machines[machine]);
        let choice = search(&stages, ranks, machine).find().map_err(|why| TestCaseError::fail(why.to_string()))?;
        run(choice.program()).map_err(TestCaseError::fail)?;
        prop_assert_eq!(choice.gap(), 0.0);
        let (seconds, other) = (choice.cost().seconds(), combined(&stages, ranks, machine));
        prop_assert!(seconds <= other * (1.0 + 1e-9), "{seconds} are chosen, and {other} are possible");
        Ok(())
    };
    hold(100, &problem, law);
}

#[test]
fn none_is_faster_than_the_chosen_one_where_kernels_read_the_same_array() {
    let problem = (prop::collection::vec(12usize..48, 4), 0usize..8, 2usize..5, 0usize..4);
    let machines = [machine(8, 1.0), machine(8, 10.0), nodes(3, 1.0), nodes(3, 10.0)];
    // The number of cases in which a tile is reused, and of those, the number without a gap.
    let [kept, closed] = [Cell::new(0), Cell::new(0)];
    let law = |(extents, kind, ranks, machine): (Vec<usize>, usize, usize, usize)| {
        let [i, j, k, l] = extents[..] else { unreachable!("there are four") };
        let product = |names: [&str; 2], columns: usize, output: &str| {
            let schedule = match kind % 2 {
                0 => kernel("ij,jk->ik", &names, &[&[i, j], &[j, columns]], output),
                _ => kernel("ij,ik->jk", &names, &[&[i, j], &[i, columns]], output),
            };
            (schedule, names.map(Name::new).to_vec(), Name::new(output))
        };
        let rows = if kind % 2 == 0 { i } else { j };
        let mut stages = vec![product(["X", "V"], k, "Y"), product(["X", "W"], l, "Z")];
        match kind / 2 {
            0 => {}
            1 => stages.push(product(["X", "V"], k, "U")),
            2 => stages.push((kernel("ij,ij->i", &["X", "X"], &[&[i, j][..]; 2], "S"), vec!["X".into()], "S".into())),
            _ => {
                let both = kernel("ik,il->kl", &["Y", "Z"], &[&[rows, k], &[rows, l]], "U");
                stages.push((both, vec!["Y".into(), "Z".into()], "U".into()));
            }
        }
        let machine = &machines[machine];
        let choice = search(&stages, ranks, machine).find().map_err(|why| TestCaseError::fail(why.to_string()))?;
        run(choice.program()).map_err(TestCaseError::fail)?;
        let (seconds, other) = (choice.cost().seconds(), combined(&stages, ranks, machine));
        prop_assert!(seconds <= other * (1.0 + 1e-9), "{seconds} are chosen, and {other} are possible");
        let keeps = choice.program().nests().any(|nest| nest.inputs().iter().any(|input| input.reused.is_some()));
        kept.set(kept.get() + usize::from(keeps));
        closed.set(closed.get() + usize::from(keeps && choice.gap() == 0.0));
        Ok(())
    };
    hold(30, &problem, law);
    println!("{kept:?} keep a tile, and {closed:?} of them leave nothing open");
    assert!(kept.get() > 5 && closed.get() == kept.get(), "{kept:?} {closed:?}");
}

#[test]
fn none_is_faster_than_the_chosen_one_where_kernels_read_around_the_same_elements() {
    let problem = (prop::collection::vec(100usize..300, 2), 0usize..4, 0usize..4, 2usize..5, 0usize..4);
    let machines = [machine(8, 1.0), machine(8, 10.0), nodes(3, 1.0), nodes(3, 10.0)];
    // The number of cases in which the first kernel fetches the region that the second one needs.
    let wider = Cell::new(0);
    let law = |(extents, first, second, ranks, machine): (Vec<usize>, usize, usize, usize, usize)| {
        let [rows, columns] = extents[..] else { unreachable!("there are two") };
        let stage = |kind: usize, output: &str| {
            let value = [
                "u[i - 1, j] else 0 + u[i + 1, j] else 0 + u[i, j - 1] else 0 + u[i, j + 1] else 0",
                "u[i - 1, j - 1] else 0 + u[i + 1, j + 1] else 0",
                "u[i - 2, j] else 0 + u[i + 2, j] else 0 + u[i, j - 2] else 0 + u[i, j + 2] else 0",
                "u[i, j] - u[i + 1, j] else 0",
            ][kind];
            let text = format!(
                "fn around(u: [i64; {rows}, {columns}]) -> v: [i64; {rows}, {columns}] {{ v[i, j] = {value} }}"
            );
            let kernel = Schedule::from_spec(parse_kernel(&text).expect("a kernel"));
            (kernel, vec![Name::new("X")], Name::new(output))
        };
        let (stages, machine) = ([stage(first, "Y"), stage(second, "Z")], &machines[machine]);
        let choice = search(&stages, ranks, machine).find().map_err(|why| TestCaseError::fail(why.to_string()))?;
        run(choice.program()).map_err(TestCaseError::fail)?;
        prop_assert_eq!(choice.gap(), 0.0);
        let (seconds, other) = (choice.cost().seconds(), combined(&stages, ranks, machine));
        prop_assert!(seconds <= other * (1.0 + 1e-9), "{seconds} are chosen, and {other} are possible");
        let alone = choice.schedules()[0].lower().expect("it was chosen");
        let is_wider = choice
            .program()
            .nests()
            .next()
            .is_some_and(|nest| nest.inputs()[0].region != alone.nest().inputs()[0].region);
        wider.set(wider.get() + usize::from(is_wider));
        Ok(())
    };
    hold(12, &problem, law);
    assert!(wider.get() > 2, "{wider:?}");
}

#[test]
fn none_is_faster_than_the_chosen_one_in_rounds() {
    // X becomes W X, or (W X) times U, element by element; unchanged data is fetched once.
    let problem = (1usize..25, 1usize..25, 1usize..4, 0u64..5, 1usize..9, 0usize..4);
    let machines = [machine(8, 1.0), machine(8, 1000.0), nodes(3, 1.0), nodes(3, 1000.0)];
    // The number of cases in which the layout differs from that for one pass, and in which a tile is fetched once.
    let [other_than_once, kept] = [Cell::new(0), Cell::new(0)];
    let law = |(n, columns, kind, times, ranks, machine): (usize, usize, usize, u64, usize, usize)| {
        let machine = &machines[machine];
        let product = kernel("ij,jk->ik", &["W", "X"], &[&[n, n], &[n, columns]], "Y");
        let mut stages = vec![(product, ["W", "X"].map(Name::new).to_vec(), Name::new("Y"))];
        if kind > 1 {
            let scaled = kernel("ij,ij->ij", &["Y", "U"], &[&[n, columns], &[n, columns]], "Z");
            stages.push((scaled, ["Y", "U"].map(Name::new).to_vec(), Name::new("Z")));
        }
        let last = stages.last().expect("there is one").2;
        let rounds = [Rounds::new(times, 0..stages.len()).carry(last, "X")];
        let choice = search(&stages, ranks, machine).rounds(rounds.clone()).find();
        let choice = choice.map_err(|why| TestCaseError::fail(why.to_string()))?;
        run(choice.program()).map_err(TestCaseError::fail)?;
        prop_assert_eq!(choice.program().body().rounds.len(), 1);
        prop_assert_eq!(choice.gap(), 0.0);
        let (seconds, other) = (choice.cost().seconds(), combined_in_rounds(&stages, &rounds, ranks, machine));
        prop_assert!(seconds <= other * (1.0 + 1e-9), "{seconds} are chosen, and {other} are possible");
        let once = search(&stages, ranks, machine).find().map_err(|why| TestCaseError::fail(why.to_string()))?;
        other_than_once.set(other_than_once.get() + usize::from(once.schedules() != choice.schedules()));
        let is_kept = choice.program().body().in_first_round().contains(&true);
        kept.set(kept.get() + usize::from(is_kept));
        Ok(())
    };
    hold(60, &problem, law);
    println!("{other_than_once:?} lie otherwise than for one pass, and in {kept:?} a tile is brought once");
    assert!(other_than_once.get() > 3 && kept.get() > 3, "{other_than_once:?} {kept:?}");
}

#[test]
fn none_is_faster_than_the_chosen_one_where_kernels_add_to_others() {
    // S adds W X, and then V X, to its value at the start of the rounds or from the round before.
    let problem = (1usize..25, 1usize..25, 0u64..4, any::<bool>(), 1usize..9, 0usize..4);
    let machines = [machine(8, 1.0), machine(8, 1000.0), nodes(3, 1.0), nodes(3, 1000.0)];
    let moved = Cell::new(0);
    let law = |(n, columns, times, from, ranks, machine): (usize, usize, u64, bool, usize, usize)| {
        let machine = &machines[machine];
        let product = |of: &str, output| {
            let text = format!(
                "fn product({of}: [i64; {n}, {n}], X: [i64; {n}, {columns}]) -> {output}: [i64; {n}, {columns}] {{
                    {output}[i, k] += {of}[i, j] * X[j, k]
                }}"
            );
            let product = Schedule::from_spec(parse_kernel(&text).expect("a kernel"));
            (product, [of, "X"].map(Name::new).to_vec(), Name::new(output))
        };
        let stages = [product("W", "S1"), product("V", "S2")];
        let onto = ["S", "S1"];
        let rounds = Rounds::new(times, 0..2);
        let rounds = [if from { rounds.carry_from("B", "S2", "S") } else { rounds.carry("S2", "S") }];
        let mut all = SequenceSearch::new(ranks, machine).rounds(rounds.clone()).call("S", "sums");
        for ((schedule, inputs, output), onto) in stages.iter().zip(onto) {
            all = all.accumulate(schedule, inputs.clone(), *output, onto);
        }
        let choice = all.find().map_err(|why| TestCaseError::fail(why.to_string()))?;
        run(choice.program()).map_err(TestCaseError::fail)?;
        let name = |array: &polyshard_program::Array| array.name.to_string();
        prop_assert_eq!(choice.program().outputs().map(name).collect::<Vec<_>>(), ["sums"]);
        let given = if from { "B" } else { "S" };
        prop_assert!(choice.program().inputs().any(|array| array.name.as_str() == given), "{}", choice.program());
        prop_assert!(choice.program().nests().all(|nest| nest.adds()));
        prop_assert!(choice.bound().words >= 0.0);
        let append = |sequence: Sequence, nth: usize, program: &Program| {
            let (_, inputs, output) = &stages[nth];
            sequence.accumulate(program, inputs.clone(), *output, onto[nth])
        };
        let other = combined_by(&append, &stages, &rounds, ranks, machine);
        let seconds = choice.cost().seconds();
        prop_assert!(seconds <= other * (1.0 + 1e-9), "{seconds} are chosen, and {other} are possible");
        moved.set(moved.get() + choice.program().moves().count());
        Ok(())
    };
    hold(40, &problem, law);
    println!("{moved:?} moves");
}

#[test]
fn rounds_count_in_bounds_as_often_as_they_run_for_certain() {
    let machine = machine(4, 1.0);
    let product = kernel("ij,jk->ik", &["W", "X"], &[&[64, 64], &[64, 64]], "Y");
    let stages = [(product, ["W", "X"].map(Name::new).to_vec(), Name::new("Y"))];
    let bound = |rounds: Rounds| search(&stages, 4, &machine).rounds([rounds]).find().expect("a choice").bound().words;
    let [none, one, ten] = [0, 1, 10].map(|times| bound(Rounds::new(times, 0..1).carry("Y", "X")));
    // W is fetched in the first round, if at all; X changes in each.
    assert!(none == 0.0 && one > 0.0 && ten >= one && ten < 10.0 * one, "{none}, {one}, {ten}");
}

#[test]
fn rounds_that_are_not_of_kernels_are_refused() {
    let machine = machine(4, 1.0);
    let product = kernel("ij,jk->ik", &["W", "X"], &[&[8, 8], &[8, 8]], "Y");
    let stages = ["X0", "X1", "X2", "X3"].map(Name::new);
    let stages: Vec<Stage> =
        stages.windows(2).map(|pair| (product.clone(), vec!["W".into(), pair[0]], pair[1])).collect();
    let said = |rounds: &[(usize, usize)]| {
        let rounds = rounds.iter().map(|&(first, end)| Rounds::new(3, first..end));
        search(&stages, 4, &machine).rounds(rounds).find().expect_err("it is refused").to_string()
    };
    let asked = "cannot repeat the kernels";
    assert_eq!(said(&[(1, 4)]), format!("{asked} 1..4: the sequence has 3 kernels, numbered from 0"));
    assert_eq!(said(&[(2, 2)]), format!("{asked} 2..2: the range is empty; give the numbers of the kernels to repeat"));
    let order = "give rounds in the order of their kernels, outer ones first";
    assert_eq!(said(&[(0, 2), (1, 3)]), format!("{asked} 1..3: 0..2 come before; {order}"));
    assert_eq!(said(&[(0, 1), (0, 3)]), format!("{asked} 0..3: 0..1 come before; {order}"));
    assert_eq!(said(&[(2, 3), (0, 1)]), format!("{asked} 0..1: 2..3 come before; {order}"));
}

#[test]
fn a_value_stays_where_both_kernels_can_have_it() {
    // Alone, each product would be divided along its longest loop; for the second, that is a loop of the first one's
    // output.
    let machine = machine(4, 100.0);
    let first = kernel("ij,jk->ik", &["X", "V"], &[&[512, 256], &[256, 512]], "Y");
    let second = kernel("ij,jk->ik", &["Y", "W"], &[&[512, 512], &[512, 64]], "Z");
    let stages = [
        (first, ["X", "V"].map(Name::new).to_vec(), Name::new("Y")),
        (second, ["Y", "W"].map(Name::new).to_vec(), Name::new("Z")),
    ];
    let choice = search(&stages, 4, &machine).find().expect("a choice");
    run(choice.program()).expect("it runs");
    let alone =
        stages.iter().map(|(schedule, ..)| schedule.auto(4, &machine).find().expect("a choice").cost().seconds());
    let least: f64 = alone.sum();
    assert!(choice.cost().seconds() >= least);
    assert!(choice.cost().seconds() <= 1.5 * least, "{} against {least}", choice.cost().seconds());
}

#[test]
fn panels_of_a_sequence_come_while_others_are_computed_where_that_is_clearly_faster() {
    let square: &[usize] = &[480, 480];
    let product = |names: [&str; 2], output: &str| {
        let schedule = kernel("ij,jk->ik", &names, &[square; 2], output);
        (schedule, names.map(Name::from).to_vec(), Name::from(output))
    };
    let stages = [product(["X", "V"], "Y"), product(["Y", "W"], "Z")];
    let even = machine(4, 300.0);
    let choice = search(&stages, 4, &even).find().expect("a choice");
    let is_pipelined = |schedule: &Schedule| schedule.steps().any(|step| step.to_string().starts_with("pipeline("));
    assert!(choice.schedules().iter().any(is_pipelined), "{}\n{}", choice.program(), choice.cost());
    // Without the steps it is slower.
    let without = |schedule: &Schedule| {
        let steps = schedule.steps().filter(|step| !step.to_string().starts_with("pipeline("));
        let waiting = Schedule::new(schedule.kernel().expect("a kernel").clone());
        steps.cloned().fold(waiting, Schedule::apply).lower().expect("a program")
    };
    let waiting: Vec<Program> = choice.schedules().iter().map(without).collect();
    let sequence = stages.iter().zip(&waiting).fold(Sequence::new(), |sequence, ((_, inputs, output), program)| {
        sequence.stage(program, inputs.iter().copied(), *output)
    });
    let waiting = cost(&sequence.build().expect("kernels that fit"), &even).expect("a price").seconds();
    assert!(choice.cost().seconds() < 0.98 * waiting, "{} {waiting}", choice.cost());
    run(choice.program()).expect("the sequential result");
    // If ranks share memory, nothing is pipelined.
    let shared = even.with_shared_memory("rank").expect("a level");
    let choice = search(&stages, 4, &shared).find().expect("a choice");
    assert!(!choice.schedules().iter().any(is_pipelined), "{}", choice.program());
}

#[test]
fn schedules_that_are_given_stay_and_say_the_mesh() {
    let machine = machine(4, 10.0);
    let mesh = Mesh::new([("p", 2), ("q", 2)]);
    let [m, n] = ["m", "n"].map(polyshard_dsl::Var::new);
    let product = || Schedule::from_spec(example::matmul(64, 64, 64));
    let given = product()
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
        .shard("C", [m.at("p"), n.at("q")])
        .tensorize(["mi", "ni", "k"]);
    let stages = [
        (product(), ["X", "V"].map(Name::new).to_vec(), Name::new("Y")),
        (given.clone(), ["Y", "W"].map(Name::new).to_vec(), Name::new("Z")),
    ];
    let choice = search(&stages, 4, &machine).find().expect("a choice");
    assert_eq!(*choice.program().mesh(), mesh);
    assert_eq!(
        choice.schedules()[1].steps().map(ToString::to_string).collect::<Vec<_>>(),
        given.steps().map(ToString::to_string).collect::<Vec<_>>()
    );
}

#[test]
fn what_given_schedules_take_is_counted_in_the_gap() {
    let machine = machine(4, 10.0);
    let mesh = Mesh::new([("p", 2), ("q", 2)]);
    let [m, n, k] = ["m", "n", "k"].map(polyshard_dsl::Var::new);
    let product = || Schedule::from_spec(example::matmul(64, 64, 64));
    let given = product()
        .distribute(["m", "n"], ["mo", "no"], ["mi", "ni"], &mesh)
        .shard("A", [m.at("p"), k.at("q")])
        .shard("B", [k.at("p"), n.at("q")])
        .shard("C", [m.at("p"), n.at("q")])
        .tensorize(["mi", "ni", "k"]);
    let stage = |schedule: &Schedule, inputs: [&str; 2], output: &str| {
        (schedule.clone(), inputs.map(Name::new).to_vec(), Name::new(output))
    };
    let alone = cost(&given.lower().expect("a program"), &machine).expect("a price").seconds();
    let stages = [stage(&given, ["X", "V"], "Y"), stage(&product(), ["Y", "W"], "Z")];
    let all = search(&stages, 4, &machine).find().expect("a choice");
    let early = search(&stages, 4, &machine).at_most(Duration::ZERO).find().expect("a choice");
    assert_eq!(all.gap(), 0.0);
    assert!(early.gap() > 0.0 && early.cost().seconds() <= (1.0 + early.gap()) * all.cost().seconds() * (1.0 + 1e-9));
    let open = early.cost().seconds() / (1.0 + early.gap());
    assert!(open > alone, "{open} is left open, and the stage that is given takes {alone}");
    // If all schedules are given, there is nothing to choose, although one kernel keeps a tile for the other.
    let stages = [stage(&given, ["X", "V"], "Y"), stage(&given, ["X", "W"], "Z")];
    let given = search(&stages, 4, &machine).find().expect("a choice");
    assert_eq!(given.gap(), 0.0);
    assert!(given.cost().seconds() < 1.95 * alone, "{} {alone}", given.cost());
}

#[test]
fn the_memory_is_kept_and_a_time_limit_leaves_a_gap() {
    let machine = machine(8, 100.0);
    let stages = stages(&[24, 20, 16, 12, 20], &[0, 1, 0]);
    let free = search(&stages, 8, &machine).find().expect("a choice");
    let early = search(&stages, 8, &machine).at_most(Duration::ZERO).find().expect("a choice");
    assert!(early.cost().seconds() >= free.cost().seconds());
    assert!(early.cost().seconds() <= (1.0 + early.gap()) * free.cost().seconds());
    let refused = search(&stages, 8, &machine).memory(64).find().expect_err("it does not fit");
    let SearchError::Memory { least, .. } = refused else { panic!("{refused}") };
    let tight = search(&stages, 8, &machine).memory(free.cost().memory - 1).find();
    assert!(least > 64 && tight.is_ok_and(|tight| tight.cost().memory < free.cost().memory));
}

#[test]
fn kernels_that_do_not_fit_are_refused() {
    let machine = machine(2, 1.0);
    let product = Schedule::from_spec(example::matmul(6, 7, 8));
    let stage = |inputs: [&str; 2], output: &str| (product.clone(), inputs.map(Name::new).to_vec(), Name::new(output));
    let refused = search(&[stage(["X", "V"], "Y"), stage(["Y", "W"], "Z")], 2, &machine).find().expect_err("refused");
    expect![
        "stage 2, `matmul`: `A` has shape [6, 8], but `Y` has [6, 7], the output of stage 1, `matmul`; make them match"
    ]
    .assert_eq(&refused.to_string());
    let none = SequenceSearch::new(2, &machine).find().expect_err("refused");
    expect!["the sequence has no stage; add one with `stage`"].assert_eq(&none.to_string());
}
