//! Nested rounds give the results of an interpreter of their definition, which shares no code with the executor.
//!
//! `A = B` makes `B` the next version of `A`: elements of `B` that a round does not write have the value that `A` had
//! before the round. Values that are not carried start each round undefined, unless they are versions of others.

use ndarray::IxDyn;
use polyshard::prelude::*;
use polyshard::program::ArrayKind;
use polyshard_testing::random::Choices;
use polyshard_testing::written::read_back;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::slice::from_ref;

/// The elements of a vector.
const N: usize = 7;

/// The value of the elements of a run's output that nothing writes.
const KEPT: i64 = 1000;

/// Each element, and whether it has been written.
type Values = Vec<(i64, bool)>;
type Arrays = BTreeMap<String, Values>;

#[derive(Clone, Debug)]
enum Item {
    /// A kernel, perhaps the next version of a value, which it adds to or not.
    Stage {
        kind: usize,
        reads: Vec<String>,
        writes: String,
        layout: usize,
        onto: Option<(String, bool)>,
    },
    Rounds {
        times: u64,
        carried: Vec<Carried>,
        until: Option<(String, i64)>,
        items: Vec<Item>,
    },
}

/// A carried value, what becomes it in the next round, and what it is in the first one.
type Carried = [String; 3];

/// The number of kinds of kernels that write vectors; the others write scalars.
const VECTORS: usize = 5;
const KINDS: usize = 7;

/// Whether a kernel of this kind has a scalar as its second tensor, a vector, or none.
fn second(kind: usize) -> Option<bool> {
    [Some(false), Some(false), Some(true), None, Some(false), Some(true), Some(true)][kind]
}

fn kernel_of(kind: usize, mesh: &Mesh, layout: usize) -> Program {
    vars!(i, io, ii);
    let [x] = mesh.axes();
    let schedule: Schedule = match kind {
        0 => kernel! { fn turn(A: [i64; N], C: [i64; N]) -> B: [i64; N] { B[i] = max(A[(i + 1) % N], C[i]) + 1 } },
        1 => {
            kernel! { fn inner(A: [i64; N], C: [i64; N]) -> B: [i64; N] { B[i] = min(A[i - 1], C[i + 1]) + 1 for i in 1..N - 1 } }
        }
        2 => kernel! { fn tail(A: [i64; N], C: i64) -> B: [i64; N] { B[i] += max(A[i], C[]) + 1 for i in 2..N } },
        3 => kernel! { fn most(A: [i64; N]) -> B: [i64; N] { B[i] max= A[i + j] + 1 for i in 0..N - 3 for j in 0..2 } },
        4 => {
            kernel! { fn odd(A: [i64; N], C: [i64; N]) -> B: [i64; N] { B[2 * i + 1] = max(A[2 * i], C[i]) for i in 0..3 } }
        }
        5 => kernel! { fn up(A: [i64; N], C: i64) -> B: i64 { B[] max= min(A[i], C[]) + 1 } },
        _ => kernel! { fn down(A: [i64; N], C: i64) -> B: i64 { B[] min= max(A[i], max(C[], -50)) - 2 } },
    };
    let schedule = if layout == 2 { schedule.replicate(mesh) } else { schedule.distribute([i], [io], [ii], mesh) };
    let vectors = ["A"].into_iter().chain((second(kind) == Some(false)).then_some("C")).filter(|_| layout == 0);
    let vectors = vectors.chain((kind < VECTORS && layout < 2).then_some("B"));
    vectors.fold(schedule, |schedule, name| schedule.shard(name, [dim(0).at(x)])).lower().expect("a legal schedule")
}

