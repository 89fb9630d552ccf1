//! A crate outside of this repository, which depends on `polyshard` by path alone: the README's program, a stencil,
//! kernels compiled with the crate, and emitted source, under whatever names. It builds and gives the right numbers.
//!
//! It is built into this workspace's target folder, with its lock file and profiles, so that what both have in common
//! is built once; `tests/outside/program.rs` is its program.

use polyshard::__private::{Access, Affine, Assign, DType, KernelSpec, Number, Value};
use polyshard::prelude::*;
use polyshard::{LeafKind, Name, Program, SourceOptions, rust_source};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Writes the crate and returns its folder, another one for each workspace.
fn write_crate() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("polyshard-outside-{}", std::process::id()));
    let write = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a temporary folder");
        fs::write(path, text).expect("a temporary file");
    };
    let own = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).expect("the manifest");
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.1.0\"\nedition = \"2024\"\ndefault-run = \"outside\"\n\n\
         [dependencies]\npolyshard = {{ path = {ROOT:?} }}\n\n[workspace]\n\n{}",
        profiles(&own)
    );
    write("Cargo.toml", &manifest);
    fs::copy(Path::new(ROOT).join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file");
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).expect("the README");
    write("src/bin/readme.rs", first_program(&readme));
    write("src/main.rs", include_str!("outside/program.rs"));
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
        calls += &format!("    one({names:?}, [{}], {module}::run)?;\n", shardings.join(", "));
    }
    write(
        "src/named/mod.rs",
        &format!("{check}\n{NAMED}\npub fn check() -> polyshard::Result<()> {{\n{calls}    Ok(())\n}}\n"),
    );
    folder
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

/// The sections of a manifest that say how things are compiled.
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

/// The names of two axes, two loops, three tensors and a scalar.
const ROLES: usize = 8;

/// `C[m + 1, n] = alpha * A[m, k] * B[k, n]` on a mesh of 2x2, with a broadcast, groups of one and of both axes, and
/// an output that travels.
fn named(names: &[String; ROLES]) -> Program {
    let [p, q, ko, ki, a, b, c, alpha] = names.each_ref().map(|name| Name::new(name));
    let [m, n, k, mo, mi, no, ni] = ["m_", "n_", "k_", "mo_", "mi_", "no_", "ni_"].map(Var::new);
    let at = |var: Var| Affine::new([(Name::from(var), 1)], 0);
    let access = |tensor, index: [Var; 2]| Access { tensor, index: index.map(at).to_vec() };
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

/// Names of every kind: what emitted code itself says, keywords, what patterns would take for constants, and names
/// that differ in case alone.
fn name_sets() -> Vec<[String; ROLES]> {
    let plain = ["p", "q", "ko", "ki", "A", "B", "C", "alpha"].map(String::from);
    let source = rust_source(&named(&plain), &SourceOptions::default());
    let words = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = words.flat_map(|line| line.split(|c: char| c != '_' && !c.is_alphanumeric()));
    let words = words.filter(|word| word.starts_with(|c: char| c == '_' || c.is_alphabetic()));
    let more = ["None", "Some", "Ok", "Err", "MESH", "self", "Self", "in", "type", "gen", "v0", "v1", "min", "é"];
    let more = more.into_iter().chain(["permutation", "nest", "contract", "pointwise", "x", "X", "x_", "x__", "x_y"]);
    let all: BTreeSet<&str> = words.chain(more).collect();
    let mut sets: Vec<Vec<&str>> = all.iter().copied().collect::<Vec<_>>().chunks(ROLES).map(<[_]>::to_vec).collect();
    // The last one is filled up with the first names.
    let last = sets.last_mut().expect("there are names");
    last.extend(all.iter().take(ROLES - last.len()));
    assert!(sets.len() > 8, "hardly a name: {all:?}");
    // Another role for each name in each set.
    let turned = |(turn, mut set): (usize, Vec<&str>)| {
        set.rotate_left(turn % ROLES);
        set.iter().map(|&name| name.to_owned()).collect::<Vec<_>>().try_into().expect("as many names as roles")
    };
    sets.into_iter().enumerate().map(turned).collect()
}

/// Runs cargo on the crate, with the target folder that this test was built into.
fn cargo(folder: &Path, arguments: &[&str]) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let cargo = cargo.args(arguments).args(["--offline", "--target-dir"]).arg(target).current_dir(folder);
    let output = cargo.output().expect("cargo is there");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "cargo {arguments:?} in {}:\n{out}\n{err}", folder.display());
}

/// The last element of a matrix of `f32` in a `.npy` file of version 1.
fn last_element(path: &Path) -> f32 {
    let bytes = fs::read(path).expect("the README's program writes it");
    assert!(bytes.starts_with(b"\x93NUMPY"), "{} is no .npy file", path.display());
    f32::from_le_bytes(*bytes.last_chunk().expect("an element"))
}

#[test]
fn a_crate_outside_builds_and_runs() {
    let folder = write_crate();
    cargo(&folder, &["run"]);
    cargo(&folder, &["run", "--bin", "readme"]);
    let found = f64::from(last_element(&folder.join("C.npy")));
    let expected: f64 = (0..2048).map(|k| ((511 + k) * (k * 1023 % 7)) as f64).sum();
    assert!((found - expected).abs() < 1e-4 * expected, "{found} is not {expected}");
    fs::remove_dir_all(folder).expect("the crate was there");
}
