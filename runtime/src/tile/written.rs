//! The elements of a shard that a kernel writes; the others keep their values.
//!
//! A kernel writes its output at an affine index, such as `B[2*i + 1]`, so the elements between those that it writes, and before and after
//! them, are not part of its output, even if they are inside its tiles. Each rank derives its written elements from the index alone: no
//! schedule changes it. They are stored as formulas and enumerated on demand, so the memory does not grow with the shard.
//!
//! | module | holds |
//! | --- | --- |
//! | `progressions` | a dimension with variables of its own: the indices are sums of multiples |
//! | `joint` | dimensions that share variables, such as `C[i, i]`: a system of equations for each row |

mod joint;
mod progressions;

use crate::DistArray;
use crate::Element;
use crate::World;
use crate::layout::{Owned, Sharding};
use joint::{Joint, Row};
use polyshard_program as program;
use progressions::Progressions;
use smallvec::SmallVec;
use std::ops::Range;

/// The elements of this rank's shard of an output that some iteration of a kernel writes.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    dims: Vec<Dim>,
    joint: Option<Joint>,
    /// Whether a variable of the index has an empty range.
    nothing: bool,
}

/// One dimension of the shard.
#[derive(Clone, Debug)]
struct Dim {
    owned: Owned,
    len: usize,
    indices: Indices,
}

/// Which indices of a dimension are written.
#[derive(Clone, Debug)]
enum Indices {
    /// The indices at these positions of the block.
    Positions(Range<usize>),
    /// Those of these indices that the rank owns.
    Progressions(Progressions),
    /// The index depends on those of other dimensions.
    Joint,
}

impl Written {
    /// Returns the elements of this rank's shard of an array with this sharding at the indices that a kernel writes.
    pub(crate) fn of(world: &World, sharding: &Sharding, written: &program::Written) -> Self {
        let steps: Vec<&[i64]> = written.strides.iter().map(Vec::as_slice).collect();
        Self::new(world, sharding, &written.base, &steps, &written.counts)
    }

    /// As [`of`](Self::of), at the indices `base[d] + steps[d][0] * v[0] + steps[d][1] * v[1] + ..`, where each variable `v[l]` runs over
    /// `0..counts[l]`.
    fn new(world: &World, sharding: &Sharding, base: &[i64], steps: &[&[i64]], counts: &[usize]) -> Self {
        let (ndim, coordinates) = (sharding.shape().len(), sharding.mesh().coordinates(world.rank()));
        assert!(
            base.len() == ndim && steps.len() == ndim && steps.iter().all(|steps| steps.len() == counts.len()),
            "an output of {ndim} dimensions is written at {} indices, {steps:?}; this is a bug in polyshard",
            base.len()
        );
        let nothing = counts.contains(&0);
        let joint = if nothing { None } else { Joint::new(base, steps, counts) };
        let dim = |dim: usize| {
            let owned = sharding.owned(dim, &coordinates);
            let indices = if nothing {
                Indices::Positions(0..0)
            } else if joint.as_ref().is_some_and(|joint| joint.dims.contains(&dim)) {
                Indices::Joint
            } else {
                let variables = steps[dim].iter().zip(counts).map(|(&step, &count)| (step, count as i64));
                let found = Progressions::new(base[dim], variables);
                let below = |index: i64| owned.below(index.max(0) as usize);
                match found.as_range() {
                    Some(range) => Indices::Positions(below(range.start)..below(range.end)),
                    None => Indices::Progressions(found),
                }
            };
            Dim { len: owned.len(), owned, indices }
        };
        Self { dims: (0..ndim).map(dim).collect(), joint, nothing }
    }

    /// Sets each of these elements to `value`, and leaves the others unchanged.
    pub(crate) fn fill<T: Element>(&self, target: &mut DistArray<T>, value: T) {
        let block = target.block_mut();
        self.runs(0..block.len(), |run| block[run].fill(value));
    }

    /// Copies these elements from an array with the target's layout.
    pub(crate) fn copy<T: Element>(&self, target: &mut DistArray<T>, from: &DistArray<T>) {
        let (block, from) = (target.block_mut(), from.block());
        self.runs(0..block.len(), |run| block[run.clone()].copy_from_slice(&from[run]));
    }

    /// Copies all other elements.
    pub(crate) fn copy_others<T: Element>(&self, target: &mut DistArray<T>, from: &DistArray<T>) {
        let (block, from, mut at) = (target.block_mut(), from.block(), 0);
        self.runs(0..block.len(), |run| {
            block[at..run.start].copy_from_slice(&from[at..run.start]);
            at = run.end;
        });
        block[at..].copy_from_slice(&from[at..]);
    }

    /// Calls `visit` with each contiguous run of written positions of the block within `range`, in ascending order.
    pub(super) fn runs(&self, range: Range<usize>, mut visit: impl FnMut(Range<usize>)) {
        let Some((last, outer)) = self.dims.split_last() else { return visit(range) };
        let mut at = range.start;
        while at < range.end {
            let column = at % last.len;
            let (start, end) = (at - column, range.end.min(at - column + last.len));
            if !self.nothing {
                self.row(outer, last, start / last.len, column..end - start, |run| {
                    visit(start + run.start..start + run.end);
                });
            }
            at = end;
        }
    }

