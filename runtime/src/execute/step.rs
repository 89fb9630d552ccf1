//! The steps of a run, worked out once: what is between two of them is done with all kernels.

use crate::tile::When;
use polyshard_program::{ArrayId, Body, KernelId, RoundsId, Statement, TransferId};

/// A step of a run.
pub(super) enum Step<'a> {
    /// Statements of kernels that run together.
    Kernels { together: Vec<KernelId>, statements: &'a [Statement] },
    /// Begins to move an array, now or until its end.
    Begin(MoveStep, When),
    /// Ends a move.
    End(MoveStep),
    /// Frees a temporary.
    Free(ArrayId),
    /// Repeats steps.
    Rounds(RoundsId, Vec<Step<'a>>),
}

/// A move between two arrays.
#[derive(Clone, Copy)]
pub(super) struct MoveStep {
    /// Its number in the engine.
    pub(super) number: usize,
    pub(super) source: ArrayId,
    pub(super) target: ArrayId,
}

impl MoveStep {
    fn new(body: &Body, id: TransferId) -> Self {
        let arrays = body.transfers[id.0].arrays();
        let [source, target] = arrays.expect("what is not of kernels is a move; this is a bug in polyshard");
        Self { number: body.number_of_move(id), source, target }
    }
}

impl<'a> Step<'a> {
    /// Returns the steps of these statements.
    pub(super) fn of(body: &'a Body, statements: &'a [Statement]) -> Vec<Self> {
        let mut spans = body.spans(statements).peekable();
        let mut steps = Vec::new();
        while let Some(span) = spans.next() {
            steps.push(match span.statements {
                statements if span.kernel.is_some() => Self::Kernels { together: body.kernels_of(span), statements },
                // A move that ends where it begins is complete when its begin returns.
                [Statement::Begin(id, _)] if span.is_ended_by(spans.peek()) => {
                    spans.next();
                    Self::Begin(MoveStep::new(body, *id), When::Now)
                }
                [Statement::Begin(id, _)] => Self::Begin(MoveStep::new(body, *id), When::Later),
                [Statement::End(id, _)] => Self::End(MoveStep::new(body, *id)),
                [Statement::Free(id)] => Self::Free(*id),
                [Statement::Rounds(id, round)] => Self::Rounds(*id, Self::of(body, round)),
                _ => unreachable!("statements of no kernel are in spans of their own; this is a bug in polyshard"),
            });
        }
        steps
    }
}
