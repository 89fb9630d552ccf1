//! Plans as programs: a move per step, through arrays in shardings over the digits of the mesh's axes.
//!
//! Every tile of a plan's types has the same shape. Where extents do not divide, the plan is for a larger array; in the
//! program its tiles are cut off at the array's end, so some are short or empty and nothing is padded.

use super::PlanOptions;
use super::plan::Plan;
use super::step::PlanStep;
use crate::convert::divided;
use crate::part::{AxisPart, extent, texts};
use crate::{DistType, PlanError};
use polyshard_layout::{AxisExpr, Collective, Mesh, Name, Placement, Sharding};
use polyshard_program::{Array, ArrayId, ArrayKind, Body, DType, Pattern, Program, Transfer};

/// Returns the program that moves an array of `dtype`, named `A`, between two shardings, as between the stages of a
/// [`Sequence`](crate::Sequence): by the cheapest plan, reducing first where that is cheaper, or directly where no plan
/// is known for one of them.
///
/// ```
/// use polyshard::planner::redistribution;
/// use polyshard::prelude::*;
/// let mesh = Mesh::new([("x", 4)]);
/// let [x] = mesh.axes();
/// let rows = Sharding::new(&mesh, &[64, 64], &[Placement::block(0, x)])?;
/// let cyclic = Sharding::new(&mesh, &[64, 64], &[Placement::block_cyclic(1, x, 3)])?;
/// assert_eq!(redistribution(&rows, &cyclic, DType::F64)?.moves().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`Plan::between`]; [`PlanError::Type`] only if the array cannot be moved directly either: the meshes or the
/// shapes differ, or the target opens sums that are complete.
pub fn redistribution(source: &Sharding, target: &Sharding, dtype: DType) -> Result<Program, PlanError> {
    redistribution_with(source, target, dtype, &PlanOptions { dtype, ..PlanOptions::default() })
}

/// As [`redistribution`], with these options.
///
/// # Errors
/// As for [`redistribution`].
pub fn redistribution_with(
    source: &Sharding,
    target: &Sharding,
    dtype: DType,
    options: &PlanOptions,
) -> Result<Program, PlanError> {
    match Plan::between(source, target, options) {
        Ok(plan) => Ok(plan.program("A", dtype)),
        Err(PlanError::Type(why)) => {
            Program::redistribution("A", [source, target], dtype).map_err(|_| PlanError::Type(why.clone()))?;
            let moved = Transfer::between([ArrayId(0), ArrayId(1)], [source, target], dtype, vec![why.to_string()]);
            let arrays = vec![array(source, ArrayKind::Input), array(target, ArrayKind::Output)];
            let direct = put_together(source.mesh(), vec![moved], arrays, dtype);
            // Where one collective closes the sums, nothing remains to be done.
            let is_one = |pattern: &Pattern| !matches!(pattern, Pattern::Exchange | Pattern::Sequence { .. });
            if direct.moves().all(|moved| is_one(&moved.pattern())) {
                return Ok(direct);
            }
            options.model.check(source.mesh())?;
            let judged = |program: &Program| options.model.of_program(program);
            let summed = sums_first(source, target, dtype, options);
            Ok(summed.filter(|summed| judged(summed) < judged(&direct)).unwrap_or(direct))
        }
        Err(why) => Err(why),
    }
}

fn array(sharding: &Sharding, kind: ArrayKind) -> Array {
    Array { name: Name::new("A"), sharding: sharding.clone(), kind }
}

/// The cheapest of the programs that close partial sums before they move the array; none if no sums are to be closed,
/// or if closing them is the whole task.
fn sums_first(source: &Sharding, target: &Sharding, dtype: DType, options: &PlanOptions) -> Option<Program> {
    let closed = source.closed_axes(target).ok().filter(|closed| !closed.is_empty())?;
    // Each rank along the axes receives all of the sums, or a share of them along a dimension.
    let all = source.closed_along(&closed);
    let shares: Vec<Sharding> = (0..source.shape().len()).filter_map(|dim| divided(&all, dim, &closed)).collect();
    let between = [all].into_iter().chain(shares).filter(|between| between != target);
    let programs = between.filter_map(|between| {
        let plan = Plan::between(&between, target, options).ok()?;
        let mut arrays = vec![array(source, ArrayKind::Input), array(&between, ArrayKind::Temporary)];
        let tests = vec!["sums are closed before they are moved".into()];
        let sum = Transfer::between([ArrayId(0), ArrayId(1)], [source, &between], dtype, tests);
        let moves = plan.moves(&mut arrays, array(target, ArrayKind::Output), dtype);
        Some(put_together(source.mesh(), [vec![sum], moves].concat(), arrays, dtype))
    });
    let judged = programs.map(|program| (options.model.of_program(&program), program));
    judged.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, program)| program)
}

