//! Machines: reading and writing text, presets, and refused input.

use expect_test::expect;
use polyshard_machine::{Device, Machine, MachineError, PRESETS};
use proptest::prelude::*;

use polyshard_testing::planner::machines::machines;

/// The only place that reads machines, so a change of the text needs an edit of one function.
fn refused(from: &str, to: &str) -> String {
    let text = Machine::preset("v100").expect("a preset").to_toml();
    assert!(text.contains(from), "{from:?} is not in\n{text}");
    let error = Machine::from_toml(&text.replacen(from, to, 1)).expect_err("a machine that is none");
    format!("{error:?}\n")
}

#[test]
fn a_machine_is_written_as_people_write_it() {
    let text = Machine::preset("v100").expect("a preset").to_toml();
    expect![[r#"
        name = "v100"

        [device]
        memory_bandwidth = 900000000000.0
        memory_capacity = 16000000000
        streams = true

        [device.flops]
        bf16 = 15700000000000.0
        f16 = 125000000000000.0
        f32 = 15700000000000.0
        f64 = 7800000000000.0
        i32 = 15700000000000.0
        i64 = 3925000000000.0
        i8 = 15700000000000.0

        [[level]]
        name = "node"
        count = 4
        interconnect = "switch"
        bandwidth = 8000000000.0
        latency = 0.00002
        shared_ports = 1

        [[level]]
        name = "gpu"
        count = 8
        interconnect = "ring"
        bandwidth = 67500000000.0
        latency = 0.000003
        bypass = 16000000000.0
    "#]]
    .assert_eq(&text);
}

#[test]
fn figures_of_thin_products_that_are_none_are_refused() {
    let with =
        |figures: &str| refused("[device.flops]", &format!("[device.products.f64]\n{figures}\n\n[device.flops]"));
    let refusals = [
        with("latency = -1.0\nrows = []\ncolumns = []\ndepth = []"),
        with("latency = 0.0\nrows = [[16, 1e9], [4, 1e9]]\ncolumns = []\ndepth = []"),
        with("latency = 0.0\nrows = []\ncolumns = [[64, 1e9]]\ndepth = []"),
        with("latency = 0.0\nrows = []\ncolumns = []\ndepth = [[4, 0.0]]"),
        with("latency = 0.0\nrows = []\ncolumns = []"),
    ]
    .concat();
    expect![[r#"
        device: latency of products of `f64` is -1 s; give 0 or more
        device: list of rows of products of `f64` is [16, 4]; give extents of 1 to 63, ascending
        device: list of columns of products of `f64` is [64]; give extents of 1 to 63, ascending
        device: rate by depth of products of `f64` is 0; give more than 0 operations per second
        cannot read the machine: TOML parse error at line 8, column 1
          |
        8 | [device.products.f64]
          | ^^^^^^^^^^^^^^^^^^^^^
        missing field `depth`
    "#]]
    .assert_eq(&refusals);
}

#[test]
fn what_is_no_machine_is_refused_with_what_to_do() {
    let refusals = [
        refused("count = 4", "count = four"),
        refused("shared_ports = 1", "sharedports = 1"),
        refused("latency = 0.00002", ""),
        refused("\"switch\"", "\"bus\""),
        refused("count = 4", "count = -4"),
        refused("count = 4", "count = 0"),
        refused("count = 4", "count = 9223372036854775807"),
        refused("\"gpu\"", "\"node\""),
        refused("bandwidth = 8000000000.0", "bandwidth = 0.0"),
        refused("latency = 0.00002", "latency = -1.0"),
        refused("shared_ports = 1", "shared_ports = 0"),
        refused("shared_ports = 1", "bypass = 1e9"),
        refused("\"switch\"", "{ torus = [2, 3] }"),
        refused("memory_capacity = 16000000000", "memory_capacity = 0"),
        refused("f64 = 7800000000000.0", "f64 = inf"),
    ]
    .concat();
    expect![[r#"
        cannot read the machine: TOML parse error at line 19, column 9
           |
        19 | count = four
           |         ^^^^
        invalid boolean, expected `false`
        cannot read the machine: TOML parse error at line 23, column 1
           |
        23 | sharedports = 1
           | ^^^^^^^^^^^
        unknown field `sharedports`, expected one of `name`, `count`, `interconnect`, `bandwidth`, `latency`, `shared_ports`, `bypass`
        cannot read the machine: TOML parse error at line 17, column 1
           |
        17 | [[level]]
           | ^^^^^^^^^
        missing field `latency`
        cannot read the machine: TOML parse error at line 20, column 16
           |
        20 | interconnect = "bus"
           |                ^^^^^
        unknown variant `bus`, expected one of `switch`, `ring`, `line`, `torus`
        cannot read the machine: TOML parse error at line 19, column 9
           |
        19 | count = -4
           |         ^^
        invalid value: integer `-4`, expected usize
        level `node`: `count` is 0; a level has at least one member
        levels of [9223372036854775807, 8] members make more devices than fit in 64 bits; give smaller counts
        two levels are named `node`; give each its own name
        level `node`: `bandwidth` is 0 bytes/s; give more than 0
        level `node`: `latency` is -1 s; give 0 or more
        level `node`: `shared_ports` is 0; leave it out if each device has its own port
        level `node`: `bypass` is 1000000000 bytes/s; only a ring or a line has one; leave it out
        level `node`: `torus` is [2, 3]; give extents that multiply to the count
        device: memory_capacity is 0; give 1 byte or more, and less than 2^63
        device: flops of `f64` is inf; give more than 0
    "#]].assert_eq(&refusals);
}

#[test]
fn unknown_names_are_answered_with_those_that_exist() {
    let unknown = Machine::preset("h100").expect_err("no preset");
    expect!["no machine `h100`; the presets are a100, v100, tpu-v4p, tpu-v5e, tpu-v5p"].assert_eq(&unknown.to_string());
    let machine = Machine::preset("a100").expect("a preset");
    let unknown = machine.clone().with_bandwidth("nodes", 1e9).expect_err("no level");
    expect!["no level `nodes`; the levels are node, gpu"].assert_eq(&unknown.to_string());
    let counts = machine.with_counts(&[2, 2, 2]).expect_err("one too many");
    expect!["[2, 2, 2] gives 3 counts for 2 levels; give one for each of node, gpu"].assert_eq(&counts.to_string());
    assert_eq!(Machine::new("none", vec![], Device::default()), Err(MachineError::NoLevels));
    assert!(Machine::sized("tpu-v4p", &[2, 2, 2, 2]).is_err());
}

#[test]
fn presets_are_as_the_references_say() {
    let hierarchy = |name: &&str| Machine::preset(name).expect("a preset").hierarchy();
    let hierarchies: Vec<_> = PRESETS.iter().map(hierarchy).collect();
    assert_eq!(hierarchies, [vec![4, 16], vec![4, 8], vec![4, 4, 4], vec![4, 4], vec![4, 4, 4]]);
    // Part 3 of "How to Scale Your Model": operations per second in bf16, and both directions of a link.
    let figures = |name| {
        let machine = Machine::preset(name).expect("a preset");
        (machine.device().flops["bf16"], 2.0 * machine.levels()[0].bandwidth)
    };
    assert_eq!(figures("tpu-v4p"), (2.75e14, 9e10));
    assert_eq!(figures("tpu-v5e"), (1.97e14, 9e10));
    assert_eq!(figures("tpu-v5p"), (4.59e14, 1.8e11));
}

proptest! {
    #[test]
    fn a_machine_that_is_written_and_read_is_the_same(machine in machines()) {
        prop_assert_eq!(Machine::from_toml(&machine.to_toml()).expect("it reads"), machine);
    }
}
