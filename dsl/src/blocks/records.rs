//! Running reductions: a kernel that combines records of all their values, and one for each target that takes its values out of them.
//!
//! ```text
//! (M[i], L[i], A[i, v]) softmax= (S[i, j], 1.0, V[j, v]);
//!   =>
//! M_L_A[i, field] softmax= if field < 1 { 1 } else { if field < 2 { S[i, j] } else { if field < 3 { 1.0 } else { V[j, field - 3] else 0 } } };
//! M[i] = if M_L_A[i, 0] > 0 { M_L_A[i, 1] } else { -inf };
//! ..
//! A[i, v] = if M_L_A[i, 0] > 0 { M_L_A[i, v + 3] } else { 0.0 };
//! ```
//!
//! The first element of a record is 1 once it has a term. A target that has an index more than the others is a row of elements, the last
//! in the record.

use super::{Array, Elaborator, indices};
use crate::check::index::{alone, remainder};
use crate::errors::listed;
use crate::reductions;
use crate::syntax::{Line, Reduced, Tensor};
use crate::value::{Access, BinaryOp, Choice, Value};
use polyshard_layout::{counted, did_you_mean, each_once};
use polyshard_program::{Assign, Comparison};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Expr, Ident, parse_quote};

/// The arrays that a value reads, by name and number.
type Reads = Vec<(Ident, usize)>;

/// The target that has an index more than the others, by number, and the index.
type Row = (usize, Ident);

