//! A cache of values per region: a program visits the same regions in the same order on each run.

use crate::Region;
use std::rc::Rc;

/// The maximum number of cached regions.
const KEPT: usize = 1024;

/// The values of regions, in the order in which they were first visited.
#[derive(Debug)]
pub(super) struct Sequence<V> {
    known: Vec<((Region, bool), Rc<V>)>,
    /// The position of the next region, if they are visited in the same order as last time.
    next: usize,
}

impl<V> Sequence<V> {
    /// Returns the cached value of the region, of one kind or the other, or makes it.
    pub(super) fn get(&mut self, region: &Region, kind: bool, make: impl FnOnce() -> V) -> Rc<V> {
        let is_known = |at: &usize| self.known.get(*at).is_some_and(|(known, _)| known.0 == *region && known.1 == kind);
        let at = match [self.next, 0].into_iter().find(is_known) {
            Some(at) => at,
            None => {
                let made = ((region.clone(), kind), Rc::new(make()));
                let at = if self.next < KEPT { self.next } else { 0 };
                match self.known.get_mut(at) {
                    Some(place) => *place = made,
                    None => self.known.push(made),
                }
                at
            }
        };
        self.next = at + 1;
        Rc::clone(&self.known[at].1)
    }
}

impl<V> Default for Sequence<V> {
    fn default() -> Self {
        Self { known: Vec::new(), next: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_the_same_order_is_worked_out_once() {
        let mut sequence = Sequence::default();
        let mut made = Vec::new();
        let mut turn = |regions: &[i64]| {
            made.clear();
            for &start in regions {
                let region = Region::new(std::iter::once(start..start + 1));
                let value = sequence.get(&region, false, || {
                    made.push(start);
                    start
                });
                assert_eq!(*value, start);
            }
            made.clone()
        };
        assert_eq!(turn(&[1, 2, 2, 3]), [1, 2, 2, 3]);
        assert!(turn(&[1, 2, 2, 3]).is_empty());
        // Regions are made anew where they differ.
        assert_eq!(turn(&[1, 2, 5]), [5]);
        assert!(turn(&[1, 2, 5, 3]).is_empty());
        let many: Vec<i64> = (10..10 + 2 * KEPT as i64).collect();
        assert_eq!(turn(&many).len(), many.len());
        assert_eq!(sequence.known.len(), KEPT);
    }
}
