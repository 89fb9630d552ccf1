//! Operands in place in shards, compared with the same operands as tiles: sums have the same bits.

use super::{Layout, layouts, place, points};
use crate::view::Strides;
use crate::{BlockDepth, Factor, LeafLoopId, OperandId, Product, ProductId, Products, Role};
use crate::{Element, ReduceOp, Strided, StridedMut, View};
use crate::{contract, nest, pointwise};
use proptest::prelude::*;

const LOOPS: usize = 4;

/// An operand with a dimension for each loop that indexes it, the last one with stride 1, in a shard that is larger along some.
struct Operand<T> {
    tile: Vec<T>,
    shard: Vec<T>,
    starts: Vec<usize>,
    /// The loops that index its dimensions.
    dims: Vec<usize>,
    extents: [Vec<usize>; 2],
}

fn row_major(extents: &[usize]) -> Strides {
    let mut strides: Strides = extents.iter().map(|_| 1).collect();
    for dim in (1..extents.len()).rev() {
        strides[dim - 1] = strides[dim] * extents[dim] as i64;
    }
    strides
}

impl<T: Element> Operand<T> {
    fn new(layout: &Layout, counts: &[usize], indexed: impl Fn(usize) -> bool, seed: usize) -> Self {
        let dims: Vec<usize> = layout.order.iter().copied().filter(|&l| indexed(l)).collect();
        let tile: Vec<usize> = dims.iter().map(|&l| counts[l]).collect();
        let shard: Vec<usize> = dims.iter().map(|&l| counts[l] + layout.gaps[l]).collect();
        let starts: Vec<usize> = dims.iter().map(|&l| layout.gaps[l].min(1)).collect();
        // Thirds, so that each order of summation is rounded differently.
        let value =
            |i: usize| T::from((i * 7919 + seed) as i64 % 1009).expect("a number").divide(T::from(3).expect("3"));
        let data: Vec<T> = (0..shard.iter().product()).map(value).collect();
        let [inner, outer] = [row_major(&tile), row_major(&shard)];
        let at = |point: &[i64]| {
            let distance =
                point.iter().zip(&starts).zip(&outer).map(|((i, &start), stride)| (i + start as i64) * stride);
            data[distance.sum::<i64>() as usize]
        };
        let copied = points(&tile).iter().map(|point| at(point)).collect::<Vec<_>>();
        assert_eq!(copied.len() as i64, inner.first().map_or(1, |stride| stride * tile[0] as i64));
        Self { tile: copied, shard: data, starts, dims, extents: [tile, shard] }
    }

    /// As a tile, and in its shard.
    fn both(&self, loops: usize) -> [Strided<'_, T>; 2] {
        let steps: Vec<Vec<i64>> =
            self.dims.iter().map(|&dim| (0..loops).map(|l| i64::from(l == dim)).collect()).collect();
        let steps: Vec<&[i64]> = steps.iter().map(Vec::as_slice).collect();
        let origin: Strides = self.dims.iter().map(|_| 0).collect();
        let [tile, shard] = [0, 1].map(|which| row_major(&self.extents[which]));
        let start: i64 = self.starts.iter().zip(&shard).map(|(&start, stride)| start as i64 * stride).sum();
        let base = vec![0; self.dims.len()];
        [
            View::new(&self.tile, origin.clone(), tile.clone()),
            View::new(&self.shard[start as usize..], origin, shard).like_tile(tile),
        ]
        .map(|view| view.strided(&base, &steps))
    }
}

fn bits<T: Element>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// A contraction of random loops with their roles, and the layouts of its operands.
#[derive(Clone, Debug)]
struct Case {
    counts: Vec<usize>,
    roles: Vec<Role>,
    by: [Layout; 3],
}

