//! The same program with collectives carried out in stages, or by procedures.

use super::body::Numbered;
use super::check::ProgramError;
use super::{Part, Program};
use crate::ids::{LegId, NestId, StatementId, TileId};
use crate::matching::Matching;
use crate::nest::{Algorithm, Leg, Nest};
use crate::proof::{Proof, Property};

/// How a collective of a program is carried out, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct StagedLeg {
    /// The nest.
    pub nest: NestId,
    /// The transfer in it.
    pub tile: TileId,
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
    /// use polyshard::program::{Algorithm, LegId, NestId, StagedLeg, TileId};
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
    /// let (nest, tile) = (NestId(0), TileId(1));
    /// let staged = program.in_stages(&[StagedLeg { nest, tile, leg: LegId(0), by, why: "nodes are of 4 ranks".into() }])?;
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
    /// use polyshard::program::{Algorithm, LegId, NestId, StagedLeg, TileId};
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
    /// let (nest, tile, by) = (NestId(0), TileId(2), Algorithm::Procedure(by));
    /// let program = sums.lower()?.in_stages(&[StagedLeg { nest, tile, leg: LegId(0), by, why: "nodes are of 2 ranks".into() }])?;
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
        for StagedLeg { nest, tile, leg, by, why } in legs {
            let transfer = program.body.nests.get_mut(nest.0).and_then(|nest| nest.transfers.get_mut(tile.0));
            let found = transfer.and_then(|transfer| {
                let Leg::Collective { by, .. } = transfer.route.legs.get_mut(leg.0)? else { return None };
                Some((by, &mut transfer.carried_out))
            });
            let Some((place, reasons)) = found else {
                let why = format!("nest {} has no collective as leg {} of transfer {}", nest.0, leg.0, tile.0);
                return Err(ProgramError::Misfit { statement: self.number_of(*nest), why });
            };
            place.clone_from(by);
            reasons.insert(*leg, why.clone());
        }
        for (number, nest) in program.body.nests.iter_mut().enumerate() {
            if *nest == self.body.nests[number] {
                continue;
            }
            let misfit = |why: String| self.misfit(NestId(number), why);
            *nest = nest.proved_again().map_err(misfit)?;
            nest.check().map_err(misfit)?;
        }
        program.report = program.body.report(program.dtype, &program.arrays);
        Ok(program)
    }

    /// The error of a nest that cannot be part of the program.
    fn misfit(&self, nest: NestId, why: String) -> ProgramError {
        let why = format!("`{}` {why}", self.body.nests[nest.0].kernel.name());
        ProgramError::Misfit { statement: self.number_of(nest), why }
    }

    /// The number of a nest on a page.
    fn number_of(&self, nest: NestId) -> StatementId {
        let is_found = |found: &&Numbered<'_>| matches!(found.part, Part::Nest(id, _) if id == nest);
        self.body.numbered().iter().find(is_found).map_or(StatementId(0), |found| found.number)
    }
}

impl Nest {
    /// The claims proved about the calls of ranks that communicate together.
    pub(crate) fn matches(&self) -> Result<Vec<Proof>, String> {
        let ranges = self.ranges();
        let matching = Matching { mesh: &self.mesh, ranges: &ranges, loops: self.loops.len() };
        let found = matching.check(&self.transfers, |tensor| self.tensor_name(tensor));
        found.map_err(|mismatch| {
            format!("has ranks that differ on the transfer of `{}`: {}", mismatch.tensor, mismatch.why)
        })
    }

    /// The nest, whose routes lead as before, with the proofs and parts that follow from them.
    fn proved_again(&self) -> Result<Self, String> {
        let found = self.matches()?;
        let kept = self.report.proofs.iter().filter(|proof| proof.property != Property::Matching).cloned();
        Ok(self.clone().completed(kept.chain(found).collect()))
    }
}
