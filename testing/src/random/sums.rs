//! Random relatives of Johnson's, Solomonik's and GEMM-ReduceScatter: products with sums over ranks.

use super::Choices;
use polyshard::kernel;
use polyshard::layout::{AxisExpr, Mesh};
use polyshard::runtime::Element;
use polyshard::schedule::{Schedule, dim, partial, pin};

/// A matrix product whose contracted loop is distributed, with random homes, panels and rotations.
pub fn summed_of<T: Element>(choices: &mut Choices<'_>) -> Schedule {
    let extents = [6, 8, 5, 4, 7, 9, 12, 3, 2, 1, 0];
    let [m, n, k] = [(); 3].map(|()| choices.pick(&extents));
    let product = match choices.below(3) {
        0 => kernel! { fn nn(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[i, j] += A[i, l] * B[l, j] } },
        1 => kernel! { fn tt(A: [T; k, m], B: [T; n, k]) -> C: [T; n, m] { C[j, i] = A[l, i] * B[j, l] } },
        _ => kernel! { fn least(A: [T; m, k], B: [T; k, n]) -> C: [T; m, n] { C[i, j] min= A[i, l] - B[l, j] } },
    };
    let parsed = product.kernel().expect("the kernel is right").clone();
    // The loops that are distributed over the axes: the contracted one among them.
    let loops = choices.pick(&[&["l"][..], &["i", "j", "l"], &["i", "l"], &["l", "j"], &["j", "l", "i"]]);
    let sizes: &[&[usize]] = match loops.len() {
        1 => &[&[4], &[2], &[3], &[5], &[1]],
        2 => &[&[2, 2], &[2, 3], &[3, 2], &[1, 4], &[4, 2]],
        _ => &[&[2, 2, 2], &[2, 1, 3], &[3, 2, 2], &[1, 2, 4]],
    };
    let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(choices.pick(sizes).iter().copied()));
    let axis = |nth: usize| mesh.axis(mesh.as_slice()[nth].name.as_str()).expect("an axis of the mesh");
    let outer: Vec<String> = loops.iter().map(|name| format!("{name}o")).collect();
    let inner: Vec<String> = loops.iter().map(|name| format!("{name}i")).collect();
    let names = |names: &[String]| names.iter().map(|name| polyshard::schedule::Var::new(name)).collect::<Vec<_>>();
    let vars = |names: &[&str]| names.iter().map(|name| polyshard::schedule::Var::new(name)).collect::<Vec<_>>();
    let mut schedule = product.distribute(vars(loops), names(&outer), names(&inner), &mesh);
    // Panels of one loop, in steps that ranks may start at different places.
    let left = |name: &str| if loops.contains(&name) { format!("{name}i") } else { name.to_owned() };
    let panel = choices.pick(&["i", "j", "l"]);
    let parts = choices.pick(&[axis(0).extent, 2, 3, mesh.size(), 1]);
    schedule = schedule.divide(&*left(panel), "po", "pi", parts);
    let others = ["i", "j", "l"].into_iter().filter(|name| *name != panel).map(left);
    let order: Vec<String> = ["po".to_owned(), "pi".to_owned()].into_iter().chain(others).collect();
    schedule = schedule.reorder(names(&order));
    if choices.one_in(2) {
        let by: Vec<String> = outer.iter().filter(|_| choices.below(3) > 0).cloned().collect();
        schedule = schedule.rotate("po", names(&by));
    }
    // Each dimension over the axis of its loop; other axes pinned, replicated, partial, or of the second digit.
    for tensor in parsed.tensors() {
        if choices.one_in(8) {
            continue;
        }
        let access = parsed.accesses_of(tensor.name)[0].clone();
        let over = |name: &str| loops.iter().position(|other| *other == name);
        let of = |d: usize| -> Option<usize> { access.index[d].as_variable().and_then(|name| over(name.as_str())) };
        let mut free: Vec<usize> =
            (0..loops.len()).filter(|&nth| (0..tensor.ndim()).all(|d| of(d) != Some(nth))).collect();
        let mut clauses = Vec::new();
        for d in 0..tensor.ndim() {
            let mut axes: Vec<AxisExpr> = of(d).map(|nth| axis(nth).into()).into_iter().collect();
            if !free.is_empty() && choices.one_in(3) {
                axes.push(axis(free.remove(choices.below(free.len()))).into());
            }
            let names = axes.iter().map(|axis| axis.to_string().as_str().into()).collect();
            match (choices.below(6), axes.len()) {
                (_, 0) => {}
                (1..=3, 2) => clauses.push(dim(d).at(axes[0].clone()).at(axes[1].clone())),
                (0, 1) => clauses.push(dim(d).cyclic(axes[0].clone(), choices.pick(&[1, 2]))),
                _ => clauses.push(dim(d).at(AxisExpr::List(names))),
            }
        }
        for nth in free {
            match choices.below(4) {
                0 | 1 => clauses.push(pin(axis(nth), choices.below(axis(nth).extent))),
                2 if tensor.name == parsed.output().name => clauses.push(partial(axis(nth))),
                _ => {}
            }
        }
        schedule = schedule.shard(tensor.name, clauses);
        if choices.one_in(2) {
            schedule = schedule.communicate(tensor.name, "po");
        }
    }
    if choices.one_in(4) {
        schedule = schedule.reassociate(parsed.output().name);
    }
    schedule.tensorize(names(&order[1..]))
}
