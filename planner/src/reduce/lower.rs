//! Lowering: from a program to groups of ranks of the whole machine.
//!
//! The reduction's groups all look alike: with its ranks ascending, position `p` of each is device `p` of the
//! synthesis hierarchy. So an instruction's groups are repeated in every one of them:
//!
//! ```text
//! hierarchy root 1, node 2, gpu 2       AllReduce(node, Parallel(root))     {0, 2} {1, 3}
//! reduced   {0 1 16 17} {2 3 18 19}     lowered                             {0, 16} {1, 17} {2, 18} {3, 19}
//! ```
//!
//! Groups that hold nothing are left out of what adds. Lowering counts how much each rank holds; that the sum comes
//! out is for `proof`, which shares none of this.

use super::{Collective, Context, Hierarchy, Instruction, Program, ReduceError};
use crate::factor::lcm;
use crate::placement::ParallelismMatrix;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A reduction program for the ranks of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    ranks: usize,
    reduced: Arc<Vec<Vec<usize>>>,
    chunks: usize,
    steps: Vec<LoweredStep>,
}

/// One step: a collective in several groups at once.
#[derive(Clone, Debug, PartialEq)]
pub struct LoweredStep {
    /// What is done.
    pub collective: Collective,
    /// The groups; of what adds, those that hold something. The first rank of each is its root, and the order is
    /// that of scattered pieces.
    pub groups: Arc<Vec<Vec<usize>>>,
    /// Each rank that takes part (of a broadcast, each root) holds this part of the array before: one of `parts`.
    pub parts: usize,
}

impl Lowered {
    /// Lowers a program over the axes of a placement.
    ///
    /// # Errors
    /// If an axis does not exist or is named twice, an instruction names levels that the reduction lacks, all groups
    /// of a step hold nothing, or ranks of a step hold amounts that do not go together.
    pub fn new(program: &Program, matrix: &ParallelismMatrix, axes: &[usize]) -> Result<Self, ReduceError> {
        Lowering::new(matrix, axes)?.lower(program)
    }

    /// Returns the program of these steps, which sums each group of `reduced`, on arrays of `chunks` equal chunks.
    ///
    /// For programs from elsewhere: [`prove`](Self::prove) says whether they do.
    ///
    /// ```
    /// use polyshard_planner::reduce::{Collective, Lowered, LoweredStep};
    /// // A butterfly of two stages.
    /// let stage = |groups: [[usize; 2]; 2]| {
    ///     let groups = groups.map(Vec::from).to_vec().into();
    ///     LoweredStep { collective: Collective::AllReduce, groups, parts: 1 }
    /// };
    /// let stages = vec![stage([[0, 1], [2, 3]]), stage([[0, 2], [1, 3]])];
    /// Lowered::from_steps(vec![vec![0, 1, 2, 3]], 1, stages)?.prove()?;
    /// # Ok::<(), polyshard_planner::reduce::ReduceError>(())
    /// ```
    ///
    /// # Errors
    /// If the groups of `reduced` do not have each rank from 0 on once, a step names another rank or one twice, or
    /// there are no chunks.
    pub fn from_steps(reduced: Vec<Vec<usize>>, chunks: usize, steps: Vec<LoweredStep>) -> Result<Self, ReduceError> {
        let ranks = reduced.iter().map(Vec::len).sum();
        let mut seen = vec![false; ranks];
        for &rank in reduced.iter().flatten() {
            match seen.get_mut(rank) {
                None => return Err(ReduceError::Ranks { rank, why: "is too large", ranks }),
                Some(true) => return Err(ReduceError::Ranks { rank, why: "is in two of them", ranks }),
                Some(seen) => *seen = true,
            }
        }
        for step in &steps {
            let mut seen = vec![false; ranks];
            for &rank in step.groups.iter().flatten() {
                match seen.get_mut(rank) {
                    None => return Err(ReduceError::Ranks { rank, why: "is in a step and in none of them", ranks }),
                    Some(true) => return Err(ReduceError::Ranks { rank, why: "is twice in one step", ranks }),
                    Some(seen) => *seen = true,
                }
            }
        }
        if chunks == 0 {
            return Err(ReduceError::NoChunks);
        }
        Ok(Self { ranks, reduced: Arc::new(reduced), chunks, steps })
    }

    /// Returns the number of ranks of the machine.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Returns the groups whose ranks are to be summed, each ascending.
    #[must_use]
    pub fn reduced(&self) -> &[Vec<usize>] {
        &self.reduced
    }

