//! The order of a nest: which loop is innermost, and in which order a row is combined.

use super::{constant, filled};
use crate::order::Order;
use crate::view::Strides;
use crate::walk::Loop;
use crate::{Element, ReduceOp, Strided, StridedMut};
use crate::{Expression, nest, pointwise};

/// The order of loops with these counts, where each operand, the output first, has strides.
fn order(counts: &[usize], strides: &[&[i64]]) -> Order<'static> {
    let strides: Vec<Strides> = strides.iter().map(|strides| (*strides).into()).collect();
    let (loops, once) = (Loop::all(counts, &strides), Loop::once(strides.len()));
    Order::new::<f64>(Box::leak(Box::new(loops)), Box::leak(Box::new(once)).borrowed(), strides.len())
}

#[test]
fn the_loop_that_touches_the_least_memory_is_innermost() {
    // s[i] += A[i, j], and with A transposed in memory.
    let rows = order(&[40, 50], &[&[1, 0], &[50, 1]]);
    assert_eq!((rows.inner.count, rows.outer.len(), rows.cross.count), (50, 1, 1));
    let columns = order(&[40, 50], &[&[1, 0], &[1, 40]]);
    assert_eq!((columns.inner.count, columns.outer.len(), columns.cross.count), (40, 0, 50));
    assert!(columns.meets() && !columns.apart() && !rows.meets());
    // C[i, j] = A[i, j] + B[i, j] is one loop.
    let whole = order(&[40, 50], &[&[50, 1], &[50, 1], &[50, 1]]);
    assert_eq!((whole.inner.count, whole.outer.len()), (2000, 0));
    // B[i, j] = A[j, i].
    let transpose = order(&[40, 50], &[&[50, 1], &[1, 40]]);
    assert_eq!((transpose.inner.count, transpose.cross.count, transpose.outer.len()), (50, 40, 0));
    assert!(transpose.apart());
}

/// The sum of a row as documented for `nest`.
fn in_lanes(values: &[f32]) -> f32 {
    if values.len() < 32 {
        return values[1..].iter().fold(values[0], |sum, value| sum + value);
    }
    let mut lanes = values[..32].to_vec();
    for (i, value) in values.iter().enumerate().skip(32) {
        lanes[i % 32] += value;
    }
    while lanes.len() > 1 {
        let (left, right) = lanes.split_at(lanes.len() / 2);
        lanes = left.iter().zip(right).map(|(left, right)| left + right).collect();
    }
    lanes[0]
}

#[test]
fn columns_are_summed_from_the_first_row_to_the_last() {
    // Rows in one piece of the output and in several, and more of them than are taken together.
    for (rows, columns) in [(40usize, 100usize), (17, 4096), (33, 5000)] {
        let values: Vec<f32> = (0..rows * columns).map(|i| (i * 7919 % 1009) as f32 / 3.0).collect();
        let mut expected = vec![0.5f32; columns];
        for row in values.chunks(columns) {
            expected.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        let a = || [Strided::new(&values, 0, vec![columns as i64, 1])];
        let mut sums = [vec![0.5; columns], vec![0.5; columns]];
        let [expression, closure] = &mut sums;
        let counts = [rows, columns];
        nest(&counts, StridedMut::new(expression, 0, vec![0, 1]), ReduceOp::Sum, &a(), &Expression::Operand(0));
        nest(&counts, StridedMut::new(closure, 0, vec![0, 1]), ReduceOp::Sum, &a(), &pointwise(|[a]: [f32; 1]| a));
        assert_eq!(sums, [expected.clone(), expected], "{rows} rows of {columns}");
    }
}

#[test]
fn a_row_is_summed_in_the_order_that_is_stated() {
    for len in [1usize, 5, 31, 32, 33, 63, 511, 512, 513, 5000] {
        // Thirds, so that each order of summation is rounded differently.
        let values: Vec<f32> = (0..len).map(|i| (i * 7919 % 1009) as f32 / 3.0).collect();
        let expected = 0.5 + in_lanes(&values);
        for stride in [1usize, 3] {
            let mut data = vec![f32::NAN; len * stride];
            values.iter().enumerate().for_each(|(i, &value)| data[i * stride] = value);
            let row = || [Strided::new(&data, 0, vec![stride as i64])];
            let mut sums = [0.5f32; 2];
            let [expression, closure] = &mut sums;
            let c = StridedMut::new(std::slice::from_mut(expression), 0, vec![0]);
            nest(&[len], c, ReduceOp::Sum, &row(), &Expression::Operand(0));
            let c = StridedMut::new(std::slice::from_mut(closure), 0, vec![0]);
            nest(&[len], c, ReduceOp::Sum, &row(), &pointwise(|[value]: [f32; 1]| value));
            assert_eq!(sums.map(f32::to_bits), [expected.to_bits(); 2], "{len} values {stride} apart");
        }
    }
}

fn transposed<T: Element>(rows: usize, columns: usize) {
    let data = filled::<T>(rows * columns, 3);
    let two = Expression::Mul(Box::new(constant(2)), Box::new(Expression::Operand(0)));
    // B[i, j] += 2 * A[j, i], with rows of B further apart than they are long.
    let mut b = vec![T::ONE; rows * (columns + 3)];
    let (stride, operand) = ((columns + 3) as i64, Strided::new(&data, 0, vec![1, rows as i64]));
    nest(&[rows, columns], StridedMut::new(&mut b, 0, vec![stride, 1]), ReduceOp::Sum, &[operand], &two);
    for i in 0..rows {
        for j in 0..columns {
            let value = data[j * rows + i];
            assert_eq!(b[i * (columns + 3) + j], T::ONE.add(value).add(value), "{rows}x{columns}: {i}, {j}");
        }
        assert_eq!(b[i * (columns + 3) + columns..][..3], [T::ONE; 3]);
    }
}

#[test]
fn transposes_of_every_size_of_block_are_whole() {
    for (rows, columns) in [(1, 9), (15, 17), (16, 8), (17, 530), (40, 512), (33, 7), (2, 2)] {
        transposed::<f64>(rows, columns);
        transposed::<i32>(rows, columns);
    }
}
