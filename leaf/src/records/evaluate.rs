//! How records are combined, by the operations of a [`Plan`].
//!
//! Operations on single values come first. Those on rows are computed for a few elements at a time, so that they stay in registers and the
//! L1 cache. Tests: `tests/it/running.rs`.

use crate::element::{Element, of_number};
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
}

/// The values of nodes.
struct Scratch<T> {
    singles: Vec<T>,
    rows: Vec<[T; LANES]>,
}

impl Record for Combination {
    fn len(&self) -> usize {
        self.size
    }

    fn combine_f32(&self, into: &mut [f32], with: &[f32]) {
        self.combine(into, with);
    }

    fn combine_f64(&self, into: &mut [f64], with: &[f64]) {
        self.combine(into, with);
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
        Self { plan, size: running.form().size, spread }
    }

    /// Combines records, one after the other.
    fn combine<T: Element>(&self, into: &mut [T], with: &[T]) {
        let nodes = self.plan.nodes.len();
        let rows = if self.plan.row.is_some() { nodes } else { 0 };
        let mut scratch = Scratch { singles: vec![T::ZERO; nodes], rows: vec![[T::ZERO; LANES]; rows] };
        for (into, with) in into.chunks_exact_mut(self.size).zip(with.chunks_exact(self.size)) {
            if with[0] == T::ZERO {
                continue;
            }
            if into[0] == T::ZERO {
                into.copy_from_slice(with);
                continue;
            }
            self.one(&mut into[1..], &with[1..], &mut scratch);
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
        _ => out.iter_mut().enumerate().for_each(|(lane, out)| *out = value(node, |part| parts[part][lane])),
    }
}
