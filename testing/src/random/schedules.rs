//! Random schedules: steps in random order, most of them legal.

use super::Choices;
use polyshard::layout::{AxisExpr, Mesh};
use polyshard::schedule::{Schedule, Var, dim, partial, pin};
use std::ops::Range;

/// A mesh of 1 to 3 axes and 1 to 12 ranks.
pub fn mesh_of(choices: &mut Choices<'_>) -> Mesh {
    let meshes: [&[usize]; 20] = [
        &[2, 2],
        &[3],
        &[1],
        &[2],
        &[4],
        &[5],
        &[7],
        &[2, 3],
        &[3, 2],
        &[3, 3],
        &[1, 4],
        &[4, 1],
        &[2, 5],
        &[2, 4],
        &[2, 2, 2],
        &[2, 1, 3],
        &[3, 2, 2],
        &[1, 1, 5],
        &[12],
        &[3, 4],
    ];
    let extents = choices.pick(&meshes);
    Mesh::new(["x", "y", "z"].into_iter().zip(extents.iter().copied()))
}

/// The loops after the steps so far, so that later steps can name them.
pub(crate) struct Loops {
    /// Serial loops, outermost first.
    pub(crate) serial: Vec<String>,
    pub(crate) distributed: Vec<String>,
    pub(crate) made: usize,
}

impl Loops {
    pub(crate) fn fresh(&mut self) -> String {
        self.made += 1;
        format!("l{}", self.made)
    }
}

/// Random steps on `kernel`; a step may be illegal, and `lower` then says why.
pub fn schedule_of(kernel: Schedule, mesh: &Mesh, choices: &mut Choices<'_>) -> Schedule {
    let Ok(parsed) = kernel.kernel().cloned() else { return kernel };
    let mut loops = Loops {
        serial: parsed.vars().iter().map(|var| var.name.to_string()).collect(),
        distributed: Vec::new(),
        made: 0,
    };
    let mut schedule = kernel;
    // The last axis may be one of copies, along which the output is not sharded.
    let whole = mesh;
    let copies = if mesh.ndim() > 1 && choices.one_in(6) { 1 } else { 0 };
    let over =
        |axes: Range<usize>| Mesh::new(whole.as_slice()[axes].iter().map(|axis| (axis.name.as_str(), axis.extent)));
    let mesh = &over(0..whole.ndim() - copies);
    // One loop per axis, contracted or not.
    let order = choices.shuffled(parsed.vars());
    let mut pool: Vec<String> = order.iter().map(|var| var.name.to_string()).collect();
    let axes = mesh.ndim();
    if pool.len() < axes {
        // Not enough loops: split the first until there are enough.
        while let (Some(first), true) = (pool.first().cloned(), pool.len() < axes) {
            let (outer, inner) = (loops.fresh(), loops.fresh());
            schedule = schedule.divide(&*first, &*outer, &*inner, 2);
            replace(&mut loops.serial, &first, &[&outer, &inner]);
            pool[0] = outer;
            pool.insert(1, inner);
        }
    }
    if pool.len() >= axes {
        if choices.one_in(4) {
            schedule = rotate(schedule, &loops, choices);
        }
        // All axes at once, or some first and then the others, for loops inside or next to them.
        let first = if axes > 1 && choices.one_in(3) { 1 + choices.below(axes - 1) } else { axes };
        schedule = distribute(schedule, &mut loops, pool[..first].to_vec(), mesh, 0..first);
        if first < axes {
            let mut rest = choices.shuffled(&(0..loops.serial.len()).collect::<Vec<_>>());
            rest.truncate(axes - first);
            let rest = rest.into_iter().map(|at| loops.serial[at].clone()).collect();
            schedule = distribute(schedule, &mut loops, rest, mesh, first..axes);
        }
    }
    if copies > 0 {
        schedule = schedule.replicate(&over(mesh.ndim()..whole.ndim()));
    }
    for _ in 0..choices.below(4) {
        schedule = reshape(schedule, &mut loops, choices);
        if choices.one_in(4) {
            schedule = rotate(schedule, &loops, choices);
        }
    }
    let order = choices.shuffled(&(0..loops.serial.len()).collect::<Vec<_>>());
    if choices.one_in(2) {
        loops.serial = order.into_iter().map(|i| loops.serial[i].clone()).collect();
        schedule = schedule.reorder(loops.serial.iter().map(|name| Var::new(name)));
    }
    for _ in 0..choices.below(3) {
        if loops.serial.is_empty() {
            break;
        }
        schedule = rotate(schedule, &loops, choices);
    }
    let leaf = choices.below(loops.serial.len() + 1);
    let serial = loops.serial.len() - leaf;
    for (position, tensor) in parsed.tensors().enumerate() {
        if choices.one_in(6) {
            continue;
        }
        let mesh = if tensor.name == parsed.output().name { mesh } else { whole };
        let clauses = (0..tensor.ndim()).filter_map(|d| clause(d, mesh, position, choices));
        let mut clauses: Vec<_> = clauses.collect();
        if choices.one_in(8) {
            let axis = mesh.as_slice()[choices.below(mesh.ndim())];
            let coordinate = choices.below(axis.extent);
            clauses.push(pin(mesh.axis(axis.name.as_str()).expect("an axis of the mesh"), coordinate));
        }
        if tensor.name == parsed.output().name && choices.one_in(5) {
            let axis = mesh.as_slice()[choices.below(mesh.ndim())];
            clauses.push(partial(mesh.axis(axis.name.as_str()).expect("an axis of the mesh")));
        }
        schedule = schedule.shard(tensor.name, clauses);
        if choices.below(4) > 0 {
            let loops: Vec<&String> = loops.distributed.iter().chain(&loops.serial[..serial]).collect();
            if !loops.is_empty() {
                schedule = schedule.communicate(tensor.name, &**choices.pick(&loops));
            }
        }
    }
    if leaf > 0 {
        schedule = schedule.tensorize(loops.serial[serial..].iter().map(|name| Var::new(name)));
    }
    schedule
}

