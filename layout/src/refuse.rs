//! Checks that refuse.

/// Returns `error()` if what it refuses `holds`.
///
/// # Errors
/// As the name says.
pub fn refuse_if<E>(holds: bool, error: impl FnOnce() -> E) -> Result<(), E> {
    if holds { Err(error()) } else { Ok(()) }
}
