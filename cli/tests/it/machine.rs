//! `polyshard machine`, as a user runs it: lists, tables, measurements, plots, and errors.
//!
//! No time is asserted, only relations that must hold for all times. On a machine that is busy with other tests,
//! warnings are printed and slow measurements show their progress; nothing else is on standard error.

use expect_test::expect;
use polyshard::machine::Machine;
use polyshard_testing::command_line::{CommandLine, json};
use polyshard_testing::start::{Ended, Start};
use polyshard_testing::test_folder;

/// The command line.
const COMMAND_LINE: CommandLine = CommandLine::new(env!("CARGO_BIN_EXE_polyshard"), env!("CARGO_TARGET_TMPDIR"));

fn machine(start: Start, arguments: &[&str]) -> Ended {
    COMMAND_LINE.run(start, &[&["machine"], arguments].concat())
}

/// Runs the subcommand and returns its output and its warnings.
#[track_caller]
fn warned(start: Start, arguments: &[&str]) -> (String, Vec<String>) {
    let Ended { success, stdout, stderr, .. } = machine(start, arguments);
    assert!(success, "{arguments:?} on {start:?}:\n{stdout}\n{stderr}");
    let lines = stderr.lines().filter(|line| !line.starts_with("measuring, "));
    let warning = |line: &str| line.strip_prefix("warning: ").unwrap_or_else(|| panic!("{stderr}")).to_owned();
    (stdout, lines.map(warning).collect())
}

/// Runs the subcommand and returns its output.
#[track_caller]
fn said(start: Start, arguments: &[&str]) -> String {
    warned(start, arguments).0
}

/// Checks that the figures of a machine are consistent, or that a warning says otherwise.
#[track_caller]
fn check_figures(machine: &Machine, warnings: &[String]) {
    let device = machine.device();
    let is_more = |alone: f64| machine.devices() > 1 && alone > device.memory_bandwidth;
    assert!(device.memory_alone.is_none_or(is_more) && device.row_latency < 1e-3, "{}", machine.to_toml());
    let [single, double] = ["f32", "f64"].map(|kind| device.flops[kind]);
    let plausible = 4.0 * double >= single && 1.5 * single >= double;
    assert!(plausible || warnings.iter().any(|told| told.starts_with("products in f64 ran at ")), "{warnings:?}");
    for warning in warnings {
        assert!(warning.contains("measure again"), "{warning}");
    }
}

#[track_caller]
fn refused(arguments: &[&str], message: &str) {
    COMMAND_LINE.refused(&[&["machine"], arguments].concat(), message);
}

