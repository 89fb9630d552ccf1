//! Contractions: sums of products of two strided operands, mapped onto one GEMM per outer iteration.
//!
//! The loops of a leaf have roles. Of the loops of each of the roles M, N and K, one becomes part of the GEMM; loops that continue each
//! other are merged first, so that a tile of several contracted dimensions is still one call. The others are walked outside, in the order
//! given.

use super::packed::packed;
use super::panel::{MatrixProduct, Panel, PanelMut};
use super::walk::{self, walk};
use super::{gemm, integer};
use crate::view::Strides;
use crate::{Element, Strided, StridedMut};
use polyshard_program::Role;
use smallvec::SmallVec;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

/// A loop with the strides of both operands and of the sums.
type Loop = walk::Loop<[i64; 3]>;
/// Loops with their roles, each with the number of the innermost one of those that were merged.
type Loops = SmallVec<[(Loop, Role, usize); 6]>;

const ONCE: Loop = Loop { count: 1, strides: [0; 3] };

/// Adds `alpha * a * b` to `c` at every point of the loops, which have `counts` iterations and these `roles`.
///
/// A tile of sums that has just been reset and that the loops fill is written without being read.
///
/// `f32` and `f64` use a GEMM with fused multiply-add if the processor has it, in an order of summation that depends only on the counts and
/// strides (for operands inside shards, on the strides of their tiles); integers wrap. `2 * product of counts` flops.
/// # Panics
/// If an operand would be accessed outside its data, if a loop moves an operand that its role excludes, or if a loop of another role than K
/// does not move `c`: a bug in polyshard.
#[track_caller]
pub fn contract<T: Element>(
    counts: &[usize],
    roles: &[Role],
    alpha: T,
    a: Strided<'_, T>,
    b: Strided<'_, T>,
    c: StridedMut<'_, T>,
) {
    T::contract(counts, roles, alpha, a, b, c);
}

#[track_caller]
pub(crate) fn contract_strided<T: Element>(
    counts: &[usize],
    roles: &[Role],
    alpha: T,
    a: Strided<'_, T>,
    b: Strided<'_, T>,
    mut c: StridedMut<'_, T>,
) {
    assert_eq!(counts.len(), roles.len(), "a contraction has one role per loop; this is a bug in polyshard");
    a.one_place("a");
    b.one_place("b");
    let strides = [a.checked_strides("a", counts), b.checked_strides("b", counts), c.checked_strides("c", counts)];
    if counts.contains(&0) {
        return c.set();
    }
    // Overwriting may keep a -0, which becomes 0 if it is added to 0, as in slices, which do not fill the output. Both give the same bits
    // if a kernel begins its sums with 0, as those of two matrices do.
    let terms = counts.iter().zip(roles).filter(|(_, role)| **role == Role::K);
    let begins_with_0 = alpha > T::ZERO && terms.map(|(&count, _)| count).product::<usize>() > gemm::VECTORS;
    let may_overwrite = c.is_unset()
        && T::DTYPE.is_float()
        && begins_with_0
        && fills(c.data.len(), c.offset, counts, roles, &strides[C]);
    let loops = |[a, b, c]: [&Strides; 3]| -> Loops {
        let all = counts.iter().zip(roles).enumerate().filter(|(_, (count, _))| **count > 1);
        all.map(|(l, (&count, &role))| (Loop { count, strides: [a[l], b[l], c[l]] }, role, l)).collect()
    };
    let here = loops([&strides[A], &strides[B], &strides[C]]);
    here.iter().for_each(|(one, role, _)| check(one, *role));
    let plan = Plan::new(here);
    let mut in_blocks = T::DTYPE.is_float() && plan.prefers_blocks();
    if T::DTYPE.is_float() && (a.tile.is_some() || b.tile.is_some()) {
        let [in_a, in_b] = [(&a.tile, A), (&b.tile, B)].map(|(tile, of)| tile.as_ref().unwrap_or(&strides[of]));
        let in_tiles = Plan::new(loops([in_a, in_b, &strides[C]]));
        if !plan.sums_as(&in_tiles) {
            return packed(&[a, b], counts, |operands| {
                contract_strided(counts, roles, alpha, operands[0].clone(), operands[1].clone(), c);
            });
        }
        in_blocks = in_tiles.prefers_blocks();
    }
    let Plan { m, n, k, outer, .. } = plan;
    // Sums that are taken in several steps begin with the value that an unset element stands for.
    let adds = !may_overwrite || m.count.min(n.count) == 1 || outer.iter().any(|(_, role, _)| *role == Role::K);
    if adds {
        c.set();
    }
    let outer: SmallVec<[_; 6]> = outer.into_iter().map(|(one, ..)| one).collect();
    let sizes = [m.count, n.count, k.count];
    walk(&outer, &mut [a.offset, b.offset, c.offset], &mut |at| {
        let a = Panel { data: a.data, offset: at[A], strides: [m.strides[A], k.strides[A]] };
        let b = Panel { data: b.data, offset: at[B], strides: [k.strides[B], n.strides[B]] };
        let c = PanelMut { data: &mut *c.data, offset: at[C], strides: [m.strides[C], n.strides[C]] };
        let product = MatrixProduct { sizes, alpha, a, b, c, adds };
        if T::DTYPE.is_float() { gemm::multiply(product, in_blocks) } else { integer::multiply(product) }
    });
}

