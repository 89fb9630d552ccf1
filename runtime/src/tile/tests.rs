//! Every operation on tiles, on threads, compared with the function of the index that fills the array.

use super::*;
use crate::layout::{Mesh, Neighbours, Placement, Reach, Sharding};
use crate::leaf::{Role, contract};
use crate::sample::{array, contents, element, indices, on_ranks, owned_region, pick, range, region, shardings};
use crate::{DistArray, Grid, ReduceOp, Result, Strided, World};
use polyshard_program::Algorithm;
use proptest::prelude::*;

mod blocks;
mod periodic;

const ROOM: usize = 9 * 9 * 9;
/// The initial value of buffer elements that are never read.
const UNREAD: i32 = i32::MIN;

fn axes_of(seed: u64, mesh: &Mesh) -> Vec<usize> {
    (0..mesh.ndim()).filter(|&axis| pick(seed, ("axes", axis), 3) > 0).collect()
}

fn anywhere(mesh: &Mesh) -> Neighbours {
    Neighbours::in_box(vec![Reach::All; mesh.ndim()])
}

/// A region that the members of the group along `axes` own together, if it is easy to find one.
fn shared_region(seed: u64, sharding: &Sharding, axes: &[usize], coordinates: &[usize]) -> Region {
    let ndim = sharding.shape().len();
    let outside: Vec<_> =
        (0..coordinates.len()).map(|axis| if axes.contains(&axis) { 0 } else { coordinates[axis] }).collect();
    if sharding.pins().iter().any(|&(axis, at)| !axes.contains(&axis) && coordinates[axis] != at) {
        return Region::empty(ndim);
    }
    let ranges = (0..ndim).map(|dim| {
        let all = 0..sharding.shape()[dim];
        let terms: Vec<_> = sharding.dims()[dim].levels().iter().flat_map(|level| &level.at.terms).collect();
        let within = terms.iter().filter(|term| axes.contains(&term.0)).count();
        if within == terms.len() {
            return Some(range(seed, (&outside, dim), all));
        }
        // All members must see the same pieces.
        let (piece, _) = sharding.pieces(dim, coordinates, all).next().filter(|_| within == 0)?;
        // A pin would hide the pieces of the ranks that it excludes.
        sharding.pins().is_empty().then(|| range(seed, (&outside, dim), piece))
    });
    ranges.collect::<Option<Vec<_>>>().map_or(Region::empty(ndim), Region::new)
}

/// The tile has the elements of the region, which wrap around where it is periodic.
fn check(tile: &Link<i32>, source: &DistArray<i32>, region: &Region) {
    let element = |index: Vec<usize>| {
        let inside = index.iter().enumerate().map(|(dim, &i)| match region.period(dim) {
            Some(period) => (i as i64).rem_euclid(period) as usize,
            None => i,
        });
        element(&inside.collect::<Vec<_>>())
    };
    let expected: Vec<_> = indices(region).into_iter().map(element).collect();
    assert_eq!(contents(tile.view(source), region), expected, "{region} of {}", source.sharding());
}

/// In each step every rank gets the region `of` its coordinates, and receives each element that it does not own once;
/// its buffer is reused.
fn exchanges_bring(sharding: &Sharding, of: impl Fn(u64, &[i64]) -> Region + Sync) {
    on_ranks(sharding.mesh().size(), |world| {
        let (grid, source) = (Grid::new(world, sharding.mesh())?, array(world, sharding)?);
        let mut tile = Link::to_fetch(ROOM)?;
        for step in 0..3_u64 {
            let of = |at: &[i64]| of(step, at);
            let region = of(grid.coords());
            let before = world.bytes_received();
            tile.exchange(&grid, &anywhere(grid.mesh()), of, false, now(&source, &region))?;
            check(&tile, &source, &region);
            let received = (world.bytes_received() - before) as usize / size_of::<i32>();
            let own = Subarray::read(sharding, source.coordinates(), source.coordinates(), &region);
            assert_eq!(received, region.distinct() - own.len());
            tile.tile.buffer.fill(UNREAD);
            tile.exchange(&grid, &anywhere(grid.mesh()), of, true, now(&source, &region))?;
            check(&tile, &source, &region);
        }
        unchanged(world, &source)
    });
}