impl Elaborator<'_> {
    /// Adds the kernels of a running reduction.
    pub(super) fn reduction(&mut self, reduced: &Reduced, is_let: bool) {
        if self.add_reduction(reduced, is_let).is_none() {
            // Its mistakes are reported; that its targets have no value follows from them.
            for target in reduced.lines.iter().map(|line| &line.statement.target.tensor) {
                if let Some(array) = self.numbers.get(&target.to_string()).map(|&number| &mut self.arrays[number]) {
                    array.is_set = true;
                    array.version.get_or_insert_with(|| target.clone());
                }
            }
        }
    }

    /// As [`reduction`](Self::reduction); `None` after reporting a mistake.
    fn add_reduction(&mut self, reduced: &Reduced, is_let: bool) -> Option<()> {
        let built_in;
        let reduction = match self.reductions.iter().find(|reduction| reduction.name == reduced.by) {
            Some(reduction) => reduction,
            None => match reductions::built_in(&reduced.by) {
                Some(reduction) => {
                    built_in = reduction;
                    &built_in
                }
                None => {
                    self.no_reduction(&reduced.by);
                    return None;
                }
            },
        };
        let element = super::shown(&self.element);
        if ["i32", "i64"].contains(&element.as_str()) {
            let message = format!("`{}=` combines floats, but the elements are `{element}`", reduced.by);
            self.errors.push(&reduced.by, message, "let the tensors hold `f32` or `f64`");
            return None;
        }
        let (targets, terms) = (reduced.lines.len(), reduced.terms);
        if targets != terms {
            let (targets, terms) = (counted(targets, "target"), counted(terms, "term"));
            self.errors.push(&reduced.by, format!("{targets}, but {terms}"), "write a term for each target");
            return None;
        }
        let fields = reduction.fields.len();
        if fields != targets {
            let (fields, targets) = (counted(fields, "field"), counted(targets, "target"));
            let message = format!("`{}` has {fields}, but the statement {targets}", reduced.by);
            self.errors.push(&reduced.by, message, "write a target and a term for each field, in their order");
            return None;
        }
        let numbers = self.targets(reduced, is_let)?;
        let (common, row) = self.row(reduced)?;
        let field = self.field_index(reduced);
        let (values, reads) = self.terms(reduced, row.as_ref(), &field)?;
        let of_row = row.as_ref().map(|(number, _)| *number);
        let running = self.errors.take(reduction.running(of_row))?;
        let order: Vec<usize> = reduction.order(of_row).collect();
        let record = self.record(reduced, &numbers, &common, row.as_ref());
        let value = record_of(values, &order, &field);
        let mut target = Access::scalar(self.arrays[record].tensor.name.clone());
        target.indices.extend(common.iter().chain([&field]).map(|index| -> Expr { parse_quote!(#index) }));
        let ranges = &reduced.lines[0].ranges;
        let all: Vec<Ident> = indices(&target, &value, ranges).into_iter().filter(|index| *index != field).collect();
        let ranges = self.ranged(&value, ranges, &all);
        let tokens = reduced.tokens.clone();
        let names = reduced.lines.iter().map(|line| line.statement.target.tensor.clone()).collect();
        self.out.records.push((target.tensor.clone(), names));
        self.kernel(record, &target, Assign::Running(running), value, (ranges, tokens.clone()), None, &reads);
        for (nth, &number) in order.iter().enumerate() {
            let target = &reduced.lines[number].statement.target;
            let element = |index: Expr| {
                let mut access = Access::scalar(self.arrays[record].tensor.name.clone());
                access.indices.extend(common.iter().map(|index| -> Expr { parse_quote!(#index) }).chain([index]));
                Value::Access(access)
            };
            let place = proc_macro2::Literal::usize_unsuffixed(nth + 1);
            let held = match &row {
                Some((of, index)) if *of == number => element(parse_quote!(#index + #place)),
                _ => element(parse_quote!(#place)),
            };
            let otherwise = reduction.fields[number].initial.clone();
            let (left, right) = (element(parse_quote!(0)), Value::whole("0"));
            let choice = Choice { compare: Comparison::Greater, left, right, then: held, otherwise };
            let value = Value::If(Box::new(choice));
            let ranges = self.ranged(&value, &[], &indices(target, &value, &[]));
            let reads = [(self.arrays[record].tensor.name.clone(), record)];
            self.kernel(numbers[number], target, Assign::Set, value, (ranges, tokens.clone()), None, &reads);
        }
        Some(())
    }

    fn no_reduction(&mut self, by: &Ident) {
        let own = self.reductions.iter().map(|reduction| reduction.name.to_string());
        let known: Vec<String> = own.chain(reductions::names().map(str::to_owned)).collect();
        let meant = did_you_mean(&by.to_string(), known.iter().map(String::as_str));
        let help = format!("{meant}the reductions are {}", listed(&known));
        self.errors.push(by, format!("no reduction `{by}`"), help);
    }

    /// The arrays that it writes, all of each.
    fn targets(&mut self, reduced: &Reduced, is_let: bool) -> Option<Vec<usize>> {
        let mut numbers = Vec::with_capacity(reduced.lines.len());
        for Line { statement, ranges } in &reduced.lines {
            let target = &statement.target;
            let number = self.written(target, is_let, &format!("({}, ..)", target.shown()))?;
            if numbers.contains(&number) {
                let message = format!("`{}` is written twice in one statement", target.tensor);
                self.errors.push(&target.tensor, message, "give each target an array of its own");
                return None;
            }
            if !self.has_all_indices(target, &self.arrays[number].tensor.clone()) {
                return None;
            }
            if !super::is_whole(target, ranges) {
                let message = format!("the reduction writes a part of `{}`", target.tensor);
                let help =
                    "a reduction writes all of its targets: let each index stand alone, once, and give it no range";
                self.errors.push(target, message, help);
                return None;
            }
            numbers.push(number);
        }
        Some(numbers)
    }

    /// The indices that all targets have, and the target that has one more, with that index.
    fn row(&mut self, reduced: &Reduced) -> Option<(Vec<Ident>, Option<Row>)> {
        let of = |line: &Line| -> Vec<Ident> {
            line.statement.target.indices.iter().filter_map(|index| alone(index).cloned()).collect()
        };
        let all: Vec<Vec<Ident>> = reduced.lines.iter().map(of).collect();
        let common: Vec<Ident> =
            all[0].iter().filter(|index| all.iter().all(|other| other.contains(index))).cloned().collect();
        let mut row = None;
        for (number, indices) in all.iter().enumerate() {
            let target = &reduced.lines[number].statement.target;
            let more: Vec<&Ident> = indices.iter().filter(|index| !common.contains(index)).collect();
            match more[..] {
                [] => {}
                [index] if row.is_none() => row = Some((number, index.clone())),
                _ => {
                    let message = format!("`{}` has {} that other targets lack", target.tensor, listed(&more));
                    let help = "one target of a reduction may have one index more than the others";
                    self.errors.push(target, message, help);
                    return None;
                }
            }
        }
        if let Some((number, index)) = &row {
            for (nth, line) in reduced.lines.iter().enumerate().filter(|(nth, _)| nth != number) {
                let Line { statement, ranges } = line;
                if indices(&statement.target, &statement.value, ranges).contains(index) {
                    let target = &reduced.lines[nth].statement.target;
                    let message = format!(
                        "the term of `{}` has the index `{index}`, which `{}` lacks",
                        target.tensor,
                        target.shown()
                    );
                    self.errors.push(target, message, "give the target this index, or leave it out of the term");
                    return None;
                }
            }
        }
        Some((common, row))
    }

    /// The terms, in which the index of a row is one of records, and the arrays that they read.
    fn terms(&mut self, reduced: &Reduced, row: Option<&Row>, field: &Ident) -> Option<(Vec<Value>, Reads)> {
        let (mut values, mut all) = (Vec::with_capacity(reduced.lines.len()), Vec::new());
        for (number, line) in reduced.lines.iter().enumerate() {
            let (mut value, _) = self.value(line);
            all.extend(self.reads(&value)?);
            self.note_indices(&line.statement.target, &value, &line.ranges);
            if let Some((_, index)) = row.filter(|(of, _)| *of == number) {
                moved(&mut value, index, field, reduced.lines.len());
            }
            values.push(value);
        }
        Some((values, each_once(all)))
    }

    /// The index over the elements of a record.
    fn field_index(&self, reduced: &Reduced) -> Ident {
        let mut name = "field".to_owned();
        let taken: Vec<String> = reduced
            .lines
            .iter()
            .flat_map(|Line { statement, ranges }| indices(&statement.target, &statement.value, ranges))
            .map(|index| index.to_string())
            .collect();
        while self.numbers.contains_key(&name) || self.extents.contains_key(&name) || taken.contains(&name) {
            name.push('_');
        }
        Ident::new(&name, reduced.by.span())
    }

    /// Declares the array of records, which no statement can name.
    fn record(&mut self, reduced: &Reduced, numbers: &[usize], common: &[Ident], row: Option<&Row>) -> usize {
        let names: Vec<String> = reduced.lines.iter().map(|line| line.statement.target.tensor.to_string()).collect();
        let mut name = names.join("_").replace("r#", "");
        while self.numbers.contains_key(&name) {
            name.push('_');
        }
        let extent_of = |number: usize, index: &Ident| -> Expr {
            let target = &reduced.lines[number].statement.target;
            let dim = target.indices.iter().position(|other| alone(other) == Some(index)).unwrap_or(0);
            self.arrays[numbers[number]].tensor.extents[dim].clone()
        };
        let mut extents: Vec<Expr> = common.iter().map(|index| extent_of(0, index)).collect();
        let singles = proc_macro2::Literal::usize_unsuffixed(1 + numbers.len() - usize::from(row.is_some()));
        extents.push(match row {
            None => parse_quote!(#singles),
            Some((number, index)) => {
                let extent = extent_of(*number, index);
                parse_quote!(#singles + (#extent))
            }
        });
        let name = Ident::new(&name, reduced.by.span());
        let number = self.arrays.len();
        self.numbers.insert(name.to_string(), number);
        self.arrays.push(Array::hidden(Tensor { name, element: self.element.clone(), extents }));
        number
    }
}

/// The element of the record of a term: 1, and the terms in the order of the record.
fn record_of(values: Vec<Value>, order: &[usize], field: &Ident) -> Value {
    let mut values: Vec<Option<Value>> = values.into_iter().map(Some).collect();
    let terms = order.iter().filter_map(|&number| values[number].take());
    let mut all: Vec<Value> = [Value::whole("1")].into_iter().chain(terms).collect();
    let last = all.pop().unwrap_or_else(|| Value::whole("0"));
    all.into_iter().enumerate().rev().fold(last, |otherwise, (nth, then)| {
        let (left, right) = (Value::Name(field.clone()), Value::whole(&(nth + 1).to_string()));
        Value::If(Box::new(Choice { compare: Comparison::Less, left, right, then, otherwise }))
    })
}

/// Replaces the index of a row by that of records, `first` elements later. Elements before the row are outside.
fn moved(value: &mut Value, index: &Ident, field: &Ident, first: usize) {
    let first = proc_macro2::Literal::usize_unsuffixed(first);
    let place = quote!((#field - #first));
    value.visit_accesses(&mut |access| {
        let mut is_outside = false;
        for one in &mut access.indices {
            let tokens = replaced(one.to_token_stream(), index, &place);
            if tokens.to_string() != one.to_token_stream().to_string() {
                is_outside |= remainder(one).is_none();
                if let Ok(expr) = syn::parse2(tokens) {
                    *one = expr;
                }
            }
        }
        if is_outside && access.outside.is_none() {
            access.outside = Some(Box::new(Value::whole("0")));
        }
    });
    let number = || {
        let first = Value::whole(&first.to_string());
        Value::Binary(Box::new(Value::Name(field.clone())), BinaryOp::Sub, Box::new(first))
    };
    value.replace_names(&|name| (name == index).then(number));
}

/// The tokens with others in place of an identifier.
fn replaced(tokens: TokenStream, ident: &Ident, by: &TokenStream) -> TokenStream {
    let each = |token: TokenTree| -> TokenStream {
        match token {
            TokenTree::Ident(other) if other == *ident => {
                let mut group = Group::new(Delimiter::None, by.clone());
                group.set_span(other.span());
                group.stream()
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replaced(group.stream(), ident, by));
                inner.set_span(group.span());
                TokenTree::from(inner).into()
            }
            other => other.into(),
        }
    };
    tokens.into_iter().flat_map(each).collect()
}
