use super::{Stage, Sweep, plan};
use crate::layout::Mesh;
use crate::sample::{element, on_ranks};
use crate::transport::Transport;
use crate::{DistArray, Error, RedistributionError, spmd};
use proptest::prelude::*;

/// A sweep to make: the mesh, the shape, and the number of dimensions swept.
type Problem = (Mesh, Vec<usize>, usize);

/// Sweeps of 1 to 4 dimensions on fewer axes and at most 12 ranks, with empty tiles and with dimensions behind.
fn problems() -> impl Strategy<Value = Problem> {
    let swept = prop::collection::vec(0usize..8, 1..5);
    let behind = prop::collection::vec(1usize..3, 0..2);
    let axes = prop::collection::vec(1usize..6, 0..4);
    (swept, behind, axes).prop_map(|(swept, behind, mut axes)| {
        axes.truncate(swept.len() - 1);
        while axes.iter().product::<usize>() > 12 {
            axes.pop();
        }
        let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(axes));
        (mesh, [&swept[..], &behind].concat(), swept.len())
    })
}

/// The box of global indices that a rank has in a stage, if it has any.
fn tile(stage: &Stage, rank: usize) -> Option<Vec<std::ops::Range<usize>>> {
    let (sharding, coordinates) = (stage.sharding(), stage.sharding().mesh().coordinates(rank));
    (0..sharding.shape().len())
        .map(|dim| sharding.pieces(dim, &coordinates, 0..sharding.shape()[dim]).next().map(|piece| piece.0))
        .collect()
}

fn shown(stages: &[Stage]) -> Vec<String> {
    stages.iter().map(|stage| format!("{} new {:?}", stage.sharding(), stage.new_dims())).collect()
}

#[test]
fn pencils_and_slabs_are_those_of_the_paper() {
    let check = |axes: &[usize], shape: &[usize], swept, expected: &[&str]| {
        let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(axes.iter().copied()));
        assert_eq!(shown(&plan(&mesh, shape, swept).unwrap().0), expected);
    };
    check(&[2, 3], &[6, 6, 6], 3, &["[0 @ x, 1 @ y] new [2]", "[0 @ x, 2 @ y] new [1]", "[1 @ x, 2 @ y] new [0]"]);
    check(&[4], &[6, 6, 6, 2], 3, &["[0 @ x] new [1, 2]", "[1 @ x] new [0]"]);
    check(
        &[2, 2, 2],
        &[4, 4, 4, 4],
        4,
        &[
            "[0 @ x, 1 @ y, 2 @ z] new [3]",
            "[0 @ x, 1 @ y, 3 @ z] new [2]",
            "[0 @ x, 2 @ y, 3 @ z] new [1]",
            "[1 @ x, 2 @ y, 3 @ z] new [0]",
        ],
    );
    // No axis: all is done at once. And a dimension too short for its axis is passed over for one that is not.
    check(&[], &[3, 3], 2, &["replicated new [0, 1]"]);
    check(&[4], &[8, 2, 8], 3, &["[0 @ x] new [1, 2]", "[2 @ x] new [0]"]);
    check(&[4], &[8, 2, 3], 3, &["[0 @ x] new [1, 2]", "[2 @ x] new [0]"]);
}

#[test]
fn a_mesh_of_too_many_axes_is_refused_with_one_that_fits() {
    let said = |axes: &[usize], shape: &[usize], swept| {
        let mesh = Mesh::new(["x", "y", "z"].into_iter().zip(axes.iter().copied()));
        plan(&mesh, shape, swept).unwrap_err().to_string()
    };
    assert_eq!(
        said(&[2, 2, 2], &[4, 4, 4, 2], 3),
        "a sweep of 3 dimensions keeps at least one whole, so the mesh has at most 2 axes, but the mesh (x: 2, y: 2, \
         z: 2) has 3; put its 8 ranks on at most 2 axes"
    );
    assert_eq!(
        said(&[2, 3], &[4, 4], 2),
        "a sweep of 2 dimensions keeps at least one whole, so the mesh has at most 1 axis, but the mesh (x: 2, y: 3) \
         has 2; put its 6 ranks on 1 axis, `6`"
    );
    assert_eq!(
        said(&[2], &[4], 1),
        "a sweep of 1 dimension keeps at least one whole, so the mesh has at most 0 axes, but the mesh (x: 2) has 1; \
         sweep more dimensions than one, or run on 1 rank with a mesh without axes"
    );
    let error = plan(&Mesh::new([("x", 2)]), &[4, 4], 3).unwrap_err();
    let expected = RedistributionError::SweptDimensions { swept: 3, shape: vec![4, 4] };
    assert_eq!(error, Error::Redistribution(expected));
    for swept in [0, 3] {
        assert_eq!(
            said(&[2], &[4, 4], swept),
            format!("cannot sweep the first {swept} dimensions of an array of shape [4, 4]; give 1 to 2")
        );
    }
}

