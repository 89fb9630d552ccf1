//! Elements that ranks have before they receive anything, and those that they must have in the end.

use super::holder::Touches;
use crate::kernel::{Kernel, Tensor};
use polyshard_layout::{Name, Sharding};

/// Elements of each tensor on a rank, as the mean of all ranks.
pub(super) struct Held {
    /// Elements that a rank has of those that the kernel touches: they need not move.
    pub own: Vec<f64>,
    /// Elements that it touches, at least.
    pub touched: Vec<f64>,
    /// Output elements that it receives beyond those touched, as several ranks must have them.
    pub copies: f64,
}

impl Held {
    /// Counts them for tensors in these shardings; a tensor without one has one copy, but a scalar input has one on each rank.
    ///
    /// Let `n` ranks compute parts of an element of the output, and `o` ranks have to own it. Before any rank knows its value,
    /// all but one of the `n` have sent a part of it, and after that all but one of the `o` must receive it: that makes
    /// `n + o - 2` elements. Terms of a sum that stays open need not move if one of them is owned.
    pub(super) fn new(kernel: &Kernel, touches: &Touches, ranks: usize, homes: &[(Name, &Sharding)]) -> Self {
        let instances: f64 = kernel.vars().iter().map(|var| var.extent as f64).product();
        let ranks = ranks as f64;
        let mut held = Self { own: Vec::new(), touched: Vec::new(), copies: 0.0 };
        let output = kernel.output().name;
        for (nth, tensor) in kernel.tensors().enumerate() {
            let home = homes.iter().find(|(name, _)| *name == tensor.name).map(|(_, home)| *home);
            let (size, by_all) = (touches.elements[nth], touches.by_all[nth]);
            let anywhere = if is_scalar_input(kernel, tensor) { [ranks; 2] } else { [1.0; 2] };
            let [least, most] = home.map_or(anywhere, |home| home.copies().map(|copies| copies as f64));
            let terms = home.map_or(1.0, |home| {
                let extents = home.partial().iter().map(|&axis| home.mesh().as_slice()[axis].extent as f64);
                extents.product()
            });
            let own = if tensor.name == output && terms == 1.0 {
                held.copies += (least - 1.0) * size / ranks;
                size / ranks
            } else {
                (terms * most * by_all / ranks).min(size)
            };
            // Each instance touches an element; with fewer instances than ranks, some of these compute nothing.
            let of_one = size.min(1.0) * (instances / ranks).min(1.0);
            held.touched.push(own.max(size / ranks).max(of_one));
            held.own.push(own);
        }
        held
    }
}

/// Whether a tensor is a scalar input: all ranks have those, as they have the numbers in a kernel.
pub(super) fn is_scalar_input(kernel: &Kernel, tensor: &Tensor) -> bool {
    tensor.ndim() == 0 && tensor.name != kernel.output().name
}
