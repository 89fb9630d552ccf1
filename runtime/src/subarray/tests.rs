//! Subarrays compared with loops over single elements.

use super::*;
use crate::layout::{Mesh, Placement};
use crate::sample::{around, blocks, element, indices, pick, region, sharding_pairs, shardings};
use proptest::prelude::*;

const UNREAD: i32 = -1;

/// The contents of the three places; none where a place has no element of the subarray.
type Places = [Vec<Option<i32>>; 3];

/// The elements at `indices` that are `kept`.
fn place(indices: &[Vec<usize>], kept: impl Fn(&[usize]) -> bool) -> Vec<Option<i32>> {
    indices.iter().map(|index| kept(index).then(|| element(index))).collect()
}

/// The indices of the block of the rank at these coordinates, row-major.
fn block(sharding: &Sharding, coordinates: &[usize]) -> Vec<Vec<usize>> {
    let owned = |index: &Vec<usize>| sharding.owns(coordinates, index);
    indices(&Region::whole(sharding.shape())).into_iter().filter(owned).collect()
}

fn check(part: &Subarray, places: &Places) {
    let packed: Vec<i32> = places[2].iter().map(|value| value.expect("a message has the elements alone")).collect();
    assert_eq!(part.len(), packed.len());
    let all = [Place::Block, Place::Region, Place::Packed];
    for from in all {
        let held = &places[from as usize];
        let source: Vec<i32> = held.iter().map(|value| value.unwrap_or(UNREAD)).collect();
        for to in all {
            let target = &places[to as usize];
            let mut copied = vec![UNREAD; target.len()];
            part.copy(from, &source, to, &mut copied);
            assert_eq!(
                copied,
                target.iter().map(|value| value.unwrap_or(UNREAD)).collect::<Vec<_>>(),
                "{from:?} {to:?}"
            );
        }
        let at: Vec<usize> = (0..held.len()).filter(|&at| held[at].is_some()).collect();
        let in_order = at.iter().map(|&at| source[at]).eq(packed.iter().copied());
        let expected = match &at[..] {
            [] => Some(0..0),
            [first, ..] if in_order && at.iter().copied().eq(*first..first + at.len()) => {
                Some(*first..first + at.len())
            }
            _ => None,
        };
        assert_eq!(part.contiguous(from), expected, "{from:?} of {part:?}");
    }
    cut(part, places, &packed);
}

/// However a subarray is divided into messages, they hold its elements in order.
fn cut(part: &Subarray, places: &Places, packed: &[i32]) {
    let bytes = size_of::<i32>();
    let source: Vec<i32> = places[0].iter().map(|value| value.unwrap_or(UNREAD)).collect();
    let once = places[1].iter().flatten().count() == packed.len();
    for limit in [1, 2, 3, 7] {
        let (mut out, mut back) = (part.rows(Place::Block, Place::Packed), part.rows(Place::Packed, Place::Region));
        let mut region = vec![UNREAD; places[1].len()];
        for chunk in packed.chunks(limit) {
            let mut message = vec![UNREAD; chunk.len()];
            out.copy(chunk.len(), bytes, cast_slice(&source), cast_slice_mut(&mut message));
            assert_eq!(message, chunk);
            // Elements with several places in a region are received as a whole.
            if once {
                back.copy(chunk.len(), bytes, cast_slice(&message), cast_slice_mut(&mut region));
            }
        }
        out.next(usize::MAX, |row| panic!("{row:?} is left"));
        let expected = places[1].iter().map(|value| value.unwrap_or(UNREAD));
        assert!(!once || region.iter().copied().eq(expected), "{region:?} in chunks of {limit}");
    }
}

