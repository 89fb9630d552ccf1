//! A complete Rust program from the kernels of a program: it reads, runs, checks and reports on each rank.
//!
//! It is built as text and not as a syntax tree, since only a few places depend on names, and the reader should be able
//! to start from it as from an example. Unlike [`rust_source`](crate::rust_source) it contains kernels and schedules,
//! not their programs:
//!
//! ```text
//! kernel! { pub fn summa(A: [f64; 64, 64], ..) -> C: .. { .. }  mesh(x: 2) .distribute(..) }
//! fn main() { .. }
//! fn run() { let program = summa::schedule().lower()?; spmd(2, |world| read, run, verify, write) }
//! ```
//!
//! With several kernels, `program` is a `Sequence` with a stage for each, and nested rounds.

use polyshard_layout::{Name, counted};
use polyshard_program::{ArrayId, ArrayKind, Continued, NestView, Program, Rounds, Statement};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;

/// The profiles of the manifest, which shorten the build.
const PROFILES: &str = include_str!("profiles.toml");

/// Returns the files of a Rust program that does the same computation on arrays in `.npy` files: their paths and texts.
///
/// The package is called `compute-` plus the name of the last kernel. It depends on the checkout that this crate was
/// built from if it still exists, otherwise on the repository. With `--check` as its last argument, the program
/// compares its result with a sequential computation.
///
/// The kernels are compiled with their schedules and combined into a sequence: inputs and outputs have the shardings of
/// their kernels. A program without kernels gives a program that reads and writes nothing.
///
/// ```
/// # use polyshard::prelude::*;
/// let matmul = kernel! {
///     fn matmul(A: [f32; 8, 8], B: [f32; 8, 8]) -> C: [f32; 8, 8] { C[m, n] += A[m, k] * B[k, n] }
/// };
/// let rows = matmul.distribute(["m"], ["mo"], ["mi"], &Mesh::new([("x", 2)]));
/// let [(manifest, _), (main, text)] = polyshard::source::rust_main(&rows.lower()?);
/// assert_eq!([manifest, main], ["Cargo.toml", "src/main.rs"]);
/// assert!(text.contains("    .distribute([m], [mo], [mi], mesh(x: 2))\n"));
/// # Ok::<(), polyshard::Error>(())
/// ```
#[must_use]
pub fn rust_main(program: &Program) -> [(&'static str, String); 2] {
    // Kernels may have names that packages must not have, such as `test` or `std`.
    let last = program.nests().last().map(|nest| nest.kernel.name().as_str().to_lowercase());
    let package = format!("compute-{}", last.as_deref().unwrap_or("nothing"));
    let manifest = format!(
        r#"[package]
name = "{package}"
version = "0.1.0"
edition = "2024"

# A package of its own, wherever it lies.
[workspace]

[dependencies]
polyshard = {}

{PROFILES}"#,
        dependency(env!("CARGO_MANIFEST_DIR"), option_env!("POLYSHARD_COMMIT"))
    );
    [("Cargo.toml", manifest), ("src/main.rs", main(program, &package))]
}

/// The dependency on the Polyshard that was built in this folder of its workspace, at this commit if known.
fn dependency(folder: &str, commit: Option<&str>) -> String {
    let checkout = Path::new(folder).parent().filter(|checkout| checkout.join("Cargo.toml").is_file());
    // Cargo may remove a checkout that it has fetched; the name of its folder is the commit.
    let fetched = checkout.filter(|checkout| checkout.join(".cargo-ok").is_file());
    match (checkout, fetched) {
        (Some(checkout), None) => format!("{{ path = {:?} }}", checkout.display().to_string()),
        _ => {
            let commit = commit.or_else(|| fetched.and_then(Path::file_name).and_then(OsStr::to_str));
            let commit = commit.map_or_else(String::new, |commit| format!(", rev = {commit:?}"));
            format!("{{ git = {:?}{commit} }}", env!("CARGO_PKG_REPOSITORY"))
        }
    }
}

fn main(program: &Program, package: &str) -> String {
    let of_kind = |kind: ArrayKind| program.of_kind(kind).iter().map(|&id| program.array(id).name).collect::<Vec<_>>();
    let (inputs, outputs) = (of_kind(ArrayKind::Input), of_kind(ArrayKind::Output));
    let output = outputs.last().map_or_else(String::new, Name::to_string);
    let dtype = program.dtype();
    let files: Vec<_> = inputs.iter().map(|name| format!("{name}.npy")).chain([format!("{output}.npy")]).collect();
    let names = Names::new(program);
    let modules: Vec<_> = program.nests().map(|nest| names.module(&nest)).collect();
    let statements: Vec<_> = program.nests().map(|nest| nest.kernel.statement()).collect();
    let made = match &names.modules[..] {
        [name] if program.body().rounds.is_empty() && program.nests().all(|nest| nest.continues.is_none()) => {
            format!("{name}::schedule().lower()")
        }
        _ => {
            let stages = names.stages(&program.body().statements);
            // A carried array is an output only if requested.
            let outputs = || program.of_kind(ArrayKind::Output).into_iter().map(|id| (id, names.quoted(id)));
            let kept = outputs().filter(|(id, _)| program.is_carried(*id));
            let kept: String = kept.map(|(_, value)| format!("        .keep({value})\n")).collect();
            let called = outputs().map(|(id, value)| (value, format!("{:?}", program.array(id).name.as_str())));
            let called = called.filter(|(value, name)| value != name);
            let called: String = called.map(|(value, name)| format!("        .call({value}, {name})\n")).collect();
            format!("Sequence::new()\n{stages}{kept}{called}        .build()")
        }
    };
    format!(
        r#"//! Computes `{statements}` on {all_ranks}.
//!
//! ```text
//! cargo build --release
//! mpirun -n {ranks} target/release/{package} {files}
//! ```
//!
//! Without `mpirun`, ranks are threads. With `--check` after the files, the result is compared with a sequential computation.

use polyshard::prelude::*;
use std::time::Instant;

{modules}
fn main() {{
    run().unwrap_or_else(|error| polyshard::exit(1, format_args!("error: {{error}}")));
}}

fn run() -> Result<(), Box<dyn std::error::Error>> {{
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let is_checked = files.pop_if(|last| last == "--check").is_some();
    let [inputs @ .., out] = &files[..] else {{ return Err("give {files}".into()) }};
    if inputs.len() != {count} {{
        return Err("give {files}".into());
    }}
    let program = {made}?;
    polyshard::spmd(program.mesh().size(), |world| {{
        // Each rank reads its own part of each array.
        let arrays = program.inputs().zip(inputs);
        let arrays = arrays.map(|(array, file)| DistArray::<{dtype}>::read_npy(world, file, &array.sharding));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let arrays: Vec<_> = arrays.iter().collect();
        let start = Instant::now();
        let result = program.run(world, &arrays)?;
        let seconds = start.elapsed().as_secs_f64();
        let (rank, ranks, elements) = (world.rank(), world.size(), result.block().len());
        println!("rank {{rank}} of {{ranks}}: {{elements}} elements of {output} in {{seconds:.6}} s");
        if is_checked {{
            let error = program.verify(world, &arrays, &[&result], {tolerance})?;
            println!("rank {{rank}} of {{ranks}}: largest error {{error:e}}");
        }}
        result.to_npy(world, out)?;
        Ok(())
    }})?;
    Ok(())
}}
"#,
        statements = statements.join("`, `"),
        all_ranks = counted(program.mesh().size(), "rank"),
        ranks = program.mesh().size(),
        files = files.join(" "),
        modules = modules.join("\n"),
        count = inputs.len(),
        tolerance = if dtype.is_float() { "1e-4" } else { "0.0" },
    )
}

/// Names in the sequence.
struct Names<'a> {
    program: &'a Program,
    /// By array: the value that it holds.
    values: Vec<String>,
    /// By kernel: its module.
    modules: Vec<String>,
}

