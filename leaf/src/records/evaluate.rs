//! How records are combined, by the operations of a [`Plan`].
//!
//! Operations on single values come first. Those on rows are computed for a few elements at a time, so that they stay in registers and the
//! L1 cache. Tests: `tests/it/running.rs`.

use crate::element::{Element, of_number};
use crate::functions::{self, Pass};
use polyshard_layout::{Record, Records, ReduceOp};
use polyshard_program::{Assign, Node, Number, Plan, Running};
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Elements of a row that are computed together.
const LANES: usize = 64;

/// Returns the operation that combines partial results of a statement.
#[must_use]
pub fn op(assign: Assign) -> ReduceOp {
    static KNOWN: OnceLock<Mutex<HashMap<Running, &'static Combination>>> = OnceLock::new();
    match assign {
        Assign::Set | Assign::Add => ReduceOp::Sum,
        Assign::Mul => ReduceOp::Product,
        Assign::Max => ReduceOp::Max,
        Assign::Min => ReduceOp::Min,
        Assign::Running(running) => {
            let mut known = KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
            let made = known.entry(running).or_insert_with(|| Box::leak(Box::new(Combination::new(running))));
            ReduceOp::Records(Records::new(*made))
        }
    }
}

/// How the records of one running reduction are combined.
struct Combination {
    plan: &'static Plan,
    /// The elements of a record.
    size: usize,
    /// The operations on single values that those on rows use.
    spread: Vec<usize>,
    /// How all fields but one are scaled, if the reduction is of this kind.
    scaled: Option<Scaled>,
}

/// The form of a softmax: a field is a maximum, and each other one is a sum of terms times a weight, which depends on the maximum of the
/// term and on that of the result. Many terms are then combined at once: the maximum first, and then the sums.
struct Scaled {
    /// The field that is a maximum.
    most: usize,
    /// The other fields, each with the node that is the weight of the second record.
    fields: Vec<(usize, usize)>,
    /// The nodes that the maximum needs, and those that weights need from it, in order.
    maxima: Vec<usize>,
    weights: Vec<usize>,
}

/// The values of nodes.
struct Scratch<T> {
    singles: Vec<T>,
    rows: Vec<[T; LANES]>,
}

impl Record for Combination {
    fn size(&self) -> usize {
        self.size
    }

    fn fold_f32(&self, into: &mut [f32], terms: &[f32]) {
        self.fold(into, terms);
    }

    fn fold_f64(&self, into: &mut [f64], terms: &[f64]) {
        self.fold(into, terms);
    }
}

impl Combination {
    fn new(running: Running) -> Self {
        let plan = running.plan();
        let is_used = |single: usize| {
            let rows = plan.nodes.iter().zip(&plan.is_row).filter(|(_, is_row)| **is_row);
            rows.into_iter().any(|(node, _)| parts(node).contains(&single))
                || plan.row.is_some_and(|row| plan.results[row] == single)
        };
        let spread = (0..plan.nodes.len()).filter(|&single| !plan.is_row[single] && is_used(single)).collect();
        Self { plan, size: running.form().size, spread, scaled: Scaled::of(plan) }
    }

    /// Combines records into a single one.
    fn fold<T: Element>(&self, into: &mut [T], terms: &[T]) {
        let mut terms = terms.chunks_exact(self.size).filter(|term| term[0] != T::ZERO).peekable();
        if into[0] == T::ZERO
            && let Some(first) = terms.next()
        {
            into.copy_from_slice(first);
        }
        if terms.peek().is_none() {
            return;
        }
        let nodes = self.plan.nodes.len();
        let mut scratch = Scratch { singles: vec![T::ZERO; nodes], rows: vec![[T::ZERO; LANES]; nodes] };
        match &self.scaled {
            Some(scaled) => self.fold_scaled(
                scaled,
                &mut into[1..],
                &terms.map(|term| &term[1..]).collect::<Vec<_>>(),
                &mut scratch,
            ),
            None => terms.for_each(|term| self.one(&mut into[1..], &term[1..], &mut scratch)),
        }
    }

