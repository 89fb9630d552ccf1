//! Gaps left by limits, the memory and ranks that errors report as enough, and lists without duplicates.

use crate::kernels::{einsum, hold, numbered, square};
use crate::machines::machine;
use polyshard_dsl::Rounds;
use polyshard_layout::{DType, Mesh, Name};
use polyshard_machine::Machine;
use polyshard_planner::cost::cost;
use polyshard_polyhedral::Schedule;
use polyshard_search::{Candidate, Choose, ContractionSearch, Enough, Order, SearchError, SequenceSearch};
use polyshard_testing::example;
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// An einsum over arrays of these shapes.
fn kernel(text: &str, names: &[&str], shapes: &[&[usize]], output: &str) -> Schedule {
    einsum(text, names, shapes, DType::F64, output)
}

/// A chain of square matrices.
fn chain(count: usize, extent: usize) -> Schedule {
    let letters: Vec<char> = ('a'..='z').take(count + 1).collect();
    let terms: Vec<String> = letters.windows(2).map(|pair| pair.iter().collect()).collect();
    let text = format!("{}->{}{}", terms.join(","), letters[0], letters[count]);
    numbered(&text, &vec![vec![extent, extent]; count], DType::F64)
}

#[test]
fn orders_that_are_not_looked_at_are_open() {
    let machine = machine(4, 10.0);
    let find = |count| ContractionSearch::new(&chain(count, 64), 4, &machine).find().expect("one").choice;
    // For three matrices, all orders are compared; for five, only one, and others have at least as many operations.
    assert_eq!(find(3).gap(), 0.0);
    let five = find(5);
    let operations = 4.0 * 2.0 * 64f64.powi(3);
    let expected = five.cost().seconds() / (operations / 4.0 / 1e10) - 1.0;
    assert!(expected > 0.0 && (five.gap() - expected).abs() < 1e-9, "{}, not {expected}", five.gap());
    // A given order is the only one.
    let kernel = chain(5, 64).kernel().expect("a kernel").clone();
    let order = polyshard_search::Order::parse(&kernel, "A0,A1; A3,A4; ac,A2; ad,df").expect("an order");
    let given = ContractionSearch::new(&chain(5, 64), 4, &machine).order(order).find().expect("one").choice;
    assert!(given.gap() < five.gap() && given.cost().seconds() >= five.cost().seconds() * 0.99);
}

#[test]
fn orders_that_a_time_limit_leaves_out_are_open() {
    let machine = machine(8, 30.0);
    let search = ContractionSearch::new(&chain(4, 96), 8, &machine);
    let [all, early] = [search.find(), search.clone().at_most(Duration::ZERO).find()].map(|found| found.expect("one"));
    assert!(all.order.is_some());
    let (all, early) = (all.choice, early.choice);
    assert!(early.gap() > 0.0);
    assert!(early.cost().seconds() <= (1.0 + early.gap()) * all.cost().seconds() * (1.0 + 1e-9));
}

/// The grid; the steps, words, seconds and bytes; the number of loops that panels are rotated by; and whether they are
/// pipelined.
type Shown = (Vec<(Name, usize)>, [u64; 4], usize, bool);

/// The fields that each row of a list shows.
fn shown(candidate: &Candidate) -> Shown {
    let chain = candidate.chain();
    let rotated = chain.lines().find(|line| line.starts_with(".rotate(")).map_or(0, |line| line.matches(',').count());
    let cost = candidate.cost();
    let seconds = cost.seconds().to_bits();
    let ahead = chain.contains(".pipeline(");
    (candidate.grid().to_vec(), [candidate.steps(), candidate.words(), seconds, cost.memory], rotated, ahead)
}

#[test]
fn what_differs_in_the_names_of_axes_is_listed_once() {
    let (machine, mesh) = (machine(4, 100.0), Mesh::new([("x", 2), ("y", 2)]));
    for search in [square(64).auto(4, &machine).on(&mesh), square(64).auto(4, &machine)] {
        let choice = search.at_least(usize::MAX).find().expect("a choice");
        let mut all: Vec<_> = [choice.best()].into_iter().chain(choice.others()).map(shown).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert!(count > 10 && all.len() == count, "{} of {count} are different", all.len());
    }
}