impl<'a> Names<'a> {
    fn new(program: &'a Program) -> Self {
        let ids = || (0..program.arrays().len()).map(ArrayId);
        let homes: Vec<ArrayId> = ids().map(|id| home(program, id)).collect();
        let mut counts: HashMap<Name, usize> = HashMap::new();
        let own = ids().filter(|id| homes[id.0] == *id);
        own.for_each(|id| *counts.entry(program.array(id).name).or_default() += 1);
        // Kernels may write several versions of an array.
        let is_temporary = |id: ArrayId| program.array(id).kind == ArrayKind::Temporary;
        let mut written = program.nests().map(|nest| nest.writes()).filter(|id| is_temporary(*id));
        let has_versions = written.any(|id| counts[&program.array(id).name] > 1);
        let value = |id: ArrayId| match () {
            () if has_versions => program.shown(id),
            () if is_called(program, id) => format!("{}_out", program.array(id).name),
            () => program.array(id).name.to_string(),
        };
        let values = homes.into_iter().map(value).collect();
        let kernels: Vec<Name> = program.nests().map(|nest| nest.kernel.name()).collect();
        let is_shared = kernels.iter().collect::<HashSet<_>>().len() < kernels.len();
        let module = |(number, name): (usize, &Name)| match is_shared {
            true => format!("{name}_{number}"),
            false => name.to_string(),
        };
        Self { program, values, modules: (1..).zip(&kernels).map(module).collect() }
    }

