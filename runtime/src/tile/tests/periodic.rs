//! Tiles of regions that wrap around the end of their array.

use super::*;
use crate::sample::around;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However often a region wraps around, and whichever ranks own the elements, each element is at all of its places,
    /// and is received once.
    #[test]
    fn an_exchange_brings_what_lies_round_the_end(sharding in shardings(), seed in any::<u64>()) {
        exchanges_bring(&sharding, |step, at| around(seed + step, at[0] as usize, sharding.shape()));
    }

    /// Members of a group gather all parts of a region that wraps around.
    #[test]
    fn an_all_gather_brings_what_lies_round_the_end(sharding in shardings(), seed in any::<u64>()) {
        an_all_gather_brings(&sharding, &around(seed, 0, sharding.shape()));
    }

    /// A rank that owns all of an array copies any of its regions.
    #[test]
    fn a_copy_goes_round_the_end(shape in prop::collection::vec(1_usize..9, 1..4), seed in any::<u64>()) {
        on_ranks(1, |world| {
            let source = array(world, &Sharding::replicated(&Mesh::new([("x", 1)]), &shape))?;
            let mut tile = Link::to_fetch(ROOM).expect("a small tile");
            let region = around(seed, 0, &shape);
            tile.own(now(&source, &region), false)?;
            check(&tile, &source, &region);
            unchanged(world, &source)
        });
    }
}

#[test]
fn ranks_at_the_ends_receive_no_more_than_others() {
    let mesh = Mesh::new([("x", 4)]);
    let sharding = rows_over(&mesh, &[8, 4]);
    on_ranks(4, |world| {
        let (grid, source) = (Grid::new(world, &mesh)?, array(world, &sharding)?);
        let received = |before: u64| (world.bytes_received() - before) as usize / size_of::<i32>();
        let mut tile = Link::to_fetch(80).expect("a small tile");
        let before = world.bytes_received();
        let of = |at: &[i64]| Region::new([2 * at[0] - 1..2 * at[0] + 3, 0..4]).periodic(0, 8);
        tile.exchange(&grid, &anywhere(grid.mesh()), of, false, now(&source, &of(grid.coords())))?;
        assert_eq!(received(before), 8, "a row from each neighbour");
        let before = world.bytes_received();
        let of = |_: &[i64]| Region::new([-5..15, 0..4]).periodic(0, 8);
        tile.exchange(&grid, &anywhere(grid.mesh()), of, false, now(&source, &of(grid.coords())))?;
        assert_eq!(received(before), 24, "all rows of the others, once");
        Ok(())
    });
}

#[test]
fn what_lies_round_the_end_is_never_held_in_place() {
    let error = crate::spmd(1, |_| {
        Tile::<i32>::new("A", 3).expect("a small tile").clear(&Region::new(std::iter::once(7..9)).periodic(0, 8));
        Ok::<(), crate::Error>(())
    });
    let message = error.expect_err("it is two pieces").to_string();
    assert!(message.contains("[(7..9) % 8] is not one box of its array; this is a bug"), "{message}");
}