/// The output of a kernel of this kind, starting from its previous contents, to which it adds or not.
fn computed(kind: usize, reads: &[&Values], before: Option<&Values>, adds: bool) -> Values {
    let a = |i: usize| reads[0][i].0;
    let c = |i: usize| reads[1][i].0;
    let identity = if kind == 3 { i64::MIN } else { 0 };
    let mut made = before.cloned().unwrap_or_else(|| vec![(identity, false); N]);
    let held = |i: usize, otherwise: i64| before.filter(|_| adds).map_or(otherwise, |before| before[i].0);
    match kind {
        0 => (0..N).for_each(|i| made[i] = (a((i + 1) % N).max(c(i)) + 1, true)),
        1 => (1..N - 1).for_each(|i| made[i] = (a(i - 1).min(c(i + 1)) + 1, true)),
        2 => (2..N).for_each(|i| made[i] = ((a(i).max(c(0)) + 1).wrapping_add(held(i, 0)), true)),
        3 => (0..N - 3).for_each(|i| made[i] = ((a(i).max(a(i + 1)) + 1).max(held(i, i64::MIN)), true)),
        4 => (0..3).for_each(|i| made[2 * i + 1] = (a(2 * i).max(c(i)), true)),
        5 => made = vec![((0..N).map(|i| a(i).min(c(0)) + 1).fold(held(0, i64::MIN), i64::max), true)],
        _ => made = vec![((0..N).map(|i| a(i).max(c(0).max(-50)) - 2).fold(held(0, i64::MAX), i64::min), true)],
    }
    made
}

/// Carries out the items; `before` holds, for each name that becomes another one's next version, the values of that
/// other one.
fn interpret(items: &[Item], arrays: &mut Arrays, before: &Arrays) {
    for item in items {
        match item {
            Item::Stage { kind, reads, writes, onto, .. } => {
                let reads: Vec<_> = reads.iter().map(|name| &arrays[name]).collect();
                let (before, adds) = match onto {
                    Some((value, adds)) => (Some(&arrays[value]), *adds),
                    None => (before.get(writes), false),
                };
                let made = computed(*kind, &reads, before, adds);
                arrays.insert(writes.clone(), made);
            }
            Item::Rounds { times, carried, until, items } => {
                let begun: Vec<_> =
                    carried.iter().map(|[value, _, first]| (value.clone(), arrays[first].clone())).collect();
                arrays.extend(begun);
                for _ in 0..*times {
                    let mut inside = arrays.clone();
                    let old = carried.iter().map(|[value, next, _]| (next.clone(), arrays[value].clone())).collect();
                    interpret(items, &mut inside, &old);
                    arrays.extend(carried.iter().map(|[value, next, _]| (value.clone(), inside[next].clone())));
                    if until.as_ref().is_some_and(|(scalar, below)| inside[scalar][0].0 < *below) {
                        break;
                    }
                }
            }
        }
    }
}

/// The existing names, of vectors and of scalars.
type Names = [Vec<String>; 2];

struct Nests<'a> {
    choices: Choices<'a>,
    written: usize,
}

