//! The same program with collectives carried out in stages.

use super::body::Numbered;
use super::check::ProgramError;
use super::{Part, Program};
use crate::ids::{NestId, TileId};
use crate::matching::Matching;
use crate::nest::{Leg, Nest};
use crate::proof::{Proof, Property, Report};
use polyshard_layout::Stages;

/// What tests that say how a collective is carried out begin with.
const STAGES: &str = "stages: ";

/// The stages in which a collective of a program is carried out, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct StagedLeg {
    /// The nest.
    pub nest: NestId,
    /// The transfer in it.
    pub tile: TileId,
    /// The position of the leg in the transfer's route.
    pub leg: usize,
    /// The stages; at once if there are none.
    pub stages: Option<Stages>,
    /// Why, for [`explain`](Program::explain).
    pub why: String,
}

impl Program {
    /// Returns the same program with these collectives carried out in stages; all others as they are.
    ///
    /// What is moved stays the same, and so do the bits, but for sums and products of floats, whose terms are added up in the
    /// order of the stages.
    ///
    /// ```
    /// # use polyshard_dsl::*;
    /// # use polyshard_polyhedral::*;
    /// # use polyshard_program::example;
    /// use polyshard_layout::{AxisPart, Mesh, Stages};
    /// use polyshard_program::{NestId, StagedLeg, TileId};
    /// # let matmul = Schedule::from_spec(example::matmul(64, 64, 64));
    /// let mesh = Mesh::new([("x", 8)]);
    /// let [x] = mesh.axes();
    /// let [m, k] = ["m", "k"].map(Var::new);
    /// let rows = matmul.distribute(["m"], ["mo"], ["mi"], &mesh).divide("k", "ko", "ki", 8).reorder(["mo", "ko", "mi", "n", "ki"]);
    /// let rows = rows.shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]).communicate("B", "ko");
    /// let program = rows.lower()?;
    /// let (inside, between) = AxisPart::whole(&mesh, 0).split(4);
    /// let stages = Some(Stages::new(&mesh, &[0], vec![vec![between], vec![inside]])?);
    /// let (nest, tile) = (NestId(0), TileId(1));
    /// let staged = program.in_stages(&[StagedLeg { nest, tile, leg: 0, stages, why: "nodes are of 4 ranks".into() }])?;
    /// assert!(staged.to_string().contains("broadcast along x from x = ko in stages: x/4, then x%4"), "{staged}");
    /// assert_eq!(staged.report().traffic_bytes, program.report().traffic_bytes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Misfit`](ProgramError::Misfit) if there is no such collective, its stages do not lead from each of its ranks to each other
    /// one, or what it brings begins ahead.
    pub fn in_stages(&self, legs: &[StagedLeg]) -> Result<Self, ProgramError> {
        let mut program = self.clone();
        for StagedLeg { nest, tile, leg, stages, why } in legs {
            let transfer = program.body.nests.get_mut(nest.0).and_then(|nest| nest.transfers.get_mut(tile.0));
            let found = transfer.and_then(|transfer| {
                let Leg::Collective { stages, .. } = transfer.route.legs.get_mut(*leg)? else { return None };
                Some((stages, &mut transfer.tests))
            });
            let Some((place, tests)) = found else {
                let why = format!("nest {} has no collective as leg {leg} of transfer {}", nest.0, tile.0);
                return Err(ProgramError::Misfit { statement: self.number_of(*nest), why });
            };
            place.clone_from(stages);
            tests.retain(|test| !test.starts_with(STAGES));
            tests.push(format!("{STAGES}{why}"));
        }
        for (number, nest) in program.body.nests.iter_mut().enumerate() {
            if *nest == self.body.nests[number] {
                continue;
            }
            let misfit = |why: String| self.misfit(NestId(number), why);
            *nest = nest.proved_again().map_err(misfit)?;
            nest.check().map_err(misfit)?;
        }
        program.report = Report::of_program(program.dtype, &program.arrays, &program.body);
        Ok(program)
    }

    /// That a nest cannot be part of the program.
    fn misfit(&self, nest: NestId, why: String) -> ProgramError {
        let why = format!("`{}` {why}", self.body.nests[nest.0].kernel.name());
        ProgramError::Misfit { statement: self.number_of(nest), why }
    }

    /// The number of a nest on a page.
    fn number_of(&self, nest: NestId) -> usize {
        let is_found = |found: &&Numbered<'_>| matches!(found.part, Part::Nest(id, _) if id == nest);
        self.body.numbered().iter().find(is_found).map_or(0, |found| found.number)
    }
}

impl Nest {
    /// What holds of the calls of ranks that communicate together.
    pub(crate) fn matches(&self) -> Result<Vec<Proof>, String> {
        let ranges = self.ranges();
        let matching = Matching { mesh: &self.mesh, ranges: &ranges, loops: self.loops.len() };
        let found = matching.check(&self.transfers, |tensor| self.tensor_name(tensor));
        found.map_err(|mismatch| {
            format!("has ranks that differ on the transfer of `{}`: {}", mismatch.tensor, mismatch.why)
        })
    }

    /// The nest, whose routes lead as before, with what follows from them.
    fn proved_again(&self) -> Result<Self, String> {
        let found = self.matches()?;
        let kept = self.report.proofs.iter().filter(|proof| proof.property != Property::Matching).cloned();
        Ok(self.clone().completed(kept.chain(found).collect()))
    }
}
