//! Sums of products of several operands, two at a time, with intermediate results in scratch.

use super::{contract, nest, pointwise};
use crate::view::Strides;
use crate::{Element, ReduceOp, Strided, StridedMut};
use polyshard_memory::{self as memory, zeros};
use polyshard_program::{BlockDepth, Factor, LeafLoopId, Product, Role};
use smallvec::{SmallVec, smallvec};

/// A sum of products of several operands as a sequence of products of two, with the scratch that it needs.
///
/// ```
/// use polyshard::runtime::leaf::{BlockDepth, Factor, LeafLoopId, OperandId, Product, ProductId, Products, Role};
/// use polyshard::runtime::{Strided, StridedMut};
/// // y[i] += a[i, k] * b[k] * x[k]: the scratch t[k] = b[k] * x[k], then y[i] += a[i, k] * t[k].
/// let scratch = Product {
///     factors: [Factor::Operand(OperandId(1)), Factor::Operand(OperandId(2))],
///     loops: vec![LeafLoopId(1)],
///     roles: vec![],
///     kept: vec![LeafLoopId(1)],
///     level: BlockDepth(0),
///     capacity: 3,
/// };
/// let last = Product {
///     factors: [Factor::Operand(OperandId(0)), Factor::Scratch(ProductId(0))],
///     loops: vec![LeafLoopId(0), LeafLoopId(1)],
///     roles: vec![Role::M, Role::K],
///     kept: vec![],
///     level: BlockDepth(0),
///     capacity: 0,
/// };
/// let mut products = Products::new(vec![scratch, last], vec![])?;
/// let (a, b, x, mut y) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 1.0, 2.0], [1.0, 10.0, 100.0], [0.0, 0.0]);
/// let operands = [Strided::new(&a, 0, vec![3, 1]), Strided::new(&b, 0, vec![0, 1]), Strided::new(&x, 0, vec![0, 1])];
/// products.run(&[2, 3], 1.0, &operands, StridedMut::new(&mut y, 0, vec![1, 0]));
/// assert_eq!(y, [621.0, 1254.0]);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Debug)]
pub struct Products<T> {
    steps: Vec<Product>,
    blocks: Vec<(LeafLoopId, usize)>,
    scratch: Vec<Vec<T>>,
}

impl<T: Element> Products<T> {
    /// Returns the products in the order in which they run, the last of which adds to the output, inside the blocks:
    /// leaf loops, outermost first, and how many iterations run at once.
    ///
    /// # Errors
    /// If there is too little memory for the scratch.
    pub fn new(steps: Vec<Product>, blocks: Vec<(LeafLoopId, usize)>) -> memory::Result<Self> {
        let scratch = steps.iter().map(|step| zeros(step.capacity, "the intermediate results of a leaf"));
        Ok(Self { scratch: scratch.collect::<memory::Result<_>>()?, steps, blocks })
    }

    /// Adds `alpha` times the product of the operands to `c` at every point of the loops.
    ///
    /// The order depends only on the counts and strides, as in [`contract`](super::contract) and [`nest`].
    ///
    /// # Panics
    /// If an operand would be accessed outside its data, or the products do not fit the loops: a bug in polyshard.
    #[track_caller]
    pub fn run(&mut self, counts: &[usize], alpha: T, operands: &[Strided<'_, T>], c: StridedMut<'_, T>) {
        T::products(self, counts, alpha, operands, c);
    }

    #[track_caller]
    pub(crate) fn run_strided(
        &mut self,
        counts: &[usize],
        alpha: T,
        operands: &[Strided<'_, T>],
        mut c: StridedMut<'_, T>,
    ) {
        c.set();
        c.strides = c.checked_strides("c", counts);
        let checked = operands.iter().enumerate().map(|(i, operand)| {
            operand.one_place(i);
            Strided { strides: operand.checked_strides(i, counts), ..operand.clone() }
        });
        let operands: SmallVec<[_; 4]> = checked.collect();
        if counts.contains(&0) {
            return;
        }
        let mut run = Run {
            products: self,
            alpha,
            operands: &operands,
            c,
            starts: smallvec![0; counts.len()],
            counts: counts.into(),
        };
        run.inside(BlockDepth(0));
    }
}

/// One run of a sequence.
struct Run<'a, T> {
    products: &'a mut Products<T>,
    alpha: T,
    operands: &'a [Strided<'a, T>],
    c: StridedMut<'a, T>,
    /// The start of the current block of each loop, and its iterations.
    starts: SmallVec<[usize; 6]>,
    counts: SmallVec<[usize; 6]>,
}