    /// Combines the fields of records that have terms into those of one that has, too.
    fn fold_scaled<T: Element>(&self, scaled: &Scaled, into: &mut [T], terms: &[&[T]], scratch: &mut Scratch<T>) {
        let Plan { nodes, results, row, .. } = self.plan;
        let Scaled { most, fields, maxima, weights } = scaled;
        let Scratch { singles, rows } = scratch;
        let before = into[*most];
        for term in terms {
            for &number in maxima {
                singles[number] = match nodes[number] {
                    Node::First(_) => into[*most],
                    Node::Second(_) => term[*most],
                    ref node => value(node, |part| singles[part]),
                };
            }
            into[*most] = singles[results[*most]];
        }
        let result = results[*most];
        rows[result] = [into[*most]; LANES];
        // The terms so far are one more record. Its weights are those of a second record, which have the same form.
        let weigh = |of: &[T], rows: &mut Vec<[T; LANES]>| {
            for &number in weights {
                let (others, rest) = rows.split_at_mut(number);
                let lanes = &mut rest[0];
                match &nodes[number] {
                    Node::Second(_) => lanes[..of.len()].copy_from_slice(of),
                    Node::Number(number) => lanes.fill(of_number(Number::Float(*number))),
                    node => values(node, others, lanes),
                }
            }
        };
        weigh(&[before], rows);
        for (field, weight) in fields {
            let weight = rows[*weight][0];
            let end = if *row == Some(*field) { into.len() } else { field + 1 };
            into[*field..end].iter_mut().for_each(|element| *element = element.multiply(weight));
        }
        for terms in terms.chunks(LANES) {
            let mut all = [T::ZERO; LANES];
            all.iter_mut().zip(terms).for_each(|(most_of, term)| *most_of = term[*most]);
            weigh(&all[..terms.len()], rows);
            for (field, weight) in fields {
                let end = if *row == Some(*field) { into.len() } else { field + 1 };
                for (term, &weight) in terms.iter().zip(&rows[*weight]) {
                    let sums = into[*field..end].iter_mut().zip(&term[*field..end]);
                    sums.for_each(|(sum, element)| *sum = sum.add(element.multiply(weight)));
                }
            }
        }
    }

    /// Combines the fields of two records that have terms.
    fn one<T: Element>(&self, into: &mut [T], with: &[T], Scratch { singles, rows }: &mut Scratch<T>) {
        let Plan { nodes, is_row, results, row } = self.plan;
        for (number, node) in nodes.iter().enumerate().filter(|(number, _)| !is_row[*number]) {
            singles[number] = match *node {
                Node::First(field) => into[field],
                Node::Second(field) => with[field],
                _ => value(node, |part| singles[part]),
            };
        }
        if let Some(row) = *row {
            self.spread.iter().for_each(|&single| rows[single] = [singles[single]; LANES]);
            for start in (row..into.len()).step_by(LANES) {
                let len = LANES.min(into.len() - start);
                for (number, node) in nodes.iter().enumerate().filter(|(number, _)| is_row[*number]) {
                    let (before, rest) = rows.split_at_mut(number);
                    let lanes = &mut rest[0];
                    match *node {
                        Node::First(_) => lanes[..len].copy_from_slice(&into[start..start + len]),
                        Node::Second(_) => lanes[..len].copy_from_slice(&with[start..start + len]),
                        _ => values(node, before, lanes),
                    }
                }
                into[start..start + len].copy_from_slice(&rows[results[row]][..len]);
            }
        }
        for (field, &node) in results.iter().enumerate().filter(|(field, _)| *row != Some(*field)) {
            into[field] = singles[node];
        }
    }
}

impl Scaled {
    /// How the fields of a reduction are scaled, if one of them is a maximum that all others are scaled by.
    fn of(plan: &Plan) -> Option<Self> {
        let Plan { nodes, results, .. } = plan;
        let most = (0..results.len()).find(|&field| {
            let all = needed(plan, results[field], &[]);
            let is_maximum = |number: &usize| match nodes[*number] {
                Node::Max(_) | Node::Number(_) => true,
                Node::First(of) | Node::Second(of) => of == field,
                _ => false,
            };
            let has = |node: Node| all.iter().any(|number| nodes[*number] == node);
            plan.row != Some(field) && all.iter().all(is_maximum) && has(Node::First(field)) && has(Node::Second(field))
        })?;
        let result = results[most];
        let mut fields = Vec::new();
        for field in (0..results.len()).filter(|&field| field != most) {
            let Node::Add([first, second]) = nodes[results[field]] else { return None };
            let weight = |product: usize, of: Node| match nodes[product] {
                Node::Mul([a, b]) if nodes[a] == of => Some(b),
                Node::Mul([a, b]) if nodes[b] == of => Some(a),
                _ => None,
            };
            let weights = [weight(first, Node::First(field))?, weight(second, Node::Second(field))?];
            if !mirrored(plan, weights, [most, result]) {
                return None;
            }
            fields.push((field, weights[1]));
        }
        let maxima = needed(plan, result, &[]);
        let all = fields.iter().flat_map(|(_, weight)| needed(plan, *weight, &[result]));
        let mut weights: Vec<usize> = all.filter(|number| *number != result).collect();
        weights.sort_unstable();
        weights.dedup();
        // Weights are computed from the maximum, so its number has to be lower.
        let is_before = weights.iter().all(|&number| !parts(&nodes[number]).contains(&result) || result < number);
        is_before.then_some(Self { most, fields, maxima, weights })
    }
}

