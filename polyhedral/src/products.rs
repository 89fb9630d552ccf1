//! Sums of products of several tensors as products of two at a time.
//!
//! ```text
//! B[i, r] += X[i, j, k] * C[j, r] * D[k, r]
//!   =>
//! for each block of j:
//!     T[j, k, r] = C[j, r] * D[k, r]             element by element
//!     B[i, r]   += X[i, j, k] * T[j, k, r]       a matrix product: M = i, N = r, K = j, k
//! ```
//!
//! All orders of the products are compared by an estimate of their time, and loops around them are divided into blocks until the
//! intermediate results take at most [`SCRATCH_BYTES`].

use polyshard_program::{BlockDepth, Factor, LeafLoopId, LoopBlock, OperandId, Product, ProductId, Role};

/// Maximum size in bytes of a leaf's intermediate results, so that they stay in a second-level cache.
pub(crate) const SCRATCH_BYTES: i64 = 1 << 20;

/// Maximum number of operands whose products are compared in every order; with more, the cheapest pairs are multiplied first.
const COMPARED: usize = 5;

// Costs, in units of one multiplication of a matrix product in registers.

/// A point of a nest.
const POINT: f64 = 16.0;
/// An element read from memory, and one of an intermediate result, read from the cache.
const ELEMENT: f64 = 16.0;
const SCRATCH: f64 = 4.0;
/// Elements that are read, or computed by a nest, in rows shorter than this take proportionally longer.
const RUN: f64 = 32.0;
/// Extra cost of an element that a matrix product reads transposed: along its rows run neither the terms of a sum nor the rows of the
/// result.
const TURNED: f64 = 16.0;
/// A matrix product with extents below these is proportionally slower: registers stay empty, or are stored often.
const REGISTERS: f64 = 8.0;
const TERMS: f64 = 64.0;
/// Starting a product.
const START: f64 = 2000.0;

/// A leaf's loops and the operands that they index; the order of the products depends on nothing else.
pub(crate) struct Shape {
    /// The maximum number of iterations of each loop.
    pub counts: Vec<i64>,
    /// The loops that index each operand, those of its last dimension last.
    pub operands: Vec<Vec<LeafLoopId>>,
    /// The loops that index the output, likewise.
    pub target: Vec<LeafLoopId>,
    /// Bytes of an element.
    pub size: i64,
}

/// The products, the loops that run in blocks around them, outermost first, and an estimate of the time.
pub(crate) struct Plan {
    pub steps: Vec<Product>,
    pub blocks: Vec<LoopBlock>,
    cost: f64,
}

impl Shape {
    /// The fastest sequence of products, unless one nest over all operands is as fast.
    pub(crate) fn plan(&self) -> Option<Plan> {
        if self.operands.len() < 3 {
            return None;
        }
        let mut orders: Vec<_> =
            self.orders().into_iter().map(|order| (self.estimated(&order, Vec::new()).cost, order)).collect();
        orders.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut best: Option<Plan> = None;
        for (least, order) in orders {
            // Blocks only add to the cost, and so do transposed operands.
            if best.as_ref().is_some_and(|best| best.cost <= least) {
                break;
            }
            let plan = self.with_turned(self.laid_out(self.blocked(&order, Vec::new())));
            if best.as_ref().is_none_or(|best| plan.cost < best.cost) {
                best = Some(plan);
            }
        }
        best.filter(|best| best.cost < self.nest())
    }

    /// The cost of one nest over all operands.
    fn nest(&self) -> f64 {
        let all = self.loops();
        let lasts = self.operands.iter().chain([&self.target]).filter_map(|loops| loops.last());
        let row = lasts.map(|&l| self.counts[l.0].max(0) as f64).fold(1.0, f64::max);
        POINT * (1.0 + RUN / row) * (self.operands.len() as f64 - 1.0) * self.points(all) + ELEMENT * self.elements()
    }

    fn loops(&self) -> impl Iterator<Item = LeafLoopId> {
        (0..self.counts.len()).map(LeafLoopId)
    }

    fn points(&self, loops: impl IntoIterator<Item = LeafLoopId>) -> f64 {
        loops.into_iter().map(|l| self.counts[l.0].max(0) as f64).product()
    }

    fn elements(&self) -> f64 {
        self.operands.iter().map(|operand| self.points(operand.iter().copied())).sum()
    }

