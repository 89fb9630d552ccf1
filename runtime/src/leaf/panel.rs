//! The strided matrices that products take and give.

/// A strided matrix: the stride of its rows' number, then of its columns' number.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a, T> {
    pub(super) data: &'a [T],
    pub(super) offset: i64,
    pub(super) strides: [i64; 2],
}

/// A [`Panel`] that is written.
pub(super) struct PanelMut<'a, T> {
    pub(super) data: &'a mut [T],
    pub(super) offset: i64,
    pub(super) strides: [i64; 2],
}
