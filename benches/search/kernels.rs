//! The kernels of the benchmark.

use polyshard::layout::DType;
use polyshard::schedule::Schedule;
use polyshard::text::{Operand, einsum};

/// A kernel: its name, its einsum, and the extents of its operands.
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) shapes: Vec<Vec<usize>>,
}

impl Kernel {
    /// Returns the schedule without steps.
    pub(crate) fn schedule(&self, dtype: DType) -> polyshard::Result<Schedule> {
        let sources: Vec<_> = (0..self.shapes.len()).map(|nth| format!("A{nth}")).collect();
        let operands: Vec<_> =
            sources.iter().zip(&self.shapes).map(|(source, shape)| Operand { source, shape }).collect();
        Ok(Schedule::from_spec(einsum(self.text, &operands, dtype, "C")?))
    }
}

/// The kernels that are timed, with their extents divided by `scale`.
pub(crate) fn timed(scale: usize) -> Vec<Kernel> {
    let kernel = |name, text, shapes: &[&[usize]]| Kernel {
        name,
        text,
        shapes: shapes.iter().map(|shape| shape.iter().map(|extent| (extent / scale).max(1)).collect()).collect(),
    };
    let product = "ij,jk->ik";
    vec![
        kernel("square", product, &[&[2048, 2048], &[2048, 2048]]),
        kernel("tall", product, &[&[8192, 512], &[512, 512]]),
        kernel("flat", product, &[&[512, 8192], &[8192, 512]]),
        kernel("outer", "i,j->ij", &[&[4096], &[4096]]),
        kernel("matvec", "ij,j->i", &[&[4096, 8192], &[8192]]),
        kernel("batched", "bij,bjk->bik", &[&[64, 256, 256], &[64, 256, 256]]),
        kernel("syrk", "ik,jk->ij", &[&[1536, 1536], &[1536, 1536]]),
        kernel("mttkrp", "ijk,jr,kr->ir", &[&[256, 256, 256], &[256, 32], &[256, 32]]),
        kernel("ttm", "ijk,kr->ijr", &[&[256, 256, 256], &[256, 64]]),
        kernel("inner", "ij,ij->", &[&[4096, 4096], &[4096, 4096]]),
    ]
}
