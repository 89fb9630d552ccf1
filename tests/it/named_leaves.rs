//! Leaves that users register: programs that call them give the sequential result, executed and emitted, for all
//! element types; a leaf that is missing or of another type or meaning is refused on all ranks.

use ndarray::{ArrayD, ArrayView2, ArrayViewD, ArrayViewMutD, Ix2, IxDyn};
use polyshard::leaf::register;
use polyshard::prelude::*;
use polyshard::program::Kernel;
use polyshard::schedule::Trace;
use polyshard::text::parse_kernel;
use polyshard_testing::filled::{run_into, sequential};
#[cfg(feature = "mpi")]
use polyshard_testing::start::{Start, run};

/// `C[m, n] += A[m, k] * B[k, n]`, in a plain loop.
fn product<T: Element>(c: ArrayViewMutD<'_, T>, [a, b]: [ArrayViewD<'_, T>; 2]) {
    scaled(c, [ArrayViewD::from_shape(IxDyn(&[]), &[T::ONE]).expect("one element"), a, b]);
}

/// `C[m, n] += alpha * A[m, k] * B[k, n]`.
fn scaled<T: Element>(c: ArrayViewMutD<'_, T>, [alpha, a, b]: [ArrayViewD<'_, T>; 3]) {
    let mut c = c.into_dimensionality::<Ix2>().expect("a tile of C has two dimensions");
    let (a, b) = (matrix(a), matrix(b));
    for ((m, n), c) in c.indexed_iter_mut() {
        *c = (0..a.ncols()).fold(*c, |sum, k| sum.add(alpha[[]].multiply(a[[m, k]]).multiply(b[[k, n]])));
    }
}

/// The kernel of a leaf over elements `T`.
fn computes<T: Element>(text: &str) -> Kernel {
    let text = format!("fn leaf{}", text.replace("[T;", &format!("[{};", T::DTYPE.name())));
    parse_kernel(&text).expect("a text without mistakes").check().expect("a kernel")
}

