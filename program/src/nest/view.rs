//! The view of one kernel of a program: its row, and the rows of other tables that it names.

use super::{Loop, LoweredKernel, Transfer, Use};
use crate::ids::{KernelId, OperandId, TensorId, TileId, TransferId};
use crate::program::Body;
use polyshard_layout::{Mesh, Sharding};
use std::ops::Deref;

/// A kernel of a program, with the loops around its leaf and the transfers that it uses.
///
/// ```
/// # use polyshard::prelude::*;
/// # let rows = kernel! { fn matmul(A: [f64; 4, 6], B: [f64; 6, 8]) -> C: [f64; 4, 8] { C[m, n] += A[m, k] * B[k, n] } };
/// # vars!(m, n, k, mo, mi);
/// # let (mesh, x) = (Mesh::new([("x", 2)]), "x");
/// # let rows = rows.distribute([m], [mo], [mi], &mesh).shard("A", [m.at(x)]).shard("B", [k.at(x)]).shard("C", [m.at(x)]);
/// // Rows of C = A * B on two ranks, as in the example of `Program`.
/// let program = rows.lower()?;
/// let nest = program.nest();
/// assert_eq!(nest.kernel.statement(), "C[m, n] += A[m, k] * B[k, n]");
/// assert_eq!(nest.steps[0], "distribute([m], [mo], [mi], mesh(x: 2))");
/// assert_eq!(nest.transfers.len(), 3); // of A, B and C
/// # Ok::<(), polyshard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NestView<'a> {
    /// Its number.
    pub id: KernelId,
    /// Its row, to which the view dereferences.
    pub row: &'a LoweredKernel,
    /// The mesh of ranks.
    pub mesh: &'a Mesh,
    /// The shardings of the tensors: the inputs, then the output.
    pub shardings: Vec<&'a Sharding>,
    /// The serial loops around the leaf, outermost first.
    pub loops: Vec<&'a Loop>,
    /// Whether its output is in its tile only, panel by panel: [`ArrayKind::Panels`](crate::ArrayKind::Panels).
    pub in_panels: bool,
    /// The transfers of inputs, by the numbers of their tiles, and last that of the output.
    pub transfers: Vec<TransferView<'a>>,
}

/// A transfer as a kernel uses it.
#[derive(Clone, Copy, Debug)]
pub struct TransferView<'a> {
    /// Its number.
    pub id: TransferId,
    /// Its row, to which the view dereferences.
    pub row: &'a Transfer,
    /// The tensor of the kernel.
    pub tensor: TensorId,
    /// The leaf's operands that read the fetched region, ascending.
    pub operands: &'a [OperandId],
    /// The kernel that fetches the region, and the tile in which it leaves it, if it is another kernel.
    pub reused: Option<(KernelId, TileId)>,
}

impl Body {
    /// Returns the view of a kernel.
    ///
    /// # Panics
    /// If there is no such kernel.
    #[must_use]
    pub fn nest(&self, id: KernelId) -> NestView<'_> {
        NestView::new(self, id)
    }

    /// Returns the views of the kernels by number.
    pub fn nests(&self) -> impl ExactSizeIterator<Item = NestView<'_>> {
        (0..self.kernels.len()).map(|number| self.nest(KernelId(number)))
    }

    /// Returns the view of a transfer by the kernel with whose tile it begins or ends.
    pub(crate) fn of_tile(&self, id: TransferId) -> Option<(NestView<'_>, usize)> {
        let nest = self.nest(self.transfers[id.0].kernel()?);
        let position = nest.transfers.iter().position(|transfer| transfer.id == id)?;
        Some((nest, position))
    }

    /// Returns the kernel, if the program is one kernel and nothing else, whose output continues no other array.
    #[must_use]
    pub fn only_nest(&self) -> Option<NestView<'_>> {
        let is_alone = self.kernels.len() == 1
            && self.rounds.is_empty()
            && self.kernels[0].continues.is_none()
            && self.transfers.iter().all(|transfer| transfer.kernel().is_some());
        is_alone.then(|| self.nest(KernelId(0)))
    }
}

impl<'a> NestView<'a> {
    /// The view of a kernel whose row names existing rows of the other tables.
    pub(crate) fn new(body: &'a Body, id: KernelId) -> Self {
        let row = &body.kernels[id.0];
        let transfer = |used: &'a Use| {
            let transfer = &body.transfers[used.transfer.0];
            let reused = transfer.kernel().filter(|owner| *owner != id).map(|owner| {
                let uses = body.kernels.get(owner.0).map_or(&[][..], |owner| &owner.uses);
                let tile = uses.iter().position(|other| other.transfer == used.transfer);
                (owner, TileId(tile.unwrap_or(usize::MAX)))
            });
            TransferView { id: used.transfer, row: transfer, tensor: used.tensor, operands: &used.operands, reused }
        };
        Self {
            id,
            row,
            mesh: &body.mesh,
            shardings: row.arrays.iter().map(|array| &body.arrays[array.0].sharding).collect(),
            loops: row.loops.iter().map(|number| &body.loops[number.0]).collect(),
            in_panels: row.arrays.last().is_some_and(|array| body.is_in_panels(*array)),
            transfers: row.uses.iter().map(transfer).collect(),
        }
    }
}

impl TransferView<'_> {
    /// Returns whether it is in flight during computation of the kernel; one whose tile is reused has ended before.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.reused.is_none() && (self.ahead > 0 || self.interior_first)
    }

    /// Returns whether the interior of the kernel's leaf is computed while it is in flight.
    #[must_use]
    pub fn is_interior_first(&self) -> bool {
        self.interior_first && self.reused.is_none()
    }
}

impl Deref for NestView<'_> {
    type Target = LoweredKernel;

    fn deref(&self) -> &LoweredKernel {
        self.row
    }
}

impl Deref for TransferView<'_> {
    type Target = Transfer;

    fn deref(&self) -> &Transfer {
        self.row
    }
}
