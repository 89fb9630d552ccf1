//! What a world keeps for calls that come again: things of any type, found by what they are.

use std::any::Any;
use std::rc::Rc;

/// How many things a world keeps. A training step needs a few; a program whose lengths never come again should not
/// fill the memory with them.
const KEPT: usize = 32;

/// The things that a world keeps, those used last at the end.
#[derive(Default)]
pub(crate) struct Cache {
    kept: Vec<Rc<dyn Any>>,
}

impl Cache {
    /// Returns the thing of this type that `is` wanted, if it is kept.
    pub(crate) fn find<T: 'static>(&mut self, is: impl Fn(&T) -> bool) -> Option<Rc<T>> {
        let at = self.kept.iter().position(|thing| thing.downcast_ref().is_some_and(&is))?;
        let thing = self.kept.remove(at);
        self.kept.push(Rc::clone(&thing));
        thing.downcast().ok()
    }

    /// Keeps a thing, and forgets the one that was not used for longest if there are too many.
    pub(crate) fn keep<T: 'static>(&mut self, thing: Rc<T>) {
        // Ranks that make the same calls forget the same ones.
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(thing);
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
            // Whoever is used stays.
            assert_eq!(cache.find(|kept: &u8| *kept == 0).as_deref(), Some(&0));
        }
        assert_eq!(cache.len(), KEPT);
        assert_eq!(cache.find(|kept: &i32| *kept == 0), None);
        assert_eq!(cache.find(|kept: &i32| *kept == 1).as_deref(), Some(&1));
        assert_eq!(cache.find(|_: &i64| true), None);
    }
}