/// One or two random kernels in sequence.
fn sequence<'a>(kinds: [usize; 2], extents: &[usize], ranks: usize, machine: &'a Machine) -> SequenceSearch<'a> {
    let [i, j, k, l] = extents[..] else { unreachable!("there are four") };
    let first = match kinds[0] % 3 {
        0 => kernel("ij,jk->ik", &["X", "V"], &[&[i, j], &[j, k]], "Y"),
        1 => kernel("ij,ik,j->ik", &["X", "V", "u"], &[&[i, j], &[i, k], &[j]], "Y"),
        _ => kernel("i,k->ik", &["X", "V"], &[&[i], &[k]], "Y"),
    };
    let second = match kinds[1] % 3 {
        0 => kernel("ik,kl->il", &["Y", "W"], &[&[i, k], &[k, l]], "Z"),
        1 => kernel("ik,il->kl", &["Y", "W"], &[&[i, k], &[i, l]], "Z"),
        _ => kernel("ik,ik->", &["Y", "W"], &[&[i, k], &[i, k]], "Z"),
    };
    search_of(&[(first, "Y"), (second, "Z")], ranks, machine)
}

/// The search for the schedules of these kernels, each with the name of its output.
fn search_of<'a>(stages: &[(Schedule, &str)], ranks: usize, machine: &'a Machine) -> SequenceSearch<'a> {
    stages.iter().fold(SequenceSearch::new(ranks, machine), |search, (schedule, output)| {
        let inputs: Vec<Name> = schedule.kernel().expect("a kernel").inputs().iter().map(|one| one.name).collect();
        search.stage(schedule, inputs, *output)
    })
}

/// Two or three kernels in sequence that read the same array and may share its tile.
fn sharing<'a>(kinds: [usize; 2], extents: &[usize], ranks: usize, machine: &'a Machine) -> SequenceSearch<'a> {
    let [i, j, k, l] = extents[..] else { unreachable!("there are four") };
    let shape: &[usize] = &[i, j];
    let product = |names: [&str; 2], columns: usize, output: &str| match kinds[0] % 2 {
        0 => kernel("ij,jk->ik", &names, &[shape, &[j, columns]], output),
        _ => kernel("ij,ik->jk", &names, &[shape, &[i, columns]], output),
    };
    let mut stages = vec![(product(["X", "V"], k, "Y"), "Y"), (product(["X", "W"], l, "Z"), "Z")];
    match kinds[1] % 3 {
        0 => {}
        1 => stages.push((kernel("ij,ij->i", &["X", "X"], &[shape; 2], "S"), "S")),
        _ => stages.push((product(["X", "V"], k, "U"), "U")),
    }
    search_of(&stages, ranks, machine)
}

/// The memory that a search reports as the minimum.
fn least<T: std::fmt::Debug>(found: Result<T, SearchError>) -> Result<u64, TestCaseError> {
    match found {
        Err(SearchError::Memory { least, is_least: true, .. }) => Ok(least),
        other => Err(TestCaseError::fail(format!("{other:?}"))),
    }
}

#[test]
fn the_memory_that_is_said_to_do_does_and_less_does_not() {
    let problem = (prop::collection::vec(1usize..14, 4), [0usize..3, 0usize..3], 1usize..7, any::<bool>());
    let machines = [machine(6, 1.0), machine(6, 300.0)];
    let law = |(extents, kinds, ranks, slow): (Vec<usize>, [usize; 2], usize, bool)| {
        let machine = &machines[usize::from(slow)];
        let [i, j, k, _] = extents[..] else { unreachable!("there are four") };
        let text = ["ij,jk->ik", "ik,jk,ij->i", "ij,jk->"][kinds[0]];
        let names = if kinds[0] == 1 { vec!["A", "B", "D"] } else { vec!["A", "B"] };
        let shapes: [&[usize]; 3] = match kinds[0] {
            1 => [&[i, k], &[j, k], &[i, j]],
            _ => [&[i, j], &[j, k], &[]],
        };
        let one = kernel(text, &names, &shapes[..names.len()], "C");
        let one = one.auto(ranks, machine);
        let enough = least(one.clone().memory(1).find())?;
        let found = one.clone().memory(enough).find().map_err(|why| TestCaseError::fail(why.to_string()))?;
        prop_assert!(found.cost().memory <= enough);
        prop_assert_eq!(least(one.memory(enough - 1).find())?, enough);
        says_what_does(&sequence(kinds, &extents, ranks, machine))
    };
    hold(32, &problem, law);
}

