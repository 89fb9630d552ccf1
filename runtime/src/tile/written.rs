//! Which elements of a shard a kernel writes: the others keep what they hold.
//!
//! A kernel writes its output at an affine index, `B[2*i + 1]` say, so the elements between those that it writes, and
//! before and after them, are not its own, even where they lie in its tiles. Each rank knows which of its own
//! elements are written from the index alone: no schedule changes it.

use crate::DistArray;
use crate::Element;
use std::ops::Range;

/// The elements of this rank's shard of an output that some iteration of a kernel writes.
///
/// ```
/// use polyshard_runtime::layout::{Mesh, Sharding};
/// use polyshard_runtime::{DistArray, Error, Written, spmd};
/// let whole = Sharding::replicated(&Mesh::default(), &[7]);
/// let held = spmd(1, |world| -> Result<_, Error> {
///     let mut b = DistArray::filled(world, &whole, 9)?;
///     // B[2*i + 1] for i in 0..3
///     Written::new(&b, &[1], &[&[2]], &[3]).fill(&mut b, 0);
///     Ok(b.block().to_vec())
/// })?;
/// assert_eq!(held, [[9, 0, 9, 0, 9, 0, 9]]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Written {
    /// An element is written if each of its local indices is, by dimension; where dimensions share variables, the
    /// one index here is the position in the block. These are the dimensions but the last.
    outer: Vec<Vec<bool>>,
    /// The indices along the last dimension, if there is one.
    row: Option<Row>,
}

/// The indices along a dimension that are written.
#[derive(Clone, Debug)]
struct Row {
    /// As far as they follow one another, ascending.
    runs: Vec<Range<usize>>,
    /// The number of all.
    len: usize,
}

/// A variable of the index, and how far the variables after it reach.
struct Variable {
    count: i64,
    /// How far one step moves the index, by dimension.
    steps: Vec<i64>,
    /// The least and the greatest that the variables after this one add to the index, by dimension.
    rest: Vec<(i64, i64)>,
}

impl Written {
    /// Returns the elements of `target` at the global indices `base[d] + steps[d][0] * v[0] + steps[d][1] * v[1] + ..`
    /// where each variable `v[l]` runs over `0..counts[l]`. Moves no data.
    ///
    /// # Panics
    /// If `base` or `steps` do not fit the number of dimensions: a bug of polyshard.
    #[must_use]
    pub fn new<T>(target: &DistArray<T>, base: &[i64], steps: &[&[i64]], counts: &[usize]) -> Self {
        let ndim = target.ndim();
        assert!(
            base.len() == ndim && steps.len() == ndim && steps.iter().all(|steps| steps.len() == counts.len()),
            "an output of {ndim} dimensions is written at {} indices, {steps:?}; this is a bug of polyshard",
            base.len()
        );
        let owned: Vec<Vec<i64>> = (0..ndim).map(|dim| target.owned(dim).map(|index| index as i64).collect()).collect();
        let shared = (0..counts.len()).any(|l| steps.iter().filter(|steps| steps[l] != 0).count() > 1);
        if !shared {
            let dims = owned.iter().zip(base.iter().zip(steps)).map(|(owned, (&base, &steps))| {
                let variables = variables(&[steps], counts);
                owned.iter().map(|&index| reached(&[index - base], &variables)).collect()
            });
            return Self::of(dims.collect());
        }
        let variables = variables(steps, counts);
        let mut rests = vec![Vec::new()];
        for (owned, &base) in owned.iter().zip(base) {
            let longer = |rest: &Vec<i64>| -> Vec<Vec<i64>> {
                owned.iter().map(|&index| [&rest[..], &[index - base]].concat()).collect()
            };
            rests = rests.iter().flat_map(longer).collect();
        }
        Self::of(vec![rests.iter().map(|rest| reached(rest, &variables)).collect()])
    }

    fn of(mut dims: Vec<Vec<bool>>) -> Self {
        let row = dims.pop().map(|row| {
            let mut next = 0;
            let runs = row.chunk_by(|left, right| left == right).map(|run| {
                next += run.len();
                (run[0], next - run.len()..next)
            });
            Row { runs: runs.filter(|(written, _)| *written).map(|(_, run)| run).collect(), len: row.len() }
        });
        Self { outer: dims, row }
    }

    /// Makes each of these elements `value`, and leaves the others as they are.
    pub fn fill<T: Element>(&self, target: &mut DistArray<T>, value: T) {
        let block = target.block_mut();
        self.runs(0..block.len(), |run| block[run].fill(value));
    }

