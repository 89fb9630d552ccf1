//! Example kernels, written out as `kernel!` expands them.

use polyshard_layout::Name;
use polyshard_program::{Access, Assign, DType, KernelSpec, Value};

/// `C[m, n] += A[m, k] * B[k, n]` over `f32`, with these extents of `m`, `n` and `k`.
#[must_use]
pub fn matmul(m: usize, n: usize, k: usize) -> KernelSpec {
    let [m, n, k] = [m, n, k].map(|extent| extent as i128);
    KernelSpec {
        name: Name::new("matmul"),
        dtype: DType::F32,
        inputs: vec![(Name::new("A"), vec![m, k]), (Name::new("B"), vec![k, n])],
        output: (Name::new("C"), vec![m, n]),
        ranges: Vec::new(),
        scalars: Vec::new(),
        moduli: Vec::new(),
        target: Access::plain("C", &["m", "n"]),
        assign: Assign::Add,
        value: Value::Mul(
            Box::new(Value::Access(Access::plain("A", &["m", "k"]))),
            Box::new(Value::Access(Access::plain("B", &["k", "n"]))),
        ),
    }
}
