//! Orders of contraction as trees: optimal for few operands, greedy and annealed for many.
//!
//! Annealing is by `omeco`, a port of OMEinsumContractionOrders.jl, with the moves of G. Kalachev, P. Panteleev and
//! M.-H. Yung, "Multi-tensor contraction for XEB verification of quantum circuits", 2021. It starts from random trees
//! with fixed seeds, so a network has the same orders on any number of cores. The greedy order of `omeco` depends on
//! the order of a hash map; ours does not.

use omeco::{EinCode, Initializer, NestedEinsum, ScoreFunction, TreeSA, optimize_treesa};
use polyshard_layout::each_once;
use std::collections::HashMap;

/// Size of one annealing: temperatures, and trees that are annealed in parallel.
const TEMPERATURES: usize = 100;
const TREES: usize = 4;

/// Sweeps at each temperature in the first annealing. Each further one has four times as many.
const SWEEPS: usize = 10;
const MAX_SWEEPS: usize = 640;

/// Nominal seconds of one move of a tree. It is a constant, not a measurement, so that results do not depend on clocks.
const SECONDS_OF_MOVE: f64 = 5e-7;

/// Operands and the output, as sets of numbered indices.
pub(super) struct Network {
    /// The indices of each operand, each once.
    pub(super) operands: Vec<Vec<usize>>,
    /// The extent of each index.
    pub(super) extents: Vec<f64>,
    /// Whether the output has the index.
    pub(super) is_output: Vec<bool>,
    /// Whether the output is added to.
    pub(super) adds: bool,
}

/// Which operands are contracted with which.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Operand(usize),
    Product(Vec<Tree>),
}

impl Tree {
    pub(super) fn pair(pair: [Self; 2]) -> Self {
        Self::Product(pair.into())
    }

    /// The numbers of its operands.
    pub(super) fn operands(&self) -> Vec<usize> {
        match self {
            Self::Operand(operand) => vec![*operand],
            Self::Product(factors) => factors.iter().flat_map(Self::operands).collect(),
        }
    }
}

/// A partly contracted network.
pub(super) struct Contracted<'a> {
    network: &'a Network,
    /// The indices of each part; `None` once it is contracted.
    parts: Vec<Option<Vec<usize>>>,
    /// For each index, the number of remaining parts that have it.
    holders: Vec<usize>,
}

impl<'a> Contracted<'a> {
    pub(super) fn new(network: &'a Network) -> Self {
        let mut holders = vec![0; network.extents.len()];
        network.operands.iter().flatten().for_each(|&index| holders[index] += 1);
        Self { network, parts: network.operands.iter().cloned().map(Some).collect(), holders }
    }

    fn elements(&self, part: usize) -> f64 {
        self.network.elements(self.indices(part))
    }

    pub(super) fn indices(&self, part: usize) -> &[usize] {
        self.parts[part].as_deref().unwrap_or_default()
    }

    /// Elements of the product of two parts minus those of the parts; `None` if they share no index.
    fn growth(&self, one: usize, other: usize) -> Option<f64> {
        self.indices(one).iter().find(|index| self.indices(other).contains(index))?;
        let [_, kept] = self.joined(&[one, other]);
        Some(self.network.elements(&kept) - self.elements(one) - self.elements(other))
    }

    /// The indices of some parts, and the indices that their product keeps.
    fn joined(&self, parts: &[usize]) -> [Vec<usize>; 2] {
        let all = each_once(parts.iter().flat_map(|&part| self.indices(part)).copied());
        let is_kept = |index: &usize| {
            let inside = parts.iter().filter(|&&part| self.indices(part).contains(index)).count();
            self.network.is_output[*index] || self.holders[*index] > inside
        };
        let kept = all.iter().copied().filter(is_kept).collect();
        [all, kept]
    }

    /// Contracts some parts. Returns the number of their product, and the operations.
    pub(super) fn join(&mut self, parts: &[usize]) -> (usize, f64) {
        let [all, kept] = self.joined(parts);
        for &part in parts {
            self.parts[part].take().into_iter().flatten().for_each(|index| self.holders[index] -= 1);
        }
        kept.iter().for_each(|&index| self.holders[index] += 1);
        let is_last = self.parts.iter().all(Option::is_none);
        // A multiplication, and an addition if there is a sum.
        let sums = all.len() > kept.len() || is_last && self.network.adds;
        let operations = self.network.elements(&all) * if sums { 2.0 } else { 1.0 };
        self.parts.push(Some(kept));
        (self.parts.len() - 1, operations)
    }

