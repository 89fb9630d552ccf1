//! All sequences of a product: one for each way to let axes cut loops.
//!
//! With the loops cut, the factors' layouts at the multiplication are fixed, and so is the product's; the ways there
//! and on are shortest paths, each array by itself. That is exact for seconds, which add up. Where what is fastest
//! takes too much memory, the ways are sought again without tiles larger than those at both ends.

use super::array::{Array, Layout};
use super::graph::{Direction, Graph, Paths};
use super::plan::{ProductPlan, Sequence};
use super::{Free, Operand, Product, ProductError, ProductStep, Roofline, Sharded, StepCost, cost, moves};
use crate::named::subscript;
use polyshard_layout::{Collective, Mesh};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Axes beyond which there are too many ways to write them all down.
const MAX_AXES: usize = 4;
/// The most layouts of an array times its dimensions: some hundred megabytes with all steps between them.
const MAX_LAYOUTS: usize = 31_000;

impl Product {
    /// Returns the sequences for the factors as they are given.
    ///
    /// # Errors
    /// If the machine is invalid or lacks links, no sequence ends in the result, or none fits into memory.
    pub fn plan(&self, roofline: &Roofline) -> Result<ProductPlan, ProductError> {
        plan(self, roofline, None)
    }

    /// Returns the sequences where the factors in `free` may be sharded in whatever way is best; they must be written
    /// without axes.
    ///
    /// ```
    /// use polyshard_layout::{DType, Mesh};
    /// use polyshard_planner::product::{Free, Product, Roofline};
    /// let mesh = Mesh::new([("X", 4), ("Y", 4), ("Z", 4)]);
    /// let sizes = [("I", 8192), ("J", 8192), ("K", 8192)];
    /// let product = Product::new("A[I, J] * B[J, K] -> C[I_X, K_YZ]", &mesh, &sizes, DType::Bf16)?;
    /// let plan = product.search(&Roofline::preset("tpu-v5p", &mesh, DType::Bf16)?, Free::Both)?;
    /// let best = plan.best();
    /// assert_eq!([best.left().to_string(), best.right().to_string()], ["A[I_X, J]", "B[J, K_YZ]"]);
    /// # Ok::<(), polyshard_planner::product::ProductError>(())
    /// ```
    ///
    /// # Errors
    /// If a factor that is free has axes, and as [`plan`](Self::plan).
    pub fn search(&self, roofline: &Roofline, free: Free) -> Result<ProductPlan, ProductError> {
        for (factor, open) in [(&self.left, free != Free::Right), (&self.right, free != Free::Left)] {
            if open && factor.axes().iter().any(|axes| !axes.is_empty()) {
                let whole = format!("{}[{}]", factor.tensor(), factor.names().join(", "));
                return Err(ProductError::Free { array: factor.to_string(), whole });
            }
        }
        plan(self, roofline, Some(free))
    }
}

/// Returns the plan, the factors in `free` sharded as the multiplication needs them.
fn plan(product: &Product, roofline: &Roofline, free: Option<Free>) -> Result<ProductPlan, ProductError> {
    roofline.check(&product.mesh)?;
    let search = ProductSearch::new(product, roofline, free)?;
    let sequences = search.sequences();
    let Some(best) = sequences.first() else { return Err(search.no_sequence()) };
    if !best.fits {
        return Err(search.no_memory(best));
    }
    Ok(ProductPlan { product: product.clone(), free, capacity: roofline.memory_bytes, sequences })
}

struct ProductSearch<'a> {
    product: &'a Product,
    roofline: &'a Roofline,
    free: Option<Free>,
    axes: Vec<usize>,
    left: Graph,
    right: Graph,
    out: Graph,
}

impl<'a> ProductSearch<'a> {
    fn new(product: &'a Product, roofline: &'a Roofline, free: Option<Free>) -> Result<Self, ProductError> {
        let axes = axes(&product.mesh, product.loops.len())?;
        let graph = |array: &Sharded, partial| Graph::new(Array::of(array), &axes, partial, roofline, product.dtype);
        let (left, right, out) = (graph(&product.left, false), graph(&product.right, false), graph(&product.out, true));
        Ok(Self { product, roofline, free, axes, left, right, out })
    }

    /// The sequences, best first.
    fn sequences(&self) -> Vec<Sequence> {
        let product = self.product;
        let fast = [
            self.fast(&self.left, &product.left, Direction::From),
            self.fast(&self.right, &product.right, Direction::From),
            self.fast(&self.out, &product.out, Direction::To),
        ];
        let mut best: BTreeMap<Vec<Option<usize>>, Sequence> = BTreeMap::new();
        for work in moves::layouts(&self.axes, self.product.loops.len(), false) {
            let Some(mut sequence) = self.sequence(&work, Some(&fast)) else { continue };
            if !sequence.fits
                && let Some(small) = self.sequence(&work, None)
                && small.total().memory < sequence.total().memory
            {
                sequence = small;
            }
            // The order of axes in a loop makes another sequence, but not another way to split the work.
            let cuts = |axis: &usize| work.dims.iter().position(|axes| axes.contains(axis));
            let split = self.axes.iter().map(cuts).collect();
            let better = best.get(&split).is_none_or(|other| compare(&sequence, other).is_lt());
            if better {
                best.insert(split, sequence);
            }
        }
        let mut sequences: Vec<_> = best.into_values().collect();
        sequences.sort_by(compare);
        sensible(sequences)
    }

