//! Lowering: from a program to groups of ranks of the whole machine.
//!
//! The reduction's groups all have the same shape: with its ranks ascending, position `p` of each is device `p` of the
//! synthesis hierarchy. So an instruction's groups are repeated in each of them:
//!
//! ```text
//! hierarchy root 1, node 2, gpu 2       AllReduce(node, Parallel(root))     {0, 2} {1, 3}
//! reduced   {0 1 16 17} {2 3 18 19}     lowered                             {0, 16} {1, 17} {2, 18} {3, 19}
//! ```
//!
//! Adding collectives leave out groups that hold nothing. Lowering counts how much each rank holds; that the result is
//! the sum is left to the proof, which shares no code with it.

use super::{Hierarchy, Instruction, ReduceError, ReductionProgram};
use crate::factor::lcm;
use crate::placement::ParallelismMatrix;
use polyshard_program::reduction::{Collective, Lowered, LoweredStep};
use std::collections::HashMap;
use std::sync::Arc;

impl ReductionProgram {
    /// Lowers the program over the axes of a placement.
    ///
    /// ```
    /// use polyshard::planner::placement::ParallelismMatrix;
    /// use polyshard::planner::reduce::{AllowedMasters, Hierarchy, synthesize};
    /// let matrix = ParallelismMatrix::new(vec![vec![2, 3], vec![2, 2]])?;
    /// for program in synthesize(&Hierarchy::reduction(&matrix, &[0])?, 5, AllowedMasters::OthersIdle) {
    ///     program.lower(&matrix, &[0])?.prove()?;
    /// }
    /// # Ok::<(), polyshard::planner::reduce::ReduceError>(())
    /// ```
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, an instruction names levels that the reduction lacks, all groups of
    /// a step hold nothing, or ranks of a step hold incompatible amounts.
    pub fn lower(&self, matrix: &ParallelismMatrix, axes: &[usize]) -> Result<Lowered, ReduceError> {
        Lowering::new(matrix, axes)?.lower(self)
    }
}

/// Lowers several programs of one placement, and stores equal groups once.
pub(super) struct Lowering {
    reduced: Arc<Vec<Vec<usize>>>,
    hierarchy: Hierarchy,
    /// Lowered groups, by the small groups that hold something.
    lowered: HashMap<Vec<Vec<usize>>, Arc<Vec<Vec<usize>>>>,
}

impl Lowering {
    pub(super) fn new(matrix: &ParallelismMatrix, axes: &[usize]) -> Result<Self, ReduceError> {
        let hierarchy = Hierarchy::reduction(matrix, axes)?;
        let reduced = Arc::new(matrix.groups(axes)?);
        Ok(Self { reduced, hierarchy, lowered: HashMap::new() })
    }

    pub(super) fn lower(&mut self, program: &ReductionProgram) -> Result<Lowered, ReduceError> {
        // The fraction of the array that each device holds: 1 / n, or nothing.
        let mut held: Vec<Option<usize>> = vec![Some(1); self.hierarchy.devices()];
        let mut steps = Vec::with_capacity(program.instructions.len());
        let mut chunks = 1;
        for (number, instruction) in program.instructions.iter().enumerate() {
            let (groups, parts) = self.step(number + 1, instruction, &mut held)?;
            chunks = held.iter().flatten().fold(chunks, |chunks, parts| lcm(chunks, *parts));
            let groups = self.lowered.entry(groups).or_insert_with_key(|groups| {
                let on = |reduced: &Vec<usize>, group: &Vec<usize>| group.iter().map(|&at| reduced[at]).collect();
                let repeated =
                    self.reduced.iter().flat_map(|reduced| groups.iter().map(move |group| on(reduced, group)));
                Arc::new(repeated.collect())
            });
            steps.push(LoweredStep { collective: instruction.collective, groups: groups.clone(), parts });
        }
        Ok(Lowered::from_known(self.reduced.clone(), chunks, steps))
    }

    /// The groups of the hierarchy that hold something, and the number of parts of the array; updates `held` to the
    /// amounts afterwards.
    fn step(
        &self,
        step: usize,
        instruction: &Instruction,
        held: &mut [Option<usize>],
    ) -> Result<(Vec<Vec<usize>>, usize), ReduceError> {
        let collective = instruction.collective;
        let mut groups = instruction.groups(&self.hierarchy)?;
        // Only adding collectives may leave out groups that hold nothing; see `rules`.
        let active = |group: &[usize]| !collective.reduces() || group.iter().any(|&device| held[device].is_some());
        groups.retain(|group| group.len() > 1 && active(group));
        let root = groups.first().map(|group| held[group[0]]).ok_or(ReduceError::Nothing { step, collective })?;
        for group in &groups {
            let who = if collective == Collective::Broadcast { &group[..1] } else { &group[..] };
            if let Some(&other) = who.iter().find(|&&device| held[device] != root) {
                let [first, other] = [root, held[other]].map(amount);
                return Err(ReduceError::Uneven { step, collective, first, other });
            }
        }
        // The root of a broadcast may have nothing to send; every other group holds something.
        let Some(parts) = root else { return Err(ReduceError::Nothing { step, collective }) };
        for group in &groups {
            let n = group.len();
            for (position, &device) in group.iter().enumerate() {
                held[device] = match collective {
                    Collective::Reduce => (position == 0).then_some(parts),
                    Collective::ReduceScatter => Some(parts * n),
                    Collective::AllGather if parts.is_multiple_of(n) => Some(parts / n),
                    Collective::AllGather => {
                        return Err(ReduceError::Whole { step, ranks: n, held: amount(Some(parts)) });
                    }
                    // The proof refuses collectives that cannot be part of a reduction.
                    _ => Some(parts),
                };
            }
        }
        Ok((groups, parts))
    }
}

/// The part of the array that a device holds, as text: `1/4 of the array`, or `nothing`.
fn amount(parts: Option<usize>) -> String {
    match parts {
        None => "nothing".into(),
        Some(1) => "all of the array".into(),
        Some(parts) => format!("1/{parts} of the array"),
    }
}
