//! A lower bound for any schedule: the elements that the busiest rank must receive.

mod classes;
mod holder;
mod homes;
mod least;

use crate::kernel::Kernel;
use crate::nest::NestView;
use classes::Classes;
use holder::Touches;
use homes::Held;
use least::Least;
use polyshard_layout::{Name, Sharding};

/// Lower bound on the elements that the busiest rank receives, and the numbers behind it.
///
/// Let a kernel's `V` instances be distributed over `P` ranks in any way, `V/P` on each. The number of instances that a rank can
/// compute from `x` elements of each tensor is at most a product of powers of these (Hölder, Brascamp and Lieb; for a matrix product
/// Loomis and Whitney), so a rank touches at least a certain number of elements, some of which it holds from the start. See M. Christ,
/// J. Demmel, N. Knight, T. Scanlon and K. Yelick, "Communication lower bounds and optimal algorithms for programs that reference
/// arrays", 2013, and for products with all ranks and shapes H. Al Daas, G. Ballard, L. Grigori, S. Kumar and K. Rouse, "Tight
/// memory-independent parallel matrix multiplication communication lower bounds", SPAA 2022.
///
/// The bound holds for the mean of all ranks, and so for the busiest: the sets of element counts that allow enough instances are convex
/// in their logarithms. It therefore depends on how many elements of each tensor a rank has, not on which. If ranks have different
/// amounts, each class of ranks with equal amounts is also bounded on its own: the mean of all ranks does not help those that have
/// nothing.
///
/// Every instance is assumed to be computed once, as the kernel states it, and each rank to compute an equal share. The bound does not
/// apply to Strassen's algorithm, say, nor to algorithms that compute the same instance on several ranks.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let bound = rows.kernel()?.lower_bound(2, None);
/// let received = rows.lower()?.report().traffic_bytes / 8;
/// assert!(bound.elements() <= received);
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LowerBound {
    /// Elements, at least 0: the larger of the two below.
    pub words: f64,
    /// The bound that holds with any memory.
    pub unlimited: f64,
    /// The leading term of the bound that holds with the memory that was given.
    pub limited: Option<f64>,
    /// How many elements of each tensor the busiest rank touches where the bound for any memory is attained, in the order of
    /// [`Kernel::tensors`]: the sizes of the best tiles.
    pub touched: Vec<(Name, f64)>,
}

impl LowerBound {
    /// Returns the bound in whole elements, rounded up, without elements that stem from rounding errors.
    #[must_use]
    pub fn elements(&self) -> u64 {
        // The bound is a difference of two sums, whose rounding errors grow with the elements touched.
        let touched: f64 = self.touched.iter().map(|(_, elements)| elements).sum();
        (self.words - 1e-9 * self.words.max(touched)).ceil() as u64
    }
}

impl Kernel {
    /// Returns how many elements the busiest of `ranks` ranks must receive if they begin with one copy of each input, and a copy of each
    /// scalar on every rank, end with one copy of the output, and compute even shares of the instances. With `memory`, the number of
    /// elements that a rank can hold, the bound for that memory counts too; the result is the larger bound, up to terms of lower order.
    ///
    /// Elements that the kernel may leave unread, in one branch of a choice or outside of a tensor, and indices of several variables such
    /// as `A[i + r]` are left out, so the bound is valid but may be low: for stencils it is 0.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let matmul = matmul.kernel()?;
    /// // On 4 x 4 x 4 ranks: 3 (mnk/P)^(2/3) - (mn + mk + nk)/P
    /// let bound = matmul.lower_bound(64, None);
    /// assert_eq!(bound.elements(), 2_359_296);
    /// assert_eq!(bound.touched[0].1.round(), 1024.0 * 1024.0);
    /// // With room for little more than their shares, ranks receive some elements more than once: 2 mnk / (P sqrt(M)).
    /// assert_eq!(matmul.lower_bound(64, Some(800_000)).elements(), 2_400_960);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `ranks` is 0.
    #[must_use]
    pub fn lower_bound(&self, ranks: usize, memory: Option<u64>) -> LowerBound {
        self.lower_bound_in(ranks, memory, &[])
    }

