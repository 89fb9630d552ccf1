//! Redistributions against the function of the index that fills the arrays, over both transports.

use super::*;
use crate::Region;
use crate::layout::{AxisExpr, Mesh, Placement};
use crate::sample::{indices, on_ranks, pick, sharding_pairs};
use piece::Side;
use proptest::prelude::*;

/// The element at an index: another one everywhere, also in the type that holds the fewest.
fn element<T: Element>(index: &[usize]) -> T {
    let value = index.iter().fold(1u32, |value, &i| value * 100 + i as u32);
    T::from(value).expect("every element type holds it")
}

/// The elements that a rank needs and lacks, counted one by one.
fn lacking(source: &Sharding, target: &Sharding, rank: usize) -> usize {
    let [has, gets] = [source, target].map(|sharding| sharding.mesh().coordinates(rank));
    let lacks = |index: &&Vec<usize>| target.owns(&gets, index) && !source.owns(&has, index);
    indices(&Region::whole(source.shape())).iter().filter(lacks).count()
}

/// Runs from `source` to `target` twice, with arrays of `T`, and checks all that there is to check.
fn check<T: Element>(world: &World, source: &Sharding, target: &Sharding, transport: Transport) -> Result<()> {
    let there = Redistribution::new(world, source, target)?.over(transport);
    let a = DistArray::from_fn(world, source, element::<T>)?;
    let before = a.block().to_vec();
    let expected = DistArray::from_fn(world, target, element::<T>)?;
    let lacking = lacking(source, target, world.rank()) * size_of::<T>();

    let gets = |run: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let received = world.bytes_received();
        run()?;
        let got = world.bytes_received() - received;
        assert_eq!(got, lacking as u64, "rank {} gets what it lacks over {transport:?}, each once", world.rank());
        Ok(())
    };
    let mut second = there.output(world)?;
    assert!(second.block().iter().all(|&x| x == T::ZERO), "an output is zeros");
    let mut first = None;
    gets(&mut || {
        first = Some(there.run(world, &a)?);
        Ok(())
    })?;
    gets(&mut || there.run_into(world, &a, &mut second))?;
    let first = first.expect("it has run");
    assert_eq!(first.block(), expected.block(), "rank {} over {transport:?}", world.rank());
    assert_eq!(second.block(), expected.block(), "rank {} over {transport:?}, again", world.rank());
    assert_eq!(a.block(), before, "the source is not written");
    let (held, staging) = (there.staging.borrow().held(), there.staging_bytes(size_of::<T>()));
    assert!(held <= staging, "{held} bytes are held, but {staging} are said");
    first.expect("the output", target)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    /// Every rank ends with exactly its tile, having received what it lacked and nothing else.
    #[test]
    fn every_rank_ends_with_its_tile([source, target] in sharding_pairs(), kind in 0u8..4) {
        on_ranks(source.mesh().size(), |world| {
            for transport in [Transport::Messages, Transport::Shared, Transport::Auto] {
                match kind {
                    0 => check::<f32>(world, &source, &target, transport)?,
                    1 => check::<f64>(world, &source, &target, transport)?,
                    2 => check::<i32>(world, &source, &target, transport)?,
                    _ => check::<i64>(world, &source, &target, transport)?,
                }
            }
            Ok(())
        });
    }
}

proptest! {
    /// However a piece is cut into messages, they have its rows in order.
    #[test]
    fn pieces_can_be_cut_anywhere([source, target] in sharding_pairs(), limit in 1usize..9, seed in any::<u64>()) {
        let mesh = source.mesh();
        let [owner, reader] = [0, 1].map(|side| pick(seed, side, mesh.size()));
        let piece = Piece::between(&source, &source, owner, &target, reader);
        let elements = |limit: usize| {
            let (mut rows, mut elements) = (piece.rows(), Vec::new());
            loop {
                let mut given = 0;
                rows.next(limit, |row| {
                    given += row.len;
                    elements.extend((0..row.len).map(|i| (row.from + i, row.to + i)));
                });
                if given < limit {
                    return elements;
                }
            }
        };
        let whole = elements(usize::MAX);
        prop_assert_eq!(whole.len(), piece.len());
        prop_assert!(whole.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "rows are in order");
        for (side, position) in [(Side::Source, whole.first().map(|first| first.0)), (Side::Target, whole.first().map(|first| first.1))] {
            if let (Some(range), Some(first)) = (piece.together(side), position) {
                prop_assert_eq!(range, first..first + piece.len(), "what lies together starts with the first row");
            }
        }
        prop_assert_eq!(elements(limit), whole);
    }
}

mod refusals;
mod sums;
