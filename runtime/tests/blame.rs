//! A panic for a user's mistake names the user's line: in a process of its own, since the panic hook is that of the process.

use polyshard_runtime::engine::{Assign, Engine, Kernel, Transfer};
use polyshard_runtime::layout::{Mesh, Placement, Sharding};
use polyshard_runtime::{DistArray, Result, View, World, spmd};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::Mutex;

/// The locations of panics, and their messages.
static SAID: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

#[track_caller]
fn check<R>(mistake: impl FnOnce() -> R, message: &str) {
    assert!(catch_unwind(AssertUnwindSafe(mistake)).is_err(), "there should be a panic: {message}");
    let (file, said) = SAID.lock().unwrap().pop().expect("the hook has been called");
    assert_eq!(said, message);
    assert!(file.ends_with("tests/blame.rs"), "`{message}` is blamed on {file}");
}

fn mistakes(world: &World) -> Result<()> {
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let blocks = Sharding::new(&mesh, &[4, 6], &[Placement::block(0, x)]).expect("a sharding");
    let cyclic = Sharding::new(&mesh, &[4, 6], &[Placement::block_cyclic(0, x, 1)]).expect("a sharding");
    let array = DistArray::filled(world, &blocks, 1.0)?;
    let mut dealt = DistArray::filled(world, &cyclic, 1.0)?;
    let group = world.group(&mesh, &[0])?;
    let kernel = Kernel::new("same", "B[i, j] = A[i, j]", &mesh, Assign::Set, [&blocks, &blocks]).overwrites();
    let mut engine = Engine::new(world, [kernel.transfers([Transfer::input("A", 0), Transfer::output("B")])])?;
    let mut output = array.clone();
    let run = engine.run(0, &[&array], &mut output)?;
    if world.rank() == 1 {
        return Ok(());
    }
    check(|| array.get(&[4, 0]), "index [4, 0] is outside an array of shape [4, 6]");
    check(|| array.get(&[1]), "index [1] is outside an array of shape [4, 6]");
    let no_view = "a rank's part of [0..4, 0..6], sharded [0 @ cyclic(x, 1)], is not one box, so it has no view: use \
                   `get` or `block`";
    check(|| dealt.view(), no_view);
    check(|| dealt.view_mut(), no_view);
    check(|| group.rank_of(&[0, 1]), "coordinates [0, 1] of a group along axes [0]: give one per axis");
    check(|| group.rank_of(&[2]), "coordinate 2 is outside an axis of extent 2");
    check(|| group.coordinates(2), "no member 2: the group has members 0..2");
    check(|| group.world_rank(5), "no member 5: the group has members 0..2");
    check(|| run.coordinates::<3>(), "3 coordinates on the mesh (x: 2): ask for 1, one per axis");
    check(
        || View::new(&[1.0][..], vec![0], vec![1, 1]),
        "2 strides for a view of 1 dimensions: give one per dimension",
    );
    Ok(())
}

#[test]
fn a_panic_for_a_mistake_names_the_line_that_made_it() {
    set_hook(Box::new(|info| {
        let file = info.location().map_or_else(String::new, |location| location.file().into());
        let text = info.payload().downcast_ref::<&str>().copied().map(String::from);
        let text = text.or(info.payload().downcast_ref::<String>().cloned()).unwrap_or_default();
        SAID.lock().unwrap().push((file, text));
    }));
    let ended = spmd(2, mistakes);
    // Panics of this thread are for the test's own report.
    drop(std::panic::take_hook());
    ended.expect("all mistakes are blamed on this file");
}
