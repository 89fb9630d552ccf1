//! Errors of leaves that users register or programs name.

use polyshard_layout::{DType, Name, counted, joined};

/// Why a leaf cannot be registered or called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum LeafError {
    /// The name is not an identifier.
    #[error("`{name}` is not a name for a leaf; names are letters, digits and `_`, and do not start with a digit")]
    BadName { name: Name },
    /// The kernel is not a statement over tiles.
    #[error("leaf `{name}` cannot compute `{statement}`: {why}")]
    NoTiles { name: Name, statement: Box<str>, why: Box<str> },
    /// The function takes elements of another type than the kernel's.
    #[error("the kernel of leaf `{name}` is for {kernel}, but its function takes tiles of {function}; make them match")]
    ElementType { name: Name, kernel: DType, function: DType },
    /// The function takes more or fewer operands than the statement has.
    #[error(
        "`{statement}` has {} ({}), but the function of leaf `{name}` takes {taken}; make them match",
        counted(.operands.len(), "operand"), joined(.operands, ", ")
    )]
    Operands { name: Name, statement: Box<str>, operands: Box<[Name]>, taken: usize },
    /// Another function is registered under the name.
    #[error(
        "leaf `{name}` is already registered for {dtype} as `{registered}`; register each leaf once, before `spmd`, \
         under a name of its own"
    )]
    RegisteredAlready { name: Name, dtype: DType, registered: String },
    /// No leaf is registered under the name.
    #[error(
        "no leaf `{name}` for {dtype}; {}: {}", listed(.known), to_register(*.name, .statement)
    )]
    Unknown { name: Name, dtype: DType, statement: Box<str>, known: Box<[Name]> },
    /// A leaf is registered under the name, but for other element types.
    #[error(
        "no leaf `{name}` for {dtype}; it is registered for {}: {}",
        joined(.registered, ", "),
        to_register(*.name, .statement)
    )]
    OtherType { name: Name, dtype: DType, statement: Box<str>, registered: Box<[DType]> },
    /// The registered leaf does not compute the statement of the kernel.
    #[error(
        "leaf `{name}` is registered for {dtype} as `{registered}`, but the kernel needs `{statement}`: register a leaf \
         that computes this, or tensorize with another"
    )]
    OtherStatement { name: Name, dtype: DType, registered: Box<str>, statement: Box<str> },
}

fn listed(known: &[Name]) -> String {
    if known.is_empty() {
        return "none are registered".into();
    }
    format!("the registered leaves are {}", joined(known.iter().map(|name| format!("`{name}`")), ", "))
}

fn to_register(name: Name, statement: &str) -> String {
    format!(
        "call `leaf::register(\"{name}\", &kernel, function)`, where the kernel is `{statement}`, before the program \
         runs, in each rank's process"
    )
}
