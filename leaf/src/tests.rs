//! Leaf kernels compared with the loops that define them, on small integers, so that float sums are exact.

mod around;
mod expressions;
mod in_place;
mod large;
mod order;
mod products;
mod slices;

use super::*;
use crate::{Element, ReduceOp, Strided, StridedMut, ViewMut};
use proptest::prelude::*;

/// The layout of one operand in memory: the order of its loops, gaps between them, and which run backwards.
#[derive(Clone, Debug)]
struct Layout {
    order: Vec<usize>,
    gaps: Vec<usize>,
    backwards: Vec<bool>,
}

const LOOPS: usize = 4;

fn layouts() -> impl Strategy<Value = Layout> {
    let order = Just((0..LOOPS).collect::<Vec<_>>()).prop_shuffle();
    let gaps = prop::collection::vec(prop_oneof![3 => Just(0usize), 1 => 1usize..3], LOOPS);
    (order, gaps, prop::collection::vec(prop::bool::weighted(0.2), LOOPS)).prop_map(|(order, gaps, backwards)| Layout {
        order,
        gaps,
        backwards,
    })
}

/// The length of the data, the offset of the first iteration and the strides of an operand that the loops of `moves`
/// move.
fn place(layout: &Layout, counts: &[usize], moves: impl Fn(usize) -> bool) -> (usize, i64, Vec<i64>) {
    let mut strides = vec![0; counts.len()];
    let (mut len, mut offset) = (1, 0);
    for &l in layout.order.iter().filter(|&&l| l < counts.len() && moves(l)) {
        strides[l] = len as i64;
        if layout.backwards[l] && counts[l] > 0 {
            offset += len as i64 * (counts[l] as i64 - 1);
            strides[l] = -strides[l];
        }
        len = len * counts[l] + layout.gaps[l];
    }
    (len, offset, strides)
}

fn filled<T: Element>(len: usize, seed: usize) -> Vec<T> {
    (0..len).map(|i| T::from(((i * 7 + seed) % 11) as i64 - 5).expect("a small integer")).collect()
}

fn points(counts: &[usize]) -> Vec<Vec<i64>> {
    counts.iter().fold(vec![vec![]], |all, &count| {
        all.iter().flat_map(|head| (0..count as i64).map(move |i| [&head[..], &[i]].concat())).collect()
    })
}

fn at(point: &[i64], offset: i64, strides: &[i64]) -> usize {
    (offset + point.iter().zip(strides).map(|(i, stride)| i * stride).sum::<i64>()) as usize
}

fn roles() -> impl Strategy<Value = Vec<(usize, Role)>> {
    let role = prop_oneof![Just(Role::Batch), Just(Role::M), Just(Role::N), Just(Role::K)];
    let count = prop_oneof![1 => Just(0usize), 8 => 1usize..6, 3 => 6usize..24];
    prop::collection::vec((count, role), 0..=LOOPS)
}

fn contract_is_its_loops<T: Element>(loops: &[(usize, Role)], layouts: &[Layout; 3]) {
    let counts: Vec<_> = loops.iter().map(|one| one.0).collect();
    let roles: Vec<_> = loops.iter().map(|one| one.1).collect();
    let (a_len, a_offset, a_strides) = place(&layouts[0], &counts, |l| roles[l] != Role::N);
    let (b_len, b_offset, b_strides) = place(&layouts[1], &counts, |l| roles[l] != Role::M);
    let (c_len, c_offset, c_strides) = place(&layouts[2], &counts, |l| roles[l] != Role::K);
    let (a, b, mut c) = (filled::<T>(a_len, 0), filled::<T>(b_len, 3), filled::<T>(c_len, 5));
    let alpha = T::from(3).expect("a small integer");

    let mut expected = c.clone();
    for point in points(&counts) {
        let product = a[at(&point, a_offset, &a_strides)].multiply(b[at(&point, b_offset, &b_strides)]);
        let c = &mut expected[at(&point, c_offset, &c_strides)];
        *c = c.add(alpha.multiply(product));
    }
    contract(
        &counts,
        &roles,
        alpha,
        Strided::new(&a, a_offset, a_strides),
        Strided::new(&b, b_offset, b_strides),
        StridedMut::new(&mut c, c_offset, c_strides),
    );
    assert_eq!(c, expected, "{loops:?}");
}

