//! A crate outside this repository, which depends on `polyshard` by path alone: the README's program, a stencil,
//! kernels compiled with the crate, and emitted source, with any names. It builds and gives the right numbers, and
//! random programs, as source, give the same bits as the executor. A second crate, which also has `clap`, builds each
//! example alone, and one that has `rustfft` as well the Fourier transform.
//!
//! It is built into this workspace's target folder, with its lock file and profiles, and together with an empty crate
//! that enables the features that the tests of this workspace enable in their dependencies, so that common dependencies
//! are built once. Cargo builds the packages of this workspace again for another one; the largest is not optimised,
//! which is faster. `tests/outside/program.rs` is its program.
//!
//! This test is a program of its own: it starts cargo, which leaves no processor for other tests.

#[path = "outside/chosen.rs"]
mod chosen;
#[path = "outside/emitted.rs"]
mod emitted;
#[path = "outside/mistakes.rs"]
mod mistakes;

use polyshard::layout::Name;
use polyshard::prelude::*;
use polyshard::program::{Access, Affine, Assign, KernelSpec, LeafKind, Number, Value};
use polyshard::runtime::{NpyFile, reference};
use polyshard::source::{SourceOptions, rust_main, rust_source};
use polyshard_testing::start::{Ended, Start, run};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A workspace outside this repository, a different one for each checkout, built into the target folder of this one.
struct Workspace {
    folder: PathBuf,
}

impl Workspace {
    /// Writes the workspace of a package, with this manifest without the common parts, and these members.
    fn new(name: &str, manifest: &str, members: &[&str]) -> Self {
        let checkout = ROOT.replace(['/', '\\', ':'], "-");
        let workspace = Self { folder: std::env::temp_dir().join(format!("polyshard-{name}{checkout}")) };
        let own = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).expect("the manifest");
        let profile = |name: &&str| format!("[profile.dev.package.{name}]\nopt-level = 0\ndebug = false\n\n");
        let ours: String = members.iter().chain([&name]).map(profile).collect();
        let members = [&["features"][..], members].concat();
        let manifest = format!(
            "{manifest}\n[workspace]\nmembers = {members:?}\n\n{}\n{ours}\
             [profile.dev.package.polyshard-runtime]\nopt-level = 0\n",
            profiles(&own),
        );
        workspace.write("Cargo.toml", &manifest);
        workspace.write("features/Cargo.toml", &features_manifest());
        workspace.write("features/src/lib.rs", "");
        fs::copy(Path::new(ROOT).join("Cargo.lock"), workspace.folder.join("Cargo.lock")).expect("the lock file");
        workspace
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a temporary folder");
        fs::write(path, text).expect("a temporary file");
    }

    /// Runs `cargo build` with these arguments.
    fn build(&self, arguments: &[&str]) -> Output {
        let mut cargo = cargo();
        cargo.arg("build").args(arguments).arg("--target-dir").arg(target()).current_dir(&self.folder);
        cargo.output().unwrap_or_else(|error| panic!("{cargo:?}: {error}"))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // If the test has failed, the workspace is left for inspection.
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.folder).expect("the folder is ours");
        }
    }
}

/// The target folder of this workspace.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder")
}

/// The head of a manifest, up to its dependencies, of which the first is the library.
fn package(name: &str) -> String {
    // Without MPI in this build, the other crate has none to link.
    let features = if cfg!(feature = "mpi") { "" } else { ", default-features = false" };
    format!(
        "[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\npolyshard = {{ path = {ROOT:?}{features} }}\n"
    )
}