/// All ranks gather all parts of the region.
fn an_all_gather_brings(sharding: &Sharding, region: &Region) {
    on_ranks(sharding.mesh().size(), |world| {
        let (grid, source) = (Grid::new(world, sharding.mesh())?, array(world, sharding)?);
        let group = grid.group(&(0..grid.mesh().ndim()).collect::<Vec<_>>())?;
        let mut tile = Link::to_fetch(ROOM)?;
        tile.all_gather(&group, now(&source, region))?;
        check(&tile, &source, region);
        unchanged(world, &source)
    });
}

/// Every owner of an element, replicated owners too, ends with its old value combined with all terms written to it by
/// the ranks, each in the region `of` its coordinates.
fn a_write_back_combines(sharding: &Sharding, of: impl Fn(&[i64]) -> Region + Sync) {
    on_ranks(sharding.mesh().size(), |world| {
        let (grid, mut target) = (Grid::new(world, sharding.mesh())?, array(world, sharding)?);
        let mut out = Link::to_send(ROOM)?;
        write(&mut out, &of(grid.coords()), world.rank());
        out.write_back(&grid, &anywhere(grid.mesh()), &of, &mut sums_of(&mut target), When::Now)?;
        let indices = |rank| grid.mesh().coordinates(rank).into_iter().map(|at| at as i64).collect::<Vec<_>>();
        let writes: Vec<_> = (0..grid.mesh().size()).map(|rank| (rank, of(&indices(rank)))).collect();
        check_sums(&target, &writes);
        Ok(())
    });
}

fn unchanged(world: &World, source: &DistArray<i32>) -> Result<()> {
    assert_eq!(source.block(), array(world, source.sharding())?.block(), "a transfer wrote its source");
    Ok(())
}

/// The elements that `world`'s rank holds after `writes`, each a writer and a region, were summed into the array.
fn check_sums(target: &DistArray<i32>, writes: &[(usize, Region)]) {
    for index in indices(&Region::whole(target.shape())) {
        let inside = |region: &&(usize, Region)| {
            let along = |(dim, &i): (usize, &usize)| region.1.runs(dim).any(|(run, _)| run.contains(&(i as i64)));
            index.iter().enumerate().all(along) && !region.1.is_empty()
        };
        let sum: i32 = writes.iter().filter(inside).map(|(writer, _)| element(&index) * (*writer as i32 + 2)).sum();
        if let Some(held) = target.get(&index) {
            assert_eq!(held, element(&index) + sum, "{index:?} of {}", target.sharding());
        }
    }
}

fn sums_of<T>(array: &mut DistArray<T>) -> Target<'_, T> {
    Target { array, op: ReduceOp::Sum, written: None }
}

