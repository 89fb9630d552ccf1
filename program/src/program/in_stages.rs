//! The same program with collectives carried out in stages, or by procedures.

use super::Program;
use super::body::Numbered;
use super::check::ProgramError;
use crate::ids::{KernelId, LegId, StatementId, TransferId};
use crate::nest::{Algorithm, Transfer, Use};
use crate::proof::Property;

/// How a collective of a program is carried out, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct StagedLeg {
    /// The transfer.
    pub transfer: TransferId,
    /// The leg of the transfer's route.
    pub leg: LegId,
    /// The stages or the procedure; with any other algorithm, it is one call.
    pub by: Algorithm,
    /// Why, for [`explain`](Program::explain).
    pub why: String,
}

impl Program {
    /// Returns the same program with these collectives carried out in stages or by a procedure; all others as they are.
    ///
    /// In stages, the same elements are moved, with the same bits, except for sums and products of floats, whose terms are combined
    /// in the order of the stages.
    ///
    /// ```
    /// use polyshard::layout::{AxisPart, Stages};
    /// use polyshard::prelude::*;
    /// use polyshard::program::{Algorithm, LegId, StagedLeg, TransferId};
    /// # let matmul = kernel! {
    /// #     fn matmul(A: [f32; 64, 64], B: [f32; 64, 64]) -> C: [f32; 64, 64] { C[m, n] += A[m, k] * B[k, n] }
    /// # };
    /// let mesh = Mesh::new([("x", 8)]);
    /// let [x] = mesh.axes();
    /// let [m, k] = ["m", "k"].map(Var::new);
    /// let rows = matmul.distribute(["m"], ["mo"], ["mi"], &mesh).divide("k", "ko", "ki", 8).reorder(["mo", "ko", "mi", "n", "ki"]);
    /// let rows = rows.shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]).communicate("B", "ko");
    /// let program = rows.lower()?;
    /// let (inside, between) = AxisPart::whole(&mesh, 0).split(4);
    /// let by = Algorithm::Stages(Stages::new(&mesh, &[0], vec![vec![between], vec![inside]])?);
    /// let (transfer, why) = (TransferId(1), "nodes are of 4 ranks".into());
    /// let staged = program.in_stages(&[StagedLeg { transfer, leg: LegId(0), by, why }])?;
    /// assert!(staged.to_string().contains("broadcast along x from x = ko in stages: x/4, then x%4"), "{staged}");
    /// assert_eq!(staged.report().traffic_bytes, program.report().traffic_bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Sums of an output that all its ranks own may meet by a procedure that a planner has found, or one written by hand. Each rank
    /// then receives the elements that [`Procedure::received`](crate::reduction::Procedure::received) states, and sums and products
    /// of floats are rounded in the order of its steps; within a step the communication library chooses the order.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// use polyshard::program::reduction::{Collective, Lowered, LoweredStep, Procedure};
    /// use polyshard::program::{Algorithm, LegId, StagedLeg, TransferId};
    /// # let matmul = kernel! {
    /// #     fn matmul(A: [f32; 64, 64], B: [f32; 64, 64]) -> C: [f32; 64, 64] { C[m, n] += A[m, k] * B[k, n] }
    /// # };
    /// let mesh = Mesh::new([("z", 4)]);
    /// let [z] = mesh.axes();
    /// let k = Var::new("k");
    /// let sums = matmul.distribute(["k"], ["ko"], ["ki"], &mesh).shard("A", [k.at(z)]).shard("B", [k.at(z)]).shard("C", []);
    /// let pairs = |collective, parts| LoweredStep { collective, groups: vec![vec![0, 1], vec![2, 3]].into(), parts };
    /// let across = LoweredStep {
    ///     collective: Collective::AllReduce,
    ///     groups: vec![vec![0, 2], vec![1, 3]].into(),
    ///     parts: 2,
    /// };
    /// let steps = vec![pairs(Collective::ReduceScatter, 1), across, pairs(Collective::AllGather, 2)];
    /// let by = Procedure::by_steps(Lowered::from_steps(vec![vec![0, 1, 2, 3]], 2, steps)?)?;
    /// let (transfer, by, why) = (TransferId(2), Algorithm::Procedure(by), "nodes are of 2 ranks".into());
    /// let program = sums.lower()?.in_stages(&[StagedLeg { transfer, leg: LegId(0), by, why }])?;
    /// assert!(program.to_string().contains("all-reduce along z by ReduceScatter-AllReduce-AllGather"), "{program}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Misfit`](ProgramError::Misfit) if there is no such collective, its stages do not connect each of its ranks to every other
    /// one, or its transfer begins ahead. By a procedure also if it is not an output that all its ranks own, the procedure's groups
    /// are not those of the ranks along its axes, or it is in rank order although the communication library is to choose the order.
    pub fn in_stages(&self, legs: &[StagedLeg]) -> Result<Self, ProgramError> {
        let mut program = self.clone();
        let body = &mut program.body;
        for StagedLeg { transfer: id, leg, by, why } in legs {
            let transfer = body.transfers.get_mut(id.0).filter(|transfer| transfer.kernel().is_some());
            let found = transfer.and_then(|transfer| {
                let (_, by) = transfer.route.algorithms_mut().find(|(number, _)| number == leg)?;
                Some((by, &mut transfer.carried_out))
            });
            let Some((place, reasons)) = found else {
                let why = format!("transfer {} has no collective as leg {}, both numbered from 0", id.0, leg.0);
                let kernel = self.body.transfers.get(id.0).and_then(Transfer::kernel);
                return Err(ProgramError::Misfit { statement: self.number_of(kernel), why });
            };
            place.clone_from(by);
            reasons.insert(*leg, why.clone());
        }
        for id in (0..body.kernels.len()).map(KernelId) {
            let changed = |used: &Use| body.transfers[used.transfer.0] != self.body.transfers[used.transfer.0];
            if !body.kernels[id.0].uses.iter().any(changed) {
                continue;
            }
            let misfit = |why: String| {
                let why = format!("`{}` {why}", self.body.kernels[id.0].kernel.name());
                ProgramError::Misfit { statement: self.number_of(Some(id)), why }
            };
            let found = body.nest(id).matches().map_err(misfit)?;
            let proofs = &body.kernels[id.0].report.proofs;
            let kept = proofs.iter().filter(|proof| proof.property != Property::Matching).cloned();
            let proofs = kept.chain(found).collect();
            body.complete(id, proofs);
            body.nest(id).check().map_err(misfit)?;
        }
        program.report = program.body.report();
        Ok(program)
    }

    /// The number of a kernel on a page.
    fn number_of(&self, kernel: Option<KernelId>) -> StatementId {
        let runs =
            |found: &&Numbered<'_>| kernel.is_some_and(|kernel| self.body.kernels_of(found.span).contains(&kernel));
        self.body.numbered().iter().find(runs).map_or(StatementId(0), |found| found.number)
    }
}
