//! Linear conditions on pairs of integer tuples, from which relations are built.
//!
//! They are built as rows of numbers, since isl takes longer to parse a text than to answer most questions about it. A
//! quotient is a witness with its definition, and gives remainders; the minimum or maximum of two numbers, unless it is a
//! bound, makes two cases.

use std::collections::BTreeMap;

/// A variable of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Column {
    /// A number of the input tuple.
    Input(usize),
    /// A number of the output tuple.
    Output(usize),
    /// An existentially quantified number.
    Witness(usize),
}

/// A sum of multiples of columns, and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Form {
    pub terms: BTreeMap<Column, i128>,
    pub constant: i128,
}

/// The numbers of a schedule are bounded ([`crate::bounds`]), so that no product of a few of them overflows.
const BOUNDED: &str = "the numbers of a schedule are bounded; this is a bug in polyshard";

impl Form {
    pub(crate) fn constant(value: impl Into<i128>) -> Self {
        Self { terms: BTreeMap::new(), constant: value.into() }
    }

    fn column(column: Column) -> Self {
        Self { terms: BTreeMap::from([(column, 1)]), constant: 0 }
    }

    pub(crate) fn input(dim: usize) -> Self {
        Self::column(Column::Input(dim))
    }

    pub(crate) fn output(dim: usize) -> Self {
        Self::column(Column::Output(dim))
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        self.add_multiple(other, 1)
    }

    pub(crate) fn subtract(&self, other: &Self) -> Self {
        self.add_multiple(other, -1)
    }

    pub(crate) fn offset(&self, by: impl Into<i128>) -> Self {
        self.add(&Self::constant(by))
    }

    pub(crate) fn multiply(&self, factor: impl Into<i128>) -> Self {
        Self::default().add_multiple(self, factor.into())
    }

    fn add_multiple(&self, other: &Self, factor: i128) -> Self {
        let add = |sum: i128, value: i128| factor.checked_mul(value).and_then(|value| sum.checked_add(value));
        let mut sum = self.clone();
        sum.constant = add(sum.constant, other.constant).expect(BOUNDED);
        for (column, &value) in &other.terms {
            let term = sum.terms.entry(*column).or_default();
            *term = add(*term, value).expect(BOUNDED);
        }
        sum.terms.retain(|_, value| *value != 0);
        sum
    }
}

/// A condition on a form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Condition {
    /// It is zero.
    Zero(Form),
    /// It is zero or more.
    NotNegative(Form),
}

/// Conditions on pairs of tuples: in at least one case, all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conditions {
    pub inputs: usize,
    pub outputs: usize,
    pub witnesses: usize,
    pub cases: Vec<Vec<Condition>>,
    quotients: BTreeMap<(Form, i128), Form>,
}

impl Conditions {
    /// No conditions on tuples with these numbers of dimensions.
    pub(crate) fn new(inputs: usize, outputs: usize) -> Self {
        Self { inputs, outputs, witnesses: 0, cases: vec![Vec::new()], quotients: BTreeMap::new() }
    }