#[test]
fn a_mesh_of_another_number_of_ranks_is_refused_before_anything_happens() {
    let mesh = Mesh::new([("x", 3)]);
    let error = spmd(2, |world| Sweep::new(world, &mesh, &[4, 4], 2).map(drop)).unwrap_err();
    assert!(
        matches!(&error, Error::Failed { message, .. } if message.contains("the mesh (x: 3) has 3 ranks")),
        "{error}"
    );
}

proptest! {
    /// Every swept dimension is new in one stage, and whole there.
    #[test]
    fn every_dimension_is_local_in_turn((mesh, shape, swept) in problems()) {
        let (stages, axes) = plan(&mesh, &shape, swept).unwrap();
        prop_assert_eq!((stages.len(), axes.len()), (mesh.ndim() + 1, mesh.ndim()));
        let mut new: Vec<_> = stages.iter().flat_map(|stage| stage.new_dims()).copied().collect();
        new.sort_unstable();
        prop_assert_eq!(new, (0..swept).collect::<Vec<_>>());
        for stage in &stages {
            prop_assert!(stage.new_dims().iter().all(|dim| stage.local_dims().contains(dim)));
            for (dim, layout) in stage.sharding().dims().iter().enumerate() {
                let whole = layout.levels().is_empty();
                let local = dim >= swept || stage.local_dims().contains(&dim);
                // An axis of one rank distributes nothing.
                let idle = mesh.as_slice().iter().any(|axis| axis.extent == 1);
                prop_assert!(whole == local || (whole && idle));
            }
        }
    }

    /// Whatever two ranks hand one another in a move, they differ along its axis only.
    #[test]
    fn a_move_stays_in_the_groups_of_one_axis((mesh, shape, swept) in problems()) {
        let (stages, axes) = plan(&mesh, &shape, swept).unwrap();
        for (pair, axis) in stages.windows(2).zip(axes) {
            for (from, to) in (0..mesh.size()).flat_map(|from| (0..mesh.size()).map(move |to| (from, to))) {
                let (Some(source), Some(target)) = (tile(&pair[0], from), tile(&pair[1], to)) else { continue };
                let meet = source.iter().zip(&target).all(|(a, b)| a.start.max(b.start) < a.end.min(b.end));
                let [from, to] = [from, to].map(|rank| mesh.coordinates(rank));
                let beside = (0..mesh.ndim()).filter(|&other| other != axis).any(|other| from[other] != to[other]);
                prop_assert!(!(meet && beside), "{:?} has something for {:?}", from, to);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Each stage has exactly the array, over either transport; and the way back ends where the way there began.
    #[test]
    fn every_stage_has_the_array_and_the_way_back_undoes_the_way_there(
        (mesh, shape, swept) in problems(),
        transport in prop::sample::select(vec![Transport::Auto, Transport::Messages, Transport::Shared]),
    ) {
        on_ranks(mesh.size(), |world| {
            let sweep = Sweep::new(world, &mesh, &shape, swept)?.with_transport(transport);
            let last = sweep.stages().len() - 1;
            let made = |stage: usize| DistArray::from_fn(world, sweep.stages()[stage].sharding(), element);
            let mut array = sweep.array(world, 0)?;
            array.block_mut().copy_from_slice(made(0)?.block());
            for stage in 0..last {
                let mut next = sweep.array(world, stage + 1)?;
                sweep.forward(stage).run_into(world, &array, &mut next)?;
                array = next;
                assert_eq!(array.sharding(), sweep.stages()[stage + 1].sharding());
                assert_eq!(array.block(), made(stage + 1)?.block(), "stage {}", stage + 1);
            }
            for stage in (0..last).rev() {
                array = sweep.backward(stage).run(world, &array)?;
                assert_eq!(array.block(), made(stage)?.block(), "stage {stage} on the way back");
            }
            Ok(())
        });
    }
}
