//! Random schedules whose loops are distributed block-cyclically, mostly with data distributed like them.

use super::Choices;
use super::schedules::{Loops, replace, reshape, rotate};
use polyshard::layout::{AxisExpr, Mesh};
use polyshard::schedule::{Clause, Schedule, Var, dim};

/// A random kernel's loops, each axis with blocks of one of them.
pub fn cyclic_of(kernel: Schedule, mesh: &Mesh, choices: &mut Choices<'_>) -> Schedule {
    let Ok(parsed) = kernel.kernel().cloned() else { return kernel };
    let serial: Vec<String> = parsed.vars().iter().map(|var| var.name.to_string()).collect();
    let mut loops = Loops { serial, distributed: Vec::new(), made: 0 };
    let vars = choices.shuffled(parsed.vars());
    let mut schedule = kernel;
    let (mut rounds, mut outer, mut inner) = (Vec::new(), Vec::new(), Vec::new());
    // The variable and block size of each axis.
    let mut blocks = Vec::new();
    for (axis, var) in mesh.as_slice().iter().zip(vars) {
        let size = choices.pick(&[2, 1, 3, 1, 2, 4]);
        let [block, within, round, part, one, rest] = [(); 6].map(|()| loops.fresh());
        let var = var.name.to_string();
        // Sometimes there are more parts than ranks, so that a rank has several adjacent ones.
        let parts = axis.extent + choices.pick(&[0, 0, 0, 1, axis.extent]);
        schedule = schedule.split(&*var, &*block, &*within, size).split(&*block, &*round, &*part, parts);
        replace(&mut loops.serial, &var, &[&round, &rest, &within]);
        blocks.push((var, axis.name, size));
        rounds.push(part);
        outer.push(one);
        inner.push(rest);
    }
    if outer.len() < mesh.ndim() {
        return schedule;
    }
    let refs = |names: &[String]| names.iter().map(|name| Var::new(name)).collect::<Vec<_>>();
    schedule = schedule.distribute(refs(&rounds), refs(&outer), refs(&inner), mesh);
    loops.distributed = outer;
    if choices.one_in(3) {
        schedule = reshape(schedule, &mut loops, choices);
    }
    if choices.one_in(5) {
        schedule = rotate(schedule, &loops, choices);
    }
    if choices.one_in(3) {
        loops.serial = choices
            .shuffled(&(0..loops.serial.len()).collect::<Vec<_>>())
            .into_iter()
            .map(|i| loops.serial[i].clone())
            .collect();
        schedule = schedule.reorder(refs(&loops.serial));
    }
    for tensor in parsed.tensors() {
        let accesses = parsed.accesses_of(tensor.name);
        let clauses: Vec<Clause> = (0..tensor.ndim())
            .filter_map(|d| {
                let access = accesses.first().copied().unwrap_or(parsed.target());
                let var = access.index[d].terms.first()?.0;
                let &(_, axis, size) = blocks.iter().find(|(name, ..)| var == **name)?;
                let axis = AxisExpr::axis(axis.as_str());
                match choices.below(6) {
                    0 | 1 => Some(dim(d).cyclic(axis, size)),
                    2 => Some(dim(d).at(axis)),
                    3 => {
                        let other = mesh.as_slice()[choices.below(mesh.ndim())];
                        Some(dim(d).at(AxisExpr::axis(other.name.as_str())))
                    }
                    4 => Some(dim(d).cyclic(axis, choices.pick(&[1, 2, 4, 6]))),
                    _ => None,
                }
            })
            .collect();
        schedule = schedule.shard(tensor.name, clauses);
        if choices.one_in(3) {
            let around: Vec<&String> = loops.distributed.iter().chain(&loops.serial).collect();
            schedule = schedule.communicate(tensor.name, &**choices.pick(&around));
        }
    }
    let leaf = choices.below(loops.serial.len() + 1);
    if leaf > 0 {
        schedule = schedule.tensorize(refs(&loops.serial[loops.serial.len() - leaf..]));
    }
    schedule
}