#[test]
fn the_memory_that_is_said_to_do_does_where_kernels_read_the_same_array() {
    let problem = (prop::collection::vec(1usize..14, 4), [0usize..2, 0usize..3], 1usize..5);
    let machine = machine(6, 10.0);
    let law = |(extents, kinds, ranks): (Vec<usize>, [usize; 2], usize)| {
        says_what_does(&sharing(kinds, &extents, ranks, &machine))
    };
    hold(10, &problem, law);
}

/// The reported memory of a sequence is enough, less is not, and with more memory the program fits too.
fn says_what_does(both: &SequenceSearch<'_>) -> Result<(), TestCaseError> {
    let enough = least(both.clone().memory(1).find())?;
    let found = both.clone().memory(enough).find().map_err(|why| TestCaseError::fail(format!("{enough}: {why}")))?;
    prop_assert!(found.cost().memory <= enough, "{} > {enough}", found.cost().memory);
    prop_assert_eq!(least(both.clone().memory(enough - 1).find())?, enough);
    // With more memory, the search succeeds and the program fits.
    let more = enough + enough / 7 + 9;
    let found = both.clone().memory(more).find().map_err(|why| TestCaseError::fail(format!("{more}: {why}")))?;
    prop_assert!(found.cost().memory <= more);
    Ok(())
}

#[test]
fn tiles_that_are_kept_need_no_memory_again() {
    let machine = machine(4, 10.0);
    let product = kernel("ij,jk->ik", &["X", "V"], &[&[64, 64], &[64, 64]], "Y");
    let mesh = Mesh::new([("p", 4)]);
    let [i, k] = ["i", "k"].map(polyshard_dsl::Var::new);
    // Each rank fetches all of X, and keeps it.
    let given = product.distribute(["k"], ["ko"], ["ki"], &mesh).shard("X", [i.at("p")]).shard("V", [k.at("p")]);
    let given = given.shard("Y", [k.at("p")]).tensorize(["i", "ki", "j"]);
    let search = SequenceSearch::new(4, &machine).stage(&given, ["X", "V"], "Y").stage(&given, ["X", "W"], "Z");
    let enough = least(search.clone().memory(1).find()).expect("it does not fit");
    // Two more arrays, and no other tile.
    let (share, tile) = (64 * 64 / 4 * 8, 64 * 64 * 8);
    let alone = cost(&given.lower().expect("a program"), &machine).expect("a price").memory;
    assert!((alone + 2 * share..alone + 2 * share + tile).contains(&enough), "{enough} {alone}");
    let found = search.clone().memory(enough).find().expect("what is said to do does");
    assert_eq!((found.cost().memory, found.gap()), (enough, 0.0));
    assert_eq!(least(search.memory(enough - 1).find()).expect("less does not"), enough);
}

#[test]
fn memory_of_a_search_that_was_ended_is_said_to_be_what_was_seen() {
    let machine = machine(6, 10.0);
    let search = sequence([0, 0], &[24, 20, 16, 12], 6, &machine).memory(1);
    let exact = least(search.clone().find()).expect("it does not fit");
    let refused = search.at_most(Duration::ZERO).find().expect_err("it does not fit");
    let said = refused.to_string();
    assert!(said.contains("not all were compared, and the smallest compared needs"), "{said}");
    let SearchError::Memory { least: seen, is_least: false, .. } = refused else { panic!("{said}") };
    assert!(seen >= exact, "{seen} {exact}");
    assert!(sequence([0, 0], &[24, 20, 16, 12], 6, &machine).memory(seen).find().is_ok());
    // For five matrices, one order is examined.
    let refused = ContractionSearch::new(&chain(5, 16), 4, &machine).memory(1).find().expect_err("it does not fit");
    assert!(matches!(refused, SearchError::Memory { is_least: false, .. }), "{refused}");
}

