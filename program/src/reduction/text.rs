//! Reductions as text.

use super::listed;
use super::procedure::Procedure;
use polyshard_layout::joined;
use std::fmt;

impl Procedure {
    /// Returns the steps as lines: the collective, and the groups.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        match self.steps() {
            Some(lowered) => {
                let line = |step: &super::LoweredStep| format!("{} in {}", step.collective, listed(&step.groups));
                lowered.steps().iter().map(line).collect()
            }
            None => vec![format!("in the order of the ranks in {}", listed(self.groups()))],
        }
    }

    /// Returns how the reduction is carried out, as a clause:
    /// `by ReduceScatter-AllGather`, or `in the order of the ranks`.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{} {self}", if self.steps().is_some() { "by" } else { "in" })
    }
}

/// Writes `ReduceScatter-AllGather`, or the order of a procedure without steps.
impl fmt::Display for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.steps() {
            Some(lowered) if lowered.steps().is_empty() => f.write_str("nothing"),
            Some(lowered) => f.write_str(&joined(lowered.steps().iter().map(|step| step.collective), "-")),
            None => f.write_str("the order of the ranks"),
        }
    }
}
