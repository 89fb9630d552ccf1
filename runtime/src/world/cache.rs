//! The values that a world caches for repeated calls, of any type, found by a predicate.

use std::any::Any;
use std::rc::Rc;

/// The maximum number of cached values. A training step needs a few; a program whose lengths never recur should not fill the memory with
/// them.
const KEPT: usize = 32;

/// The cached values, the most recently used last.
#[derive(Default)]
pub(crate) struct Cache {
    kept: Vec<Rc<dyn Any>>,
}

impl Cache {
    /// Returns the cached value of this type for which `matches` holds.
    pub(crate) fn find<T: 'static>(&mut self, matches: impl Fn(&T) -> bool) -> Option<Rc<T>> {
        let at = self.kept.iter().position(|value| value.downcast_ref().is_some_and(&matches))?;
        let value = self.kept.remove(at);
        self.kept.push(Rc::clone(&value));
        value.downcast().ok()
    }

    /// Caches a value, and drops the least recently used one if there are too many.
    pub(crate) fn keep<T: 'static>(&mut self, value: Rc<T>) {
        // Ranks that make the same calls drop the same ones.
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(value);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_found_by_type_and_those_not_used_are_forgotten() {
        let mut cache = Cache::default();
        cache.keep(Rc::new(0_i32));
        cache.keep(Rc::new(0_u8));
        for thing in 1..KEPT as i32 {
            cache.keep(Rc::new(thing));
            // A value that is used stays.
            assert_eq!(cache.find(|kept: &u8| *kept == 0).as_deref(), Some(&0));
        }
        assert_eq!(cache.len(), KEPT);
        assert_eq!(cache.find(|kept: &i32| *kept == 0), None);
        assert_eq!(cache.find(|kept: &i32| *kept == 1).as_deref(), Some(&1));
        assert_eq!(cache.find(|_: &i64| true), None);
    }
}
