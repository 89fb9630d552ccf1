//! The bound of a program: its leaves alone, on tiles that are filled beforehand.
//!
//! Each rank computes its share of the product in the same steps, on tiles of the same sizes and with the same kernel,
//! and no data moves. No schedule of this shape can be faster.

use polyshard::program::Program;
use polyshard::runtime::leaf::{Role, contract};
use polyshard::runtime::{DistArray, Element, View, ViewMut, World, count};
use polyshard_program::{LeafAccess, LeafOp, Role as SymbolicRole};

/// The leaves of a program on one rank, with separate operands.
pub(crate) struct Bound<T> {
    roles: Vec<Role>,
    leaves: Vec<Leaf<T>>,
    /// The tile of partial sums, if the result is not accumulated in place.
    sums: Option<Vec<T>>,
}

/// One execution of the leaf.
struct Leaf<T> {
    counts: Vec<usize>,
    operands: Vec<Operand<T>>,
    target: Vec<i64>,
}

struct Operand<T> {
    tile: Vec<T>,
    steps: Vec<Vec<i64>>,
    strides: Vec<i64>,
}

impl<T: Element> Bound<T> {
    /// Returns the leaves of `program` in order, each with tiles filled from the element's number.
    ///
    /// # Panics
    /// If the leaf is not a contraction.
    pub(crate) fn new(world: &World, program: &Program) -> polyshard::Result<Self> {
        world.check_mesh(program.mesh())?;
        let here: Vec<_> = program.mesh().coordinates(world.rank()).iter().map(|&at| at as i64).collect();
        let LeafOp::Contraction { roles, .. } = &program.nest().leaf.op else {
            panic!("a matrix product is a contraction")
        };
        let extents: Vec<i64> = program.nest().loops.iter().map(|serial| serial.extent).collect();
        let leaves = points(&extents).iter().map(|counters| Leaf::new(program, &here, counters)).collect();
        let in_place = program.nest().output().route.is_in_place();
        let sums = (!in_place).then(|| vec![T::ZERO; program.nest().output().tile.capacity]);
        Ok(Self { roles: roles.iter().map(|&role| concrete(role)).collect(), leaves, sums })
    }

    /// Adds the products of the tiles to `output`.
    pub(crate) fn run(&mut self, program: &Program, output: &mut DistArray<T>) {
        let steps: Vec<&[i64]> = program.nest().row.leaf.target.strides.iter().map(|steps| &steps[..]).collect();
        for leaf in &self.leaves {
            let [a, b] = [0, 1].map(|operand| leaf.operands[operand].strided());
            let target = match &mut self.sums {
                None => output.view_mut().strided(&leaf.target, &steps),
                Some(sums) => {
                    let (shape, strides) = dense(&program.nest().row.leaf.target, &leaf.counts);
                    let (origin, len) = (vec![0; shape.len()], shape.iter().product::<i64>() as usize);
                    ViewMut::new(&mut sums[..len], origin.clone(), strides).strided(&origin, &steps)
                }
            };
            contract(&leaf.counts, &self.roles, T::ONE, a, b, target);
        }
    }
}

impl<T: Element> Leaf<T> {
    fn new(program: &Program, coordinates: &[i64], counters: &[i64]) -> Self {
        let leaf = &program.nest().leaf;
        let counts: Vec<usize> = leaf.loops.iter().map(|l| count(l.count.eval(coordinates, counters))).collect();
        let operands = leaf.operands.iter().map(|access| Operand::new(access, &counts)).collect();
        let target = leaf.target.base.iter().map(|base| base.eval(coordinates, counters)).collect();
        Self { counts, operands, target }
    }
}

impl<T: Element> Operand<T> {
    /// A dense tile of exactly the elements that the loops touch.
    fn new(access: &LeafAccess, counts: &[usize]) -> Self {
        let (shape, strides) = dense(access, counts);
        let tile = (0..shape.iter().product()).map(|i| T::from(i % 7 - 3).expect("a small integer")).collect();
        Self { tile, steps: access.strides.clone(), strides }
    }

    fn strided(&self) -> polyshard::runtime::Strided<'_, T> {
        let origin = vec![0; self.strides.len()];
        let steps: Vec<&[i64]> = self.steps.iter().map(|steps| &steps[..]).collect();
        View::new(&self.tile, origin.clone(), self.strides.clone()).strided(&origin, &steps)
    }
}

/// Shape and strides of a dense tile of the elements that the loops touch.
fn dense(access: &LeafAccess, counts: &[usize]) -> (Vec<i64>, Vec<i64>) {
    let reach = |steps: &Vec<i64>| steps.iter().zip(counts).map(|(s, &n)| s * (n as i64 - 1)).sum::<i64>() + 1;
    let shape: Vec<i64> = access.strides.iter().map(reach).collect();
    let strides = (0..shape.len()).map(|dim| shape[dim + 1..].iter().product()).collect();
    (shape, strides)
}

/// All values of counters with these extents, in the order of the loops.
fn points(extents: &[i64]) -> Vec<Vec<i64>> {
    extents.iter().fold(vec![vec![]], |all, &extent| {
        all.iter().flat_map(|head| (0..extent).map(move |i| [&head[..], &[i]].concat())).collect()
    })
}

fn concrete(role: SymbolicRole) -> Role {
    match role {
        SymbolicRole::Batch => Role::Batch,
        SymbolicRole::M => Role::M,
        SymbolicRole::N => Role::N,
        SymbolicRole::K => Role::K,
    }
}
