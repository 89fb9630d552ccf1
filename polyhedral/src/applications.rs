//! Kernels that are applied several times, each time to their previous output: which kernels allow it, and how far they reach.

use crate::error::ErrorKind;
use crate::state::{Applied, State};
use polyshard_layout::Name;
use polyshard_program::{Access, Assign, Expr, Kernel, StepId};

/// How often a kernel is applied, and how far one application reads beyond the element that it writes.
pub(crate) struct Applications {
    pub tensor: Name,
    pub count: i64,
    pub step: StepId,
    /// Per dimension, below and above.
    pub reach: Vec<[i64; 2]>,
    pub periodic: Vec<bool>,
}

impl Applications {
    /// The applications that the schedule asks for; `None` if the kernel is applied once or is empty.
    ///
    /// # Errors
    /// Why the kernel cannot be applied to its own output, with the step that asks for it.
    pub(crate) fn new(state: &State) -> Result<Option<Self>, (StepId, ErrorKind)> {
        let Some(Applied { tensor, count, step }) = state.applied else { return Ok(None) };
        let kernel = &state.kernel;
        if count == 1 || kernel.is_empty() {
            return Ok(None);
        }
        let found = reach_of(kernel, tensor).and_then(|(reach, periodic)| {
            match state.sharding(tensor) == state.sharding(kernel.output().name) {
                true => Ok((reach, periodic)),
                false => Err("its input and its output have different shardings"),
            }
        });
        let (reach, periodic) = found.map_err(|why| (step, ErrorKind::NoTimeSteps { tensor, why }))?;
        Ok(Some(Self { tensor, count: count as i64, step, reach, periodic }))
    }

    /// The region that one application reads, widened for all of them.
    pub(crate) fn widened(&self, mut ranges: Vec<(Expr, Expr)>) -> Vec<(Expr, Expr)> {
        for ((low, high), [below, above]) in ranges.iter_mut().zip(&self.reach) {
            *low = low.offset_by(-(self.count - 1).saturating_mul(*below));
            *high = high.offset_by((self.count - 1).saturating_mul(*above));
        }
        ranges
    }
}

/// How far a kernel reads beyond its own element per dimension, and which dimensions are periodic.
fn reach_of(kernel: &Kernel, tensor: Name) -> Result<(Vec<[i64; 2]>, Vec<bool>), &'static str> {
    let [input] = kernel.inputs() else { return Err("it reads other tensors, which do not change with the steps") };
    let output = kernel.output();
    if input.name != tensor || input.shape != output.shape {
        return Err("its input and its output have different shapes, or the input is another one");
    }
    let target = &kernel.target().index;
    let vars: Option<Vec<Name>> = target.iter().map(|index| index.as_variable()).collect();
    let writes_all =
        kernel.assign() == Assign::Set && kernel.written().is_none() && kernel.vars().len() == target.len();
    let (Some(vars), true) = (vars, writes_all) else {
        return Err("it does not assign each element of its output once, with one index per dimension");
    };
    let (mut reach, mut periodic) = (vec![[0, 0]; vars.len()], vec![false; vars.len()]);
    let accesses = kernel.value().accesses();
    for access in &accesses {
        for (dim, index) in access.index.iter().enumerate() {
            periodic[dim] |= index.period().is_some();
        }
        for (dim, index) in access.unwrapped().index.iter().enumerate() {
            if index.terms != [(vars[dim], 1)] {
                return Err("it reads elements that are not at a fixed distance from the one that it writes");
            }
            reach[dim][0] = reach[dim][0].max(-index.constant);
            reach[dim][1] = reach[dim][1].max(index.constant);
        }
    }
    let leaves = |access: &&Access| {
        access.index.iter().zip(&periodic).any(|(index, goes_round)| {
            let period = index.period();
            *goes_round && period.is_none() && index.constant != 0
        })
    };
    if accesses.iter().any(leaves) || periodic.contains(&true) && !kernel.value().indices().is_empty() {
        return Err("an index wraps in one access and not in another");
    }
    Ok((reach, periodic))
}