    /// Contracts a tree, and calls `made` with the parts of each product and the indices that it keeps. Returns the
    /// number of the tree's part, and the operations.
    pub(super) fn contract(&mut self, tree: &Tree, made: &mut impl FnMut(&[usize], &[usize])) -> (usize, f64) {
        match tree {
            Tree::Operand(operand) => (*operand, 0.0),
            Tree::Product(factors) => {
                let factors = factors.iter().map(|factor| self.contract(factor, made));
                let (parts, before): (Vec<usize>, Vec<f64>) = factors.unzip();
                let (part, operations) = self.join(&parts);
                made(&parts, self.indices(part));
                (part, before.into_iter().sum::<f64>() + operations)
            }
        }
    }
}

impl Network {
    fn elements(&self, indices: &[usize]) -> f64 {
        indices.iter().map(|&index| self.extents[index]).product()
    }

    /// The operations of an order.
    pub(super) fn operations(&self, tree: &Tree) -> f64 {
        Contracted::new(self).contract(tree, &mut |_, _| ()).1
    }

    /// Lower bound on the operations of any order: each operand is in one step, which has at least as many operations
    /// as either of its two operands has elements.
    pub(super) fn fewest_operations(&self) -> f64 {
        self.operands.iter().map(|indices| self.elements(indices)).sum::<f64>() / 2.0
    }

    /// Greedily contracts the pair whose product has the smallest growth over the elements of the two; ties go to the
    /// lower numbers.
    pub(super) fn greedy(&self) -> Tree {
        let mut contracted = Contracted::new(self);
        let mut trees: Vec<Option<Tree>> =
            (0..self.operands.len()).map(|operand| Some(Tree::Operand(operand))).collect();
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        let mut new = 0..self.operands.len();
        loop {
            for other in new {
                let growths = (0..other).filter_map(|one| Some((contracted.growth(one, other)?, one, other)));
                pairs.extend(growths);
            }
            let mut left: Vec<usize> = (0..trees.len()).filter(|&part| trees[part].is_some()).collect();
            if left.len() == 1 {
                return trees.pop().flatten().expect("the last part is the whole; this is a bug in polyshard");
            }
            let least = pairs.iter().min_by(|(growth, one, other), (than, first, second)| {
                growth.total_cmp(than).then((one, other).cmp(&(first, second)))
            });
            let (one, other) = match least {
                Some(&(_, one, other)) => (one, other),
                // The remaining parts share no indices: smallest first.
                None => {
                    left.sort_by(|&one, &two| contracted.elements(one).total_cmp(&contracted.elements(two)));
                    (left[0].min(left[1]), left[0].max(left[1]))
                }
            };
            let pair = [one, other].map(|part| trees[part].take().expect("what is left; this is a bug in polyshard"));
            contracted.join(&[one, other]);
            trees.push(Some(Tree::pair(pair)));
            pairs.retain(|&(_, first, second)| ![first, second].iter().any(|part| [one, other].contains(part)));
            new = trees.len() - 1..trees.len();
        }
    }