impl Nests<'_> {
    fn stage(&mut self, kind: usize, names: &Names) -> Item {
        let read = |choices: &mut Choices<'_>, of: usize| names[of][choices.below(names[of].len())].clone();
        let reads =
            std::iter::once(0).chain(second(kind).map(usize::from)).map(|of| read(&mut self.choices, of)).collect();
        let onto = match self.choices.below(4) {
            0 => Some((read(&mut self.choices, usize::from(kind >= VECTORS)), false)),
            1 if [2, 3, 5, 6].contains(&kind) => Some((read(&mut self.choices, usize::from(kind >= VECTORS)), true)),
            _ => None,
        };
        self.written += 1;
        Item::Stage { kind, reads, writes: format!("w{}", self.written), layout: self.choices.below(3), onto }
    }

    /// Some items, one of them rounds if `depth` is not 0, and the names that they leave.
    fn items(&mut self, depth: usize, names: &Names) -> (Vec<Item>, Names) {
        let (mut names, mut own, mut items) = (names.clone(), Names::default(), Vec::new());
        let count = 1 + self.choices.below(3);
        let rounds = if depth > 0 { self.choices.below(count) } else { count };
        for nth in 0..count {
            let (item, left): (Item, Vec<(usize, String)>) = if nth == rounds {
                self.rounds(depth, &names)
            } else {
                let kind = self.choices.below(KINDS);
                let item = self.stage(kind, &names);
                let Item::Stage { writes, .. } = &item else { unreachable!() };
                let left = (usize::from(kind >= VECTORS), writes.clone());
                (item, vec![left])
            };
            items.push(item);
            for (of, name) in left {
                for all in [&mut names, &mut own] {
                    all[of].retain(|other| *other != name);
                    all[of].push(name.clone());
                }
            }
        }
        (items, own)
    }

    /// Rounds that carry values, and the names that they leave.
    fn rounds(&mut self, depth: usize, names: &Names) -> (Item, Vec<(usize, String)>) {
        // A value may have a name of its own in the rounds; it begins as one from before them.
        let firsts = |of: usize| names[of].iter().filter(|name| !name.starts_with('w')).cloned().collect::<Vec<_>>();
        let begun = self.choices.one_in(3).then(|| {
            let of = self.choices.below(2);
            self.written += 1;
            let firsts = firsts(of);
            (of, format!("v{}", self.written), firsts[self.choices.below(firsts.len())].clone())
        });
        let outside = names;
        let mut names = names.clone();
        begun.iter().for_each(|(of, value, _)| names[*of].push(value.clone()));
        let names = &names;
        let (mut items, mut own) = self.items(depth - 1, names);
        let mut carried = Vec::new();
        let mut left = Vec::new();
        for of in [0, 1] {
            let wanted = self.choices.below(if of == 0 { 4 } else { 3 });
            let values: Vec<_> = self.choices.shuffled(&(0..outside[of].len()).collect::<Vec<_>>());
            let values = values.into_iter().map(|nth| outside[of][nth].clone());
            // Inner rounds do not carry values that a stage of the outer round has partly written.
            let values = values.filter(|name| !name.starts_with('w')).take(wanted).map(|name| (name.clone(), name));
            let own_name =
                begun.iter().filter(|(own, ..)| *own == of).map(|(_, value, first)| (value.clone(), first.clone()));
            let (values, firsts): (Vec<_>, Vec<_>) = own_name.chain(values).unzip();
            // A carried value may be the next version of another one.
            let mut next = own[of].clone();
            next.extend(values.iter().filter(|value| !own[of].contains(value)).cloned());
            let next =
                self.choices.shuffled(&(0..next.len()).collect::<Vec<_>>()).into_iter().map(|nth| next[nth].clone());
            left.extend(values.iter().map(|value| (of, value.clone())));
            let next = next.collect::<Vec<_>>();
            carried.extend(values.into_iter().zip(next).zip(firsts).map(|((value, next), first)| [value, next, first]));
        }
        if carried.is_empty() {
            let kind = self.choices.below(VECTORS);
            let item = self.stage(kind, names);
            let Item::Stage { writes, .. } = &item else { unreachable!() };
            own[0].push(writes.clone());
            carried.push([names[0][0].clone(), writes.clone(), names[0][0].clone()]);
            left.push((0, names[0][0].clone()));
            items.push(item);
        }
        // A carried value may also end the rounds.
        let scalars = own[1].iter().chain(left.iter().filter(|(of, _)| *of == 1).map(|(_, name)| name));
        let scalars: Vec<_> = scalars.cloned().collect();
        let until = (!scalars.is_empty() && !self.choices.one_in(4))
            .then(|| (scalars[self.choices.below(scalars.len())].clone(), self.choices.below(40) as i64 - 20));
        let times = self.choices.below(4) as u64;
        (Item::Rounds { times, carried, until, items }, left)
    }
}

fn sequence(items: &[Item], mesh: &Mesh) -> Sequence {
    items.iter().fold(Sequence::new(), |all, item| match item {
        Item::Stage { kind, reads, writes, layout, onto } => {
            let (program, reads) = (&kernel_of(*kind, mesh, *layout), reads.iter().map(String::as_str));
            match onto {
                None => all.stage(program, reads, writes.as_str()),
                Some((of, false)) => all.version(program, reads, writes.as_str(), of.as_str()),
                Some((onto, true)) => all.accumulate(program, reads, writes.as_str(), onto.as_str()),
            }
        }
        Item::Rounds { times, carried, until, items } => {
            let round = carried.iter().fold(sequence(items, mesh), |round, [value, next, first]| {
                round.carry_from(first.as_str(), next.as_str(), value.as_str())
            });
            let round = match until {
                Some((scalar, below)) => round.until(scalar.as_str(), *below as f64),
                None => round,
            };
            all.repeat(*times, round)
        }
    })
}

