//! Products as programs: arrays moved to where they are multiplied, one kernel on every rank's tiles, and the result moved,
//! its sums closed, to where it is wanted.

use super::{Operand, Product, ProductError, ProductPlan, ProductStep, Sequence, Sharded, StepCost};
use polyshard_layout::{Collective, Mesh, Name, Sharding};
use polyshard_program::{
    Access, Affine, Array, ArrayId, ArrayKind, Assign, Body, DType, Direction, Expr, KernelSpec, Leaf, LeafAccess,
    LeafLoop, LeafOp, Leg, Move, Nest, Number, OperandId, Pattern, Program, Proof, Property, Ranges, Region, Report,
    Role, Symbol, TensorId, Tile, Transfer, Value,
};

impl ProductPlan {
    /// Returns the program of the best sequence.
    ///
    /// ```
    /// use polyshard_layout::Mesh;
    /// use polyshard_planner::product::{Link, Product, Roofline, Wiring};
    /// use polyshard_program::DType;
    /// let mesh = Mesh::new([("X", 2), ("Y", 2)]);
    /// let sizes = [("I", 4), ("J", 8), ("K", 6)];
    /// let product = Product::new("A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]", &mesh, &sizes, DType::F64)?;
    /// let link = Link { wiring: Wiring::Switch, bandwidth: 1e9, latency: 1e-6 };
    /// let machine = Roofline { flops: 1e10, memory_bandwidth: 1e10, memory_bytes: 1 << 30, links: vec![] };
    /// let plan = product.plan(&machine.with_link("X", link).with_link("Y", link))?;
    /// assert_eq!(plan.program()?.to_string(), "\
    /// program over (X: 2, Y: 2), f64
    ///     input         A[4, 8]: [0 @ X, 1 @ Y]
    ///     input         B[8, 6]: [0 @ Y]
    ///  1  run           C = multiply(A, B), C[i, k] = A[i, j] * B[j, k]
    ///  2  move          C' = C: [0 @ X, partial(Y)] to [0 @ X], all_reduce(Y)
    ///     output        C'[4, 6]: [0 @ X]
    /// ");
    /// # Ok::<(), polyshard_planner::product::ProductError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Sequence::program`].
    pub fn program(&self) -> Result<Program, ProductError> {
        self.best().program(self.product(), &[])
    }
}

impl Sequence {
    /// Returns the program of the sequence, for arrays of these sizes, which are at most those of the
    /// product: tiles are cut off where the arrays end. Dimensions that are not named have the product's sizes.
    ///
    /// ```text
    /// I = 8 in the product, 4 ranks along X, and 5 in the array     A[I_X]
    /// rank 0: 0 1    rank 1: 2 3    rank 2: 4    rank 3: -
    /// ```
    ///
    /// Where sums stay open, the sharding of the output says so.
    ///
    /// # Errors
    /// If programs do not compute in the element type, the sequence is not one of the product's, or a size is of
    /// no dimension or more than the product's.
    ///
    /// # Panics
    /// If the steps do not fit together: a bug of polyshard.
    pub fn program(&self, product: &Product, sizes: &[(&str, usize)]) -> Result<Program, ProductError> {
        let dtype = product.dtype();
        dtype.native()?;
        self.check(product)?;
        let names = product.loops.iter().map(|name| (&**name, product.size(name)));
        covered(&names.collect::<Vec<_>>(), sizes, true)?;
        let mut builder = Builder { sizes, arrays: Vec::new(), body: Body::default(), kept: [None, None, None] };
        let [mut left, mut right] = [&self.left, &self.right].map(|factor| builder.add(factor, ArrayKind::Input));
        let mut out = None;
        for step in &self.steps {
            match step {
                ProductStep::Multiply { left: a, right: b, out: c } => {
                    let [x, y] = [(Operand::Left, &mut left), (Operand::Right, &mut right)]
                        .map(|(operand, id)| builder.finished(operand, id));
                    let id = builder.add(c, ArrayKind::Temporary);
                    let arrays = [x, y, id].map(|id| &builder.arrays[id.0].sharding);
                    let nest = multiply(product.mesh(), dtype, [a, b, c], arrays);
                    builder.body.run(Nest { arrays: vec![x, y, id], ..nest });
                    out = Some(id);
                }
                ProductStep::Move { operand: Operand::Left, .. } => builder.step(step, &mut left),
                ProductStep::Move { operand: Operand::Right, .. } => builder.step(step, &mut right),
                ProductStep::Move { operand: Operand::Out, .. } => {
                    let id = out.as_mut().expect("a result is moved when it is there; this is a bug of polyshard");
                    builder.step(step, id);
                }
            }
        }
        let mut out = out.expect("a sequence multiplies; this is a bug of polyshard");
        out = builder.finished(Operand::Out, &mut out);
        Ok(builder.program(product.mesh(), dtype, out))
    }