/// Writes the crate, with these additional files.
fn write_crate(more: &[(String, String)]) -> Workspace {
    let workspace = Workspace::new("outside", &package("outside"), &["examples", "fft3d"]);
    let write = |path: &str, text: &str| workspace.write(path, text);
    let clap = "clap = { version = \"4\", features = [\"derive\"] }\n";
    // They are compiled unchanged and not linked, which would double the time.
    let example = |name: &str, path: &Path| {
        format!("\n[[example]]\nname = \"outside_{name}\"\npath = {path:?}\ncrate-type = [\"lib\"]\n")
    };
    let examples: String = examples().iter().map(|(name, path)| example(name, path)).collect();
    write("examples/Cargo.toml", &format!("{}{clap}{examples}", package("examples")));
    write("examples/src/lib.rs", "");
    let transform = example("fft3d", &Path::new(ROOT).join("examples/fft3d/main.rs"));
    write("fft3d/Cargo.toml", &format!("{}{clap}rustfft = \"6\"\n{transform}", package("fft3d")));
    write("fft3d/src/lib.rs", "");
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).expect("the README");
    more.iter().for_each(|(path, text)| write(path, text));
    write("src/bin/readme.rs", first_program(&readme));
    write("src/main.rs", include_str!("outside/program.rs"));
    let [_, (_, computed)] = rust_main(&chain());
    write("src/bin/computed.rs", &computed);
    write("src/bin/chosen.rs", &chosen::source(&workspace.folder));
    write("src/emitted.rs", &format!("#![allow(dead_code)]\n{}", rust_source(&summa(), &SourceOptions::default())));
    let mut check = String::from("use polyshard::prelude::*;\n\n");
    let mut calls = String::new();
    for (number, names) in name_sets().iter().enumerate() {
        let module = format!("set{number}");
        let source = rust_source(&named(names), &SourceOptions::default());
        write(&format!("src/named/{module}.rs"), &format!("#![allow(dead_code)]\n{source}"));
        let shardings = source.lines().filter_map(|line| line.strip_prefix("pub fn sharding_")?.split('(').next());
        let shardings: Vec<_> = shardings.map(|name| format!("{module}::sharding_{name}()")).collect();
        check += &format!("mod {module};\n");
        calls += &format!("    one(&{names:?}, [{}], {module}::run)?;\n", shardings.join(", "));
    }
    write(
        "src/named/mod.rs",
        &format!("{check}\n{NAMED}\npub fn check() -> polyshard::Result<()> {{\n{calls}    Ok(())\n}}\n"),
    );
    workspace
}

/// The single-file examples, each with its name and path.
fn examples() -> Vec<(String, PathBuf)> {
    let files =
        fs::read_dir(Path::new(ROOT).join("examples")).expect("the examples").map(|file| file.expect("a file").path());
    let sources = files.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let named = sources.map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), path));
    let mut named: Vec<_> = named.collect();
    named.sort();
    assert!(named.len() > 10, "hardly an example: {named:?}");
    named
}

/// The check of one program of [`named`]: its numbers do not depend on its names.
const NAMED: &str = r#"
type Run = fn(&World, &DistArray<i64>, &DistArray<i64>, i64) -> polyshard::runtime::Result<DistArray<i64>>;

fn one(names: &[&str], [a, b, c]: [Sharding; 3], run: Run) -> polyshard::Result<()> {
    let found = polyshard::spmd(4, |world| {
        let a = DistArray::from_fn(world, &a, |i| 8 * i[0] as i64 + i[1] as i64)?;
        let b = DistArray::from_fn(world, &b, |i| i[0] as i64 - 3 * i[1] as i64)?;
        let found = run(world, &a, &b, 7)?;
        assert_eq!(found.sharding(), &c);
        Ok(found.gather(world)?)
    })?;
    let found = found.into_iter().flatten().next().expect("rank 0 gathers");
    for ((i, j), value) in (0..9).flat_map(|i| (0..5).map(move |j| (i, j))).zip(&found) {
        let sum: i64 = (0..8).map(|k| 7 * (8 * (i - 1) + k) * (k - 3 * j)).sum();
        assert_eq!(*value, if (1..7).contains(&i) { sum } else { 0 }, "{names:?} at {i}, {j}");
    }
    Ok(())
}
"#;