    /// The orders that are compared, each a list of pairs; numbers that are not below the number of operands are results.
    fn orders(&self) -> Vec<Vec<[usize; 2]>> {
        let mut done = Vec::new();
        let mut left: Vec<usize> = (0..self.operands.len()).collect();
        let mut indexed = self.operands.clone();
        while left.len() > COMPARED {
            let pairs = left.iter().enumerate().flat_map(|(i, &a)| left[i + 1..].iter().map(move |&b| [a, b]));
            let size = |pair: &[usize; 2]| self.points(union(&indexed[pair[0]], &indexed[pair[1]]));
            let Some(pair) = pairs.min_by(|a, b| size(a).total_cmp(&size(b))) else { break };
            left.retain(|node| !pair.contains(node));
            indexed.push(self.kept(&indexed, pair, &left));
            left.push(indexed.len() - 1);
            done.push(pair);
        }
        let mut orders = Vec::new();
        all_orders(&left, indexed.len(), &mut done, &mut orders);
        orders
    }

    /// The loops that index the product of a pair: those of the pair that the output or the factors `left` need.
    fn kept(&self, indexed: &[Vec<LeafLoopId>], pair: [usize; 2], left: &[usize]) -> Vec<LeafLoopId> {
        if left.is_empty() {
            return self.target.clone();
        }
        let needed = |l: &LeafLoopId| self.target.contains(l) || left.iter().any(|&node| indexed[node].contains(l));
        union(&indexed[pair[0]], &indexed[pair[1]]).into_iter().filter(needed).collect()
    }

    /// The order's products with enough loops in blocks, in addition to those given.
    fn blocked(&self, order: &[[usize; 2]], blocks: Vec<LoopBlock>) -> Plan {
        let plan = self.estimated(order, blocks);
        if plan.scratch(self.size) <= SCRATCH_BYTES {
            return plan;
        }
        let free = |l: &LeafLoopId| self.counts[l.0] > 1 && plan.blocks.iter().all(|block| block.number != *l);
        let candidates = self.loops().filter(free).filter_map(|number| {
            let with = |size| self.estimated(order, [&plan.blocks[..], &[LoopBlock { number, size }]].concat());
            let sizes =
                (0..i64::BITS - 1).rev().map(|bits| 1 << bits).skip_while(|&size| size >= self.counts[number.0]);
            let sizes: Vec<i64> = sizes.collect();
            let fitting = sizes.iter().map(|&size| with(size)).find(|plan| plan.scratch(self.size) <= SCRATCH_BYTES);
            let smallest = || with(1);
            let fits = fitting.is_some();
            let found = fitting.unwrap_or_else(smallest);
            // A loop that bounds no intermediate result does not help.
            (found.scratch(self.size) < plan.scratch(self.size)).then_some((fits, found))
        });
        let better = |a: &(bool, Plan), b: &(bool, Plan)| {
            let [size_a, size_b] = [a, b].map(|found| if found.0 { 0 } else { found.1.scratch(self.size) });
            size_a.cmp(&size_b).then(a.1.cost.total_cmp(&b.1.cost))
        };
        match candidates.min_by(better) {
            Some((true, found)) => found,
            Some((false, found)) => self.blocked(order, found.blocks),
            // Every loop is in blocks of one iteration, and an intermediate result is one element.
            None => plan,
        }
    }