    /// Calls `visit` with the positions of the block within `range` that are written, as far as they follow one another.
    pub(super) fn runs(&self, range: Range<usize>, mut visit: impl FnMut(Range<usize>)) {
        let Some(row) = &self.row else { return visit(range) };
        let mut at = range.start;
        while at < range.end {
            let column = at % row.len;
            let start = at - column;
            let end = range.end.min(start + row.len);
            if is_written(&self.outer, at / row.len) {
                let first = row.runs.partition_point(|run| run.end <= column);
                let runs = row.runs[first..].iter().take_while(|run| start + run.start < end);
                runs.for_each(|run| visit(at.max(start + run.start)..end.min(start + run.end)));
            }
            at = end;
        }
    }
}

/// Whether the row with this number, row-major over the dimensions `outer`, has elements that are written.
fn is_written(outer: &[Vec<bool>], row: usize) -> bool {
    let mut rest = row;
    outer.iter().rev().all(|dim| {
        let index = rest % dim.len();
        rest /= dim.len();
        dim[index]
    })
}

/// The variables in an order in which each leaves few values to try for those after it.
fn variables(steps: &[&[i64]], counts: &[usize]) -> Vec<Variable> {
    let column = |l: usize| -> Vec<i64> { steps.iter().map(|steps| steps[l]).collect() };
    let mut order: Vec<usize> = (0..counts.len()).collect();
    // A variable that is alone in a dimension has one value there; after those, great steps leave the fewest.
    let beside = |l: usize| {
        let used = steps.iter().filter(|steps| steps[l] != 0);
        used.map(|steps| steps.iter().filter(|&&step| step != 0).count()).min()
    };
    let step = |l: usize| steps.iter().map(|steps| steps[l].abs()).max();
    order.sort_by_key(|&l| (beside(l), std::cmp::Reverse(step(l))));
    let mut rest = vec![(0, 0); steps.len()];
    let mut variables: Vec<Variable> = Vec::new();
    for l in order.into_iter().rev() {
        let (count, steps) = (counts[l] as i64, column(l));
        variables.push(Variable { count, steps: steps.clone(), rest: rest.clone() });
        for ((least, most), step) in rest.iter_mut().zip(steps) {
            let reach = step * (count - 1).max(0);
            *least += reach.min(0);
            *most += reach.max(0);
        }
    }
    variables.reverse();
    variables
}

/// Whether some values of the variables move the index by `rest`.
fn reached(rest: &[i64], variables: &[Variable]) -> bool {
    let Some((variable, others)) = variables.split_first() else { return rest.iter().all(|&rest| rest == 0) };
    // Of a variable that moves nothing, one value is as good as any.
    let values = if variable.steps.iter().all(|&step| step == 0) { variable.count.min(1) } else { variable.count };
    let (mut first, mut last) = (0, values - 1);
    for ((&rest, &step), (least, most)) in rest.iter().zip(&variable.steps).zip(&variable.rest) {
        // What is left for the others, `rest - step * value`, is within their reach.
        let (low, high) = if step < 0 { (least - rest, most - rest) } else { (rest - most, rest - least) };
        match step.abs() {
            0 => {}
            size => {
                first = first.max(-(-low).div_euclid(size));
                last = last.min(high.div_euclid(size));
            }
        }
    }
    if others.is_empty() {
        // What it moves, one value moves as far as is left.
        return first <= last && rest.iter().zip(&variable.steps).all(|(&rest, &step)| step != 0 || rest == 0);
    }
    (first..=last).any(|value| {
        let rest: Vec<i64> = rest.iter().zip(&variable.steps).map(|(rest, step)| rest - step * value).collect();
        reached(&rest, others)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Mesh, Sharding};
    use crate::sample::{indices, on_ranks, shardings};
    use crate::{Region, Result, spmd};
    use proptest::prelude::*;

    proptest! {
        /// Whatever the index and the sharding, the elements written are those that some values of the variables give.
        #[test]
        fn an_element_is_written_if_some_iteration_writes_it(
            sharding in shardings(),
            base in prop::collection::vec(0i64..4, 3),
            steps in prop::collection::vec(prop::collection::vec(-2i64..4, 3), 3),
            counts in prop::collection::vec(0usize..4, 3),
            alone in any::<bool>(),
        ) {
            let ndim = sharding.shape().len();
            // Half of the cases have one variable per dimension, as most kernels have.
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
                Written::new(&held, base, &rows, &counts).fill(&mut held, 0);
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
            let target = DistArray::filled(world, &Sharding::replicated(&Mesh::default(), &[3]), 0)?;
            let _ = Written::new(&target, &[], &[], &[]);
            Ok(())
        });
        let message = message.expect_err("there is one dimension").to_string();
        assert!(message.contains("an output of 1 dimensions is written at 0 indices"), "{message}");
    }
}