    /// The kernel and its chain, in the syntax of `kernel!`.
    fn module(&self, nest: &NestView<'_>) -> String {
        let steps: String = nest.steps.iter().map(|step| format!("    .{step}\n")).collect();
        let kernel = nest.kernel.definition().replacen(nest.kernel.name().as_str(), &self.modules[nest.id.0], 1);
        let text = format!("kernel! {{\n    pub {kernel}\n{steps}}}\n");
        // The next version of an input has a prime, for which there are underscores here.
        let output = nest.kernel.output().name;
        let mut own = format!("{}_", output.array());
        while nest.kernel.tensors().any(|tensor| tensor.name == own.as_str()) {
            own.push('_');
        }
        if output == output.array() { text } else { text.replace(output.as_str(), &own) }
    }

    /// The stages and rounds of a sequence.
    fn stages(&self, statements: &[Statement]) -> String {
        let body = self.program.body();
        let spans = body.spans(statements).map(|span| match span.statements {
            [Statement::Rounds(id, round)] => {
                let Rounds { times, until, carried } = &body.rounds[id.0];
                let carried = carried.iter().map(|carried| {
                    let [first, next, value] = [carried.first, carried.next, carried.value].map(|id| self.quoted(id));
                    match first == value {
                        true => format!("        .carry({next}, {value})\n"),
                        false => format!("        .carry_from({first}, {next}, {value})\n"),
                    }
                });
                let carried: String = carried.collect();
                let until =
                    until.map(|until| format!("        .until({}, {:?})\n", self.quoted(until.scalar), until.below));
                let round = format!("Sequence::new()\n{}{carried}{}", self.stages(round), until.unwrap_or_default());
                format!("        .repeat({times}, {})\n", round.trim_end().replace('\n', "\n        "))
            }
            // Moves follow from the shardings of arrays.
            _ => body.kernels_of(span).into_iter().map(|kernel| self.stage(&body.nest(kernel))).collect(),
        });
        spans.collect()
    }

    /// A kernel of a sequence, with the values that it reads and writes.
    fn stage(&self, nest: &NestView<'_>) -> String {
        let values: Vec<_> = nest.arrays.iter().map(|&id| self.quoted(id)).collect();
        let (output, inputs) = values.split_last().map_or(("", &[][..]), |(output, inputs)| (output.as_str(), inputs));
        let (method, onto) = match nest.continues {
            None => ("stage", String::new()),
            Some(Continued { array, adds }) => {
                (if adds { "accumulate" } else { "version" }, format!(", {}", self.quoted(array)))
            }
        };
        // The type of no inputs has to be stated.
        let inputs = if inputs.is_empty() { "\"\"; 0".to_owned() } else { inputs.join(", ") };
        let kernel = &self.modules[nest.id.0];
        format!("        .{method}(&{kernel}::schedule().lower()?, [{inputs}], {output}{onto})\n")
    }

    /// The value in an array.
    fn quoted(&self, id: ArrayId) -> String {
        format!("{:?}", self.values[id.0])
    }
}

/// The array that holds a value where it was given or written.
fn home(program: &Program, id: ArrayId) -> ArrayId {
    let source = program.moves().find(|moved| moved.target == id).map(|moved| moved.source);
    source.map_or(id, |source| home(program, source))
}

/// Whether the output has the name of an input that is another value, and is not just what rounds make of it.
fn is_called(program: &Program, id: ArrayId) -> bool {
    let (body, name) = (program.body(), program.array(id).name);
    let is_name = |other: &ArrayId| program.array(*other).name == name;
    let is_read = |first: ArrayId| program.nests().any(|nest| nest.needs().any(|id| home(program, id) == first));
    let mut carried = body.rounds.iter().flat_map(|rounds| &rounds.carried);
    program.array(id).kind == ArrayKind::Output
        && program.of_kind(ArrayKind::Input).iter().any(is_name)
        && !carried
            .any(|carried| carried.value == id && is_name(&carried.first) && !is_read(home(program, carried.first)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_program_depends_on_the_checkout_that_it_is_from_or_else_on_the_repository() {
        let folder = tempfile::tempdir().expect("a folder");
        let checkout = folder.path().join("0a1b2c3");
        let of = |commit| dependency(&checkout.join("codegen").display().to_string(), commit);
        let repository = "{ git = \"https://github.com/polyshard/polyshard\"";
        assert_eq!(of(None), format!("{repository} }}"), "the folder is gone");
        assert_eq!(of(Some("abc")), format!("{repository}, rev = \"abc\" }}"));
        fs::create_dir(&checkout).expect("ours");
        fs::write(checkout.join("Cargo.toml"), "").expect("ours");
        assert_eq!(of(Some("abc")), format!("{{ path = {:?} }}", checkout.display().to_string()));
        fs::write(checkout.join(".cargo-ok"), "").expect("ours");
        assert_eq!(of(None), format!("{repository}, rev = \"0a1b2c3\" }}"), "Cargo has fetched it");
    }

    #[test]
    fn the_guide_shows_the_same_profiles() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/building.md");
        assert!(fs::read_to_string(page).expect("the page").contains(PROFILES));
    }
}
