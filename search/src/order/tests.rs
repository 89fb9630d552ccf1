//! Orders of random networks against a sum of products that eliminates one index at a time.

use super::{Network, Order, Tree, operands};
use polyshard_dsl::{Operand, einsum};
use polyshard_layout::{DType, Name};
use polyshard_program::{Access, Kernel};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::HashMap;

/// Pseudorandom numbers, reproducible.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// The kernel of the product of operands with these indices, summed over the indices that the output does not have.
fn kernel(operands: &[Vec<usize>], extents: &[usize], output: &[usize]) -> Kernel {
    let letters: Vec<char> = ('\u{4e00}'..).take(extents.len()).collect();
    let term = |indices: &[usize]| indices.iter().map(|&index| letters[index]).collect::<String>();
    let text: Vec<String> = operands.iter().map(|indices| term(indices)).collect();
    let shapes: Vec<Vec<usize>> =
        operands.iter().map(|indices| indices.iter().map(|&index| extents[index]).collect()).collect();
    let sources: Vec<String> = (0..operands.len()).map(|nth| format!("A{nth}")).collect();
    let given: Vec<_> = sources.iter().zip(&shapes).map(|(source, shape)| Operand { source, shape }).collect();
    let text = format!("{}->{}", text.join(","), term(output));
    einsum(&text, &given, DType::I64, "C").expect("an einsum").check().expect("a kernel")
}

/// A network of this many operands, most of which share indices with one of the few before them.
fn network(count: usize, seed: u64) -> (Vec<Vec<usize>>, Vec<usize>, Vec<usize>) {
    let mut numbers = Numbers(seed);
    let (mut operands, mut extents): (Vec<Vec<usize>>, Vec<usize>) = (Vec::new(), Vec::new());
    for nth in 0..count {
        let mut indices = Vec::new();
        let mut new = |numbers: &mut Numbers| {
            extents.push(1 + numbers.below(3));
            extents.len() - 1
        };
        for _ in 0..numbers.below(3) {
            if nth == 0 || numbers.one_in(12) {
                indices.push(new(&mut numbers));
                continue;
            }
            let other = nth - 1 - numbers.below(nth.min(4));
            let shared = operands[other].first().copied().filter(|_| numbers.one_in(6));
            let index = shared.unwrap_or_else(|| {
                let index = new(&mut numbers);
                operands[other].push(index);
                index
            });
            // The same index twice is a diagonal.
            if !indices.contains(&index) || numbers.one_in(2) {
                indices.push(index);
            }
        }
        operands.push(indices);
    }
    let mut output: Vec<usize> = (0..extents.len()).filter(|_| numbers.one_in(20)).collect();
    output.truncate(4);
    (operands, extents, output)
}

fn element(operand: usize, at: usize) -> i64 {
    ((7 * operand + 5 * at) % 11) as i64 - 5
}

/// The linear index of an element in an array of these extents.
fn place(at: &[usize], indices: &[usize], extents: &[usize]) -> usize {
    indices.iter().fold(0, |place, &index| place * extents[index] + at[index])
}

/// Calls `call` with all values of these indices; the others are 0.
fn each(indices: &[usize], extents: &[usize], mut call: impl FnMut(&[usize])) {
    let mut at = vec![0; extents.len()];
    loop {
        call(&at);
        let Some(&next) = indices.iter().rev().find(|&&index| at[index] + 1 < extents[index]) else { return };
        let behind = indices.iter().rev().take_while(|&&index| index != next);
        behind.for_each(|&index| at[index] = 0);
        at[next] += 1;
    }
}

