//! Random relatives of SUMMA, PUMMA and Cannon's algorithm: with rotated steps and skewed homes.

use super::Choices;
use polyshard::kernel;
use polyshard::layout::{AxisExpr, Mesh};
use polyshard::runtime::Element;
use polyshard::schedule::{Schedule, dim};

/// A matrix product on a mesh of two axes that runs over `k` in steps, with random homes and rotations.
pub fn algorithm_of<T: Element>(choices: &mut Choices<'_>) -> (Schedule, Mesh) {
    let extents = [6, 5, 4, 7, 9, 3, 12, 2, 1, 8, 0];
    let [m, n, k] = [(); 3].map(|()| choices.pick(&extents));
    let mesh = choices.pick(&[[2, 2], [3, 3], [2, 3], [3, 2], [1, 3], [4, 1], [2, 4], [1, 1], [4, 3]]);
    let mesh = Mesh::new([("x", mesh[0]), ("y", mesh[1])]);
    let product = match choices.below(4) {
        0 => kernel! { fn nn(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[i, j] += A[i, l] * B[l, j] } },
        1 => kernel! { fn tn(A: [T; k, m], B: [T; k, n]) -> C: [T; m, n] { C[i, j] += A[l, i] * B[l, j] } },
        2 => kernel! { fn nt(A: [T; m, k], B: [T; n, k]) -> C: [T; m, n] { C[i, j] += A[i, l] * B[j, l] } },
        _ => kernel! { fn tt(A: [T; k, m], B: [T; n, k]) -> C: [T; m, n] { C[i, j] += A[l, i] * B[j, l] } },
    };
    let parsed = product.kernel().expect("the kernel is right").clone();
    let axis = |name: &str| mesh.axis(name).expect("an axis of the mesh");
    let (x, y) = (axis("x"), axis("y"));
    let parts = choices.pick(&[y.extent, x.extent, x.extent * y.extent, 2, 3, 5]);
    let mut schedule = product
        .distribute(["i", "j"], ["io", "jo"], ["ii", "ji"], &mesh)
        .divide("l", "lo", "li", parts)
        .reorder(["io", "jo", "lo", "ii", "ji", "li"]);
    let by: Vec<&str> = ["io", "jo"].into_iter().filter(|_| choices.below(3) > 0).collect();
    schedule = schedule.rotate("lo", by);
    let skewed = |modulus: usize| (x + y) % modulus as i64;
    for (tensor, outer) in [("A", "i"), ("B", "j")] {
        let walked =
            parsed.accesses_of(tensor.into())[0].index.iter().position(|index| index.coefficient("l".into()) != 0);
        let walked = walked.expect("both operands are summed over");
        let (own, other) = if outer == "i" { (x, y) } else { (y, x) };
        let at: AxisExpr = match choices.below(4) {
            0 => skewed(other.extent),
            1 => AxisExpr::from(other) - 0,
            2 => (AxisExpr::from(other) + (choices.below(3) as i64)) % other.extent as i64,
            _ => other.into(),
        };
        let mut clauses = vec![dim(1 - walked).at(own)];
        if choices.below(8) > 0 {
            clauses.push(dim(walked).at(at));
        }
        schedule = schedule.shard(tensor, clauses);
        if choices.below(6) > 0 {
            schedule = schedule.communicate(tensor, "lo");
        }
    }
    let home = match choices.below(5) {
        0 => vec![dim(0).at(y), dim(1).at(x)],
        1 => vec![dim(0).at([x, y])],
        2 => vec![dim(0).at(x).at(y)],
        _ => vec![dim(0).at(x), dim(1).at(y)],
    };
    schedule = schedule.shard("C", home);
    if choices.one_in(3) {
        schedule = schedule.communicate("C", choices.pick(&["lo", "io"]));
    }
    (schedule.tensorize(["ii", "ji", "li"]), mesh)
}
