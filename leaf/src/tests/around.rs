//! Operands of a nest that are in two places, where a box of the index space is read elsewhere; and those with a value outside of their
//! array.

use crate::region::row_major;
use crate::{ReduceOp, StridedMut, View};
use crate::{nest, pointwise};
use proptest::prelude::*;
use std::ops::Range;

/// An element that must not be read.
const UNREAD: i64 = i64::MIN / 4;

/// How far outside of the array an index may be.
const FAR: usize = 6;
/// The value there.
const VALUE: i64 = 1000;

/// An array of two dimensions, the box of it that is elsewhere, the counts of three loops, and how these move the index:
/// by sums of loops, several steps at a time, and backwards.
#[derive(Debug, Clone)]
struct Case {
    shape: [usize; 2],
    interior: [Range<i64>; 2],
    /// How much larger than the interior its array is, at each end.
    margin: usize,
    counts: [usize; 3],
    steps: [[i64; 3]; 2],
    /// The distance of the indices from those that are all inside.
    shift: [i64; 2],
    order: Vec<usize>,
}

fn cases() -> impl Strategy<Value = Case> {
    let extents = (1usize..9, prop_oneof![1usize..9, 500usize..1100]);
    let steps = prop::array::uniform3(prop_oneof![4 => 0i64..2, 1 => -1i64..3]);
    let far = FAR as i64;
    let shift = prop::array::uniform2(prop_oneof![2 => Just(0), 1 => -far..far + 1]);
    let order = (shift, Just(vec![0, 1, 2]).prop_shuffle());
    (extents, [steps.clone(), steps], prop::array::uniform4(0.0..1.0), 0usize..3, order).prop_map(
        |((rows, columns), steps, cuts, margin, (shift, order))| {
            let shape = [rows, columns];
            let cut = |extent: usize, a: f64, b: f64| {
                let [a, b] = [a, b].map(|cut| (cut * (extent + 1) as f64) as i64);
                a.min(b)..a.max(b)
            };
            let interior = [cut(rows, cuts[0], cuts[1]), cut(columns, cuts[2], cuts[3])];
            // The loops are as long as the array allows: each gets a share of both dimensions.
            let count = |l: usize| {
                let longest = |dim: usize| match steps[dim][l].unsigned_abs() as usize {
                    0 => usize::MAX,
                    by => 1 + (shape[dim] - 1) / (by * steps[dim].iter().filter(|step| **step != 0).count()),
                };
                longest(0).min(longest(1)).min(5 * 223)
            };
            Case {
                shape,
                interior,
                margin,
                counts: [count(0), count(1), count(2)].map(|count| count.min(700)),
                steps,
                shift,
                order,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn it_reads_what_one_place_would_hold(case in cases()) {
        let Case { shape: [rows, columns], interior, margin, mut counts, steps, shift, order } = case;
        // Few points, many of them along one row.
        while counts.iter().product::<usize>() > 20_000 {
            let longest = (0..3).min_by_key(|&l| (counts[l] == 1, counts[l])).expect("there are three");
            counts[longest] = counts[longest].div_ceil(2);
        }
        let whole: Vec<i64> = (0..(rows * columns) as i64).map(|i| i * 7 % 101 - 50).collect();
        let inside = |i: usize, j: usize| interior[0].contains(&(i as i64)) && interior[1].contains(&(j as i64));
        let mut rim = whole.clone();
        let width = (interior[1].end - interior[1].start) as usize + 2 * margin;
        let height = (interior[0].end - interior[0].start) as usize + 2 * margin;
        let mut own = vec![UNREAD; width * height];
        let origin = [0, 1].map(|dim: usize| interior[dim].start - margin as i64);
        for i in 0..rows {
            for j in 0..columns {
                if inside(i, j) {
                    rim[i * columns + j] = UNREAD;
                    own[(i as i64 - origin[0]) as usize * width + (j as i64 - origin[1]) as usize] = whole[i * columns + j];
                }
            }
        }
        let strides = vec![columns as i64, 1];
        // Starting at the first index, if it is not shifted, no loop exceeds the array.
        let base = [0, 1].map(|dim| {
            (0..3).map(|l| (-steps[dim][l]).max(0) * (counts[l] as i64 - 1)).sum::<i64>() + shift[dim]
        });
        let padded_columns = columns + 2 * FAR;
        let mut padded = vec![VALUE; (rows + 2 * FAR) * padded_columns];
        for (row, from) in padded.chunks_mut(padded_columns).skip(FAR).zip(whole.chunks(columns)) {
            row[FAR..][..columns].copy_from_slice(from);
        }
        let padded = View::new(&padded, vec![-(FAR as i64); 2], vec![padded_columns as i64, 1]);
        let rows_of_steps: Vec<&[i64]> = steps.iter().map(|steps| &steps[..]).collect();
        let kernel = pointwise(|[a, b]: [i64; 2]| 3 * a + b);
        let target = {
            let sorted: Vec<usize> = order.iter().map(|&l| counts[l]).collect();
            let mut strides = [0; 3];
            for (&l, stride) in order.iter().zip(row_major(&sorted)) {
                strides[l] = stride as i64;
            }
            strides.to_vec()
        };
        let run = |view: View<'_, i64>| {
            let mut out = vec![1; counts.iter().product()];
            let c = StridedMut::new(&mut out, 0, target.clone());
            let beside = padded.clone().strided(&base, &rows_of_steps);
            nest(&counts, c, ReduceOp::Sum, &[view.strided(&base, &rows_of_steps), beside], &kernel);
            out
        };
        let own = View::new(&own, origin.to_vec(), vec![width as i64, 1]);
        let two_places = View::new(&rim, vec![0, 0], strides.clone()).around(interior.iter().cloned().collect(), own);
        let one_place = View::new(&whole, vec![0, 0], strides.clone());
        let outside = |view: View<'_, i64>| run(view.outside(VALUE, &[Some(rows as i64), Some(columns as i64)]));
        let expected = run(padded.clone());
        if shift == [0, 0] {
            prop_assert_eq!(&run(two_places.clone()), &expected);
        }
        prop_assert_eq!(&outside(one_place), &expected);
        prop_assert_eq!(&outside(two_places), &expected);
    }
}