fn matrix<T>(tile: ArrayViewD<'_, T>) -> ArrayView2<'_, T> {
    tile.into_dimensionality().expect("a tile of a matrix has two dimensions")
}

/// Small enough for sums of floats to be exact.
fn element<T: Element>(tensor: usize, index: &[usize]) -> T {
    let sum: usize = index.iter().zip([7, 3, 5]).map(|(i, factor)| i * factor).sum::<usize>() + 4 * tensor;
    num_traits::NumCast::from((sum % 11) as i64 - 5).expect("a small integer is of every type")
}

/// Checks that the program needs a leaf with this meaning, and gives the sequential result.
#[track_caller]
fn check<T: Element>(schedule: &Schedule, statement: &str) {
    let program = schedule.lower().expect("a legal schedule");
    let needs = format!(", to be registered as {statement}\n");
    assert!(program.explain().contains(&needs), "{statement}: {}", program.explain());
    assert!(program.to_string().contains(&format!(": {statement}\n")), "{program}");
    assert_eq!(run_into::<T>(&program, element), sequential(&program, true, element), "{program}");
}

fn summa(matmul: Schedule, mesh: &Mesh) -> Schedule {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let [x, y] = mesh.axes();
    matmul
        .distribute([m, n], [mo, no], [mi, ni], mesh)
        .divide(k, ko, ki, 3)
        .reorder([mo, no, ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko)
        .tensorize_with([mi, ni, ki], "product")
}

const PRODUCT: &str = "C[m, n] += A[m, k] * B[k, n]";

fn register_product<T: Element>() {
    let kernel = computes::<T>("(A: [T; 1, 1], B: [T; 1, 1]) -> C: [T; 1, 1] { C[m, n] += A[m, k] * B[k, n] }");
    register("product", &kernel, product::<T>).expect("a leaf");
}

const SCALED: &str =
    "(alpha: [T;], A: [T; 1, 1], B: [T; 1, 1]) -> C: [T; 1, 1] { C[m, n] += alpha[] * A[m, k] * B[k, n] }";

const COPY: &str = "(A: [T; 1]) -> C: [T; 1] { C[i] += A[i] }";

macro_rules! products {
    ($($name:ident $type:ident)*) => {$(
        #[test]
        fn $name() {
            register_product::<$type>();
            // More ranks than rows, nothing to sum, and empty arrays.
            for (rows, columns, depth) in [(7, 5, 11), (8, 6, 12), (1, 3, 2), (4, 4, 0), (0, 3, 5)] {
                for mesh in [[1, 1], [2, 2], [3, 2]] {
                    let matmul = kernel! {
                        fn matmul(A: [$type; rows, depth], B: [$type; depth, columns]) -> C: [$type; rows, columns] {
                            C[m, n] += A[m, k] * B[k, n]
                        }
                    };
                    let mesh = Mesh::new([("x", mesh[0]), ("y", mesh[1])]);
                    check::<$type>(&summa(matmul, &mesh), PRODUCT);
                }
            }
        }
    )*};
}
products! { products_of_f32 f32 products_of_f64 f64 products_of_i32 i32 products_of_i64 i64 }

/// The compiled form: emitted source that looks up the leaf when it runs.
mod compiled {
    polyshard::kernel! {
        pub fn floats(A: [f64; 7, 11], B: [f64; 11, 5]) -> C: [f64; 7, 5] { C[m, n] += A[m, k] * B[k, n] }
        mesh(x: 3, y: 2)
        .distribute([m, n], [mo, no], [mi, ni])
        .divide(k, ko, ki, 4)
        .reorder([ko, mi, ni, ki])
        .shard(A, m @ x, k @ y)
        .shard(B, k @ x, n @ y)
        .shard(C, m @ x, n @ y)
        .communicate(A, ko)
        .communicate(B, ko)
        .tensorize_with([mi, ni, ki], product)
    }

    polyshard::kernel! {
        pub fn integers(A: [i32; 5, 9], B: [i32; 9, 6]) -> C: [i32; 5, 6] { C[m, n] = alpha * A[m, k] * B[k, n] }
        mesh(z: 4)
        .distribute([k], [ko], [ki])
        .shard(A, k @ z)
        .shard(B, k @ z)
        .shard(C, m @ z)
        .tensorize_with([m, n, ki], scaled)
    }

    polyshard::kernel! {
        pub fn nobody(A: [f64; 4]) -> C: [f64; 4] { C[i] += A[i] }
        .tensorize_with([i], nobody)
    }
}

/// A product on six ranks, threads or processes, executed and emitted: the same bits, and the sequential result.
fn product_on_six_ranks() {
    register_product::<f64>();
    let program = compiled::floats::schedule().lower().expect("a legal schedule");
    let found = polyshard::spmd(6, |world| {
        let a = DistArray::from_fn(world, &compiled::floats::sharding_a(), |at| element::<f64>(0, at))?;
        let b = DistArray::from_fn(world, &compiled::floats::sharding_b(), |at| element::<f64>(1, at))?;
        let emitted = compiled::floats::run(world, &a, &b)?;
        assert!(emitted.block() == program.run(world, &[&a, &b])?.block(), "source and executor differ");
        Ok(emitted.gather(world)?)
    });
    let found: Vec<_> = found.expect("the program runs").into_iter().flatten().collect();
    let sum = |at: &[usize], k: usize| element::<f64>(0, &[at[0], k]) * element::<f64>(1, &[k, at[1]]);
    let expected = ArrayD::from_shape_fn(IxDyn(&[7, 5]), |at| (0..11).map(|k| sum(&[at[0], at[1]], k)).sum::<f64>());
    if !found.is_empty() {
        assert_eq!(found, [expected]);
        println!("the products agree");
    }
}

#[cfg(feature = "mpi")]
#[test]
#[ignore = "for processes: the next test starts it"]
fn one_of_six_processes() {
    product_on_six_ranks();
}

#[cfg(feature = "mpi")]
#[test]
fn leaves_are_called_on_processes_as_on_threads() {
    let this = std::env::current_exe().expect("a test knows its path");
    let arguments = ["--ignored", "--exact", "named_leaves::one_of_six_processes", "--nocapture"];
    let ended = run(Start::Mpi(6), &this, &arguments, std::time::Duration::from_secs(60));
    assert!(ended.success, "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stdout.matches("the products agree").count(), 1, "{}", ended.stdout);
}

#[test]
fn emitted_source_calls_the_leaf() {
    product_on_six_ranks();
    register("scaled", &computes::<i32>(SCALED), scaled::<i32>).expect("a leaf");
    let integers = polyshard::spmd(4, |world| {
        let a = DistArray::from_fn(world, &compiled::integers::sharding_a(), |at| element::<i32>(0, at))?;
        let b = DistArray::from_fn(world, &compiled::integers::sharding_b(), |at| element::<i32>(1, at))?;
        Ok(compiled::integers::run(world, &a, &b, -3)?.gather(world)?)
    });
    let sum = |at: &[usize], k: usize| -3 * element::<i32>(0, &[at[0], k]) * element::<i32>(1, &[k, at[1]]);
    let expected = ArrayD::from_shape_fn(IxDyn(&[5, 6]), |at| (0..9).map(|k| sum(&[at[0], at[1]], k)).sum::<i32>());
    assert_eq!(integers.expect("the program runs")[0], Some(expected));
}

#[test]
fn scalars_are_operands_and_any_transposition_is_a_matter_of_strides() {
    register("scaled", &computes::<f32>(SCALED), scaled::<f32>).expect("a leaf");
    vars!(m, n, k);
    let mesh = Mesh::new([("x", 3)]);
    let [x] = mesh.axes();
    let beta = 0.5f32;
    let kernel = kernel! {
        fn transposed(A: [f32; 9, 7], B: [f32; 5, 9]) -> C: [f32; 5, 7] { C[n, m] = beta * A[k, m] * B[n, k] }
    };
    let schedule = kernel
        .distribute([m], ["mo"], ["mi"], &mesh)
        .shard("A", [m.at(x)])
        .shard("B", [k.at(x)])
        .shard("C", [m.cyclic(x, 2)])
        .tensorize_with([n, Var::new("mi"), k], "scaled");
    check::<f32>(&schedule, "C[n, m] += beta * A[k, m] * B[n, k]");
    let program = schedule.lower().expect("a legal schedule");
    let runs = polyshard::spmd(3, |world| {
        let ones = program.shardings().take(2).map(|sharding| DistArray::filled(world, sharding, 1.0f32));
        let ones = ones.collect::<polyshard::runtime::Result<Vec<_>>>()?;
        let run = |beta| program.run_with(world, &[&ones[0], &ones[1]], &[("beta", beta)]);
        Ok([run(2.0)?.block()[0], run(-1.0)?.block()[0]])
    });
    assert_eq!(runs.expect("the program runs")[0], [18.0, -9.0]);
}

#[test]
fn windows_are_tiles_that_overlap() {
    let filter = computes::<i64>("(x: [T; 1, 1], w: [T; 1]) -> y: [T; 1] { y[i] += x[i, r] * w[r] }");
    register("filter", &filter, |mut y: ArrayViewMutD<'_, i64>, [x, w]: [ArrayViewD<'_, i64>; 2]| {
        for ((i, r), x) in matrix(x).indexed_iter() {
            y[[i]] += x * w[[r]];
        }
    })
    .expect("a leaf");
    vars!(i, r);
    let mesh = Mesh::new([("p", 4)]);
    let [p] = mesh.axes();
    let kernel = kernel! {
        fn filter(x: [i64; 19], w: [i64; 3]) -> y: [i64; 9] { y[i] += x[2*i + r] * w[r] }
    };
    let schedule = kernel
        .distribute([i], ["io"], ["ii"], &mesh)
        .shard("x", [dim(0).at(p)])
        .shard("y", [i.at(p)])
        .tensorize_with([Var::new("ii"), r], "filter");
    check::<i64>(&schedule, "y[i] += x[i, r] * w[r]");
    // Indices that run backwards.
    let kernel = kernel! {
        fn reversed(x: [i64; 11], w: [i64; 3]) -> y: [i64; 9] { y[8 - i] += x[10 - i - r] * w[2 - r] for i in 0..9 for r in 0..3 }
    };
    let schedule = kernel.distribute([i], ["io"], ["ii"], &mesh).tensorize_with([Var::new("ii"), r], "filter");
    check::<i64>(&schedule, "y[i] += x[i, r] * w[r]");
}

#[test]
fn accesses_of_one_tensor_are_tiles_of_their_own() {
    register_product::<f64>();
    vars!(i, j, k);
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let syrk = kernel! { fn syrk(A: [f64; 7, 5]) -> C: [f64; 7, 7] { C[i, j] += A[i, k] * A[j, k] } };
    let schedule = syrk
        .distribute([i, j], ["io", "jo"], ["ii", "ji"], &mesh)
        .shard("A", [i.at(x), k.at(y)])
        .shard("C", [i.at(x), dim(1).at(y)])
        .tensorize_with(["ii", "ji", "k"], "product");
    check::<f64>(&schedule, "C[i, j] += A[i, k] * A_[j, k]");

    let square = |mut y: ArrayViewMutD<'_, f64>, [x, next]: [ArrayViewD<'_, f64>; 2]| {
        y.zip_mut_with(&(&x * &x - &next), |y, term| *y += term);
    };
    let kernel = computes::<f64>("(x: [T; 1], next: [T; 1]) -> y: [T; 1] { y[i] += x[i] * x[i] - next[i] }");
    register("square", &kernel, square).expect("a leaf");
    let stencil = kernel! { fn stencil(x: [f64; 9]) -> y: [f64; 8] { y[i] = x[i] * x[i] - x[i + 1] for i in 0..8 } };
    let halves = Mesh::new([("x", 3)]);
    let [x] = halves.axes();
    let schedule = stencil
        .distribute([i], ["io"], ["ii"], &halves)
        .shard("x", [dim(0).at(x)])
        .shard("y", [i.at(x)])
        .tensorize_with(["ii"], "square");
    check::<f64>(&schedule, "y[i] += x[i] * x[i] - x_[i]");
    let _ = j;
}

#[test]
fn loops_outside_of_the_leaf_have_no_dimension() {
    register_product::<i64>();
    vars!(b, m, n, k);
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    let batched = kernel! {
        fn batched(A: [i64; 5, 4, 3], B: [i64; 5, 3, 6]) -> C: [i64; 5, 4, 6] { C[b, m, n] += A[b, m, k] * B[b, k, n] }
    };
    let schedule = batched
        .distribute([b], ["bo"], ["bi"], &mesh)
        .shard("A", [b.at(x)])
        .shard("B", [b.at(x)])
        .shard("C", [b.at(x)])
        .tensorize_with([m, n, k], "product");
    check::<i64>(&schedule, "C[m, n] += A[m, k] * B[k, n]");
}

#[test]
fn other_operations_and_functions_are_compared_as_they_are_written() {
    let distance = |mut y: ArrayViewMutD<'_, f64>, [a, s]: [ArrayViewD<'_, f64>; 2]| {
        for ((i, _), a) in matrix(a).indexed_iter() {
            y[[i]] = y[[i]].max(if *a < 0.0 { -1.5 } else { (a - s[[]]).abs() });
        }
    };
    let s = 0.25;
    let schedule = kernel! {
        fn leaf(A: [f64; 2, 2]) -> y: [f64; 2] { y[i] max= if A[i, k] < 0.0 { -1.5 } else { abs(A[i, k] - s) } }
    };
    register("distance", schedule.kernel().expect("a kernel"), distance).expect("a leaf");
    vars!(i, k);
    let mesh = Mesh::new([("x", 2), ("z", 2)]);
    let [x, z] = mesh.axes();
    let kernel = kernel! {
        fn distance(A: [f64; 5, 7], s: [f64;]) -> y: [f64; 5] {
            y[i] max= if A[i, k] < 0 { -1.5 } else { abs(A[i, k] - s[]) }
        }
    };
    let schedule = kernel
        .distribute([i, k], ["io", "ko"], ["ii", "ki"], &mesh)
        .shard("A", [i.at(x), k.at(z)])
        .shard("y", [i.at(x)])
        .tensorize_with(["ii", "ki"], "distance");
    check::<f64>(&schedule, "y[i] max= if A[i, k] < 0 { -1.5 } else { abs(A[i, k] - s[]) }");
}

