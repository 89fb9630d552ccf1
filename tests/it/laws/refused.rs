//! Refusals of reductions and placements, each with its whole message.

use polyshard::Result;
use polyshard::layout::Mesh;
use polyshard::machine::Machine;
use polyshard::planner::placement::{ParallelismMatrix, PlacedMesh, place};
use polyshard::planner::reduce::{Form, Instruction, Reduction, ReductionProgram, Strategy};
use polyshard::program::reduction::{Collective, Lowered, LoweredStep};
use polyshard::runtime::{ReduceOp, World, spmd};

/// Two nodes of two GPUs; axis `x` across nodes, axis `y` inside, or the other way round.
fn placed(swapped: bool) -> PlacedMesh {
    let machine = Machine::preset("a100").and_then(|machine| machine.with_counts(&[2, 2])).expect("a machine");
    let [outer, inner] = [vec![2, 1], vec![1, 2]];
    let rows = if swapped { vec![inner, outer] } else { vec![outer, inner] };
    let matrix = ParallelismMatrix::new(rows).expect("a matrix");
    PlacedMesh::new(&Mesh::new([("x", 2), ("y", 2)]), &machine, &matrix).expect("the matrix is for both")
}

/// The axes and placement in messages of [`check`].
const ALL: &str = "`x`, `y` of (x: 2, y: 2) as [[2 1] [1 2]] on a100: 2 nodes x 2 gpus";

/// Checks the error of a program on this many threads.
#[track_caller]
fn check_on<R: Send>(ranks: usize, run: impl Fn(&World) -> Result<R> + Sync, expected: &str) {
    let error = spmd(ranks, run).err().expect("it should be refused");
    assert_eq!(error.to_string(), expected);
}

/// Checks the error of a reduction over both axes.
#[track_caller]
fn check(strategy: Strategy, expected: &str) {
    let placed = placed(false);
    check_on(4, |world| Reduction::<f32>::new(world, &placed, &["x", "y"], 8, strategy.clone()).map(drop), expected);
}

fn program(instructions: &[(Collective, usize, Form)]) -> Strategy {
    let instruction = |&(collective, slice, form): &_| Instruction { collective, slice, form };
    Strategy::Program(ReductionProgram { instructions: instructions.iter().map(instruction).collect() })
}

fn lowered(reduced: &[&[usize]], chunks: usize, steps: &[(Collective, &[&[usize]])]) -> Strategy {
    let groups = |groups: &[&[usize]]| groups.iter().map(|group| group.to_vec()).collect::<Vec<_>>();
    let step =
        |&(collective, of): &(Collective, &[&[usize]])| LoweredStep { collective, groups: groups(of).into(), parts: 1 };
    let steps = steps.iter().map(step).collect();
    Strategy::Lowered(Lowered::from_steps(groups(reduced), chunks, steps).expect("the ranks are numbered from 0"))
}

#[test]
fn an_array_of_another_length() {
    let placed = placed(false);
    let run = |world: &World| {
        let sum = Reduction::new(world, &placed, &["x"], 4, Strategy::Direct)?;
        sum.run(&mut [1.0f32, 2.0, 3.0], ReduceOp::Sum)
    };
    check_on(4, run, "rank 0: the reduction is for 4 elements, but the array has 3; make one for 3");
}

#[test]
fn an_array_that_fits_no_memory() {
    let placed = placed(false);
    let run = |world: &World| Reduction::<f64>::new(world, &placed, &["x"], 1 << 60, Strategy::Best).map(drop);
    let expected = "rank 0: an array cannot have 1152921504606846976 elements of `f64`; give at most \
                    1152921504606846975";
    check_on(4, run, expected);
}

#[test]
fn axes_that_are_not_there_or_named_twice() {
    let placed = placed(false);
    let over = |axes: &'static [&'static str]| {
        let placed = &placed;
        move |world: &World| Reduction::<f32>::new(world, placed, axes, 4, Strategy::Best).map(drop)
    };
    check_on(4, over(&["z"]), "rank 0: no axis `z`; the axes of the mesh are (x: 2, y: 2)");
    check_on(4, over(&["y", "y"]), "rank 0: axis 1 is named twice; name each axis once");
    let by_position = |world: &World| Reduction::<f32>::new(world, &placed, &[2], 4, Strategy::Best).map(drop);
    check_on(4, by_position, "rank 0: no axis 2; the axes of the mesh are (x: 2, y: 2)");
}

