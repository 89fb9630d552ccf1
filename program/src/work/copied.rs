//! Sums over several loops whose iterations are contiguous in a tile but not in a shard: in a rank's own shard, products take one loop at
//! a time; operands in another rank's shard they copy, so that sums take their terms in the same order as in tiles. Also the rows that
//! products pack.

use super::{LeafProduct, ProductLoop, ProductLoops};
use crate::ids::LeafLoopId;
use crate::nest::{Direction, Factor, LeafAccess, LeafOp, NestView, Role};

/// Minimum number of elements that a row counts as: the length of rows in the products by which devices are measured.
const SHORT_ROW: u64 = 256;

/// The stride of an operand for each loop of a leaf.
type Strides = Vec<i64>;

/// An operand of a product.
struct Operand {
    /// In its own tile.
    in_tile: Strides,
    /// Where it is read.
    here: Strides,
    /// Whether that is this rank's own shard.
    is_own: bool,
}

/// Loops merged into one: the innermost one of them, the number of iterations, the role, and along which of the operands and the result
/// elements are contiguous.
type Merged = (LeafLoopId, u64, Role, [bool; 3]);

/// A product whose loops are merged differently over operands where they are read.
pub(super) struct Apart {
    /// The elements of those operands that it reads, and how often.
    pub(super) elements: u64,
    times: u64,
    /// Whether the loops of its sums are, too: else at most products differ that are so small that they have their own kernels.
    in_sums: bool,
}