    /// The cheapest paths from or to a type, for each set of axes that they may use.
    fn fast<'g>(&self, graph: &'g Graph, end: &Sharded, direction: Direction) -> Vec<Paths<'g>> {
        let sets = 0..1 << self.axes.len();
        sets.map(|axes| graph.paths(&Layout::of(end), direction, usize::MAX, axes)).collect()
    }

    /// The cheapest sequence in which axes cut loops so, if tiles are equal and the result is reached: along the fast
    /// paths, or else without tiles larger than those at both ends of a path.
    fn sequence(&self, work: &Layout, fast: Option<&[Vec<Paths<'_>>; 3]>) -> Option<Sequence> {
        let product = self.product;
        let [left, right, out] = [&self.left, &self.right, &self.out].map(|graph| self.restricted(work, graph.array()));
        let is_free = |side| self.free.is_some_and(|free| free == Free::Both || free == side);
        // A factor that may lie as it likes lies as it is needed.
        let left_from = if is_free(Free::Left) { left.clone() } else { Layout::of(&product.left) };
        let right_from = if is_free(Free::Right) { right.clone() } else { Layout::of(&product.right) };
        let left_given = self.left.array().sharded(&left_from)?;
        let right_given = self.right.array().sharded(&right_from)?;
        let out_to = Layout::of(&product.out);
        let fast = |nth: usize| fast.map(|fast| &fast[nth][..]);
        let left_steps = steps(&self.left, fast(0), Operand::Left, [&left_from, &left])?;
        let right_steps = steps(&self.right, fast(1), Operand::Right, [&right_from, &right])?;
        let out_steps = steps(&self.out, fast(2), Operand::Out, [&out, &out_to])?;
        let multiply = ProductStep::Multiply {
            left: self.left.array().sharded(&left)?,
            right: self.right.array().sharded(&right)?,
            out: self.out.array().sharded(&out)?,
        };
        let ordered = |first: &[ProductStep], second: &[ProductStep]| {
            let steps = [first, second, std::slice::from_ref(&multiply), &out_steps].concat();
            let costs = self.costs(&left_given, &right_given, &steps);
            let (left, right) = (left_given.clone(), right_given.clone());
            let sequence = Sequence { work: self.written(work), left, right, steps, costs, fits: true };
            Sequence { fits: sequence.total().memory <= self.roofline.memory_bytes, ..sequence }
        };
        let (forward, backward) = (ordered(&left_steps, &right_steps), ordered(&right_steps, &left_steps));
        // Large tiles on the way to one factor are better held before the other is copied.
        Some(if backward.total().memory < forward.total().memory { backward } else { forward })
    }

    /// How an array lies where axes cut the loops so.
    fn restricted(&self, work: &Layout, array: &Array) -> Layout {
        let cut = |name: &String| {
            let nth = self.product.loops.iter().position(|other| other == name);
            work.dims[nth.expect("dimensions are loops: this is a bug of polyshard")].clone()
        };
        // Factors have all that is contracted; only the product lacks it.
        let summed =
            self.product.loops.iter().filter(|name| !array.names.contains(name) && self.product.contracts(name));
        let mut unreduced: Vec<usize> = summed.flat_map(cut).collect();
        unreduced.sort_unstable();
        Layout { dims: array.names.iter().map(cut).collect(), unreduced }
    }

    /// What each step costs, with the memory that is taken meanwhile.
    fn costs(&self, left: &Sharded, right: &Sharded, steps: &[ProductStep]) -> Vec<StepCost> {
        let dtype = self.product.dtype;
        // The factors as given stay; copies of them last until they are multiplied.
        let given = left.bytes(dtype) + right.bytes(dtype);
        let mut copies = [0, 0];
        let mut costs = Vec::with_capacity(steps.len());
        for step in steps {
            let after = step.result().bytes(dtype);
            let memory = match step {
                ProductStep::Move { operand: Operand::Out, op, from, .. } => {
                    given + from.bytes(dtype) + if *op == Collective::AllReduce { 0 } else { after }
                }
                ProductStep::Move { operand, .. } => {
                    let memory = given + copies[0] + copies[1] + after;
                    copies[usize::from(*operand == Operand::Right)] = after;
                    memory
                }
                ProductStep::Multiply { .. } => given + copies[0] + copies[1] + after,
            };
            costs.push(StepCost {
                bytes: cost::received(step, dtype),
                communication: cost::communication(self.roofline, step, dtype),
                arithmetic: cost::arithmetic(self.roofline, step, dtype),
                memory,
            });
        }
        costs
    }

    fn written(&self, work: &Layout) -> String {
        let dims = self.product.loops.iter().zip(&work.dims).map(|(name, axes)| match &axes[..] {
            [] => name.clone(),
            axes => format!("{name}_{}", subscript(&self.product.mesh, axes)),
        });
        dims.collect::<Vec<_>>().join(" ")
    }

    /// Why no sequence ends in the result: only sums that are to stay open can keep all of them from it.
    fn no_sequence(&self) -> ProductError {
        let product = self.product;
        let axes = subscript(&product.mesh, product.out.unreduced());
        let contracted: Vec<_> = product.loops.iter().filter(|name| product.contracts(name)).collect();
        let why = if contracted.is_empty() {
            format!("nothing is contracted, so there are no sums to keep along `{axes}`; leave `{{U_{axes}}}` out")
        } else {
            let sizes: Vec<_> = contracted.iter().map(|name| format!("{name} = {}", product.size(name))).collect();
            let pieces: usize =
                product.out.unreduced().iter().map(|&axis| product.mesh.as_slice()[axis].extent).product();
            let sizes = sizes.join(", ");
            format!(
                "sums stay open along `{axes}` if it cuts what is contracted, but {sizes} does not divide by {pieces}"
            )
        };
        ProductError::NoSequence { out: product.out.to_string(), why }
    }

    /// What the sequence takes that takes least, the first where none fits, and what other factors would.
    fn no_memory(&self, least: &Sequence) -> ProductError {
        let capacity = self.roofline.memory_bytes;
        let graphs = ProductSearch::new(self.product, self.roofline, Some(Free::Both));
        let freely = graphs.expect("it was searched before: this is a bug of polyshard").sequences();
        let other = freely.iter().min_by_key(|sequence| sequence.total().memory).unwrap_or(least);
        let (left, right, bytes) = (&other.left, &other.right, other.total().memory);
        let mut advice = if bytes <= capacity {
            format!("with `{left}` and `{right}` it would take {bytes}")
        } else {
            format!("even with `{left}` and `{right}` it would take {bytes}: use more devices or smaller sizes")
        };
        if let Some(disagreement) = self.product.disagreement().filter(|_| self.free.is_none()) {
            advice = format!("{disagreement}, and to bring it together takes copies; {advice}");
        }
        let sequence = least.brief();
        ProductError::Memory { capacity, least: least.total().memory, sequence, advice }
    }
}

