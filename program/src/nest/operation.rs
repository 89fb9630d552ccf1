//! Checks that the operation of a leaf fits its loops, operands and scalars.

use super::{Factor, Leaf, LeafAccess, LeafOp, LoopBlock, NestView, Product, Role, TileOperand};
use crate::affine::Affine;
use crate::bounds::LIMIT;
use crate::ids::LeafLoopId;
use crate::kernel_numbers::check_value;
use crate::value::{Access, Value};
use polyshard_layout::Name;

impl NestView<'_> {
    /// Whether the operation reads operands that the leaf has, and its loops index them as their roles say.
    pub(super) fn operation_fits(&self, leaf: &Leaf) -> bool {
        let (loops, operands) = (leaf.loops.len(), leaf.operands.len());
        let moves =
            |access: &LeafAccess, number: LeafLoopId| access.strides.iter().any(|strides| strides[number.0] != 0);
        match &leaf.op {
            LeafOp::Nest => true,
            LeafOp::Contraction { roles, alpha } => {
                let [a, b] = &leaf.operands[..] else { return false };
                let plays = |(number, &role): (usize, &Role)| {
                    plays(role, [a, b, &leaf.target].map(|access| moves(access, LeafLoopId(number))))
                };
                roles.len() == loops && roles.iter().enumerate().all(plays) && self.is_factor(alpha)
            }
            LeafOp::Products { steps, blocks, alpha } => {
                let moved = |factor: Factor, number: LeafLoopId| match factor {
                    Factor::Operand(operand) => moves(&leaf.operands[operand.0], number),
                    Factor::Scratch(other) => steps[other.0].kept.contains(&number),
                };
                let step = |(nth, step): (usize, &Product)| {
                    let there = |factor: &Factor| match *factor {
                        Factor::Operand(operand) => operand.0 < operands,
                        Factor::Scratch(other) => other.0 < nth,
                    };
                    let is_last = nth + 1 == steps.len();
                    let result = |number: LeafLoopId| {
                        if is_last { moves(&leaf.target, number) } else { step.kept.contains(&number) }
                    };
                    let parts = |number: LeafLoopId| {
                        let [a, b] = step.factors.map(|factor| moved(factor, number));
                        [a, b, result(number)]
                    };
                    let mut roles = step.loops.iter().zip(&step.roles);
                    step.factors.iter().all(there)
                        && step.loops.iter().chain(&step.kept).all(|number| number.0 < loops)
                        && (step.roles.is_empty() || step.roles.len() == step.loops.len())
                        && roles.all(|(&number, &role)| plays(role, parts(number)))
                        && step.level.0 <= blocks.len()
                        && (is_last || self.most_kept(leaf, step, blocks) <= step.capacity as i128)
                        && step.capacity as i128 <= LIMIT
                };
                let blocked = blocks.iter().all(|block| block.number.0 < loops && block.size > 0);
                blocked && !steps.is_empty() && steps.iter().enumerate().all(step) && self.is_factor(alpha)
            }
            LeafOp::Named { operands: tiles, statement, .. } => {
                let there = tiles.iter().all(|tile| match *tile {
                    TileOperand::Access(operand) => operand.0 < operands,
                    TileOperand::Scalar(name) => self.has_scalar(name),
                });
                let mut indices = statement.value.accesses().into_iter().flat_map(|tile| &tile.index);
                // The target is the first of the statement's tiles.
                let all_are = tiles.len() + 1 == statement.tiles().len();
                there
                    && all_are
                    && indices.all(|index| loop_of(leaf, index).is_some())
                    && self.is_computable(&statement.value)
                    && self.is_apart(leaf, &statement.target)
            }
        }
    }

    /// Whether no two elements of the output's tile, which has a dimension per index of `tile`, are the same element of the
    /// array: along each dimension of the array, the stride of each loop exceeds the reach of those with smaller strides
    /// together.
    fn is_apart(&self, leaf: &Leaf, tile: &Access) -> bool {
        let ranges = self.ranges();
        let loops = tile.index.iter().map(|index| loop_of(leaf, index)).collect::<Option<Vec<_>>>();
        let Some(loops) = loops else { return false };
        let moved =
            |number: LeafLoopId| leaf.target.strides.iter().filter(move |strides| strides[number.0] != 0).count();
        let apart = |strides: &Vec<i64>| {
            let along = loops.iter().filter(|number| strides[number.0] != 0);
            let mut along: Vec<_> = along
                .map(|&number| {
                    let count = leaf.loops[number.0].count.bounds(&ranges).1.max(1);
                    (i128::from(strides[number.0]).abs(), i128::from(count) - 1)
                })
                .collect();
            along.sort_unstable();
            let mut reach = 0;
            along.into_iter().all(|(stride, steps)| {
                let apart = stride > reach;
                reach += stride * steps;
                apart
            })
        };
        loops.iter().all(|&number| moved(number) == 1) && leaf.target.strides.iter().all(apart)
    }

    fn has_scalar(&self, name: Name) -> bool {
        self.kernel.scalars().iter().any(|scalar| scalar.0 == name)
    }

    /// Whether a value has only numbers and functions of the kernel's type, and scalars that the kernel has.
    fn is_computable(&self, value: &Value) -> bool {
        check_value(value, self.kernel.dtype(), self.kernel.scalars()).is_ok()
    }

    /// Whether a value is computable and reads no tensor and no index.
    fn is_factor(&self, value: &Value) -> bool {
        value.accesses().is_empty() && value.indices().is_empty() && self.is_computable(value)
    }

    /// Maximum number of elements that the result of a product holds at a time.
    fn most_kept(&self, leaf: &Leaf, step: &Product, blocks: &[LoopBlock]) -> i128 {
        let ranges = self.ranges();
        let most = |&number: &LeafLoopId| {
            let block =
                blocks[..step.level.0].iter().filter(|block| block.number == number).map(|block| block.size).min();
            let all = leaf.loops[number.0].count.bounds(&ranges).1.max(0);
            i128::from(block.map_or(all, |block| block.min(all)))
        };
        step.kept.iter().map(most).fold(1, i128::saturating_mul)
    }
}

/// The number of the loop along which a tile has the dimension of an index.
fn loop_of(leaf: &Leaf, index: &Affine) -> Option<LeafLoopId> {
    let var = index.as_variable()?;
    leaf.loops.iter().position(|inner| inner.var == var).map(LeafLoopId)
}

/// Whether a loop that indexes these of the two factors and their product plays the role.
fn plays(role: Role, [a, b, product]: [bool; 3]) -> bool {
    match role {
        Role::Batch => product,
        Role::M => !b && product,
        Role::N => !a && product,
        Role::K => !product,
    }
}