    /// The pairs that satisfy these conditions or the others.
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.witnesses = self.witnesses.max(other.witnesses);
        self.cases.extend(other.cases);
        // Quotients of one are not defined in the cases of the other.
        self.quotients.clear();
        self
    }

    /// An existentially quantified number.
    pub(crate) fn witness(&mut self) -> Form {
        self.witnesses += 1;
        Form::column(Column::Witness(self.witnesses - 1))
    }

    fn and(&mut self, condition: Condition) {
        for case in &mut self.cases {
            if !case.contains(&condition) {
                case.push(condition.clone());
            }
        }
    }

    /// Adds `a = b`.
    pub(crate) fn equal(&mut self, a: &Form, b: &Form) {
        self.and(Condition::Zero(a.subtract(b)));
    }

    /// Adds `a <= b`.
    pub(crate) fn at_most(&mut self, a: &Form, b: &Form) {
        self.and(Condition::NotNegative(b.subtract(a)));
    }

    /// Adds `a < b`.
    pub(crate) fn below(&mut self, a: &Form, b: &Form) {
        self.at_most(&a.offset(1), b);
    }

    /// Adds `0 <= form < end`.
    pub(crate) fn within(&mut self, form: &Form, end: impl Into<i128>) {
        let end = end.into();
        if end == 1 {
            return self.equal(form, &Form::default());
        }
        self.at_most(&Form::default(), form);
        self.below(form, &Form::constant(end));
    }

    /// Returns `floor(form / by)`.
    pub(crate) fn quotient(&mut self, form: &Form, by: impl Into<i128>) -> Form {
        let by = by.into();
        let key = (form.clone(), by);
        if let Some(known) = self.quotients.get(&key) {
            return known.clone();
        }
        let quotient = self.witness();
        self.within(&form.subtract(&quotient.multiply(by)), by);
        self.quotients.insert(key, quotient.clone());
        quotient
    }

    /// Returns `form mod by`, in `0..by`.
    pub(crate) fn remainder(&mut self, form: &Form, by: impl Into<i128>) -> Form {
        let by = by.into();
        let quotient = self.quotient(form, by);
        form.subtract(&quotient.multiply(by))
    }

    /// Returns the minimum of two numbers, or the maximum.
    pub(crate) fn choice(&mut self, a: &Form, b: &Form, smaller: bool) -> Form {
        let (first, second) = if smaller { (a, b) } else { (b, a) };
        let chosen = self.witness();
        let mut other = self.clone();
        self.equal(&chosen, a);
        self.at_most(first, second);
        other.equal(&chosen, b);
        other.at_most(second, first);
        self.cases.extend(other.cases);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isl::Isl;

    /// The pairs `x -> value(x)` for these `x`, one by one.
    fn counted(inputs: std::ops::Range<i64>, value: impl Fn(i64) -> i128) -> Conditions {
        let pair = |x: i64| {
            let mut pair = Conditions::new(1, 1);
            pair.equal(&Form::input(0), &Form::constant(x));
            pair.equal(&Form::output(0), &Form::constant(value(x)));
            pair
        };
        inputs.map(pair).reduce(Conditions::or).expect("some numbers")
    }

    fn check(built: impl Fn(&mut Conditions, &Form) -> Form, value: impl Fn(i64) -> i128) {
        let isl = Isl::new().expect("isl starts");
        let mut conditions = Conditions::new(1, 1);
        let x = Form::input(0);
        conditions.within(&x.offset(9), 20);
        let built = built(&mut conditions, &x);
        conditions.equal(&Form::output(0), &built);
        let [built, counted] = [conditions, counted(-9..11, value)].map(|conditions| isl.relation(&conditions));
        let same = built.and_then(|built| built.is_equal(&counted?)).expect("isl decides");
        assert!(same);
    }

    #[test]
    fn quotients_and_remainders_are_those_of_numbers() {
        check(|c, x| c.quotient(&x.multiply(3), 4), |x| i128::from((3 * x).div_euclid(4)));
        check(|c, x| c.remainder(&x.offset(2), 5), |x| i128::from((x + 2).rem_euclid(5)));
        // Nested quotients, and one used twice.
        check(
            |c, x| {
                let outer = c.quotient(x, 2);
                c.remainder(&outer, 3).add(&c.remainder(x, 2).multiply(10)).add(&outer)
            },
            |x| i128::from(x.div_euclid(2).rem_euclid(3) + 10 * x.rem_euclid(2) + x.div_euclid(2)),
        );
    }

    #[test]
    fn choices_make_cases() {
        let five = Form::constant(5);
        check(|c, x| c.choice(x, &five, true), |x| i128::from(x.min(5)));
        check(|c, x| c.choice(&x.multiply(2), &five, false), |x| i128::from((2 * x).max(5)));
        // A quotient added after a choice holds in all cases.
        check(
            |c, x| {
                let least = c.choice(x, &x.multiply(-1), true);
                c.quotient(&least, 3)
            },
            |x| i128::from(x.min(-x).div_euclid(3)),
        );
    }

    /// Each of two conditions defines its own witnesses.
    #[test]
    fn a_quotient_after_a_union_holds_in_all_cases() {
        let isl = Isl::new().expect("isl starts");
        let case = |range: std::ops::Range<i64>, by: i64| {
            let mut case = Conditions::new(1, 1);
            case.within(&Form::input(0).offset(-range.start), range.end - range.start);
            case.quotient(&Form::input(0), by);
            case
        };
        let mut either = case(0..5, 3).or(case(5..10, 2));
        let third = either.quotient(&Form::input(0), 3);
        either.equal(&Form::output(0), &third);
        let [either, counted] =
            [either, counted(0..10, |x| i128::from(x / 3))].map(|conditions| isl.relation(&conditions));
        assert!(either.and_then(|either| either.is_equal(&counted?)).expect("isl decides"));
    }

    #[test]
    fn numbers_may_be_long() {
        let far = i128::from(i64::MAX) * 6;
        check(|_, x| x.multiply(far).offset(1), |x| i128::from(x) * far + 1);
    }
}
