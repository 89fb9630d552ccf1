//! Sums of products of several tensors, as the leaf that `tensorize` chooses, as a nest and as a registered leaf: the
//! sequential result, for all element types, on any number of ranks. Integers wrap.

use ndarray::{ArrayViewD, ArrayViewMutD, IxDyn};
use polyshard::layout::Name;
use polyshard::leaf::register;
use polyshard::prelude::*;
use polyshard::program::{Kernel, LeafKind};
use polyshard_program::{Access, Affine, Assign, KernelSpec, Number, Value};
use polyshard_testing::filled::{run_into, sequential};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Mutex;

const LOOPS: usize = 5;

/// A kernel over up to five indices, and its distribution over ranks.
#[derive(Clone, Debug)]
struct Case {
    extents: Vec<usize>,
    /// The indices of each input, then of the output.
    tensors: Vec<Vec<usize>>,
    scaled: bool,
    set: bool,
    ranks: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let all: Vec<usize> = (0..LOOPS).collect();
    let inputs = prop::collection::vec(prop::sample::subsequence(all.clone(), 1..4).prop_shuffle(), 2..5);
    let extent = prop_oneof![1 => Just(0usize), 20 => 1usize..5, 20 => 5usize..10];
    let output = prop::sample::subsequence(all, 0..4).prop_shuffle();
    (prop::collection::vec(extent, LOOPS), inputs, output, any::<[bool; 2]>(), 1usize..4).prop_map(
        |(extents, mut tensors, mut output, [scaled, set], ranks)| {
            // An index of the output only would have no range.
            output.retain(|index| tensors.iter().any(|indices| indices.contains(index)));
            tensors.push(output);
            Case { extents, tensors, scaled, set, ranks }
        },
    )
}

fn schedule<T: Element>(case: &Case, kind: Option<LeafKind>) -> Schedule {
    let index_name = |i: usize| Name::new(["i", "j", "k", "l", "m"][i]);
    let names = ["A", "B", "C", "D"].map(Name::new);
    let access = |tensor: Name, indices: &[usize]| {
        Access::new(tensor, indices.iter().map(|&i| Affine::new([(index_name(i), 1)], 0)).collect())
    };
    let shape = |indices: &[usize]| indices.iter().map(|&i| case.extents[i] as i128).collect::<Vec<_>>();
    let (output, inputs) = case.tensors.split_last().expect("a kernel has an output");
    let inputs: Vec<(Name, &Vec<usize>)> = names.into_iter().zip(inputs).collect();
    let factors = inputs.iter().map(|&(name, indices)| Value::Access(access(name, indices)));
    let scale = case.scaled.then_some(Value::Literal(Number::Int(3)));
    let value = scale.into_iter().chain(factors).reduce(|a, b| Value::Mul(Box::new(a), Box::new(b)));
    let z = Name::new("Z");
    let spec = KernelSpec {
        name: Name::new("einsum"),
        dtype: T::DTYPE,
        inputs: inputs.iter().map(|&(name, indices)| (name, shape(indices))).collect(),
        output: (z, shape(output)),
        ranges: vec![],
        scalars: vec![],
        moduli: vec![],
        target: access(z, output),
        assign: if case.set { Assign::Set } else { Assign::Add },
        value: value.expect("a factor"),
    };
    let kernel = spec.clone().check().expect("a kernel");
    let mut loops: Vec<Name> = kernel.vars().iter().map(|var| var.name).collect();
    let mut schedule = Schedule::from_spec(spec);
    if let Some(&first) = output.first() {
        let mesh = Mesh::new([("x", case.ranks)]);
        let [outer, inner] = ["outer", "inner"].map(Name::new);
        schedule = schedule.distribute([index_name(first)], [outer], [inner], &mesh);
        let [x] = mesh.axes();
        schedule = schedule.shard("Z", [dim(0).at(x)]);
        loops[0] = inner;
    }
    match kind {
        None => schedule.tensorize(loops),
        Some(kind) => schedule.tensorize_as(loops, kind),
    }
}