    /// Whether the sequence begins and ends with the product's arrays.
    fn check(&self, product: &Product) -> Result<(), ProductError> {
        let alike = |one: &Sharded, other: &Sharded| {
            one.names() == other.names() && one.mesh() == other.mesh() && one.shape() == other.shape()
        };
        let last =
            |step: &&ProductStep| !matches!(step, ProductStep::Move { operand: Operand::Left | Operand::Right, .. });
        let result = self.steps.iter().rev().find(last).map(ProductStep::result);
        let multiplies = self.steps.iter().any(|step| matches!(step, ProductStep::Multiply { .. }));
        if multiplies
            && alike(&self.left, product.left())
            && alike(&self.right, product.right())
            && result == Some(product.out())
        {
            return Ok(());
        }
        Err(ProductError::OtherSequence {
            left: self.left.to_string().into(),
            right: self.right.to_string().into(),
            out: result.map_or_else(String::new, Sharded::to_string).into(),
            product: product.to_string().into(),
            mesh: product.mesh().to_string().into(),
        })
    }
}

/// Returns the program of steps on one array that lies as `from`, as [`reshard`](super::reshard) gives them, over elements of
/// `dtype` and for an array of these sizes, as [`Sequence::program`]; sizes of dimensions that it does not have are ignored.
///
/// # Errors
/// If a step does not begin with what the one before it left, or a size is more than the type's.
pub fn resharding(
    from: &Sharded,
    steps: &[(ProductStep, StepCost)],
    dtype: DType,
    sizes: &[(&str, usize)],
) -> Result<Program, ProductError> {
    let mut last = from;
    for (step, _) in steps {
        if step.before() != Some(last) {
            return Err(ProductError::Order { step: step.to_string(), last: last.to_string() });
        }
        last = step.result();
    }
    let names: Vec<_> = from.names().iter().map(String::as_str).zip(from.shape().iter().copied()).collect();
    covered(&names, sizes, false)?;
    let mut builder = Builder { sizes, arrays: Vec::new(), body: Body::default(), kept: [None, None, None] };
    let mut id = builder.add(from, ArrayKind::Input);
    for (step, _) in steps {
        builder.step(step, &mut id);
    }
    id = builder.finished(Operand::Out, &mut id);
    if id == ArrayId(0) {
        let target = builder.add(last, ArrayKind::Temporary);
        let tests = vec!["every rank has its part already".into()];
        builder.body.transfer(Move::new(id, target, Pattern::Local, tests));
        id = target;
    }
    Ok(builder.program(from.mesh(), dtype, id))
}

/// A program of a product so far.
struct Builder<'a> {
    sizes: &'a [(&'a str, usize)],
    arrays: Vec<Array>,
    body: Body,
    /// By operand, the part that ranks keep of what they hold, until the next step.
    kept: [Option<Sharding>; 3],
}

