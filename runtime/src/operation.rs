//! The operation of a statement, and the value from which its sums start.

use crate::{Element, ReduceOp};
use polyshard_program::Assign;

/// What programs ask of an operation.
pub(crate) trait Operation {
    /// The operation of a statement's assignment.
    fn of(assign: Assign) -> Self;

    /// The value that leaves every bit of any other unchanged, from which parts of a result start: -0.0 for sums.
    fn neutral<T: Element>(self) -> T;
}

impl Operation for ReduceOp {
    fn of(assign: Assign) -> Self {
        match assign {
            Assign::Set | Assign::Add => Self::Sum,
            Assign::Mul => Self::Product,
            Assign::Max => Self::Max,
            Assign::Min => Self::Min,
        }
    }

    fn neutral<T: Element>(self) -> T {
        match self {
            Self::Sum => T::ZERO.negate(),
            _ => self.identity(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neutral_changes_no_bit() {
        for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min] {
            for value in [0.0, -0.0, 2.5, f64::NEG_INFINITY, f64::NAN, -f64::NAN] {
                assert_eq!(op.combine(value, op.neutral()).to_bits(), value.to_bits(), "{op:?}");
                assert_eq!(op.combine(op.neutral(), value).to_bits(), value.to_bits(), "{op:?}");
            }
        }
    }
}