fn write(out: &mut Link<i32>, region: &Region, writer: usize) {
    out.reset(region, ReduceOp::Sum);
    let steps = vec![&[][..]; region.ndim()];
    // A tile is dense, so its elements in memory are those of the region in order.
    let mut sums = out.tile().view_mut().strided(&region.start(), &steps);
    sums.set();
    for (held, index) in sums.data.iter_mut().zip(indices(region)) {
        *held += element(&index) * (writer as i32 + 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whichever ranks own the elements, each rank gets the region that it requests, with reused buffers.
    #[test]
    fn an_exchange_brings_what_each_rank_needs(sharding in shardings(), seed in any::<u64>()) {
        exchanges_bring(&sharding, |step, at| region(seed + step, (at[0], at.last()), sharding.shape()));
    }

    /// All members of a group get the root's region, whether it is contiguous in the root's shard or not.
    #[test]
    fn a_broadcast_brings_the_region_of_its_root(sharding in shardings(), seed in any::<u64>()) {
        on_ranks(sharding.mesh().size(), |world| {
            let (grid, source) = (Grid::new(world, sharding.mesh())?, array(world, &sharding)?);
            let axes = axes_of(seed, grid.mesh());
            let group = grid.group(&axes)?;
            let mut tile = Link::to_fetch(ROOM)?;
            for step in 0..3_u64 {
                let root = group.coordinates(pick(seed, step, group.size()));
                let region = owned_region(seed + step, &sharding, &root);
                let along: Vec<_> = axes.iter().map(|&axis| root[axis] as i64).collect();
                tile.broadcast(&group, &along, now(&source, &region))?;
                check(&tile, &source, &region);
            }
            unchanged(world, &source)
        });
    }

    /// After `t` shifts by `by` a member holds the region with which member `me + by * t` began.
    #[test]
    fn shifts_hand_tiles_round_the_group(sharding in shardings(), seed in any::<u64>(), by in -3_i64..4) {
        on_ranks(sharding.mesh().size(), |world| {
            let (grid, source) = (Grid::new(world, sharding.mesh())?, array(world, &sharding)?);
            let group = grid.group(&axes_of(seed, grid.mesh()))?;
            let of = |member| owned_region(seed, &sharding, &group.coordinates(member));
            let mut tile = if seed % 2 == 0 { Link::to_fetch(ROOM)? } else { Link::to_fetch(ROOM)?.relay()? };
            tile.own(Fetching { when: When::Later, ..now(&source, &of(group.rank())) }, false)?;
            tile.arrive(world, &source)?;
            for step in 1..4 {
                let member = (group.rank() as i64 + by * step).rem_euclid(group.size() as i64);
                let region = of(member as usize);
                tile.shift(&group, by, now(&source, &region))?;
                check(&tile, &source, &region);
            }
            unchanged(world, &source)
        });
    }

    /// A permutation sends each rank its partner's region; run backwards, it combines the terms that the partner wrote.
    #[test]
    fn permutations_bring_regions_and_take_them_back(sharding in shardings(), seed in any::<u64>()) {
        let size = sharding.mesh().size();
        let mut from: Vec<_> = (0..size).collect();
        from.sort_by_key(|&rank| pick(seed, rank, 1000));
        let of = |rank: usize| owned_region(seed, &sharding, &sharding.mesh().coordinates(rank));
        on_ranks(size, |world| {
            let (grid, source) = (Grid::new(world, sharding.mesh())?, array(world, &sharding)?);
            let me = world.rank();
            let reader = from.iter().position(|&rank| rank == me).expect("a permutation");
            let mut tile = Link::to_fetch(ROOM)?;
            for _ in 0..2 {
                tile.permute(&grid, (from[me], Some((reader, of(me)))), now(&source, &of(from[me])))?;
                check(&tile, &source, &of(from[me]));
            }
            unchanged(world, &source)?;

            let (mut out, mut target) = (Link::to_send(ROOM)?, array(world, &sharding)?);
            write(&mut out, &of(from[me]), me);
            out.permute_back(&grid, from[me], Some((reader, of(me))), &mut sums_of(&mut target), When::Now)?;
            let mut sums = array(world, &sharding)?;
            write(&mut out, &of(me), reader);
            out.combine_own(&mut sums_of(&mut sums));
            assert_eq!(target.block(), sums.block());
            Ok(())
        });
    }

    /// All members get the whole region, in whatever order its parts lie in it.
    #[test]
    fn an_all_gather_brings_all_parts(sharding in shardings(), seed in any::<u64>()) {
        on_ranks(sharding.mesh().size(), |world| {
            let (grid, source) = (Grid::new(world, sharding.mesh())?, array(world, &sharding)?);
            let all: Vec<_> = (0..grid.mesh().ndim()).collect();
            let mut tile = Link::to_fetch(ROOM)?;
            for axes in [axes_of(seed, grid.mesh()), all] {
                let group = grid.group(&axes)?;
                let region = shared_region(seed, &sharding, &axes, source.coordinates());
                tile.all_gather(&group, now(&source, &region))?;
                check(&tile, &source, &region);
            }
            unchanged(world, &source)
        });
    }

    #[test]
    fn a_write_back_combines_all_contributions(sharding in shardings(), seed in any::<u64>()) {
        a_write_back_combines(&sharding, |at| region(seed, (at[0], at.last()), sharding.shape()));
    }
}

fn rows_over(mesh: &Mesh, shape: &[usize]) -> Sharding {
    let [x] = mesh.axes();
    Sharding::new(mesh, shape, &[Placement::block(0, x)]).expect("a sharding")
}

#[test]
fn contributions_meet_in_the_order_of_their_writers() {
    let mesh = Mesh::new([("x", 4)]);
    let sharding = rows_over(&mesh, &[1]);
    on_ranks(4, |world| {
        let (grid, mut target) = (Grid::new(world, &mesh)?, DistArray::filled(world, &sharding, 0.0_f64)?);
        let mut out = Link::to_send(1)?;
        out.reset(&Region::whole(&[1]), ReduceOp::Sum);
        out.tile().view_mut().strided(&[0], &[&[]]).data[0] = [1e16, 1.0, -1e16, 3.0][world.rank()];
        out.write_back(&grid, &anywhere(grid.mesh()), |_| Region::whole(&[1]), &mut sums_of(&mut target), When::Now)?;
        // 1e16 + 1 is 1e16, so another order would give another sum.
        assert_eq!(target.get(&[0]), [Some(3.0), None, None, None][world.rank()]);
        Ok(())
    });
}

/// A leaf that writes all of a tile need not read it; one that does not assigns the identity to the rest.
#[test]
fn what_a_tile_held_before_it_was_reset_is_of_no_account() {
    let mesh = Mesh::new([("x", 1)]);
    let [a, b] = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 10.0, 100.0, 1000.0, 1.0, 0.0]];
    // The counts of m, n and k, and where one step of each moves a, b and the tile of 2 by 3.
    let once = ([2, 3, 2], [[2, 0, 1], [0, 1, 3], [3, 1, 0]]);
    let part = ([2, 2, 2], [[2, 0, 1], [0, 1, 3], [3, 1, 0]]);
    let none = ([2, 3, 0], [[2, 0, 1], [0, 1, 3], [3, 1, 0]]);
    let over = ([2, 2, 2], [[2, 0, 1], [0, 1, 3], [1, 1, 0]]);
    on_ranks(1, |world| {
        let sharding = Sharding::replicated(&mesh, &[2, 3]);
        let mut out = Link::<f64>::to_send(6)?;
        for leaves in [&[once][..], &[once, once], &[part], &[none], &[none, once], &[over], &[]] {
            let (mut target, mut expected) = (DistArray::filled(world, &sharding, 5.0)?, [5.0; 6]);
            out.tile.buffer.fill(f64::NAN);
            out.reset(&Region::whole(&[2, 3]), ReduceOp::Sum);
            for &(counts, [of_a, of_b, of_c]) in leaves {
                for i in 0..counts[0] * counts[1] * counts[2] {
                    let point = [i / (counts[1] * counts[2]), i / counts[2] % counts[1], i % counts[2]];
                    let at = |strides: [i64; 3]| (0..3).map(|l| point[l] * strides[l] as usize).sum::<usize>();
                    expected[at(of_c)] += a[at(of_a)] * b[at(of_b)];
                }
                let steps = [[of_c[0] / 3, 0, 0], [of_c[0] % 3, of_c[1], 0]];
                let target = out.tile().view_mut().strided(&[0, 0], &[&steps[0], &steps[1]]);
                let [a, b] = [(&a, of_a), (&b, of_b)].map(|(data, strides)| Strided::new(data, 0, strides.to_vec()));
                contract(&counts, &[Role::M, Role::N, Role::K], 1.0, a, b, target);
            }
            out.combine_own(&mut sums_of(&mut target));
            assert_eq!(target.block(), expected, "{leaves:?}");
        }
        Ok(())
    });
}