/// The program of these moves between these arrays.
fn put_together(mesh: &Mesh, moves: Vec<Transfer>, arrays: Vec<Array>, dtype: DType) -> Program {
    let mut body = Body { arrays, ..Body::new(mesh, dtype) };
    moves.into_iter().for_each(|moved| body.transfer(moved));
    Program::new(body)
        .unwrap_or_else(|error| panic!("a plan's steps do not fit together: {error}; this is a bug in polyshard"))
}

impl Plan {
    /// Returns the program that follows the plan, over an array of `dtype` named `array`.
    ///
    /// ```
    /// use polyshard::planner::{DistType, Plan, PlanOptions};
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("a", 2), ("b", 2)]);
    /// let [rows, columns] = ["[2{b,a}8, 8]", "[8, 2{b,a}8]"].map(|text| DistType::parse(text, &mesh).expect("a type"));
    /// let program = Plan::new(&rows, &columns, &PlanOptions::default())?.program("A", DType::F64);
    /// assert_eq!(program.to_string(), "\
    /// program over (a: 2, b: 2), f64
    ///     input         A[8, 8]: [0 @ [a, b]]
    ///  1  move          A' = A: [0 @ [a, b]] to [1 @ [a, b]], all_to_all(a, b)
    ///     output        A'[8, 8]: [1 @ [a, b]]
    /// ");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the steps do not fit together: a bug in polyshard.
    #[must_use]
    pub fn program(&self, array: impl Into<Name>, dtype: DType) -> Program {
        let [source, target] = self.shardings();
        let name = array.into();
        let mut arrays = vec![Array { name, sharding: source, kind: ArrayKind::Input }];
        let moves = self.moves(&mut arrays, Array { name, sharding: target, kind: ArrayKind::Output }, dtype);
        put_together(self.source.mesh(), moves, arrays, dtype)
    }

    /// The source and target shardings of the plan.
    fn shardings(&self) -> [Sharding; 2] {
        let of_types = || [&self.source, &self.target].map(|side| side.cut(&side.shape()));
        self.shardings.as_deref().cloned().unwrap_or_else(of_types)
    }

    /// Returns the moves from the last of `arrays` to `target`, at least one, and adds the arrays between them and `target`.
    fn moves(&self, arrays: &mut Vec<Array>, target: Array, dtype: DType) -> Vec<Transfer> {
        let Array { name, sharding, .. } = arrays[arrays.len() - 1].clone();
        let mut moves: Vec<Transfer> = Vec::new();
        let mut add = |kept: Option<Sharding>, to: Array, pattern: Pattern, test: String| {
            let ends = [ArrayId(arrays.len() - 1), ArrayId(arrays.len())];
            let shardings = [kept.as_ref().unwrap_or(&arrays[ends[0].0].sharding), &to.sharding];
            let moved = Transfer::between(ends, shardings, dtype, vec![test]).called(shardings, pattern);
            moves.push(Transfer { kept, ..moved });
            arrays.push(to);
        };
        let mut kept = None;
        for (nth, step) in self.steps.iter().enumerate() {
            let is_last = nth + 1 == self.steps.len();
            let cut = || step.to().cut(sharding.shape());
            match step.op() {
                // The next step sends the part that the slice keeps.
                Collective::Slice if !is_last => kept = Some(cut()),
                Collective::Slice => {}
                _ => {
                    // The last array is the target, with its own sharding.
                    let between = || Array { name, sharding: cut(), kind: ArrayKind::Temporary };
                    let to = if is_last { target.clone() } else { between() };
                    add(kept.take(), to, pattern(step), format!("step of a plan: {step}"));
                }
            }
        }
        if self.steps.last().is_none_or(|last| last.op() == Collective::Slice) {
            add(None, target, Pattern::Local, "every rank has its part already".into());
        }
        moves
    }
}