/// The manifest of a crate with the dependencies of this workspace and of its tests, and their features.
fn features_manifest() -> String {
    let metadata = output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]).current_dir(ROOT));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("metadata in JSON");
    let mut wanted: BTreeMap<&str, (&str, BTreeSet<&str>, bool)> = BTreeMap::new();
    let packages = metadata["packages"].as_array().expect("packages");
    for dependency in packages.iter().flat_map(|package| package["dependencies"].as_array().expect("dependencies")) {
        if dependency["path"].is_string() || dependency["optional"] == true || dependency["kind"] == "build" {
            continue;
        }
        let text = |key: &str| dependency[key].as_str().expect("a text");
        let (_, features, default) = wanted.entry(text("name")).or_insert((text("req"), BTreeSet::new(), false));
        let more = dependency["features"].as_array().expect("features");
        features.extend(more.iter().filter_map(|feature| feature.as_str()));
        *default |= dependency["uses_default_features"] == true;
    }
    let lines = wanted.iter().map(|(name, (version, features, default))| {
        let features: Vec<_> = features.iter().collect();
        format!("{name} = {{ version = {version:?}, features = {features:?}, default-features = {default} }}\n")
    });
    let lines: String = lines.collect();
    format!("[package]\nname = \"features\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n{lines}")
}

/// The sections of a manifest that control compilation.
fn profiles(manifest: &str) -> String {
    let sections = manifest.split_inclusive('\n').scan(false, |inside, line| {
        if line.starts_with('[') {
            *inside = line.starts_with("[profile");
        }
        Some(if *inside { line } else { "" })
    });
    sections.collect()
}

/// The first block of Rust in a document.
fn first_program(document: &str) -> &str {
    let (_, rest) = document.split_once("```rust").expect("a program");
    let (_, program) = rest.split_once('\n').expect("a line");
    program.split("```").next().expect("an end")
}

fn summa() -> Program {
    vars!(m, n, k, mo, mi, no, ni, ko, ki);
    let matmul = kernel! {
        fn matmul(A: [f64; 6, 8], B: [f64; 8, 5]) -> C: [f64; 6, 5] { C[m, n] += A[m, k] * B[k, n] }
    };
    let mesh = Mesh::new([("x", 2), ("y", 2)]);
    let [x, y] = mesh.axes();
    let schedule = matmul
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, 2)
        .reorder([mo, no, ko, mi, ni, ki])
        .shard("A", [m.at(x), k.at(y)])
        .shard("B", [k.at(x), n.at(y)])
        .shard("C", [m.at(x), n.at(y)])
        .communicate("A", ko)
        .communicate("B", ko)
        .tensorize([mi, ni, ki]);
    schedule.lower().expect("a legal schedule")
}

/// Two products in sequence, with a move between them.
fn chain() -> Program {
    vars!(m, n, mo, mi, no, ni);
    let mesh = Mesh::new([("d", 2)]);
    let [d] = mesh.axes();
    let first = kernel! {
        fn first(X: [f64; 7, 5], W: [f64; 5, 6]) -> Y: [f64; 7, 6] { Y[m, n] += X[m, k] * W[k, n] }
    };
    let first = first.distribute([n], [no], [ni], &mesh).shard("W", [n.at(d)]).shard("Y", [n.at(d)]);
    let second = kernel! {
        fn second(Y: [f64; 7, 6], V: [f64; 6, 4]) -> Z: [f64; 7, 4] { Z[m, n] = Y[m, k] * V[k, n] }
    };
    let second = second.distribute([m], [mo], [mi], &mesh).shard("Y", [m.at(d)]).shard("Z", [m.at(d)]);
    let [first, second] = [first, second].map(|schedule| schedule.lower().expect("a legal schedule"));
    let sequence = Sequence::new().stage(&first, ["X", "W"], "Y").stage(&second, ["Y", "V"], "Z");
    sequence.build().expect("kernels that fit")
}

/// The names of two axes, two loops, three tensors and a scalar.
const ROLES: usize = 8;

