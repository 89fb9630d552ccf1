//! Random kernels, meshes, sizes and schedules, drawn from a list of choices that proptest shrinks.

pub mod algorithms;
pub mod blocks;
pub mod by_procedures;
pub mod cyclic;
pub mod kernels;
pub mod pipelined;
pub mod schedules;
pub mod staged;
pub mod stencils;
pub mod sums;

/// A list of choices, used up in order; when it is empty, every choice is the first.
pub struct Choices<'a> {
    left: std::slice::Iter<'a, u32>,
}

impl<'a> Choices<'a> {
    /// Takes the choices in this order.
    pub fn new(choices: &'a [u32]) -> Self {
        Self { left: choices.iter() }
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let choice = self.left.next().copied().unwrap_or(0) as usize;
        if end == 0 { 0 } else { choice % end }
    }

    /// True once in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    /// One of the items.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A permutation of the items.
    pub fn shuffled<T: Copy>(&mut self, items: &[T]) -> Vec<T> {
        let mut rest = items.to_vec();
        let mut order = Vec::new();
        while !rest.is_empty() {
            order.push(rest.remove(self.below(rest.len())));
        }
        order
    }
}
