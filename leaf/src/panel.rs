//! Matrix products, and the strided matrices that they read and write.

use bytemuck::Pod;

/// A strided matrix in some data: the offset of its first element, and the strides between rows and between columns.
#[derive(Clone, Copy)]
pub(super) struct PanelOf<D> {
    pub(super) data: D,
    pub(super) offset: i64,
    pub(super) strides: [i64; 2],
}

/// A matrix to read.
pub(super) type Panel<'a, T> = PanelOf<&'a [T]>;

/// A matrix to write.
pub(super) type PanelMut<'a, T> = PanelOf<&'a mut [T]>;

impl<D> PanelOf<D> {
    /// The position of an element in the data.
    #[inline(always)]
    pub(super) fn at(&self, row: usize, column: usize) -> usize {
        let [down, right] = self.strides;
        (self.offset + row as i64 * down + column as i64 * right) as usize
    }

    /// The part that starts at this row and this column.
    #[inline(always)]
    pub(super) fn from(self, row: usize, column: usize) -> Self {
        Self { offset: self.at(row, column) as i64, ..self }
    }

    /// The same elements, in reverse order along this dimension, which has `count` of them.
    pub(super) fn reversed(mut self, dim: usize, count: usize) -> Self {
        self.offset += (count as i64 - 1) * self.strides[dim];
        self.strides[dim] = -self.strides[dim];
        self
    }

    /// The transposed matrix.
    #[inline(always)]
    pub(super) fn turned(self) -> Self {
        Self { strides: [self.strides[1], self.strides[0]], ..self }
    }
}

impl<'a, T: Pod> Panel<'a, T> {
    /// The same elements, with their type under another name.
    pub(super) fn cast<U: Pod>(self) -> Panel<'a, U> {
        PanelOf { data: bytemuck::cast_slice(self.data), offset: self.offset, strides: self.strides }
    }
}

impl<'a, T: Pod> PanelMut<'a, T> {
    /// The same matrix, reborrowed.
    #[inline(always)]
    pub(super) fn borrowed(&mut self) -> PanelMut<'_, T> {
        PanelOf { data: self.data, offset: self.offset, strides: self.strides }
    }

    /// The same elements, with their type under another name.
    pub(super) fn cast<U: Pod>(self) -> PanelMut<'a, U> {
        PanelOf { data: bytemuck::cast_slice_mut(self.data), offset: self.offset, strides: self.strides }
    }
}

/// A product that is added to `c`, or overwrites it unless it `adds`: `alpha * a * b`, of shapes `[m, k]`, `[k, n]` and `[m, n]`, where
/// `sizes` is `[m, n, k]`.
pub(super) struct MatrixProduct<'a, T> {
    pub(super) sizes: [usize; 3],
    pub(super) alpha: T,
    pub(super) a: Panel<'a, T>,
    pub(super) b: Panel<'a, T>,
    pub(super) c: PanelMut<'a, T>,
    pub(super) adds: bool,
}

impl<'a, T: Pod> MatrixProduct<'a, T> {
    /// The same product with all matrices transposed.
    pub(super) fn turned(self) -> Self {
        let Self { sizes: [m, n, k], a, b, c, .. } = self;
        Self { sizes: [n, m, k], a: b.turned(), b: a.turned(), c: c.turned(), ..self }
    }

    /// The same product, with its type under another name.
    pub(super) fn cast<U: Pod>(self) -> MatrixProduct<'a, U> {
        let Self { sizes, alpha, a, b, c, adds } = self;
        MatrixProduct { sizes, alpha: bytemuck::cast(alpha), a: a.cast(), b: b.cast(), c: c.cast(), adds }
    }
}