/// `(2 x0 - x1) * x2 - (-x0) / 4 + x1`, which contains each operand and each operation.
fn expression<T: Element>() -> Expression<T> {
    use Expression::{Add, Const, Div, Mul, Neg, Operand, Sub};
    let two_minus = Sub(Box::new(Mul(Box::new(constant(2)), Box::new(Operand(0)))), Box::new(Operand(1)));
    let product = Mul(Box::new(two_minus), Box::new(Operand(2)));
    let quotient = Div(Box::new(Neg(Box::new(Operand(0)))), Box::new(Const(T::from(4).expect("4"))));
    Add(Box::new(Sub(Box::new(product), Box::new(quotient))), Box::new(Operand(1)))
}

fn constant<T: Element>(value: i64) -> Expression<T> {
    Expression::Const(T::from(value).expect("a small integer"))
}

fn closure<T: Element>() -> impl Pointwise<T> {
    let [two, four] = [2, 4].map(|value| T::from(value).expect("a small integer"));
    pointwise(move |[x0, x1, x2]: [T; 3]| {
        two.multiply(x0).subtract(x1).multiply(x2).subtract(x0.negate().divide(four)).add(x1)
    })
}

/// The result of the nest by closure, by expression and by its loops.
fn nests<T: Element>(counts: &[usize], moves: &[[bool; LOOPS]; 4], layouts: &[Layout; 4], op: ReduceOp) -> [Vec<T>; 3] {
    let [c, x, y, z] = [0, 1, 2, 3].map(|o| place(&layouts[o], counts, |l| moves[o][l]));
    let start = filled::<T>(c.0, 5);
    let data = [(&x, 0), (&y, 3), (&z, 8)].map(|(operand, seed)| filled::<T>(operand.0, seed));
    let operands: Vec<_> = [x, y, z]
        .into_iter()
        .zip(&data)
        .map(|((_, offset, strides), data)| Strided::new(data, offset, strides))
        .collect();

    let mut by_closure = start.clone();
    nest(counts, StridedMut::new(&mut by_closure, c.1, c.2.clone()), op, &operands, &closure::<T>());
    let mut by_expression = start.clone();
    nest(counts, StridedMut::new(&mut by_expression, c.1, c.2.clone()), op, &operands, &expression::<T>());
    let mut by_loops = start;
    let [two, four] = [2, 4].map(|value| T::from(value).expect("a small integer"));
    for point in points(counts) {
        let [x0, x1, x2] = [0, 1, 2].map(|o| data[o][at(&point, operands[o].offset, &operands[o].strides)]);
        let value = two.multiply(x0).subtract(x1).multiply(x2).subtract(x0.negate().divide(four)).add(x1);
        let c = &mut by_loops[at(&point, c.1, &c.2)];
        *c = op.combine(*c, value);
    }
    [by_closure, by_expression, by_loops]
}

proptest! {
    /// A contraction is the sum that it denotes, for any loops, layouts and element type.
    #[test]
    fn contractions_are_their_loops(loops in roles(), a in layouts(), b in layouts(), c in layouts()) {
        let layouts = [a, b, c];
        contract_is_its_loops::<f32>(&loops, &layouts);
        contract_is_its_loops::<f64>(&loops, &layouts);
        contract_is_its_loops::<i32>(&loops, &layouts);
        contract_is_its_loops::<i64>(&loops, &layouts);
    }

    /// A nest is the loops that it denotes; written as a closure or as an expression, to the last bit.
    #[test]
    fn nests_are_their_loops(
        counts in prop::collection::vec(prop_oneof![1 => Just(0usize), 8 => 1usize..6, 1 => 250usize..520], 0..=3),
        moves in prop::array::uniform4(prop::array::uniform4(prop::bool::weighted(0.7))),
        layouts in prop::array::uniform4(layouts()),
        op in prop_oneof![Just(ReduceOp::Sum), Just(ReduceOp::Max), Just(ReduceOp::Min), Just(ReduceOp::Product)],
    ) {
        prop_assume!(counts.iter().product::<usize>() < 300_000);
        let [closure, expression, loops] = nests::<i64>(&counts, &moves, &layouts, op);
        prop_assert_eq!(&closure, &loops);
        prop_assert_eq!(&expression, &loops);
        let [closure, expression, loops] = nests::<f64>(&counts, &moves, &layouts, op);
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&closure), bits(&expression));
        // A product of many terms is rounded, and sums of quarters do not overflow.
        if op != ReduceOp::Product {
            prop_assert_eq!(&closure, &loops);
        }
        let [closure, expression, loops] = nests::<i32>(&counts, &moves, &layouts, op);
        prop_assert_eq!(&closure, &loops);
        prop_assert_eq!(&expression, &loops);
    }
}

