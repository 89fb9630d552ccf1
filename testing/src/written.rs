//! Programs as files.

use polyshard::program::Program;

/// Writes a program as JSON, and returns the program read back from it.
///
/// # Panics
/// If the two programs differ.
#[must_use]
pub fn read_back(program: &Program) -> Program {
    let text = serde_json::to_string(program).expect("a program is written");
    let read: Program = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{program}\n{text}"));
    assert!(read == *program, "another program was read\n{program}\n{read}");
    read
}
