//! Extents of any integer type, kept exact until they are checked.

/// An integer that can be a tensor's extent.
pub trait Extent {
    /// Returns the value; a `u128` beyond `i128` becomes `i128::MAX`, which no tensor can have either.
    fn extent(self) -> i128;
}

macro_rules! extents {
    ($($type:ty),*) => {$(
        impl Extent for $type {
            fn extent(self) -> i128 {
                i128::try_from(self).unwrap_or(i128::MAX)
            }
        }
    )*};
}
extents!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl<E: Extent + Copy> Extent for &E {
    fn extent(self) -> i128 {
        (*self).extent()
    }
}

/// Returns an extent as [`KernelSpec`](crate::KernelSpec) takes it; negative extents are refused there.
pub fn extent<E: Extent>(extent: E) -> i128 {
    extent.extent()
}
