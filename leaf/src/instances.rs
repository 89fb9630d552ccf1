//! The products, compiled once for each element type: here, not in each crate that calls them.

use crate::contract::contract_strided;
use crate::{Element, Products, Role, Strided, StridedMut};

/// The functions of one element type; called only by thin generic ones.
pub trait Instances: Sized {
    /// As [`contract`](crate::contract()).
    #[track_caller]
    fn contract(
        counts: &[usize],
        roles: &[Role],
        alpha: Self,
        a: Strided<'_, Self>,
        b: Strided<'_, Self>,
        c: StridedMut<'_, Self>,
    ) where
        Self: Element;

    /// As [`Products::run`].
    #[track_caller]
    fn products(
        products: &mut Products<Self>,
        counts: &[usize],
        alpha: Self,
        operands: &[Strided<'_, Self>],
        c: StridedMut<'_, Self>,
    ) where
        Self: Element;
}

macro_rules! instances {
    ($($type:ident)*) => { $(
        impl Instances for $type {
            #[track_caller]
            #[inline(never)]
            fn contract(
                counts: &[usize],
                roles: &[Role],
                alpha: Self,
                a: Strided<'_, Self>,
                b: Strided<'_, Self>,
                c: StridedMut<'_, Self>,
            ) {
                contract_strided(counts, roles, alpha, a, b, c);
            }

            #[track_caller]
            #[inline(never)]
            fn products(
                products: &mut Products<Self>,
                counts: &[usize],
                alpha: Self,
                operands: &[Strided<'_, Self>],
                c: StridedMut<'_, Self>,
            ) {
                products.run_strided(counts, alpha, operands, c);
            }
        }
    )* };
}

instances!(f32 f64 i32 i64);
