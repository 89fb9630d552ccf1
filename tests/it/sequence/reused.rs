//! A tile that several transfers of later kernels reuse, even of a single kernel: the result is that of loops over
//! whole arrays, in every run.

use super::rounds::run;
use super::{element, whole};
use ndarray::ArrayD;
use polyshard::prelude::*;
use polyshard::program::NestView;
use polyshard::schedule::Clause;
use polyshard::source::{SourceOptions, rust_source};
use polyshard::text::parse_kernel;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

/// The number of nests in which several transfers reuse one tile.
fn sharing(program: &Program) -> usize {
    let shares = |nest: &NestView<'_>| {
        let tiles: Vec<_> = nest.kept().map(|(_, from)| from).collect();
        tiles.iter().enumerate().any(|(nth, from)| tiles[..nth].contains(from))
    };
    program.nests().filter(shares).count()
}

/// `Y = X * W`, for which the columns of X are gathered, as a program on 2 x 2 ranks.
fn project(mesh: &Mesh) -> Program {
    let [x, y] = mesh.axes();
    vars!(n, k, na, nb, nao, nai, nbo, nbi);
    let project = kernel! {
        fn project(X: [i64; 9, 8], W: [i64; 8, 5]) -> Y: [i64; 9, 5] { Y[m, n] += X[m, k] * W[k, n] }
    };
    let project = project.divide(n, na, nb, 2).distribute([na, nb], [nao, nbo], [nai, nbi], mesh);
    let project = project.shard("X", [k.at(x)]).shard("W", [n.at([x, y])]).shard("Y", [n.at([x, y])]);
    project.lower().expect("a legal schedule")
}

/// The product of rows 1 to 7 of a matrix with each other, and the same for two matrices.
fn grams(mesh: &Mesh) -> [Program; 2] {
    let [x, y] = mesh.axes();
    vars!(i, j, io, jo, ii, ji);
    let gram = kernel! { fn gram(X: [i64; 9, 8]) -> G: [i64; 7, 7] { G[i, j] += X[i + 1, k] * X[j + 1, k] } };
    let inner = kernel! {
        fn inner(X: [i64; 9, 8], Z: [i64; 9, 8]) -> G: [i64; 7, 7] { G[i, j] += X[i + 1, k] * Z[j + 1, k] }
    };
    [gram, inner].map(|kernel| {
        let is_pair = kernel.kernel().expect("a kernel").inputs().len() == 2;
        let kernel = kernel.distribute([i, j], [io, jo], [ii, ji], mesh).shard("X", [dim(1).at(x)]);
        let kernel = if is_pair { kernel.shard("Z", [dim(1).at(x)]) } else { kernel };
        kernel.shard("G", [i.at(x), j.at(y)]).lower().expect("a legal schedule")
    })
}

#[test]
fn two_transfers_of_one_kernel_read_the_tile_of_an_earlier_one() {
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let project = project(&mesh);
    let (a, w) = (whole(0, &[9, 8]), whole(1, &[8, 5]));
    let of = |shape: [usize; 2], sum: &dyn Fn(usize, usize, usize) -> i64| {
        ArrayD::from_shape_fn(&shape[..], |at| (0..8).map(|k| sum(at[0], at[1], k)).sum::<i64>())
    };
    let products = of([9, 5], &|m, n, k| a[[m, k]] * w[[k, n]]);
    let inner = of([7, 7], &|i, j, k| a[[i + 1, k]] * a[[j + 1, k]]);
    for (gram, reads) in grams(&mesh).iter().zip([&["X"][..], &["X", "X"]]) {
        let sequence = Sequence::new().stage(&project, ["X", "W"], "Y").keep("Y").stage(gram, reads.to_vec(), "G");
        let program = sequence.build().expect("stages that fit");
        assert_eq!(sharing(&program), 1, "{program}");
        assert_eq!(run(&program, element), [products.clone(), inner.clone()], "{program}");
        let explained = program.explain();
        let (_, second) = explained.split_once("2. run").expect("a second kernel");
        let kept: Vec<_> =
            second.lines().filter(|line| line.contains("reused from `project`, nothing is sent")).collect();
        assert_eq!(kept.len(), 2, "{explained}");
        let source = rust_source(&program, &SourceOptions::default());
        assert_eq!(source.matches(".reuses(0, TileId(0))").count(), 2, "{source}");
    }
}