#[test]
fn machines_with_a_name_are_listed() {
    let list = said(Start::Plain, &["list"]);
    expect![[r#"
        name     levels             devices  memory each  operations each
        a100     4 nodes x 16 gpus       64        40 GB  624 TOP/s in i8
        v100     4 nodes x 8 gpus        32        16 GB  125 TFLOP/s in f16
        tpu-v4p  4 x, 4 y, 4 z           64        32 GB  275 TOP/s in i8
        tpu-v5e  4 x, 4 y                16        16 GB  394 TOP/s in i8
        tpu-v5p  4 x, 4 y, 4 z           64        96 GB  918 TOP/s in i8
    "#]]
    .assert_eq(&list);
    let machines = json(&said(Start::Plain, &["list", "--json"]));
    let names: Vec<_> = machines.as_array().unwrap().iter().map(|machine| machine["name"].as_str().unwrap()).collect();
    assert_eq!(names, polyshard::machine::PRESETS);
}

#[test]
fn a_machine_is_shown_by_name_and_from_a_file() {
    expect![[r#"
        v100: 4 nodes x 8 gpus, 32 devices

        level  count  connected by            bandwidth  latency
        node       4  switch, 1 port shared      8 GB/s    20 us
        gpu        8  ring, bypass 16 GB/s   67.50 GB/s     3 us

        device: 16 GB of memory at 900 GB/s; bf16 15.70 TFLOP/s, f16 125 TFLOP/s, f32 15.70 TFLOP/s, f64 7.80 TFLOP/s, i32 15.70 TOP/s, i64 3.92 TOP/s, i8 15.70 TOP/s
    "#]]
    .assert_eq(&said(Start::Plain, &["show", "v100"]));
    assert_eq!(said(Start::Plain, &["show", "v100", "--toml"]), Machine::preset("v100").unwrap().to_toml());
    let file = test_folder!("machine_show").join("mine.toml");
    let text = Machine::preset("tpu-v5e")
        .unwrap()
        .to_toml()
        .replace("tpu-v5e", "mine")
        .replace("[device]\n", "[device]\nmemory_alone = 1e12\nrow_latency = 2e-7\n")
        + "[device.products.bf16]\nlatency = 1e-6\nrows = [[16, 2e13]]\ncolumns = [[4, 1e13], [16, 4e13]]\ndepth = []\n"
        + "[[profile]]\noperation = \"AllReduce\"\nranks = 4\nbytes = [1024.0, 4096.0]\nfactor = [3.0, 1.5]\n";
    std::fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    let shown = said(Start::Plain, &["show", file]);
    assert!(shown.starts_with("mine: 4 x, 4 y, 16 devices\n"), "{shown}");
    let device =
        "device: 16 GB of memory at 810 GB/s, 1 TB/s for a device alone, and 200 ns per non-contiguous row; bf16";
    assert!(shown.contains(device), "{shown}");
    let products =
        "products  latency  16 rows  4 columns  16 columns\nbf16         1 us     10 %        5 %        20 %\n";
    assert!(shown.contains(products), "{shown}");
    let last = shown.lines().last().map(|row| row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()));
    assert_eq!(last.unwrap().collect::<Vec<_>>(), ["AllReduce", "4", "1 KiB to 4 KiB", "1.50 to 3.00"], "{shown}");
    let shown = json(&said(Start::Plain, &["show", file, "--json"]));
    assert_eq!(shown, serde_json::to_value(Machine::from_toml(&text).unwrap()).unwrap());
    assert_eq!(shown["level"][0]["bandwidth"], 4.5e10);
}

/// Checks the output, files and plots of `detect` and `measure`.
#[track_caller]
fn found(start: Start, ranks: usize, arguments: &[&str]) {
    let folder = test_folder!(&format!("machine_{ranks}_{}", arguments.len()));
    let files = ["found.toml", "measured.toml", "measured.svg"].map(|name| folder.join(name).display().to_string());
    let (detected, warnings) = warned(start, &[&["detect", "--out", &files[0]], arguments].concat());
    let topology = format!("1 node with {ranks} rank{}, ", if ranks == 1 { "" } else { "s" });
    assert_eq!(detected.matches(&topology).count(), 1, "the first rank alone speaks:\n{detected}");
    let detected = Machine::from_toml(&std::fs::read_to_string(&files[0]).unwrap()).unwrap();
    assert_eq!((detected.hierarchy(), detected.name()), (vec![ranks], "detected"));
    check_figures(&detected, &warnings);

    let quick = ["measure", "--quick", "--sizes", "4KiB,1KiB,64KiB", "--json"];
    let (said, warnings) = warned(start, &[&quick, arguments, &["--out", &files[1], "--plot", &files[2]]].concat());
    let answer = json(&said);
    let text = std::fs::read_to_string(&files[1]).unwrap();
    let measured = Machine::from_toml(&text).unwrap();
    assert_eq!(measured.to_toml(), text, "what was read is written as it was");
    check_figures(&measured, &warnings);
    assert!(answer["noise"]["spread"].as_f64().unwrap() >= 0.0, "{said}");
    // Compare as text, since a number parsed from JSON may differ in its last bit.
    assert!(said.contains(&serde_json::to_string(&measured).unwrap()), "{said}");
    // Threads share memory; the latency may be lost in noise.
    assert!(!matches!(start, Start::Plain) || measured.device().memory_of_others.is_some(), "{text}");
    let groups = (2..=ranks).filter(|group| ranks.is_multiple_of(*group)).count();
    assert_eq!((measured.devices(), measured.profiles().len()), (ranks, 8 * groups));
    let points = answer["points"].as_array().unwrap();
    let of_all = points.iter().filter(|point| point["ranks"] == ranks).count();
    assert_eq!(of_all, 3 * 9, "three sizes of messages and eight collectives");
    assert_eq!(points[0]["call"], "message to next rank");
    assert!(points.iter().all(|point| point["seconds"].as_f64().unwrap() > 0.0));
    let errors = answer["errors"].as_array().unwrap();
    assert_eq!(errors.iter().filter(|row| row["call"] == "all collectives").count(), groups);

    let drawing = std::fs::read_to_string(&files[2]).unwrap();
    let drawing = roxmltree::Document::parse(&drawing).unwrap();
    let count = |tag: &str| drawing.descendants().filter(|node| node.has_tag_name(tag)).count();
    assert_eq!(count("circle"), of_all, "a dot for each measurement of all ranks");
    let texts: Vec<_> = drawing.descendants().filter_map(|node| node.text()).map(str::trim).collect();
    for text in ["AllReduce", "message to next rank", "time of one call (seconds)", "16 KiB"] {
        assert!(texts.contains(&text), "no `{text}` among {texts:?}");
    }
}

#[test]
fn machines_are_found_on_threads() {
    found(Start::Plain, 2, &[]);
    found(Start::Plain, 3, &["--ranks", "3"]);
}

#[cfg(feature = "mpi")]
#[test]
fn machines_are_found_under_mpirun() {
    found(Start::Mpi(2), 2, &["--ranks", "2"]);
    found(Start::Mpi(4), 4, &[]);
}

#[test]
fn errors_are_a_table_of_medians() {
    let said = said(Start::Plain, &["measure", "--quick", "--sizes", "1KiB,4KiB", "--ranks", "4"]);
    let rows: Vec<_> = said.lines().skip_while(|line| !line.starts_with("median error of")).collect();
    let head: Vec<_> = rows[0].split("  ").filter(|word| !word.is_empty()).map(str::trim).collect();
    assert_eq!(head, ["median error of", "ranks", "sizes", "links alone", "predicted"]);
    assert_eq!(rows.iter().filter(|row| row.starts_with("all collectives  ") && row.ends_with(" %")).count(), 2);
    assert_eq!(rows.iter().filter(|row| row.starts_with("AllToAll  ")).count(), 2, "on all ranks and in pairs");
}

#[test]
fn what_cannot_be_shown_or_measured_is_refused_with_what_to_do() {
    let unknown = "no machine `a1000`; the presets are a100, v100, tpu-v4p, tpu-v5e, tpu-v5p; a machine of your own is a \
                   file, such as machine.toml";
    refused(&["show", "a1000"], unknown);
    let folder = test_folder!("machine_refused");
    let file = folder.join("none.toml");
    std::fs::write(&file, Machine::preset("v100").unwrap().to_toml().replace("8000000000.0", "0.0")).unwrap();
    let file = file.to_str().unwrap();
    refused(&["show", file], &format!("`{file}`: level `node`: `bandwidth` is 0 bytes/s; give more than 0"));
    refused(&["measure", "--ranks", "1"], "rank 0: measuring messages needs at least 2 ranks");
    let small = "rank 0: size 8 does not have an element for each of 4 ranks; give sizes of 16 bytes or more";
    refused(&["measure", "--ranks", "4", "--sizes", "8,1KiB"], small);
    let few = "rank 0: [1024] are too few sizes to tell latency from bandwidth; give at least two, 8 bytes apart";
    refused(&["measure", "--sizes", "1KiB"], few);
    let gone = folder.join("gone");
    let file = gone.join("m.toml");
    let (gone, file) = (gone.display(), file.to_str().unwrap());
    let message = format!("rank 0: cannot write `{file}`: the folder `{gone}` does not exist; create it first");
    refused(&["measure", "--out", file], &message);
    refused(&["detect", "--out", file], &message);
    let said = machine(Start::Plain, &["measure", "--sizes", "1XB"]);
    let message = "invalid value '1XB' for '--sizes <1KiB,64KiB,4MiB>': cannot read the size `1XB`; write bytes such as \
                   4096, 64MiB, 1.5GiB or 2GB";
    assert!(!said.success && said.stderr.contains(message), "{}", said.stderr);
}

#[cfg(feature = "mpi")]
#[test]
fn another_number_of_ranks_than_of_processes_is_refused_once() {
    let Ended { success, stdout, stderr, .. } = machine(Start::Mpi(3), &["detect", "--ranks", "2"]);
    let message = "error: rank 0: the program is for 2 ranks, but runs on 3: start it with `mpirun -n 2`";
    assert!(!success && stdout.is_empty(), "{stdout}");
    assert_eq!(stderr.matches(message).count(), 1, "{stderr}");
}