    /// The order's products with these blocks, and their cost.
    fn estimated(&self, order: &[[usize; 2]], blocks: Vec<LoopBlock>) -> Plan {
        let operands = self.operands.len();
        let mut left: Vec<usize> = (0..operands).collect();
        let mut indexed = self.operands.clone();
        // The loops below each node, summed ones included.
        let mut below = self.operands.clone();
        let mut steps = Vec::new();
        let mut cost = 0.0;
        for &pair in order {
            left.retain(|node| !pair.contains(node));
            let kept = self.kept(&indexed, pair, &left);
            let mut loops = union(&indexed[pair[0]], &indexed[pair[1]]);
            below.push(union(&below[pair[0]], &below[pair[1]]));
            if left.is_empty() {
                // A loop that indexes no operand repeats the last product.
                let nowhere = |l: &LeafLoopId| !below[below.len() - 1].contains(l);
                loops.extend(self.loops().filter(nowhere));
            }
            loops.sort_unstable();
            let level = blocks.iter().rposition(|block| below[below.len() - 1].contains(&block.number));
            let level = level.map_or(0, |deepest| deepest + 1);
            let count = |l: LeafLoopId| {
                let block = blocks[..level].iter().find(|block| block.number == l);
                block.map_or(self.counts[l.0], |block| block.size.min(self.counts[l.0])).max(0)
            };
            let size = |loops: &[LeafLoopId]| loops.iter().map(|&l| count(l) as f64).product::<f64>();
            // The number of contiguous elements: of the last dimensions, up to and including the first one that is in blocks.
            let run = |operand: usize| {
                let mut run = 1.0;
                for &l in self.operands[operand].iter().rev() {
                    run *= count(l) as f64;
                    if count(l) < self.counts[l.0] {
                        break;
                    }
                }
                f64::max(run, 1.0)
            };
            let roles = matrix([&indexed[pair[0]], &indexed[pair[1]]], &kept, &loops);
            let times: f64 = blocks[..level]
                .iter()
                .map(|block| (self.counts[block.number.0] as f64 / block.size as f64).ceil())
                .product();
            let mut step = START + if left.is_empty() { ELEMENT } else { SCRATCH } * size(&kept);
            for &factor in &pair {
                let elements = size(&indexed[factor]);
                step += if factor < operands { ELEMENT * (1.0 + RUN / run(factor)) } else { SCRATCH } * elements;
            }
            step += match &roles[..] {
                [] => {
                    let lasts =
                        [&indexed[pair[0]], &indexed[pair[1]], &kept].into_iter().filter_map(|loops| loops.last());
                    let row = lasts.map(|&l| count(l) as f64).fold(1.0, f64::max);
                    POINT * (1.0 + RUN / row) * size(&loops)
                }
                roles => {
                    let along = |role: Role| {
                        let counts = loops.iter().zip(roles).filter(|found| *found.1 == role);
                        counts.map(|(&l, _)| count(l) as f64).product::<f64>()
                    };
                    let short = |extent: f64, enough: f64| 1.0 + enough / extent.max(1.0);
                    let [m, n, k] = [Role::M, Role::N, Role::K].map(along);
                    size(&loops) * short(m, REGISTERS) * short(n, REGISTERS) * short(k, TERMS)
                }
            };
            cost += times * step;
            let factors = pair.map(|node| match node.checked_sub(operands) {
                None => Factor::Operand(OperandId(node)),
                Some(step) => Factor::Scratch(ProductId(step)),
            });
            let elements = kept.iter().fold(1i64, |elements, &l| elements.saturating_mul(count(l)));
            let capacity = if left.is_empty() { 0 } else { elements as usize };
            steps.push(Product {
                factors,
                loops,
                kept: if left.is_empty() { vec![] } else { kept.clone() },
                roles,
                level: BlockDepth(level),
                capacity,
            });
            indexed.push(kept);
            left.push(indexed.len() - 1);
        }
        Plan { steps, blocks, cost }
    }

    /// The plan with the intermediate results' dimensions in the order that suits the products that compute and use them.
    fn laid_out(&self, mut plan: Plan) -> Plan {
        // The last result has the output's dimensions; going backwards, those of the product that uses a result are known.
        for made in (0..plan.steps.len() - 1).rev() {
            let used = (made + 1..plan.steps.len())
                .find(|&step| plan.steps[step].factors.contains(&Factor::Scratch(ProductId(made))));
            let steps = [Some(made), used].into_iter().flatten();
            let beside: Vec<(&Product, Vec<&[LeafLoopId]>)> = steps
                .map(|step| {
                    let product = &plan.steps[step];
                    let factors = product.factors.iter().filter_map(|factor| match factor {
                        Factor::Operand(number) => Some(&self.operands[number.0][..]),
                        Factor::Scratch(_) => None,
                    });
                    let result = if step + 1 == plan.steps.len() { &self.target } else { &product.kept };
                    (product, factors.chain((step != made).then_some(&result[..])).collect())
                })
                .collect();
            let score = |order: &[LeafLoopId]| {
                beside.iter().map(|(product, others)| suits(order, product, others)).sum::<usize>()
            };
            let mut best = plan.steps[made].kept.clone();
            for order in permutations(&best) {
                if score(&order) > score(&best) {
                    best = order;
                }
            }
            plan.steps[made].kept = best;
        }
        plan
    }

