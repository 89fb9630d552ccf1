//! Which inputs of the kernels of a sequence may be in tiles that are kept.

use super::rounds::Around;
use super::stage::Stage;
use polyshard_layout::Name;
use polyshard_program::Kernel;

/// For each stage, the inputs whose tiles it may reuse in later rounds, or share with other stages.
pub(super) struct Shared {
    /// Inputs that do not change in the innermost rounds around it.
    pub(super) unchanged: Vec<Vec<Name>>,
    /// Inputs that earlier stages read.
    pub(super) before: Vec<Vec<Name>>,
    /// Inputs that any other stage reads, or that do not change.
    pub(super) with_any: Vec<Vec<Name>>,
}

impl Shared {
    pub(super) fn new(stages: &[Stage], around: &Around, kernels: &[&Kernel]) -> Self {
        let inputs = |nth: usize, others: &dyn Fn(usize) -> bool| {
            let others: Vec<&Stage> =
                (0..stages.len()).filter(|&other| others(other)).map(|nth| &stages[nth]).collect();
            let inputs = kernels[nth].inputs().iter().zip(&stages[nth].inputs);
            let is_read = |value: &Name| others.iter().any(|other| other.inputs.contains(value));
            inputs.filter(|(_, value)| is_read(value)).map(|(tensor, _)| tensor.name).collect()
        };
        let all = 0..stages.len();
        let unchanged: Vec<Vec<Name>> = all.clone().map(|nth| around.unchanged(stages, nth, kernels[nth])).collect();
        let both = |nth: usize| [inputs(nth, &|other| other != nth), unchanged[nth].clone()].concat();
        Self {
            before: all.clone().map(|nth| inputs(nth, &|other| other < nth)).collect(),
            with_any: all.map(both).collect(),
            unchanged,
        }
    }
}