/// The result of a kernel of the random sequences, for square matrices A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Product,
    Gram,
    Inner,
    Three,
    Turned,
    Around,
    Shifted,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Product, Self::Gram, Self::Inner, Self::Three, Self::Turned, Self::Around, Self::Shifted];

    /// The number of arrays that it reads.
    fn arity(self) -> usize {
        if self == Self::Gram { 1 } else { 2 }
    }

    /// The greatest power of an element in its result.
    fn degree(self) -> u32 {
        match self {
            Self::Turned | Self::Around => 1,
            Self::Three => 3,
            _ => 2,
        }
    }

    fn statement(self, n: usize) -> String {
        match self {
            Self::Product => "C[i, j] += A[i, k] * B[k, j]".into(),
            Self::Gram => "C[i, j] += A[i, k] * A[j, k]".into(),
            Self::Inner => "C[i, j] += A[k, i] * B[k, j]".into(),
            Self::Three => "C[i, j] += A[i, k] * B[j, k] * A[k, j]".into(),
            Self::Turned => "C[i, j] = 2 * A[j, i] - B[i, j]".into(),
            Self::Around => "C[i, j] = (A[i - 1, j] else 3) - 2 * (B[i, j + 1] else 5) + A[i, j]".into(),
            Self::Shifted => format!("C[i, j] += A[i + 1, k] * B[j + 1, k] for i in 0..{0} for j in 0..{0}", n - 1),
        }
    }

    /// Its result, element by element.
    fn computed(self, a: &ArrayD<i64>, b: &ArrayD<i64>) -> ArrayD<i64> {
        let n = a.shape()[0];
        let sum = |of: &dyn Fn(usize) -> i64| (0..n).map(of).sum::<i64>();
        ArrayD::from_shape_fn(a.shape(), |at| {
            let (i, j) = (at[0], at[1]);
            match self {
                Self::Product => sum(&|k| a[[i, k]] * b[[k, j]]),
                Self::Gram => sum(&|k| a[[i, k]] * a[[j, k]]),
                Self::Inner => sum(&|k| a[[k, i]] * b[[k, j]]),
                Self::Three => sum(&|k| a[[i, k]] * b[[j, k]] * a[[k, j]]),
                Self::Turned => 2 * a[[j, i]] - b[[i, j]],
                Self::Around => {
                    let above = if i == 0 { 3 } else { a[[i - 1, j]] };
                    let right = if j + 1 == n { 5 } else { b[[i, j + 1]] };
                    above - 2 * right + a[[i, j]]
                }
                Self::Shifted if i + 1 < n && j + 1 < n => sum(&|k| a[[i + 1, k]] * b[[j + 1, k]]),
                Self::Shifted => 0,
            }
        })
    }
}

/// A kernel of a random sequence: its result, the arrays that it reads of those that exist, their shardings, and
/// whether ranks in a row divide the rows.
type Stage = (Kind, [usize; 2], usize, bool, bool);

