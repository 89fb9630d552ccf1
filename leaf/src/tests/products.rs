//! Sequences of products compared with the loops that they denote.

use super::{at, filled, points};
use crate::{BlockDepth, Factor, LeafLoopId, OperandId, Product, ProductId, Products, Role};
use crate::{Element, Strided, StridedMut};
use proptest::prelude::*;

const LOOPS: usize = 4;

/// A sum of products over up to four loops: which operands and whether the output is indexed by each, and how they run.
#[derive(Clone, Debug)]
struct Case {
    counts: Vec<usize>,
    operands: Vec<[bool; LOOPS]>,
    target: [bool; LOOPS],
    /// The pair that is multiplied next, modulo the number left.
    order: Vec<[usize; 2]>,
    blocks: Vec<(LeafLoopId, usize)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let indexed = || prop::array::uniform4(prop::bool::weighted(0.6));
    let blocks = (Just(vec![0, 1, 2, 3]).prop_shuffle(), prop::collection::vec(1usize..4, 0..3));
    (
        prop::collection::vec(prop_oneof![1 => Just(0usize), 10 => 1usize..7], LOOPS),
        prop::collection::vec(indexed(), 2..5),
        indexed(),
        prop::collection::vec(prop::array::uniform2(0usize..8), 4),
        blocks,
    )
        .prop_map(|(counts, operands, target, order, (loops, sizes))| {
            let blocks = loops.into_iter().map(LeafLoopId).zip(sizes).collect();
            Case { counts, operands, target, order, blocks }
        })
}

/// The sequence that multiplies the pairs of the case, with matrix products where each loop has a role in one.
fn sequence(case: &Case) -> Vec<Product> {
    let mut indexed = case.operands.clone();
    let mut below = case.operands.clone();
    let mut left: Vec<usize> = (0..indexed.len()).collect();
    let mut steps = Vec::new();
    for pair in &case.order {
        if left.len() < 2 {
            break;
        }
        let a = left.remove(pair[0] % left.len());
        let b = left.remove(pair[1] % left.len());
        let last = left.is_empty();
        let all: [bool; LOOPS] = std::array::from_fn(|l| below[a][l] || below[b][l]);
        let needed = |l: usize| case.target[l] || left.iter().any(|&node| indexed[node][l]);
        let made: [bool; LOOPS] =
            std::array::from_fn(|l| if last { case.target[l] } else { (indexed[a][l] || indexed[b][l]) && needed(l) });
        let runs = |&l: &usize| indexed[a][l] || indexed[b][l] || last && !all[l];
        let loops: Vec<usize> = (0..LOOPS).filter(runs).collect();
        let role = |&l: &usize| match (indexed[a][l], indexed[b][l], made[l]) {
            (true, true, true) => Some(Role::Batch),
            (true, false, true) => Some(Role::M),
            (false, true, true) => Some(Role::N),
            (true, true, false) => Some(Role::K),
            _ => None,
        };
        let level = case.blocks.iter().rposition(|block| all[block.0.0]).map_or(0, |deepest| deepest + 1);
        let kept: Vec<usize> = if last { vec![] } else { (0..LOOPS).rev().filter(|&l| made[l]).collect() };
        let factor = |node: usize| match node.checked_sub(case.operands.len()) {
            None => Factor::Operand(OperandId(node)),
            Some(step) => Factor::Scratch(ProductId(step)),
        };
        steps.push(Product {
            factors: [factor(a), factor(b)],
            roles: loops.iter().map(role).collect::<Option<_>>().unwrap_or_default(),
            loops: loops.into_iter().map(LeafLoopId).collect(),
            level: BlockDepth(level),
            capacity: if last { 0 } else { kept.iter().map(|&l| case.counts[l]).product() },
            kept: kept.into_iter().map(LeafLoopId).collect(),
        });
        indexed.push(made);
        below.push(all);
        left.push(indexed.len() - 1);
    }
    steps
}

fn dense(counts: &[usize], indexed: &[bool; LOOPS]) -> (usize, Vec<i64>) {
    let mut strides = vec![0; LOOPS];
    let mut len = 1;
    for l in (0..LOOPS).filter(|&l| indexed[l]) {
        strides[l] = len as i64;
        len *= counts[l];
    }
    (len, strides)
}

fn products_are_their_loops<T: Element>(case: &Case) {
    let Case { counts, operands, target, blocks, .. } = case;
    let placed: Vec<_> = operands.iter().map(|indexed| dense(counts, indexed)).collect();
    let data: Vec<Vec<T>> = placed.iter().enumerate().map(|(i, (len, _))| filled(*len, 3 * i)).collect();
    let (len, strides) = dense(counts, target);
    let mut found = filled::<T>(len, 5);
    let mut expected = found.clone();
    let alpha = T::from(3).expect("a small integer");
    for point in points(counts) {
        let values = data.iter().zip(&placed).map(|(data, (_, strides))| data[at(&point, 0, strides)]);
        let c = &mut expected[at(&point, 0, &strides)];
        *c = c.add(values.fold(alpha, T::multiply));
    }
    let mut products = Products::new(sequence(case), blocks.clone()).expect("memory for small scratch");
    let operands: Vec<_> =
        data.iter().zip(&placed).map(|(data, (_, strides))| Strided::new(data, 0, strides.clone())).collect();
    products.run(counts, alpha, &operands, StridedMut::new(&mut found, 0, strides.clone()));
    assert_eq!(found, expected, "{case:?}");
}

proptest! {
    /// In every order of the products and with any loops in blocks, the sum is the expected one; integers wrap.
    #[test]
    fn sequences_of_products_are_their_loops(case in cases()) {
        products_are_their_loops::<f64>(&case);
        products_are_their_loops::<i32>(&case);
    }
}