/// The names that digits have as axes of a refined mesh.
fn names(parts: &[AxisPart], mesh: &Mesh) -> Vec<Name> {
    texts(parts, mesh).iter().map(|text| Name::new(text)).collect()
}

/// The pattern of a step's route.
fn pattern(step: &PlanStep) -> Pattern {
    let mut parts = step.axes().to_vec();
    parts.sort_by_key(|part| (part.axis, std::cmp::Reverse(part.stride)));
    Pattern::of_collective(step.op(), names(&parts, step.from().mesh()))
}

impl DistType {
    /// Returns the sharding by which ranks have the tiles of this type, cut off where an array of `shape` ends. Where
    /// digits of an axis number tiles, it is over a mesh with one axis per digit: see [`Mesh::refined`].
    ///
    /// ```
    /// use polyshard::planner::DistType;
    /// use polyshard::prelude::*;
    /// let mesh = Mesh::new([("x", 2), ("y", 6)]);
    /// let tiles = DistType::parse("[2{y%2,x}8]", &mesh)?;
    /// assert_eq!(tiles.cut(&[7]).to_string(), "[0 @ [x, y%2]]");
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If the number of dimensions differs from the type's, or the array is larger in one of them.
    #[must_use]
    pub fn cut(&self, shape: &[usize]) -> Sharding {
        assert!(
            shape.len() == self.ndim() && shape.iter().zip(self.shape()).all(|(&size, whole)| size <= whole),
            "an array of shape {shape:?} has tiles of {self}"
        );
        let mesh = self.refined_mesh();
        let cut = self.dims().iter().zip(shape).enumerate().filter(|(_, (cut, _))| !cut.parts.is_empty());
        let placements = cut.map(|(dim, (cut, &size))| {
            let mut axes = names(&cut.parts, self.mesh());
            axes.reverse();
            block(dim, AxisExpr::List(axes), size, [cut.tile, extent(&cut.parts)])
        });
        let placements: Vec<_> = placements.collect();
        Sharding::new(&mesh, shape, &placements)
            .unwrap_or_else(|error| panic!("{self} has no sharding: {error}; this is a bug in polyshard"))
    }

    /// The mesh with one axis for each digit that numbers tiles, and for each gap between them.
    fn refined_mesh(&self) -> Mesh {
        let digits = |axis: usize| self.digits(axis).iter().rev().map(|digit| digit.extent).collect();
        self.mesh().refined(&(0..self.mesh().ndim()).map(digits).collect::<Vec<_>>())
    }
}

/// The clause for a dimension of `size` indices in `pieces` tiles. Blocks of a sharding are as small as they can be; where
/// tiles are larger, each part has one of that size instead.
fn block(dim: usize, at: AxisExpr, size: usize, [tile, pieces]: [usize; 2]) -> Placement {
    if tile == 0 || size.div_ceil(pieces) == tile {
        Placement::block(dim, at)
    } else {
        Placement::block_cyclic(dim, at, tile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanOptions;

    fn plan(mesh: &Mesh, [from, to]: [&str; 2]) -> Plan {
        let [from, to] = [from, to].map(|text| DistType::parse(text, mesh).expect("a type"));
        Plan::new(&from, &to, &PlanOptions::default()).expect("a plan")
    }

    #[test]
    fn digits_of_an_axis_are_axes_of_a_refined_mesh() {
        let mesh = Mesh::new([("x", 12)]);
        let program = plan(&mesh, ["[3{x%4}12]", "[4{x/4}12]"]).program("A", DType::I32);
        let shardings: Vec<_> = program.arrays().iter().map(|array| array.sharding.to_string()).collect();
        assert_eq!((&*shardings[0], shardings.last().map(String::as_str)), ("[0 @ x%4]", Some("[0 @ x/4]")));
        assert_eq!(program.sharding("A").mesh().to_string(), "x/4: 3, x%4: 4");
    }
}