pub(crate) fn replace(names: &mut Vec<String>, old: &str, new: &[&String]) {
    if let Some(at) = names.iter().position(|name| name == old) {
        names.splice(at..=at, new.iter().map(|name| (*name).clone()));
    }
}

/// The serial loops `chosen` over these axes of the mesh.
fn distribute(schedule: Schedule, loops: &mut Loops, chosen: Vec<String>, mesh: &Mesh, axes: Range<usize>) -> Schedule {
    let outer: Vec<String> = chosen.iter().map(|_| loops.fresh()).collect();
    let inner: Vec<String> = chosen.iter().map(|_| loops.fresh()).collect();
    let refs = |names: &[String]| names.iter().map(|name| Var::new(name)).collect::<Vec<_>>();
    let mesh = Mesh::new(mesh.as_slice()[axes].iter().map(|axis| (axis.name.as_str(), axis.extent)));
    let schedule = schedule.distribute(refs(&chosen), refs(&outer), refs(&inner), &mesh);
    for (old, new) in chosen.iter().zip(&inner) {
        replace(&mut loops.serial, old, &[new]);
    }
    loops.distributed.extend(outer);
    schedule
}

/// A rotation of some serial loop by some loops outside it, or by none.
pub(crate) fn rotate(schedule: Schedule, loops: &Loops, choices: &mut Choices<'_>) -> Schedule {
    if loops.serial.is_empty() {
        return schedule;
    }
    let at = choices.below(loops.serial.len());
    let outside: Vec<&String> = loops.distributed.iter().chain(&loops.serial[..at]).collect();
    let by: Vec<_> = outside.into_iter().filter(|_| choices.one_in(2)).map(|name| Var::new(name)).collect();
    schedule.rotate(&*loops.serial[at], by)
}

/// A split, a divide or a fuse of some serial loop.
pub(crate) fn reshape(schedule: Schedule, loops: &mut Loops, choices: &mut Choices<'_>) -> Schedule {
    if loops.serial.is_empty() {
        return schedule;
    }
    let at = choices.below(loops.serial.len());
    let name = loops.serial[at].clone();
    match choices.below(5) {
        4 if at + 1 < loops.serial.len() => {
            let (inner, fused) = (loops.serial[at + 1].clone(), loops.fresh());
            loops.serial.splice(at..at + 2, [fused.clone()]);
            schedule.fuse(&*name, &*inner, &*fused)
        }
        choice => {
            let (outer, inner) = (loops.fresh(), loops.fresh());
            loops.serial.splice(at..=at, [outer.clone(), inner.clone()]);
            let count = choices.pick(&[2, 3, 4, 1, 5]);
            match choice {
                0 | 1 => schedule.divide(&*name, &*outer, &*inner, count),
                _ => schedule.split(&*name, &*outer, &*inner, count),
            }
        }
    }
}

/// A placement of one dimension; dimensions mostly take different axes.
fn clause(d: usize, mesh: &Mesh, tensor: usize, choices: &mut Choices<'_>) -> Option<polyshard::schedule::Clause> {
    let axes = mesh.as_slice();
    let nth = |i: usize| AxisExpr::axis(axes[i % axes.len()].name.as_str());
    let own = d + choices.pick(&[0, 0, 0, 1, tensor]);
    if own >= axes.len() && !choices.one_in(4) {
        return None;
    }
    Some(match choices.below(12) {
        0..=3 => dim(d).at(nth(own)),
        4 => dim(d).cyclic(nth(own), choices.pick(&[1, 2, 3])),
        5 => dim(d).at((nth(own) + nth(own + 1)) % axes[own % axes.len()].extent as i64),
        6 => dim(d).at((nth(own) * 2 - nth(own + 1)) % axes[(own + 1) % axes.len()].extent as i64),
        7 => dim(d).at(AxisExpr::List(axes.iter().map(|axis| axis.name).collect())),
        8 => dim(d).at(nth(own)).at(nth(own + 1)),
        9 => (1..axes.len()).fold(dim(d).at(nth(0)), |outer, axis| outer.at(nth(axis))),
        10 => dim(d).at(nth(own)).cyclic(nth(own + 1), choices.pick(&[1, 2])),
        _ => return None,
    })
}