#[test]
fn only_what_is_asked_for_is_sent() {
    let mesh = Mesh::new([("x", 4)]);
    let sharding = rows_over(&mesh, &[8, 4]);
    on_ranks(4, |world| {
        let (grid, source) = (Grid::new(world, &mesh)?, array(world, &sharding)?);
        let group = grid.group(&[0])?;
        let received = |before: u64| (world.bytes_received() - before) as usize / size_of::<i32>();
        let mut tile = Link::to_fetch(32)?;

        let before = world.bytes_received();
        let of = |at: &[i64]| Region::new([2 * at[0]..2 * at[0] + 2, 1..3]);
        tile.exchange(&grid, &anywhere(grid.mesh()), of, false, now(&source, &of(grid.coords())))?;
        assert_eq!(received(before), 0, "an exchange with oneself sends nothing");
        let of = |at: &[i64]| Region::new([2 * at[0] - 2 * at[0].min(1)..2 * at[0] + 1, 0..4]);
        tile.exchange(&grid, &anywhere(grid.mesh()), of, false, now(&source, &of(grid.coords())))?;
        assert_eq!(received(before), if world.rank() == 0 { 0 } else { 8 });

        let before = world.bytes_received();
        tile.broadcast(&group, &[2], now(&source, &Region::new([4..6, 1..3])))?;
        assert_eq!(received(before), if world.rank() == 2 { 0 } else { 4 });
        tile.broadcast(&group, &[2], now(&source, &Region::empty(2)))?;
        assert_eq!(received(before), if world.rank() == 2 { 0 } else { 4 });

        let before = world.bytes_received();
        tile.all_gather(&group, now(&source, &Region::new([1..8, 0..4])))?;
        assert_eq!(received(before), 28 - if world.rank() == 0 { 4 } else { 8 });
        assert!(tile.incoming.is_empty(), "rows follow one another, so they are received in place");
        Ok(())
    });
}