    /// Calls `visit` with the written positions within `columns` of the row with this number.
    fn row(&self, outer: &[Dim], last: &Dim, row: usize, columns: Range<usize>, mut visit: impl FnMut(Range<usize>)) {
        let mut at: SmallVec<[usize; 4]> = SmallVec::from_elem(0, outer.len());
        let mut rest = row;
        for (at, dim) in at.iter_mut().zip(outer).rev() {
            (*at, rest) = (rest % dim.len, rest / dim.len);
        }
        if !at.iter().zip(outer).all(|(&at, dim)| dim.writes(at)) {
            return;
        }
        let index = |dim: &usize| outer[*dim].owned.run(at[*dim]).start as i64;
        match (&last.indices, &self.joint) {
            (Indices::Joint, Some(joint)) => {
                let Some(row) = joint.row(joint.dims[..joint.dims.len() - 1].iter().map(index)) else { return };
                last.each_run(
                    columns,
                    |indices, put| match &row {
                        Row::Progressions(progressions) => progressions.within(indices, put),
                        Row::Solutions(_) => {
                            indices.filter(|&index| row.contains(index)).for_each(|index| put(index..index + 1));
                        }
                    },
                    visit,
                );
            }
            (_, Some(joint)) if !joint.contains(joint.dims.iter().map(index)) => {}
            (Indices::Positions(written), _) => {
                let (start, end) = (columns.start.max(written.start), columns.end.min(written.end));
                if start < end {
                    visit(start..end);
                }
            }
            (Indices::Progressions(found), _) => {
                last.each_run(columns, |indices, put| found.within(indices, put), visit)
            }
            (Indices::Joint, None) => {
                unreachable!("dimensions are joint by what joins them; this is a bug in polyshard")
            }
        }
    }
}

impl Dim {
    /// Whether the index at this position is written, as far as it does not depend on other dimensions.
    fn writes(&self, position: usize) -> bool {
        match &self.indices {
            Indices::Positions(written) => written.contains(&position),
            Indices::Progressions(found) => found.contains(self.owned.run(position).start as i64),
            Indices::Joint => true,
        }
    }

    /// Calls `visit` with the positions within `columns` whose indices are written, as `written` reports them for ranges of indices.
    fn each_run(
        &self,
        columns: Range<usize>,
        written: impl Fn(Range<i64>, &mut dyn FnMut(Range<i64>)),
        mut visit: impl FnMut(Range<usize>),
    ) {
        let mut at = columns.start;
        while at < columns.end {
            let run = self.owned.run(at);
            let end = run.end.min(run.start + columns.end - at);
            let position = |index: i64| at + (index as usize - run.start);
            written(run.start as i64..end as i64, &mut |found| visit(position(found.start)..position(found.end)));
            at += end - run.start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Mesh, Sharding};
    use crate::sample::{indices, on_ranks, shardings};
    use crate::{Region, Result, spmd};
    use proptest::prelude::*;

    proptest! {
        /// For any index and sharding, the elements written are those that some values of the variables reach.
        #[test]
        fn an_element_is_written_if_some_iteration_writes_it(
            sharding in shardings(),
            base in prop::collection::vec(0i64..4, 3),
            steps in prop::collection::vec(prop::collection::vec(-2i64..4, 3), 3),
            counts in prop::collection::vec(0usize..4, 3),
            alone in any::<bool>(),
        ) {
            let ndim = sharding.shape().len();
            // Half of the cases have one variable per dimension, like most kernels.
            let steps: Vec<Vec<i64>> = steps[..ndim.min(3)].iter().enumerate().map(|(d, steps)| {
                steps.iter().enumerate().map(|(l, &step)| if alone && l != d { 0 } else { step }).collect()
            }).collect();
            let mut values = vec![[0; 3]];
            for l in 0..3 {
                values = values.iter().flat_map(|at| (0..counts[l] as i64).map(move |v| {
                    let mut at = *at;
                    at[l] = v;
                    at
                })).collect();
            }
            let base = &base[..ndim];
            let written: Vec<Vec<i64>> = values.iter().map(|at| {
                (0..ndim).map(|d| base[d] + (0..3).map(|l| steps[d][l] * at[l]).sum::<i64>()).collect()
            }).collect();
            on_ranks(sharding.mesh().size(), |world| {
                let mut held = DistArray::filled(world, &sharding, 9)?;
                let rows: Vec<&[i64]> = steps.iter().map(|steps| &steps[..]).collect();
                Written::new(world, &sharding, base, &rows, &counts).fill(&mut held, 0);
                for index in indices(&Region::whole(sharding.shape())) {
                    let global: Vec<i64> = index.iter().map(|&i| i as i64).collect();
                    if let Some(element) = held.get(&index) {
                        let hit = ndim == 0 || written.contains(&global);
                        assert_eq!(element == 0, hit, "{index:?} of {sharding}, {base:?} {steps:?} {counts:?}");
                    }
                }
                Ok(())
            });
        }
    }

    #[test]
    fn an_index_that_does_not_fit_the_output_is_a_bug() {
        let message = spmd(1, |world| -> Result<()> {
            let _ = Written::new(world, &Sharding::replicated(&Mesh::default(), &[3]), &[], &[], &[]);
            Ok(())
        });
        let message = message.expect_err("there is one dimension").to_string();
        assert!(message.contains("an output of 1 dimensions is written at 0 indices"), "{message}");
    }
}