proptest! {
    /// The part of a region that a rank owns has the right places in the block and in the region, also for blocks and around the end.
    #[test]
    fn a_subarray_is_what_a_rank_owns_of_a_region(sharding in shardings(), seed in any::<u64>()) {
        let regions = [region(seed, 0, sharding.shape()), blocks(seed, 0, sharding.shape()), around(seed, 0, sharding.shape())];
        for (rank, region) in (0..sharding.mesh().size()).flat_map(|rank| regions.iter().map(move |region| (rank, region))) {
            let at = sharding.mesh().coordinates(rank);
            let inside = |index: Vec<i64>| -> Vec<usize> {
                let inside = |(dim, i): (usize, i64)| region.period(dim).map_or(i, |period| i.rem_euclid(period)) as usize;
                index.into_iter().enumerate().map(inside).collect()
            };
            let wanted: Vec<Vec<usize>> = positions(region).into_iter().map(inside).collect();
            let mut seen = Vec::new();
            wanted.iter().filter(|index| sharding.owns(&at, index)).for_each(|index| {
                if !seen.contains(index) {
                    seen.push(index.clone());
                }
            });
            let part = Subarray::of(&sharding, &at, region);
            prop_assert_eq!(part.len() == 0 || part.first() == seen[0], true, "{:?}", part);
            check(&part, &[
                place(&block(&sharding, &at), |index| wanted.iter().any(|wanted| wanted == index)),
                place(&wanted, |index| sharding.owns(&at, index)),
                place(&seen, |_| true),
            ]);
        }
    }

    /// Ranks send a reader the elements it lacks, each from one of them, and it keeps those it has.
    #[test]
    fn pieces_are_what_a_reader_needs([source, target] in sharding_pairs(), seed in any::<u64>()) {
        let mesh = source.mesh();
        let reader = pick(seed, "reader", mesh.size());
        let near = mesh.coordinates(reader);
        for owner in 0..mesh.size() {
            let at = mesh.coordinates(owner);
            let handed = |index: &[usize]| {
                let from = if source.owns(&near, index) { near.clone() } else { source.owner(&near, index) };
                target.owns(&near, index) && from == at
            };
            let (has, gets) = (block(&source, &at), block(&target, &near));
            let packed: Vec<_> = gets.iter().filter(|index| handed(index)).cloned().collect();
            check(&Subarray::between(&source, &source, owner, &target, reader), &[
                place(&has, handed),
                place(&gets, handed),
                place(&packed, |_| true),
            ]);
        }
    }

    /// A copy around a box copies all elements outside the box, where the box ends at spans.
    #[test]
    fn a_copy_around_a_box_leaves_the_box(starts in prop::collection::vec((0i64..4, 1i64..5, 1i64..5), 0..4)) {
        let shape: Vec<usize> = starts.iter().map(|&(before, len, behind)| (before + len + behind) as usize).collect();
        let whole = Region::whole(&shape);
        let data: Vec<i32> = indices(&whole).iter().map(|index| element(index)).collect();
        // Spans begin at the box and end with it, as with a rank's own part of a wider region.
        let along = |(dim, &(before, len, behind)): (usize, &(i64, i64, i64))| {
            let ends = [0, before as usize, (before + len) as usize, (before + len + behind) as usize];
            let spans = ends.windows(2).map(|pair| Span { starts: [pair[0]; 3], len: pair[1] - pair[0] });
            let mut groups = Vec::new();
            spans.filter(|span| span.len > 0).for_each(|span| spans::push(&mut groups, &[span]));
            (dim, groups)
        };
        let part = Subarray::new(starts.iter().enumerate().map(along), [shape.clone(), shape.clone()]);
        let positions: Vec<_> = starts.iter().map(|&(before, len, _)| before as usize..(before + len) as usize).collect();
        let mut copied = vec![UNREAD; data.len()];
        for part in part.around(&positions) {
            part.copy(Place::Block, &data, Place::Region, &mut copied);
        }
        let inside = |index: &[usize]| index.iter().zip(&positions).all(|(i, range)| range.contains(i));
        let expected: Vec<i32> =
            indices(&whole).iter().map(|index| if inside(index) { UNREAD } else { element(index) }).collect();
        prop_assert_eq!(copied, expected);
    }
}

/// Spans that repeat at equal distances are stored once, for any number of repetitions.
#[test]
fn blocks_that_come_again_are_one_group() {
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let by = |placement| Sharding::new(&mesh, &[100_003], &[placement]).expect("a sharding");
    let [blocks, whole] = [by(Placement::block(0, x)), Sharding::replicated(&mesh, &[100_003])];
    for (source, target, spans) in [
        (&blocks, &by(Placement::block_cyclic(0, x, 1)), 1),
        (&by(Placement::block_cyclic(0, x, 4)), &blocks, 1),
        (&by(Placement::block_cyclic(0, x, 1)), &whole, 1),
        (&by(Placement::block_cyclic(0, x, 2)), &by(Placement::block_cyclic(0, x, 5)), 6),
    ] {
        for (owner, reader) in (0..3).flat_map(|owner| (0..3).map(move |reader| (owner, reader))) {
            let part = Subarray::between(source, source, owner, target, reader);
            let written: usize = part.dims[0].iter().map(|group| group.pattern.len()).sum();
            // And the spans cut off at either end.
            assert!(written <= 4 * spans, "{written} spans of {owner} for {reader}: {source} to {target}");
        }
    }
}

/// The indices of a region, row-major, in its own order.
fn positions(region: &Region) -> Vec<Vec<i64>> {
    if region.is_empty() {
        return Vec::new();
    }
    (0..region.ndim()).fold(vec![vec![]], |all, dim| {
        let along = || region.runs(dim).flat_map(|(run, _)| run);
        all.iter().flat_map(|head: &Vec<i64>| along().map(move |i| [&head[..], &[i]].concat())).collect()
    })
}