impl Builder<'_> {
    fn add(&mut self, array: &Sharded, kind: ArrayKind) -> ArrayId {
        let sharding = array.cut(self.sizes);
        self.arrays.push(Array { name: Name::new(array.tensor()), sharding, kind });
        ArrayId(self.arrays.len() - 1)
    }

    /// Adds a step on the array `id`, which is then another.
    fn step(&mut self, step: &ProductStep, id: &mut ArrayId) {
        let ProductStep::Move { operand, op, axes, from, to } = step else {
            unreachable!("a multiplication is no step on one array; this is a bug of polyshard")
        };
        let kept = &mut self.kept[*operand as usize];
        if *op == Collective::Slice {
            // The next step hands out the part that the slice keeps.
            *kept = Some(to.cut(self.sizes));
            return;
        }
        let kept = kept.take();
        let mesh = from.mesh();
        let axes = axes.iter().map(|&axis| mesh.as_slice()[axis].name).collect();
        let pattern = Pattern::of_collective(*op, axes);
        // A reduction takes whole tiles.
        if let Some(kept) = kept.as_ref().filter(|_| !from.unreduced().is_empty()) {
            self.local(id, kept.clone());
        }
        let kept = kept.filter(|_| from.unreduced().is_empty());
        let target = self.add(to, ArrayKind::Temporary);
        let tests = vec![format!("step of a product: {step}")];
        self.body.transfer(Move { kept, ..Move::new(*id, target, pattern, tests) });
        *id = target;
    }

    /// The array when all steps on it are done: a slice that no step followed is a copy.
    fn finished(&mut self, operand: Operand, id: &mut ArrayId) -> ArrayId {
        if let Some(kept) = self.kept[operand as usize].take() {
            self.local(id, kept);
        }
        *id
    }

    fn local(&mut self, id: &mut ArrayId, sharding: Sharding) {
        let name = self.arrays[id.0].name;
        self.arrays.push(Array { name, sharding, kind: ArrayKind::Temporary });
        let target = ArrayId(self.arrays.len() - 1);
        let tests = vec!["every rank has its part already".into()];
        self.body.transfer(Move::new(*id, target, Pattern::Local, tests));
        *id = target;
    }

    fn program(mut self, mesh: &Mesh, dtype: DType, out: ArrayId) -> Program {
        self.arrays[out.0].kind = ArrayKind::Output;
        Program::new(mesh, dtype, self.arrays, self.body)
            .unwrap_or_else(|error| panic!("the steps of a product do not fit: {error}; this is a bug of polyshard"))
    }
}