/// The cost of a panel does not depend on the number of its owners.
#[test]
fn an_all_gather_of_few_parts_receives_each_element_once() {
    let mesh = Mesh::new([("x", 4)]);
    let [x] = mesh.axes();
    let each = [(0, Algorithm::EachPart), (1, Algorithm::EachPart), (0, Algorithm::Library), (1, Algorithm::Library)];
    for (dim, by) in each {
        let sharding = Sharding::new(&mesh, &[8, 8], &[Placement::block(dim, x)]).expect("a sharding");
        on_ranks(4, |world| {
            let (grid, source) = (Grid::new(world, &mesh)?, array(world, &sharding)?);
            let group = grid.group(&[0])?;
            let mut tile = Link::new(Tile::new("A", 64)?, How { by: by.clone(), ..How::default() });
            // With one owner, with two whose parts have equal or different sizes, and with all ranks but one.
            for panel in [2..4, 3..6, 3..5, 1..4, 1..6, 0..6] {
                let ranges = [0..8, 0..8].into_iter().enumerate();
                let region = Region::new(ranges.map(|(d, whole)| if d == dim { panel.clone() } else { whole }));
                let before = world.bytes_received();
                tile.all_gather(&group, now(&source, &region))?;
                check(&tile, &source, &region);
                let own = Subarray::of(&sharding, source.coordinates(), &region).len();
                assert_eq!((world.bytes_received() - before) as usize / size_of::<i32>(), region.len() - own);
                let one_box = by == Algorithm::EachPart && panel == (2..4) && world.rank() == 1;
                assert_eq!(matches!(tile.tile.held, Held::InPlace(..)), one_box, "{region}");
            }
            unchanged(world, &source)
        });
    }
}

