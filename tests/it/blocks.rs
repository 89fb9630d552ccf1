//! Blocks of statements: whatever the statements, the schedule, the mesh and the sizes, the arrays are those of the statements executed one
//! after the other.

use polyshard::planner::Sequence;
use polyshard::prelude::*;
use polyshard::schedule::Block;
use polyshard::search::{Member, PANEL, Passes, in_rounds};
use polyshard::text::{Definitions, Given, Left, Stage};
use polyshard_testing::random::Choices;
use polyshard_testing::random::blocks::{self, Arrays};
use polyshard_testing::written::read_back;
use proptest::prelude::*;

/// The program of a file of one block, with panels of this many bytes of the arrays of a pass; together or apart.
fn program_of(text: &str, panel: usize, apart: bool) -> Result<Program, String> {
    let said = |error: &dyn std::fmt::Display| format!("{error}\n{text}");
    let file = Definitions::parse(text).map_err(|error| said(&error))?;
    let stages = file.bind(&Given::default()).map_err(|error| said(&error))?;
    let rounds = file.rounds(&Given::default()).map_err(|error| said(&error))?;
    let mut members: Vec<Member> = stages.iter().map(Member::from).collect();
    members.iter_mut().for_each(|member| member.statement.apart = apart);
    let passes = Passes::planned(&mut members, &rounds, panel);
    let programs = members.iter().map(|member| member.schedule.lower()).collect::<Result<Vec<_>, _>>();
    let programs = programs.map_err(|error| said(&error))?;
    let append = |sequence: Sequence, number: usize| {
        let Stage { inputs, output, previous, .. } = &stages[number];
        sequence.continued(&programs[number], inputs.iter().copied(), *output, *previous)
    };
    let sequence = in_rounds(append, 0..stages.len(), &rounds);
    let keep = |sequence: Sequence, left: &Left| sequence.keep(left.value).call(left.value, left.name);
    let program = file.results().iter().fold(sequence, keep).build().map_err(|error| said(&error))?;
    passes.run_together(&members, program).map_err(|refused| format!("{refused:?}\n{text}"))
}

/// The element of a parameter with this number at an index.
fn element(number: usize, index: &[usize]) -> i64 {
    let sum: usize = index.iter().zip([7, 3]).map(|(i, factor)| i * factor).sum::<usize>() + 11 * number;
    (sum % 13) as i64 - 6
}

/// The results of a program on all ranks of a world, whole.
fn run(world: &World, program: &Program, block: &blocks::Block) -> polyshard::Result<Vec<Vec<i64>>> {
    let params = block.params();
    let inputs = program.inputs().map(|array| {
        let number = params.iter().position(|(name, _)| *name == array.name.as_str()).expect("a parameter");
        DistArray::from_fn(world, &array.sharding, |index| element(number, index))
    });
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let before = inputs.clone();
    let mut prepared = program.prepare(world)?;
    // The second run begins with the memory of the first.
    prepared.run_all(&inputs.iter().collect::<Vec<_>>())?;
    let results = prepared.run_all(&inputs.iter().collect::<Vec<_>>())?;
    assert!(inputs.iter().zip(&before).all(|(one, other)| one.block() == other.block()), "an input was written");
    let whole = |name: &String| {
        let (_, array) = results.iter().find(|(other, _)| other.as_str() == *name).expect("a result");
        let everywhere = array.redistribute(world, &Sharding::replicated(array.sharding().mesh(), array.shape()))?;
        Ok(everywhere.block().to_vec())
    };
    block.results().iter().map(whole).collect()
}

/// A block with rounds, a captured number and scalars.
fn smooth(n: usize, rounds: usize, weight: f64) -> Schedule<Block> {
    kernel! {
        fn smooth(A: [f64; n]) -> (A, change: f64) {
            repeat(rounds, until change < weight) {
                let B[i] = A[i];
                A[i] = B[i] + weight * (B[i - 1] - 2.0 * B[i] + B[i + 1]) for i in 1..n - 1;
                change = 0.0;
                change max= abs(A[i] - B[i]);
            }
        }
    }
}