/// The kernel as a program, with inputs in the given shardings.
fn lowered(mesh: &Mesh, n: usize, kind: Kind, by: &[Clause], by_rows: bool) -> Program {
    vars!(i, j, io, jo, ii, ji);
    let inputs: Vec<_> = ["A", "B"][..kind.arity()].iter().map(|name| format!("{name}: [i64; {n}, {n}]")).collect();
    let name = format!("{kind:?}").to_lowercase();
    let text = format!("fn {name}({}) -> C: [i64; {n}, {n}] {{ {} }}", inputs.join(", "), kind.statement(n));
    let kernel = Schedule::from_spec(parse_kernel(&text).expect("a kernel"));
    let kernel = match mesh.ndim() {
        2 => kernel.distribute([i, j], [io, jo], [ii, ji], mesh).shard("C", [i.at("x"), j.at("y")]),
        _ if by_rows => kernel.distribute([i], [io], [ii], mesh).shard("C", [i.at("x")]),
        _ => kernel.distribute([j], [jo], [ji], mesh).shard("C", [j.at("x")]),
    };
    let kernel = ["A", "B"][..kind.arity()].iter().fold(kernel, |kernel, name| kernel.shard(*name, by.to_vec()));
    kernel.lower().unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn kernels_that_reuse_tiles_compute_what_loops_do() {
    // With ranks in a row, one loop is divided, so whole arrays are gathered, which contain everything that later
    // kernels need.
    let mesh = (2..4usize, 1..3usize);
    let array = || prop_oneof![3 => Just(0), 2 => 0..9usize];
    let home = prop::bool::weighted(0.8);
    let stage = (prop::sample::select(&Kind::ALL[..]), [array(), array()], 0..4usize, home, any::<bool>());
    let stages = prop::collection::vec(stage, 2..6);
    let (shared, cases) = (Cell::new(0), 60);
    let mut runner = TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    let law = |((across, along), n, home, stages): ((usize, usize), usize, usize, Vec<Stage>)| {
        let is_line = along == 1;
        let mesh = if is_line { Mesh::new([("x", across)]) } else { Mesh::new([("x", across), ("y", along)]) };
        let square = [vec![dim(0).at("x"), dim(1).at("y")], vec![dim(1).at(["x", "y"])]];
        let lines = [vec![dim(1).at("x")], vec![dim(0).at("x")]];
        let layouts: Vec<_> = lines.into_iter().chain(if is_line { Vec::new() } else { square.to_vec() }).collect();
        // Three initial arrays, and the kernels' outputs.
        let mut names: Vec<String> = ["P", "Q", "R"].map(String::from).to_vec();
        let mut degrees = vec![1; 3];
        let mut reads = Vec::new();
        let mut sequence = Sequence::new();
        for (nth, &(kind, chosen, layout, is_home, by_rows)) in stages.iter().enumerate() {
            let by = &layouts[if is_home { home } else { layout } % layouts.len()];
            let of = chosen.map(|one| one % names.len());
            // Elements stay small enough for sums to be exact.
            let of = of.map(|one| if degrees[one] * kind.degree() > 6 { one % 3 } else { one });
            let read: Vec<&str> = of[..kind.arity()].iter().map(|&one| names[one].as_str()).collect();
            let name = format!("S{nth}");
            sequence = sequence.stage(&lowered(&mesh, n, kind, by, by_rows), read, name.as_str()).keep(name.as_str());
            degrees.push(kind.degree() * of[..kind.arity()].iter().map(|&one| degrees[one]).max().unwrap_or(1));
            names.push(name);
            reads.push(of);
        }
        let program = sequence.build().expect("stages that fit");
        shared.set(shared.get() + sharing(&program));
        // Inputs are numbered as the program lists them.
        let given = |name: &String| program.inputs().position(|input| input.name.as_str() == name);
        let mut arrays: Vec<_> = names[..3].iter().map(|name| whole(given(name).unwrap_or(0), &[n, n])).collect();
        for ((kind, ..), [a, b]) in stages.iter().zip(&reads) {
            arrays.push(kind.computed(&arrays[*a], &arrays[*b]));
        }
        prop_assert_eq!(run(&program, element), &arrays[3..], "{}", program.explain());
        Ok(())
    };
    let sequences = (mesh, 1..8usize, 0..4usize, stages);
    // Few random sequences share a tile: about one in fifty.
    const ROUNDS: u32 = 20;
    for _ in 0..ROUNDS {
        runner.run(&sequences, law).unwrap_or_else(|error| panic!("{error}"));
        if shared.get() > 3 {
            return;
        }
    }
    panic!("{} of {} sequences share a tile", shared.get(), ROUNDS * cases);
}