#[test]
fn a_contraction_longer_than_its_blocks_is_its_loops() {
    let layout = Layout { order: vec![0, 1, 2, 3], gaps: vec![0; LOOPS], backwards: vec![false; LOOPS] };
    let layouts = [layout.clone(), layout.clone(), layout];
    let loops = [(37, Role::M), (530, Role::N), (300, Role::K)];
    contract_is_its_loops::<i32>(&loops, &layouts);
    contract_is_its_loops::<f32>(&loops, &layouts);
}

#[test]
fn integers_wrap_in_a_contraction() {
    let (a, b, mut c) = ([i32::MAX, 2], [2, i32::MIN], [1]);
    contract(
        &[2],
        &[Role::K],
        1,
        Strided::new(&a, 0, vec![1]),
        Strided::new(&b, 0, vec![1]),
        StridedMut::new(&mut c, 0, vec![0]),
    );
    assert_eq!(c, [i32::MAX.wrapping_mul(2).wrapping_add(1)]);
}

#[test]
fn rows_that_overlap_in_the_output_are_not_lost() {
    // c[m + n] += a[m] * b[n]: the outer product's anti-diagonals, as in a convolution.
    let (a, b) = ([1.0, 2.0, 3.0_f32, 4.0], [1.0, 10.0, 100.0, 1000.0, 10000.0]);
    let mut c = [0.0_f32; 8];
    contract(
        &[4, 5],
        &[Role::M, Role::N],
        1.0,
        Strided::new(&a, 0, vec![1, 0]),
        Strided::new(&b, 0, vec![0, 1]),
        StridedMut::new(&mut c, 0, vec![1, 1]),
    );
    assert_eq!(c, [1.0, 12.0, 123.0, 1234.0, 12340.0, 23400.0, 34000.0, 40000.0]);
}

#[test]
#[should_panic(expected = "a loop of role M moves the operands of a contraction by [1, 1, 1]; this is a bug")]
fn a_loop_that_moves_what_its_role_excludes_is_a_bug() {
    let mut c = [0.0; 3];
    let ab = Strided::new(&[1.0; 3], 0, vec![1]);
    contract(&[3], &[Role::M], 1.0, ab.clone(), ab, StridedMut::new(&mut c, 0, vec![1]));
}

/// The bits are those of accumulating into the identity, and elements between keep their values.
#[test]
fn what_a_nest_overwrites_it_does_not_read() {
    let a: Vec<f64> = (0..4000).map(|i| if i % 3 == 0 { -0.0 } else { f64::from(i) - 7.5 }).collect();
    let negated = pointwise(|[a]: [f64; 1]| -(-a));
    // The counts of two loops, the first offset, and the strides of the output and of the operand.
    for (counts, first, of_c, of_a) in [
        ([5, 700], 0, [700, 1], [700, 1]),
        ([40, 90], 3, [1, 40], [90, 1]),
        ([40, 90], 1, [90, 1], [1, 40]),
        ([30, 7], 3629, [-120, -17], [7, 1]),
        ([1, 1], 2, [0, 0], [1, 1]),
        ([1, 1300], 0, [0, 3], [0, 3]),
        ([0, 4], 0, [4, 1], [4, 1]),
    ] {
        for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min] {
            let [mut read, mut overwritten] = [vec![9.0; 4000], vec![9.0; 4000]];
            for point in points(&counts) {
                let at = at(&point, first, &of_c);
                (read[at], overwritten[at]) = (op.identity(), f64::NAN);
            }
            let operand = [Strided::new(&a[..], 0, of_a.to_vec())];
            nest(&counts, StridedMut::new(&mut read, first, of_c.to_vec()), op, &operand, &negated);
            let view = ViewMut::new(&mut overwritten, vec![0; 3], vec![of_c[0], of_c[1], 1]).overwritten();
            let target = view.strided(&[0, 0, first], &[&[1, 0], &[0, 1], &[0, 0]]);
            nest(&counts, target, op, &operand, &negated);
            let bits = |c: &[f64]| c.iter().map(|c| c.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&overwritten), bits(&read), "{counts:?} {op:?}");
        }
    }
}

#[test]
#[should_panic(expected = "of operand c, which has 3; this is a bug in polyshard")]
fn a_nest_that_leaves_its_output_is_a_bug() {
    let mut c = [0; 3];
    nest(&[4], StridedMut::new(&mut c, 0, vec![1]), ReduceOp::Sum, &[], &constant::<i32>(1));
}
