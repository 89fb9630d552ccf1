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
        statements.extend(rest.flat_map(|kernel| inside(&[self.nest(kernel)], Depth(0))));
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
                let nests: Vec<_> = kernels.into_iter().map(|kernel| self.nest(kernel)).collect();
                inside(&nests, Depth(0))
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

/// The statements of kernels at a depth; those that share the next loop run in it together.
fn inside(nests: &[NestView<'_>], level: Depth) -> Vec<Statement> {
    let here: Vec<_> = nests.iter().map(|nest| Here::new(nest, level)).collect();
    let mut statements: Vec<_> = here.iter().flat_map(Here::before).collect();
    let next = |here: &Here<'_>| here.nest.row.loops.get(level.0).copied();
    for together in here.chunk_by(|one, other| next(one).is_some() && next(one) == next(other)) {
        let Some(id) = next(&together[0]) else {
            statements.extend(together[0].leaf());
            continue;
        };
        let nests: Vec<_> = together.iter().map(|here| here.nest.clone()).collect();
        let within: Vec<_> = nests.iter().map(|nest| Here::new(nest, Depth(level.0 + 1))).collect();
        statements.extend(within.iter().flat_map(Here::ahead_of_loop));
        statements.push(Statement::Loop(id, inside(&nests, Depth(level.0 + 1))));
        statements.extend(within.iter().flat_map(Here::after_loop));
    }
    statements.extend(here.iter().flat_map(Here::after));
    statements
}

/// The transfers of a kernel at a depth.
struct Here<'a> {
    nest: &'a NestView<'a>,
    level: Depth,
    /// Those that fetch a region in the iteration that reads it, ahead of it, and during the interior of the leaf.
    fetched: Vec<TransferView<'a>>,
    ahead: Vec<TransferView<'a>>,
    meanwhile: Vec<TransferView<'a>>,
    /// Those that send a tile of the output.
    sent: Vec<TransferView<'a>>,
}

impl<'a> Here<'a> {
    fn new(nest: &'a NestView<'a>, level: Depth) -> Self {
        let is_here = |transfer: &&TransferView<'_>| transfer.level == level && transfer.reused.is_none();
        let all = nest.transfers.iter().filter(is_here).copied();
        let (fetched, sent): (Vec<_>, Vec<_>) = all.partition(|transfer| transfer.direction == Direction::In);
        let (ahead, fetched): (Vec<_>, Vec<_>) = fetched.into_iter().partition(|transfer| transfer.ahead > 0);
        let (meanwhile, fetched): (Vec<_>, Vec<_>) = fetched.into_iter().partition(|transfer| transfer.interior_first);
        Self { nest, level, fetched, ahead, meanwhile, sent }
    }

    /// Those of its output that have a tile.
    fn sent(&self) -> impl Iterator<Item = &TransferView<'a>> {
        self.sent.iter().filter(|transfer| !transfer.route.is_in_place())
    }

    /// The statements before the loops inside it.
    fn before(&self) -> Vec<Statement> {
        let mut statements: Vec<_> = self.meanwhile.iter().map(|one| begin(one.id, Iteration::Now)).collect();
        statements.extend(self.fetched.iter().flat_map(|transfer| Statement::both(transfer.id)));
        // A tile that travels is forwarded once it has arrived.
        statements.extend(self.ahead.iter().map(|transfer| end(transfer.id, Iteration::Now)));
        statements
            .extend(self.ahead.iter().map(|transfer| begin(transfer.id, Iteration::Later(transfer.ahead as i64))));
        let filled = self.sent.iter().filter(|transfer| !transfer.route.is_in_place() || self.nest.in_panels);
        statements.extend(filled.map(|transfer| Statement::Fill(transfer.id)));
        statements
    }

    fn leaf(&self) -> Vec<Statement> {
        let compute = |part| Statement::Compute(self.nest.id, part);
        if self.meanwhile.is_empty() {
            return vec![compute(LeafPart::Whole)];
        }
        let ends = self.meanwhile.iter().map(|transfer| Statement::End(transfer.id, At::NOW));
        std::iter::once(compute(LeafPart::Interior)).chain(ends).chain([compute(LeafPart::Rims)]).collect()
    }

    /// The statements after the loops inside it.
    fn after(&self) -> Vec<Statement> {
        let sent = self.sent().flat_map(|transfer| {
            let awaited = match transfer.ahead as i64 {
                0 => Iteration::Now,
                ahead => Iteration::Earlier(ahead),
            };
            [begin(transfer.id, Iteration::Now), end(transfer.id, awaited)]
        });
        sent.collect()
    }

    /// The iterations of its loop.
    fn extent(&self) -> i64 {
        self.nest.loops[self.level.0 - 1].extent
    }

    /// The statements before its loop: the first iterations' transfers that are ahead.
    fn ahead_of_loop(&self) -> Vec<Statement> {
        let most = self.ahead.iter().map(|transfer| transfer.ahead as i64).max().unwrap_or(0);
        let begun = (0..self.extent().min(most)).flat_map(|iteration| {
            let here = self.ahead.iter().filter(move |transfer| iteration < transfer.ahead as i64);
            here.map(move |transfer| begin(transfer.id, Iteration::At(iteration)))
        });
        begun.collect()
    }

    /// The statements after its loop: the ends of the last iterations' transfers.
    fn after_loop(&self) -> Vec<Statement> {
        let ended = self.sent.iter().flat_map(|transfer| {
            let last = (self.extent() - transfer.ahead as i64).max(0)..self.extent();
            last.map(|iteration| end(transfer.id, Iteration::At(iteration)))
        });
        ended.collect()
    }
}

fn begin(id: TransferId, iteration: Iteration) -> Statement {
    Statement::Begin(id, iteration.into())
}

fn end(id: TransferId, iteration: Iteration) -> Statement {
    Statement::End(id, iteration.into())
}
