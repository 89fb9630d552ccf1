//! Evaluation of an expression: a row at a time, in few passes over rows.
//!
//! A pass computes one operation, or a few if rows are first added up or scaled, since the cost of a pass is its loads and stores. Each
//! point sees the operations of the tree in the tree's order.

use super::expression::Expression::{self, Add, Const, Mul, Operand};
use super::functions::{self, Pass};
use super::pointwise::in_one_go;
use super::{Pointwise, Rows, vector};
use crate::{DType, Element};
use polyshard_program::{Comparison, Function};

impl<T: Element> Pointwise<T> for Expression<T> {
    fn scratch(&self) -> usize {
        let parts = self.parts().into_iter().map(Self::scratch);
        match self {
            Self::If(..) => 3 + parts.max().unwrap_or(0),
            // The second part is computed while the first occupies a row.
            _ => parts.enumerate().map(|(nth, rows)| nth + rows).max().unwrap_or(0),
        }
    }

    fn points(&self) -> usize {
        // In one pass, reads of memory overlap with functions that take longer.
        let in_one_pass = |call: RowCall| matches!(call.function, Function::Exp | Function::Log | Function::Tanh);
        // With several passes, they do so in short rows.
        let short = self.computes_long() && !call_of_rows(self).is_some_and(in_one_pass);
        if short { (1 << 10) / size_of::<T>() } else { in_one_go::<T>() }
    }

    fn chosen(&self) -> Option<(usize, usize, &Self)> {
        let Self::If(Comparison::Less, parts) = self else { return None };
        match &**parts {
            [Operand(operand), Const(bound), _, otherwise] => {
                Some((*operand, bound.distance(T::ZERO) as usize, otherwise))
            }
            _ => None,
        }
    }

    fn row(&self, operands: &Rows<'_, T>, scratch: &mut [T], out: &mut [T]) {
        Evaluation { operands, scratch, out }.of(self);
    }

    fn store(&self, operands: &Rows<'_, T>, scratch: &mut [T], out: &mut [T]) {
        Evaluation { operands, scratch, out }.plus(self, T::ZERO);
    }

    fn values<'a>(&self, operands: &Rows<'a, T>, scratch: &mut [T], out: &'a mut [T]) -> &'a [T] {
        if let Operand(i) = self {
            return operands.get(*i);
        }
        self.row(operands, scratch, out);
        out
    }
}

/// The evaluation of an expression to `out`.
struct Evaluation<'a, 'o, T> {
    operands: &'a Rows<'o, T>,
    /// As many rows as the expression needs, each as long as `out`.
    scratch: &'a mut [T],
    out: &'a mut [T],
}

/// The source of a subexpression's values.
enum Source<'o, T> {
    Row(&'o [T]),
    Const(T),
    /// They have to be computed.
    None,
}

