use super::*;
use crate::{Collectives, Error, Result, spmd};
use polyshard_comm::Advance;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

#[test]
fn groups_are_the_ranks_along_the_axes_in_row_major_order() {
    let mesh = Mesh::new([("x", 2), ("y", 1), ("z", 3)]);
    let subsets: [&[usize]; 9] = [&[], &[0], &[1], &[2], &[0, 2], &[2, 0], &[0, 1], &[2, 1], &[0, 1, 2]];
    spmd(6, |world| -> Result<()> {
        for axes in subsets {
            let group = world.group(&mesh, axes)?;
            assert_eq!((group.axes(), group.mesh()), (axes, &mesh));
            assert_eq!(group.world_rank(group.rank()), world.rank());
            let members: Vec<_> = (0..group.size()).map(|member| group.world_rank(member) as u8).collect();
            let mut gathered = vec![0; group.size()];
            group.comm().all_gather(&[world.rank() as u8], &mut gathered, &vec![1; group.size()])?;
            assert_eq!(gathered, members, "the communicator ranks its members as the group does");
            for member in 0..group.size() {
                let coordinates = group.coordinates(member);
                let along: Vec<_> = axes.iter().map(|&axis| coordinates[axis]).collect();
                assert_eq!(group.rank_of(&along), member);
            }
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_group_is_made_once() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    spmd(4, |world| -> Result<()> {
        let group = world.group(&mesh, &[1])?;
        assert!(Rc::ptr_eq(&group, &world.group(&mesh, &[1])?));
        assert!(!Rc::ptr_eq(&group, &world.group(&mesh, &[0])?));
        assert!(Rc::ptr_eq(&world.group(&mesh, &[0, 1])?.comm, &world.comm), "all axes are the world itself");
        Ok(())
    })
    .unwrap();
}

#[test]
fn bytes_are_counted_over_all_groups() {
    let mesh = Mesh::new([("x", 2), ("y", 1)]);
    let counts = spmd(2, |world| -> Result<[u64; 3]> {
        let (row, alone) = (world.group(&mesh, &[0])?, world.group(&mesh, &[1])?);
        row.comm().all_gather(&[1, 2, 3], &mut [0; 6], &[3, 3])?;
        alone.comm().all_gather(&[1, 2, 3], &mut [0; 3], &[3])?;
        Ok([world.bytes_received(), row.comm().bytes_received(), alone.comm().bytes_received()])
    });
    assert_eq!(counts.unwrap(), [[3; 3]; 2]);
}

#[test]
fn a_mesh_of_another_size_is_refused_with_what_to_do() {
    let said = spmd(3, |world| -> Result<String> {
        let mesh = Mesh::new([("x", 2), ("y", 2)]);
        Ok(world.group(&mesh, &[0]).err().expect("the mesh should be refused").cause().to_string())
    });
    let expected = "the mesh (x: 2, y: 2) has 4 ranks, but the program runs on 3: call `spmd(4, ..)`";
    assert_eq!(said.unwrap(), [expected; 3]);
}

#[test]
fn axes_that_are_not_there_or_given_twice_are_refused() {
    spmd(2, |world| -> Result<()> {
        let mesh = Mesh::new([("x", 2)]);
        let refused = |axes: &[usize]| world.group(&mesh, axes).err().expect("the axes should be refused");
        assert_eq!(*refused(&[1]).cause(), Error::Group(GroupError::NoAxis { axis: 1, mesh: mesh.clone() }));
        assert_eq!(refused(&[1]).cause().to_string(), "no axis 1: the mesh (x: 2) has 1 axis, numbered from 0");
        assert!(matches!(refused(&[0, 0]).cause(), Error::Group(GroupError::AxisTwice { axis: 0, .. })));
        let twice = "axis 0 of the mesh (x: 2) is given twice for one group";
        assert_eq!(refused(&[0, 0]).cause().to_string(), twice);
        assert_eq!(refused(&[0, 0]).location().map(|at| at.file()), Some(file!()));
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_rank_that_waits_for_a_tile_takes_it_back() {
    use crate::tile::{Fetching, Link, When, now};
    use crate::{DistArray, Grid, Region};
    use polyshard_layout::{Mesh, Placement, Sharding};
    let mesh = Mesh::new([("x", 2)]);
    let rows = Sharding::new(&mesh, &[2], &[Placement::block(0, mesh.axes::<1>()[0])]).expect("a sharding");
    let run = spmd(2, |world| {
        world.set_progress(Progress::Thread)?;
        let pair = Grid::new(world, &mesh)?.group(&[0])?;
        let a = DistArray::from_fn(world, &rows, |index| index[0] as f64)?;
        for _ in 0..200 {
            let mut tile = Link::to_fetch(1)?;
            tile.broadcast(
                &pair,
                &[1],
                Fetching { when: When::Later, ..now(&a, &Region::new(std::iter::once(1..2))) },
            )?;
            let polled = world.poll_meanwhile([tile.poll_handle()]);
            tile.poll(world)?;
            tile.arrive(world, &a)?;
            drop(polled);
        }
        Ok::<_, Error>(())
    });
    run.expect("each rank has what it waits for");
}

#[test]
fn a_panic_of_the_progress_thread_is_one_of_the_rank() {
    struct Panics(Sender<()>);
    impl Advance for Panics {
        fn advance(&mut self) -> crate::comm::Result<bool> {
            // The receiver waits for one.
            let _ = self.0.send(());
            panic!("a poll has had enough")
        }

        fn is_idle(&self) -> bool {
            false
        }
    }
    let failed = spmd(3, |world| {
        world.set_progress(Progress::Thread)?;
        let (sender, polls) = channel();
        let what: PollHandle = Arc::new(Mutex::new(Panics(sender)));
        let polled = world.poll_meanwhile((world.rank() == 1).then_some(what));
        if world.rank() == 1 {
            polls.recv().expect("it is polled");
        }
        drop(polled);
        world.barrier()
    });
    let said = failed.expect_err("a poll panics").to_string();
    assert_eq!(said, "rank 1 panicked: a poll has had enough");
}
