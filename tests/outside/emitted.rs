//! Random programs as source, to be compiled together.

use polyshard::prelude::*;
use polyshard::program::Transfer;
use polyshard::source::{SourceOptions, rust_source};
use polyshard_testing::random::Choices;
use polyshard_testing::random::algorithms::algorithm_of;
use polyshard_testing::random::cyclic::cyclic_of;
use polyshard_testing::random::kernels::kernel_of;
use polyshard_testing::random::pipelined::{interior_first, pipelined};
use polyshard_testing::random::schedules::{mesh_of, schedule_of};
use polyshard_testing::random::stencils::stencil_of;
use polyshard_testing::random::sums::summed_of;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::BTreeSet;
use std::fmt::Write;

include!("random.rs");

/// The number of programs that wait for all transfers.
const PROGRAMS: usize = 90;

/// The number of programs with transfers in flight while a leaf computes.
const AHEAD: usize = 24;

/// Legal random programs, the same on every machine.
pub(crate) fn programs() -> Vec<Program> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let choices = proptest::collection::vec(0u32..5040, 0..90);
    let drawn = (0..).map(|nth| (nth, choices.new_tree(&mut runner).expect("choices need no filter").current()));
    let schedules = drawn.map(|(nth, drawn)| match nth % 5 {
        0 => schedule::<f32>(nth, &drawn),
        _ => schedule::<f64>(nth, &drawn),
    });
    let mut lowered = schedules.filter_map(|schedule| Some((schedule.lower().ok()?, schedule)));
    let waiting: Vec<_> = lowered.by_ref().take(PROGRAMS).map(|(program, _)| program).collect();
    let ahead = lowered.enumerate().filter_map(|(nth, (_, schedule))| {
        // Halos that are in flight while the interior is computed are those of stencils.
        match nth % 8 {
            7 => {
                let choices: Vec<u32> = (0..40).map(|at| (nth as u32 * 7919 + at * at * 104_729) % 5040).collect();
                let stencil = stencil_of(DType::F64, &mut Choices::new(&choices));
                interior_first(&stencil).map(|first| first.lower().expect("it was lowered before"))
            }
            _ => pipelined(&schedule, 1 + nth % 4).expect("it can be lowered without"),
        }
    });
    let programs: Vec<_> = waiting.into_iter().chain(ahead.take(AHEAD)).chain(panels()).collect();
    check_panels(&programs);
    programs
}

/// Products of ragged sizes in 0 to 5 panels, which are fetched 1 to 4 iterations ahead or sent as many later.
fn panels() -> Vec<Program> {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let mesh = Mesh::new([("x", 2), ("y", 3)]);
    let [x, y] = mesh.axes();
    let line = Mesh::new([("z", 3)]);
    let [z] = line.axes();
    let of = |nth: usize| {
        // In panels of three.
        let (extent, depth) = ([0, 2, 5, 9, 11, 14][nth % 6], 1 + (nth + nth / 6) % 4);
        let schedule = match nth / 6 % 2 {
            0 => kernel! {
                fn comes(A: [f64; 7, extent], B: [f64; extent, 5]) -> C: [f64; 7, 5] { C[m, n] += A[m, k] * B[k, n] }
            }
            .distribute([m, n], [mo, no], [mi, ni], &mesh)
            .split(k, ko, ki, 3)
            .reorder([mo, no, ko, mi, ni, ki])
            .shard("A", [m.at(x), k.at(y)])
            .shard("B", [k.at(x), n.at(y)])
            .shard("C", [m.at(x), n.at(y)])
            .communicate("A", ko)
            .communicate("B", ko)
            .pipeline(ko, depth)
            .tensorize([mi, ni, ki]),
            _ => kernel! {
                fn leaves(A: [f64; extent, 7], B: [f64; 7, 5]) -> C: [f64; extent, 5] { C[m, n] += A[m, k] * B[k, n] }
            }
            .distribute([k], [ko], [ki], &line)
            .split(m, mo, mi, 3)
            .reorder([ko, mo, mi, n, ki])
            .shard("A", [k.at(z)])
            .shard("B", [k.at(z)])
            .shard("C", [n.at(z)])
            .communicate("C", mo)
            .pipeline(mo, depth)
            .tensorize([mi, n, ki]),
        };
        schedule.lower().unwrap_or_else(|error| panic!("{error}\n{schedule}"))
    };
    (0..12).map(of).collect()
}

/// Checks that transfers are in flight in some of them.
fn check_panels(programs: &[Program]) {
    let (mut depths, mut trips) = (BTreeSet::new(), BTreeSet::new());
    for transfer in programs.iter().flat_map(|program| program.body().transfers.iter().map(move |one| (program, one))) {
        let (program, Transfer { ahead, level, .. }) = transfer;
        if let (1.., Some(counter)) = (ahead, level.innermost()) {
            depths.insert(*ahead);
            trips.insert(program.nest().loops[counter.0].extent);
        }
    }
    assert!((1..=4).all(|depth| depths.contains(&depth)), "{depths:?}");
    assert!((1..=5).all(|count| trips.contains(&count)), "{trips:?}");
    // In a loop without iterations nothing is sent.
    let is_empty = |program: &Program| program.nest().loops.iter().any(|around| around.extent == 0);
    assert!(programs.iter().any(is_empty), "all loops have iterations");
    let is_coming = |program: &&Program| program.nest().transfers.iter().any(|transfer| transfer.interior_first);
    assert!(programs.iter().any(|program| is_coming(&program)), "no halo comes while an interior is computed");
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

/// The modules, and the one that runs them all: `(path, text)`.
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
        "use polyshard::runtime::DistArray;\n\n{declared}\n{shared}\npub fn run() -> polyshard::Result<()> {{\n{calls}    Ok(())\n}}\n"
    );
    files.push(("src/random/mod.rs".into(), text));
    files.push(("src/bin/random.rs".into(), RUN.into()));
    files
}

/// The program that runs them.
const RUN: &str = "#![deny(warnings)]\n\n#[path = \"../random/mod.rs\"]\nmod random;\n\nfn main() -> polyshard::Result<()> {\n    random::run()\n}\n";

/// The executor's result for each, as text.
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