impl<'o, T: Element> Evaluation<'_, 'o, T> {
    /// Whether passes compute more than one operation. Each of them is a loop that is compiled for all vectors of the type; for integers
    /// they would cost every build more than they save in the few programs that compute with integers.
    const FUSES: bool = matches!(T::DTYPE, DType::F32 | DType::F64);

    fn of(&mut self, expression: &Expression<T>) {
        match expression {
            Operand(i) => self.out.copy_from_slice(&self.operands.get(*i)[..self.out.len()]),
            // Adding -0.0 changes nothing.
            _ => self.plus(expression, T::ZERO.negate()),
        }
    }

    /// Writes the sum of the expression and `end`, which takes no pass of its own.
    fn plus(&mut self, expression: &Expression<T>, end: T) {
        match expression {
            Operand(i) => vector::rows(self.out, [self.operands.get(*i)], &|[a]: [T; 1]| a.add(end)),
            Const(value) => self.out.fill(value.add(end)),
            Expression::Neg(inner) => self.unary(inner, |a| a.negate().add(end)),
            Expression::Call(Function::Abs, inner) => self.unary(inner, |a| a.absolute().add(end)),
            Expression::Call(Function::Sqrt, inner) => self.unary(inner, |a| a.square_root().add(end)),
            Expression::Call(Function::Floor, inner) => {
                self.of(inner);
                vector::update(self.out, [], &|a, []| a.floored().add(end));
            }
            Expression::Call(Function::Sign, inner) => {
                self.of(inner);
                vector::update(self.out, [], &|a, []| a.sign().add(end));
            }
            Expression::Call(function, inner) => {
                // Longer functions are compiled once, with the other operations of the same pass.
                if !self.calls_rows(expression, end) {
                    self.of(inner);
                    functions::call(*function, Pass { from: None, negated: false, times: None, end }, self.out);
                }
            }
            Expression::Pow(left, right) => {
                // A function too long for a loop of vectors.
                self.of(left);
                let (out, row) = self.aside(right);
                out.iter_mut().zip(row).for_each(|(a, &b)| *a = a.power(b).add(end));
            }
            Add(left, right) => {
                if Self::FUSES && (self.sum_of_rows(left, right, end) || self.plus_four_rows(left, right, end)) {
                    return;
                }
                self.scaled(left, right, |a, b| a.add(b).add(end));
            }
            Expression::Sub(left, right) => self.scaled(left, right, |a, b| a.subtract(b).add(end)),
            Mul(left, right) => {
                if !self.calls_rows(expression, end) {
                    self.binary(left, right, |a, b| a.multiply(b).add(end));
                }
            }
            Expression::Div(left, right) => self.shifted(left, right, |a, b| a.divide(b).add(end)),
            Expression::Max(left, right) => match **right {
                Const(bound) => self.clamped(left, [bound, T::GREATEST], end),
                _ => self.binary(left, right, |a, b| a.maximum(b).add(end)),
            },
            Expression::Min(left, right) => match **right {
                Const(bound) => self.clamped(left, [T::LEAST, bound], end),
                _ => self.binary(left, right, |a, b| a.minimum(b).add(end)),
            },
            Expression::If(comparison, parts) => self.choose(*comparison, parts, end),
        }
    }

    /// Computes a function of an operand, with other operations in the same pass, if the expression is nothing else; returns whether it is.
    fn calls_rows(&mut self, expression: &Expression<T>, end: T) -> bool {
        let Some(RowCall { function, of, negated, times }) = call_of_rows(expression) else { return false };
        let len = self.out.len();
        let row = |operand: usize| &self.operands.get(operand)[..len];
        functions::call(function, Pass { from: Some(row(of)), negated, times: times.map(row), end }, self.out);
        true
    }

    /// Evaluates to a row of scratch, and returns `out` and that row.
    fn aside(&mut self, expression: &Expression<T>) -> (&mut [T], &[T]) {
        let (row, scratch) = self.scratch.split_at_mut(self.out.len());
        Evaluation { operands: self.operands, scratch, out: &mut *row }.of(expression);
        (self.out, row)
    }

    fn source(&self, expression: &Expression<T>) -> Source<'o, T> {
        match expression {
            Operand(i) => Source::Row(self.operands.get(*i)),
            Const(value) => Source::Const(*value),
            _ => Source::None,
        }
    }

    fn unary(&mut self, inner: &Expression<T>, op: impl Fn(T) -> T) {
        match inner {
            Operand(i) => return vector::rows(self.out, [self.operands.get(*i)], &|[a]: [T; 1]| op(a)),
            Expression::Neg(negated) => {
                if let Operand(i) = **negated {
                    return vector::rows(self.out, [self.operands.get(i)], &|[a]: [T; 1]| op(a.negate()));
                }
            }
            _ => (),
        }
        self.of(inner);
        vector::update(self.out, [], &|a, []| op(a));
    }

    /// The subexpression between two bounds, one of which may be beyond all values: then it changes none, NaNs included. It takes no pass
    /// of its own after an operation on two values.
    fn clamped(&mut self, inner: &Expression<T>, [low, high]: [T; 2], end: T) {
        let clamp = |a: T| a.maximum(low).minimum(high).add(end);
        if Self::FUSES {
            match inner {
                Add(left, right) => return self.binary(left, right, |a, b| clamp(a.add(b))),
                Mul(left, right) => return self.binary(left, right, |a, b| clamp(a.multiply(b))),
                Expression::Div(left, right) => return self.shifted(left, right, |a, b| clamp(a.divide(b))),
                _ => (),
            }
        }
        self.unary(inner, clamp);
    }

    fn binary(&mut self, left: &Expression<T>, right: &Expression<T>, op: impl Fn(T, T) -> T) {
        match (self.source(left), self.source(right)) {
            (Source::Row(a), Source::Row(b)) => vector::rows(self.out, [a, b], &|[a, b]: [T; 2]| op(a, b)),
            (Source::Row(a), Source::Const(b)) => vector::rows(self.out, [a], &|[a]: [T; 1]| op(a, b)),
            (Source::Const(a), Source::Row(b)) => vector::rows(self.out, [b], &|[b]: [T; 1]| op(a, b)),
            (Source::Const(a), Source::Const(b)) => self.out.fill(op(a, b)),
            (Source::None, Source::Row(b)) => {
                self.of(left);
                vector::update(self.out, [b], &|a, [b]: [T; 1]| op(a, b));
            }
            (Source::Row(a), Source::None) => {
                self.of(right);
                vector::update(self.out, [a], &|b, [a]: [T; 1]| op(a, b));
            }
            (Source::None, Source::Const(b)) => {
                self.of(left);
                vector::update(self.out, [], &|a, []| op(a, b));
            }
            (Source::Const(a), Source::None) => {
                self.of(right);
                vector::update(self.out, [], &|b, []| op(a, b));
            }
            (Source::None, Source::None) => {
                self.of(left);
                let (out, row) = self.aside(right);
                vector::update(out, [row], &|a, [b]: [T; 1]| op(a, b));
            }
        }
    }

    /// As [`binary`](Self::binary), of subexpressions that may be multiplied by constants first; by 1 if only the other one is.
    fn scaled(&mut self, left: &Expression<T>, right: &Expression<T>, op: impl Fn(T, T) -> T) {
        if Self::FUSES && (factor(left).is_some() || factor(right).is_some()) {
            let (k, left) = factor(left).unwrap_or((T::ONE, left));
            let (l, right) = factor(right).unwrap_or((T::ONE, right));
            return self.binary(left, right, |a, b| op(k.multiply(a), l.multiply(b)));
        }
        self.binary(left, right, op);
    }

    /// As [`binary`](Self::binary), of subexpressions to which constants may be added first; -0.0 if only to the other one.
    fn shifted(&mut self, left: &Expression<T>, right: &Expression<T>, op: impl Fn(T, T) -> T) {
        if Self::FUSES && (shift(left).is_some() || shift(right).is_some()) {
            let nothing = T::ZERO.negate();
            let (k, left) = shift(left).unwrap_or((nothing, left));
            let (l, right) = shift(right).unwrap_or((nothing, right));
            return self.binary(left, right, |a, b| op(a.add(k), b.add(l)));
        }
        self.binary(left, right, op);
    }

    /// Adds the sum of four operands, which may be multiplied by a constant, in one pass, if `right` is such a sum; returns whether it is.
    fn plus_four_rows(&mut self, left: &Expression<T>, right: &Expression<T>, end: T) -> bool {
        let (l, right) = factor(right).unwrap_or((T::ONE, right));
        let Some([a, b, c, d]) = self.four_rows(right) else { return false };
        let four = |a: T, b: T, c: T, d: T| l.multiply(a.add(b).add(c).add(d));
        let (k, inner) = factor(left).unwrap_or((T::ONE, left));
        if let Operand(z) = inner {
            let z = self.operands.get(*z);
            let sum = |[z, a, b, c, d]: [T; 5]| k.multiply(z).add(four(a, b, c, d)).add(end);
            vector::rows(self.out, [z, a, b, c, d], &sum);
        } else {
            self.of(left);
            vector::update(self.out, [a, b, c, d], &|z: T, [a, b, c, d]: [T; 4]| z.add(four(a, b, c, d)).add(end));
        }
        true
    }

    fn four_rows(&self, sum: &Expression<T>) -> Option<[&'o [T]; 4]> {
        let Add(three, d) = sum else { return None };
        let Add(two, c) = &**three else { return None };
        let Add(a, b) = &**two else { return None };
        let (Operand(a), Operand(b), Operand(c), Operand(d)) = (&**a, &**b, &**c, &**d) else { return None };
        Some([*a, *b, *c, *d].map(|i| self.operands.get(i)))
    }

    /// Adds up three or four terms in one pass, if all but the first one are operands; returns whether they are.
    fn sum_of_rows(&mut self, left: &Expression<T>, right: &Expression<T>, end: T) -> bool {
        let (Add(first, second), Operand(c)) = (left, right) else { return false };
        let Operand(b) = **second else { return false };
        let (b, c) = (self.operands.get(b), self.operands.get(*c));
        if let Add(first, second) = &**first
            && let (Operand(z), Operand(a)) = (&**first, &**second)
        {
            let (z, a) = (self.operands.get(*z), self.operands.get(*a));
            vector::rows(self.out, [z, a, b, c], &|[z, a, b, c]: [T; 4]| z.add(a).add(b).add(c).add(end));
        } else if let Operand(a) = **first {
            vector::rows(self.out, [self.operands.get(a), b, c], &|[a, b, c]: [T; 3]| a.add(b).add(c).add(end));
        } else {
            self.of(first);
            vector::update(self.out, [b, c], &|a, [b, c]: [T; 2]| a.add(b).add(c).add(end));
        }
        true
    }

    /// Computes both values for all points and selects one, which vectorises, unless a value must not be computed.
    fn choose(&mut self, comparison: Comparison, parts: &[Expression<T>; 4], end: T) {
        let [left, right, then, otherwise] = parts;
        if then.may_fail() || otherwise.may_fail() {
            for (i, out) in self.out.iter_mut().enumerate() {
                let at = |part: &Expression<T>| part.at(&|operand| self.operands.get(operand)[i]);
                *out = at(if comparison.holds(at(left), at(right)) { then } else { otherwise }).add(end);
            }
            return;
        }
        let len = self.out.len();
        let (rows, scratch) = self.scratch.split_at_mut(3 * len);
        let (left_row, rows) = rows.split_at_mut(len);
        let (right_row, then_row) = rows.split_at_mut(len);
        let parts =
            [(left, &mut *left_row), (right, &mut *right_row), (then, &mut *then_row), (otherwise, &mut *self.out)];
        for (part, out) in parts {
            Evaluation { operands: self.operands, scratch: &mut *scratch, out }.of(part);
        }
        let rows = [&*left_row, right_row, then_row];
        // One loop per comparison, each of them simple enough to vectorise.
        match comparison {
            Comparison::Less => pick(self.out, rows, |a, b| a < b, end),
            Comparison::LessEqual => pick(self.out, rows, |a, b| a <= b, end),
            Comparison::Greater => pick(self.out, rows, |a, b| a > b, end),
            Comparison::GreaterEqual => pick(self.out, rows, |a, b| a >= b, end),
            Comparison::Equal => pick(self.out, rows, |a, b| a == b, end),
            Comparison::NotEqual => pick(self.out, rows, |a, b| a != b, end),
        }
    }
}