/// The loops of a contraction that are one GEMM, and those around it.
struct Plan {
    m: Loop,
    n: Loop,
    k: Loop,
    /// The number of the loop that `k` is.
    summed: Option<usize>,
    outer: Loops,
}

impl Plan {
    fn new(loops: Loops) -> Self {
        let mut outer = merged(loops);
        let mut take = |role: Role, operands: [usize; 2]| best(&outer, role, operands).map(|i| outer.remove(i));
        let k = take(Role::K, [A, B]);
        let n = take(Role::N, [B, C]).map_or(ONCE, |found| found.0);
        let m = match best(&outer, Role::M, [A, C]) {
            Some(i) if apart(&outer[i].0, &n) => outer.remove(i).0,
            _ => ONCE,
        };
        let summed = k.map(|found| found.2);
        Self { m, n, k: k.map_or(ONCE, |found| found.0), summed, outer }
    }

    /// Whether each element is the sum of the same terms in the same order as by another plan of the same loops.
    fn sums_as(&self, other: &Self) -> bool {
        let outer = |plan: &Self| -> SmallVec<[_; 6]> {
            let sums = plan.outer.iter().filter(|(_, role, _)| *role == Role::K);
            sums.map(|(one, _, number)| (one.count, *number)).collect()
        };
        let units = |plan: &Self| [plan.m, plan.n, plan.k].map(|one| one.strides.map(|stride| stride.abs() == 1));
        let sizes = |plan: &Self| [plan.m.count, plan.n.count];
        (self.summed, self.k.count, units(self)) == (other.summed, other.k.count, units(other))
            && gemm::sums_alike([sizes(self), sizes(other)], self.k.count)
            && outer(self) == outer(other)
    }

    fn prefers_blocks(&self) -> bool {
        let Self { m, n, k, .. } = self;
        gemm::prefers_blocks(
            [m.count, n.count, k.count],
            [m.strides[A], k.strides[A]],
            [k.strides[B], n.strides[B]],
            [m.strides[C], n.strides[C]],
        )
    }
}

/// Whether the loops touch each of the `len` elements of `c`, and each at one point of the loops that are not summed over.
fn fills(len: usize, offset: i64, counts: &[usize], roles: &[Role], strides: &[i64]) -> bool {
    let loops = counts.iter().zip(strides).zip(roles).filter(|((count, _), role)| **count > 1 && **role != Role::K);
    let mut loops: SmallVec<[_; 6]> = loops.map(|((&count, &stride), _)| (stride, count)).collect();
    loops.sort_unstable();
    let filled = loops.iter().try_fold(1, |len, &(stride, count)| (stride == len).then(|| len * count as i64));
    offset == 0 && filled == Some(len as i64)
}

/// Merges loops of the same role that continue each other.
fn merged(mut loops: Loops) -> Loops {
    let pair = |loops: &Loops| {
        let mut pairs = (0..loops.len()).flat_map(|outer| (0..loops.len()).map(move |inner| (outer, inner)));
        pairs.find(|&(outer, inner)| {
            outer != inner && loops[outer].1 == loops[inner].1 && loops[outer].0.continues(&loops[inner].0)
        })
    };
    while let Some((outer, inner)) = pair(&loops) {
        loops[inner].0.count *= loops[outer].0.count;
        loops.remove(outer);
    }
    loops
}

fn check(one: &Loop, role: Role) {
    let still = match role {
        Role::Batch => None,
        Role::M => Some(B),
        Role::N => Some(A),
        Role::K => Some(C),
    };
    assert!(
        still.is_none_or(|operand| one.strides[operand] == 0) && (role == Role::K || one.strides[C] != 0),
        "a loop of role {role:?} moves the operands of a contraction by {:?}; this is a bug in polyshard",
        one.strides
    );
}

/// Whether no two iterations of the pair of loops touch one element of `c`, as a GEMM requires.
///
/// Loops that interleave in `c` may still be disjoint; detecting that is not worth it, and they run as vectors.
fn apart(m: &Loop, n: &Loop) -> bool {
    let reach = |one: &Loop| one.strides[C].abs() * one.count as i64;
    n.count == 1 || m.strides[C].abs() >= reach(n) || n.strides[C].abs() >= reach(m)
}

/// The loop of `role` from which a GEMM gains most: long enough to fill its registers, then of unit stride in as many operands as possible,
/// then the longest; of loops that may be cut into slices, it is the same one in each slice.
fn best(loops: &Loops, role: Role, operands: [usize; 2]) -> Option<usize> {
    let longest = if role == Role::K { usize::MAX } else { gemm::least_rows() };
    let gain = |one: &Loop| {
        let unit = operands.iter().filter(|&&operand| one.strides[operand].abs() == 1).count();
        (one.count.min(64), unit, one.count.min(longest))
    };
    (0..loops.len()).filter(|&i| loops[i].1 == role).max_by_key(|&i| gain(&loops[i].0))
}