#[test]
fn several_orders_say_the_least_memory_of_all() {
    let machine = machine(4, 10.0);
    let search = ContractionSearch::new(&chain(3, 48), 4, &machine);
    let enough = least(search.clone().memory(1000).find()).expect("it does not fit");
    let found = search.clone().memory(enough).find().expect("what is said to do does").choice;
    assert!(found.cost().memory <= enough);
    assert_eq!(least(search.memory(enough - 1).find()).expect("less does not"), enough);
}

/// The number of ranks that a search reports as enough.
fn enough<T: std::fmt::Debug>(found: Result<T, SearchError>) -> Result<Enough, TestCaseError> {
    match found {
        Err(SearchError::Memory { enough, .. }) => Ok(enough),
        other => Err(TestCaseError::fail(format!("{other:?}"))),
    }
}

#[test]
fn the_ranks_that_are_said_to_do_do_and_fewer_do_not() {
    let problem = (prop::collection::vec(1usize..9, 3), 0usize..4, 1usize..4, 20u64..100);
    let machines = [machine(2000, 1.0), machine(3, 300.0)];
    let seen = std::cell::Cell::new([0; 2]);
    let law = |(extents, kind, ranks, percent): (Vec<usize>, usize, usize, u64)| {
        let [i, j, k] = extents[..] else { unreachable!("there are three") };
        let one = match kind {
            0 => kernel("ij,jk->ik", &["A", "B"], &[&[i, j], &[j, k]], "C"),
            1 => kernel("ij,kj->", &["A", "B"], &[&[i, j], &[k, j]], "C"),
            2 => kernel("ik,jk,ij->i", &["A", "B", "D"], &[&[i, k], &[j, k], &[i, j]], "C"),
            _ => kernel("ij,kj->ik", &["A", "A"], &[&[i, j], &[i, j]], "C"),
        };
        // The machine may have fewer devices than would be enough.
        let machine = &machines[usize::from(percent % 2 == 0)];
        let least = least(one.auto(ranks, machine).memory(1).find())?;
        let memory = least * percent / 100;
        let search = |ranks: usize| one.auto(ranks, &machines[0]).memory(memory).find();
        match enough(one.auto(ranks, machine).memory(memory).find())? {
            Enough::Fewest(fewest) => {
                if fewest > 16 {
                    return Ok(());
                }
                seen.set([seen.get()[0] + 1, seen.get()[1]]);
                let found = search(fewest).map_err(|why| TestCaseError::fail(format!("{fewest}: {why}")))?;
                prop_assert!(fewest > ranks && found.cost().memory <= memory);
                prop_assert_eq!(enough(search(fewest - 1))?, Enough::Fewest(fewest));
            }
            Enough::Never => {
                seen.set([seen.get()[0], seen.get()[1] + 1]);
                prop_assert!(matches!(enough(search((i * j * k).min(12)))?, Enough::Never | Enough::NotFound(_)));
            }
            // If too much would have to be priced, the error reports that.
            other => prop_assert!(matches!(other, Enough::NotFound(_)), "{:?}", other),
        }
        Ok(())
    };
    hold(32, &problem, law);
    let [fewest, never] = seen.get();
    assert!(fewest > 15 && never > 3, "{fewest} and {never}");
}