impl NestView<'_> {
    /// Returns the elements that products copy in one run of the leaf, of operands that these transfers, by number, leave in shards of
    /// other ranks: if a sum has several loops that are merged over a tile, but not over the shard. A sum takes its terms in the order of
    /// the tile, so that no bit depends on where an operand is read.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # use polyshard::text::parse_kernel;
    /// let kernel = "fn f(A: [f64; 8, 4, 8], B: [f64; 4, 8, 5]) -> C: [f64; 8, 5] { C[i, j] += A[i, k, l] * B[k, l, j] }";
    /// let mesh = Mesh::new([("x", 2)]);
    /// let rows = Schedule::from_spec(parse_kernel(kernel)?).distribute(["i"], ["io"], ["ii"], &mesh);
    /// let placed = rows.shard("A", [Var::new("l").at("x")]).shard("B", [Var::new("l").at("x")]);
    /// let panels = |number: usize| {
    ///     let divided = placed.clone().divide("l", "po", "pi", number).reorder(["po", "ii", "j", "k", "pi"]);
    ///     divided.communicate("A", "po").communicate("B", "po").tensorize(["ii", "j", "k", "pi"]).lower()
    /// };
    /// // A rank has half of l: in the shard, all of that goes on from one k to the next, and half of it does not.
    /// assert_eq!(panels(2)?.nest().copied(|_| true), 0);
    /// assert_eq!(panels(4)?.nest().copied(|_| true), 4 * 4 * 2 + 4 * 2 * 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn copied(&self, is_in_shard: impl Fn(usize) -> bool) -> u64 {
        self.in_sums(is_in_shard, Operand::like_tile)
    }

    /// Whether a product sums over several loops.
    #[must_use]
    pub fn sums_over_several(&self) -> bool {
        let several = |roles: &[Role]| roles.iter().filter(|role| **role == Role::K).count() > 1;
        match &self.leaf.op {
            LeafOp::Contraction { roles, .. } => several(roles),
            LeafOp::Products { steps, .. } => steps.iter().any(|step| several(&step.roles)),
            LeafOp::Nest | LeafOp::Named { .. } => false,
        }
    }

    /// The products that may copy operands in shards of other ranks.
    pub(super) fn copying(&self) -> Vec<Apart> {
        self.apart(|_| true, Operand::like_tile)
    }

    /// Returns the elements of this rank's own shards that products read in pieces of a row in one run of the leaf: those of operands of
    /// sums over several loops that are not merged there.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # use polyshard::text::parse_kernel;
    /// let kernel = "fn f(A: [f64; 8, 4, 6], B: [f64; 4, 6, 5]) -> C: [f64; 8, 5] { C[i, j] += A[i, k, l] * B[k, l, j] }";
    /// let mesh = Mesh::new([("x", 2)]);
    /// let rows = Schedule::from_spec(parse_kernel(kernel)?).distribute(["i"], ["io"], ["ii"], &mesh);
    /// let panels = |of: &str, inner: [&str; 4]| {
    ///     let divided = rows.clone().divide(of, "po", "pi", 2).reorder([&["po"][..], &inner].concat());
    ///     let placed = divided.shard("A", [Var::new("i").at("x")]).shard("B", [Var::new("k").at("x")]);
    ///     placed.communicate("A", "po").communicate("B", "po").tensorize(inner).lower()
    /// };
    /// // Of half of k there are whole rows of l, of half of l none.
    /// assert_eq!(panels("k", ["ii", "j", "pi", "l"])?.nest().piecewise(), 0);
    /// assert_eq!(panels("l", ["ii", "j", "k", "pi"])?.nest().piecewise(), 4 * 4 * 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn piecewise(&self) -> u64 {
        self.in_sums(|_| false, |operand| &operand.in_tile)
    }

    /// Returns the number of rows of the operands of products of matrices in one run of the leaf, if these transfers, by number, leave
    /// operands in shards of other ranks. A row is contiguous along the terms of a sum, or along the contiguous elements of the result.
    /// Shorter rows count as one per 256 elements, and transposed operands are not counted.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # use polyshard::text::parse_kernel;
    /// let kernel = "fn f(A: [f64; 8, 4, 256], B: [f64; 4, 256, 5]) -> C: [f64; 8, 5] { C[i, j] += A[i, k, l] * B[k, l, j] }";
    /// let rows = Schedule::from_spec(parse_kernel(kernel)?).distribute(["i"], ["io"], ["ii"], &Mesh::new([("x", 2)]));
    /// let program = rows.tensorize(["ii", "j", "k", "l"]).lower()?;
    /// // Of A, four rows of 1024 terms, and twenty times 256 elements of B.
    /// assert_eq!(program.nest().packed_rows(|_| false), 4 + 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn packed_rows(&self, is_in_shard: impl Fn(usize) -> bool) -> u64 {
        let rows = |product: ProductLoops<'_>| {
            if LeafProduct::of(&product).is_none() {
                return 0;
            }
            let operands = product.factors.map(|factor| self.operand(factor, &product, &is_in_shard));
            let loops =
                merged(&product.loops, operands.each_ref().map(|operand| &operand.here), &self.result(&product));
            let of_operand = |(number, factor): (usize, &Factor)| {
                let Factor::Operand(operand) = factor else { return 0 };
                if self.is_transposed(*operand) {
                    return 0;
                }
                let row = loops.iter().find(|(.., together)| together[number]).map_or(1, |(_, count, ..)| *count);
                operands[number].elements(&product.loops).div_ceil(row.max(SHORT_ROW))
            };
            let rows = product.factors.iter().enumerate().map(of_operand).fold(0, u64::saturating_add);
            rows.saturating_mul(product.times)
        };
        self.loops_of_products().into_iter().map(rows).fold(0, u64::saturating_add)
    }

    /// The elements of products whose sums have their loops merged differently than with the strides of `otherwise`.
    fn in_sums(&self, is_in_shard: impl Fn(usize) -> bool, otherwise: fn(&Operand) -> &Strides) -> u64 {
        if !self.sums_over_several() {
            return 0;
        }
        let apart = self.apart(is_in_shard, otherwise).into_iter().filter(|product| product.in_sums);
        apart.map(|product| product.elements.saturating_mul(product.times)).fold(0, u64::saturating_add)
    }

    /// The products whose loops are merged differently than with the strides of `otherwise`.
    fn apart(&self, is_in_shard: impl Fn(usize) -> bool, otherwise: fn(&Operand) -> &Strides) -> Vec<Apart> {
        let product = |product: ProductLoops<'_>| {
            let operands = product.factors.map(|factor| self.operand(factor, &product, &is_in_shard));
            let result = self.result(&product);
            let [there, here] = [otherwise, |operand| &operand.here]
                .map(|lying| merged(&product.loops, operands.each_ref().map(lying), &result));
            let moved = operands.iter().filter(|operand| &operand.here != otherwise(operand));
            let elements = moved.map(|operand| operand.elements(&product.loops)).fold(0, u64::saturating_add);
            (there != here).then(|| Apart { elements, times: product.times, in_sums: sums(&there) != sums(&here) })
        };
        self.loops_of_products().into_iter().filter_map(product).collect()
    }

    /// A factor of a product, which these transfers leave in shards of other ranks.
    fn operand(&self, factor: Factor, product: &ProductLoops<'_>, is_in_shard: &impl Fn(usize) -> bool) -> Operand {
        let access = match (factor, &self.leaf.op) {
            (Factor::Operand(number), _) => &self.leaf.operands[number.0],
            (Factor::Scratch(made), LeafOp::Products { steps, .. }) => {
                let strides = self.in_scratch(&steps[made.0].kept, product);
                return Operand { in_tile: strides.clone(), here: strides, is_own: false };
            }
            (Factor::Scratch(_), _) => {
                unreachable!("only sequences of products have scratch; this is a bug in polyshard")
            }
        };
        let in_shard = self.in_shard(access);
        let mut transfers = self.transfers.iter().enumerate();
        let brought =
            transfers.find(|(_, transfer)| transfer.tensor == access.tensor && transfer.direction == Direction::In);
        let Some((number, transfer)) = brought else {
            return Operand { in_tile: in_shard.clone(), here: in_shard, is_own: false };
        };
        let in_tile = access.strides_over(&transfer.region.max_distinct(&self.ranges()), self.leaf.loops.len());
        let is_own = transfer.route.is_in_place();
        let is_in_shard = !transfer.region.has_blocks() && (is_own || is_in_shard(number));
        let here = if is_in_shard { in_shard } else { in_tile.clone() };
        Operand { in_tile, here, is_own }
    }

    /// The strides of a product's result: in scratch, in a tile or in a shard.
    fn result(&self, product: &ProductLoops<'_>) -> Strides {
        if !product.kept.is_empty() {
            return self.in_scratch(product.kept, product);
        }
        let target = &self.leaf.target;
        let left = self
            .transfers
            .iter()
            .find(|transfer| transfer.tensor == target.tensor && transfer.direction != Direction::In);
        match left.filter(|transfer| !transfer.route.is_in_place()) {
            Some(transfer) => target.strides_over(&transfer.region.max_distinct(&self.ranges()), self.leaf.loops.len()),
            None => self.in_shard(target),
        }
    }

    fn in_shard(&self, access: &LeafAccess) -> Strides {
        let shard = self.shardings[access.tensor.0].local_shape(&vec![0; self.mesh.ndim()]);
        access.strides_over(&Vec::from_iter(shard.into_iter().map(|extent| extent as i64)), self.leaf.loops.len())
    }

    /// The strides of scratch that these loops of a product index, the last one with stride 1.
    fn in_scratch(&self, kept: &[LeafLoopId], product: &ProductLoops<'_>) -> Strides {
        let mut strides = vec![0; self.leaf.loops.len()];
        let mut len = 1i64;
        for number in kept.iter().rev() {
            strides[number.0] = len;
            let count = product.loops.iter().find(|inner| inner.number == *number).map_or(1, |inner| inner.count);
            len = len.saturating_mul(count as i64);
        }
        strides
    }
}

