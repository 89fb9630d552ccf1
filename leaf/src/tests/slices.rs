//! Leaves that are cut into slices, compared with the same leaves as a whole: each element has the same bits.

use super::{Layout, layouts, place};
use crate::{Element, ReduceOp, Strided, StridedMut, ViewMut};
use crate::{LeafBox, Role, Slices, SlicesOf, contract, nest, pointwise};
use proptest::prelude::*;

const LOOPS: usize = 4;

/// Loops with their roles, one of which is long and cut.
#[derive(Clone, Debug)]
struct Case {
    counts: Vec<usize>,
    roles: Vec<Role>,
    along: usize,
    by: [Layout; 3],
    /// Whether transfers are in flight when the next slice begins.
    coming: Vec<bool>,
    is_negative: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let role = || prop_oneof![1 => Just(Role::Batch), 3 => Just(Role::M), 3 => Just(Role::N), 4 => Just(Role::K)];
    let count = prop_oneof![6 => 1usize..6, 3 => 6usize..24, 2 => 60usize..80];
    let others = prop::collection::vec((count, role()), 0..LOOPS);
    let cut = (1usize..1700, prop_oneof![1 => Just(Role::Batch), 3 => Just(Role::M), 3 => Just(Role::N)]);
    let rest =
        (prop::array::uniform3(layouts()), prop::collection::vec(prop::bool::weighted(0.8), 1..6), any::<bool>());
    let few = |case: &Case| case.counts.iter().product::<usize>() < 600_000;
    (others, cut, 0..LOOPS, rest)
        .prop_map(|(mut loops, cut, place, (by, coming, is_negative))| {
            let along = place.min(loops.len());
            loops.insert(along, cut);
            let (counts, roles) = loops.into_iter().unzip();
            Case { counts, roles, along, by, coming, is_negative }
        })
        .prop_filter("too many points", few)
}

/// Thirds, so that each order of summation is rounded differently, and zeros of both signs.
fn filled<T: Element>(len: usize, seed: usize) -> Vec<T> {
    let value = |i: usize| match (i * 7919 + seed) as i64 % 1009 - 400 {
        value @ ..0 if value % 5 == 0 => T::ZERO.negate(),
        value => T::from(value).expect("a number").divide(T::from(3).expect("3")),
    };
    (0..len).map(value).collect()
}

