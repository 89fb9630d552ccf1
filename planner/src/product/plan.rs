//! The sequences of a product, sorted, the cheapest first.

use super::Sharded;
use super::{Free, Operand, Product, ProductStep, StepCost};

/// One way to a product: steps, in the order in which they run, and what they cost.
///
/// Factors are redistributed for the multiplication, then every rank multiplies, then the result is redistributed as
/// asked for. Each step begins with what the last one on its array left.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    pub(super) work: String,
    pub(super) left: Sharded,
    pub(super) right: Sharded,
    pub(super) steps: Vec<ProductStep>,
    pub(super) costs: Vec<StepCost>,
    pub(super) fits: bool,
}

impl Sequence {
    /// Returns which axes cut which loop of the product, as in `I_X J K_Y`: how the work is split.
    #[must_use]
    pub fn work(&self) -> &str {
        &self.work
    }

    /// Returns the first factor as it lies before all steps.
    #[must_use]
    pub fn left(&self) -> &Sharded {
        &self.left
    }

    /// Returns the second factor as it lies before all steps.
    #[must_use]
    pub fn right(&self) -> &Sharded {
        &self.right
    }

    /// Returns the steps.
    #[must_use]
    pub fn steps(&self) -> &[ProductStep] {
        &self.steps
    }

    /// Returns what each step costs; its memory is all that a device holds meanwhile, the factors as given among it.
    #[must_use]
    pub fn costs(&self) -> &[StepCost] {
        &self.costs
    }

    /// Returns what the steps cost together; memory is the most of all steps.
    #[must_use]
    pub fn total(&self) -> StepCost {
        self.costs.iter().fold(StepCost::default(), |sum, step| StepCost {
            bytes: sum.bytes + step.bytes,
            communication: sum.communication + step.communication,
            arithmetic: sum.arithmetic + step.arithmetic,
            memory: sum.memory.max(step.memory),
        })
    }

    /// Whether some array takes more than two steps.
    pub(super) fn is_long(&self) -> bool {
        [Operand::Left, Operand::Right, Operand::Out].iter().any(|which| {
            let moves = |step: &&ProductStep| matches!(step, ProductStep::Move { operand, .. } if operand == which);
            self.steps.iter().filter(moves).count() > 2
        })
    }

    /// Returns whether it fits into a device's memory.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.fits
    }
}

/// The sequences of a product worth considering, on one machine.
///
/// For each way to let axes of the mesh cut loops of the product there is one, the cheapest of them; it is left out if
/// it moves an array in more than two steps and one before it is no worse in transfer, time or memory.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductPlan {
    pub(super) product: Product,
    pub(super) free: Option<Free>,
    pub(super) capacity: u128,
    pub(super) sequences: Vec<Sequence>,
}

impl ProductPlan {
    /// Returns the product.
    #[must_use]
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// Returns all sequences: those that fit into memory first, of those the one with least time if communication and
    /// arithmetic overlap, then if they do not, then with least memory. Those that do not fit come by memory.
    #[must_use]
    pub fn sequences(&self) -> &[Sequence] {
        &self.sequences
    }

    /// Returns the first sequence, which fits.
    #[must_use]
    pub fn best(&self) -> &Sequence {
        &self.sequences[0]
    }

    /// Returns the bytes of memory that a device has.
    #[must_use]
    pub fn capacity(&self) -> u128 {
        self.capacity
    }
}
