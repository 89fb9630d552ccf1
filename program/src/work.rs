//! Operations of leaves and the elements that they touch: the only source for prices. Tests: `planner/tests/it/cost.rs`.

use crate::ids::{Depth, LeafLoopId, OperandId};
use crate::kernel::{Assign, Kernel};
use crate::nest::{Factor, LeafAccess, LeafOp, NestView, Product, Role, TransferView};
use crate::program::Program;
use crate::traffic::{Rank, in_all_steps};
use crate::value::Value;
use std::convert::Infallible;

mod copied;

/// Ranks times steps beyond which nothing is counted: a few milliseconds.
const MAX_STEPS: u64 = 1 << 15;

/// Maximum number of terms of a sum for which libraries for products of matrices copy both operands at one time. `gemm` takes as many as
/// fit into a first-level cache, and at least 512 (`gemm-common`, `cache.rs`): up to 1024 on processors with AVX2 or AVX-512, and 2048
/// with NEON and 128 KiB of that cache. The runtime's own products take 256 of `f64` and of integers, and 384 of `f32`.
const PACKED_TERMS: u64 = 2048;

/// Rows and columns are copied in multiples of the number that fits in registers: at most this many.
const PACKED_TOGETHER: u64 = 64;

/// Maximum bytes of such a library in addition to copies of elements: remainders of cache lines and pages, and records of the copied
/// rows.
const PACKED_BESIDES: u64 = 1 << 16;

/// The work of a nest's leaf in a run, on the rank that has the most to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The number of times that it runs.
    pub times: u64,
    /// Operations on elements; a multiplication and an addition are two.
    pub operations: u64,
    /// Those of them in loop nests, element by element, not in products of matrices.
    pub elementwise: u64,
    /// Elements that it reads and writes, each once per run; those that it adds to count as both.
    pub touched: u64,
    /// Those of them that are elements of inputs.
    pub read: u64,
    /// Those of these that products read transposed: contiguous neither along the terms of a sum nor along the contiguous elements of the
    /// result.
    pub transposed: u64,
    /// Those of the touched elements that it overwrites without reading them.
    pub overwritten: u64,
    /// Whether ranks and steps were counted individually; else the numbers are bounds.
    pub is_counted: bool,
}

impl Work {
    /// Its counts, each combined with that of another.
    fn zip_with(self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            times: combine(self.times, other.times),
            operations: combine(self.operations, other.operations),
            elementwise: combine(self.elementwise, other.elementwise),
            touched: combine(self.touched, other.touched),
            read: combine(self.read, other.read),
            transposed: combine(self.transposed, other.transposed),
            overwritten: combine(self.overwritten, other.overwritten),
            ..self
        }
    }

    /// The work of `times` such runs.
    fn repeated(self, times: u64) -> Self {
        self.zip_with(&self, |each, _| each.saturating_mul(times))
    }

    /// The work of this and of more.
    fn and(self, more: &Self) -> Self {
        self.zip_with(more, u64::saturating_add)
    }
}

/// Products of matrices of one shape in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafProduct {
    /// Their number in one run of the leaf.
    pub times: u64,
    /// The rows of the result; its columns, along which its elements are contiguous; and the terms of a sum.
    pub shape: [u64; 3],
    /// Operations on elements of all of them; a multiplication and an addition are two.
    pub operations: u64,
}

/// A loop of a product.
struct ProductLoop {
    number: LeafLoopId,
    count: u64,
    role: Role,
    /// Whether elements of the result are contiguous along it.
    is_together: bool,
}

/// A product of a leaf, and how often it is computed.
struct ProductLoops<'a> {
    times: u64,
    loops: Vec<ProductLoop>,
    factors: [Factor; 2],
    /// The loops that index its result; none if it adds to the output.
    kept: &'a [LeafLoopId],
}

impl LeafProduct {
    /// The products with these loops, from their counts and roles, and along which of them the result is contiguous; none if they are not
    /// of two matrices.
    fn of(product: &ProductLoops<'_>) -> Option<Self> {
        let (mut times, mut swapped) = (product.times, false);
        let mut shape = [None; 3];
        for &ProductLoop { count, role, is_together, .. } in &product.loops {
            let place = match role {
                Role::M => 0,
                Role::N => 1,
                Role::K => 2,
                Role::Batch => {
                    times = times.saturating_mul(count);
                    continue;
                }
            };
            swapped |= role == Role::M && is_together;
            shape[place] = Some(count.saturating_mul(shape[place].unwrap_or(1)));
        }
        let [Some(rows), Some(columns), depth] = shape else { return None };
        let shape = if swapped { [columns, rows, depth.unwrap_or(1)] } else { [rows, columns, depth.unwrap_or(1)] };
        let operations = shape.iter().fold(times.saturating_mul(2), |all, &extent| all.saturating_mul(extent));
        Some(Self { times, shape, operations })
    }
}

