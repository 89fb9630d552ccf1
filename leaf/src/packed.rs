//! Copies of operands in the layout of tiles, for sums that would take their terms in another order in place.

use super::scratch::Scratch;
use super::walk::{self, walk};
use crate::view::{Index, ends};
use crate::{Element, Strided};
use smallvec::{SmallVec, smallvec};

/// The copy of one operand: the number of its elements, and the offset that its first iteration reads.
struct Copy {
    len: usize,
    offset: i64,
}

/// Calls `run` with the operands of loops with these counts; those that do not have the layout of tiles are copied.
pub(super) fn packed<T: Element>(operands: &[Strided<'_, T>], counts: &[usize], run: impl FnOnce(&[Strided<'_, T>])) {
    let copies: SmallVec<[Option<Copy>; 10]> =
        operands.iter().map(|operand| Some(Copy::of(operand.tile.as_ref()?, counts))).collect();
    let len = copies.iter().flatten().map(|copy| copy.len).sum();
    let mut room = Scratch::of::<T>(len);
    let mut rest = room.split(len).0;
    let mut all: SmallVec<[Strided<'_, T>; 10]> = SmallVec::new();
    for (operand, copy) in operands.iter().zip(&copies) {
        all.push(match (copy, &operand.tile) {
            (Some(copy), Some(strides)) => {
                let (into, others) = rest.split_at_mut(copy.len);
                rest = others;
                copy.fill(operand, strides, counts, into);
                let copied = Strided::new(&*into, copy.offset, strides.clone());
                Strided { outside: operand.outside.clone(), ..copied }
            }
            _ => operand.clone(),
        });
    }
    run(&all);
}

impl Copy {
    /// The copy of an operand with these strides.
    fn of(strides: &[i64], counts: &[usize]) -> Self {
        let (least, greatest) = ends(0, strides, counts);
        Self { len: (greatest - least) as usize + 1, offset: -least as i64 }
    }

    /// Copies the elements that the loops read of the operand to their positions by `strides`.
    fn fill<T: Element>(&self, operand: &Strided<'_, T>, strides: &[i64], counts: &[usize], into: &mut [T]) {
        let outside: SmallVec<[&Index; 4]> = operand.outside.iter().flat_map(|outside| &outside.indices).collect();
        let loops = counts.iter().enumerate().filter(|one| *one.1 > 1).map(|(l, &count)| {
            let mut moved: walk::PerOperand = smallvec![operand.strides[l], strides[l]];
            moved.extend(outside.iter().map(|index| index.steps[l]));
            walk::Loop { count, strides: moved }
        });
        // Loops without strides would copy the same elements again.
        let mut loops: walk::Loops = loops.filter(|one| one.strides.iter().any(|&stride| stride != 0)).collect();
        loops.sort_by_key(|one| std::cmp::Reverse(one.strides[1].abs()));
        let inner = loops.pop().unwrap_or_else(|| walk::Loop::once(2 + outside.len()));
        let mut first: walk::PerOperand = smallvec![operand.offset, self.offset];
        first.extend(outside.iter().map(|index| index.base));
        walk(&loops, &mut first, &mut |at| {
            if outside.is_empty() && inner.strides[..2] == [1, 1] {
                let from = &operand.data[at[0] as usize..][..inner.count];
                return into[at[1] as usize..][..inner.count].copy_from_slice(from);
            }
            for nth in 0..inner.count as i64 {
                let at = |of: usize| at[of] + nth * inner.strides[of];
                if outside.iter().enumerate().all(|(i, index)| index.range.contains(&at(2 + i))) {
                    into[at(1) as usize] = operand.data[at(0) as usize];
                }
            }
        });
    }
}
