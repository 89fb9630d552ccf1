//! Synthesis against exhaustive searches at the true sizes: no valid program is missing, and no invalid one is found.

use polyshard_planner::placement::ParallelismMatrix;
use polyshard_planner::reduce::{AllowedMasters, Form, Hierarchy, Instruction, ReductionProgram, synthesize};
use polyshard_program::reduction::{COLLECTIVES, Collective, Context};
use std::collections::{BTreeSet, HashSet};

fn hierarchy(counts: &[usize]) -> Hierarchy {
    Hierarchy::new(counts.iter().enumerate().map(|(level, count)| (format!("l{level}"), *count))).expect("a hierarchy")
}

/// All valid programs at the true sizes, by trying every instruction after every other; as lowered steps.
fn by_brute_force(counts: &[usize], steps: usize) -> BTreeSet<Vec<(Collective, Vec<Vec<usize>>)>> {
    let hierarchy = hierarchy(counts);
    let levels = hierarchy.counts().len();
    let forms = (0..levels).flat_map(|slice| {
        let parallel = (0..slice).map(Form::Parallel);
        [Form::InsideGroup].into_iter().chain(parallel).map(move |form| (slice, form)).collect::<Vec<_>>()
    });
    let instructions: Vec<_> = forms
        .flat_map(|(slice, form)| COLLECTIVES.map(|collective| Instruction { collective, slice, form }))
        .map(|instruction| (instruction.collective, instruction.groups(&hierarchy).expect("the levels exist")))
        .collect();
    let devices = hierarchy.devices();
    let mut open = vec![(Context::initial(devices, devices), Vec::new())];
    let mut found = BTreeSet::new();
    for _ in 0..steps {
        let mut next = Vec::new();
        for (context, program) in &open {
            for (collective, groups) in &instructions {
                let mut after = context.clone();
                if groups.iter().any(|group| after.apply(*collective, group).is_err()) || after == *context {
                    continue;
                }
                // Identified by the groups that it changes.
                let changes = |group: &&Vec<usize>| group.iter().any(|&device| !context.chunks_of(device).is_empty());
                let changed = groups.iter().filter(changes).cloned().collect();
                let program = [&program[..], &[(*collective, changed)]].concat();
                match after.is_sum() {
                    true => _ = found.insert(program),
                    false => next.push((after, program)),
                }
            }
        }
        // Two instructions with equal groups give the same program twice.
        let mut seen = HashSet::new();
        open = next.into_iter().filter(|(_, program)| seen.insert(program.clone())).collect();
    }
    found
}

/// A program's steps at the true sizes, in the form of the brute force.
fn steps_of(counts: &[usize], program: &ReductionProgram) -> Vec<(Collective, Vec<Vec<usize>>)> {
    let matrix = ParallelismMatrix::new(vec![counts.to_vec()]).expect("a matrix");
    let lowered = program.lower(&matrix, &[0]).expect("it can be lowered");
    lowered.steps().iter().map(|step| (step.collective, step.groups.to_vec())).collect()
}

#[test]
fn what_is_synthesised_for_two_of_each_is_all_there_is_for_any_number() {
    for (counts, steps) in [(vec![3], 5), (vec![6], 5), (vec![2, 3], 5), (vec![3, 2], 5), (vec![4, 3], 4)] {
        let programs = synthesize(&hierarchy(&counts), steps, AllowedMasters::OthersIdle);
        let found: BTreeSet<_> = programs.iter().map(|program| steps_of(&counts, program)).collect();
        assert_eq!(found.len(), programs.len(), "{counts:?}: two programs are one");
        assert_eq!(found, by_brute_force(&counts, steps), "{counts:?}");
    }
}

#[test]
fn no_other_program_is_valid() {
    // Of all programs of up to three instructions, those that can be lowered and proved are the synthesised ones.
    let forms = [Form::InsideGroup, Form::Parallel(0), Form::Parallel(1), Form::Master(0), Form::Master(1)];
    let instructions = (0..3).flat_map(|slice| forms.map(|form| (slice, form)));
    let instructions: Vec<_> = instructions
        .flat_map(|(slice, form)| COLLECTIVES.map(|collective| Instruction { collective, slice, form }))
        .filter(|instruction| instruction.groups(&hierarchy(&[2, 2])).is_ok_and(|groups| groups[0].len() > 1))
        .collect();
    let counts = [2, 3];
    let matrix = ParallelismMatrix::new(vec![counts.to_vec()]).expect("a matrix");
    let mut valid = BTreeSet::new();
    let mut open: Vec<Vec<Instruction>> = vec![vec![]];
    for _ in 0..3 {
        let with = |head: &Vec<Instruction>| instructions.iter().map(|next| [&head[..], &[*next]].concat()).collect();
        open = open.iter().flat_map::<Vec<_>, _>(with).collect();
        for instructions in &open {
            let program = ReductionProgram { instructions: instructions.clone() };
            if program.lower(&matrix, &[0]).is_ok_and(|lowered| lowered.prove().is_ok()) {
                valid.insert(steps_of(&counts, &program));
            }
        }
    }
    let known = synthesize(&hierarchy(&counts), 3, AllowedMasters::Any);
    let known: BTreeSet<_> = known.iter().map(|program| steps_of(&counts, program)).collect();
    assert_eq!(valid.difference(&known).collect::<Vec<_>>(), Vec::<&Vec<_>>::new(), "valid, and not synthesised");
    assert_eq!(known.difference(&valid).collect::<Vec<_>>(), Vec::<&Vec<_>>::new(), "synthesised, and not valid");
}