/// The kernel that every rank runs on the tiles that it holds: each dimension is a loop over the rank's part of it.
fn multiply(mesh: &Mesh, dtype: DType, arrays: [&Sharded; 3], shardings: [&Sharding; 3]) -> Nest {
    let names = arrays.map(|array| array.names());
    let loops: Vec<&String> = names[0].iter().chain(names[1].iter().filter(|name| !names[0].contains(name))).collect();
    let ranges =
        Ranges { coordinates: mesh.extents().into_iter().map(|extent| extent as i64).collect(), counters: Vec::new() };
    let dims = |name: &String| [0, 1, 2].map(|nth| names[nth].iter().position(|other| other == name));
    // All arrays that have a dimension are cut alike along it.
    let spans: Vec<(Expr, Expr)> = loops
        .iter()
        .map(|name| {
            let (nth, dim) =
                dims(name).into_iter().enumerate().find_map(|(nth, dim)| Some((nth, dim?))).unwrap_or((0, 0));
            span(shardings[nth], dim, &ranges)
        })
        .collect();
    let tensors = tensor_names(arrays);
    let indices = index_names(&loops, &tensors);
    let position = |name: &String| loops.iter().position(|other| *other == name).unwrap_or(0);
    let access = |nth: usize| {
        let index = names[nth].iter().map(|name| Affine::new([(indices[position(name)], 1)], 0));
        Access::new(tensors[nth], index.collect())
    };
    let extents = |nth: usize| shardings[nth].shape().iter().map(|&extent| extent as i128).collect::<Vec<_>>();
    let spec = KernelSpec {
        name: Name::new("multiply"),
        dtype,
        inputs: vec![(tensors[0], extents(0)), (tensors[1], extents(1))],
        output: (tensors[2], extents(2)),
        ranges: Vec::new(),
        scalars: Vec::new(),
        moduli: Vec::new(),
        target: access(2),
        assign: Assign::Set,
        value: Value::Mul(Box::new(Value::Access(access(0))), Box::new(Value::Access(access(1)))),
    };
    let kernel =
        spec.check().unwrap_or_else(|error| panic!("a product is no kernel: {error}; this is a bug of polyshard"));
    let region = |nth: usize| Region::of_ranges(names[nth].iter().map(|name| spans[position(name)].clone()).collect());
    let tests = || vec!["each rank multiplies what it holds".to_owned()];
    let transfer = |tensor: usize, direction, operands| Transfer {
        tensor: TensorId(tensor),
        direction,
        operands,
        level: 0,
        region: region(tensor),
        route: Leg::InPlace.into(),
        tile: Tile::default(),
        step: None,
        tests: tests(),
    };
    let out = Direction::Out { any_order: false };
    let transfers = vec![
        transfer(0, Direction::In, vec![OperandId(0)]),
        transfer(1, Direction::In, vec![OperandId(1)]),
        transfer(2, out, Vec::new()),
    ];
    let leaf_access = |nth: usize| LeafAccess {
        tensor: TensorId(nth),
        base: names[nth].iter().map(|name| spans[position(name)].0.clone()).collect(),
        strides: names[nth].iter().map(|name| loops.iter().map(|other| i64::from(*other == name)).collect()).collect(),
    };
    let role = |name: &&String| match dims(name).map(|dim| dim.is_some()) {
        [true, true, true] => Role::Batch,
        [true, _, true] => Role::M,
        [_, true, true] => Role::N,
        _ => Role::K,
    };
    let leaf = Leaf {
        loops: indices
            .iter()
            .zip(&spans)
            .map(|(&var, (low, high))| LeafLoop { var, low: low.clone(), count: high.subtract(low), stride: 1 })
            .collect(),
        target: leaf_access(2),
        operands: vec![leaf_access(0), leaf_access(1)],
        numbers: Vec::new(),
        op: LeafOp::Contraction { roles: loops.iter().map(role).collect(), alpha: Value::Literal(Number::Int(1)) },
        overwrites: false,
        step: None,
    };
    let proof = |property, tensor, claim: &str| Proof { property, tensor, claim: claim.into(), of_route: false };
    let proofs = vec![
        proof(Property::EveryInstanceOnce, None, "each axis of the mesh cuts one loop of the product, or none"),
        proof(Property::Residency, Some(tensors[0]), "a rank's tile is what it multiplies"),
        proof(Property::Residency, Some(tensors[1]), "a rank's tile is what it multiplies"),
        proof(Property::Delivery, Some(tensors[2]), "a rank holds its terms; sums over ranks are partial sums"),
    ];
    let nest = Nest {
        kernel,
        steps: Vec::new(),
        mesh: mesh.clone(),
        arrays: Vec::new(),
        shardings: shardings.map(Sharding::clone).into(),
        loops: Vec::new(),
        transfers,
        leaf,
        report: Report::default(),
        hints: Vec::new(),
    };
    nest.completed(proofs)
}

/// The indices of a dimension that a rank holds: one block, which is numbered by the rank's coordinates.
fn span(sharding: &Sharding, dim: usize, ranges: &Ranges) -> (Expr, Expr) {
    let end = Expr::constant(sharding.shape()[dim] as i64);
    let [level] = sharding.dims()[dim].levels() else { return (Expr::constant(0), end) };
    let digit = level.at.terms.iter().fold(Expr::constant(level.at.constant), |sum, &(axis, factor)| {
        sum.add(&Expr::symbol(Symbol::Coordinate(axis)).multiply(factor))
    });
    let block = i64::try_from(level.block).unwrap_or(i64::MAX);
    let low = digit.multiply(block);
    (Expr::min(&low, &end, ranges), Expr::min(&low.offset_by(block), &end, ranges))
}

/// The arrays' names, all different.
fn tensor_names(arrays: [&Sharded; 3]) -> [Name; 3] {
    let mut names: Vec<String> = Vec::new();
    for array in arrays {
        let mut name = array.tensor().to_owned();
        while names.contains(&name) {
            name += "_2";
        }
        names.push(name);
    }
    [0, 1, 2].map(|nth| Name::new(&names[nth]))
}

/// The loops' names in lower case, or numbers if that makes two alike, or one a tensor's.
fn index_names(loops: &[&String], tensors: &[Name; 3]) -> Vec<Name> {
    let lower: Vec<Name> = loops.iter().map(|name| Name::new(&name.to_lowercase())).collect();
    let clear = (0..lower.len()).all(|at| !lower[..at].contains(&lower[at]) && !tensors.contains(&lower[at]));
    if clear { lower } else { (0..loops.len()).map(|nth| Name::new(&format!("i{nth}"))).collect() }
}