fn cases() -> impl Strategy<Value = Case> {
    let count = prop_oneof![8 => 1usize..6, 4 => 6usize..24, 1 => 60usize..80];
    let role = prop_oneof![1 => Just(Role::Batch), 1 => Just(Role::M), 1 => Just(Role::N), 2 => Just(Role::K)];
    let loops = prop::collection::vec((count, role), 0..=LOOPS);
    let few = |case: &Case| case.counts.iter().product::<usize>() < 500_000;
    (loops, prop::array::uniform3(layouts()))
        .prop_map(|(loops, by)| {
            let (counts, roles) = loops.into_iter().unzip();
            Case { counts, roles, by }
        })
        .prop_filter("too many points", few)
}

impl Case {
    fn operands<T: Element>(&self) -> [Operand<T>; 2] {
        let indexed = |without: Role| move |l: usize| self.roles.get(l).is_some_and(|role| *role != without);
        [
            Operand::new(&self.by[0], &self.counts, indexed(Role::N), 0),
            Operand::new(&self.by[1], &self.counts, indexed(Role::M), 5),
        ]
    }

    /// The sums of `run` have the same bits for operands in tiles and for operands in place.
    fn same_bits<T: Element>(
        &self,
        mut run: impl FnMut(&[Strided<'_, T>], StridedMut<'_, T>),
        start: T,
    ) -> Result<(), TestCaseError> {
        let operands = self.operands();
        let (len, offset, strides) = place(&self.by[2], &self.counts, |l| self.roles[l] != Role::K);
        let [tiles, shards] = [0, 1].map(|which| {
            let mut sums = vec![start; len];
            let operands: Vec<_> =
                operands.iter().map(|operand| operand.both(self.counts.len())[which].clone()).collect();
            run(&operands, StridedMut::new(&mut sums, offset, strides.clone()));
            sums
        });
        prop_assert_eq!(bits(&tiles), bits(&shards), "of {:?}", T::DTYPE);
        Ok(())
    }

    fn contraction<T: Element>(&self) -> Result<(), TestCaseError> {
        let run = |operands: &[Strided<'_, T>], c: StridedMut<'_, T>| {
            contract(&self.counts, &self.roles, T::ONE, operands[0].clone(), operands[1].clone(), c);
        };
        self.same_bits(run, T::ZERO)
    }

    fn nest<T: Element>(&self, op: ReduceOp) -> Result<(), TestCaseError> {
        let kernel = pointwise(|[a, b]: [T; 2]| a.multiply(b));
        self.same_bits(|operands, c| nest(&self.counts, c, op, operands, &kernel), op.identity())
    }

    /// The first operand twice: its square in scratch, times the second one.
    fn products<T: Element>(&self) -> Result<(), TestCaseError> {
        let kept: Vec<_> = self.operands::<T>()[0].dims.iter().map(|&l| LeafLoopId(l)).collect();
        let square = Product {
            factors: [Factor::Operand(OperandId(0)); 2],
            loops: kept.clone(),
            roles: vec![],
            capacity: kept.iter().map(|l| self.counts[l.0]).product(),
            kept,
            level: BlockDepth(0),
        };
        let last = Product {
            factors: [Factor::Operand(OperandId(1)), Factor::Scratch(ProductId(0))],
            loops: (0..self.counts.len()).map(LeafLoopId).collect(),
            roles: vec![],
            kept: vec![],
            level: BlockDepth(0),
            capacity: 0,
        };
        let mut products = Products::new(vec![square, last], vec![]).expect("scratch");
        self.same_bits(|operands, c| products.run(&self.counts, T::ONE, operands, c), T::ZERO)
    }
}

proptest! {
    #[test]
    fn contractions_in_place_give_the_bits_of_tiles(case in cases()) {
        case.contraction::<f32>()?;
        case.contraction::<f64>()?;
    }

    #[test]
    fn nests_in_place_give_the_bits_of_tiles(case in cases()) {
        case.nest::<f32>(ReduceOp::Sum)?;
        case.nest::<f64>(ReduceOp::Product)?;
    }

    #[test]
    fn sequences_of_products_in_place_give_the_bits_of_tiles(case in cases()) {
        case.products::<f32>()?;
    }
}