/// The input with this name, of the first or the second run.
fn given(name: &str, run: usize) -> Values {
    let number = name.bytes().fold(run + 1, |number, byte| number * 31 + usize::from(byte));
    let len = if ["s", "t"].contains(&name) { 1 } else { N };
    (0..len).map(|i| (((number + 13 * i) * 2_654_435_761 % 19) as i64 - 9, true)).collect()
}

/// Runs a program, after another run, and compares all its outputs with the interpreter's.
fn agree(items: &[Item], program: &Program) {
    let program = &read_back(program);
    let mut expected: Arrays = ["A", "C", "s", "t"].map(|name| (name.to_owned(), given(name, 1))).into();
    interpret(items, &mut expected, &Arrays::new());
    let found = polyshard::spmd(program.mesh().size(), |world| {
        let [before, inputs] = [0, 1].map(|run| {
            let inputs = program.inputs().map(|input| {
                let given = given(input.name.as_str(), run);
                DistArray::from_fn(world, &input.sharding, |at| given[at.first().copied().unwrap_or(0)].0)
            });
            inputs.collect::<Result<Vec<_>, _>>()
        });
        let (before, inputs) = (before?, inputs?);
        let inputs: Vec<_> = inputs.iter().collect();
        let mut prepared = program.prepare(world)?;
        prepared.run_all(&before.iter().collect::<Vec<_>>())?;
        let found: Vec<_> = prepared.run_all(&inputs)?.into_iter().map(|(_, array)| array).collect();
        program.verify(world, &inputs, &found.iter().collect::<Vec<_>>(), 0.0)?;
        let mut all = found.iter().map(|array| Ok(array.gather(world)?)).collect::<polyshard::Result<Vec<_>>>()?;
        if let [array] = &found[..] {
            let mut into = prepared.output()?;
            prepared.run_into(&inputs, &mut into)?;
            assert!(into.block() == array.block(), "into a fresh array it differs\n{program}");
            // Rounds start anew, but a kernel that accumulates starts from its output's contents.
            let output = program.of_kind(ArrayKind::Output)[0];
            let mut writers = program.body().kernels.iter().filter(|row| row.writes() == output);
            if program.is_carried(output) || writers.any(|row| program.body().version_before(row).is_some()) {
                let mut into = DistArray::filled(world, array.sharding(), KEPT)?;
                prepared.run_into(&inputs, &mut into)?;
                all.push(into.gather(world)?);
            }
        }
        Ok(all)
    });
    let found = found.unwrap_or_else(|error| panic!("{error}\n{program}\n{items:#?}")).swap_remove(0);
    let outputs: Vec<_> = program.outputs().collect();
    let whole = |array: &Option<ndarray::ArrayD<i64>>| {
        array.as_ref().expect("rank 0 gathers").iter().copied().collect::<Vec<_>>()
    };
    for (output, found) in outputs.iter().zip(&found) {
        let wanted: Vec<_> = expected[output.name.as_str()].iter().map(|element| element.0).collect();
        assert_eq!(whole(found), wanted, "`{}`\n{}\n{items:#?}", output.name, program.explain());
    }
    if let ([output], [_, into]) = (&outputs[..], &found[..]) {
        // An element without a value keeps what was there, or is a copy of one in a temporary, which begins as its sums do.
        let into = whole(into);
        let wanted = expected[output.name.as_str()].iter().zip(&into);
        let wanted = wanted.map(|(&(element, is_written), &found)| match found {
            KEPT if !is_written => KEPT,
            _ => element,
        });
        let wanted: Vec<_> = wanted.collect();
        assert_eq!(into, wanted, "into `{}`\n{}\n{items:#?}", output.name, program.explain());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nests_of_rounds_are_what_their_definition_says(
        ranks in 1..4usize,
        depth in 0..4usize,
        one in any::<bool>(),
        choices in prop::collection::vec(any::<u32>(), 120),
    ) {
        let mesh = Mesh::new([("x", ranks)]);
        let mut nests = Nests { choices: Choices::new(&choices), written: 0 };
        let names = [["A", "C"], ["s", "t"]].map(|names| names.map(str::to_owned).to_vec());
        let (mut items, _) = nests.items(depth, &names);
        let build = |items: &[Item]| {
            let all = sequence(items, &mesh);
            match (one, items.last()) {
                (true, Some(Item::Rounds { carried, .. })) => all.keep(carried[0][0].as_str()).build(),
                _ => all.build(),
            }
        };
        let program = build(&items).unwrap_or_else(|_| {
            // Names that are only swapped get a shape once something reads them.
            let readers = [stage(0, &["A", "C"], "r0"), stage(5, &["A", "s"], "r1"), stage(5, &["A", "t"], "r2")];
            items.splice(0..0, readers);
            build(&items).expect("stages that fit")
        });
        agree(&items, &program);
    }
}

/// An item for one kind of kernel, sharded.
fn stage(kind: usize, reads: &[&str], writes: &str) -> Item {
    Item::Stage {
        kind,
        reads: reads.iter().map(ToString::to_string).collect(),
        writes: writes.into(),
        layout: 0,
        onto: None,
    }
}

fn rounds(times: u64, carried: &[(&str, &str)], until: Option<(&str, i64)>, items: Vec<Item>) -> Item {
    let carried = carried.iter().map(|(value, next)| [*value, *next, *value].map(str::to_owned)).collect();
    Item::Rounds { times, carried, until: until.map(|(scalar, below)| (scalar.into(), below)), items }
}

fn built(items: &[Item], keep: &str) -> Program {
    sequence(items, &Mesh::new([("x", 2)])).keep(keep).build().expect("stages that fit")
}

#[test]
fn inner_rounds_start_from_the_values_of_the_round_around_them() {
    // As in a restarted solver: the scalar that ends the outer rounds is carried by the inner ones.
    let inner =
        || rounds(1, &[("A", "B"), ("s", "t2")], None, vec![stage(2, &["A", "s"], "B"), stage(5, &["B", "s"], "t2")]);
    for times in 0..4 {
        let outer = rounds(times, &[("A", "D")], Some(("s", -1000)), vec![inner(), stage(2, &["A", "s"], "D")]);
        agree(from_ref(&outer), &built(from_ref(&outer), "A"));
        // A value carried two levels down is initialised again in each round.
        let middle = rounds(2, &[("A", "D")], None, vec![inner(), stage(2, &["A", "s"], "D")]);
        let three = rounds(times, &[("C", "E")], None, vec![middle, stage(0, &["A", "C"], "E")]);
        agree(from_ref(&three), &built(from_ref(&three), "C"));
        // As above, with kernels that write all elements.
        let inner =
            rounds(2, &[("A", "B"), ("s", "t2")], None, vec![stage(0, &["A", "C"], "B"), stage(5, &["B", "s"], "t2")]);
        let outer = rounds(times, &[("A", "D")], Some(("s", -1000)), vec![inner, stage(0, &["A", "A"], "D")]);
        agree(from_ref(&outer), &built(from_ref(&outer), "A"));
        let three = rounds(times, &[("A", "E")], None, vec![outer, stage(0, &["A", "C"], "E")]);
        agree(from_ref(&three), &built(from_ref(&three), "A"));
    }
}

#[test]
fn what_a_round_does_not_write_stays_as_it_was() {
    for times in 0..4 {
        for kind in 0..VECTORS {
            let reads: &[&str] = match second(kind) {
                Some(false) => &["A", "A"],
                Some(true) => &["A", "s"],
                None => &["A"],
            };
            let one = rounds(times, &[("A", "B")], None, vec![stage(kind, reads, "B")]);
            agree(from_ref(&one), &built(from_ref(&one), "A"));
            // `A` is only a name for the previous value of `C`.
            let two = rounds(times, &[("A", "C"), ("C", "B")], None, vec![stage(kind, reads, "B")]);
            for keep in ["A", "C"] {
                agree(from_ref(&two), &built(from_ref(&two), keep));
            }
            // Inner rounds continue from a value that a stage has written: a predictor and correctors.
            let correct = rounds(times, &[("V", "W")], None, vec![stage(1, &["V", "A"], "W")]);
            let both = rounds(2, &[("A", "V")], None, vec![stage(kind, reads, "V"), correct]);
            agree(from_ref(&both), &built(from_ref(&both), "A"));
            // Values that nothing has written, and values that are not carried.
            let begun = vec![
                stage(4, &["A", "C"], "D"),
                rounds(times, &[("D", "B")], None, vec![stage(1, &["A", "A"], "E"), stage(kind, reads, "B")]),
            ];
            agree(&begun, &built(&begun, "D"));
        }
    }
}

#[test]
fn a_fixed_rim_stays_in_rounds() {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    vars!(i, io, ii);
    let n = 10usize;
    let jacobi = kernel! {
        fn jacobi(A: [f64; n]) -> B: [f64; n] { B[i] = 0.5 * (A[i - 1] + A[i + 1]) for i in 1..n - 1 }
    };
    let jacobi = jacobi.distribute([i], [io], [ii], &mesh).shard("A", [dim(0).at(x)]).shard("B", [dim(0).at(x)]);
    let jacobi = jacobi.lower().expect("a legal schedule");
    let round = Sequence::new().stage(&jacobi, ["A"], "B").carry("B", "A");
    let program = Sequence::new().repeat(3, round).build().expect("rounds");
    assert!(program.explain().contains("elements of B that `jacobi` does not write are copied from A'"));
    let found = polyshard::spmd(2, |world| {
        let a = DistArray::from_fn(world, program.sharding("A"), |at| match at[0] {
            0 => 5.0,
            9 => 1.0,
            _ => 0.0,
        })?;
        Ok(program.run(world, &[&a])?.gather(world)?)
    });
    let found = found.expect("a run").swap_remove(0).expect("rank 0 gathers");
    let mut expected = ndarray::ArrayD::<f64>::zeros(IxDyn(&[n]));
    (expected[0], expected[n - 1]) = (5.0, 1.0);
    for _ in 0..3 {
        let before = expected.clone();
        (1..n - 1).for_each(|i| expected[i] = 0.5 * (before[i - 1] + before[i + 1]));
    }
    assert_eq!(found, expected, "{}", program.explain());
    assert_eq!(program.hints(), [], "all that is read has a value");
}

#[test]
fn what_was_to_end_rounds_and_did_not_is_told_with_its_last_value() {
    let unended = |below: i64| {
        let items = [rounds(3, &[("s", "t2")], Some(("t2", below)), vec![stage(5, &["A", "s"], "t2")])];
        let program = built(&items, "s");
        let mut expected: Arrays = ["A", "s"].map(|name| (name.to_owned(), given(name, 1))).into();
        interpret(&items, &mut expected, &Arrays::new());
        let found = polyshard::spmd(2, |world| {
            let inputs = program.inputs().map(|input| {
                let given = given(input.name.as_str(), 1);
                DistArray::from_fn(world, &input.sharding, |at| given[at.first().copied().unwrap_or(0)].0)
            });
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            let mut prepared = program.prepare(world)?;
            prepared.run(&inputs.iter().collect::<Vec<_>>())?;
            Ok(prepared.unended().into_iter().map(|(_, last)| last).collect::<Vec<_>>())
        });
        (found.expect("a run"), expected["s"][0].0 as f64)
    };
    let (found, last) = unended(-1000);
    assert_eq!(found, [[last], [last]]);
    let (found, _) = unended(1000);
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
}
