//! Buffers that carry data from one time step to the next.

use super::dense;
use crate::memory::Buffer;
use crate::{Element, Region, Result, View, ViewMut};

/// Two alternating buffers: a time step reads the data that the previous one wrote, and writes the data that the next
/// one reads.
#[derive(Debug)]
pub(crate) struct StepBuffers<T> {
    /// The data that the previous step wrote, and the data that this one writes.
    before: (Region, Buffer<T>),
    into: (Region, Buffer<T>),
}

impl<T: Element> StepBuffers<T> {
    /// Returns empty buffers with room for regions of `elements` elements of the tensor `name`.
    ///
    /// # Errors
    /// If they do not fit in free memory.
    pub(crate) fn new(name: &str, elements: usize) -> Result<Self> {
        let buffer = || Ok::<_, crate::Error>((Region::empty(0), super::buffer(name, elements)?));
        Ok(Self { before: buffer()?, into: buffer()? })
    }

    /// Begins a step that writes this region; the data that the previous step wrote can be read now.
    ///
    /// # Panics
    /// If the region does not fit a buffer: a bug in polyshard.
    pub(crate) fn begin(&mut self, region: &Region) {
        std::mem::swap(&mut self.before, &mut self.into);
        let _ = super::room(&mut self.into.1, region);
        self.into.0 = region.clone();
    }

    /// Returns the data that the previous step wrote, and the target of this one, which must write each element of the
    /// region.
    #[must_use]
    pub(crate) fn turn(&mut self) -> (View<'_, T>, ViewMut<'_, T>) {
        let (region, buffer) = &self.before;
        let before = dense(&buffer[..region.len()], region);
        let (region, buffer) = &mut self.into;
        let data = &mut buffer[..region.len()];
        (before, ViewMut::at(data, region.origin(), region.strides()).overwritten())
    }
}
