//! Expressions evaluated by rows, compared with their values at each point, to the last bit.

use crate::{Comparison, Expression, Function, nest};
use crate::{Element, ReduceOp, Strided, StridedMut, ViewMut};
use Expression::{Add, Call, Const, Div, If, Max, Min, Mul, Neg, Operand, Pow, Sub};
use proptest::prelude::*;

type Boxed = Box<Expression<f64>>;

const OPERANDS: usize = 5;

/// Expressions with many sums and scaled terms, which are evaluated together.
fn expressions() -> impl Strategy<Value = Expression<f64>> {
    let constant = prop_oneof![Just(0.0), Just(-0.0), Just(2.0), Just(-0.5), Just(3.0)].prop_map(Const);
    let leaf = prop_oneof![4 => (0..OPERANDS).prop_map(Operand), 1 => constant];
    leaf.prop_recursive(6, 40, 2, |inner| {
        let of_two = |make: fn(Boxed, Boxed) -> Expression<f64>| {
            (inner.clone(), inner.clone()).prop_map(move |(a, b)| make(Box::new(a), Box::new(b)))
        };
        let with_constant = |make: fn(Boxed, Boxed) -> Expression<f64>| {
            (inner.clone(), prop::bool::ANY).prop_map(move |(a, first)| {
                let (a, k) = (Box::new(a), Box::new(Const(0.1)));
                if first { make(k, a) } else { make(a, k) }
            })
        };
        let chosen = prop::array::uniform4(inner.clone()).prop_map(|parts| If(Comparison::Less, Box::new(parts)));
        prop_oneof![
            8 => of_two(Add),
            3 => of_two(Sub),
            4 => with_constant(Mul),
            2 => with_constant(Add),
            1 => with_constant(Max),
            1 => with_constant(Min),
            2 => of_two(Mul),
            2 => of_two(Div),
            1 => of_two(Max),
            1 => of_two(Min),
            1 => inner.clone().prop_map(|a| Neg(Box::new(a))),
            3 => (prop::sample::select(&Function::ALL[..]), inner.clone()).prop_map(|(f, a)| Call(f, Box::new(a))),
            1 => of_two(Pow),
            1 => chosen,
        ]
    })
}

/// A chain of sums from left to right.
fn sum(terms: impl IntoIterator<Item = Expression<f64>>) -> Expression<f64> {
    terms.into_iter().reduce(|sum, term| Add(Box::new(sum), Box::new(term))).expect("a sum has terms")
}

fn scaled(k: f64, inner: Expression<f64>) -> Expression<f64> {
    Mul(Box::new(Const(k)), Box::new(inner))
}

fn is_its_values(expression: &Expression<f64>, len: usize) {
    let element = |i: usize, seed: usize| match (i * 7 + seed * 3) % 11 {
        0 => -0.0,
        1 => 0.0,
        value => (value as f64 - 5.0) / 3.0,
    };
    let data: Vec<Vec<f64>> = (0..OPERANDS).map(|seed| (0..len).map(|i| element(i, seed)).collect()).collect();
    let operands: Vec<_> = data.iter().map(|data| Strided::new(data, 0, vec![1])).collect();
    let bits = |values: &[f64]| -> Vec<_> {
        values.iter().map(|value| if value.is_nan() { None } else { Some(value.to_bits()) }).collect()
    };
    let values: Vec<f64> = (0..len).map(|i| expression.at(&|operand| data[operand][i])).collect();

    let mut added: Vec<f64> = (0..len).map(|i| element(i, 9)).collect();
    let expected: Vec<f64> = added.iter().zip(&values).map(|(&c, &value)| c.add(value)).collect();
    nest(&[len], StridedMut::new(&mut added, 0, vec![1]), ReduceOp::Sum, &operands, expression);
    assert_eq!(bits(&added), bits(&expected), "{expression:?}, added");

    let mut written = vec![7.0; len];
    let target = ViewMut::new(&mut written, vec![0], vec![1]).overwritten().strided(&[0], &[&[1]]);
    let expected: Vec<f64> = values.iter().map(|&value| 0.0.add(value)).collect();
    nest(&[len], target, ReduceOp::Sum, &operands, expression);
    assert_eq!(bits(&written), bits(&expected), "{expression:?}, written");

    let mut least = vec![1.0; len];
    let expected: Vec<f64> = values.iter().map(|&value| ReduceOp::Min.combine(1.0, value)).collect();
    nest(&[len], StridedMut::new(&mut least, 0, vec![1]), ReduceOp::Min, &operands, expression);
    assert_eq!(bits(&least), bits(&expected), "{expression:?}, the least");
}

proptest! {
    #[test]
    fn an_expression_by_rows_is_its_values(expression in expressions(), len in prop_oneof![1usize..70, Just(600)]) {
        is_its_values(&expression, len);
    }
}

#[test]
fn stencils_are_their_values() {
    let four = || sum([1, 2, 3, 4].map(Operand));
    let five = sum([scaled(0.5, Operand(0)), scaled(0.125, four())]);
    let nine = sum([scaled(0.25, Operand(0)), scaled(0.125, four()), scaled(0.0625, four())]);
    let long = sum([0, 1, 2, 3, 4, 0, 1].map(Operand));
    for expression in [four(), five, nine, long, scaled(2.0, four()), sum([Operand(0), four()])] {
        for len in [1, 31, 32, 513] {
            is_its_values(&expression, len);
        }
    }
}

#[test]
fn functions_in_one_pass_with_what_is_around_them_are_their_values() {
    for function in Function::ALL {
        for inner in [Operand(0), Neg(Box::new(Operand(0)))] {
            let call = || Box::new(Call(function, Box::new(inner.clone())));
            let other = || Box::new(Operand(1));
            let nested = Mul(call(), Box::new(Mul(call(), other())));
            for expression in [*call(), Mul(call(), other()), Mul(other(), call()), nested, Add(other(), call())] {
                for len in [1, 31, 32, 513] {
                    is_its_values(&expression, len);
                }
            }
        }
    }
}