#[test]
fn a_block_in_rust_is_that_of_a_file() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let rust = smooth(10, 4, 0.25).distribute(["i"], ["io"], ["ii"], &mesh).shard("A", [Var::new("i").at(x)]).lower();
    let file = "fn smooth(A: [f64; 10]) -> (A, change: f64) {
        repeat(4, until change < 0.25) {
            let B[i] = A[i];
            A[i] = B[i] + 0.25 * (B[i - 1] - 2.0 * B[i] + B[i + 1]) for i in 1..9;
            change = 0.0;
            change max= abs(A[i] - B[i]);
        }
    }
    mesh(x: 3).distribute([i], [io], [ii]).shard(A, i @ x)";
    let (rust, file) = (rust.expect("a program"), program_of(file, PANEL, false).expect("a program"));
    assert_eq!(rust.to_string().replace("weight", "0.25"), file.to_string());
    let results = |program: &Program| {
        polyshard::spmd(3, |world| {
            let a = DistArray::from_fn(world, program.sharding("A"), |at| (at[0] * at[0] % 7) as f64)?;
            let results = program.prepare(world)?.run_all(&[&a])?;
            Ok(results.iter().map(|(name, array)| (name.to_string(), array.block().to_vec())).collect::<Vec<_>>())
        })
        .expect("it runs")
    };
    let found = results(&rust);
    assert_eq!(found, results(&file));
    assert_eq!(found[0].iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["A", "change"]);
    assert!(found[0][0].1[0] == 0.0 && found[2][0].1.last() == Some(&4.0), "the ends stay: {found:?}");
}

#[test]
fn mistakes_of_blocks_name_the_step_and_its_line() {
    let mesh = Mesh::new([("x", 2)]);
    let said = |schedule: Schedule<Block>| schedule.lower().expect_err("a mistake").to_string();
    let (block, line) = (smooth(6, 3, 0.5), line!());
    let split = said(block.clone().split("q", "qo", "qi", 2));
    assert_eq!(
        split,
        format!(
            "schedule step 1, `split(q, qo, qi, 2)`: block `smooth`: no statement has the loop `q`; the indices are `i`\n  --> {}:{}:36",
            file!(),
            line + 1
        )
    );
    let twice = said(block.clone().distribute(["i"], ["io"], ["ii"], &mesh).distribute(["i"], ["a"], ["b"], &mesh));
    assert!(twice.starts_with("schedule step 2, `distribute([i], [a], [b], mesh(x: 2))`: "), "{twice}");
    let none = said(smooth(6, 0, 0.5));
    assert!(none.starts_with("block `smooth`: `change` has no value: "), "{none}");
    let n = 5;
    let extents = kernel! { fn f(A: [f32; n], B: [f32; 4]) -> X: [f32; n] { X[i] = A[i]; X[i] = X[i] + B[i]; } };
    let extents = extents.lower().expect_err("two extents").to_string();
    assert!(extents.contains("index `i` has extent 4 in `B[i]`, but 5 in `A[i]`"), "{extents}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_blocks_compute_what_their_statements_say(choices in prop::collection::vec(0u32..5040, 0..160)) {
        let block = blocks::Block::new(&mut Choices::new(&choices));
        let text = block.text();
        // Panels of one row, of some, and none.
        let panel = [1, 100, 400, PANEL][choices.len() % 4];
        let program = match program_of(&text, panel, false) {
            // A statement may overwrite what all others have computed from a parameter.
            Err(why) if why.contains("no result depends on the given value of") => return Err(TestCaseError::reject(why)),
            program => program.map_err(TestCaseError::fail)?,
        };
        let params = block.params();
        let filled = params.iter().enumerate().map(|(number, (name, shape))| {
            let elements = ndarray::ArrayD::from_shape_fn(&shape[..], |index| element(number, ndarray::Dimension::slice(&index)));
            ((*name).to_owned(), elements.into_raw_vec_and_offset().0)
        });
        let mut arrays: Arrays = filled.collect();
        block.interpret(&mut arrays);
        let expected: Vec<_> = block.results().iter().map(|name| arrays[name].clone()).collect();
        let apart = program_of(&text, panel, true).map_err(TestCaseError::fail)?;
        for program in [&program, &read_back(&program), &apart] {
            let found = polyshard::spmd(block.ranks, |world| run(world, program, &block));
            let found = found.map_err(|error| TestCaseError::fail(format!("{error}\n{text}\n{program}")))?;
            for (rank, found) in found.iter().enumerate() {
                prop_assert!(*found == expected, "rank {rank}: {found:?}\nexpected {expected:?}\n{text}\n{program}");
            }
        }
    }
}
