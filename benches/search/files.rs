//! The schedules of the files of kernels, compared with schedules chosen for the same kernels on as many ranks.

use super::time::medians;
use polyshard::layout::Name;
use polyshard::machine::{detect, units};
use polyshard::prelude::*;
use polyshard::program::Number;
use polyshard::runtime;
use polyshard::runtime::Backend;
use polyshard::search::SequenceSearch;
use polyshard::text::{Definitions, Given, Scheduled, Stage};
use std::fs;
use std::path::{Path, PathBuf};

/// The values of the names in the files.
const VALUES: [(&str, i64); 11] = [
    ("m", 1536),
    ("k", 1536),
    ("n", 1536),
    ("h", 1536),
    ("rows", 4096),
    ("columns", 4096),
    ("d0", 256),
    ("d1", 256),
    ("d2", 256),
    ("rank", 32),
    ("r0", 32),
];

/// Times each file whose mesh has this many ranks, and the chosen schedule.
pub(crate) fn compare(ranks: usize, runs: usize) -> polyshard::Result<()> {
    let files = files();
    runtime::spmd(ranks, |world| {
        let machine = detect(world)?;
        if world.is_root() {
            let backend = if world.backend() == Backend::Mpi { "MPI" } else { "threads" };
            println!("\n{ranks} ranks, {backend}, f64: the schedules of examples/poly and the choice");
            println!("{:10} {:>10} {:>10} {:>7} {:>6}", "file", "written", "chosen", "ratio", "noise");
        }
        for path in &files {
            row(world, path, &machine, runs)?;
        }
        Ok::<_, polyshard::Error>(())
    })?;
    Ok(())
}

/// The files, by name.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/poly");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("the files of kernels").map(|file| file.expect("a file").path()).collect();
    files.sort();
    files
}

fn row(world: &World, path: &Path, machine: &Machine, runs: usize) -> polyshard::Result<()> {
    let values: Vec<_> = VALUES.into_iter().map(|(name, value)| (Name::new(name), Number::Int(value))).collect();
    let given = Given { arrays: None, values: &values, dtype: Some(DType::F64) };
    let text = fs::read_to_string(path).expect("a file of kernels");
    // Skip files that leave more open; their schedules are chosen in any case.
    let file = Definitions::parse(&text)?;
    let Ok(stages) = file.bind(&given) else { return Ok(()) };
    // Skip rounds, whose time is a multiple of that of their kernels.
    if !file.rounds(&given).is_ok_and(|rounds| rounds.is_empty()) {
        return Ok(());
    }
    let written: Option<Vec<Schedule>> = stages.iter().map(written).collect();
    let Some(written) = written else { return Ok(()) };
    let lowered = written.iter().map(Schedule::lower).collect::<Result<Vec<_>, _>>()?;
    if lowered.iter().any(|program| program.mesh().size() != world.size()) {
        return Ok(());
    }
    let names = |stage: &Stage| stage.kernel.inputs.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let mut sequence = Sequence::new();
    let mut search = SequenceSearch::new(world.size(), machine);
    for (program, stage) in lowered.iter().zip(&stages) {
        sequence = sequence.stage(program, names(stage), stage.kernel.output.0);
        search = search.stage(&Schedule::from_spec(stage.kernel.clone()), names(stage), stage.kernel.output.0);
    }
    let (written, chosen) = match &stages[..] {
        [stage] => {
            let choice = Schedule::from_spec(stage.kernel.clone()).auto(world.size(), machine).find()?;
            (lowered[0].clone(), choice.program().clone())
        }
        _ => (sequence.build()?, search.find()?.program().clone()),
    };
    let times = medians(world, &[&written, &chosen, &chosen], runs)?;
    if world.is_root() {
        println!(
            "{:10} {:>10} {:>10} {:>7.2} {:>5.0}%",
            path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default(),
            units::seconds(times[0]),
            units::seconds(times[1]),
            times[1] / times[0],
            100.0 * (times[2] / times[1] - 1.0).abs()
        );
    }
    Ok(())
}

/// The schedule of a kernel in a file, if it is not chosen.
fn written(stage: &Stage) -> Option<Schedule> {
    matches!(stage.schedule, Scheduled::Steps(_)).then(|| stage.into())
}