/// Blocks of 2 by 3 with a rim of one element, with or without corners, cut off at the array's ends or periodic.
#[test]
fn a_halo_looks_at_neighbours_alone() {
    let mesh = Mesh::new([("x", 3), ("y", 4)]);
    let [x, y] = mesh.axes();
    let sharding =
        Sharding::new(&mesh, &[6, 12], &[Placement::block(0, x), Placement::block(1, y)]).expect("a sharding");
    on_ranks(12, |world| {
        let (grid, source) = (Grid::new(world, &mesh)?, array(world, &sharding)?);
        let mut tile = Link::to_fetch(20)?;
        let rim = |at: &[i64]| Region::new([2 * at[0] - 1..2 * at[0] + 3, 3 * at[1] - 1..3 * at[1] + 4]);
        let clip = |range: &std::ops::Range<i64>, extent: i64| range.start.max(0)..range.end.min(extent);
        let cut = |at: &[i64]| {
            let rim = rim(at);
            Region::new([clip(&rim.range(0), 6), clip(&rim.range(1), 12)])
        };
        let within = Neighbours::in_box([Reach::Within { low: -1, high: 1 }; 2]);
        let around_it = Neighbours::in_box([Reach::Around { low: -1, high: 1 }; 2]);
        tile.exchange(&grid, &within, cut, false, now(&source, &cut(grid.coords())))?;
        check(&tile, &source, &cut(grid.coords()));
        let around = |at: &[i64]| rim(at).periodic(0, 6).periodic(1, 12);
        let before = world.bytes_received();
        tile.exchange(&grid, &around_it, around, false, now(&source, &around(grid.coords())))?;
        assert_eq!((world.bytes_received() - before) as usize / size_of::<i32>(), 20 - 6);
        check(&tile, &source, &around(grid.coords()));
        // The part that a rank owns itself stays unchanged.
        for (region_of, wraps) in [(&around as &dyn Fn(&[i64]) -> Region, true), (&cut, false)] {
            tile.tile.buffer.fill(UNREAD);
            tile.exchange(&grid, &around_it, region_of, true, now(&source, &region_of(grid.coords())))?;
            let region = region_of(grid.coords());
            assert_eq!(
                tile.tile.buffer[..region.len()].iter().filter(|&&element| element == UNREAD).count(),
                6,
                "{wraps}"
            );
            check(&tile, &source, &region);
        }
        // Elements owned by ranks that differ along both axes stay unchanged, too.
        let star = Neighbours::in_star([Reach::Around { low: -1, high: 1 }; 2]);
        tile.tile.buffer.fill(UNREAD);
        let before = world.bytes_received();
        tile.exchange(&grid, &star, around, true, now(&source, &around(grid.coords())))?;
        assert_eq!((world.bytes_received() - before) as usize / size_of::<i32>(), 20 - 6 - 4);
        assert_eq!(tile.tile.buffer.iter().filter(|&&element| element == UNREAD).count(), 6 + 4);
        assert_eq!([0, 4, 15, 19].map(|corner| tile.tile.buffer[corner]), [UNREAD; 4]);

        let mut out = Link::to_send(20)?;
        let mut sums = Vec::new();
        for reach in [within, anywhere(grid.mesh())] {
            let mut target = array(world, &sharding)?;
            write(&mut out, &cut(grid.coords()), world.rank());
            out.write_back(&grid, &reach, cut, &mut sums_of(&mut target), When::Now)?;
            sums.push(target.block().to_vec());
        }
        assert_eq!(sums[0], sums[1]);
        Ok(())
    });
}

#[test]
fn an_owner_out_of_reach_is_a_bug() {
    let mesh = Mesh::new([("x", 3)]);
    let error = crate::spmd(3, |world| {
        let (grid, source) = (Grid::new(world, &mesh)?, array(world, &rows_over(&mesh, &[6, 1]))?);
        let of = |_: &[i64]| Region::whole(&[6, 1]);
        Link::to_fetch(6)?.exchange(
            &grid,
            &Neighbours::in_box([Reach::OWN]),
            of,
            false,
            now(&source, &of(grid.coords())),
        )
    });
    let message = error.expect_err("owners are everywhere").to_string();
    assert!(message.contains("2 of the 6 elements of [0..6, 0..1] have an owner in reach"), "{message}");
}

#[test]
fn the_root_of_a_broadcast_copies_nothing_that_lies_together() {
    let mesh = Mesh::new([("x", 2)]);
    let sharding = rows_over(&mesh, &[8, 4]);
    on_ranks(2, |world| {
        let (grid, source) = (Grid::new(world, &mesh)?, array(world, &sharding)?);
        let mut tile = Link::to_fetch(16)?;
        tile.broadcast(&*grid.group(&[0])?, &[1], now(&source, &Region::new([5..8, 0..4])))?;
        assert_eq!(matches!(tile.tile.held, Held::InPlace(..)), world.rank() == 1);
        Ok(())
    });
}

#[test]
fn a_tile_that_is_too_small_is_a_bug() {
    let error = crate::spmd(1, |_| {
        Tile::<f64>::new("A", 3)?.clear(&Region::new([5..8, 0..4]));
        Ok::<(), crate::Error>(())
    });
    let message = error.expect_err("the tile is too small").to_string();
    assert!(message.contains("a region of 12 elements, [5..8, 0..4], is in a tile of 3; this is a bug"), "{message}");
}

#[test]
fn what_is_neutral_changes_no_bit() {
    for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min] {
        for value in [0.0, -0.0, 2.5, f64::NEG_INFINITY, f64::NAN, -f64::NAN] {
            assert_eq!(op.combine(value, neutral(op)).to_bits(), value.to_bits(), "{op:?}");
            assert_eq!(op.combine(neutral(op), value).to_bits(), value.to_bits(), "{op:?}");
        }
    }
}
