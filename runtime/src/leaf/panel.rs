//! The strided matrices that products take and give.

use bytemuck::Pod;

/// A strided matrix: the stride of its rows' number, then of its columns' number.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a, T> {
    pub(super) data: &'a [T],
    pub(super) offset: i64,
    pub(super) strides: [i64; 2],
}

impl<'a, T: Pod> Panel<'a, T> {
    /// The part from this row and this column on.
    #[inline(always)]
    pub(super) fn from(self, row: usize, column: usize) -> Self {
        let [down, right] = self.strides;
        Self { offset: self.offset + row as i64 * down + column as i64 * right, ..self }
    }

    /// The transposed matrix.
    #[inline(always)]
    pub(super) fn turned(self) -> Self {
        Self { strides: [self.strides[1], self.strides[0]], ..self }
    }

    /// The same elements by the name of their type.
    pub(super) fn cast<U: Pod>(self) -> Panel<'a, U> {
        Panel { data: bytemuck::cast_slice(self.data), offset: self.offset, strides: self.strides }
    }
}

/// A [`Panel`] that is written.
pub(super) struct PanelMut<'a, T> {
    pub(super) data: &'a mut [T],
    pub(super) offset: i64,
    pub(super) strides: [i64; 2],
}

impl<'a, T: Pod> PanelMut<'a, T> {
    /// The part from this row and this column on.
    #[inline(always)]
    pub(super) fn from(&mut self, row: usize, column: usize) -> PanelMut<'_, T> {
        let [down, right] = self.strides;
        let offset = self.offset + row as i64 * down + column as i64 * right;
        PanelMut { data: &mut *self.data, offset, strides: self.strides }
    }

    /// The transposed matrix.
    pub(super) fn turned(self) -> Self {
        Self { strides: [self.strides[1], self.strides[0]], ..self }
    }

    /// The same elements by the name of their type.
    pub(super) fn cast<U: Pod>(self) -> PanelMut<'a, U> {
        PanelMut { data: bytemuck::cast_slice_mut(self.data), offset: self.offset, strides: self.strides }
    }
}