    /// An order with the minimum number of operations, by dynamic programming over all sets of operands (R. N. C.
    /// Pfeifer, J. Haegeman and F. Verstraete, "Faster identification of optimal contraction sequences for tensor
    /// networks", Phys. Rev. E 90, 2014).
    pub(super) fn exact(&self) -> Tree {
        let all = (1usize << self.operands.len()) - 1;
        let mut holders = vec![0usize; self.extents.len()];
        for (operand, indices) in self.operands.iter().enumerate() {
            indices.iter().for_each(|&index| holders[index] |= 1 << operand);
        }
        // The indices of a set's product; a single operand keeps all its indices.
        let has = |set: usize, index: usize| {
            let is_needed = set.count_ones() < 2 || self.is_output[index] || holders[index] & !set != 0;
            holders[index] & set != 0 && is_needed
        };
        let of_set = |set: usize| (0..holders.len()).filter(|&index| has(set, index)).collect::<Vec<usize>>();
        let open: Vec<Vec<usize>> = (0..=all).map(of_set).collect();
        let operations = |one: usize, other: usize| -> f64 {
            let more = open[other].iter().filter(|index| !open[one].contains(index));
            let (mut count, mut points) = (0, 1.0);
            for &index in open[one].iter().chain(more) {
                (count, points) = (count + 1, points * self.extents[index]);
            }
            let sums = count > open[one | other].len() || one | other == all && self.adds;
            if sums { 2.0 * points } else { points }
        };
        let mut best: Vec<(f64, usize)> = vec![(0.0, 0); all + 1];
        for set in (1..=all).filter(|set| set.count_ones() > 1) {
            best[set].0 = f64::INFINITY;
            let lowest = set & set.wrapping_neg();
            // The halves that contain the first operand.
            let mut half = (set - 1) & set;
            while half > 0 {
                let before = best[half].0 + best[set & !half].0;
                if half & lowest != 0 && before < best[set].0 {
                    let cost = before + operations(half, set & !half);
                    if cost < best[set].0 {
                        best[set] = (cost, half);
                    }
                }
                half = (half - 1) & set;
            }
        }
        fn tree(set: usize, best: &[(f64, usize)]) -> Tree {
            match set.count_ones() {
                1 => Tree::Operand(set.trailing_zeros() as usize),
                _ => Tree::pair([best[set].1, set & !best[set].1].map(|half| tree(half, best))),
            }
        }
        tree(all, &best)
    }

    /// Orders with few operations, fewest first. Annealing runs for at most as long as the best order would take, by
    /// `seconds` of its operations, and for at most `at_most` seconds, counted in moves.
    pub(super) fn annealed(&self, at_most: f64, seconds: impl Fn(f64) -> f64) -> Vec<(f64, Tree)> {
        let mut found = Vec::new();
        let mut add = |tree: Tree| {
            if found.iter().all(|(_, other)| *other != tree) {
                found.push((self.operations(&tree), tree));
                found.sort_by(|one, two| one.0.total_cmp(&two.0));
            }
            found[0].0
        };
        let mut fewest = add(self.greedy());
        let (mut sweeps, mut spent) = (SWEEPS, 0.0);
        while sweeps <= MAX_SWEEPS {
            let cost = (TEMPERATURES * TREES * sweeps * self.operands.len()) as f64 * SECONDS_OF_MOVE;
            // The first annealing is always worth it, if there is time for it.
            if spent + cost > at_most || sweeps > SWEEPS && spent + cost > seconds(fewest) {
                break;
            }
            (sweeps, spent) = (4 * sweeps, spent + cost);
            match self.anneal(sweeps / 4) {
                Some(tree) => fewest = add(tree),
                None => break,
            }
        }
        found
    }

    /// One annealing.
    fn anneal(&self, sweeps: usize) -> Option<Tree> {
        let output = (0..self.extents.len()).filter(|&index| self.is_output[index]).collect();
        let code = EinCode::new(self.operands.clone(), output);
        // Extents of 0 become 1, since `omeco` takes logarithms.
        let sizes: HashMap<usize, usize> =
            self.extents.iter().map(|&extent| extent.max(1.0) as usize).enumerate().collect();
        let annealing = TreeSA {
            betas: (1..=TEMPERATURES).map(|nth| 15.0 * nth as f64 / TEMPERATURES as f64).collect(),
            ntrials: TREES,
            niters: sweeps,
            initializer: Initializer::Random,
            score: ScoreFunction::time_optimized(),
            ..TreeSA::default()
        };
        // The threads end with the annealing: the process may be one of many ranks on this node.
        let cores = std::thread::available_parallelism().map_or(1, Into::into);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(TREES.min(cores)).build().ok()?;
        tree(&pool.install(|| optimize_treesa(&code, &sizes, &annealing))?)
    }
}

/// The same tree; `None` if a node does not have two parts.
fn tree(nested: &NestedEinsum<usize>) -> Option<Tree> {
    match nested {
        NestedEinsum::Leaf { tensor_index } => Some(Tree::Operand(*tensor_index)),
        NestedEinsum::Node { args, .. } => match &args[..] {
            [one, other] => Some(Tree::pair([tree(one)?, tree(other)?])),
            _ => None,
        },
    }
}