/// `C[m + 1, n] = alpha * A[m, k] * B[k, n]` on a mesh of 2x2, with a broadcast, groups of one and of both axes, and an
/// output that is sent to its owners.
fn named(names: &[String; ROLES]) -> Program {
    let [p, q, ko, ki, a, b, c, alpha] = names.each_ref().map(|name| Name::new(name));
    let [m, n, k, mo, mi, no, ni] = ["m_", "n_", "k_", "mo_", "mi_", "no_", "ni_"].map(Var::new);
    let at = |var: Var| Affine::new([(Name::from(var), 1)], 0);
    let access = |tensor, index: [Var; 2]| Access::new(tensor, index.map(at).to_vec());
    let product = |left, right| Value::Mul(Box::new(left), Box::new(right));
    let scaled = product(Value::Scalar(alpha), Value::Access(access(a, [m, k])));
    let mut target = access(c, [m, n]);
    target.index[0].constant = 1;
    let spec = KernelSpec {
        name: Name::new("named"),
        dtype: DType::I64,
        inputs: vec![(a, vec![6, 8]), (b, vec![8, 5])],
        output: (c, vec![9, 5]),
        ranges: vec![],
        scalars: vec![(alpha, Number::Int(1))],
        moduli: Vec::new(),
        target,
        assign: Assign::Set,
        value: product(scaled, Value::Access(access(b, [k, n]))),
    };
    let mesh = Mesh::new([(p.as_str(), 2), (q.as_str(), 2)]);
    let [x, y] = mesh.axes();
    let [ko, ki] = [ko, ki].map(|name| Var::new(name.as_str()));
    let schedule = Schedule::from_spec(spec)
        .distribute([m, n], [mo, no], [mi, ni], &mesh)
        .divide(k, ko, ki, 2)
        .reorder([mo, no, ko, mi, ni, ki])
        .shard(a.as_str(), [m.at(x), k.at(y)])
        .shard(b.as_str(), [k.at([x, y])])
        .shard(c.as_str(), [dim(0).at(x), n.at(y)])
        .communicate(a.as_str(), ko)
        .tensorize_as([mi, ni, ki], LeafKind::Nest);
    schedule.lower().unwrap_or_else(|error| panic!("{names:?}: {error}"))
}

/// Names of every kind: those that emitted code uses itself, keywords, names that patterns would take for constants,
/// and names that differ only in case.
fn name_sets() -> Vec<[String; ROLES]> {
    let plain = ["p", "q", "ko", "ki", "A", "B", "C", "alpha"].map(String::from);
    let source = rust_source(&named(&plain), &SourceOptions::default());
    let words = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = words.flat_map(|line| line.split(|c: char| c != '_' && !c.is_alphanumeric()));
    // Names of the kernel's own indices end in an underscore; a lone underscore is not a name.
    let words = words.filter(|word| !word.ends_with('_') && word.starts_with(|c: char| c == '_' || c.is_alphabetic()));
    let more = ["None", "Some", "Ok", "Err", "MESH", "self", "Self", "in", "type", "gen", "v0", "v1", "min", "é"];
    let more = more.into_iter().chain(["permutation", "nest", "contract", "pointwise", "x", "X", "x_", "x__", "x_y"]);
    let all: BTreeSet<&str> = words.chain(more).collect();
    let mut sets: Vec<Vec<&str>> = all.iter().copied().collect::<Vec<_>>().chunks(ROLES).map(<[_]>::to_vec).collect();
    // The last set is completed with the first names.
    let last = sets.last_mut().expect("there are names");
    last.extend(all.iter().take(ROLES - last.len()));
    assert!(sets.len() > 8, "hardly a name: {all:?}");
    // A different role for each name in each set.
    let turned = |(turn, mut set): (usize, Vec<&str>)| {
        set.rotate_left(turn % ROLES);
        set.iter().map(|&name| name.to_owned()).collect::<Vec<_>>().try_into().expect("as many names as roles")
    };
    sets.into_iter().enumerate().map(turned).collect()
}

/// Cargo without the network, which the lock file makes unnecessary.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.env("CARGO_NET_OFFLINE", "true");
    cargo
}

/// The output of a command, which must succeed.
fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{command:?}:\n{out}\n{err}");
    output
}