fn copy() -> Schedule {
    let copy = kernel! { fn copy(A: [f64; 4]) -> C: [f64; 4] { C[i] = A[i] } };
    let mesh = Mesh::new([("x", 2)]);
    let [x] = mesh.axes();
    copy.distribute(["i"], ["io"], ["ii"], &mesh).shard("A", [dim(0).at(x)]).shard("C", [dim(0).at(x)])
}

/// The errors of all ranks when the program runs, which leaves the output unchanged.
fn refusals(schedule: &Schedule) -> Vec<String> {
    let program = schedule.lower().expect("a legal schedule");
    let told = polyshard::spmd(2, |world| {
        let a = DistArray::filled(world, program.sharding("A"), 1.0)?;
        let mut c = DistArray::filled(world, program.sharding("C"), 7.0)?;
        let error = program.run_into(world, &[&a], &mut c).expect_err("there is no such leaf");
        assert_eq!(c.block(), [7.0, 7.0]);
        assert!(program.run(world, &[&a]).is_err());
        Ok(error.to_string())
    });
    told.expect("all ranks return")
}

#[test]
fn a_leaf_that_is_not_registered_is_refused_on_all_ranks() {
    register("of_integers", &computes::<i32>(COPY), |_: ArrayViewMutD<'_, i32>, _: [ArrayViewD<'_, i32>; 1]| {})
        .expect("a leaf");
    // Tests share registered leaves: one for f64 is named, whichever test runs first.
    register("of_floats", &computes::<f64>(COPY), |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 1]| {})
        .expect("a leaf");
    for (name, found) in
        [("absent", "; the registered leaves are"), ("of_integers", "; it is registered for i32: call")]
    {
        let told = refusals(&copy().tensorize_with(["ii"], name));
        let start = format!("no leaf `{name}` for f64{found}");
        let end = format!(
            "call `leaf::register(\"{name}\", &kernel, function)`, where the kernel is `C[i] += A[i]`, before the \
             program runs, in each rank's process"
        );
        assert!(told[0].starts_with(&start) && told[0].contains(&end), "{}", told[0]);
        assert_eq!(told[0], told[1]);
    }
    let told = polyshard::spmd(1, |world| {
        let a = DistArray::filled(world, &compiled::nobody::sharding_a(), 1.0)?;
        Ok(compiled::nobody::run(world, &a)?.block().len())
    });
    let told = told.expect_err("there is no such leaf").to_string();
    assert!(told.starts_with("rank 0: no leaf `nobody` for f64"), "{told}");
}