    /// Returns the fewest equal chunks in which an array can be, so that each step moves whole ones.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Returns the steps.
    #[must_use]
    pub fn steps(&self) -> &[LoweredStep] {
        &self.steps
    }

    /// Returns the chunks that each rank holds before each step and after the last: by step, then by rank.
    ///
    /// Chunk `c` of an array of `n` elements may be any piece of it, as long as all ranks take it alike.
    ///
    /// ```
    /// use polyshard_planner::placement::ParallelismMatrix;
    /// use polyshard_planner::reduce::{Hierarchy, Lowered, Masters, synthesize};
    /// let matrix = ParallelismMatrix::new(vec![vec![2]])?;
    /// let program = &synthesize(&Hierarchy::reduction(&matrix, &[0])?, 2, Masters::Idle)[1];
    /// let lowered = Lowered::new(program, &matrix, &[0])?; // ReduceScatter-AllGather
    /// assert_eq!(lowered.layout()?, [[vec![0..2], vec![0..2]], [vec![0..1], vec![1..2]], [vec![0..2], vec![0..2]]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the program breaks a rule.
    pub fn layout(&self) -> Result<Vec<Vec<Vec<Range<usize>>>>, ReduceError> {
        let mut layout = vec![vec![vec![]; self.ranks]; self.steps.len() + 1];
        for reduced in self.reduced.iter() {
            self.replay(reduced, &mut |step, context: &Context| {
                for (position, &rank) in reduced.iter().enumerate() {
                    layout[step][rank] = ranges(&context.chunks_of(position));
                }
            })?;
        }
        Ok(layout)
    }
}

/// Lowers several programs of one placement, and writes equal groups once.
pub(super) struct Lowering {
    ranks: usize,
    reduced: Arc<Vec<Vec<usize>>>,
    hierarchy: Hierarchy,
    /// By the small groups that hold something.
    lowered: HashMap<Vec<Vec<usize>>, Arc<Vec<Vec<usize>>>>,
}

impl Lowering {
    pub(super) fn new(matrix: &ParallelismMatrix, axes: &[usize]) -> Result<Self, ReduceError> {
        let hierarchy = Hierarchy::reduction(matrix, axes)?;
        let reduced = Arc::new(matrix.groups(axes)?);
        Ok(Self { ranks: matrix.size(), reduced, hierarchy, lowered: HashMap::new() })
    }

    pub(super) fn lower(&mut self, program: &Program) -> Result<Lowered, ReduceError> {
        // The part of the array that each device holds: one of so many, or nothing.
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
        Ok(Lowered { ranks: self.ranks, reduced: self.reduced.clone(), chunks, steps })
    }

    /// The groups of the hierarchy that hold something, and in how many parts the array is; `held` becomes what is
    /// held after.
    fn step(
        &self,
        step: usize,
        instruction: &Instruction,
        held: &mut [Option<usize>],
    ) -> Result<(Vec<Vec<usize>>, usize), ReduceError> {
        let collective = instruction.collective;
        let mut groups = instruction.groups(&self.hierarchy)?;
        // Only those that add may leave groups alone that hold nothing; see `rules`.
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
        // The first of a broadcast that has nothing to give; every other group holds something.
        let Some(parts) = root else { return Err(ReduceError::Nothing { step, collective }) };
        for group in &groups {
            let n = group.len();
            for (position, &device) in group.iter().enumerate() {
                held[device] = match collective {
                    Collective::AllReduce | Collective::Broadcast => Some(parts),
                    Collective::Reduce => (position == 0).then_some(parts),
                    Collective::ReduceScatter => Some(parts * n),
                    Collective::AllGather if parts.is_multiple_of(n) => Some(parts / n),
                    Collective::AllGather => {
                        return Err(ReduceError::Whole { step, ranks: n, held: amount(Some(parts)) });
                    }
                };
            }
        }
        Ok((groups, parts))
    }
}

/// One of so many parts of the array, or nothing, in words.
fn amount(parts: Option<usize>) -> String {
    match parts {
        None => "nothing".into(),
        Some(1) => "all of the array".into(),
        Some(parts) => format!("1/{parts} of the array"),
    }
}

/// Chunks as ranges of neighbours.
fn ranges(chunks: &[usize]) -> Vec<Range<usize>> {
    chunks.chunk_by(|left, right| left + 1 == *right).map(|run| run[0]..run[run.len() - 1] + 1).collect()
}