/// The last element of a matrix of `f32` in a `.npy` file of version 1.
fn last_element(path: &Path) -> f32 {
    let bytes = fs::read(path).expect("the README's program writes it");
    assert!(bytes.starts_with(b"\x93NUMPY"), "{} is no .npy file", path.display());
    f32::from_le_bytes(*bytes.last_chunk().expect("an element"))
}

/// The program of a sequence reads its inputs, runs, checks itself and reports that on each rank; on threads and
/// processes it writes the same.
fn check_computed(folder: &Path, program: &Path) {
    let chain = chain();
    let files = ["X.npy", "W.npy", "V.npy"].map(|name| folder.join(name));
    let wrote = polyshard::spmd(1, |world| {
        for (array, file) in chain.inputs().zip(&files) {
            let sharding = Sharding::new(&Mesh::new([("x", 1)]), array.sharding.shape(), &[])?;
            let element = |at: &[usize]| (3 * at[0] + 5 * at[1]) as f64 % 7.0 - 3.0;
            DistArray::from_fn(world, &sharding, element)?.to_npy(world, file)?;
        }
        Ok(())
    });
    wrote.expect("files are written");
    let read = |file: &Path| NpyFile::open(file).and_then(|file| file.read::<f64>()).expect("it was written");
    let whole = files.each_ref().map(|file| read(file));
    let nests: Vec<_> = chain.nests().collect();
    let middle = reference(&nests[0].kernel, &[&whole[0], &whole[1]], None).expect("a reference");
    let expected = reference(&nests[1].kernel, &[&middle, &whole[2]], None).expect("a reference");
    for start in STARTS {
        let arguments = ["X.npy", "W.npy", "V.npy", "Z.npy"].map(|name| folder.join(name).display().to_string());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--check"]).collect();
        let Ended { success, stdout, stderr, .. } = run(*start, program, &arguments, Duration::from_secs(60));
        assert!(success, "{start:?}: {stdout}\n{stderr}");
        let mut lines: Vec<&str> = stdout.lines().collect();
        lines.sort_unstable();
        let [first, of_first, second, of_second] = lines[..] else { panic!("{stdout}") };
        for (rank, elements, line, error) in [(0, 4 * 4, first, of_first), (1, 3 * 4, second, of_second)] {
            assert!(line.starts_with(&format!("rank {rank} of 2: {elements} elements of Z in ")), "{line}");
            assert_eq!(error, format!("rank {rank} of 2: largest error 0e0"));
        }
        assert_eq!(read(&folder.join("Z.npy")), expected);
    }
}

/// Ways to start two ranks.
const STARTS: &[Start] = &[
    Start::Plain,
    #[cfg(feature = "mpi")]
    Start::Mpi(2),
];

#[test]
fn a_crate_outside_builds_and_runs() {
    let programs = emitted::programs();
    let workspace = write_crate(&emitted::modules(&programs));
    let folder = &workspace.folder;
    let ended = workspace.build(&["--workspace", "--bins", "--examples"]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let built = |name: &str| target().join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let run = |name: &str| output(Command::new(built(name)).current_dir(folder));
    let said = run("outside").stdout;
    assert_eq!(String::from_utf8_lossy(&said), "all of it is right\n");
    let bits = run("random").stdout;
    let bits: Vec<String> = String::from_utf8_lossy(&bits).lines().map(str::to_owned).collect();
    let executed = emitted::executed(&programs);
    assert_eq!(bits.len(), executed.len());
    for ((emitted, executed), program) in bits.iter().zip(&executed).zip(&programs) {
        assert_eq!(emitted, executed, "source and executor differ on\n{program}");
    }
    check_computed(folder, &built("computed"));
    chosen::check(folder, &built("chosen"));
    run("readme");
    let found = f64::from(last_element(&folder.join("C.npy")));
    let expected: f64 = (0..2048).map(|k| ((511 + k) * (k * 1023 % 7)) as f64).sum();
    assert!((found - expected).abs() < 1e-4 * expected, "{found} is not {expected}");
}