fn distinct(indices: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut all: Vec<usize> = indices.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The output by elimination: each index is summed over as soon as all factors that have it are multiplied, the one
/// that meets the smallest number of others first.
fn eliminated(operands: &[Vec<usize>], extents: &[usize], output: &[usize]) -> Vec<i64> {
    let of_operand = |(nth, indices): (usize, &Vec<usize>)| {
        let size = indices.iter().map(|&index| extents[index]).product();
        (indices.clone(), (0..size).map(|at| element(nth, at)).collect::<Vec<i64>>())
    };
    let mut factors: Vec<(Vec<usize>, Vec<i64>)> = operands.iter().enumerate().map(of_operand).collect();
    let mut left: Vec<usize> = (0..extents.len()).filter(|index| !output.contains(index)).collect();
    let multiply = |summed: Option<usize>, factors: &mut Vec<(Vec<usize>, Vec<i64>)>| {
        let is_met = |factor: &(Vec<usize>, Vec<i64>)| summed.is_none_or(|index| factor.0.contains(&index));
        let (met, rest): (Vec<_>, Vec<_>) = factors.drain(..).partition(is_met);
        let all = distinct(met.iter().flat_map(|factor| factor.0.iter().copied()));
        let kept: Vec<usize> = match summed {
            Some(index) => all.iter().copied().filter(|other| *other != index).collect(),
            None => output.to_vec(),
        };
        let mut values = vec![0i64; kept.iter().map(|&index| extents[index]).product()];
        each(&all, extents, |at| {
            let product = met
                .iter()
                .fold(1i64, |product, (indices, values)| product.wrapping_mul(values[place(at, indices, extents)]));
            let sum = &mut values[place(at, &kept, extents)];
            *sum = sum.wrapping_add(product);
        });
        *factors = rest;
        factors.push((kept, values));
    };
    while !left.is_empty() {
        let met = |index: usize| {
            let factors = factors.iter().filter(|factor| factor.0.contains(&index));
            distinct(factors.flat_map(|factor| factor.0.iter().copied())).len()
        };
        let next = (0..left.len()).min_by_key(|&nth| met(left[nth])).expect("there is one");
        let index = left.remove(next);
        multiply(Some(index), &mut factors);
    }
    multiply(None, &mut factors);
    factors.remove(0).1
}

/// The output of the kernels of an order, each with a loop per index.
fn contracted(order: &Order, operands: &[Vec<usize>]) -> Vec<i64> {
    let mut arrays: HashMap<Name, Vec<i64>> = HashMap::new();
    let mut last = Vec::new();
    for stage in order.stages() {
        assert!(stage.value().accesses().len() == 2, "{stage}");
        let extents: Vec<usize> = stage.vars().iter().map(|var| var.extent).collect();
        let number = |name: Name| stage.vars().iter().position(|var| var.name == name).expect("an index");
        let indices = |access: &Access| -> Vec<usize> {
            access.index.iter().map(|index| number(index.as_variable().expect("a plain index"))).collect()
        };
        let read = |access: &Access| {
            let operand = access.tensor.as_str().strip_prefix('A').map(|nth| nth.parse::<usize>().expect("a number"));
            let values = match operand {
                Some(nth) => {
                    assert_eq!(access.index.len(), operands[nth].len());
                    let size: usize = indices(access).into_iter().map(|index| extents[index]).product();
                    (0..size).map(|at| element(nth, at)).collect()
                }
                None => arrays[&access.tensor].clone(),
            };
            (indices(access), values)
        };
        let factors: Vec<_> = stage.value().accesses().into_iter().map(read).collect();
        let target = indices(stage.target());
        let mut values = vec![0i64; target.iter().map(|&index| extents[index]).product()];
        each(&(0..extents.len()).collect::<Vec<_>>(), &extents, |at| {
            let product = factors
                .iter()
                .fold(1i64, |product, (indices, values)| product.wrapping_mul(values[place(at, indices, &extents)]));
            let sum = &mut values[place(at, &target, &extents)];
            *sum = sum.wrapping_add(product);
        });
        last.clone_from(&values);
        arrays.insert(stage.output().name, values);
    }
    last
}

#[test]
fn orders_of_random_networks_give_the_sum_of_all_products() {
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let law = |(count, seed): (usize, u64)| {
        let (operands, extents, output) = network(count, seed);
        let kernel = kernel(&operands, &extents, &output);
        let expected = eliminated(&operands, &extents, &output);
        // Annealing takes longer than the rest of the test.
        let at_most = if seed % 8 == 0 { 1.0 } else { 0.0 };
        let (orders, _) = Order::all(&kernel, at_most, |_| 0.0);
        prop_assert!(!orders.is_empty());
        for order in orders.iter().chain(&Order::pairwise(&kernel)) {
            prop_assert_eq!(order.stages().len(), count - 1);
            prop_assert!(contracted(order, &operands) == expected, "{} in the order {}", kernel, order);
        }
        Ok(())
    };
    runner.run(&(3usize..=60, any::<u64>()), law).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn networks_whose_points_cannot_be_counted_have_orders() {
    let chain = |count: usize| (0..count).map(|nth| vec![nth, nth + 1]).collect::<Vec<_>>();
    let order = |operands: &[Vec<usize>], extents: &[usize], output: &[usize]| {
        let (orders, _) = Order::all(&kernel(operands, extents, output), 1.0, |_| 0.0);
        orders[0].stages().len()
    };
    assert_eq!(order(&chain(100), &[2; 101], &[0, 100]), 99);
    // Each operand shares an index with the next one, and with others that are far away.
    let wide: Vec<Vec<usize>> = (0..300)
        .map(|nth| vec![nth, nth + 1, 301 + nth, 301 + (nth + 1) % 300, 601 + nth, 601 + (nth + 150) % 300])
        .collect();
    assert_eq!(order(&wide, &[2; 901], &[]), 299);
}

/// The minimum number of operations over all trees of some operands.
fn fewest(network: &Network, parts: Vec<Tree>) -> f64 {
    if let [whole] = &parts[..] {
        return network.operations(whole);
    }
    let pairs = (0..parts.len()).flat_map(|one| (one + 1..parts.len()).map(move |other| (one, other)));
    let joined = |(one, other): (usize, usize)| {
        let mut left = parts.clone();
        let second = left.remove(other);
        let first = left.remove(one);
        left.push(Tree::pair([first, second]));
        fewest(network, left)
    };
    pairs.map(joined).fold(f64::INFINITY, f64::min)
}

/// Tensors in a square with this many on each side, each sharing an index of extent 2 with each neighbour.
fn lattice(side: usize) -> Vec<Vec<usize>> {
    let mut operands = vec![Vec::new(); side * side];
    let pairs = (0..side * side).flat_map(|at| {
        let right = (at % side + 1 < side).then_some((at, at + 1));
        let below = (at / side + 1 < side).then_some((at, at + side));
        right.into_iter().chain(below)
    });
    for (index, (one, other)) in pairs.enumerate() {
        operands[one].push(index);
        operands[other].push(index);
    }
    operands
}

#[test]
fn of_a_lattice_an_order_of_few_operations_is_found() {
    let operands_of = lattice(5);
    let kernel = kernel(&operands_of, &[2; 40], &[]);
    let network = Network::new(&kernel, &operands(&kernel).expect("a product"));
    // opt_einsum finds 4128 with `auto-hq`.
    let annealed = network.annealed(1.0, |_| 0.0);
    assert!(annealed[0].0 <= 4128.0, "{annealed:?}");
}

#[test]
fn of_few_operands_no_order_has_fewer_operations() {
    for seed in 0..20 {
        let (of_network, extents, output) = network(5 + seed as usize % 2, seed);
        let kernel = kernel(&of_network, &extents, &output);
        let network = Network::new(&kernel, &operands(&kernel).expect("a product"));
        let parts = (0..network.operands.len()).map(Tree::Operand).collect();
        let exact = network.exact();
        assert_eq!(network.operations(&exact), fewest(&network, parts), "{kernel}");
        assert!(network.operations(&network.greedy()) >= network.operations(&exact));
        assert!(network.fewest_operations() <= network.operations(&exact));
        let annealed = network.annealed(1.0, |_| 0.0);
        assert!((network.operations(&exact)..=network.operations(&network.greedy())).contains(&annealed[0].0));
        assert_eq!(annealed, network.annealed(1.0, |_| 0.0), "the same each time");
    }
}