/// A function of an operand, or of its negative, which may be multiplied by another operand.
struct RowCall {
    function: Function,
    of: usize,
    negated: bool,
    times: Option<usize>,
}

fn call_of_rows<T>(expression: &Expression<T>) -> Option<RowCall> {
    use Function::{Cos, Exp, Log, Sin, Tanh};
    match expression {
        Expression::Call(function @ (Exp | Log | Tanh | Sin | Cos), inner) => {
            let (of, negated) = match &**inner {
                Operand(of) => (*of, false),
                Expression::Neg(inner) => match **inner {
                    Operand(of) => (of, true),
                    _ => return None,
                },
                _ => return None,
            };
            Some(RowCall { function: *function, of, negated, times: None })
        }
        Mul(left, right) => {
            let (call, times) = match (&**left, &**right) {
                (call @ Expression::Call(..), Operand(times)) | (Operand(times), call @ Expression::Call(..)) => {
                    (call, *times)
                }
                _ => return None,
            };
            Some(RowCall { times: Some(times), ..call_of_rows(call)? })
        }
        _ => None,
    }
}

/// The constant by which a subexpression is multiplied, and the subexpression.
fn factor<T: Element>(expression: &Expression<T>) -> Option<(T, &Expression<T>)> {
    let Mul(left, right) = expression else { return None };
    match (&**left, &**right) {
        (Const(k), inner) | (inner, Const(k)) => Some((*k, inner)),
        _ => None,
    }
}

/// The constant that is added to a subexpression, and the subexpression.
fn shift<T: Element>(expression: &Expression<T>) -> Option<(T, &Expression<T>)> {
    let Add(left, right) = expression else { return None };
    match (&**left, &**right) {
        (Const(k), inner) | (inner, Const(k)) => Some((*k, inner)),
        _ => None,
    }
}

/// Replaces values by the third row's where the comparison of the first two rows holds, and adds `end` to all.
fn pick<T: Element>(values: &mut [T], rows: [&[T]; 3], holds: impl Fn(T, T) -> bool, end: T) {
    vector::update(values, rows, &|other, [left, right, then]: [T; 3]| {
        let value = if holds(left, right) { then } else { other };
        value.add(end)
    });
}