#[test]
fn ranks_that_are_not_found_or_do_not_help_are_said_so() {
    let machine = machine(64, 10.0);
    let search = square(64).auto(2, &machine).memory(8 << 10);
    let Ok(Enough::Fewest(fewest)) = enough(search.clone().find()) else { panic!("some number does") };
    let said = |search: polyshard_search::Search<'_>| search.find().expect_err("it does not fit").to_string();
    let ends = |said: String| {
        let (_, rest) = said.split_once(" on up to 2 ranks fits into ")?;
        Some(rest.split_once(": ")?.1.to_owned())
    };
    assert_eq!(
        ends(said(search.clone())),
        Some(format!("allow that, or use {fewest} ranks, the fewest that would be enough"))
    );
    let late = ends(said(search.clone().at_most(Duration::ZERO)));
    assert_eq!(late.as_deref(), Some("allow that, or more ranks"));
    let mesh = ends(said(search.clone().on(&Mesh::new([("x", 2)]))));
    assert_eq!(mesh.as_deref(), Some("allow that, or give a larger mesh"));
    let never = ends(said(search.memory(1)));
    assert_eq!(never.as_deref(), Some("allow that; no number of ranks would be enough"));
    // One kernel fits on the reported ranks; an order of several kernels may fit on fewer.
    let chain = chain(3, 24);
    let refused = enough(ContractionSearch::new(&chain, 2, &machine).memory(4000).find()).expect("it does not fit");
    let Enough::Found(ranks) = refused else { panic!("{refused:?}") };
    let found = ContractionSearch::new(&chain, ranks, &machine).memory(4000).find().expect("these do").choice;
    assert!(found.cost().memory <= 4000);
}

#[test]
fn limits_end_searches_that_find_nothing_which_fits() {
    let (machine, limit) = (machine(64, 10.0), Duration::from_secs(2));
    let ends = |what: &str, find: &dyn Fn() -> Option<SearchError>| {
        let start = Instant::now();
        let refused = find().expect("nothing fits");
        // These searches once took minutes, and later twice the limit: once for a schedule, and once for a number of
        // ranks.
        assert!(start.elapsed() < limit * 9 / 5, "{what}: {:?}", start.elapsed());
        assert!(matches!(refused, SearchError::Memory { .. }), "{what}: {refused}");
    };
    let wide = kernel("abcghl,ghldef->abcdef", &["A", "B"], &[&[8; 6], &[8; 6]], "C");
    ends("six indices", &|| wide.auto(16, &machine).memory(100_000).at_most(limit).find().err());
    // Each product is the first factor of the next one, and the last is that of the next round.
    let product = square(24);
    let search = SequenceSearch::new(6, &machine).memory(1500).at_most(limit);
    let search = (0..9).fold(search, |search, nth| {
        let value = |nth: usize| Name::new(&format!("V{nth}"));
        search.stage(&product, [value(nth), Name::new(&format!("W{nth}"))], value(nth + 1))
    });
    ends("nine kernels", &|| search.clone().rounds([Rounds::new(3, 0..9).carry("V9", "V0")]).find().err());
}

/// An order of many operands this small has billions of ways to lay out its stages, which differ little.
#[test]
fn limits_end_searches_of_orders_after_the_first_one() {
    let text = "j,b,S,SQ,U,yfmQb,zFf,hKl,Fmzl,Kpd,Ed,hCs,puas,x,A,uaHVn,en,eAvxi,EgorH,oeiuM,vBg,IDPNe,MTwI,OMw,DT,Nc,,cOq,k,Rqk,LR,JGL,\
                tJGk,Gtr->cla";
    let extent = |index: char| match index {
        'b' | 'y' | 'f' | 'h' | 'p' | 'x' | 'D' => 1,
        'K' | 'l' | 'E' | 'a' | 'e' | 'o' | 'B' | 'I' | 'T' | 'c' | 'k' | 't' => 3,
        _ => 2,
    };
    let terms = text.split_once("->").expect("an arrow").0.split(',');
    let shapes: Vec<Vec<usize>> = terms.map(|term| term.chars().map(extent).collect()).collect();
    let (network, machine) = (numbered(text, &shapes, DType::F64), machine(2, 10.0));
    let (start, limit) = (Instant::now(), Duration::from_secs(2));
    ContractionSearch::new(&network, 2, &machine).at_most(limit).find().expect("one that was found in time");
    // This search once ran for more than a minute.
    assert!(start.elapsed() < 4 * limit, "{:?}", start.elapsed());
}