/// Large enough that products of integers wrap; of floats, small enough that sums are exact.
fn element<T: Element>(tensor: usize, index: &[usize]) -> T {
    let sum: usize = index.iter().zip([7, 3, 5]).map(|(i, factor)| i * factor).sum::<usize>() + 11 * tensor;
    let small = (sum % 7) as i64 - 3;
    let value = if T::DTYPE.is_float() { small } else { small * 40_503 };
    num_traits::NumCast::from(value).expect("a number that every type has")
}

fn check<T: Element>(case: &Case) -> Result<(), TestCaseError> {
    let lowered = |kind: Option<LeafKind>| {
        schedule::<T>(case, kind).lower().map_err(|error| TestCaseError::fail(error.to_string()))
    };
    let program = lowered(None)?;
    let expected = sequential::<T>(&program, true, element);
    let named = LeafKind::Named(leaf::<T>(&program));
    for program in [program, lowered(Some(LeafKind::Nest))?, lowered(Some(named))?] {
        prop_assert_eq!(&run_into::<T>(&program, element), &expected, "{}", program);
    }
    Ok(())
}

/// The name of a registered leaf for the program's statement.
fn leaf<T: Element>(program: &Program) -> Name {
    static REGISTERED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let kernel = program.kernel().to_string().replace("] = ", "] += ");
    let kernel =
        polyshard::text::parse_kernel(&kernel).expect("a kernel reads as it prints").check().expect("a kernel");
    let statement = kernel.statement();
    let name = format!("{}_{}", T::DTYPE.name(), statement.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    if REGISTERED.lock().expect("no test panics with it").insert(name.clone()) {
        match program.kernel().inputs().len() {
            2 => einsum::<T, 2>(&name, &kernel),
            3 => einsum::<T, 3>(&name, &kernel),
            _ => einsum::<T, 4>(&name, &kernel),
        }
    }
    Name::new(&name)
}

/// Registers the sum of products, computed point by point.
fn einsum<T: Element, const N: usize>(name: &str, kernel: &Kernel) {
    let statement = kernel.statement();
    let scale = if statement.contains("3 * ") { T::ONE.add(T::ONE).add(T::ONE) } else { T::ONE };
    let lists = statement.split('[').skip(1).map(|rest| &rest[..rest.find(']').expect("brackets in pairs")]);
    let tiles: Vec<Vec<char>> = lists.map(|list| list.chars().filter(char::is_ascii_lowercase).collect()).collect();
    let loops: BTreeSet<char> = tiles.concat().into_iter().collect();
    let function = move |mut target: ArrayViewMutD<'_, T>, operands: [ArrayViewD<'_, T>; N]| {
        let shapes: Vec<&[usize]> =
            [target.shape()].into_iter().chain(operands.iter().map(|tile| tile.shape())).collect();
        let extent = |l: &char| {
            let mut found = tiles.iter().zip(&shapes).flat_map(|(tile, shape)| tile.iter().zip(*shape));
            *found.find(|(index, _)| *index == l).expect("each loop is an index of a tile").1
        };
        for point in ndarray::indices(loops.iter().map(extent).collect::<Vec<_>>()) {
            let place = |l: &char| loops.iter().position(|other| other == l).expect("an index is a loop");
            let at = |tile: &[char]| IxDyn(&tile.iter().map(|l| point[place(l)]).collect::<Vec<_>>());
            let factors = operands.iter().zip(&tiles[1..]).map(|(operand, tile)| operand[at(tile)]);
            let term = factors.fold(scale, T::multiply);
            let element = &mut target[at(&tiles[0])];
            *element = element.add(term);
        }
    };
    register(name, kernel, function).expect("a leaf");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn products_of_several_tensors_are_what_they_stand_for(case in cases()) {
        check::<f64>(&case)?;
        check::<f32>(&case)?;
        check::<i32>(&case)?;
        check::<i64>(&case)?;
    }
}