impl Operand {
    /// Its strides if no other rank's shard were read: a rank's own is read in any case.
    fn like_tile(&self) -> &Strides {
        if self.is_own { &self.here } else { &self.in_tile }
    }

    /// The elements that these loops read.
    fn elements(&self, loops: &[ProductLoop]) -> u64 {
        let moving = loops.iter().filter(|inner| self.in_tile[inner.number.0] != 0);
        moving.map(|inner| inner.count).fold(1, u64::saturating_mul)
    }
}

/// The loops that are summed over.
fn sums(all: &[Merged]) -> Vec<Merged> {
    all.iter().copied().filter(|(_, _, role, _)| *role == Role::K).collect()
}

impl LeafAccess {
    /// The stride of each loop in an array of these extents, whose last dimension has stride 1.
    fn strides_over(&self, extents: &[i64], loops: usize) -> Strides {
        let mut strides = vec![0i64; loops];
        let mut len = 1i64;
        for (steps, extent) in self.strides.iter().zip(extents).rev() {
            for (stride, step) in strides.iter_mut().zip(steps) {
                *stride = stride.saturating_add(step.saturating_mul(len));
            }
            len = len.saturating_mul(*extent);
        }
        strides
    }
}

/// The loops of a product, merged where they continue each other, as in the runtime.
fn merged(loops: &[ProductLoop], operands: [&Strides; 2], result: &Strides) -> Vec<Merged> {
    let of = |number: LeafLoopId| [operands[0], operands[1], result].map(|strides| strides[number.0]);
    let moving = loops.iter().filter(|inner| inner.count > 1);
    let mut left: Vec<Merged> = moving
        .map(|inner| (inner.number, inner.count, inner.role, of(inner.number).map(|stride| stride.abs() == 1)))
        .collect();
    let continues = |outer: &Merged, inner: &Merged| {
        let mut pairs = of(outer.0).into_iter().zip(of(inner.0));
        outer.2 == inner.2 && pairs.all(|(outer, stride)| outer == stride.saturating_mul(inner.1 as i64))
    };
    while let Some((outer, inner)) = (0..left.len())
        .flat_map(|outer| (0..left.len()).map(move |inner| (outer, inner)))
        .find(|&(outer, inner)| outer != inner && continues(&left[outer], &left[inner]))
    {
        left[inner].1 = left[inner].1.saturating_mul(left[outer].1);
        left.remove(outer);
    }
    left
}
