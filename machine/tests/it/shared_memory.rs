//! Which devices read each other's memory: stated per level, also in TOML.

use polyshard_machine::Machine;

#[test]
fn it_is_said_of_a_level_and_written() {
    let machine = Machine::preset("v100").and_then(|machine| machine.with_counts(&[2, 3])).expect("a machine");
    assert!(!machine.shares_memory(&[0, 1]) && machine.shares_memory(&[4]) && machine.shares_memory(&[]));
    let shared = machine.with_shared_memory("gpu").expect("a level");
    assert!(shared.shares_memory(&[0, 1, 2]) && shared.shares_memory(&[5, 3]));
    assert!(!shared.shares_memory(&[2, 3]), "they are on two nodes");
    let all = shared.clone().with_shared_memory("node").expect("a level");
    assert!(all.shares_memory(&[0, 5]));
    let text = shared.to_toml();
    assert!(text.contains("shared_memory = \"gpu\""), "{text}");
    assert_eq!(Machine::from_toml(&text).expect("it was written"), shared);
    // Smaller counts keep it.
    let fewer = shared.with_counts(&[2, 2]).expect("a machine");
    assert!(fewer.shares_memory(&[2, 3]) && !fewer.shares_memory(&[1, 2]));
}

#[test]
fn a_level_that_there_is_not_is_refused() {
    let machine = Machine::preset("v100").expect("a machine");
    let said = machine.clone().with_shared_memory("core").expect_err("no such level").to_string();
    assert_eq!(said, "no level `core`; the levels are node, gpu");
    let text = machine.to_toml().replacen("\n", "\nshared_memory = \"core\"\n", 1);
    assert_eq!(Machine::from_toml(&text).expect_err("no such level").to_string(), said);
}