#[test]
fn a_world_of_another_size_or_placed_otherwise() {
    let (one, other) = (placed(false), placed(true));
    let reduce = |world: &World| Reduction::<f32>::new(world, &one, &["x"], 4, Strategy::Best).map(drop);
    let size = "rank 0: the mesh (x: 2, y: 2) has 4 ranks, but the program runs on 3: call `spmd(4, ..)`";
    check_on(3, reduce, size);
    check_on(3, |world| place(world, &one).map(drop), size);
    check_on(
        4,
        |world| reduce(&*place(world, &other)?),
        "rank 0: a reduction on (x: 2, y: 2) as [[2 1] [1 2]] on a100: 2 nodes x 2 gpus cannot run in a world with \
         another placement, (x: 2, y: 2) as [[1 2] [2 1]] on a100: 2 nodes x 2 gpus; pass the world of `spmd`, or place \
         it like the reduction",
    );
    check_on(
        4,
        |world| place(&*place(world, &other)?, &one).map(drop),
        "rank 0: the world is already placed, (x: 2, y: 2) as [[1 2] [2 1]] on a100: 2 nodes x 2 gpus; call `place` \
         with the world of `spmd`",
    );
}

#[test]
fn programs_that_do_not_reduce() {
    use Collective::{AllReduce, Reduce, ReduceScatter};
    let check_program = |name: &str, instructions: &[(Collective, usize, Form)], why: &str| {
        check(program(instructions), &format!("rank 0: the program `{name}` does not reduce over {ALL}: {why}"));
    };
    check_program(
        "ReduceScatter",
        &[(ReduceScatter, 0, Form::InsideGroup)],
        "after the last step rank 0 lacks 3 of 4 chunks of the sum; add steps",
    );
    check_program("nothing", &[], "after the last step rank 0 lacks 1 of 1 chunk of the sum; add steps");
    check_program(
        "AllReduce-AllReduce",
        &[(AllReduce, 0, Form::InsideGroup), (AllReduce, 1, Form::InsideGroup)],
        "step 2, AllReduce in the group [0, 1]: the data of device 0 would be added twice in chunk 0",
    );
    check_program(
        "AllReduce",
        &[(AllReduce, 4, Form::InsideGroup)],
        "no level 4; the hierarchy root 1, level0 2, level1 2 has levels 0..3",
    );
    check_program(
        "Reduce",
        &[(Reduce, 1, Form::Parallel(1))],
        "level 1 of the form is not outside level 1 of the slice; name one of 0..1",
    );
}

#[test]
fn steps_that_do_not_reduce() {
    use Collective::{AllReduce, Broadcast};
    let all: &[&[usize]] = &[&[0, 1, 2, 3]];
    let pairs: &[&[usize]] = &[&[0, 1], &[2, 3]];
    let check_steps = |steps: &[(Collective, &[&[usize]])], why: &str| {
        check(lowered(all, 1, steps), &format!("rank 0: the steps do not reduce over {ALL}: {why}"));
    };
    check_steps(
        &[(AllReduce, pairs), (AllReduce, pairs)],
        "step 2, AllReduce in the group [0, 1]: the data of device 0 would be added twice in chunk 0",
    );
    check_steps(
        &[(Broadcast, all)],
        "step 1, Broadcast in the group [0, 1, 2, 3]: a broadcast from device 0 would discard partial sums held only \
         by device 1",
    );
    check_steps(&[(AllReduce, &[&[0, 1, 2]])], "after the last step rank 0 lacks 1 of 1 chunk of the sum; add steps");
}

#[test]
fn steps_for_other_groups() {
    use Collective::AllReduce;
    for (groups, shown) in [(&[&[0, 1][..], &[2, 3]][..], "{0 1} {2 3}"), (&[&[0, 1, 2]], "{0 1 2}")] {
        check(
            lowered(groups, 1, &[(AllReduce, groups)]),
            &format!(
                "rank 0: the steps reduce in the groups {shown}, but the groups over {ALL} are {{0 1 2 3}}; make steps for these groups"
            ),
        );
    }
}

#[test]
fn ranks_that_make_different_reductions() {
    let placed = placed(false);
    let run = |world: &World| {
        let elements = if world.rank() == 2 { 9 } else { 8 };
        Reduction::<i64>::new(world, &placed, &["y"], elements, Strategy::Deterministic).map(drop)
    };
    check_on(
        4,
        run,
        "rank 0: ranks disagree: rank 0 creates a reduction of 8 elements, rank 2 creates a reduction of 9 elements; \
         all ranks must create the same objects in the same order",
    );
}