/// The nodes that one needs, with itself, in order; those that `known` ones need are left out.
fn needed(plan: &Plan, node: usize, known: &[usize]) -> Vec<usize> {
    let mut all = vec![node];
    let mut at = 0;
    while let Some(&next) = all.get(at) {
        if !known.contains(&next) {
            all.extend(parts(&plan.nodes[next]));
        }
        at += 1;
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Whether two nodes are the same function of the maximum of their own record, the first one and the second one, and of the result.
fn mirrored(plan: &Plan, [first, second]: [usize; 2], [most, result]: [usize; 2]) -> bool {
    let [one, other] = [&plan.nodes[first], &plan.nodes[second]];
    if first == result || second == result {
        return first == second;
    }
    match (one, other) {
        (Node::First(a), Node::Second(b)) => *a == most && *b == most,
        (Node::First(_) | Node::Second(_), _) | (_, Node::First(_) | Node::Second(_)) => false,
        _ => {
            let [a, b] = [parts(one), parts(other)];
            let is_same = match (one, other) {
                (Node::Number(a), Node::Number(b)) => a == b,
                (Node::Call(a, _), Node::Call(b, _)) => a == b,
                (Node::If(a, _), Node::If(b, _)) => a == b,
                _ => std::mem::discriminant(one) == std::mem::discriminant(other),
            };
            is_same
                && a.len() == b.len()
                && a.into_iter().zip(b).all(|pair| mirrored(plan, pair.into(), [most, result]))
        }
    }
}

/// The nodes that an operation uses.
fn parts(node: &Node) -> Vec<usize> {
    match *node {
        Node::First(_) | Node::Second(_) | Node::Number(_) => Vec::new(),
        Node::Neg(a) | Node::Call(_, a) => vec![a],
        Node::Add(pair)
        | Node::Sub(pair)
        | Node::Mul(pair)
        | Node::Div(pair)
        | Node::Max(pair)
        | Node::Min(pair)
        | Node::Pow(pair) => pair.to_vec(),
        Node::If(_, parts) => parts.to_vec(),
    }
}

/// The value of an operation on these values.
#[inline(always)]
fn value<T: Element>(node: &Node, part: impl Fn(usize) -> T) -> T {
    match *node {
        Node::First(_) | Node::Second(_) => unreachable!("a field is not an operation; this is a bug in polyshard"),
        Node::Number(number) => of_number(Number::Float(number)),
        Node::Neg(a) => part(a).negate(),
        Node::Add([a, b]) => part(a).add(part(b)),
        Node::Sub([a, b]) => part(a).subtract(part(b)),
        Node::Mul([a, b]) => part(a).multiply(part(b)),
        Node::Div([a, b]) => part(a).divide(part(b)),
        Node::Max([a, b]) => part(a).maximum(part(b)),
        Node::Min([a, b]) => part(a).minimum(part(b)),
        Node::Pow([a, b]) => part(a).power(part(b)),
        Node::Call(function, a) => part(a).call(function),
        Node::If(comparison, [left, right, then, otherwise]) => {
            part(if comparison.holds(part(left), part(right)) { then } else { otherwise })
        }
    }
}

#[inline(always)]
fn each<T: Element>(parts: &[[T; LANES]], [a, b]: [usize; 2], out: &mut [T; LANES], op: impl Fn(T, T) -> T) {
    out.iter_mut().zip(parts[a].iter().zip(&parts[b])).for_each(|(out, (a, b))| *out = op(*a, *b));
}

/// The values of an operation for elements of a row.
fn values<T: Element>(node: &Node, parts: &[[T; LANES]], out: &mut [T; LANES]) {
    // One loop per kind of operation, so that those on two numbers are vectorised.
    match *node {
        Node::Add(pair) => each(parts, pair, out, T::add),
        Node::Sub(pair) => each(parts, pair, out, T::subtract),
        Node::Mul(pair) => each(parts, pair, out, T::multiply),
        Node::Div(pair) => each(parts, pair, out, T::divide),
        Node::Call(function, a) => {
            // Adding -0.0 changes nothing.
            let pass = Pass { from: Some(&parts[a][..]), negated: false, times: None, end: T::ZERO.negate() };
            functions::call(function, pass, out);
        }
        _ => out.iter_mut().enumerate().for_each(|(lane, out)| *out = value(node, |part| parts[part][lane])),
    }
}