impl Case {
    /// The elements of the output after `run`, which gets the counts, the offset of each operand, and the target.
    fn bits<T: Element>(
        &self,
        of: Option<SlicesOf>,
        run: impl Fn(&[usize], [Strided<'_, T>; 2], StridedMut<'_, T>),
    ) -> Vec<u8> {
        let moves = |without: Role| move |l: usize| self.roles[l] != without;
        let operands = [Role::N, Role::M, Role::K].into_iter().zip(&self.by);
        let operands: Vec<_> = operands.map(|(without, by)| place(by, &self.counts, moves(without))).collect();
        let [a, b, c] = &operands[..] else { unreachable!("there are three") };
        let (a_data, b_data) = (filled::<T>(a.0, 0), filled::<T>(b.0, 5));
        let mut sums = vec![T::LEAST; c.0];
        let whole = LeafBox::slice(&self.counts, self.along, 0..self.counts[self.along]);
        let mut slices = of.map(|of| Slices::new(&self.counts, self.along, of));
        let mut coming = self.coming.iter().cycle();
        let mut is_unset = true;
        let mut first = Some(whole);
        loop {
            let part = match &mut slices {
                None => first.take(),
                Some(slices) => slices
                    .next(*coming.next().expect("it goes round"))
                    .map(|slice| LeafBox::slice(&self.counts, self.along, slice)),
            };
            let Some(part) = part else { break };
            let counts = part.counts();
            let [a, b] = [(a, &a_data), (b, &b_data)]
                .map(|((_, offset, strides), data)| Strided::new(data, offset + part.moved(strides), strides.clone()));
            let target = ViewMut::new(&mut sums, vec![0], vec![1]);
            let target = if std::mem::take(&mut is_unset) { target.unset(T::ZERO) } else { target };
            let steps: Vec<i64> = c.2.clone();
            run(&counts, [a, b], target.strided(&[c.1 + part.moved(&steps)], &[&steps]));
        }
        bytemuck::cast_slice(&sums).to_vec()
    }

    fn contraction<T: Element>(&self) -> Result<(), TestCaseError> {
        let alpha = if self.is_negative { T::ONE.negate() } else { T::ONE };
        let run = |counts: &[usize], [a, b]: [Strided<'_, T>; 2], c: StridedMut<'_, T>| {
            contract(counts, &self.roles, alpha, a, b, c);
        };
        let of = if self.roles[self.along] == Role::Batch { SlicesOf::Batch } else { SlicesOf::Panels };
        prop_assert_eq!(self.bits(None, run), self.bits(Some(of), run), "of {:?}", T::DTYPE);
        Ok(())
    }

    fn nest<T: Element>(&self, op: ReduceOp) -> Result<(), TestCaseError> {
        let kernel = pointwise(|[a, b]: [T; 2]| a.multiply(b));
        let run = |counts: &[usize], operands: [Strided<'_, T>; 2], c: StridedMut<'_, T>| {
            nest(counts, c, op, &operands, &kernel);
        };
        let of = if self.roles.contains(&Role::K) { SlicesOf::Sums } else { SlicesOf::Values };
        prop_assert_eq!(self.bits(None, run), self.bits(Some(of), run), "of {:?}", T::DTYPE);
        Ok(())
    }
}

proptest! {
    #[test]
    fn slices_of_contractions_have_the_bits_of_the_whole(case in cases()) {
        case.contraction::<f32>()?;
        case.contraction::<f64>()?;
    }

    #[test]
    fn slices_of_nests_have_the_bits_of_the_whole(case in cases()) {
        case.nest::<f32>(ReduceOp::Sum)?;
        case.nest::<f64>(ReduceOp::Product)?;
    }
}

/// Sums of -0 alone are 0 or -0, and the same in slices as in the whole.
#[test]
fn slices_of_products_with_a_vector_have_the_zeros_of_the_whole() -> Result<(), TestCaseError> {
    let by = || Layout { order: (0..LOOPS).collect(), gaps: vec![0; LOOPS], backwards: vec![false; LOOPS] };
    let of = |counts, roles, along| Case {
        counts,
        roles,
        along,
        by: [by(), by(), by()],
        coming: vec![true],
        is_negative: false,
    };
    for count in [833, 1500] {
        for cut in [Role::M, Role::N] {
            let [first, last] = [of(vec![count, 3], vec![cut, Role::K], 0), of(vec![3, count], vec![Role::K, cut], 1)];
            for case in [first, last] {
                case.contraction::<f32>()?;
                case.contraction::<f64>()?;
            }
        }
    }
    Ok(())
}

/// The last slice is never thinner than a slice may be.
#[test]
fn no_slice_is_thinner_than_the_least() {
    for of in [SlicesOf::Panels, SlicesOf::Sums, SlicesOf::Values, SlicesOf::Batch] {
        for count in [0, 1, 300, 1025, 1026, 2000, 5000] {
            let mut slices = Slices::new(&[count, 3], 0, of);
            let all: Vec<_> = std::iter::from_fn(|| slices.next(true)).collect();
            assert_eq!(all.iter().map(ExactSizeIterator::len).sum::<usize>(), count);
            let least = all.iter().map(ExactSizeIterator::len).min().unwrap_or(0);
            let expected = match of {
                SlicesOf::Panels => crate::gemm::least_rows().next_multiple_of(64),
                SlicesOf::Sums => 513,
                SlicesOf::Values | SlicesOf::Batch => 1,
            };
            assert!(least >= expected.min(count), "{of:?} of {count}: {all:?}");
        }
    }
}
