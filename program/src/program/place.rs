//! The order of statements that follows from transfers: each begins as early, and ends as late, as its place among the loops says.

use super::Body;
use crate::ids::{Depth, KernelId, TransferId};
use crate::nest::{Direction, NestView, TransferView};
use crate::statement::{At, Iteration, LeafPart, Statement};

impl Body {
    /// Puts the statements of each kernel where its transfers say; kernels without statements run last, in the order of their numbers.
    /// Nothing is freed.
    pub fn place(&mut self) {
        let first = self.in_first_round();
        let mut is_placed = vec![false; self.kernels.len()];
        let mut statements = self.placed(&self.statements, &mut is_placed);
        let rest = (0..self.kernels.len()).filter(|number| !is_placed[*number]).map(KernelId);
        statements.extend(rest.flat_map(|kernel| inside(&self.nest(kernel), Depth(0))));
        self.statements = statements;
        self.fetch_once(|id| first[id.0]);
    }

    fn placed(&self, statements: &[Statement], is_placed: &mut [bool]) -> Vec<Statement> {
        let statements = self.spans(statements).flat_map(|span| match span.statements {
            [Statement::Rounds(id, body)] => vec![Statement::Rounds(*id, self.placed(body, is_placed))],
            [Statement::Free(_)] => Vec::new(),
            statements if span.kernel.is_none() => statements.to_vec(),
            _ => {
                let kernels = self.kernels_of(span);
                kernels.iter().for_each(|kernel| is_placed[kernel.0] = true);
                kernels.into_iter().flat_map(|kernel| inside(&self.nest(kernel), Depth(0))).collect()
            }
        });
        statements.collect()
    }

    /// Makes these transfers begin and end in the first of the rounds around them only.
    pub fn fetch_once(&mut self, is_once: impl Fn(TransferId) -> bool) {
        let mut change = |statement: &mut Statement| {
            if let Statement::Begin(id, at) | Statement::End(id, at) = statement {
                at.first_round = is_once(*id);
            }
        };
        self.statements.iter_mut().for_each(|statement| statement.visit_mut(&mut change));
    }
}

/// The statements of a kernel at a depth.
fn inside(nest: &NestView<'_>, level: Depth) -> Vec<Statement> {
    type Here<'a> = Vec<TransferView<'a>>;
    let of_level = |level| {
        let is_here = move |transfer: &&TransferView<'_>| transfer.level == level && transfer.reused.is_none();
        nest.transfers.iter().filter(is_here).copied().collect::<Here<'_>>()
    };
    let (fetched, sent): (Here<'_>, Here<'_>) =
        of_level(level).into_iter().partition(|transfer| transfer.direction == Direction::In);
    let (ahead, fetched): (Here<'_>, Here<'_>) = fetched.into_iter().partition(|transfer| transfer.ahead > 0);
    let sent: Vec<_> = sent.into_iter().filter(|transfer| !transfer.route.is_in_place()).collect();
    let begin = |id, iteration: Iteration| Statement::Begin(id, iteration.into());
    let end = |id, iteration: Iteration| Statement::End(id, iteration.into());
    let (coming, fetched): (Here<'_>, Here<'_>) = fetched.into_iter().partition(|transfer| transfer.interior_first);
    let mut statements: Vec<_> = coming.iter().map(|transfer| begin(transfer.id, Iteration::Now)).collect();
    statements.extend(fetched.iter().flat_map(|transfer| Statement::both(transfer.id)));
    // A tile that travels is forwarded once it has arrived.
    statements.extend(ahead.iter().map(|transfer| end(transfer.id, Iteration::Now)));
    statements.extend(ahead.iter().map(|transfer| begin(transfer.id, Iteration::Later(transfer.ahead as i64))));
    statements.extend(sent.iter().map(|transfer| Statement::Fill(transfer.id)));
    match nest.loops.get(level.0) {
        None if coming.is_empty() => statements.push(Statement::Compute(nest.id, LeafPart::Whole)),
        None => {
            statements.push(Statement::Compute(nest.id, LeafPart::Interior));
            statements.extend(coming.iter().map(|transfer| Statement::End(transfer.id, At::NOW)));
            statements.push(Statement::Compute(nest.id, LeafPart::Rims));
        }
        Some(next) => {
            let inside_it = Depth(level.0 + 1);
            let (inner, leaving): (Here<'_>, Here<'_>) =
                of_level(inside_it).into_iter().partition(|transfer| transfer.direction == Direction::In);
            let most = inner.iter().map(|transfer| transfer.ahead as i64).max().unwrap_or(0);
            for iteration in 0..next.extent.min(most) {
                let begun = inner.iter().filter(|transfer| iteration < transfer.ahead as i64);
                statements.extend(begun.map(|transfer| begin(transfer.id, Iteration::At(iteration))));
            }
            statements.push(Statement::Loop(nest.row.loops[level.0], inside(nest, inside_it)));
            for transfer in leaving {
                let last = (next.extent - transfer.ahead as i64).max(0)..next.extent;
                statements.extend(last.map(|iteration| end(transfer.id, Iteration::At(iteration))));
            }
        }
    }
    for transfer in &sent {
        let awaited = match transfer.ahead as i64 {
            0 => Iteration::Now,
            ahead => Iteration::Earlier(ahead),
        };
        statements.extend([begin(transfer.id, Iteration::Now), end(transfer.id, awaited)]);
    }
    statements
}