/// Leaves out what takes an array more than two steps where something better is no worse in anything.
fn sensible(sequences: Vec<Sequence>) -> Vec<Sequence> {
    let mut kept: Vec<Sequence> = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let total = sequence.total();
        let no_worse = |better: &Sequence| {
            let better = better.total();
            better.bytes <= total.bytes
                && better.memory <= total.memory
                && better.communication <= total.communication
                && better.arithmetic <= total.arithmetic
        };
        if !sequence.is_long() || !kept.iter().any(no_worse) {
            kept.push(sequence);
        }
    }
    kept
}

/// The steps of one array between two layouts, along the fast paths for the axes used if they are given.
fn steps(graph: &Graph, fast: Option<&[Paths<'_>]>, operand: Operand, ends: [&Layout; 2]) -> Option<Vec<ProductStep>> {
    let [from, to] = ends;
    let used = graph.used(ends)?;
    if from == to {
        return Some(Vec::new());
    }
    match fast {
        Some(fast) => graph.steps(&fast[used], operand, ends),
        None => graph.cheapest(operand, ends, graph.tile(from)?.max(graph.tile(to)?)),
    }
}

/// The axes of more than one rank, if they are not too many for an array of `dims` dimensions.
pub(super) fn axes(mesh: &Mesh, dims: usize) -> Result<Vec<usize>, ProductError> {
    let extents = mesh.as_slice().iter().enumerate();
    let axes: Vec<usize> = extents.filter(|(_, axis)| axis.extent > 1).map(|(nth, _)| nth).collect();
    if axes.len() > MAX_AXES {
        return Err(ProductError::Axes { axes: axes.len(), most: MAX_AXES });
    }
    // Each axis goes to a dimension, above or below those that are there, or to none.
    let layouts = |dims: usize| (1..=axes.len()).fold(dims, |ways, nth| ways.saturating_mul(dims.saturating_add(nth)));
    if layouts(dims) > MAX_LAYOUTS {
        let most = (0..dims).rev().find(|&fewer| layouts(fewer) <= MAX_LAYOUTS).unwrap_or(0);
        return Err(ProductError::Dimensions { dims, axes: axes.len(), most });
    }
    Ok(axes)
}

/// The better first: of two that fit the faster, of two that do not the smaller.
fn compare(left: &Sequence, right: &Sequence) -> Ordering {
    let (mine, theirs) = (left.total(), right.total());
    let smaller = mine.memory.cmp(&theirs.memory);
    right
        .fits
        .cmp(&left.fits)
        .then(if left.fits { Ordering::Equal } else { smaller })
        .then(mine.overlapped().total_cmp(&theirs.overlapped()))
        .then(mine.sequential().total_cmp(&theirs.sequential()))
        .then(smaller)
        .then(left.steps.len().cmp(&right.steps.len()))
        .then_with(|| left.work.cmp(&right.work))
}
