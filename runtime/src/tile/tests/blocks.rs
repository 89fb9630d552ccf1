//! Tiles of regions in blocks, as block-cyclic loops have them.

use super::*;
use crate::sample::blocks;

/// The elements that the rank at `coordinates` owns of an array whose rows are block-cyclic.
fn own(coordinates: &[usize], shape: &[usize], block: usize, ranks: usize) -> Region {
    let start = (coordinates[0] * block) as i64;
    let rest = shape[1..].iter().map(|&extent| 0..extent as i64);
    let all = std::iter::once(start..shape[0] as i64).chain(rest);
    Region::new(all).in_blocks(0, block as i64, (block * ranks) as i64)
}

/// An array of `rows` whose blocks of `block` rows are distributed cyclically over the ranks.
fn cyclic(ranks: usize, rows: usize, block: usize) -> Sharding {
    let mesh = Mesh::new([("x", ranks)]);
    let [x] = mesh.axes();
    Sharding::new(&mesh, &[rows, 2], &[Placement::block_cyclic(0, x, block)]).expect("a sharding")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whichever ranks own the elements, each rank gets its blocks and nothing else.
    #[test]
    fn an_exchange_brings_all_blocks_of_a_rank(sharding in shardings(), seed in any::<u64>()) {
        exchanges_bring(&sharding, |step, at| blocks(seed + step, at[0] as usize, sharding.shape()));
    }

    /// Members of a group gather all parts of a region of blocks.
    #[test]
    fn an_all_gather_brings_all_blocks(sharding in shardings(), seed in any::<u64>()) {
        an_all_gather_brings(&sharding, &blocks(seed, 0, sharding.shape()));
    }

    /// Every owner ends with all terms written to its elements, and elements between blocks are unchanged.
    #[test]
    fn a_write_back_combines_all_blocks(sharding in shardings(), seed in any::<u64>()) {
        a_write_back_combines(&sharding, |at| blocks(seed, at[0] as usize, sharding.shape()));
    }

    /// A rank's part of a block-cyclic array is copied, broadcast, passed on and combined as one tile.
    #[test]
    fn blocks_of_a_rank_travel_as_one_tile(ranks in 1_usize..5, rows in 0_usize..20, block in 1_usize..5) {
        let sharding = cyclic(ranks, rows, block);
        on_ranks(ranks, |world| {
            let (grid, source) = (Grid::new(world, sharding.mesh())?, array(world, &sharding)?);
            let of = |rank: usize| own(&[rank], sharding.shape(), block, ranks);
            let (me, group) = (world.rank(), grid.group(&[0])?);
            let mut tile = Link::to_fetch(ROOM)?;
            tile.own(now(&source, &of(me)), false)?;
            check(&tile, &source, &of(me));
            for root in 0..ranks {
                tile.broadcast(&group, &[root as i64], now(&source, &of(root)))?;
                check(&tile, &source, &of(root));
            }
            let next = (me + 1) % ranks;
            tile.permute(&grid, (next, Some(((me + ranks - 1) % ranks, of(me)))), now(&source, &of(next)))?;
            check(&tile, &source, &of(next));
            tile.shift(&group, 1, now(&source, &of((me + 2) % ranks)))?;
            check(&tile, &source, &of((me + 2) % ranks));
            unchanged(world, &source)?;

            let (mut out, mut target) = (Link::to_send(ROOM)?, array(world, &sharding)?);
            write(&mut out, &of(me), me);
            out.combine_own(&mut sums_of(&mut target));
            check_sums(&target, &(0..ranks).map(|rank| (rank, of(rank))).collect::<Vec<_>>());
            Ok(())
        });
    }
}