#[test]
fn the_ranks_and_the_memory_that_are_said_do_within_the_limit_too() {
    let machine = machine(64, 10.0);
    let wide = kernel("abcghl,ghldef->abcdef", &["A", "B"], &[&[8; 6], &[8; 6]], "C");
    let search = |ranks: usize, memory: u64| {
        let search = wide.auto(ranks, &machine).memory(memory).at_most(Duration::from_secs(10));
        search.find().map(|choice| choice.cost().memory)
    };
    let refused = search(16, 200_000).expect_err("it does not fit");
    let SearchError::Memory { least, enough: Enough::Found(ranks), .. } = refused else { panic!("{refused}") };
    assert_eq!((least, ranks), (524_288, 64));
    assert!(search(ranks, 200_000).is_ok_and(|memory| memory <= 200_000));
    assert!(search(16, least).is_ok_and(|memory| memory <= least));
}

#[test]
fn the_memory_that_is_printed_is_enough() {
    let machine = machine(4, 10.0);
    for (extent, memory) in [(7, 10), (33, 1000), (64, 5000), (101, 9000)] {
        let search = square(extent).auto(4, &machine);
        let refused = search.clone().memory(memory).find().expect_err("it does not fit");
        let SearchError::Memory { least, .. } = refused else { panic!("{refused}") };
        let said = refused.to_string();
        let (_, printed) = said.split_once(" needs ").expect("the memory is said");
        let (printed, _) = printed.split_once(": allow").expect("something follows");
        let (number, unit) = printed.split_once(' ').expect("a unit");
        let unit = match unit {
            "B" => 1.0,
            "kB" => 1e3,
            _ => panic!("{printed}"),
        };
        let enough = (number.parse::<f64>().expect("a number") * unit).round() as u64;
        assert!((least..least + least / 99 + 1).contains(&enough), "{printed} of {least}");
        assert!(search.memory(enough).find().is_ok());
    }
}

/// The number of ranks that a search on this many ranks reports as enough, if it finds nothing; otherwise the memory of
/// the result.
fn tried(ranks: usize, find: &dyn Fn(usize) -> Result<u64, SearchError>) -> Result<Result<u64, Enough>, TestCaseError> {
    match find(ranks) {
        Ok(memory) => Ok(Ok(memory)),
        refused => Ok(Err(enough(refused)?)),
    }
}

/// The minimum number of ranks that a search on `ranks` ranks reports; `None` if it reports something else. Checks that
/// a search on that many finds a result that fits, and that a search on fewer reports the same.
fn fewest(
    ranks: usize,
    memory: u64,
    find: &dyn Fn(usize) -> Result<u64, SearchError>,
) -> Result<Option<usize>, TestCaseError> {
    match tried(ranks, find)? {
        Err(Enough::Fewest(fewest)) => {
            prop_assert!(fewest > ranks);
            let found = tried(fewest, find)?;
            prop_assert!(found.is_ok_and(|found| found <= memory), "{} ranks: {:?}", fewest, found);
            prop_assert_eq!(tried(fewest - 1, find)?, Err(Enough::Fewest(fewest)));
            Ok(Some(fewest))
        }
        Err(Enough::Never) => {
            // No number of ranks is enough.
            for more in [ranks + 1, 2 * ranks, 12] {
                let found = tried(more, find)?;
                prop_assert!(matches!(found, Err(Enough::Never)), "{} ranks: {:?}", more, found);
            }
            Ok(None)
        }
        // If too much would have to be priced, the error reports that.
        Err(Enough::NotFound(tried)) => {
            prop_assert!(tried >= ranks);
            Ok(None)
        }
        other => Err(TestCaseError::fail(format!("{other:?}"))),
    }
}

#[test]
fn the_ranks_that_are_said_to_do_do_for_kernels_in_sequence_and_fewer_do_not() {
    let problem = (prop::collection::vec(1usize..8, 4), [0usize..3, 0usize..3], 1usize..4, 30u64..100);
    let machine = machine(3, 10.0);
    let seen = std::cell::Cell::new(0);
    let law = |(extents, kinds, ranks, percent): (Vec<usize>, [usize; 2], usize, u64)| {
        // The given machine has fewer devices than would be enough.
        let wide = machine.clone().with_counts(&[64]).expect("a machine");
        let least = least(sequence(kinds, &extents, ranks, &machine).memory(1).find())?;
        let memory = least * percent / 100;
        let find = |ranks: usize| {
            let machine = if ranks > 3 { &wide } else { &machine };
            Ok(sequence(kinds, &extents, ranks, machine).memory(memory).find()?.cost().memory)
        };
        if fewest(ranks, memory, &find)?.is_some() {
            seen.set(seen.get() + 1);
        }
        Ok(())
    };
    hold(16, &problem, law);
    assert!(seen.get() > 5, "{}", seen.get());
}

