//! Redistributions that are refused, and how the other ranks end when one fails.

use super::*;
use crate::Segment;
use crate::comm::{Located, SharedMemory, Stranded};
use crate::{Backend, Error, spmd};
use std::rc::Rc;

fn by(mesh: &Mesh, shape: &[usize], dim: usize) -> Sharding {
    let axis = mesh.as_slice()[0].name;
    Sharding::new(mesh, shape, &[Placement::block(dim, AxisExpr::Axis(axis))]).expect("a sharding")
}

/// The error on both of two ranks.
fn said<R>(f: impl Fn(&World, &Mesh) -> Result<R> + Sync) -> String {
    let told = spmd(2, |world| {
        let mesh = Mesh::new([("x", 2)]);
        let error = f(world, &mesh).err().expect("it should be refused");
        let is_of_call = !matches!(error.cause(), Error::Mismatch(_));
        assert_eq!(error.location().map(|at| at.file()), is_of_call.then_some(file!()), "{error}");
        Ok::<_, Error>(error.cause().to_string())
    });
    let told = told.expect("both ranks go on");
    assert_eq!(told[0], told[1], "both ranks say the same");
    told[0].clone()
}

#[test]
fn other_shapes_meshes_and_ranks_are_refused() {
    assert_eq!(
        said(|world, mesh| Redistribution::new(world, &by(mesh, &[4, 6], 0), &by(mesh, &[6, 4], 1))),
        "an array of shape [4, 6] cannot be redistributed to a sharding of shape [6, 4]; a redistribution keeps the shape"
    );
    assert_eq!(
        said(|world, mesh| {
            let open = Sharding::new(mesh, &[4, 6], &[Placement::partial("x")]).expect("a sharding");
            Redistribution::new(world, &open, &by(&Mesh::new([("y", 2)]), &[4, 6], 1))
        }),
        "partial sums of an array on the mesh (x: 2) cannot be added up on the mesh (y: 2); write both shardings over \
         one mesh"
    );
    assert_eq!(
        said(|world, _| {
            let mesh = Mesh::new([("x", 3)]);
            Redistribution::new(world, &by(&mesh, &[4, 6], 0), &by(&mesh, &[4, 6], 1))
        }),
        "the mesh (x: 3) has 3 ranks, but the program runs on 2: call `spmd(3, ..)`"
    );
}

#[test]
fn two_meshes_of_the_same_ranks_may_be_mixed() {
    on_ranks(6, |world| {
        let [one, two] = [Mesh::new([("x", 6)]), Mesh::new([("y", 2), ("z", 3)])];
        let target = Sharding::new(&two, &[7, 5], &[Placement::block(0, AxisExpr::axis("z"))]).expect("a sharding");
        check::<i32>(world, &by(&one, &[7, 5], 1), &target, Transport::Auto)
    });
}

#[test]
fn arrays_that_lie_otherwise_are_refused() {
    let shape = [4, 6];
    let columns = |world: &World, mesh: &Mesh| DistArray::from_fn(world, &by(mesh, &shape, 1), element::<i32>);
    let there = |world: &World, mesh: &Mesh| Redistribution::new(world, &by(mesh, &shape, 0), &by(mesh, &shape, 1));
    assert_eq!(
        said(|world, mesh| there(world, mesh)?.run(world, &columns(world, mesh)?)),
        "an array of shape [4, 6] over (x: 2), sharded [1 @ x], cannot be the input of a redistribution that takes arrays of shape \
         [4, 6] over (x: 2), sharded [0 @ x]; make one for this array's sharding"
    );
    assert_eq!(
        said(|world, mesh| {
            let rows = DistArray::from_fn(world, &by(mesh, &shape, 0), element::<i32>)?;
            there(world, mesh)?.run_into(world, &rows, &mut rows.clone())
        }),
        "an array of shape [4, 6] over (x: 2), sharded [0 @ x], cannot be the output of a redistribution that makes arrays of shape \
         [4, 6] over (x: 2), sharded [1 @ x]; get the array from `output`"
    );
}

#[test]
fn ranks_that_mean_different_redistributions_are_told() {
    let told = spmd(2, |world| {
        let mesh = Mesh::new([("x", 2)]);
        let made = Redistribution::new(world, &by(&mesh, &[4, 6], 0), &by(&mesh, &[4, 6], world.rank()));
        Ok::<_, Error>(made.err().expect("the ranks disagree").to_string())
    });
    assert_eq!(
        told.expect("both ranks go on"),
        ["ranks disagree: rank 0 creates a redistribution from [0 @ x] to [0 @ x], rank 1 creates a redistribution from \
          [0 @ x] to [1 @ x]; all ranks must create the same objects in the same order"; 2]
    );
    let said = said(|world, mesh| {
        let rows = by(mesh, &[4, 6], 0);
        let there =
            [by(mesh, &[4, 6], 1), by(mesh, &[4, 6], 1)].map(|target| Redistribution::new(world, &rows, &target));
        let a = DistArray::from_fn(world, &rows, element::<i32>)?;
        let there = there.into_iter().collect::<Result<Vec<_>>>()?;
        there[world.rank()].run(world, &a)
    });
    assert_eq!(
        said,
        "rank 0 publishes a tile of redistribution 0 of i32 of 48 bytes, rank 1 publishes a tile of redistribution 1 of \
         i32 of 48 bytes: all ranks must run the same programs, in the same order"
    );
}

/// Memory in which one rank finds nothing, at the moment when the others read its block.
struct Failing(Rc<dyn SharedMemory>);

impl SharedMemory for Failing {
    fn reaches(&self, rank: usize) -> bool {
        self.0.reaches(rank)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn handle(&self, address: *const u8, segment: Option<(&Segment, usize)>) -> Option<u64> {
        self.0.handle(address, segment)
    }

    fn locate(&self, _rank: usize, _handle: u64, _bytes: usize) -> std::io::Result<Located> {
        Err(std::io::Error::other("no place for it"))
    }

    fn strand(&self, memory: Stranded) {
        self.0.strand(memory);
    }
}

#[test]
fn a_rank_that_fails_keeps_its_block_until_the_others_have_read() {
    let told = spmd(3, |world| {
        let mesh = Mesh::new([("x", 3)]);
        let (rows, columns) = (by(&mesh, &[2400, 3000], 0), by(&mesh, &[2400, 3000], 1));
        let mut there = Redistribution::new(world, &rows, &columns)?.with_transport(Transport::Shared);
        let a = DistArray::from_fn(world, &rows, |index| (index[0] * 4096 + index[1]) as f64)?;
        assert_eq!(world.backend(), Backend::Threads);
        if world.rank() == 1 {
            there.memory = Rc::new(Failing(Rc::clone(&there.memory)));
        }
        there.run(world, &a).map(drop)
    });
    let expected = "rank 1: cannot map 19200000 bytes of rank 2, on the same node: no place for it; \
                    set `POLYSHARD_TRANSPORT=messages`";
    let told = told.expect_err("one rank fails").to_string();
    assert_eq!(told.lines().next(), Some(expected));
}
