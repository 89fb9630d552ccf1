//! The leaf: the operation that a program calls, and what it needs between calls.

use super::value::{constant, expression, scalar};
use polyshard_layout::Name;
use polyshard_polyhedral::{
    Factor as SymbolicFactor, Kernel, LeafOp, Product as SymbolicProduct, ProductOp, Program, Role as SymbolicRole,
    TileOperand,
};
use polyshard_runtime::leaf::{Expression, Factor, Named, Product, Products, Role, contract, nest};
use polyshard_runtime::{Element, ReduceOp, Result, Strided, StridedMut, count};

/// The operation of one program over elements of one type.
pub(super) enum LeafPlan<T> {
    Contraction { roles: Vec<Role>, alpha: T },
    Products { products: Products<T>, alpha: T },
    Nest(Expression<T>),
    Named { leaf: Named<T>, operands: Vec<TileOperand>, scalars: Vec<[T; 1]> },
}

impl<T: Element> LeafPlan<T> {
    /// The leaf of the program with the scalars of `kernel`.
    pub(super) fn new(program: &Program, kernel: &Kernel) -> Result<Self> {
        Ok(match &program.leaf().op {
            LeafOp::Contraction { roles, alpha } => Self::Contraction {
                roles: roles.iter().map(|role| role_of(*role)).collect(),
                alpha: constant(&expression(alpha, kernel, &mut 0)),
            },
            LeafOp::Products { steps, blocks, alpha } => Self::Products {
                products: Products::new(
                    steps.iter().map(product).collect(),
                    blocks.iter().map(|block| (block.number, count(block.size))).collect(),
                )?,
                alpha: constant(&expression(alpha, kernel, &mut 0)),
            },
            LeafOp::Nest => Self::Nest(expression(kernel.value(), kernel, &mut 0)),
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

    /// Computes on the operands, in the order of the kernel's accesses.
    pub(super) fn run(
        &mut self,
        counts: &[usize],
        operands: &[Strided<'_, T>],
        target: StridedMut<'_, T>,
        op: ReduceOp,
    ) {
        match self {
            Self::Contraction { roles, alpha } => {
                let [a, b] = operands else {
                    unreachable!("a contraction has two operands; this is a bug of polyshard")
                };
                contract(counts, roles, *alpha, a.clone(), b.clone(), target);
            }
            Self::Products { products, alpha } => products.run(counts, *alpha, operands, target),
            Self::Nest(value) => nest(counts, target, op, operands, &*value),
            Self::Named { leaf, operands: tiles, scalars } => {
                let mut scalars = scalars.iter();
                let tiles = tiles.iter().map(|tile| match tile {
                    TileOperand::Access(number) => operands[*number].clone(),
                    TileOperand::Scalar(_) => {
                        let value = scalars.next().expect("each scalar has a value; this is a bug of polyshard");
                        Strided::new(value, 0, Vec::new())
                    }
                });
                leaf.run(counts, &tiles.collect::<Vec<_>>(), target);
            }
        }
    }
}

/// Refuses a program that calls a leaf which is not registered as the program needs it.
pub(crate) fn check_registered<T: Element>(program: &Program) -> Result<()> {
    match &program.leaf().op {
        LeafOp::Named { name, statement, .. } => named::<T>(program, *name, statement).map(|_| ()),
        LeafOp::Contraction { .. } | LeafOp::Products { .. } | LeafOp::Nest => Ok(()),
    }
}

fn named<T: Element>(program: &Program, name: Name, statement: &str) -> Result<Named<T>> {
    let loops: Vec<_> = program.leaf().loops.iter().map(|l| l.var.as_str()).collect();
    Named::find(name.as_str(), &loops, statement)
}

fn product(product: &SymbolicProduct) -> Product {
    let roles = match &product.op {
        ProductOp::Matrix { roles } => roles.iter().map(|role| role_of(*role)).collect(),
        ProductOp::Elementwise => Vec::new(),
    };
    Product {
        factors: product.factors.map(|factor| match factor {
            SymbolicFactor::Operand(number) => Factor::Operand(number),
            SymbolicFactor::Scratch(number) => Factor::Scratch(number),
        }),
        loops: product.loops.clone(),
        roles,
        kept: product.kept.clone(),
        level: product.level,
        capacity: count(product.capacity),
    }
}

fn role_of(role: SymbolicRole) -> Role {
    match role {
        SymbolicRole::Batch => Role::Batch,
        SymbolicRole::M => Role::M,
        SymbolicRole::N => Role::N,
        SymbolicRole::K => Role::K,
    }
}
