//! Random programs with sums by procedures, any that the planner finds.

use super::Choices;
use crate::laws::reduce::{factorizations, machine, programs};
use polyshard::kernel;
use polyshard::layout::{DType, Mesh};
use polyshard::planner::placement::{PlacedMesh, matrices};
use polyshard::planner::reduce::Strategy;
use polyshard::program::{Algorithm, Direction, Leg, LegId, Owners, Program, StagedLeg};
use polyshard::runtime::Element;
use polyshard::schedule::{Schedule, Var, dim};

/// The program with those outputs' sums that all owners receive closed by procedures, each the planner's for a random
/// placement; none without such an output.
///
/// # Panics
/// If a procedure of the planner is refused.
pub fn by_procedure(program: &Program, choices: &mut Choices<'_>) -> Option<Program> {
    let mut legs = Vec::new();
    for nest in program.nests() {
        let output = nest.output();
        for (leg, route) in (0..).map(LegId).zip(&output.route.legs).filter(|_| output.ahead == 0) {
            let Leg::Collective { axes, owners: Owners::All, .. } = route else { continue };
            let is_in_order = output.direction == (Direction::Out { any_order: false }) && choices.one_in(6);
            let by = Algorithm::Procedure(procedure(program.mesh(), axes, is_in_order, choices));
            legs.push(StagedLeg { transfer: output.id, leg, by, why: "at random".into() });
        }
    }
    let made = (!legs.is_empty()).then(|| program.in_stages(&legs));
    made.map(|made| made.unwrap_or_else(|error| panic!("{error}\n{legs:?}\n{program}")))
}

/// A procedure along these axes, for a machine of up to three levels.
fn procedure(
    mesh: &Mesh,
    axes: &[usize],
    is_in_order: bool,
    choices: &mut Choices<'_>,
) -> polyshard::program::reduction::Procedure {
    let levels = factorizations(mesh.size(), 3);
    let counts = &levels[choices.below(levels.len())];
    let extents: Vec<usize> = mesh.as_slice().iter().map(|axis| axis.extent).collect();
    let matrices = matrices(counts, &extents).expect("as many ranks as devices");
    let matrix = &matrices[choices.below(matrices.len())];
    let placed = PlacedMesh::new(mesh, &machine(counts), matrix).expect("the matrix is for both");
    let strategy = if is_in_order {
        Strategy::Deterministic
    } else {
        let programs = programs(&placed, axes);
        Strategy::Program(programs[choices.below(programs.len())].clone())
    };
    let plan = placed.reduction(axes, 100, DType::F64, strategy).expect("a program of these axes");
    plan.procedure_in_mesh()
}

/// A random einsum whose sums all owners receive: in panels that may be short or empty at the end, of sizes that rarely
/// divide evenly.
pub fn summed_everywhere<T: Element>(choices: &mut Choices<'_>) -> Schedule {
    let [m, n, k, b] = [(); 4].map(|()| choices.pick(&[7, 5, 13, 4, 3, 2, 1]));
    let product = match choices.below(5) {
        0 => kernel! { fn nn(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[i, j] += A[i, l] * B[l, j] } },
        1 => kernel! { fn tt(A: [T; k, m], B: [T; n, k]) -> C: [T; n, m] { C[j, i] = A[l, i] * B[j, l] } },
        2 => kernel! { fn most(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[i, j] max= A[i, l] - B[l, j] } },
        3 => kernel! { fn least(A: [T; m, k, b], B: [T; k, n]) -> C: [T; m, n] { C[i, j] min= A[i, l, h] + B[l, j] } },
        _ => {
            kernel! { fn mttkrp(A: [T; m, k, b], B: [T; k, n], D: [T; b, n]) -> C: [T; m, n] { C[i, j] += A[i, l, h] * B[l, j] * D[h, j] } }
        }
    };
    let names = |names: &[&str]| names.iter().map(|name| Var::new(name)).collect::<Vec<_>>();
    // The contracted loop runs over all axes but the last, which may have rows.
    let sizes: &[&[usize]] = &[&[4], &[6], &[8], &[2, 3], &[4, 2], &[3, 2], &[2, 2, 2], &[2, 2, 3], &[5]];
    let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(choices.pick(sizes).iter().copied()));
    let along = |nth: usize| mesh.as_slice()[nth..=nth].iter().map(|axis| (axis.name, axis.extent));
    let mut schedule = product;
    let has_rows = mesh.ndim() > 1 && choices.one_in(2);
    let (mut left, rows) = ("l".to_owned(), if has_rows { "ii" } else { "i" });
    for nth in 0..mesh.ndim() {
        if has_rows && nth + 1 == mesh.ndim() {
            schedule = schedule.distribute(["i"], ["io"], ["ii"], &Mesh::new(along(nth)));
            continue;
        }
        let inner = format!("l{nth}");
        schedule = schedule.distribute([&*left], [&*format!("o{nth}")], [&*inner], &Mesh::new(along(nth)));
        left = inner;
    }
    let (panel, parts) = (choices.pick(&[rows, "j"]), choices.pick(&[1, 2, 3, 5]));
    schedule = schedule.divide(panel, "po", "pi", parts).reorder(names(&["po", "pi"]));
    let home = has_rows.then(|| {
        let rows = mesh.axis(mesh.as_slice()[mesh.ndim() - 1].name.as_str()).expect("an axis of the mesh");
        let of_rows = schedule.kernel().expect("the kernel is right").name().as_str() == "tt";
        dim(usize::from(of_rows)).at(rows)
    });
    schedule = schedule.shard("C", home);
    if choices.below(4) > 0 {
        schedule = schedule.communicate("C", "po");
    }
    if choices.one_in(4) { schedule.reassociate("C") } else { schedule }
}