#[test]
fn a_leaf_that_computes_something_else_is_refused_on_all_ranks() {
    let twice = |mut c: ArrayViewMutD<'_, f64>, [a]: [ArrayViewD<'_, f64>; 1]| c.scaled_add(2.0, &a);
    register("twice", &computes::<f64>(&COPY.replace("= ", "= 2 * ")), twice).expect("a leaf");
    let message = "leaf `twice` is registered for f64 as `C[i] += 2 * A[i]`, but the kernel needs `C[i] += A[i]`: \
                   register a leaf that computes this, or tensorize with another";
    for told in refusals(&copy().tensorize_with(["ii"], "twice")) {
        assert!(told.starts_with(&format!("{message}\n  --> {}:", file!())), "{told}");
    }
}

#[test]
fn a_sequence_asks_for_all_leaves_before_it_runs() {
    let called = |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 1]| panic!("the first stage has run");
    register("called", &computes::<f64>(COPY), called).expect("a leaf");
    let [first, second] = ["called", "forgotten"].map(|leaf| copy().tensorize_with(["ii"], leaf));
    let [first, second] = [first, second].map(|schedule| schedule.lower().expect("a legal schedule"));
    let chain = Sequence::new().stage(&first, ["A"], "B").stage(&second, ["B"], "C").build().expect("stages that fit");
    let told = polyshard::spmd(2, |world| {
        let a = DistArray::filled(world, first.sharding("A"), 1.0)?;
        Ok(chain.run(world, &[&a]).expect_err("a leaf is missing").to_string())
    });
    for told in told.expect("all ranks return") {
        assert!(told.starts_with("no leaf `forgotten` for f64; "), "{told}");
    }
}