    /// The plan with the extra cost of transposed operands, which depends on the order of the dimensions of intermediate results.
    fn with_turned(&self, mut plan: Plan) -> Plan {
        for step in &plan.steps {
            let result = step.kept.last().or(self.target.last());
            let is_apart = |last: &LeafLoopId| {
                let mut roles = step.loops.iter().zip(&step.roles);
                let role = roles.find(|(number, _)| *number == last).map(|(_, role)| role);
                matches!(role, Some(Role::M | Role::N)) && Some(last) != result
            };
            let operands = step.factors.iter().filter_map(|factor| match factor {
                Factor::Operand(number) => Some(&self.operands[number.0]),
                Factor::Scratch(_) => None,
            });
            for operand in operands.filter(|operand| operand.last().is_some_and(is_apart)) {
                // It is read again in each block of a loop that does not index it.
                let again = plan.blocks[..step.level.0].iter().filter(|block| !operand.contains(&block.number));
                let times = again.map(|block| (self.counts[block.number.0] as f64 / block.size as f64).ceil());
                plan.cost += TURNED * self.points(operand.iter().copied()) * times.product::<f64>();
            }
        }
        plan
    }
}

impl Plan {
    /// Bytes of all intermediate results.
    fn scratch(&self, size: i64) -> i64 {
        self.steps.iter().fold(0, |bytes: i64, step| bytes.saturating_add((step.capacity as i64).saturating_mul(size)))
    }
}

/// How much a product gains from this order of an intermediate result's dimensions, others being as they are.
fn suits(order: &[LeafLoopId], product: &Product, others: &[&[LeafLoopId]]) -> usize {
    let role = |l: LeafLoopId| {
        let found = product.loops.iter().zip(&product.roles).find(|(other, _)| **other == l);
        found.map(|(_, role)| *role)
    };
    // Loops that are adjacent wherever they occur run as one loop.
    let merged = order.windows(2).filter(|pair| {
        let follow = |other: &&[LeafLoopId]| match other.iter().position(|&l| l == pair[0]) {
            Some(at) => other.get(at + 1) == Some(&pair[1]),
            None => !other.contains(&pair[1]),
        };
        role(pair[0]).is_some() && role(pair[0]) == role(pair[1]) && others.iter().all(follow)
    });
    let last = others.iter().filter(|other| order.last() == other.last()).count();
    let weight = if product.roles.is_empty() { 3 } else { 1 };
    4 * merged.count() + weight * last
}

/// The role of each loop in a matrix product; empty if the product runs as a nest.
fn matrix(factors: [&[LeafLoopId]; 2], result: &[LeafLoopId], loops: &[LeafLoopId]) -> Vec<Role> {
    let role = |l: &LeafLoopId| match (factors[0].contains(l), factors[1].contains(l), result.contains(l)) {
        (true, true, true) => Some(Role::Batch),
        (true, false, true) => Some(Role::M),
        (false, true, true) => Some(Role::N),
        (true, true, false) => Some(Role::K),
        _ => None,
    };
    let roles: Option<Vec<Role>> = loops.iter().map(role).collect();
    match roles {
        Some(roles) if roles.contains(&Role::K) && roles.iter().any(|role| matches!(role, Role::M | Role::N)) => {
            // If M or N has no loops, each entry of a batch is a product with a vector, which a nest computes for all entries
            // together.
            let vector = roles.contains(&Role::Batch) && !(roles.contains(&Role::M) && roles.contains(&Role::N));
            if vector { Vec::new() } else { roles }
        }
        _ => Vec::new(),
    }
}

fn all_orders(left: &[usize], next: usize, done: &mut Vec<[usize; 2]>, orders: &mut Vec<Vec<[usize; 2]>>) {
    if left.len() < 2 {
        orders.push(done.clone());
        return;
    }
    for (i, &a) in left.iter().enumerate() {
        for &b in &left[i + 1..] {
            let mut rest: Vec<usize> = left.iter().copied().filter(|&node| node != a && node != b).collect();
            rest.push(next);
            done.push([a, b]);
            all_orders(&rest, next + 1, done, orders);
            done.pop();
        }
    }
}

fn union(a: &[LeafLoopId], b: &[LeafLoopId]) -> Vec<LeafLoopId> {
    let more = b.iter().copied().filter(|l| !a.contains(l));
    let mut both: Vec<LeafLoopId> = a.iter().copied().chain(more).collect();
    both.sort_unstable();
    both
}

/// All orders of a few loops, the given one first; with more than six, only that one.
fn permutations(loops: &[LeafLoopId]) -> Vec<Vec<LeafLoopId>> {
    if loops.len() > 6 || loops.len() < 2 {
        return vec![loops.to_vec()];
    }
    let with_first = |i: usize| {
        let rest: Vec<LeafLoopId> = [&loops[..i], &loops[i + 1..]].concat();
        permutations(&rest).into_iter().map(move |rest| [&[loops[i]], &rest[..]].concat())
    };
    (0..loops.len()).flat_map(with_first).collect()
}

#[cfg(test)]
mod tests;
