//! Leaves that users register: the statement that a program requires of a named leaf.
//!
//! The statement is the kernel's over tiles, `C[m, n] += A[m, k] * B[k, n]`: a tile has a dimension per leaf loop that
//! its access moves with, whatever the strides, so a window `A[i + r]` is the tile `A[i, r]`. The runtime checks that a
//! leaf of that name exists and computes the statement before a program runs; a program may be lowered where the leaf is
//! not linked.

use crate::ErrorKind;
use crate::nest::{Depth, Nest, NodeId};
use polyshard_layout::{Name, each_once, joined};
use polyshard_program::{Access, Affine, Kernel, LeafOp, OperandId, TileOperand, TileStatement, Value};

/// The leaf `name` at a depth, or why it has no tiles.
pub(crate) fn build(kernel: &Kernel, nest: &Nest, depth: Depth, name: Name) -> Result<LeafOp, ErrorKind> {
    let still = nest.around(depth).len();
    let moves = |var: usize| nest.loops_of(NodeId(var)).last().is_some_and(|&innermost| innermost >= still);
    let vars = kernel.vars().iter().enumerate();
    let loops: Vec<Name> = vars.filter(|&(var, _)| moves(var)).map(|(_, var)| var.name).collect();
    let moved = |index: &Affine| -> Vec<Name> {
        index.terms.iter().map(|term| term.0).filter(|name| loops.contains(name)).collect()
    };
    let target = kernel.target();
    if let Some(index) = target.index.iter().find(|index| moved(index).len() > 1) {
        let both = joined(moved(index).iter().map(|name| format!("`{name}`")), " and ");
        let why =
            format!("elements of its output tile would overlap, since {both} move `{target}` along one dimension");
        return Err(ErrorKind::NoTiles { leaf: name, why, help: "keep all but one of them outside the leaf" });
    }
    if kernel.record_index().is_some() {
        let why = format!("a registered leaf does not combine records, as `{}` does", kernel.assign());
        return Err(ErrorKind::NoTiles { leaf: name, why, help: "leave the leaf's name out" });
    }
    if let Some(index) = kernel.value().indices().first() {
        let why =
            format!("a leaf does not know the position of its tile in the array, but `{index}` is used as a number");
        return Err(ErrorKind::NoTiles {
            leaf: name,
            why,
            help: "let the leaf be a nest, or read the number from a tensor",
        });
    }
    let accesses = kernel.value().accesses();
    if let Some(access) = accesses.iter().find(|access| access.outside.is_some()) {
        let why = format!("its tiles hold only elements of tensors, but `{access}` may be outside of its tensor");
        return Err(ErrorKind::NoTiles { leaf: name, why, help: "compute it by `tensorize`" });
    }
    let touched = |name: &Name| {
        let mut all = accesses.iter().copied().chain([target]);
        all.any(|access| access.index.iter().any(|index| index.coefficient(*name) != 0))
    };
    if let Some(idle) = loops.iter().find(|name| !touched(name)) {
        let why = format!("`{idle}` indexes no tensor, so no tile has a dimension for it");
        return Err(ErrorKind::NoTiles { leaf: name, why, help: "keep it outside the leaf" });
    }
    let tile = |access: &Access, name: Name| -> Access {
        let dims = each_once(access.index.iter().flat_map(moved));
        Access::new(name, dims.into_iter().map(|name| Affine::new([(name, 1)], 0)).collect())
    };
    let mut tiles = Tiles { kernel, accesses: &accesses, names: Vec::new(), operands: Vec::new(), next: 0 };
    let mut value = kernel.value().clone();
    value.rewrite(&mut |value| match value {
        Value::Access(access) => *access = tile(access, tiles.name()),
        Value::Scalar(name) => tiles.scalar(*name),
        _ => {}
    });
    // With `=`, the output starts from zeros.
    let assign = kernel.assign().accumulating();
    let statement = TileStatement { target: tile(target, target.tensor), assign, value };
    Ok(LeafOp::Named { name, statement, operands: tiles.operands })
}

/// The operands, as a value names them from left to right.
struct Tiles<'a> {
    kernel: &'a Kernel,
    accesses: &'a [&'a Access],
    /// By operand.
    names: Vec<Name>,
    operands: Vec<TileOperand>,
    /// The number of the next access.
    next: usize,
}

impl Tiles<'_> {
    /// The name of the next access: that of its tensor, with underscores after it if another access of the tensor or
    /// another tensor has it.
    fn name(&mut self) -> Name {
        let number = self.next;
        self.next += 1;
        let access = self.accesses[number];
        let same = |operand: &TileOperand| matches!(operand, TileOperand::Access(i) if self.accesses[i.0] == access);
        if let Some(known) = self.operands.iter().position(same) {
            return self.names[known];
        }
        let taken = |name: Name| {
            let scalars = self.kernel.scalars().iter().map(|scalar| scalar.0);
            let others = self.kernel.tensors().map(|tensor| tensor.name).filter(|&other| other != access.tensor);
            self.names.contains(&name) || others.chain(scalars).any(|other| other == name)
        };
        let mut name = access.tensor;
        while taken(name) {
            name = Name::new(&format!("{name}_"));
        }
        self.names.push(name);
        self.operands.push(TileOperand::Access(OperandId(number)));
        name
    }

    fn scalar(&mut self, name: Name) {
        if !self.operands.contains(&TileOperand::Scalar(name)) {
            self.names.push(name);
            self.operands.push(TileOperand::Scalar(name));
        }
    }
}