impl NestView<'_> {
    /// Returns the work of its leaf.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # let matmul = kernel! {
    /// #     fn matmul(A: [f32; 10, 6], B: [f32; 6, 8]) -> C: [f32; 10, 8] { C[m, n] += A[m, k] * B[k, n] }
    /// # };
    /// let program = matmul.distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 4)])).lower()?;
    /// let work = program.nest().work();
    /// // The first ranks have three of the ten rows.
    /// assert_eq!(work.operations, 2 * 3 * 8 * 6);
    /// assert_eq!(work.read, 3 * 6 + 6 * 8);
    /// assert_eq!(work.touched, work.read + 2 * 3 * 8);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn work(&self) -> Work {
        let ranges = self.ranges();
        let times = ranges.counters.iter().fold(1u64, |times, &extent| times.saturating_mul(extent.max(0) as u64));
        if times.saturating_mul(self.mesh.size() as u64) > MAX_STEPS {
            let counts: Vec<_> = self.leaf.loops.iter().map(|inner| inner.count.bounds(&ranges).1).collect();
            return self.work_of(&counts).repeated(times);
        }
        // Most ranks and steps have the same number of iterations as those before.
        let mut before: Option<(Vec<i64>, Work)> = None;
        let works = (0..self.mesh.size()).map(|rank| {
            let rank = Rank::new(self, self.mesh.coordinates(rank));
            let mut work = Work { is_counted: true, ..Work::default() };
            let Ok(()) = in_all_steps(Depth(self.loops.len()), &ranges.counters, |counters| {
                let counts: Vec<_> = self.leaf.loops.iter().map(|inner| rank.value(&inner.count, counters)).collect();
                let known = before.take().filter(|(same, _)| *same == counts);
                let (_, of_step) = before.insert(known.unwrap_or_else(|| {
                    let work = self.work_of(&counts);
                    (counts, work)
                }));
                work = work.and(of_step);
                Ok::<(), Infallible>(())
            });
            work
        });
        works.max_by_key(|work| (work.operations, work.touched)).unwrap_or_default()
    }

    /// Returns the products of matrices in a run of its leaf, at most; none if it is a nest, or multiplies a matrix by a vector.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # use polyshard::program::LeafProduct;
    /// # let matmul = kernel! {
    /// #     fn matmul(A: [f32; 10, 6], B: [f32; 6, 8]) -> C: [f32; 10, 8] { C[m, n] += A[m, k] * B[k, n] }
    /// # };
    /// let rows = matmul.distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 4)]));
    /// let program = rows.tensorize(["mi", "n", "k"]).lower()?;
    /// assert_eq!(program.nest().products(), [LeafProduct { times: 1, shape: [3, 8, 6], operations: 2 * 3 * 8 * 6 }]);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn products(&self) -> Vec<LeafProduct> {
        self.loops_of_products().iter().filter_map(LeafProduct::of).collect()
    }

    /// The products of its leaf, those computed element by element without loops; none for a nest.
    fn loops_of_products(&self) -> Vec<ProductLoops<'_>> {
        let ranges = self.ranges();
        let counts: Vec<u64> =
            self.leaf.loops.iter().map(|inner| inner.count.bounds(&ranges).1.max(0) as u64).collect();
        match &self.leaf.op {
            LeafOp::Contraction { roles, .. } => {
                let loops = (0..).map(LeafLoopId).zip(roles).map(|(number, &role)| {
                    let is_together = self.leaf.target.follow_along(number);
                    ProductLoop { number, count: counts[number.0], role, is_together }
                });
                let factors = [0, 1].map(|number| Factor::Operand(OperandId(number)));
                vec![ProductLoops { times: 1, loops: loops.collect(), factors, kept: &[] }]
            }
            LeafOp::Products { steps, blocks, .. } => {
                let products = steps.iter().map(|step| {
                    let around = &blocks[..step.level.0];
                    let size = |number: usize| {
                        let block = around.iter().find(|block| block.number.0 == number);
                        block.map_or(counts[number], |block| counts[number].min(block.size.max(1) as u64))
                    };
                    let times = around.iter().map(|block| counts[block.number.0].div_ceil(block.size.max(1) as u64));
                    let loops = step.loops.iter().zip(&step.roles).map(|(&number, &role)| {
                        let is_together = self.results_follow(step, number);
                        ProductLoop { number, count: size(number.0), role, is_together }
                    });
                    let times = times.fold(1, u64::saturating_mul);
                    ProductLoops { times, loops: loops.collect(), factors: step.factors, kept: &step.kept }
                });
                products.collect()
            }
            LeafOp::Nest | LeafOp::Named { .. } => Vec::new(),
        }
    }

    /// Maximum bytes of operands that products of matrices in its leaf copy, in libraries and in our own; 0 if it is a nest.
    fn packed_bytes(&self) -> u64 {
        let size = self.kernel.dtype().size() as u64;
        let of_product = |ProductLoops { loops, .. }: ProductLoops<'_>| {
            let along = |role: Role| {
                let counts = loops.iter().filter(|inner| inner.role == role).map(|inner| inner.count);
                counts.fold(1, u64::saturating_mul)
            };
            if loops.is_empty() || loops.iter().any(|inner| inner.count == 0) {
                return 0;
            }
            let copied = |role: Role| along(role).div_ceil(PACKED_TOGETHER).saturating_mul(PACKED_TOGETHER);
            let panels =
                along(Role::K).min(PACKED_TERMS).saturating_mul(copied(Role::M).saturating_add(copied(Role::N)));
            // Vectors that are not contiguous are copied whole.
            let elements = panels.saturating_add(along(Role::K).saturating_mul(2));
            elements.saturating_mul(size).saturating_add(PACKED_BESIDES)
        };
        let of_library = self.loops_of_products().into_iter().map(of_product).max().unwrap_or(0);
        let copied = self.copying().into_iter().map(|product| product.elements).max().unwrap_or(0);
        of_library.saturating_add(copied.saturating_mul(size))
    }

    /// Returns the maximum number of contiguous runs of elements in a transfer's region of a shard, 1 if the region is contiguous: a leaf
    /// that reads it in the shard moves from one run to the next.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # let matmul = kernel! {
    /// #     fn matmul(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
    /// # };
    /// let mesh = Mesh::new([("x", 2)]);
    /// let panels = matmul.distribute(["m"], ["mo"], ["mi"], &mesh).divide("k", "ko", "ki", 2).reorder(["ko", "mi", "n", "ki"]);
    /// let program = panels.shard("A", [Var::new("m").at("x")]).communicate("A", "ko").lower()?;
    /// // Of each of its four rows of A, a rank reads half at a time.
    /// let nest = program.nest();
    /// assert_eq!(nest.rows(&nest.transfers[0]), 4);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn rows(&self, transfer: &TransferView<'_>) -> u64 {
        let shard = self.shardings[transfer.tensor.0].local_shape(&vec![0; self.mesh.ndim()]);
        let extents = transfer.region.max_distinct(&self.ranges());
        let partial = extents.iter().zip(&shard).rposition(|(&extent, &whole)| extent < whole as i64);
        extents[..partial.unwrap_or(0)].iter().fold(1, |rows, &extent| rows.saturating_mul(extent as u64))
    }

    /// The work of one run of a leaf whose loops have these counts.
    fn work_of(&self, counts: &[i64]) -> Work {
        let product = |loops: &mut dyn Iterator<Item = usize>| {
            loops.map(|number| counts[number].max(0) as u64).fold(1, u64::saturating_mul)
        };
        let points = product(&mut (0..counts.len()));
        if points == 0 {
            return Work { times: 1, ..Work::default() };
        }
        let all = || points.saturating_mul(operations(self.kernel.value()) + u64::from(self.is_sum()));
        let [operations, elementwise] = match &self.leaf.op {
            LeafOp::Contraction { .. } => [points.saturating_mul(2), 0],
            LeafOp::Products { steps, .. } => steps.iter().fold([0u64, 0u64], |[operations, elementwise], step| {
                let own = product(&mut step.loops.iter().map(|number| number.0)).saturating_mul(2);
                let in_nest = if step.roles.is_empty() { own } else { 0 };
                [operations.saturating_add(own), elementwise.saturating_add(in_nest)]
            }),
            LeafOp::Nest => [all(), all()],
            LeafOp::Named { .. } => [all(), 0],
        };
        let elements = |access: &LeafAccess| {
            let moves = |number: &usize| access.strides.iter().any(|strides| strides[*number] != 0);
            product(&mut (0..counts.len()).filter(moves))
        };
        let read = self.leaf.operands.iter().map(elements).fold(0, u64::saturating_add);
        let turned = (0..).zip(&self.leaf.operands).filter(|(number, _)| self.is_transposed(OperandId(*number)));
        let transposed = turned.map(|(_, access)| elements(access)).fold(0, u64::saturating_add);
        let target = elements(&self.leaf.target);
        let (written, overwritten) =
            if self.leaf.overwrites { (target, target) } else { (target.saturating_mul(2), 0) };
        let touched = read.saturating_add(written);
        Work { times: 1, operations, elementwise, touched, read, transposed, overwritten, is_counted: false }
    }

    /// Whether a product of matrices reads this operand with rows that are neither along the terms of a sum nor along the contiguous
    /// elements of the result.
    fn is_transposed(&self, operand: OperandId) -> bool {
        let is_product = |roles: &[Role]| roles.contains(&Role::M) && roles.contains(&Role::N);
        let is_apart = |number: LeafLoopId, role: Role, of_result: bool| {
            self.leaf.operands[operand.0].follow_along(number) && matches!(role, Role::M | Role::N) && !of_result
        };
        match &self.leaf.op {
            LeafOp::Contraction { roles, .. } => {
                let mut loops = (0..).map(LeafLoopId).zip(roles);
                is_product(roles)
                    && loops.any(|(number, &role)| is_apart(number, role, self.leaf.target.follow_along(number)))
            }
            LeafOp::Products { steps, .. } => steps.iter().any(|step| {
                let mut loops = step.loops.iter().zip(&step.roles);
                is_product(&step.roles)
                    && step.factors.contains(&Factor::Operand(operand))
                    && loops.any(|(&number, &role)| is_apart(number, role, self.results_follow(step, number)))
            }),
            LeafOp::Nest | LeafOp::Named { .. } => false,
        }
    }

    /// Whether the result of a product of the leaf, in the output or in scratch, is contiguous along a loop.
    fn results_follow(&self, step: &Product, number: LeafLoopId) -> bool {
        match step.kept.last() {
            Some(last) => *last == number,
            None => self.leaf.target.follow_along(number),
        }
    }

    /// Whether several points add to one element.
    fn is_sum(&self) -> bool {
        let target = &self.leaf.target;
        self.kernel.assign() != Assign::Set
            || (0..self.leaf.loops.len()).any(|number| target.strides.iter().all(|strides| strides[number] == 0))
    }
}