#[test]
fn a_leaf_that_panics_ends_all_ranks() {
    let broken = |_: ArrayViewMutD<'_, f64>, _: [ArrayViewD<'_, f64>; 1]| panic!("the leaf is broken");
    register("broken", &computes::<f64>(COPY), broken).expect("a leaf");
    let program = copy().communicate("A", "io").tensorize_with(["ii"], "broken").lower().expect("a legal schedule");
    let ended = polyshard::spmd(2, |world| {
        let a = DistArray::filled(world, program.sharding("A"), 1.0)?;
        Ok(program.run(world, &[&a])?.block().len())
    });
    assert_eq!(ended.expect_err("a panic").to_string(), "rank 0 panicked: the leaf is broken");
}

#[test]
fn tiles_that_cannot_be_are_refused_at_the_step() {
    #[track_caller]
    fn check_refused(schedule: &Schedule, message: &str) {
        assert_eq!(schedule.lower().expect_err("an illegal schedule").kind().to_string(), message);
    }
    vars!(i, r, q, m, n, k);
    let scatter = kernel! { fn scatter(A: [f32; 4], w: [f32; 3]) -> C: [f32; 6] { C[i + r] += A[i] * w[r] } };
    check_refused(
        &scatter.clone().tensorize_with([i, r], "leaf"),
        "leaf `leaf` cannot run here: elements of its output tile would overlap, since `i` and `r` move `C[i + r]` along one \
         dimension; keep all but one of them outside the leaf",
    );
    assert!(scatter.tensorize_with([r], "leaf").lower().is_ok());
    let mut repeated = polyshard_testing::example::matmul(4, 4, 4);
    repeated.ranges.push((q.into(), 0..3));
    check_refused(
        &Schedule::from_spec(repeated).reorder([m, n, k, q]).tensorize_with([k, q], "leaf"),
        "leaf `leaf` cannot run here: `q` indexes no tensor, so no tile has a dimension for it; keep it outside the leaf",
    );
    check_refused(
        &copy().tensorize_with(["ii"], "my leaf"),
        "`my leaf` is not a name for a leaf; names are letters, digits and `_`, and do not start with a digit",
    );
    check_refused(
        &copy().tensorize_with(["ii"], "one").tensorize_with(["ii"], "two"),
        "there is already a leaf in step 4; remove one of the two",
    );
}

#[test]
fn traces_keep_the_name() {
    let schedule = copy().tensorize_with(["ii"], "product");
    let trace = schedule.trace().expect("a kernel");
    assert!(trace.to_string().ends_with("tensorize_with([ii], product)\n"), "{trace}");
    let text = serde_json::to_string(&trace).expect("a trace is plain data");
    assert!(text.contains(r#""tensorize_with([ii], product)"]"#), "{text}");
    let read: Trace = serde_json::from_str(&text).expect("what was written");
    assert_eq!(read.replay(), schedule);
    assert_eq!(
        read.replay().lower().expect("a legal schedule").to_string(),
        schedule.lower().expect("legal").to_string()
    );
}