impl<T: Element> Run<'_, T> {
    /// Runs the products at a depth, with the blocks of the loops around it fixed.
    fn inside(&mut self, level: BlockDepth) {
        for step in 0..self.products.steps.len() {
            if self.products.steps[step].level == level {
                self.step(step);
            }
        }
        let Some(&(LeafLoopId(l), size)) = self.products.blocks.get(level.0) else { return };
        let count = self.counts[l];
        for start in (0..count).step_by(size) {
            self.starts[l] = start;
            self.counts[l] = size.min(count - start);
            self.inside(BlockDepth(level.0 + 1));
        }
        self.starts[l] = 0;
        self.counts[l] = count;
    }

    fn step(&mut self, number: usize) {
        let step = &self.products.steps[number];
        let inside = |l: usize| if step.loops.contains(&LeafLoopId(l)) { self.counts[l] } else { 1 };
        let counts: SmallVec<[usize; 6]> = (0..self.counts.len()).map(inside).collect();
        let moved = |offset: i64, strides: &[i64]| {
            offset + strides.iter().zip(&self.starts).map(|(&stride, &start)| stride * start as i64).sum::<i64>()
        };
        let (made, making) = self.products.scratch.split_at_mut(number);
        let factor = |factor: Factor| match factor {
            Factor::Operand(i) => {
                let Strided { data, offset, strides, tile, .. } = &self.operands[i.0];
                let along = Strided::new(data, moved(*offset, strides), strides.clone());
                Strided { tile: tile.clone(), ..along }
            }
            Factor::Scratch(i) => {
                let (strides, _) = dense(&self.products.steps[i.0].kept, &self.counts);
                Strided::new(&made[i.0], 0, strides)
            }
        };
        let [a, b] = step.factors.map(factor);
        let last = number + 1 == self.products.steps.len();
        let (c, alpha) = if last {
            let offset = moved(self.c.offset, &self.c.strides);
            (StridedMut::new(&mut *self.c.data, offset, self.c.strides.clone()), self.alpha)
        } else {
            let (strides, len) = dense(&step.kept, &self.counts);
            let scratch = &mut making[0][..len];
            scratch.fill(T::ZERO);
            (StridedMut::new(scratch, 0, strides), T::ONE)
        };
        if step.roles.is_empty() {
            if alpha == T::ONE {
                nest(&counts, c, ReduceOp::Sum, &[a, b], &pointwise(|[a, b]: [T; 2]| a.multiply(b)));
            } else {
                nest(&counts, c, ReduceOp::Sum, &[a, b], &pointwise(|[a, b]: [T; 2]| alpha.multiply(a.multiply(b))));
            }
            return;
        }
        let role =
            |l: usize| step.loops.iter().position(|&other| other == LeafLoopId(l)).map_or(Role::K, |at| step.roles[at]);
        let roles: SmallVec<[Role; 6]> = (0..counts.len()).map(role).collect();
        contract(&counts, &roles, alpha, a, b, c);
    }
}

/// The strides of a dense result indexed by the loops `kept`, the last one with stride 1, and its length.
fn dense(kept: &[LeafLoopId], counts: &[usize]) -> (Strides, usize) {
    let mut strides: Strides = smallvec![0; counts.len()];
    let mut len = 1;
    for &l in kept.iter().rev() {
        strides[l.0] = len as i64;
        len *= counts[l.0];
    }
    (strides, len)
}
