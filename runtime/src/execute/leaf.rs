//! The leaf: the operation that a program calls, and its state between calls.

use super::value::{constant, of_kernel, scalar};
use crate::leaf::{Expression, Named, Products, Ramp, contract, nest_with_numbers};
use crate::{Element, ReduceOp, Result, Strided, StridedMut, count};
use polyshard_layout::Name;
use polyshard_program::{Access, Kernel, LeafOp, NestView, Role, TileOperand, TileStatement};
use smallvec::SmallVec;

/// The operation of one nest over elements of one type.
pub(super) enum LeafPlan<T> {
    Contraction { roles: Vec<Role>, alpha: T },
    Products { products: Products<T>, alpha: T },
    Nest { value: Expression<T>, outside: Vec<Option<Outside<T>>> },
    Named { leaf: Named<T>, operands: Vec<TileOperand>, scalars: Vec<[T; 1]> },
}

/// The value of an operand outside of its array, and the extents of those dimensions along which its index may be
/// outside.
pub(super) type Outside<T> = (T, SmallVec<[Option<i64>; 4]>);

impl<T: Element> LeafPlan<T> {
    /// The leaf of a nest with the scalars of `kernel`.
    pub(super) fn new(program: &NestView<'_>, kernel: &Kernel) -> Result<Self> {
        Ok(match &program.leaf.op {
            LeafOp::Contraction { roles, alpha } => {
                Self::Contraction { roles: roles.clone(), alpha: constant(alpha, kernel) }
            }
            LeafOp::Products { steps, blocks, alpha } => Self::Products {
                products: Products::new(
                    steps.clone(),
                    blocks.iter().map(|block| (block.number, count(block.size))).collect(),
                )?,
                alpha: constant(alpha, kernel),
            },
            LeafOp::Nest => {
                let outside = kernel.value().accesses().into_iter().map(|access| outside(access, kernel));
                Self::Nest { value: of_kernel(kernel), outside: outside.collect() }
            }
            LeafOp::Named { name, statement, operands, .. } => {
                let scalars = operands.iter().filter_map(|operand| match operand {
                    TileOperand::Access(_) => None,
                    TileOperand::Scalar(name) => Some([scalar(*name, kernel)]),
                });
                Self::Named {
                    leaf: named(program, *name, statement)?,
                    scalars: scalars.collect(),
                    operands: operands.clone(),
                }
            }
        })
    }

    /// The value of an operand outside of its array, if its index may be outside.
    pub(super) fn outside(&self, operand: usize) -> Option<&Outside<T>> {
        match self {
            Self::Nest { outside, .. } => outside[operand].as_ref(),
            _ => None,
        }
    }

    /// Computes on the operands, in the order of the kernel's accesses, and on the indices used as numbers.
    pub(super) fn run(
        &mut self,
        counts: &[usize],
        operands: &[Strided<'_, T>],
        numbers: &[Ramp],
        target: StridedMut<'_, T>,
        op: ReduceOp,
    ) {
        match self {
            Self::Contraction { roles, alpha } => {
                let [a, b] = operands else {
                    unreachable!("a contraction has two operands; this is a bug in polyshard")
                };
                contract(counts, roles, *alpha, a.clone(), b.clone(), target);
            }
            Self::Products { products, alpha } => products.run(counts, *alpha, operands, target),
            Self::Nest { value, .. } => nest_with_numbers(counts, target, op, operands, numbers, &*value),
            Self::Named { leaf, operands: tiles, scalars } => {
                let mut scalars = scalars.iter();
                let tiles = tiles.iter().map(|tile| match tile {
                    TileOperand::Access(operand) => operands[operand.0].clone(),
                    TileOperand::Scalar(_) => {
                        let value = scalars.next().expect("each scalar has a value; this is a bug in polyshard");
                        Strided::new(value, 0, Vec::new())
                    }
                });
                leaf.run(counts, &tiles.collect::<Vec<_>>(), target);
            }
        }
    }
}

fn outside<T: Element>(access: &Access, kernel: &Kernel) -> Option<Outside<T>> {
    let value = constant(access.outside.as_deref()?, kernel);
    Some((value, kernel.open_extents(access).into()))
}

fn named<T: Element>(nest: &NestView<'_>, name: Name, statement: &TileStatement) -> Result<Named<T>> {
    let loops: Vec<_> = nest.leaf.loops.iter().map(|l| l.var.as_str()).collect();
    Ok(Named::find(name.as_str(), &loops, statement)?)
}