    /// As [`lower_bound`](Self::lower_bound), with arrays in these shardings, by name. Other arrays have one copy, but scalars that are
    /// read have one on each rank.
    ///
    /// Elements that several ranks have at the start need not be fetched by these ranks, and are not counted; elements that several ranks
    /// must have in the end are received more often; terms of a sum that stays open need not meet. If shares differ by more than
    /// rounding, ranks that have less at the start receive more, and so do ranks that must have more in the end; on more than 4,096
    /// ranks, the bound is that for even shares.
    ///
    /// ```
    /// use polyshard::prelude::*;
    /// let matmul = kernel! {
    ///     fn matmul(A: [f32; 4096, 4096], B: [f32; 4096, 4096]) -> C: [f32; 4096, 4096] { C[m, n] += A[m, k] * B[k, n] }
    /// };
    /// let matmul = matmul.kernel()?;
    /// let all = Sharding::replicated(&Mesh::new([("x", 8)]), &[4096, 4096]);
    /// let bound = |homes: &[_]| matmul.lower_bound_in(8, None, homes).elements();
    /// let one = bound(&[]);
    /// // Rows of A times all of B are rows of C.
    /// assert_eq!(bound(&[("B".into(), &all)]), 0);
    /// // If all ranks are to have all of C, each receives 7/8 of it besides.
    /// assert_eq!(bound(&[("C".into(), &all)]), one + 4096 * 4096 * 7 / 8);
    /// // What is to be on one rank has to come to it, but for what it computes.
    /// let pinned = Sharding::new(all.mesh(), &[4096, 4096], &[Placement::pin("x", 0)]).expect("a sharding");
    /// assert_eq!(bound(&[("C".into(), &pinned)]), 4096 * 4096 * 7 / 8);
    /// # Ok::<(), polyshard::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `ranks` is 0.
    #[must_use]
    pub fn lower_bound_in(&self, ranks: usize, memory: Option<u64>, homes: &[(Name, &Sharding)]) -> LowerBound {
        assert!(ranks > 0, "a lower bound needs at least 1 rank");
        let touches = Touches::of(self);
        let names = self.tensors().map(|tensor| tensor.name);
        if self.is_empty() {
            let touched = names.map(|name| (name, 0.0)).collect();
            return LowerBound { words: 0.0, unlimited: 0.0, limited: memory.map(|_| 0.0), touched };
        }
        let share = (touches.instances - (ranks as f64).ln()).max(0.0);
        let held = Held::new(self, &touches, ranks, homes);
        let of_classes = Classes::new(self, &touches, ranks, homes).map_or(0.0, |classes| classes.least(&held, share));
        let Held { own, touched, copies } = held;
        let to: Vec<f64> = touched.iter().zip(&touches.elements).map(|(from, size)| size.max(*from)).collect();
        // With fewer instances than ranks, some ranks compute nothing, and the inequality does not bound their mean.
        let all: f64 = self.vars().iter().map(|var| var.extent as f64).product();
        let of_mean = if all < ranks as f64 { f64::MIN } else { share };
        let found = Least { exponents: &touches.exponents, from: &touched, to: &to }.of(of_mean);
        let own: f64 = own.iter().sum();
        // A difference within rounding errors counts as 0.
        let least = f64::max(found.least - own + copies, of_classes);
        let unlimited = Some(least).filter(|words| *words > 1e-9 * own).unwrap_or(0.0);
        let limited = memory.map(|memory| in_memory(&touches, share, memory as f64));
        let touched = names.zip(found.at).collect();
        LowerBound { words: unlimited.max(limited.unwrap_or(0.0)), unlimited, limited, touched }
    }
}

/// The leading term of the elements received by a rank with room for `memory` elements, where `share` is the logarithm of its number of
/// instances: while it computes `v` of them it touches `G(v)` elements, of which it held at most `memory` before, whatever `v` is (J.
/// Hong and H. Kung, "I/O complexity: the red-blue pebble game", 1981; for products T. Smith, B. Lowery, J. Langou and R. van de Geijn,
/// "A tight I/O lower bound for matrix multiplication", arXiv 1702.02017, which this gives).
fn in_memory(touches: &Touches, share: f64, memory: f64) -> f64 {
    let nothing: Vec<f64> = touches.elements.iter().map(|size| size.min(f64::MIN_POSITIVE)).collect();
    let least = Least { exponents: &touches.exponents, from: &nothing, to: &touches.elements };
    let received = |instances: f64| (least.of(instances).least - memory) * (share - instances).exp();
    // A rank's share is one part, or is cut into parts; the best size is near one of these, and found by ternary search.
    const PARTS: u32 = 64;
    let at = |part: u32| share * f64::from(part) / f64::from(PARTS);
    let best = (0..=PARTS).max_by(|&a, &b| received(at(a)).total_cmp(&received(at(b)))).unwrap_or(0);
    let (mut low, mut high) = (at(best.saturating_sub(1)), at((best + 1).min(PARTS)));
    for _ in 0..60 {
        let third = (high - low) / 3.0;
        match received(low + third) < received(high - third) {
            true => low += third,
            false => high -= third,
        }
    }
    received(high).max(0.0)
}

impl NestView<'_> {
    /// Returns two bounds on the elements that the busiest rank receives: with arrays sharded as here, and with one copy of each.
    #[must_use]
    pub fn lower_bounds(&self) -> [LowerBound; 2] {
        let homes: Vec<_> =
            self.kernel.tensors().map(|tensor| tensor.name).zip(self.shardings.iter().copied()).collect();
        let ranks = self.mesh.size();
        [self.kernel.lower_bound_in(ranks, None, &homes), self.kernel.lower_bound(ranks, None)]
    }
}
