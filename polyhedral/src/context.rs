//! Shared by the passes of lowering: the schedule, its relations and closed forms, and isl, which decides questions about them.

use crate::applications::Applications;
use crate::conditions::Conditions;
use crate::error::{ErrorKind, LowerError};
use crate::isl::{Isl, IslResult, Relation};
use crate::nest::{Depth, Nest};
use crate::range::Fixed;
use crate::relation::Relations;
use crate::sampled::Samples;
use crate::schedule::Schedule;
use crate::source::Sources;
use crate::state::State;
use polyshard_layout::{Sharding, joined};
use polyshard_program::{Kernel, Ranges, StepId};
use std::cell::OnceCell;

/// A schedule that is being lowered. Passes read it and return their results.
pub(crate) struct Context<'a> {
    pub schedule: &'a Schedule,
    pub state: &'a State,
    pub relations: Relations<'a>,
    pub ranges: Ranges,
    /// Samples that answer instead of isl, if nothing is to be proved.
    pub samples: Option<Samples>,
    /// How often the kernel is applied, if more than once.
    pub applications: Option<Applications>,
    isl: OnceCell<Isl>,
}

impl<'a> Context<'a> {
    /// The context of a schedule with proofs.
    ///
    /// # Errors
    /// The first error of the kernel or of a step.
    pub(crate) fn new(schedule: &'a Schedule) -> Result<Self, LowerError> {
        let state = schedule.state()?;
        let (kernel, nest): (&Kernel, &Nest) = (&state.kernel, &state.nest);
        let extents: Vec<_> = nest.loops.iter().map(|&id| nest.node(id).extent).collect();
        let (coordinates, counters) = extents.split_at(nest.distributed);
        let ranges = Ranges { coordinates: coordinates.to_vec(), counters: counters.to_vec() };
        let (relations, isl) = (Relations { kernel, nest }, OnceCell::new());
        let applications = Applications::new(state).map_err(|(step, kind)| schedule.blame(Some(step), kind))?;
        Ok(Self { schedule, state, relations, ranges, samples: None, applications, isl })
    }

    /// The context of a schedule without proofs.
    ///
    /// # Errors
    /// As those of [`new`](Self::new).
    pub(crate) fn unproved(schedule: &'a Schedule) -> Result<Self, LowerError> {
        let context = Self::new(schedule)?;
        Ok(Self { samples: Some(Samples::new(&context.ranges)), ..context })
    }

    pub(crate) fn kernel(&self) -> &'a Kernel {
        &self.state.kernel
    }

    pub(crate) fn nest(&self) -> &'a Nest {
        &self.state.nest
    }

    /// The depth inside the loop that a step makes the kernel share with others, if any.
    pub(crate) fn shared_depth(&self) -> Depth {
        let position = self.state.together.and_then(|(at, _)| self.nest().find(at));
        Depth(position.map_or(0, |position| position + 1 - self.nest().distributed))
    }

    /// The closed forms at a depth.
    pub(crate) fn fixed(&self, depth: Depth) -> Fixed<'_> {
        Fixed { nest: self.nest(), depth, ranges: &self.ranges }
    }

    pub(crate) fn sources<'b>(&'b self, sharding: &'b Sharding) -> Sources<'b> {
        Sources { relations: &self.relations, sharding, ranges: &self.ranges }
    }

    pub(crate) fn relation(&self, conditions: &Conditions) -> IslResult<Relation> {
        let isl = match self.isl.get() {
            Some(isl) => isl,
            None => {
                let isl = Isl::new()?;
                self.isl.get_or_init(|| isl)
            }
        };
        isl.relation(conditions)
    }

    /// The names of mesh axes, as text.
    pub(crate) fn names(&self, axes: &[usize]) -> String {
        joined(self.state.mesh.names(axes), ", ")
    }

    /// What isl decided about `what`; an error if it gave up.
    pub(crate) fn decided<T>(&self, what: &str, decision: IslResult<T>) -> Result<T, LowerError> {
        decision.map_err(|error| self.blame(None, ErrorKind::Isl { what: what.to_owned(), message: error.0 }))
    }

    /// Rejects the schedule unless isl proves `what`, which always holds if the closed forms are right. Without proofs, it is assumed
    /// to hold.
    pub(crate) fn proved(&self, what: &str, holds: impl FnOnce() -> IslResult<bool>) -> Result<(), LowerError> {
        if self.samples.is_some() || self.decided(what, holds())? { Ok(()) } else { Err(self.not_proved(what)) }
    }

    pub(crate) fn not_proved(&self, what: &str) -> LowerError {
        self.blame(None, ErrorKind::Unproved { what: what.to_owned(), trace: self.schedule.to_string() })
    }

    pub(crate) fn blame(&self, step: Option<StepId>, kind: ErrorKind) -> LowerError {
        self.schedule.blame(step, kind)
    }
}
