//! Random programs as source, to be compiled all at once.

use polyshard::prelude::*;
use polyshard::{DType, Element, SourceOptions, rust_source};
use polyshard_testing::random::Choices;
use polyshard_testing::random::algorithms::algorithm_of;
use polyshard_testing::random::cyclic::cyclic_of;
use polyshard_testing::random::kernels::kernel_of;
use polyshard_testing::random::schedules::{mesh_of, schedule_of};
use polyshard_testing::random::sums::summed_of;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::fmt::Write;

include!("random.rs");

/// How many there are.
const PROGRAMS: usize = 100;

/// Legal random programs, the same on every machine.
pub(crate) fn programs() -> Vec<Program> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let choices = proptest::collection::vec(0u32..5040, 0..90);
    let drawn = (0..).map(|nth| (nth, choices.new_tree(&mut runner).expect("choices need no filter").current()));
    let lowered = drawn.filter_map(|(nth, drawn)| match nth % 5 {
        0 => schedule::<f32>(nth, &drawn).lower().ok(),
        _ => schedule::<f64>(nth, &drawn).lower().ok(),
    });
    lowered.take(PROGRAMS).collect()
}

fn schedule<T: Element>(nth: usize, drawn: &[u32]) -> Schedule {
    let choices = &mut Choices::new(drawn);
    match nth % 4 {
        0 => {
            let kernel = kernel_of::<T>(choices);
            let mesh = mesh_of(choices);
            schedule_of(kernel, &mesh, choices)
        }
        1 => algorithm_of::<T>(choices).0,
        2 => {
            let kernel = kernel_of::<T>(choices);
            let mesh = mesh_of(choices);
            cyclic_of(kernel, &mesh, choices)
        }
        _ => summed_of::<T>(choices),
    }
}

/// The modules and the one that runs them all: `(path, text)`.
pub(crate) fn modules(programs: &[Program]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let (mut declared, mut calls) = (String::new(), String::new());
    for (number, program) in programs.iter().enumerate() {
        let source = rust_source(program, &SourceOptions::default());
        let shardings = source.lines().filter_map(|line| line.strip_prefix("pub fn sharding_")?.split('(').next());
        let inputs = program.kernel().inputs().len();
        let shardings: Vec<_> = shardings.take(inputs).collect();
        assert_eq!(shardings.len(), inputs, "each input has its sharding in\n{source}");
        let arrays = shardings.iter().enumerate().map(|(tensor, name)| {
            format!("&DistArray::from_fn(world, &p{number}::sharding_{name}(), |index| input({tensor}, index))?, ")
        });
        let scalars =
            program.kernel().scalars().iter().map(|(_, value)| format!("{value} as {}, ", program.kernel().dtype()));
        let arguments: String = arrays.chain(scalars).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(declared, "mod p{number};");
        let run = format!("bits(p{number}::mesh().size(), |world| p{number}::run(world, {arguments}))?");
        let _ = writeln!(calls, "    println!(\"{{}}\", {run});");
        files.push((format!("src/random/p{number}.rs"), format!("#![allow(dead_code)]\n{source}")));
    }
    let shared = include_str!("random.rs");
    let text = format!(
        "use polyshard::DistArray;\n\n{declared}\n{shared}\npub fn run() -> polyshard::Result<()> {{\n{calls}    Ok(())\n}}\n"
    );
    files.push(("src/random/mod.rs".into(), text));
    files.push(("src/bin/random.rs".into(), RUN.into()));
    files
}

/// The program that runs them.
const RUN: &str = "#![deny(warnings)]\n\n#[path = \"../random/mod.rs\"]\nmod random;\n\nfn main() -> polyshard::Result<()> {\n    random::run()\n}\n";

/// What the executor makes of each, as text.
pub(crate) fn executed(programs: &[Program]) -> Vec<String> {
    let hash = |program: &Program| match program.kernel().dtype() {
        DType::F32 => executed_one::<f32>(program),
        _ => executed_one::<f64>(program),
    };
    programs.iter().map(|program| hash(program).to_string()).collect()
}

fn executed_one<T: Element>(program: &Program) -> u64 {
    let run = |world: &World| {
        let shardings = program.shardings().enumerate().take(program.kernel().inputs().len());
        let inputs =
            shardings.map(|(tensor, sharding)| DistArray::from_fn(world, sharding, |index| input(tensor, index)));
        let inputs = inputs.collect::<polyshard::runtime::Result<Vec<DistArray<T>>>>()?;
        program.run(world, &inputs.iter().collect::<Vec<_>>())
    };
    bits(program.mesh().size(), run).unwrap_or_else(|error| panic!("{error}\n{program}"))
}
