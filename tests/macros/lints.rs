//! A crate that enables every lint, as this one does at its head, gets no warning for the macros' output.

use polyshard::schedule::Schedule;
use polyshard::{kernel, vars};

kernel! {
    fn scaled_product(A: [f32; 8, 8], x: [f32; 8]) -> y: [f32; 8] {
        y[i] = alpha * A[i, k] * x[k]
    }
    mesh(p: 2)
    .distribute([i], [io], [ii])
    .shard(A, i @ p)
}

kernel! {
    pub fn unused(A: [i64; 7]) -> C: [i64; 7] {
        C[i] max= A[i] + 2
    }
    mesh(p: 2)
    .distribute([i], [io], [ii])
}

// Names that emitted code uses itself, and keywords.
kernel! {
    pub fn names(Type: [i64; 8], World: [i64; 8]) -> r#in: i64 {
        r#in[] max= Type[r#loop] * r#box + World[r#loop]
    }
    .tensorize([r#loop])
}

/// A kernel whose element type is chosen by its caller.
fn scaled<T: polyshard::runtime::Element>(n: usize, alpha: T) -> Schedule {
    vars!(i, io, ii);
    kernel! {
        /// The documentation of an expression is dropped.
        fn scaled(A: [T; n]) -> C: [T; n] {
            C[i] = alpha * A[i]
        }
    }
    .split(i, io, ii, 4)
}

#[test]
fn what_the_macros_write_is_used_as_any_other_code() {
    assert!(scaled(10, 2.5f32).lower().is_ok());
    assert!(scaled(10, 3i64).lower().is_ok());
    assert!(names::schedule(2).lower().is_ok());
    assert!(scaled_product::schedule(0.5).lower().is_ok());
}

macro_rules! scaled_by {
    ($alpha:ident, $n:expr) => {
        kernel! {
            fn scaled(A: [f32; $n]) -> C: [f32; $n] { C[i] = $alpha * A[i] + $alpha }
        }
    };
}

#[test]
fn kernels_may_be_written_by_macros() {
    let scalar = 2.0;
    assert!(scaled_by!(scalar, 3 + 1).lower().is_ok());
}