impl Kernel {
    /// Returns the operations of the statement at one point, as [`NestView::work`] counts them for a nest.
    #[must_use]
    pub fn operations_per_point(&self) -> u64 {
        let adds = self.assign() != Assign::Set || self.vars().iter().any(|var| !self.target().mentions(var.name));
        operations(self.value()) + u64::from(adds)
    }
}

impl Program {
    /// Returns the maximum bytes that a rank has at one time in addition to those of its [report](Self::report): products of matrices
    /// copy their operands, so that elements are contiguous in the order of the multiplication; 0 for a program without products. Panels
    /// that are [copied](NestView::copied) from shards of other ranks count, too.
    ///
    /// The amount depends on the processor, which a program does not know, so this is a bound for all that have vectors with fused
    /// multiplication and addition: 2048 terms of all rows and columns. Most copy far less: a large product of `f64` on a processor with
    /// AVX2 4.2 MB and half of its second-level cache. Neither searches nor [`Report::tile_bytes`](crate::Report::tile_bytes) count it.
    ///
    /// ```
    /// # use polyshard::prelude::*;
    /// # let matmul = kernel! {
    /// #     fn matmul(A: [f32; 640, 640], B: [f32; 640, 640]) -> C: [f32; 640, 640] { C[m, n] += A[m, k] * B[k, n] }
    /// # };
    /// let program = matmul.tensorize(["m", "n", "k"]).lower()?;
    /// assert_eq!(program.packed_bytes(), (640 * (640 + 640) + 2 * 640) * 4 + (1 << 16));
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        self.nests().map(|nest| nest.packed_bytes()).max().unwrap_or(0)
    }
}

impl LeafAccess {
    /// Whether elements of the tensor are contiguous along a loop of the leaf.
    fn follow_along(&self, number: LeafLoopId) -> bool {
        self.strides.last().is_some_and(|strides| strides[number.0] != 0)
    }
}

/// The operations that compute a value at one point.
fn operations(value: &Value) -> u64 {
    let own = match value {
        Value::Access(_) | Value::Index(_) | Value::Literal(_) | Value::Scalar(_) => 0,
        _ => 1,
    };
    value.parts().into_iter().map(operations).fold(own, u64::saturating_add)
}