#[test]
fn an_order_that_is_given_says_which_ranks_would_do() {
    let (chain, machine) = (chain(3, 24), machine(64, 10.0));
    let order = Order::parse(chain.kernel().expect("a kernel"), "ab,bc").expect("an order");
    let search = |ranks: usize| ContractionSearch::new(&chain, ranks, &machine).order(order.clone());
    for memory in [3000, 4000, 6000] {
        let find = |ranks: usize| Ok(search(ranks).memory(memory).find()?.choice.cost().memory);
        let fewest = fewest(2, memory, &find).unwrap_or_else(|error| panic!("{memory}: {error}"));
        assert!(fewest.is_some(), "{memory}");
    }
    // If not all meshes are examined, numbers are doubled.
    let memory = 1500;
    let refused = enough(search(2).memory(memory).find()).expect("it does not fit");
    let Enough::Found(ranks) = refused else { panic!("{refused:?}") };
    assert!(ranks.is_power_of_two(), "{ranks}");
    let found = search(ranks).memory(memory).find().expect("these do").choice;
    assert!(found.cost().memory <= memory);
    // With more ranks than these, no rank could have less.
    assert_eq!(enough(search(2).memory(20).find()).expect("it does not fit"), Enough::Never);
    let late = search(2).memory(memory).at_most(Duration::ZERO).find();
    assert_eq!(enough(late).expect("it does not fit"), Enough::NotSought);
}

#[test]
fn kernels_on_a_mesh_that_is_given_need_a_larger_one() {
    let machine = machine(4, 10.0);
    let product = kernel("ij,jk->ik", &["X", "V"], &[&[64, 64], &[64, 64]], "Y");
    let given = product.clone();
    let given = given.distribute(["k"], ["ko"], ["ki"], &Mesh::new([("p", 2)])).tensorize(["i", "ki", "j"]);
    let search = SequenceSearch::new(4, &machine).stage(&given, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
    let refused = search.memory(1000).find().expect_err("it does not fit");
    assert!(matches!(refused, SearchError::Memory { enough: Enough::LargerMesh, .. }), "{refused}");
}

#[test]
fn a_sequence_says_what_else_there_was_and_what_no_other_can_beat() {
    let machine = machine(4, 100.0);
    let product = Schedule::from_spec(example::matmul(256, 256, 256));
    let search = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "W"], "Z");
    let choice = search.find().expect("a choice");
    let words = choice.cost().received / 4;
    let bound = choice.bound();
    let one = example::matmul(256, 256, 256).check().expect("a kernel").lower_bound(4, None).words;
    assert!((bound.words - 2.0 * one).abs() < 1e-6 && bound.elements() <= words, "{bound:?}, {words}");
    let touched: Vec<_> = bound.touched.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(touched, ["X", "V", "Y", "Y", "W", "Z"]);
    assert!(!choice.others().is_empty());
    let seconds: Vec<f64> = choice.others().iter().map(|other| other.cost().seconds()).collect();
    assert!(seconds.is_sorted() && seconds[0] >= choice.cost().seconds());
    for other in choice.others() {
        assert_eq!(other.schedules().len(), 2);
        let why = choice.why_not(other.schedules()).expect("it was priced");
        assert!(why.contains("the chosen one is faster"), "{why}");
    }
    let refused = choice.why_not(std::slice::from_ref(&product)).expect_err("one is missing");
    assert_eq!(refused.to_string(), "the sequence has 2 kernels, but 1 schedule is given; give one for each");
    // A value that two kernels read may be reused by the second.
    let again = SequenceSearch::new(4, &machine).stage(&product, ["X", "V"], "Y").stage(&product, ["Y", "V"], "Z");
    let again = again.find().expect("a choice").bound().words;
    assert!(again < bound.words && again >= one, "{again}");
}