/// Refuses two sizes of one dimension, sizes that are more than the `whole` ones, and where `all` have to be known, sizes of
/// no dimension.
fn covered(whole: &[(&str, usize)], sizes: &[(&str, usize)], all: bool) -> Result<(), ProductError> {
    for (nth, &(name, size)) in sizes.iter().enumerate() {
        let refuse = |why: String| Err(ProductError::Size { name: name.to_owned(), why });
        if sizes[..nth].iter().any(|(other, _)| *other == name) {
            return refuse("is given twice; give it once".into());
        }
        match whole.iter().find(|(other, _)| *other == name) {
            Some(&(_, whole)) if size > whole => {
                return refuse(format!("is {size}, but the plan covers {whole}; plan the product for {size} or more"));
            }
            None if all => {
                let mut names: Vec<_> = whole.iter().map(|(name, _)| format!("`{name}`")).collect();
                names.sort_unstable();
                return refuse(format!("is not the size of a dimension; the dimensions are {}", names.join(", ")));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::{Link, Roofline, Wiring, reshard};

    const SIZES: [(&str, usize); 3] = [("I", 4), ("J", 6), ("K", 2)];

    fn machine() -> Roofline {
        let link = Link { wiring: Wiring::Switch, bandwidth: 1e9, latency: 1e-6 };
        Roofline { flops: 1e10, memory_bandwidth: 1e10, memory_bytes: 1 << 30, links: vec![] }.with_link("X", link)
    }

    fn mesh() -> Mesh {
        Mesh::new([("X", 2)])
    }

    fn plan(text: &str, dtype: DType) -> ProductPlan {
        let product = Product::new(text, &mesh(), &SIZES, dtype).expect("a product");
        product.plan(&machine()).expect("a plan")
    }

    #[track_caller]
    fn check(program: Result<Program, ProductError>, expected: &str) {
        assert_eq!(program.expect_err("it should be refused").to_string(), expected);
    }

    #[test]
    fn types_that_no_program_computes_in_are_refused() {
        for dtype in [DType::Bf16, DType::I8] {
            check(
                plan("A[I_X, J] * B[J, K] -> C[I_X, K]", dtype).program(),
                &format!("programs do not compute in {dtype}; the types that they compute in are f32, f64, i32, i64"),
            );
        }
    }

    #[test]
    fn sizes_that_the_plan_does_not_cover_are_refused() {
        let plan = plan("A[I_X, J] * B[J, K] -> C[I_X, K]", DType::F64);
        let cut = |sizes: &[(&str, usize)]| plan.best().program(plan.product(), sizes);
        check(cut(&[("I", 5)]), "the size of `I` is 5, but the plan covers 4; plan the product for 5 or more");
        check(cut(&[("M", 5)]), "the size of `M` is not the size of a dimension; the dimensions are `I`, `J`, `K`");
        check(cut(&[("J", 3), ("J", 4)]), "the size of `J` is given twice; give it once");
    }

    #[test]
    fn sequences_of_other_products_are_refused() {
        let one = plan("A[I_X, J] * B[J, K] -> C[I_X, K]", DType::F64);
        let other = plan("A[I, J_X] * B[J_X, K] -> C[I, K]", DType::F64);
        check(
            other.best().program(one.product(), &[]),
            "the sequence from `A[I, J_X]` and `B[J_X, K]` to `C[I, K]` is not one of the product `A[I_X, J] * B[J, K] -> \
             C[I_X, K]` over (X: 2); take one from its plan",
        );
    }

    #[test]
    fn steps_that_do_not_follow_one_another_are_refused() {
        let parse = |text: &str| Sharded::parse(text, &mesh(), &SIZES).expect("an array");
        let steps = reshard(&parse("C[I, K] {U_X}"), &parse("C[I_X, K]"), DType::F64, &machine()).expect("a way");
        check(
            resharding(&parse("C[I, K]"), &steps, DType::F64, &[]),
            "the step `ReduceScatter_X C[I, K] {U_X} -> C[I_X, K]` does not begin with `C[I, K]`; give the steps in order",
        );
    }
}
